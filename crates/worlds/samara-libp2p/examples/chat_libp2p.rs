//! The chat of `chat.rs` as a program with libp2p's own gossipsub. Beside imports they differ in eleven
//! lines, and understand each other: `docs/guides/from-libp2p-gossipsub.md`.

use std::error::Error;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::time::Duration;

use libp2p::futures::StreamExt;
use libp2p::gossipsub;
use libp2p::swarm::{NetworkBehaviour, SwarmEvent};
use libp2p::{identify, noise, tcp, yamux};
use tokio::io::{AsyncBufReadExt, BufReader, stdin};

/// Identify announces our protocols to other nodes; nodes in Go wait for it.
#[derive(NetworkBehaviour)]
struct Chat {
    gossipsub: gossipsub::Behaviour,
    identify: identify::Behaviour,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut swarm = libp2p::SwarmBuilder::with_new_identity()
        .with_tokio()
        .with_tcp(tcp::Config::default(), noise::Config::new, yamux::Config::default)?
        .with_behaviour(|key| {
            // Equal lines are one message.
            let message_id = |message: &gossipsub::Message| {
                let mut hasher = DefaultHasher::new();
                message.data.hash(&mut hasher);
                gossipsub::MessageId::from(hasher.finish().to_string())
            };
            let config = gossipsub::ConfigBuilder::default()
                .heartbeat_interval(Duration::from_millis(500))
                .validation_mode(gossipsub::ValidationMode::Strict)
                .message_id_fn(message_id)
                .build()
                .map_err(io::Error::other)?;
            let authenticity = gossipsub::MessageAuthenticity::Signed(key.clone());
            let identify = identify::Config::new("/samara/chat".to_owned(), key.public());
            Ok(Chat {
                gossipsub: gossipsub::Behaviour::new(authenticity, config)?,
                identify: identify::Behaviour::new(identify),
            })
        })?
        .build();
    let topic = gossipsub::IdentTopic::new("chat");
    swarm.behaviour_mut().gossipsub.subscribe(&topic)?;
    swarm.listen_on("/ip4/127.0.0.1/tcp/0".parse()?)?;
    for address in std::env::args().skip(1) {
        swarm.dial(address.parse::<libp2p::Multiaddr>()?)?;
    }
    let mut lines = BufReader::new(stdin()).lines();
    loop {
        tokio::select! {
            line = lines.next_line() => match line? {
                None => return Ok(()),
                Some(line) => {
                    if let Err(error) = swarm.behaviour_mut().gossipsub.publish(topic.clone(), line) {
                        eprintln!("({error})");
                    }
                }
            },
            event = swarm.select_next_some() => match event {
                SwarmEvent::NewListenAddr { address, .. } => println!("({address})"),
                SwarmEvent::ConnectionEstablished { peer_id, .. } => {
                    swarm.behaviour_mut().gossipsub.add_explicit_peer(&peer_id);
                }
                SwarmEvent::ConnectionClosed { peer_id, .. } => {
                    swarm.behaviour_mut().gossipsub.remove_explicit_peer(&peer_id);
                }
                SwarmEvent::Behaviour(ChatEvent::Gossipsub(gossipsub::Event::Subscribed { peer_id: peer, .. })) => println!("({peer} joined)"),
                SwarmEvent::Behaviour(ChatEvent::Gossipsub(gossipsub::Event::Message { propagation_source: peer, message, .. })) => println!("{peer}: {}", String::from_utf8_lossy(&message.data)),
                _ => {}
            },
        }
    }
}
