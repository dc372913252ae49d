//! Links as the hub keeps them, and the numbers that the engine knows nodes by.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use samara_engine::PeerId;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::AbortHandle;

use super::link::Order;

/// Nodes without a link whose numbers are kept at most: the engine remembers something of each.
const DEPARTED_MAX: usize = 1_024;

/// A link, from outside.
pub(super) struct LinkHandle {
    /// The number of its connection.
    pub(super) connection: u64,
    /// Who dialled.
    pub(super) dialler: SocketAddr,
    /// The other end of its connection, whatever name the node has.
    pub(super) ip: Option<IpAddr>,
    pub(super) orders: UnboundedSender<Order>,
    pub(super) task: AbortHandle,
    /// Bytes that were handed to it and that the socket has not taken yet.
    pub(super) in_flight: u64,
}

/// The links that there are, and the nodes that have a number.
#[derive(Default)]
pub(super) struct Links {
    by_peer: Vec<Option<LinkHandle>>,
    peers: BTreeMap<SocketAddr, PeerId>,
    connections: BTreeMap<u64, PeerId>,
    /// Nodes whose link is gone; the oldest first.
    departed: VecDeque<PeerId>,
}

impl Links {
    /// The number of a node whose link comes up: its own, if it was here before; else one that is new, or that of the node that is
    /// gone for longest and that the engine can forget.
    pub(super) fn number(&mut self, address: SocketAddr, mut forget: impl FnMut(PeerId) -> bool) -> PeerId {
        if let Some(known) = self.peers.get(&address) {
            self.departed.retain(|peer| peer != known);
            return *known;
        }
        let is_full = self.departed.len() >= DEPARTED_MAX;
        let oldest = self.departed.iter().position(|peer| is_full && forget(*peer));
        let peer = match oldest.and_then(|at| self.departed.remove(at)) {
            Some(peer) => {
                self.peers.retain(|_, other| *other != peer);
                peer
            }
            None => {
                self.by_peer.push(None);
                PeerId(self.by_peer.len() as u32 - 1)
            }
        };
        self.peers.insert(address, peer);
        peer
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
        self.departed.push_back(peer);
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

    /// How many links come from there, not counting those that this node dialled.
    pub(super) fn inbound_from(&self, ip: Option<IpAddr>, own: SocketAddr) -> usize {
        self.iter().filter(|link| link.ip == ip && link.dialler != own).count()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &LinkHandle> {
        self.by_peer.iter().flatten()
    }
}
