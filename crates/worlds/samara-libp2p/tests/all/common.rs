//! Shared parts of all tests: nodes seen from outside, and matching configurations.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use libp2p::identity::Keypair;
use libp2p::multiaddr::Protocol;
use libp2p::{Multiaddr, PeerId, gossipsub};
use samara_engine::outbox::Schedule;
use samara_gossipsub::config::{Authenticity, LaneCapacity};
use samara_gossipsub::message_id::MessageIdFn;
use samara_gossipsub::rpc::{MessageId, Topic};
use samara_gossipsub::{Config, Metrics};
use samara_libp2p::{Behaviour, KeyVerifier, Options};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

pub(crate) use crate::nodes::*;

/// Timeout of every wait. A correct test never takes this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The transport that a node listens on. All nodes dial over both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// TCP, Noise and Yamux. Our nodes use this crate's transport.
    Tcp,
    /// TCP, Noise and Yamux over libp2p's own transport.
    ForeignTcp,
    /// QUIC. Our nodes use this crate's transport.
    Quic,
    /// QUIC over libp2p's own transport.
    ForeignQuic,
}

impl Transport {
    /// Returns the loopback address with a port chosen by the system.
    pub(crate) fn any_port(self) -> Multiaddr {
        let address = match self {
            Self::Tcp | Self::ForeignTcp => "/ip4/127.0.0.1/tcp/0",
            Self::Quic | Self::ForeignQuic => "/ip4/127.0.0.1/udp/0/quic-v1",
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
    /// Calls a function with the behaviour (our nodes only).
    With(Box<dyn FnOnce(&mut Behaviour) + Send>),
    /// Accepts the messages that are held back (peers in separate processes only).
    Release,
    /// Returns the size of a topic's mesh, and the metrics of our nodes.
    Look(String, oneshot::Sender<(usize, Option<Metrics>)>),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Observed {
    /// A link is up, with this protocol (our nodes only).
    Peer(PeerId, String),
    /// A peer has joined a topic.
    Joined(PeerId, String),
    /// A peer has left a topic.
    Left(PeerId, String),
    Message(String, Vec<u8>),
    /// A message is held back until [`Command::Release`] (go only).
    Held(Vec<u8>),
    /// A copy of a known message arrived from a peer (go only).
    Duplicate(PeerId),
    /// A message awaits its verdict (our nodes only, like all variants below).
    NeedsValidation(MessageId, Vec<u8>, PeerId),
    /// Parts of a group await their verdict, with this ticket.
    Parts(u64, Vec<u8>),
    /// Identify has provided a peer's addresses.
    Identified(PeerId),
    /// A copy was sent to a peer, after so many of the same message.
    Sent(PeerId, u32),
    Cut(PeerId, usize),
    Malformed(PeerId),
    Gone(PeerId),
}

pub(crate) struct Node {
    pub(crate) peer: PeerId,
    /// The key pair, known only for our own nodes.
    pub(crate) key: Option<Keypair>,
    pub(crate) address: Multiaddr,
    pub(crate) commands: mpsc::UnboundedSender<Command>,
    pub(crate) observed: mpsc::UnboundedReceiver<Observed>,
    /// Peers whose subscription was observed and that [`Node::joined`] has not reported yet.
    pub(crate) joined: HashSet<PeerId>,
}

impl Node {
    pub(crate) fn send(&self, command: Command) {
        assert!(self.commands.send(command).is_ok(), "the node is running");
    }

    pub(crate) fn subscribe(&self, topic: &str) {
        self.send(Command::Subscribe(topic.to_owned()));
    }

    pub(crate) fn unsubscribe(&self, topic: &str) {
        self.send(Command::Unsubscribe(topic.to_owned()));
    }

    pub(crate) fn publish(&self, topic: &str, data: &[u8]) {
        self.send(Command::Publish(topic.to_owned(), data.to_vec()));
    }

    /// Publishes a batch (our nodes only).
    pub(crate) fn publish_batch(&self, messages: Vec<(String, Vec<u8>)>, schedule: Schedule) {
        self.send(Command::With(Box::new(move |behaviour| {
            let messages = messages.into_iter().map(|(topic, data)| (Topic::new(&topic), Bytes::from(data)));
            let receipt = behaviour.publish_batch(messages, &schedule).expect("a known order");
            assert!(receipt.messages.iter().all(Result::is_ok), "{receipt:?}");
        })));
    }

    pub(crate) fn dial(&self, other: &Node) {
        self.send(Command::Dial(other.full_address()));
    }

    pub(crate) fn disconnect(&self, other: &Node) {
        self.send(Command::Disconnect(other.peer));
    }

    /// Returns the address with the peer's id.
    pub(crate) fn full_address(&self) -> Multiaddr {
        self.address.clone().with(Protocol::P2p(self.peer))
    }

    pub(crate) async fn look(&self, topic: &str) -> (usize, Option<Metrics>) {
        let (answer, look) = oneshot::channel();
        self.send(Command::Look(topic.to_owned(), answer));
        look.await.expect("the node is running")
    }

    /// Calls a function with the behaviour (our nodes only).
    pub(crate) async fn with<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut Behaviour) -> T + Send + 'static,
    ) -> T {
        let (answer, answered) = oneshot::channel();
        self.send(Command::With(Box::new(move |behaviour| {
            let _ = answer.send(call(behaviour));
        })));
        answered.await.expect("the node is running")
    }

    /// Returns the metrics (our nodes only).
    pub(crate) async fn metrics(&self) -> Metrics {
        self.with(|behaviour| behaviour.engine().metrics().clone()).await
    }

    /// Waits until the metrics satisfy `wanted` (our nodes only).
    pub(crate) async fn counted(&self, what: &str, mut wanted: impl FnMut(&Metrics) -> bool) -> Metrics {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let metrics = self.metrics().await;
            if wanted(&metrics) {
                return metrics;
            }
            assert!(tokio::time::Instant::now() < deadline, "timed out waiting for {what}: {metrics:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until at least this many peers are in the mesh of a topic.
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

    /// Waits for the next observation for which `choose` returns a value.
    pub(crate) async fn next<T>(&mut self, what: &str, mut choose: impl FnMut(&Observed) -> Option<T>) -> T {
        let found = async {
            loop {
                let observed = self.observed.recv().await.expect("the node is running");
                match observed {
                    Observed::Joined(peer, _) => self.joined.insert(peer),
                    Observed::Left(peer, _) | Observed::Gone(peer) => self.joined.remove(&peer),
                    _ => false,
                };
                if let Some(found) = choose(&observed) {
                    return found;
                }
            }
        };
        timeout(2 * PATIENCE, found).await.unwrap_or_else(|_| panic!("timed out waiting for {what}"))
    }

    /// Waits until a peer has joined a topic. Several peers may be waited for in any order.
    pub(crate) async fn joined(&mut self, other: PeerId) {
        if self.joined.remove(&other) {
            return;
        }
        self.next(&format!("a subscription of {other} at {}", self.peer), |observed| {
            matches!(observed, Observed::Joined(peer, _) if *peer == other).then_some(())
        })
        .await;
        self.joined.remove(&other);
    }

    pub(crate) async fn message(&mut self) -> (String, Vec<u8>) {
        self.next("a message", |observed| match observed {
            Observed::Message(topic, data) => Some((topic.clone(), data.clone())),
            _ => None,
        })
        .await
    }

    /// Returns all pending observations.
    pub(crate) fn observed_so_far(&mut self) -> Vec<Observed> {
        std::iter::from_fn(|| self.observed.try_recv().ok()).collect()
    }
}

/// Joins one of our nodes and another to a topic and waits until each is in the other's mesh.
/// `dial` selects the dialling side.
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

/// The side that dials.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Dial {
    Ours,
    Theirs,
}

/// Uses the message ids of go.
pub(crate) fn like_go(mut config: Config) -> Config {
    if matches!(config.message_id, MessageIdFn::FromSeqnoBase58) {
        config.message_id = MessageIdFn::FromSeqno;
    }
    config
}

/// Returns a configuration with signed messages, the ids of rust-libp2p, and heartbeats fast enough
/// for a test.
pub(crate) fn signed() -> Config {
    let mut config = Config::spec();
    config.authenticity = Authenticity::strict(KeyVerifier);
    config.message_id = MessageIdFn::FromSeqnoBase58;
    config.heartbeat_interval = Duration::from_millis(200);
    config.heartbeat_initial_delay = Duration::from_millis(50);
    config.heartbeat_spread = Some(Duration::ZERO);
    config.max_message_bytes = 4 << 20;
    config.max_rpc_bytes = (4 << 20) + 4096;
    // All loopback addresses are equal: the penalty for many peers on one address would affect
    // every peer.
    config.peer_score = None;
    config.deliver_own = false;
    config.report_subscriptions = true;
    config.sending.publish = LaneCapacity::UNBOUNDED;
    config.sending.forward = LaneCapacity::UNBOUNDED;
    config
}

/// Returns a configuration with messages without author, and ids of their content.
pub(crate) fn anonymous() -> Config {
    let mut config = signed();
    config.authenticity = Authenticity::anonymous();
    config.message_id = MessageIdFn::Sha256Data { len: 20 };
    config
}

pub(crate) fn options() -> Options {
    Options { lane_bytes: u64::MAX, report_sent: true, ..Options::default() }
}

/// Returns the configuration of a node that runs rust-libp2p's gossipsub.
pub(crate) fn theirs_config() -> gossipsub::ConfigBuilder {
    let mut config = gossipsub::ConfigBuilder::default();
    config
        .heartbeat_interval(Duration::from_millis(200))
        .heartbeat_initial_delay(Duration::from_millis(50))
        .max_transmit_size((4 << 20) + 4096)
        // By default, frames that waited for a second are dropped. This test may run on a busy
        // machine.
        .publish_queue_duration(PATIENCE)
        .forward_queue_duration(PATIENCE)
        // By default, a message that arrives a minute after its first copy is new again.
        .duplicate_cache_time(10 * PATIENCE);
    config
}
