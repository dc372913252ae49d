//! Links as the hub keeps them, and the numbers that the engine knows nodes by.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use samara_engine::PeerId;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::AbortHandle;

use super::link::Order;

/// Nodes that are ever known at most: the engine remembers something of each, and a number is never given to another one.
const KNOWN_MAX: usize = 16_384;

/// A link, from outside.
pub(super) struct LinkHandle {
    /// The number of its connection.
    pub(super) connection: u64,
    /// Who dialled.
    pub(super) dialler: SocketAddr,
    pub(super) orders: UnboundedSender<Order>,
    pub(super) task: AbortHandle,
    /// Bytes that were handed to it and that the socket has not taken yet.
    pub(super) in_flight: u64,
}

/// All nodes that were ever connected, and the links that there are.
#[derive(Default)]
pub(super) struct Links {
    by_peer: Vec<Option<LinkHandle>>,
    peers: BTreeMap<SocketAddr, PeerId>,
    connections: BTreeMap<u64, PeerId>,
}

impl Links {
    /// The number of a node, which it has for ever. `None` if there are as many as may be.
    pub(super) fn number(&mut self, address: SocketAddr) -> Option<PeerId> {
        if let Some(peer) = self.peers.get(&address) {
            return Some(*peer);
        }
        if self.by_peer.len() >= KNOWN_MAX {
            return None;
        }
        let peer = PeerId(self.by_peer.len() as u32);
        self.by_peer.push(None);
        self.peers.insert(address, peer);
        Some(peer)
    }

    /// The link to a node, if there is one.
    pub(super) fn of(&self, address: &SocketAddr) -> Option<(PeerId, &LinkHandle)> {
        let peer = *self.peers.get(address)?;
        Some((peer, self.by_peer[peer.index()].as_ref()?))
    }

    pub(super) fn insert(&mut self, peer: PeerId, link: LinkHandle) {
        self.connections.insert(link.connection, peer);
        self.by_peer[peer.index()] = Some(link);
    }

    pub(super) fn remove(&mut self, peer: PeerId) -> Option<LinkHandle> {
        let link = self.by_peer.get_mut(peer.index())?.take()?;
        self.connections.remove(&link.connection);
        Some(link)
    }

    pub(super) fn get_mut(&mut self, peer: PeerId) -> Option<&mut LinkHandle> {
        self.by_peer.get_mut(peer.index())?.as_mut()
    }

    /// Whose connection this is; `None` if it was replaced or closed.
    pub(super) fn of_connection(&self, connection: u64) -> Option<PeerId> {
        self.connections.get(&connection).copied()
    }

    pub(super) fn len(&self) -> usize {
        self.connections.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &LinkHandle> {
        self.by_peer.iter().flatten()
    }
}
