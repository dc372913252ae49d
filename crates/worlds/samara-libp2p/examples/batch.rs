//! Publishes a block's columns in one batch over real sockets, and prints when the copies left:
//! `cargo run --release -p samara-libp2p --example batch -- [SCHEDULE]`.
//!
//! Schedules: `interleaved` (the default), `sequential`, `staggered`, `feedback`, `observer` (feedback of
//! one neighbour alone, which gets no copies from the publisher), `weighted-latency` and
//! `weighted-bandwidth`. With `foreign` behind it, the transport is libp2p's own, which measures
//! nothing: weights are an error then.

use std::error::Error;
use std::time::{Duration, Instant};

use libp2p::core::Transport as _;
use libp2p::core::muxing::StreamMuxerBox;
use libp2p::core::upgrade::Version;
use libp2p::futures::StreamExt;
use libp2p::swarm::SwarmEvent;
use libp2p::{Multiaddr, PeerId, Swarm, noise, yamux};
use samara_engine::outbox::{FeedbackSource, MessageOrder, PeerOrder, Schedule, Weight};
use samara_gossipsub::Config;
use samara_gossipsub::rpc::Topic;
use samara_libp2p::transport::tcp;
use samara_libp2p::{Behaviour, Event, LinkEvent, Options, identity_of};

const COLUMNS: usize = 128;
const NEIGHBOURS: usize = 4;

type Failure = Box<dyn Error + Send + Sync>;

fn schedule(name: &str) -> Option<Schedule> {
    let (messages, as_given) = (MessageOrder::AsGiven, PeerOrder::AsGiven);
    let weighted = |weight| Schedule::Interleaved { messages, peers: PeerOrder::Weighted(weight) };
    let feedback = |source| Schedule::Feedback { source, messages, peers: as_given };
    Some(match name {
        "interleaved" => Schedule::INTERLEAVED,
        "sequential" => Schedule::Sequential,
        "staggered" => Schedule::Staggered { timeout: Duration::from_millis(200) },
        "feedback" => feedback(FeedbackSource::Peers { cap: 4 }),
        "observer" => feedback(FeedbackSource::Observers),
        "weighted-latency" => weighted(Weight::Latency),
        "weighted-bandwidth" => weighted(Weight::Bandwidth),
        _ => return None,
    })
}

fn swarm(config: Config, is_foreign: bool) -> Result<Swarm<Behaviour>, Failure> {
    let options = Options { report_sent: true, ..Options::default() };
    let meters = options.meters.clone();
    let builder = libp2p::SwarmBuilder::with_new_identity().with_tokio();
    let behaviour = |key: &libp2p::identity::Keypair| Ok(Behaviour::new(key, config, options)?);
    if is_foreign {
        let builder = builder.with_tcp(Default::default(), noise::Config::new, yamux::Config::default)?;
        return Ok(builder.with_behaviour(behaviour)?.build());
    }
    let builder = builder.with_other_transport(|key| {
        Ok(tcp::Transport::new(Default::default(), &meters)
            .upgrade(Version::V1Lazy)
            .authenticate(noise::Config::new(key)?)
            .multiplex(yamux::Config::default())
            .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer))))
    })?;
    Ok(builder.with_behaviour(behaviour)?.build())
}

fn config() -> Config {
    Config { heartbeat_initial_delay: Duration::from_millis(100), ..Config::ethereum() }
}

/// Runs a node that subscribes to all columns. It is in the meshes of the others, and tells who it is.
async fn neighbour(
    config: Config,
    is_foreign: bool,
    dial: Vec<Multiaddr>,
    named: std::sync::mpsc::Sender<(PeerId, Multiaddr)>,
) -> Result<(), Failure> {
    let mut swarm = swarm(config, is_foreign)?;
    for at in 0..COLUMNS {
        swarm.behaviour_mut().subscribe(&Topic::new(&format!("column-{at}")))?;
    }
    swarm.listen_on("/ip4/127.0.0.1/tcp/0".parse()?)?;
    for address in dial {
        swarm.dial(address)?;
    }
    loop {
        if let SwarmEvent::NewListenAddr { address, .. } = swarm.select_next_some().await {
            let _ = named.send((*swarm.local_peer_id(), address));
        }
    }
}

/// Starts a neighbour in a thread. Returns its name and address.
fn start(
    config: Config,
    is_foreign: bool,
    dial: Vec<Multiaddr>,
) -> Result<(PeerId, Multiaddr), std::sync::mpsc::RecvError> {
    let (send, named) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        match runtime.map(|runtime| runtime.block_on(neighbour(config, is_foreign, dial, send))) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => eprintln!("a neighbour failed: {error}"),
            Err(error) => eprintln!("a neighbour failed: {error}"),
        }
    });
    named.recv()
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let name = words.first().map_or("interleaved", String::as_str);
    let is_foreign = words.get(1).is_some_and(|word| word == "foreign");
    let Some(schedule) = schedule(name).filter(|_| words.len() < 2 + usize::from(is_foreign)) else {
        return Err(format!("unknown arguments {words:?}; the head of the example lists schedules").into());
    };
    let mut swarm = swarm(config(), is_foreign)?;
    let topics: Vec<Topic> = (0..COLUMNS).map(|at| Topic::new(&format!("column-{at}"))).collect();
    for topic in &topics {
        swarm.behaviour_mut().subscribe(topic)?;
    }
    swarm.listen_on("/ip4/127.0.0.1/tcp/0".parse()?)?;
    let own = *swarm.local_peer_id();
    let (mut published, mut sent) = (None::<Instant>, 0);
    let mut look = tokio::time::interval(Duration::from_millis(50));
    loop {
        tokio::select! {
            _ = look.tick() => {
                let meshes = topics.iter().map(|topic| swarm.behaviour().mesh_peers(topic).len());
                if published.is_none() && meshes.min() == Some(NEIGHBOURS) {
                    published = Some(Instant::now());
                    let columns = topics.iter().map(|topic| (topic.clone(), vec![0; 16 << 10].into()));
                    let receipt = swarm.behaviour_mut().publish_batch(columns, &schedule)?;
                    println!("{name}: {} copies of {COLUMNS} columns are owed", receipt.copies());
                }
                if published.is_some_and(|at| at.elapsed() > Duration::from_secs(2)) {
                    let withdrawn = swarm.behaviour_mut().counters().total().withdrawn.copies;
                    println!("{sent} copies left, and {withdrawn} were withdrawn");
                    return Ok(());
                }
            }
            event = swarm.select_next_some() => match event {
                SwarmEvent::NewListenAddr { address, .. } => {
                    let mut all = vec![address];
                    for _ in 0..NEIGHBOURS {
                        all.push(start(config(), is_foreign, all.clone())?.1);
                    }
                    if name == "observer" {
                        // The buddy gets columns from the neighbours, and reports them to the publisher.
                        let buddy = Config { report_to: vec![identity_of(&own)], ..config() };
                        let (peer, _) = start(buddy, is_foreign, all)?;
                        swarm.behaviour_mut().set_observers([&peer]);
                    }
                }
                SwarmEvent::Behaviour(Event::Link(LinkEvent::Sent { rank, .. })) => {
                    sent += 1;
                    if rank == 0 && sent % 16 == 0 || sent == COLUMNS * NEIGHBOURS {
                        let after = published.map_or(Duration::ZERO, |at| at.elapsed());
                        println!("{sent} copies left after {:.1} ms", after.as_secs_f64() * 1e3);
                    }
                }
                _ => {}
            },
        }
    }
}
