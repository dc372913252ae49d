//! Messages per second of processor, beside rust-libp2p's own gossipsub: five nodes in a full mesh on loopback, in one
//! process. `cargo run --release -p samara-net --example throughput`.
//!
//! Every node publishes as long as fewer than a window of messages is on the way, so that queues do not grow without bound. Messages
//! have no author and no signature, and ids of their content: the protocol is measured, not the cryptography of its messages.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use libp2p::futures::StreamExt;
use libp2p::swarm::{NetworkBehaviour, SwarmEvent};
use libp2p::{Multiaddr, Swarm, gossipsub, noise, tcp, yamux};
use nix::sys::resource::{UsageWho, getrusage};
use samara_gossipsub::Config;
use samara_gossipsub::config::{Authenticity, LaneCapacity};
use samara_gossipsub::message_id::MessageIdFn;
use samara_gossipsub::rpc::Topic;
use samara_net::{Behaviour, Event, Options};
use sha2::{Digest, Sha256};

const NODES: usize = 5;
/// Messages on the way at most, over all nodes.
const WINDOW: u64 = 256;
const SECONDS: u64 = 5;

/// What is asked of an implementation.
trait Gossip: NetworkBehaviour {
    fn subscribe(&mut self);
    fn publish(&mut self, data: Vec<u8>) -> bool;
    fn mesh(&self) -> usize;
    fn is_message(event: &Self::ToSwarm) -> bool;
}

impl Gossip for Behaviour {
    fn subscribe(&mut self) {
        Self::subscribe(self, &Topic::new("t"));
    }
    fn publish(&mut self, data: Vec<u8>) -> bool {
        Self::publish(self, &Topic::new("t"), data).is_ok()
    }
    fn mesh(&self) -> usize {
        self.mesh_peers(&Topic::new("t")).len()
    }
    fn is_message(event: &Event) -> bool {
        matches!(event, Event::Message { .. })
    }
}

impl Gossip for gossipsub::Behaviour {
    fn subscribe(&mut self) {
        let _ = Self::subscribe(self, &gossipsub::IdentTopic::new("t"));
    }
    fn publish(&mut self, data: Vec<u8>) -> bool {
        Self::publish(self, gossipsub::IdentTopic::new("t"), data).is_ok()
    }
    fn mesh(&self) -> usize {
        self.mesh_peers(&gossipsub::IdentTopic::new("t").hash()).count()
    }
    fn is_message(event: &gossipsub::Event) -> bool {
        matches!(event, gossipsub::Event::Message { .. })
    }
}

fn ours() -> Result<Behaviour, Box<dyn Error + Send + Sync>> {
    let mut config = Config::spec();
    config.authenticity = Authenticity::anonymous();
    config.message_id = MessageIdFn::Sha256Data { len: 20 };
    config.deliver_own = false;
    config.peer_score = None;
    config.sending.publish = LaneCapacity::UNBOUNDED;
    config.sending.forward = LaneCapacity::UNBOUNDED;
    Ok(Behaviour::new(&libp2p::identity::Keypair::generate_ed25519(), config, Options::default())?)
}

fn theirs() -> Result<gossipsub::Behaviour, Box<dyn Error + Send + Sync>> {
    let id = |message: &gossipsub::Message| {
        gossipsub::MessageId::from(Sha256::digest(&message.data)[..20].to_vec())
    };
    let config = gossipsub::ConfigBuilder::default()
        .validation_mode(gossipsub::ValidationMode::Anonymous)
        .max_transmit_size(1 << 20)
        .heartbeat_initial_delay(Duration::from_millis(100))
        .message_id_fn(id)
        .build()?;
    Ok(gossipsub::Behaviour::new(gossipsub::MessageAuthenticity::Anonymous, config)?)
}

fn swarm<B: NetworkBehaviour>(
    behaviour: impl Fn() -> Result<B, Box<dyn Error + Send + Sync>>,
) -> Result<Swarm<B>, Box<dyn Error>> {
    Ok(libp2p::SwarmBuilder::with_new_identity()
        .with_tokio()
        .with_tcp(tcp::Config::default().nodelay(true), noise::Config::new, yamux::Config::default)?
        .with_behaviour(|_| behaviour())?
        .build())
}

fn processor_seconds() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("the process may ask for its own usage");
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}

/// Messages delivered, in all and for each second of processor.
async fn measure<B: Gossip<ToSwarm: Send> + Send>(
    behaviour: impl Fn() -> Result<B, Box<dyn Error + Send + Sync>>,
    bytes: usize,
) -> Result<(f64, f64), Box<dyn Error>>
where
    B::ConnectionHandler: Send,
{
    let (published, delivered, ready) =
        (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut addresses: Vec<Multiaddr> = Vec::new();
    let mut tasks = Vec::new();
    for node in 0..NODES {
        let mut swarm = swarm(&behaviour)?;
        swarm.behaviour_mut().subscribe();
        swarm.listen_on("/ip4/127.0.0.1/tcp/0".parse()?)?;
        addresses.push(loop {
            if let SwarmEvent::NewListenAddr { address, .. } = swarm.select_next_some().await {
                break address;
            }
        });
        for address in &addresses[..node] {
            swarm.dial(address.clone())?;
        }
        let (published, delivered, ready) =
            (Arc::clone(&published), Arc::clone(&delivered), Arc::clone(&ready));
        tasks.push(tokio::spawn(async move {
            let mut number = 0_u64;
            let mut in_mesh = false;
            let mut tick = tokio::time::interval(Duration::from_millis(1));
            loop {
                tokio::select! {
                    event = swarm.select_next_some() => if let SwarmEvent::Behaviour(event) = event
                        && B::is_message(&event)
                    {
                        delivered.fetch_add(1, Ordering::Relaxed);
                    },
                    _ = tick.tick() => {}
                }
                if !in_mesh && swarm.behaviour().mesh() == NODES - 1 {
                    in_mesh = true;
                    ready.fetch_add(1, Ordering::Relaxed);
                }
                if ready.load(Ordering::Relaxed) < NODES as u64 {
                    continue;
                }
                let copies = NODES as u64 - 1;
                let on_the_way = || {
                    let published = published.load(Ordering::Relaxed) * copies;
                    published.saturating_sub(delivered.load(Ordering::Relaxed)) / copies
                };
                // A few at a time, so that all nodes get their turn.
                for _ in 0..4 {
                    if on_the_way() >= WINDOW {
                        break;
                    }
                    let mut data = vec![node as u8; bytes];
                    data[..8].copy_from_slice(&number.to_be_bytes());
                    number += 1;
                    if swarm.behaviour_mut().publish(data) {
                        published.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        }));
    }
    let patience = Instant::now();
    while delivered.load(Ordering::Relaxed) == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        if patience.elapsed() > Duration::from_secs(30) {
            return Err("no mesh after 30 s".into());
        }
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (from, processor, start) = (delivered.load(Ordering::Relaxed), processor_seconds(), Instant::now());
    tokio::time::sleep(Duration::from_secs(SECONDS)).await;
    let count = (delivered.load(Ordering::Relaxed) - from) as f64;
    let answer = (count / start.elapsed().as_secs_f64(), count / (processor_seconds() - processor));
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    Ok(answer)
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    println!("five nodes in a full mesh, {SECONDS} s each; delivered messages");
    println!("{:>8}  {:>24}  {:>24}  {:>6}", "bytes", "ours /s, /cpu-s", "rust-libp2p /s, /cpu-s", "ratio");
    for bytes in [1 << 10, 16 << 10, 256 << 10] {
        let ours = measure(ours, bytes).await?;
        let theirs = measure(theirs, bytes).await?;
        println!(
            "{bytes:>8}  {:>12.0} {:>11.0}  {:>12.0} {:>11.0}  {:>6.2}",
            ours.0,
            ours.1,
            theirs.0,
            theirs.1,
            ours.1 / theirs.1
        );
    }
    Ok(())
}
