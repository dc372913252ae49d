//! Links as the hub keeps them, and the numbers that engines know peers by.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use samara_engine::PeerId as Handle;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::AbortHandle;

use super::connection::{ToConnection, Traffic};
use super::info::NodeInfo;
use super::key::NodeId;

/// Peers without a link whose numbers are kept at most: engines may remember something by them.
const DEPARTED_MAX: usize = 1024;

/// A link.
pub(super) struct Link<F> {
    /// The number of its connection.
    pub(super) connection: u64,
    pub(super) peer: NodeId,
    pub(super) info: NodeInfo,
    pub(super) protocol: Arc<str>,
    pub(super) outbound: bool,
    /// Where it comes from, if it was the peer that dialled.
    pub(super) inbound_ip: Option<IpAddr>,
    pub(super) orders: UnboundedSender<ToConnection<F>>,
    pub(super) task: AbortHandle,
    pub(super) traffic: Arc<Traffic>,
    /// Messages that wait in the queue of each channel.
    pub(super) queued: Vec<u32>,
    /// Bytes of messages that the socket has not taken yet.
    pub(super) in_flight: u64,
}

impl<F> Link<F> {
    /// Whether a channel takes another message.
    pub(super) fn has_room(&self, channel: usize, queue: usize, budget: usize) -> bool {
        (self.queued[channel] as usize) < queue && (self.in_flight == 0 || self.in_flight < budget as u64)
    }
}

/// All links, by the number of the peer, by its name, and by the number of the connection.
pub(super) struct Links<F> {
    by_handle: Vec<Option<Link<F>>>,
    handles: BTreeMap<NodeId, Handle>,
    connections: BTreeMap<u64, Handle>,
    /// Peers whose link is gone; the oldest first.
    departed: VecDeque<(NodeId, Handle)>,
}

impl<F> Links<F> {
    pub(super) const fn new() -> Self {
        Self {
            by_handle: Vec::new(),
            handles: BTreeMap::new(),
            connections: BTreeMap::new(),
            departed: VecDeque::new(),
        }
    }

    /// The number of a peer whose link comes up: its own, if it was here before; else one that is new, or that of whoever is
    /// gone for longest.
    pub(super) fn insert(&mut self, link: Link<F>) -> Handle {
        let known = self.departed.iter().position(|(peer, _)| *peer == link.peer);
        let oldest = (self.departed.len() >= DEPARTED_MAX).then_some(0);
        let handle = match known.or(oldest).and_then(|at| self.departed.remove(at)) {
            Some((_, handle)) => handle,
            None => {
                self.by_handle.push(None);
                Handle(self.by_handle.len() as u32 - 1)
            }
        };
        self.handles.insert(link.peer, handle);
        self.connections.insert(link.connection, handle);
        self.by_handle[handle.index()] = Some(link);
        handle
    }

    pub(super) fn remove(&mut self, handle: Handle) -> Option<Link<F>> {
        let link = self.by_handle.get_mut(handle.index())?.take()?;
        self.handles.remove(&link.peer);
        self.connections.remove(&link.connection);
        self.departed.push_back((link.peer, handle));
        Some(link)
    }

    pub(super) fn get(&self, handle: Handle) -> Option<&Link<F>> {
        self.by_handle.get(handle.index())?.as_ref()
    }

    pub(super) fn get_mut(&mut self, handle: Handle) -> Option<&mut Link<F>> {
        self.by_handle.get_mut(handle.index())?.as_mut()
    }

    pub(super) fn of_peer(&self, peer: &NodeId) -> Option<Handle> {
        self.handles.get(peer).copied()
    }

    pub(super) fn of_connection(&self, connection: u64) -> Option<Handle> {
        self.connections.get(&connection).copied()
    }

    /// All that are up, by the names of the peers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Handle, &Link<F>)> {
        self.handles.values().filter_map(|handle| Some((*handle, self.get(*handle)?)))
    }

    pub(super) fn len(&self) -> usize {
        self.handles.len()
    }
}
