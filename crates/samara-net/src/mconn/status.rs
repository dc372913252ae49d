//! What a node tells.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use samara_engine::PeerId as Handle;

use super::error::Closed;
use super::info::NodeInfo;
use super::key::NodeId;

/// What a [`Node`](super::Node) tells by itself.
#[derive(Clone, Debug)]
pub enum Event<T> {
    /// The engine tells something.
    Engine(T),
    /// The link to a peer is up.
    LinkUp {
        /// Who.
        peer: NodeId,
        /// Its number in the engine.
        handle: Handle,
        /// What is spoken.
        protocol: Arc<str>,
        /// Whether this node dialled.
        outbound: bool,
        /// What it told of itself.
        info: NodeInfo,
    },
    /// The link to a peer is gone.
    LinkDown {
        /// Who.
        peer: NodeId,
        /// Its number in the engine.
        handle: Handle,
        /// Why.
        why: Closed,
        /// Copies that were owed to it.
        lost_copies: usize,
    },
    /// A peer could not be dialled.
    DialFailed {
        /// Who.
        peer: NodeId,
        /// Why not.
        why: Closed,
    },
    /// A peer that dialled was not let in.
    Refused {
        /// Where it is.
        remote: SocketAddr,
        /// Why.
        why: Closed,
    },
}

/// How a node stands.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Peers with a link, by name.
    pub peers: Vec<PeerStatus>,
    /// Copies in the outbox.
    pub owed_copies: usize,
    /// Bytes of messages on their way from the outbox into sockets.
    pub in_flight_bytes: u64,
    /// What was counted since the start.
    pub counters: Counters,
}

/// A peer with a link.
#[derive(Clone, Debug)]
pub struct PeerStatus {
    /// Who.
    pub id: NodeId,
    /// Its number in the engine.
    pub handle: Handle,
    /// What is spoken.
    pub protocol: Arc<str>,
    /// Whether this node dialled.
    pub outbound: bool,
    /// What it calls itself.
    pub moniker: String,
    /// Copies that it is owed.
    pub owed_copies: usize,
}

/// What a node counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Links that came up.
    pub links: u64,
    /// Connections that came to nothing and links that went down, by cause ([`Closed::name`]).
    pub closed: BTreeMap<&'static str, u64>,
    /// Bytes on the wire after the handshakes, sealed, that were sent.
    pub wire_up: u64,
    /// And received.
    pub wire_down: u64,
    /// Frames that were handed to connections.
    pub frames_up: u64,
    /// Frames that came.
    pub frames_down: u64,
    /// Bytes of payload in them: sent.
    pub payload_up: u64,
    /// And received.
    pub payload_down: u64,
    /// All other bytes of frames: sent.
    pub control_up: u64,
    /// And received.
    pub control_down: u64,
    /// Events that nobody read in time.
    pub events_lost: u64,
}

/// What was left when a node stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stopped {
    /// Copies that were owed still.
    pub left_copies: usize,
    /// The same by peer.
    pub left: BTreeMap<NodeId, usize>,
}
