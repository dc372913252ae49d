//! The two implementations in Rust with equal configurations. `interop/go-bench/router.go` is the
//! counterpart in Go.

use std::error::Error;
use std::time::Duration;

use libp2p::gossipsub;
use libp2p::identity::Keypair;
use libp2p::swarm::NetworkBehaviour;
use samara_engine::outbox::Dispatch;
use samara_gossipsub::Config;
use samara_gossipsub::config::{Authenticity, LaneCapacity, MeshParams};
use samara_gossipsub::message_id::MessageIdFn;
use samara_gossipsub::rpc::Topic;
use samara_libp2p::transport::Meters;
use samara_libp2p::{Event, Options};
use sha2::{Digest, Sha256};

/// Capacity of every queue: larger than the number of messages in flight, so that none is lost.
const QUEUED: usize = 100_000;
/// Large enough for a mesh of all neighbours, of 4 or of 45.
const D: usize = 64;
const D_LOW: usize = 4;
const D_HIGH: usize = 128;
/// Minimum payload for which IDONTWANT is sent, in bytes.
const IDONTWANT_BYTES: usize = 1024;
const SEEN_TTL: Duration = Duration::from_secs(120);
const FRAME_BYTES_MAX: usize = 1 << 20;

pub(crate) type Anyhow<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// How a node of samara-net orders its copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    PerLink,
    /// One order over all links, and 64 KiB in flight on each.
    Node,
    /// One order over all links, and the limit of what the node has under way.
    Limited,
}

/// The carrier of a node's streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// TCP, Noise and Yamux, over libp2p's transport.
    Tcp,
    /// TCP, Noise and Yamux, over this crate's transport.
    MeteredTcp,
    /// libp2p's QUIC.
    Quic,
    /// This crate's QUIC.
    MeteredQuic,
}

/// Returns the order and the transport of the implementation with this name.
pub(crate) fn setup(name: &str) -> (Order, Transport) {
    match name {
        "one-order" => (Order::Node, Transport::Tcp),
        "one-order-limited" => (Order::Limited, Transport::MeteredTcp),
        "quic" => (Order::PerLink, Transport::MeteredQuic),
        "libp2p-quic" => (Order::PerLink, Transport::Quic),
        "quic-limited" => (Order::Limited, Transport::MeteredQuic),
        _ => (Order::PerLink, Transport::Tcp),
    }
}

/// The interface that the benchmark needs of an implementation.
pub(crate) trait Gossip: NetworkBehaviour + Sized {
    fn new(key: &Keypair, order: Order, meters: &Meters) -> Anyhow<Self>;
    fn publish(&mut self, data: Vec<u8>) -> Anyhow<()>;
    fn mesh(&self) -> usize;
    /// Returns the payload if the event is a received message.
    fn message(event: &Self::ToSwarm) -> Option<&[u8]>;
}

impl Gossip for samara_libp2p::Behaviour {
    fn new(key: &Keypair, order: Order, meters: &Meters) -> Anyhow<Self> {
        let mut config = Config::spec();
        config.mesh = MeshParams { d: D, d_low: D_LOW, d_high: D_HIGH, d_score: 0, d_out: 0, ..config.mesh };
        config.authenticity = Authenticity::anonymous();
        config.message_id = MessageIdFn::Sha256Data { len: 20 };
        config.flood_publish = false;
        config.peer_exchange = false;
        config.max_message_bytes = FRAME_BYTES_MAX - 1024;
        config.max_rpc_bytes = FRAME_BYTES_MAX;
        config.seen_ttl = SEEN_TTL;
        config.idontwant.threshold_bytes = IDONTWANT_BYTES;
        config.idontwant.on_publish = false;
        config.deliver_own = false;
        config.peer_score = None;
        config.sending.publish = LaneCapacity::copies(QUEUED);
        config.sending.forward = LaneCapacity::copies(QUEUED);
        if order != Order::PerLink {
            config.sending.dispatch = Dispatch::Node;
        }
        let mut options = Options { meters: meters.clone(), lane_bytes: u64::MAX, ..Options::default() };
        if order == Order::Node {
            options.uplink = None;
        }
        let mut gossip = Self::new(key, config, options)?;
        gossip.subscribe(&Topic::new("t"))?;
        Ok(gossip)
    }

    fn publish(&mut self, data: Vec<u8>) -> Anyhow<()> {
        Self::publish(self, Topic::new("t"), data)?;
        Ok(())
    }

    fn mesh(&self) -> usize {
        self.mesh_peers(&Topic::new("t")).len()
    }

    fn message(event: &Event) -> Option<&[u8]> {
        if let Event::Message { message, .. } = event { Some(&message.data) } else { None }
    }
}

impl Gossip for gossipsub::Behaviour {
    fn new(_: &Keypair, _: Order, _: &Meters) -> Anyhow<Self> {
        let id = |message: &gossipsub::Message| {
            gossipsub::MessageId::from(Sha256::digest(&message.data)[..20].to_vec())
        };
        let config = gossipsub::ConfigBuilder::default()
            .mesh_n(D)
            .mesh_n_low(D_LOW)
            .mesh_n_high(D_HIGH)
            .mesh_outbound_min(0)
            .retain_scores(0)
            .validation_mode(gossipsub::ValidationMode::Anonymous)
            .message_id_fn(id)
            .flood_publish(false)
            .max_transmit_size(FRAME_BYTES_MAX)
            .duplicate_cache_time(SEEN_TTL)
            .heartbeat_initial_delay(Duration::from_millis(100))
            .idontwant_message_size_threshold(IDONTWANT_BYTES)
            .idontwant_on_publish(false)
            .connection_handler_queue_len(QUEUED)
            .publish_queue_duration(Duration::from_secs(60))
            .forward_queue_duration(Duration::from_secs(60))
            .build()?;
        let mut gossip = Self::new(gossipsub::MessageAuthenticity::Anonymous, config)?;
        gossip.subscribe(&gossipsub::IdentTopic::new("t"))?;
        Ok(gossip)
    }

    fn publish(&mut self, data: Vec<u8>) -> Anyhow<()> {
        Self::publish(self, gossipsub::IdentTopic::new("t"), data)?;
        Ok(())
    }

    fn mesh(&self) -> usize {
        self.mesh_peers(&gossipsub::IdentTopic::new("t").hash()).count()
    }

    fn message(event: &gossipsub::Event) -> Option<&[u8]> {
        if let gossipsub::Event::Message { message, .. } = event { Some(&message.data) } else { None }
    }
}
