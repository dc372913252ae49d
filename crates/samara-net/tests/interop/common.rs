//! Nodes of both implementations on loopback, each in a task of its own.

use std::time::Duration;

use bytes::Bytes;
use libp2p::futures::StreamExt;
use libp2p::identity::Keypair;
use libp2p::multiaddr::Protocol;
use libp2p::swarm::{NetworkBehaviour, SwarmEvent};
use libp2p::{Multiaddr, PeerId, Swarm, gossipsub, identify, noise, tcp, yamux};
use samara_engine::outbox::Schedule;
use samara_gossipsub::config::{Authenticity, LaneCapacity};
use samara_gossipsub::message_id::MessageIdFn;
use samara_gossipsub::rpc::Topic;
use samara_gossipsub::wire::Limits;
use samara_gossipsub::{Config, Metrics};
use samara_net::{Behaviour, Event, KeyVerifier, Options};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// Nothing here takes this long unless it does not work.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) enum Command {
    Dial(Multiaddr),
    Subscribe(String),
    Publish(String, Vec<u8>),
    /// Ours only.
    PublishBatch(Vec<(String, Vec<u8>)>, Schedule),
    /// The size of a topic's mesh, and the metrics of ours.
    Look(String, oneshot::Sender<(usize, Option<Metrics>)>),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// A link is up, with this protocol (ours only).
    Peer(PeerId, String),
    /// A peer has joined a topic.
    Joined(PeerId, String),
    Message(String, Vec<u8>),
    Sent(PeerId),
    Malformed(PeerId),
    Gone(PeerId),
}

pub(crate) struct Node {
    pub(crate) peer: PeerId,
    pub(crate) address: Multiaddr,
    pub(crate) commands: mpsc::UnboundedSender<Command>,
    pub(crate) told: mpsc::UnboundedReceiver<Told>,
}

impl Node {
    pub(crate) fn tell(&self, command: Command) {
        self.commands.send(command).expect("the node runs");
    }

    pub(crate) fn subscribe(&self, topic: &str) {
        self.tell(Command::Subscribe(topic.to_owned()));
    }

    pub(crate) fn publish(&self, topic: &str, data: &[u8]) {
        self.tell(Command::Publish(topic.to_owned(), data.to_vec()));
    }

    pub(crate) fn dial(&self, other: &Node) {
        self.tell(Command::Dial(other.full_address()));
    }

    /// The address with the peer's id.
    pub(crate) fn full_address(&self) -> Multiaddr {
        self.address.clone().with(Protocol::P2p(self.peer))
    }

    pub(crate) async fn look(&self, topic: &str) -> (usize, Option<Metrics>) {
        let (answer, look) = oneshot::channel();
        self.tell(Command::Look(topic.to_owned(), answer));
        look.await.expect("the node runs")
    }

    /// Waits until this many peers are in the mesh of a topic.
    pub(crate) async fn mesh_of(&self, topic: &str, at_least: usize) {
        let grown = async {
            while self.look(topic).await.0 < at_least {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, grown)
            .await
            .unwrap_or_else(|_| panic!("the mesh of {topic} stays below {at_least}"));
    }

    /// The next thing told that is chosen.
    pub(crate) async fn next<T>(&mut self, what: &str, mut choose: impl FnMut(&Told) -> Option<T>) -> T {
        let found = async {
            loop {
                let told = self.told.recv().await.expect("the node runs");
                if let Some(found) = choose(&told) {
                    return found;
                }
            }
        };
        timeout(2 * PATIENCE, found).await.unwrap_or_else(|_| panic!("waited in vain for {what}"))
    }

    /// Waits until a peer is known to have joined a topic.
    pub(crate) async fn joined(&mut self, other: PeerId) {
        self.next("a subscription", |told| {
            matches!(told, Told::Joined(peer, _) if *peer == other).then_some(())
        })
        .await;
    }

    pub(crate) async fn message(&mut self) -> (String, Vec<u8>) {
        self.next("a message", |told| match told {
            Told::Message(topic, data) => Some((topic.clone(), data.clone())),
            _ => None,
        })
        .await
    }

    /// What has been told so far.
    pub(crate) fn told_so_far(&mut self) -> Vec<Told> {
        std::iter::from_fn(|| self.told.try_recv().ok()).collect()
    }
}

/// Signed messages with the ids of rust-libp2p, heartbeats fast enough for a test.
pub(crate) fn signed() -> Config {
    let mut config = Config::spec();
    config.authenticity = Authenticity::strict(KeyVerifier);
    config.message_id = MessageIdFn::FromSeqnoBase58;
    config.heartbeat_interval = Duration::from_millis(200);
    config.heartbeat_initial_delay = Duration::from_millis(50);
    config.heartbeat_random_phase = false;
    config.max_message_bytes = 4 << 20;
    config.max_rpc_bytes = (4 << 20) + 4096;
    // Loopback addresses are all the same: the penalty for many peers at one address would hit everybody.
    config.peer_score = None;
    config.deliver_own = false;
    config.report_subscriptions = true;
    config.sending.publish = LaneCapacity::UNBOUNDED;
    config.sending.forward = LaneCapacity::UNBOUNDED;
    config
}

/// Messages without author, with ids of their content.
pub(crate) fn anonymous() -> Config {
    let mut config = signed();
    config.authenticity = Authenticity::anonymous();
    config.message_id = MessageIdFn::Sha256Data { len: 20 };
    config
}

pub(crate) fn options() -> Options {
    Options { limits: Limits::with_frame_bytes((4 << 20) + 4096), report_sent: true, ..Options::default() }
}

/// go-libp2p-pubsub only speaks to peers whose protocols it has learnt from identify.
#[derive(NetworkBehaviour)]
pub(crate) struct Host<B: NetworkBehaviour> {
    gossip: B,
    identify: identify::Behaviour,
}

impl<B: NetworkBehaviour> Host<B> {
    fn new(gossip: B, key: &Keypair) -> Self {
        let config = identify::Config::new("/samara/test".to_owned(), key.public());
        Self { gossip, identify: identify::Behaviour::new(config) }
    }
}

pub(crate) fn swarm<B: NetworkBehaviour>(
    key: Keypair,
    behaviour: impl FnOnce(&Keypair) -> B,
) -> Swarm<Host<B>> {
    libp2p::SwarmBuilder::with_existing_identity(key)
        .with_tokio()
        .with_tcp(tcp::Config::default().nodelay(true), noise::Config::new, yamux::Config::default)
        .expect("TCP, Noise and Yamux")
        .with_behaviour(|key| Ok(Host::new(behaviour(key), key)))
        .expect("the behaviour")
        .build()
}

async fn listen<B: NetworkBehaviour>(swarm: &mut Swarm<B>) -> Multiaddr {
    swarm.listen_on("/ip4/127.0.0.1/tcp/0".parse().expect("an address")).expect("loopback");
    loop {
        if let SwarmEvent::NewListenAddr { address, .. } = swarm.select_next_some().await {
            return address;
        }
    }
}

/// A node of ours.
pub(crate) async fn ours(config: Config, options: Options) -> Node {
    let key = Keypair::generate_ed25519();
    let mut swarm = swarm(key, |key| Behaviour::new(key, config, options).expect("the configuration"));
    let address = listen(&mut swarm).await;
    let peer = *swarm.local_peer_id();
    let (commands, mut inbox) = mpsc::unbounded_channel();
    let (outbox, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                command = inbox.recv() => match command {
                    None => return,
                    Some(Command::Dial(address)) => swarm.dial(address).expect("an address"),
                    Some(Command::Subscribe(topic)) => swarm.behaviour_mut().gossip.subscribe(&Topic::new(&topic)),
                    Some(Command::Publish(topic, data)) => {
                        swarm.behaviour_mut().gossip.publish(&Topic::new(&topic), data).expect("published");
                    }
                    Some(Command::PublishBatch(messages, schedule)) => {
                        let messages = messages.into_iter().map(|(topic, data)| (Topic::new(&topic), Bytes::from(data)));
                        let receipt = swarm.behaviour_mut().gossip.publish_batch(messages, &schedule);
                        assert!(receipt.messages.iter().all(Result::is_ok), "{receipt:?}");
                    }
                    Some(Command::Look(topic, answer)) => {
                        let behaviour = &swarm.behaviour().gossip;
                        let mesh = behaviour.mesh_peers(&Topic::new(&topic)).len();
                        let _ = answer.send((mesh, Some(behaviour.engine().metrics().clone())));
                    }
                },
                event = swarm.select_next_some() => if let SwarmEvent::Behaviour(HostEvent::Gossip(event)) = event {
                    let told = match event {
                        Event::Message { topic, message, .. } => {
                            Told::Message(topic.as_str().to_owned(), message.data.to_vec())
                        }
                        Event::LinkUp { peer, protocol } => Told::Peer(peer, protocol.to_string()),
                        Event::Subscribed { peer, topic } => Told::Joined(peer, topic.as_str().to_owned()),
                        Event::LinkDown { peer, .. } => Told::Gone(peer),
                        Event::Sent { peer, .. } => Told::Sent(peer),
                        Event::Malformed { peer, .. } => Told::Malformed(peer),
                        _ => continue,
                    };
                    let _ = outbox.send(told);
                }
            }
        }
    });
    Node { peer, address, commands, told }
}

/// What a node of rust-libp2p's own gossipsub is like.
pub(crate) fn theirs_config() -> gossipsub::ConfigBuilder {
    let mut config = gossipsub::ConfigBuilder::default();
    config
        .heartbeat_interval(Duration::from_millis(200))
        .heartbeat_initial_delay(Duration::from_millis(50))
        .max_transmit_size((4 << 20) + 4096)
        // Frames that waited for a second are dropped by default: this test may run on a busy machine.
        .publish_queue_duration(PATIENCE)
        .forward_queue_duration(PATIENCE);
    config
}

/// A node of rust-libp2p's own gossipsub.
pub(crate) async fn theirs(config: gossipsub::Config, signed: bool) -> Node {
    let key = Keypair::generate_ed25519();
    let mut swarm = swarm(key, |key| {
        let authenticity = if signed {
            gossipsub::MessageAuthenticity::Signed(key.clone())
        } else {
            gossipsub::MessageAuthenticity::Anonymous
        };
        gossipsub::Behaviour::<gossipsub::IdentityTransform>::new(authenticity, config)
            .expect("the configuration")
    });
    let address = listen(&mut swarm).await;
    let peer = *swarm.local_peer_id();
    let (commands, mut inbox) = mpsc::unbounded_channel();
    let (outbox, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                command = inbox.recv() => match command {
                    None => return,
                    Some(Command::Dial(address)) => swarm.dial(address).expect("an address"),
                    Some(Command::Subscribe(topic)) => {
                        swarm.behaviour_mut().gossip.subscribe(&gossipsub::IdentTopic::new(topic)).expect("subscribed");
                    }
                    Some(Command::Publish(topic, data)) => {
                        swarm.behaviour_mut().gossip.publish(gossipsub::IdentTopic::new(topic), data).expect("published");
                    }
                    Some(Command::PublishBatch(..)) => unreachable!("there is no batch publishing there"),
                    Some(Command::Look(topic, answer)) => {
                        let topic = gossipsub::IdentTopic::new(topic).hash();
                        let _ = answer.send((swarm.behaviour().gossip.mesh_peers(&topic).count(), None));
                    }
                },
                event = swarm.select_next_some() => if let SwarmEvent::Behaviour(HostEvent::Gossip(event)) = event {
                    let told = match event {
                        gossipsub::Event::Message { message, .. } => {
                            Told::Message(message.topic.to_string(), message.data)
                        }
                        gossipsub::Event::Subscribed { peer_id, topic } => Told::Joined(peer_id, topic.to_string()),
                        _ => continue,
                    };
                    let _ = outbox.send(told);
                }
            }
        }
    });
    Node { peer, address, commands, told }
}
