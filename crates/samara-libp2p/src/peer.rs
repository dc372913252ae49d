//! Peers and their connections, as the behaviour keeps them.

use std::collections::VecDeque;
use std::net::IpAddr;

use futures::channel::mpsc::UnboundedSender;
use libp2p::swarm::ConnectionId;
use samara_engine::outbox::Room;
use samara_engine::{MessageKey, PeerId as Handle};
use samara_gossipsub::rpc::RpcFrame;

/// A connection of a peer.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) id: ConnectionId,
    pub(crate) frames: UnboundedSender<RpcFrame>,
    pub(crate) outbound: bool,
    pub(crate) address: Option<IpAddr>,
    pub(crate) writable: bool,
    /// Frames on their way, in order.
    pub(crate) in_flight: VecDeque<InFlight>,
    pub(crate) in_flight_bytes: usize,
}

/// A frame on its way into a stream.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) len: usize,
    pub(crate) payload: usize,
    /// The message and the rank, if it is a copy of one.
    pub(crate) copy: Option<(MessageKey, u32)>,
    /// The frame, if it is to be reported.
    pub(crate) frame: Option<RpcFrame>,
}

/// A peer with at least one connection.
#[derive(Debug)]
pub(crate) struct Peer {
    /// Its number in the engine, once it speaks a protocol.
    pub(crate) handle: Option<Handle>,
    pub(crate) connections: Vec<Connection>,
}

impl Peer {
    /// The connection that frames are written to.
    pub(crate) fn active(&mut self) -> Option<&mut Connection> {
        self.connections.iter_mut().find(|connection| connection.writable)
    }

    /// What the link can take: what is left of the budget, and any one frame if nothing is on its way.
    pub(crate) fn room(&self, budget: usize) -> Room {
        match self.connections.iter().find(|connection| connection.writable) {
            None => Room::NONE,
            Some(connection) if connection.in_flight.is_empty() => Room(budget.max(1) as u64),
            Some(connection) => Room(budget.saturating_sub(connection.in_flight_bytes) as u64),
        }
    }
}

/// How much a [`Behaviour`](crate::Behaviour) keeps, in entries: for tests of bounds and for gauges. What the engine keeps is
/// told by [`GossipSub::sizes`](samara_gossipsub::GossipSub::sizes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Peers with a connection, whether or not they speak a protocol.
    pub peers: usize,
    /// Their connections.
    pub connections: usize,
    /// Numbers of links: those that are up, and some that are gone and might come back.
    pub handles: usize,
    /// Recommended peers whose addresses are kept until they are dialled.
    pub recommended: usize,
    /// Bytes of frames that are on their way into streams.
    pub in_flight_bytes: usize,
    /// Events and requests that the swarm has not taken yet.
    pub actions: usize,
}
