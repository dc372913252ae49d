//! Sorted sets of peers, and tables by peer.

use std::ops::Deref;

use thin_vec::ThinVec;

use crate::PeerId;

/// A set of peers in the order of their numbers. Dereferences to a slice.
///
/// Sets are small, so that a sorted vector is faster than any other set. The vector is thin: a node
/// of GossipSub has four sets for each topic that it knows, nearly all of them empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerSet(ThinVec<PeerId>);

impl PeerSet {
    /// Returns true if a peer is in the set. Uses binary search.
    #[inline]
    pub fn contains(&self, peer: PeerId) -> bool {
        self.0.binary_search(&peer).is_ok()
    }

    /// Adds a peer to the set. Returns false if it was already there.
    pub fn insert(&mut self, peer: PeerId) -> bool {
        let Err(at) = self.0.binary_search(&peer) else { return false };
        self.0.insert(at, peer);
        true
    }

    /// Removes a peer from the set. Returns false if it was not there.
    pub fn remove(&mut self, peer: PeerId) -> bool {
        let Ok(at) = self.0.binary_search(&peer) else { return false };
        self.0.remove(at);
        true
    }

    /// Keeps only the peers for which `keep` returns true.
    pub fn retain(&mut self, keep: impl FnMut(&PeerId) -> bool) {
        self.0.retain(keep);
    }
}

impl Deref for PeerSet {
    type Target = [PeerId];

    #[inline]
    fn deref(&self) -> &[PeerId] {
        &self.0
    }
}

impl FromIterator<PeerId> for PeerSet {
    fn from_iter<I: IntoIterator<Item = PeerId>>(peers: I) -> Self {
        let mut peers: ThinVec<PeerId> = peers.into_iter().collect();
        peers.sort_unstable();
        peers.dedup();
        Self(peers)
    }
}

/// A value for each peer with a link.
#[derive(Debug)]
pub struct PeerMap<T> {
    /// By number of the peer.
    slots: Vec<Option<Box<T>>>,
    connected: PeerSet,
}

impl<T> Default for PeerMap<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), connected: PeerSet::default() }
    }
}

impl<T> PeerMap<T> {
    /// Sets the value of a peer.
    pub fn insert(&mut self, peer: PeerId, value: T) {
        if self.slots.len() <= peer.index() {
            self.slots.resize_with(peer.index() + 1, || None);
        }
        self.slots[peer.index()] = Some(Box::new(value));
        self.connected.insert(peer);
    }

    /// Removes the value of a peer.
    pub fn remove(&mut self, peer: PeerId) -> Option<Box<T>> {
        let value = self.slots.get_mut(peer.index())?.take()?;
        self.connected.remove(peer);
        Some(value)
    }

    /// Returns true if a peer has a value.
    pub fn contains(&self, peer: PeerId) -> bool {
        self.get(peer).is_some()
    }

    /// Returns the value of a peer.
    pub fn get(&self, peer: PeerId) -> Option<&T> {
        self.slots.get(peer.index())?.as_deref()
    }

    /// Returns the value of a peer, for changes.
    pub fn get_mut(&mut self, peer: PeerId) -> Option<&mut T> {
        self.slots.get_mut(peer.index())?.as_deref_mut()
    }

    /// Returns the peers with a value, sorted.
    pub fn connected(&self) -> &[PeerId] {
        &self.connected
    }
}
