//! Sets of peers.

use std::ops::Deref;

use thin_vec::ThinVec;

use crate::PeerId;

/// Peers in the order of their numbers, as a slice of which it can be read.
///
/// Small, so that a sorted vector beats any set, and thin: a node of GossipSub has four for each topic that it knows,
/// nearly all of them empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerSet(ThinVec<PeerId>);

impl PeerSet {
    /// Whether a peer is in the set: a binary search.
    pub fn contains(&self, peer: PeerId) -> bool {
        self.0.binary_search(&peer).is_ok()
    }

    /// Puts a peer into the set. `false` if it was there.
    pub fn insert(&mut self, peer: PeerId) -> bool {
        let Err(at) = self.0.binary_search(&peer) else { return false };
        self.0.insert(at, peer);
        true
    }

    /// Takes a peer out of the set. `false` if it was not there.
    pub fn remove(&mut self, peer: PeerId) -> bool {
        let Ok(at) = self.0.binary_search(&peer) else { return false };
        self.0.remove(at);
        true
    }

    /// Keeps the peers for which `keep` holds.
    pub fn retain(&mut self, keep: impl FnMut(&PeerId) -> bool) {
        self.0.retain(keep);
    }
}

impl Deref for PeerSet {
    type Target = [PeerId];

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
