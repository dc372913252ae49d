//! What all tests have in common: nodes seen from outside, and configurations that fit each other.

use std::time::Duration;

use bytes::Bytes;
use libp2p::identity::Keypair;
use libp2p::multiaddr::Protocol;
use libp2p::{Multiaddr, PeerId, gossipsub};
use samara_engine::outbox::Schedule;
use samara_gossipsub::config::{Authenticity, LaneCapacity};
use samara_gossipsub::message_id::MessageIdFn;
use samara_gossipsub::rpc::{MessageId, Topic};
use samara_gossipsub::wire::Limits;
use samara_gossipsub::{Config, Metrics};
use samara_libp2p::{Behaviour, KeyVerifier, Options};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

pub(crate) use crate::nodes::*;

/// Nothing here takes this long unless it does not work.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What a node listens on; all dial both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// TCP, Noise and Yamux.
    Tcp,
    Quic,
}

impl Transport {
    /// Loopback, a port of the system's choice.
    pub(crate) fn any_port(self) -> Multiaddr {
        let address = match self {
            Self::Tcp => "/ip4/127.0.0.1/tcp/0",
            Self::Quic => "/ip4/127.0.0.1/udp/0/quic-v1",
        };
        address.parse().expect("an address")
    }
}

pub(crate) enum Command {
    Dial(Multiaddr),
    Disconnect(PeerId),
    Subscribe(String),
    Unsubscribe(String),
    Publish(String, Vec<u8>),
    /// Ours only.
    With(Box<dyn FnOnce(&mut Behaviour) + Send>),
    /// What is held back is valid now (peers in processes of their own).
    Release,
    /// The size of a topic's mesh, and the metrics of ours.
    Look(String, oneshot::Sender<(usize, Option<Metrics>)>),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Observed {
    /// A link is up, with this protocol (ours only).
    Peer(PeerId, String),
    /// A peer has joined a topic.
    Joined(PeerId, String),
    /// A peer has left a topic.
    Left(PeerId, String),
    Message(String, Vec<u8>),
    /// A message is held back until [`Command::Release`] (go only).
    Held(Vec<u8>),
    /// A copy of a known message came from a peer (go only).
    Duplicate(PeerId),
    /// A message waits for its verdict (ours only, as everything below).
    NeedsValidation(MessageId, Vec<u8>, PeerId),
    /// Identify has brought a peer's addresses.
    Identified(PeerId),
    Sent(PeerId),
    Cut(PeerId, usize),
    Malformed(PeerId),
    Gone(PeerId),
}

pub(crate) struct Node {
    pub(crate) peer: PeerId,
    /// Known of our own nodes.
    pub(crate) key: Option<Keypair>,
    pub(crate) address: Multiaddr,
    pub(crate) commands: mpsc::UnboundedSender<Command>,
    pub(crate) told: mpsc::UnboundedReceiver<Observed>,
}

impl Node {
    pub(crate) fn tell(&self, command: Command) {
        assert!(self.commands.send(command).is_ok(), "the node runs");
    }

    pub(crate) fn subscribe(&self, topic: &str) {
        self.tell(Command::Subscribe(topic.to_owned()));
    }

    pub(crate) fn unsubscribe(&self, topic: &str) {
        self.tell(Command::Unsubscribe(topic.to_owned()));
    }

    pub(crate) fn publish(&self, topic: &str, data: &[u8]) {
        self.tell(Command::Publish(topic.to_owned(), data.to_vec()));
    }

    /// Publishes a batch (ours only).
    pub(crate) fn publish_batch(&self, messages: Vec<(String, Vec<u8>)>, schedule: Schedule) {
        self.tell(Command::With(Box::new(move |behaviour| {
            let messages = messages.into_iter().map(|(topic, data)| (Topic::new(&topic), Bytes::from(data)));
            let receipt = behaviour.publish_batch(messages, &schedule);
            assert!(receipt.messages.iter().all(Result::is_ok), "{receipt:?}");
        })));
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

    /// Asks the behaviour for something (ours only).
    pub(crate) async fn with<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut Behaviour) -> T + Send + 'static,
    ) -> T {
        let (answer, answered) = oneshot::channel();
        self.tell(Command::With(Box::new(move |behaviour| {
            let _ = answer.send(call(behaviour));
        })));
        answered.await.expect("the node runs")
    }

    /// The metrics (ours only).
    pub(crate) async fn metrics(&self) -> Metrics {
        self.with(|behaviour| behaviour.engine().metrics().clone()).await
    }

    /// Waits until the metrics are as wanted (ours only).
    pub(crate) async fn counted(&self, what: &str, mut wanted: impl FnMut(&Metrics) -> bool) -> Metrics {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let metrics = self.metrics().await;
            if wanted(&metrics) {
                return metrics;
            }
            assert!(tokio::time::Instant::now() < deadline, "waited in vain for {what}: {metrics:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until this many peers are in the mesh of a topic.
    pub(crate) async fn mesh_of(&self, topic: &str, at_least: usize) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let (size, metrics) = self.look(topic).await;
            if size >= at_least {
                return;
            }
            let in_time = tokio::time::Instant::now() < deadline;
            assert!(in_time, "the mesh of {topic} stays at {size}, below {at_least}: {metrics:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The next thing told that is chosen.
    pub(crate) async fn next<T>(&mut self, what: &str, mut choose: impl FnMut(&Observed) -> Option<T>) -> T {
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
        self.next(&format!("a subscription of {other} at {}", self.peer), |told| {
            matches!(told, Observed::Joined(peer, _) if *peer == other).then_some(())
        })
        .await;
    }

    pub(crate) async fn message(&mut self) -> (String, Vec<u8>) {
        self.next("a message", |told| match told {
            Observed::Message(topic, data) => Some((topic.clone(), data.clone())),
            _ => None,
        })
        .await
    }

    /// What has been told so far.
    pub(crate) fn told_so_far(&mut self) -> Vec<Observed> {
        std::iter::from_fn(|| self.told.try_recv().ok()).collect()
    }
}

/// Ours and another have joined a topic and are in each other's mesh; `dial` says who dials.
pub(crate) async fn meet(our: &mut Node, other: &mut Node, topic: &str, dial: Dial) {
    our.subscribe(topic);
    other.subscribe(topic);
    match dial {
        Dial::Ours => our.dial(other),
        Dial::Theirs => other.dial(our),
    }
    our.joined(other.peer).await;
    other.joined(our.peer).await;
    our.mesh_of(topic, 1).await;
    other.mesh_of(topic, 1).await;
}

/// Who dials.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Dial {
    Ours,
    Theirs,
}

/// Ids as go makes them.
pub(crate) fn like_go(mut config: Config) -> Config {
    if matches!(config.message_id, MessageIdFn::FromSeqnoBase58) {
        config.message_id = MessageIdFn::FromSeqno;
    }
    config
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
