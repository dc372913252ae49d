//! A swarm with a behaviour and identify, driven by commands.

use std::error::Error;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt;
use libp2p::core::transport::ListenerId;
use libp2p::core::upgrade::Version;
use libp2p::identity::Keypair;
use libp2p::multiaddr::Protocol;
use libp2p::swarm::dial_opts::{DialOpts, PeerCondition};
use libp2p::swarm::{NetworkBehaviour, SwarmEvent};
use libp2p::{Multiaddr, PeerId, Swarm, Transport, identify, noise, tcp, yamux};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::router::Router;
use crate::streams::Streams;
use crate::{Command, Report};

/// Connections without streams are kept this long, so that only the soak closes them.
const IDLE: Duration = Duration::from_secs(3600);

/// go-libp2p-pubsub and js-libp2p only speak to peers whose protocols identify has announced.
#[derive(NetworkBehaviour)]
struct Host<B: NetworkBehaviour> {
    gossip: B,
    identify: identify::Behaviour,
}

/// Runs a node until its commands end.
pub(crate) async fn run<B: Router>(
    gossip: B,
    key: Keypair,
    mut commands: UnboundedReceiver<Command>,
) -> Result<(), Box<dyn Error>> {
    let streams = Streams::default();
    let mut swarm = swarm(gossip, key, &streams)?;
    let me = swarm.local_peer_id().to_string();
    let mut listener = listen(&mut swarm)?;
    let mut has_listened = false;
    // The behaviour of rust-libp2p sets the timer of the next heartbeat without polling it (0.50.1):
    // without other events, there is no heartbeat.
    let mut nudge = tokio::time::interval(Duration::from_millis(50));
    loop {
        tokio::select! {
            _ = nudge.tick() => {}
            command = commands.recv() => match command {
                None => return Ok(()),
                Some(Command::Move {}) => {
                    swarm.remove_listener(listener);
                    disconnect(&mut swarm);
                    listener = listen(&mut swarm)?;
                }
                Some(command) => handle_command(&mut swarm, &streams, command)?,
            },
            event = swarm.select_next_some() => match event {
                SwarmEvent::NewListenAddr { listener_id, address } if listener_id == listener => {
                    let address = address.to_string();
                    if std::mem::replace(&mut has_listened, true) {
                        Report::Moved { address }.print();
                    } else {
                        Report::Listening { peer: me.clone(), address }.print();
                    }
                }
                SwarmEvent::Behaviour(HostEvent::Gossip(event)) => {
                    if let Some(data) = B::message(event) {
                        Report::Message { data: STANDARD.encode(data) }.print();
                    }
                }
                _ => {}
            },
        }
    }
}

fn swarm<B: Router>(gossip: B, key: Keypair, streams: &Streams) -> Result<Swarm<Host<B>>, Box<dyn Error>> {
    let streams = streams.clone();
    let identify = identify::Config::new("/samara/soak".to_owned(), key.public());
    let host = Host { gossip, identify: identify::Behaviour::new(identify) };
    let swarm = libp2p::SwarmBuilder::with_existing_identity(key)
        .with_tokio()
        .with_other_transport(|key| {
            let transport = tcp::tokio::Transport::new(tcp::Config::default().nodelay(true))
                .upgrade(Version::V1)
                .authenticate(noise::Config::new(key)?)
                .multiplex(yamux::Config::default())
                .map(move |(peer, muxer), _| (peer, streams.wrap(peer, muxer)));
            Ok(transport)
        })?
        .with_behaviour(|_| Ok(host))?
        .with_swarm_config(|config| config.with_idle_connection_timeout(IDLE))
        .build();
    Ok(swarm)
}

fn listen<B: Router>(swarm: &mut Swarm<Host<B>>) -> Result<ListenerId, Box<dyn Error>> {
    Ok(swarm.listen_on("/ip4/127.0.0.1/tcp/0".parse()?)?)
}

fn disconnect<B: Router>(swarm: &mut Swarm<Host<B>>) {
    let peers: Vec<PeerId> = swarm.connected_peers().copied().collect();
    for peer in peers {
        // Fails only if the connection has just closed.
        let _ = swarm.disconnect_peer_id(peer);
    }
}

fn handle_command<B: Router>(
    swarm: &mut Swarm<Host<B>>,
    streams: &Streams,
    command: Command,
) -> Result<(), Box<dyn Error>> {
    match command {
        Command::Move {} => unreachable!("the loop handles this command"),
        Command::Subscribe { topic } => swarm.behaviour_mut().gossip.subscribe(&topic),
        Command::Publish { topic, data } => {
            let payload = STANDARD.decode(&data)?;
            if let Err(error) = swarm.behaviour_mut().gossip.publish(&topic, payload) {
                Report::Refused { data, error }.print();
            }
        }
        Command::Connect { addresses } => {
            for address in addresses {
                let mut address: Multiaddr = address.parse()?;
                let Some(Protocol::P2p(peer)) = address.pop() else {
                    return Err("an address without a peer".into());
                };
                let dial = DialOpts::peer_id(peer)
                    .condition(PeerCondition::DisconnectedAndNotDialing)
                    .addresses(vec![address])
                    .allocate_new_port()
                    .build();
                // Fails if the peer is connected. Nodes that restart refuse some dials.
                let _ = swarm.dial(dial);
            }
        }
        Command::Disconnect { peer: Some(peer) } => {
            // Fails only if the peer is not connected.
            let _ = swarm.disconnect_peer_id(peer.parse()?);
        }
        Command::Disconnect { peer: None } => disconnect(swarm),
        Command::Reset { peers } => {
            let peers = peers.iter().map(|peer| peer.parse()).collect::<Result<Vec<PeerId>, _>>()?;
            streams.reset(&peers);
        }
        Command::State { topic } => {
            let gossip = &swarm.behaviour().gossip;
            let scores = gossip.scores().into_iter().map(|(peer, score)| (peer.to_string(), score));
            Report::State {
                connected: swarm.connected_peers().map(PeerId::to_string).collect(),
                subscribers: gossip.subscribers(&topic).iter().map(PeerId::to_string).collect(),
                count: gossip.mesh_size(&topic),
                scores: scores.collect(),
            }
            .print();
        }
    }
    Ok(())
}
