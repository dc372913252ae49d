//! Bounds what a node owes to its peers, and disconnects peers that keep losing copies. A publisher
//! and a subscriber that stops reading:
//! `cargo run -p samara-libp2p --example slow_peers`.

use std::collections::HashMap;
use std::error::Error;
use std::time::Duration;

use libp2p::futures::StreamExt;
use libp2p::swarm::SwarmEvent;
use libp2p::{PeerId, Swarm, noise, yamux};
use samara_libp2p::{Behaviour, Config, Event, LinkEvent, Options, Topic};

/// Maximum number of copies that a peer may lose in [`WINDOW`].
const LOST_MAX: usize = 20;
const WINDOW: Duration = Duration::from_secs(10);

fn swarm() -> Result<Swarm<Behaviour>, Box<dyn Error>> {
    let mut config = Config::spec();
    config.report_subscriptions = true;
    config.deliver_own = false;
    // Own messages: 8 MiB for each peer. Copies that waited for 5 s are not sent any more.
    config.sending.publish.bytes = 8 << 20;
    config.publish_deadline = Some(Duration::from_secs(5));
    config.forward_deadline = Some(Duration::from_secs(5));
    // Control, forwarded messages and answers to IWANT: 4 MiB each.
    let options = Options { lane_bytes: 4 << 20, ..Options::default() };
    Ok(libp2p::SwarmBuilder::with_new_identity()
        .with_tokio()
        .with_tcp(Default::default(), noise::Config::new, yamux::Config::default)?
        .with_behaviour(|key| Ok(Behaviour::new(key, config, options)?))?
        .build())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (mut swarm, mut subscriber) = (swarm()?, swarm()?);
    let topic = Topic::new("blocks");
    subscriber.behaviour_mut().subscribe(&topic)?;
    swarm.listen_on("/ip4/127.0.0.1/tcp/0".parse()?)?;
    let (mut reads, mut number) = (true, 0_u64);
    let mut lost: HashMap<PeerId, usize> = HashMap::new();
    let mut publish = tokio::time::interval(Duration::from_millis(10));
    let mut forget = tokio::time::interval(WINDOW);
    loop {
        tokio::select! {
            _ = forget.tick() => lost.clear(),
            _ = publish.tick(), if !reads => {
                number += 1;
                let mut data = vec![0; 1 << 20];
                data[..8].copy_from_slice(&number.to_le_bytes());
                swarm.behaviour_mut().publish(&topic, data)?;
            }
            event = swarm.select_next_some() => match event {
                SwarmEvent::NewListenAddr { address, .. } => subscriber.dial(address)?,
                SwarmEvent::Behaviour(Event::Subscription { .. }) => reads = false,
                SwarmEvent::Behaviour(Event::Lost(copy)) => {
                    // `None` if the peer has left in the meantime.
                    let Some(peer) = swarm.behaviour().peer_id(copy.peer) else { continue };
                    let count = lost.entry(peer).or_default();
                    *count += 1;
                    if *count == LOST_MAX {
                        let owed = swarm.behaviour_mut().owed_by_peer();
                        println!("{peer} is too slow: {LOST_MAX} copies lost, {} owed", owed[&peer]);
                        let _ = swarm.disconnect_peer_id(peer);
                    }
                }
                SwarmEvent::Behaviour(Event::Link(LinkEvent::Down { peer, lost_copies })) => {
                    println!("disconnected {peer}, which was owed {lost_copies} copies");
                    return Ok(());
                }
                _ => {}
            },
            _ = subscriber.select_next_some(), if reads => {}
        }
    }
}
