//! A chat. Run `cargo run -p samara-libp2p --example chat -- [ADDRESS...]` in two terminals. The
//! first prints its address.

use std::error::Error;

use libp2p::futures::StreamExt;
use libp2p::swarm::{NetworkBehaviour, SwarmEvent};
use libp2p::{identify, noise, yamux};
use samara_gossipsub::Config;
use samara_gossipsub::config::Authenticity;
use samara_gossipsub::rpc::Topic;
use samara_libp2p::{Behaviour, Event, KeyVerifier, LinkEvent, Options};
use tokio::io::{AsyncBufReadExt, BufReader, stdin};

/// Identify announces our protocols to other nodes; nodes in Go wait for it.
#[derive(NetworkBehaviour)]
struct Chat {
    gossip: Behaviour,
    identify: identify::Behaviour,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut config = Config::spec();
    config.authenticity = Authenticity::strict(KeyVerifier);
    config.deliver_own = false;
    let mut swarm = libp2p::SwarmBuilder::with_new_identity()
        .with_tokio()
        .with_tcp(Default::default(), noise::Config::new, yamux::Config::default)?
        .with_behaviour(|key| {
            let identify = identify::Config::new("/samara/chat".to_owned(), key.public());
            Ok(Chat {
                gossip: Behaviour::new(key, config, Options::default())?,
                identify: identify::Behaviour::new(identify),
            })
        })?
        .build();
    let topic = Topic::new("chat");
    swarm.behaviour_mut().gossip.subscribe(&topic);
    swarm.listen_on("/ip4/127.0.0.1/tcp/0".parse()?)?;
    for address in std::env::args().skip(1) {
        swarm.dial(address.parse::<libp2p::Multiaddr>()?)?;
    }
    let mut lines = BufReader::new(stdin()).lines();
    loop {
        tokio::select! {
            line = lines.next_line() => match line? {
                None => return Ok(()),
                Some(line) => match swarm.behaviour_mut().gossip.publish(&topic, line) {
                    Ok(receipt) if receipt.peers == 0 => eprintln!("(no other peer has joined yet)"),
                    Ok(_) => {}
                    Err(error) => eprintln!("({error})"),
                },
            },
            event = swarm.select_next_some() => match event {
                SwarmEvent::NewListenAddr { address, .. } => eprintln!("({address})"),
                SwarmEvent::Behaviour(ChatEvent::Gossip(Event::Message { message, from: Some(peer), .. })) => {
                    println!("{peer}: {}", String::from_utf8_lossy(&message.data));
                }
                SwarmEvent::Behaviour(ChatEvent::Gossip(Event::Link(LinkEvent::Up { peer, .. }))) => eprintln!("({peer} joined)"),
                SwarmEvent::Behaviour(ChatEvent::Gossip(Event::Link(LinkEvent::Down { peer, .. }))) => eprintln!("({peer} left)"),
                _ => {}
            },
        }
    }
}
