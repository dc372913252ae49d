//! The peers that a node is linked to.

use std::hash::BuildHasher;

use bytes::Bytes;
use hashbrown::HashTable;
use samara_engine::{PeerId, PeerIdentity, PeerInfo, PeerKeyed};
use thin_vec::ThinVec;

use super::topics::PeerSet;
use crate::ids::TopicIdx;
use crate::rpc::Control;

/// What a peer speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// `/floodsub/1.0.0`: gets every message of its topics, knows no control messages.
    Floodsub,
    /// `/meshsub/1.0.0`.
    V1_0,
    /// `/meshsub/1.1.0`: PRUNE carries a backoff and peers.
    V1_1,
    /// `/meshsub/1.2.0`: IDONTWANT.
    V1_2,
    /// `/meshsub/1.3.0`: extensions.
    V1_3,
}

impl Protocol {
    /// The version of a protocol name. Unknown versions after 1.3 count as 1.3, and what is not GossipSub as floodsub.
    /// An empty name (a driver that does not negotiate) counts as 1.2, the version that this engine speaks.
    pub fn of(name: &str) -> Self {
        if name.is_empty() {
            return Self::V1_2;
        }
        let Some(version) = name.strip_prefix("/meshsub/") else { return Self::Floodsub };
        let mut parts = version.split('.');
        let mut number = || parts.next().and_then(|part| part.parse::<u32>().ok());
        match (number(), number()) {
            (Some(1), Some(0)) => Self::V1_0,
            (Some(1), Some(1)) => Self::V1_1,
            (Some(1), Some(2)) => Self::V1_2,
            (Some(1), Some(_)) => Self::V1_3,
            _ => Self::Floodsub,
        }
    }

    /// Whether it knows meshes and gossip.
    pub fn has_mesh(self) -> bool {
        self >= Self::V1_0
    }

    /// Whether its PRUNE carries backoff and peers.
    pub fn has_exchange(self) -> bool {
        self >= Self::V1_1
    }

    /// Whether it knows IDONTWANT.
    pub fn has_idontwant(self) -> bool {
        self >= Self::V1_2
    }

    /// Whether it announces extensions.
    pub fn has_extensions(self) -> bool {
        self >= Self::V1_3
    }
}

/// A peer with a link.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) info: PeerInfo,
    pub(super) protocol: Protocol,
    /// Gets everything, in no mesh.
    pub(super) direct: bool,
    /// Never gets messages.
    pub(super) observer: bool,
    /// Topics it has joined (and that are remembered), sorted.
    pub(super) topics: Vec<TopicIdx>,
    /// The extensions that it has announced (v1.3).
    pub(super) extensions: Option<Box<Bytes>>,
    /// Its signed record, for peer exchange.
    pub(super) signed_record: Option<Box<Bytes>>,
    /// GRAFT and PRUNE that did not fit into its queue.
    pub(super) retry: Option<Box<Control>>,
    /// Own topics whose announcement did not fit into its queue.
    pub(super) unannounced: ThinVec<TopicIdx>,
    /// Ids that it does not want and that are remembered.
    pub(super) unwanted: u32,
    /// Since the last heartbeat:
    pub(super) counts: Counts,
}

/// What a peer did since the last heartbeat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// RPCs with IHAVE.
    pub(super) ihaves: u32,
    /// Ids that it was asked for.
    pub(super) asked: usize,
    /// Ids that it asked for.
    pub(super) iwanted: usize,
    /// RPCs with IDONTWANT.
    pub(super) idontwants: u32,
}

/// All peers with a link, by number.
#[derive(Debug)]
pub(super) struct PeerTable {
    slots: Vec<Option<Box<Peer>>>,
    connected: PeerSet,
    /// By the hashes of their identities, which `slots` have.
    by_identity: HashTable<PeerId>,
    hasher: PeerKeyed,
    /// Peers with a link that get an IDONTWANT for every message.
    pub(super) reported_to: PeerSet,
}

impl PeerTable {
    pub(super) fn new(hasher: PeerKeyed) -> Self {
        Self {
            slots: Vec::new(),
            connected: PeerSet::default(),
            by_identity: HashTable::new(),
            hasher,
            reported_to: PeerSet::default(),
        }
    }

    pub(super) fn insert(&mut self, id: PeerId, peer: Peer) {
        if self.slots.len() <= id.index() {
            self.slots.resize_with(id.index() + 1, || None);
        }
        self.forget(&peer.info.identity);
        self.connected.insert(id);
        self.slots[id.index()] = Some(Box::new(peer));
        let (slots, hasher) = (&self.slots, &self.hasher);
        let hash =
            |id: &PeerId| slots[id.index()].as_ref().map_or(0, |peer| hasher.hash_one(&peer.info.identity));
        self.by_identity.insert_unique(hash(&id), id, hash);
    }

    pub(super) fn remove(&mut self, id: PeerId) -> Option<Box<Peer>> {
        let identity = self.get(id)?.info.identity.clone();
        if self.find(&identity) == Some(id) {
            self.forget(&identity);
        }
        let peer = self.slots.get_mut(id.index())?.take()?;
        self.connected.remove(id);
        self.reported_to.remove(id);
        Some(peer)
    }

    pub(super) fn get(&self, id: PeerId) -> Option<&Peer> {
        self.slots.get(id.index())?.as_deref()
    }

    pub(super) fn get_mut(&mut self, id: PeerId) -> Option<&mut Peer> {
        self.slots.get_mut(id.index())?.as_deref_mut()
    }

    pub(super) fn find(&self, identity: &PeerIdentity) -> Option<PeerId> {
        // Also asked by getters before the start, when there is no key to hash with.
        if self.by_identity.is_empty() {
            return None;
        }
        let is_it = |id: &PeerId| self.get(*id).is_some_and(|peer| peer.info.identity == *identity);
        self.by_identity.find(self.hasher.hash_one(identity), is_it).copied()
    }

    /// Finds it by its identity no more.
    fn forget(&mut self, identity: &PeerIdentity) {
        let slots = &self.slots;
        let is_it =
            |id: &PeerId| slots[id.index()].as_ref().is_some_and(|peer| peer.info.identity == *identity);
        if let Ok(entry) = self.by_identity.find_entry(self.hasher.hash_one(identity), is_it) {
            entry.remove();
        }
    }

    /// Peers with a link, sorted.
    pub(super) fn connected(&self) -> &[PeerId] {
        self.connected.as_slice()
    }

    pub(super) fn is_direct(&self, id: PeerId) -> bool {
        self.get(id).is_some_and(|peer| peer.direct)
    }

    pub(super) fn has_mesh(&self, id: PeerId) -> bool {
        self.get(id).is_some_and(|peer| peer.protocol.has_mesh() && !peer.observer)
    }

    pub(super) fn has_idontwant(&self, id: PeerId) -> bool {
        self.get(id).is_some_and(|peer| peer.protocol.has_idontwant())
    }

    pub(super) fn is_outbound(&self, id: PeerId) -> bool {
        self.get(id).is_some_and(|peer| peer.info.outbound)
    }
}
