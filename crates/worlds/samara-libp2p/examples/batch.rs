//! Publishes a block's columns in one batch over real sockets, and prints when the copies left:
//! `cargo run --release -p samara-libp2p --example batch`.

use std::error::Error;
use std::time::{Duration, Instant};

use libp2p::futures::StreamExt;
use libp2p::swarm::SwarmEvent;
use libp2p::{Multiaddr, Swarm, noise, yamux};
use samara_engine::outbox::Schedule;
use samara_gossipsub::Config;
use samara_gossipsub::rpc::Topic;
use samara_libp2p::{Behaviour, Event, LinkEvent, Options};

const COLUMNS: usize = 128;
const NEIGHBOURS: usize = 4;

fn swarm() -> Result<Swarm<Behaviour>, Box<dyn Error>> {
    let mut config = Config::ethereum();
    config.heartbeat_initial_delay = Duration::from_millis(100);
    let options = Options { report_sent: true, ..Options::default() };
    Ok(libp2p::SwarmBuilder::with_new_identity()
        .with_tokio()
        .with_tcp(Default::default(), noise::Config::new, yamux::Config::default)?
        .with_behaviour(|key| Ok(Behaviour::new(key, config, options)?))?
        .build())
}

/// Runs a node that subscribes to all columns.
async fn neighbour(publisher: Multiaddr) -> Result<(), Box<dyn Error>> {
    let mut swarm = swarm()?;
    for at in 0..COLUMNS {
        swarm.behaviour_mut().subscribe(&Topic::new(&format!("column-{at}")))?;
    }
    swarm.dial(publisher)?;
    loop {
        swarm.select_next_some().await;
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut swarm = swarm()?;
    let topics: Vec<Topic> = (0..COLUMNS).map(|at| Topic::new(&format!("column-{at}"))).collect();
    for topic in &topics {
        swarm.behaviour_mut().subscribe(topic)?;
    }
    swarm.listen_on("/ip4/127.0.0.1/tcp/0".parse()?)?;
    let (mut published, mut sent) = (None::<Instant>, 0);
    let mut look = tokio::time::interval(Duration::from_millis(50));
    loop {
        tokio::select! {
            _ = look.tick() => {
                let meshes = topics.iter().map(|topic| swarm.behaviour().mesh_peers(topic).len());
                if published.is_none() && meshes.min() == Some(NEIGHBOURS) {
                    published = Some(Instant::now());
                    let columns = topics.iter().map(|topic| (topic.clone(), vec![0; 16 << 10].into()));
                    let receipt = swarm.behaviour_mut().publish_batch(columns, &Schedule::INTERLEAVED);
                    println!("{} copies of {COLUMNS} columns are owed", receipt.copies());
                }
                if published.is_some_and(|at| at.elapsed() > Duration::from_secs(2)) {
                    return Ok(());
                }
            }
            event = swarm.select_next_some() => match event {
                SwarmEvent::NewListenAddr { address, .. } => {
                    (0..NEIGHBOURS).for_each(|_| {
                        let address = address.clone();
                        std::thread::spawn(move || {
                            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                            if let Err(error) = runtime.map(|runtime| runtime.block_on(neighbour(address))) {
                                eprintln!("a neighbour failed: {error}");
                            }
                        });
                    });
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
