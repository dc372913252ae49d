//! Peers by their dense numbers.

use samara_engine::PeerId;

/// Peers in the order of their numbers. Small, so that a sorted vector beats any set.
#[derive(Clone, Debug, Default)]
pub(crate) struct PeerSet(Vec<PeerId>);

impl PeerSet {
    pub(crate) fn contains(&self, peer: PeerId) -> bool {
        self.0.binary_search(&peer).is_ok()
    }

    /// `false` if it was there.
    pub(crate) fn insert(&mut self, peer: PeerId) -> bool {
        let Err(at) = self.0.binary_search(&peer) else { return false };
        self.0.insert(at, peer);
        true
    }

    /// `false` if it was not there.
    pub(crate) fn remove(&mut self, peer: PeerId) -> bool {
        let Ok(at) = self.0.binary_search(&peer) else { return false };
        self.0.remove(at);
        true
    }

    pub(crate) fn as_slice(&self) -> &[PeerId] {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What is known of each peer with a link.
#[derive(Debug)]
pub(crate) struct PeerTable<T> {
    slots: Vec<Option<Box<T>>>,
    connected: PeerSet,
}

impl<T> PeerTable<T> {
    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), connected: PeerSet::default() }
    }

    pub(crate) fn insert(&mut self, id: PeerId, peer: T) {
        if self.slots.len() <= id.index() {
            self.slots.resize_with(id.index() + 1, || None);
        }
        self.slots[id.index()] = Some(Box::new(peer));
        self.connected.insert(id);
    }

    pub(crate) fn remove(&mut self, id: PeerId) -> Option<Box<T>> {
        let peer = self.slots.get_mut(id.index())?.take()?;
        self.connected.remove(id);
        Some(peer)
    }

    pub(crate) fn contains(&self, id: PeerId) -> bool {
        self.get(id).is_some()
    }

    pub(crate) fn get(&self, id: PeerId) -> Option<&T> {
        self.slots.get(id.index())?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, id: PeerId) -> Option<&mut T> {
        self.slots.get_mut(id.index())?.as_deref_mut()
    }

    /// Peers with a link, sorted.
    pub(crate) fn connected(&self) -> &[PeerId] {
        self.connected.as_slice()
    }
}
