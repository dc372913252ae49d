//! Nodes in this process: our nodes, and nodes of rust-libp2p's gossipsub, each in a separate task.

use std::collections::HashSet;
use std::time::Duration;

use libp2p::core::Transport as _;
use libp2p::core::muxing::StreamMuxerBox;
use libp2p::core::upgrade::Version;
use libp2p::futures::StreamExt;
use libp2p::gossipsub::DataTransform;
use libp2p::identity::Keypair;
use libp2p::swarm::dial_opts::DialOpts;
use libp2p::swarm::{NetworkBehaviour, SwarmEvent};
use libp2p::{Multiaddr, Swarm, gossipsub, identify, noise, tcp, yamux};
use samara_gossipsub::Config;
use samara_gossipsub::rpc::Topic;
use samara_libp2p::transport::{self, Meters};
use samara_libp2p::{Behaviour, Event, LinkEvent, Options};
use tokio::sync::mpsc;

use crate::common::{Command, Node, Observed, Transport};

/// go-libp2p-pubsub only speaks to peers whose protocols identify has announced.
#[derive(NetworkBehaviour)]
pub(crate) struct Host<B: NetworkBehaviour> {
    pub(crate) gossip: B,
    identify: identify::Behaviour,
}

impl<B: NetworkBehaviour> Host<B> {
    fn new(gossip: B, key: &Keypair) -> Self {
        let config = identify::Config::new("/samara/test".to_owned(), key.public());
        Self { gossip, identify: identify::Behaviour::new(config) }
    }
}

/// Builds a swarm that dials over TCP and QUIC.
pub(crate) fn swarm<B: NetworkBehaviour>(
    key: Keypair,
    behaviour: impl FnOnce(&Keypair) -> B,
) -> Swarm<Host<B>> {
    libp2p::SwarmBuilder::with_existing_identity(key)
        .with_tokio()
        .with_tcp(tcp::Config::default().nodelay(true), noise::Config::new, yamux::Config::default)
        .expect("TCP, Noise and Yamux")
        .with_quic()
        .with_behaviour(|key| Ok(Host::new(behaviour(key), key)))
        .expect("the behaviour")
        .build()
}

/// Builds a swarm that dials over this crate's transports.
fn metered<B: NetworkBehaviour>(
    key: Keypair,
    meters: &Meters,
    behaviour: impl FnOnce(&Keypair) -> B,
) -> Swarm<Host<B>> {
    libp2p::SwarmBuilder::with_existing_identity(key)
        .with_tokio()
        .with_other_transport(|key| {
            let tcp = transport::tcp::Transport::new(tcp::Config::default(), meters)
                .upgrade(Version::V1Lazy)
                .authenticate(noise::Config::new(key)?)
                .multiplex(yamux::Config::default())
                .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)));
            let quic = transport::quic::Transport::new(Default::default(), key, meters)?
                .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)));
            Ok(tcp.or_transport(quic).map(|either, _| either.into_inner()))
        })
        .expect("TCP, Noise and Yamux, and QUIC")
        .with_behaviour(|key| Ok(Host::new(behaviour(key), key)))
        .expect("the behaviour")
        .build()
}

pub(crate) async fn listen<B: NetworkBehaviour>(swarm: &mut Swarm<B>, transport: Transport) -> Multiaddr {
    swarm.listen_on(transport.any_port()).expect("loopback");
    loop {
        if let SwarmEvent::NewListenAddr { address, .. } = swarm.select_next_some().await {
            return address;
        }
    }
}

/// Starts one of our nodes over TCP.
pub(crate) async fn ours(config: Config, options: Options) -> Node {
    ours_over(Transport::Tcp, config, options).await
}

/// Starts one of our nodes.
pub(crate) async fn ours_over(transport: Transport, config: Config, options: Options) -> Node {
    let key = Keypair::generate_ed25519();
    let meters = options.meters.clone();
    let behaviour = |key: &Keypair| Behaviour::new(key, config, options).expect("the configuration");
    let mut swarm = match transport {
        Transport::ForeignTcp | Transport::ForeignQuic => swarm(key.clone(), behaviour),
        Transport::Tcp | Transport::Quic => metered(key.clone(), &meters, behaviour),
    };
    let address = listen(&mut swarm, transport).await;
    let peer = *swarm.local_peer_id();
    let (commands, mut inbox) = mpsc::unbounded_channel();
    let (outbox, observed) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                command = inbox.recv() => match command {
                    None => return,
                    Some(Command::Dial(address)) => swarm.dial(from_any_port(address)).expect("an address"),
                    Some(Command::Disconnect(peer)) => { let _ = swarm.disconnect_peer_id(peer); }
                    Some(command) => handle_command(&mut swarm.behaviour_mut().gossip, command),
                },
                event = swarm.select_next_some() => {
                    let observed = match event {
                        SwarmEvent::Behaviour(HostEvent::Gossip(event)) => translate(event),
                        SwarmEvent::Behaviour(HostEvent::Identify(identify::Event::Received { peer_id, .. })) => {
                            Some(Observed::Identified(peer_id))
                        }
                        // Printed only if a test fails.
                        SwarmEvent::OutgoingConnectionError { peer_id, error, .. } => {
                            eprintln!("{peer} cannot dial {peer_id:?}: {error}");
                            None
                        }
                        SwarmEvent::IncomingConnectionError { error, .. } => {
                            eprintln!("{peer} could not accept a connection: {error}");
                            None
                        }
                        SwarmEvent::ConnectionClosed { peer_id, cause: Some(cause), .. } => {
                            eprintln!("{peer} lost its connection with {peer_id}: {cause}");
                            None
                        }
                        _ => None,
                    };
                    if let Some(observed) = observed {
                        let _ = outbox.send(observed);
                    }
                }
            }
        }
    });
    Node { peer, key: Some(key), address, commands, observed, joined: HashSet::new() }
}

/// Dials from a new port. From the listening port, the default, the dial fails if an earlier
/// connection between the same ports has not expired yet.
fn from_any_port(address: Multiaddr) -> DialOpts {
    DialOpts::unknown_peer_id().address(address).allocate_new_port().build()
}

fn handle_command(behaviour: &mut Behaviour, command: Command) {
    match command {
        Command::Dial(_) | Command::Disconnect(_) => unreachable!("the swarm handles this command"),
        Command::Subscribe(topic) => {
            behaviour.subscribe(&Topic::new(&topic)).expect("subscribed");
        }
        Command::Unsubscribe(topic) => {
            behaviour.unsubscribe(&Topic::new(&topic));
        }
        Command::Publish(topic, data) => {
            behaviour.publish(Topic::new(&topic), data).expect("published");
        }
        Command::With(call) => call(behaviour),
        Command::Release => unreachable!("only peers in separate processes hold messages back"),
        Command::Look(topic, answer) => {
            let mesh = behaviour.mesh_peers(&Topic::new(&topic)).len();
            let _ = answer.send((mesh, Some(behaviour.engine().metrics().clone())));
        }
    }
}

fn translate(event: Event) -> Option<Observed> {
    Some(match event {
        Event::Message { topic, message, .. } => {
            Observed::Message(topic.as_str().to_owned(), message.data.to_vec())
        }
        Event::NeedsValidation { id, message, from, .. } => {
            Observed::NeedsValidation(id, message.data.to_vec(), from)
        }
        Event::Parts { ticket, group, .. } => Observed::Parts(ticket, group.to_vec()),
        Event::Link(LinkEvent::Up { peer, protocol }) => Observed::Peer(peer, protocol.to_string()),
        Event::Subscription { peer, topic, joined: true } => {
            Observed::Joined(peer, topic.as_str().to_owned())
        }
        Event::Subscription { peer, topic, joined: false } => Observed::Left(peer, topic.as_str().to_owned()),
        Event::Link(LinkEvent::Down { peer, .. }) => Observed::Gone(peer),
        Event::Link(LinkEvent::Sent { peer, rank, .. }) => Observed::Sent(peer, rank),
        Event::Link(LinkEvent::Cut { peer, copies }) => Observed::Cut(peer, copies),
        Event::Link(LinkEvent::Malformed { peer, .. }) => Observed::Malformed(peer),
        _ => return None,
    })
}

/// Starts a node of rust-libp2p's gossipsub over TCP.
pub(crate) async fn theirs(config: gossipsub::Config, signed: bool) -> Node {
    theirs_over(Transport::Tcp, config, signed).await
}

/// Starts a node of rust-libp2p's gossipsub.
pub(crate) async fn theirs_over(transport: Transport, config: gossipsub::Config, signed: bool) -> Node {
    theirs_by(transport, |key| {
        let authenticity = if signed {
            gossipsub::MessageAuthenticity::Signed(key.clone())
        } else {
            gossipsub::MessageAuthenticity::Anonymous
        };
        gossipsub::Behaviour::<gossipsub::IdentityTransform>::new(authenticity, config)
            .expect("the configuration")
    })
    .await
}

/// Starts a node with this behaviour of rust-libp2p's gossipsub.
pub(crate) async fn theirs_by<D: DataTransform + Send + 'static>(
    transport: Transport,
    behaviour: impl FnOnce(&Keypair) -> gossipsub::Behaviour<D>,
) -> Node {
    let mut swarm = swarm(Keypair::generate_ed25519(), behaviour);
    let address = listen(&mut swarm, transport).await;
    let peer = *swarm.local_peer_id();
    let (commands, mut inbox) = mpsc::unbounded_channel();
    let (outbox, observed) = mpsc::unbounded_channel();
    // Its behaviour sets the timer of the next heartbeat without polling it (0.50.1): without other
    // events, there is no heartbeat.
    let mut nudge = tokio::time::interval(Duration::from_millis(50));
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = nudge.tick() => {}
                command = inbox.recv() => match command {
                    None => return,
                    Some(Command::Dial(address)) => swarm.dial(from_any_port(address)).expect("an address"),
                    Some(Command::Disconnect(peer)) => { let _ = swarm.disconnect_peer_id(peer); }
                    Some(command) => handle_their_command(&mut swarm.behaviour_mut().gossip, command),
                },
                event = swarm.select_next_some() => if let SwarmEvent::Behaviour(HostEvent::Gossip(event)) = event {
                    let observed = match event {
                        gossipsub::Event::Message { message, .. } => {
                            Observed::Message(message.topic.to_string(), message.data)
                        }
                        gossipsub::Event::Subscribed { peer_id, topic, .. } => Observed::Joined(peer_id, topic.to_string()),
                        gossipsub::Event::Unsubscribed { peer_id, topic } => Observed::Left(peer_id, topic.to_string()),
                        _ => continue,
                    };
                    let _ = outbox.send(observed);
                }
            }
        }
    });
    Node { peer, key: None, address, commands, observed, joined: HashSet::new() }
}

fn handle_their_command<D: DataTransform + Send + 'static>(
    behaviour: &mut gossipsub::Behaviour<D>,
    command: Command,
) {
    match command {
        Command::Dial(_) | Command::Disconnect(_) => unreachable!("the swarm handles this command"),
        Command::Subscribe(topic) => {
            behaviour.subscribe(&gossipsub::IdentTopic::new(topic)).expect("subscribed");
        }
        Command::Unsubscribe(topic) => {
            behaviour.unsubscribe(&gossipsub::IdentTopic::new(topic));
        }
        Command::Publish(topic, data) => {
            behaviour.publish(gossipsub::IdentTopic::new(topic), data).expect("published");
        }
        Command::With(_) | Command::Release => unreachable!("rust-libp2p nodes do not support this command"),
        Command::Look(topic, answer) => {
            let topic = gossipsub::IdentTopic::new(topic).hash();
            let _ = answer.send((behaviour.mesh_peers(&topic).count(), None));
        }
    }
}
