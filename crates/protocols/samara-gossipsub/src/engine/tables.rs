//! The topics and peers that a node knows, indexed by number.

use std::hash::BuildHasher;
use std::time::Duration;

use bytes::Bytes;
use hashbrown::HashTable;
use samara_engine::{PeerId, PeerIdentity, PeerInfo, PeerKeyed, PeerMap, PeerSet, Time};
use thin_vec::ThinVec;

use crate::rpc::{Control, PartialMode, Topic};

/// The number of a topic in one engine: a small dense number assigned on first use. Tables are
/// indexed by it instead of hashed by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TopicIdx(pub(crate) u32);

impl TopicIdx {
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug, Default)]
pub(super) struct TopicState {
    pub(super) name: Topic,
    /// Whether this node ever used the topic itself. Other topics exist only as long as a peer
    /// subscribes to them.
    pub(super) local: bool,
    pub(super) joined: bool,
    /// Whether the configuration has settings for this topic.
    pub(super) special: bool,
    pub(super) subscribers: PeerSet,
    /// The subscribers that receive all messages and are in no mesh: direct peers, and peers that
    /// speak floodsub.
    pub(super) always: PeerSet,
    /// The subscribers that send parts of messages.
    pub(super) parts_supported_by: PeerSet,
    /// Those of them that want parts instead of full messages.
    pub(super) parts_requested_by: PeerSet,
    /// The mesh; empty unless the topic is joined.
    pub(super) mesh: PeerSet,
    /// The fanout; empty if the topic is joined.
    pub(super) fanout: PeerSet,
    /// The time of the last publication while the topic was not joined.
    pub(super) fanout_used: Option<Time>,
}

impl TopicState {
    /// Sets what a subscriber does with partial messages.
    pub(super) fn set_partial(&mut self, peer: PeerId, mode: PartialMode) {
        for (set, least) in [
            (&mut self.parts_supported_by, PartialMode::Supports),
            (&mut self.parts_requested_by, PartialMode::Requests),
        ] {
            if mode >= least {
                set.insert(peer);
            } else {
                set.remove(peer);
            }
        }
    }
}

/// All topics that a node knows.
///
/// Peers add topics by subscribing. A number is released when the last subscriber leaves, unless
/// this node has used the topic itself. A peer can therefore not make the table larger than its
/// limit of subscriptions.
#[derive(Debug, Default)]
pub(super) struct TopicTable {
    /// The topics by the hashes of their names, which `states` stores.
    by_name: HashTable<TopicIdx>,
    pub(super) hasher: PeerKeyed,
    states: Vec<TopicState>,
    free: Vec<TopicIdx>,
    /// Joined topics, sorted.
    joined: Vec<TopicIdx>,
    /// Topics with a fanout, sorted.
    fanouts: Vec<TopicIdx>,
    /// Bytes of all known topics, with their entries.
    bytes: usize,
}

/// Bytes that a topic takes beside its name: its state, its entry in the table and in those of peers.
const TOPIC_BYTES: usize = 240;

impl TopicTable {
    pub(super) fn find(&self, name: &Topic) -> Option<TopicIdx> {
        // Getters may call this before the start, when no hash key exists.
        if self.by_name.is_empty() {
            return None;
        }
        let is_it = |topic: &TopicIdx| self.states[topic.index()].name == *name;
        self.by_name.find(self.hasher.hash_one(name), is_it).copied()
    }

    /// Returns the number of a topic, and assigns one if necessary. For `special`, see
    /// [`TopicState::special`].
    pub(super) fn intern(&mut self, name: &Topic, special: impl FnOnce() -> bool) -> TopicIdx {
        if let Some(known) = self.find(name) {
            return known;
        }
        let state = TopicState { name: name.clone(), special: special(), ..TopicState::default() };
        self.bytes += TOPIC_BYTES + state.name.as_str().len();
        let topic = match self.free.pop() {
            Some(topic) => {
                self.states[topic.index()] = state;
                topic
            }
            None => {
                self.states.push(state);
                TopicIdx(self.states.len() as u32 - 1)
            }
        };
        let (states, hasher) = (&self.states, &self.hasher);
        let hash = |topic: &TopicIdx| hasher.hash_one(&states[topic.index()].name);
        self.by_name.insert_unique(hash(&topic), topic, hash);
        topic
    }

    /// Releases the number of a topic without users.
    pub(super) fn release(&mut self, topic: TopicIdx) {
        let state = &self.states[topic.index()];
        if state.local || !state.subscribers.is_empty() {
            return;
        }
        let hash = self.hasher.hash_one(&state.name);
        if let Ok(entry) = self.by_name.find_entry(hash, |known| *known == topic) {
            entry.remove();
            self.free.push(topic);
            let name = std::mem::take(&mut self.states[topic.index()].name);
            self.bytes -= TOPIC_BYTES + name.as_str().len();
        }
    }

    /// Returns the bytes that all topics take together with one more.
    pub(super) fn bytes_with(&self, name: &Topic) -> usize {
        self.bytes + TOPIC_BYTES + name.as_str().len()
    }

    pub(super) fn get(&self, topic: TopicIdx) -> &TopicState {
        &self.states[topic.index()]
    }

    pub(super) fn get_mut(&mut self, topic: TopicIdx) -> &mut TopicState {
        &mut self.states[topic.index()]
    }

    pub(super) fn joined(&self) -> &[TopicIdx] {
        &self.joined
    }

    pub(super) fn fanouts(&self) -> &[TopicIdx] {
        &self.fanouts
    }

    pub(super) fn set_joined(&mut self, topic: TopicIdx, joined: bool) {
        self.states[topic.index()].joined = joined;
        set(&mut self.joined, topic, joined);
    }

    pub(super) fn set_fanout(&mut self, topic: TopicIdx, used: Option<Time>) {
        self.states[topic.index()].fanout_used = used;
        set(&mut self.fanouts, topic, used.is_some());
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Returns the bytes of all names, including those of unused numbers.
    pub(super) fn name_bytes(&self) -> usize {
        self.states.iter().map(|state| state.name.as_str().len()).sum()
    }
}

fn set(sorted: &mut Vec<TopicIdx>, topic: TopicIdx, present: bool) {
    match (sorted.binary_search(&topic), present) {
        (Err(at), true) => sorted.insert(at, topic),
        (Ok(at), false) => _ = sorted.remove(at),
        _ => {}
    }
}

/// The protocol version of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// `/floodsub/1.0.0`: receives every message of its topics, knows no control messages.
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
    /// Returns the version of a protocol name. Versions after 1.3 count as 1.3, and names other
    /// than GossipSub's as floodsub. An empty name (from a driver that does not negotiate) counts
    /// as 1.2, the version that this engine speaks.
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

    /// Returns true if the version has meshes and gossip.
    pub(crate) fn has_mesh(self) -> bool {
        self >= Self::V1_0
    }

    /// Returns true if PRUNE carries a backoff and peers.
    pub(crate) fn has_exchange(self) -> bool {
        self >= Self::V1_1
    }

    /// Returns true if the version has IDONTWANT.
    pub(crate) fn has_idontwant(self) -> bool {
        self >= Self::V1_2
    }

    /// Returns true if the version announces extensions.
    pub(crate) fn has_extensions(self) -> bool {
        self >= Self::V1_3
    }
}

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) info: PeerInfo,
    pub(super) protocol: Protocol,
    /// Whether the peer receives every message and is in no mesh.
    pub(super) direct: bool,
    /// Whether the peer never receives messages.
    pub(super) observer: bool,
    /// The remembered topics that the peer has joined, sorted.
    pub(super) topics: Vec<TopicIdx>,
    /// Bytes of the names of these topics.
    pub(super) topic_bytes: usize,
    /// The extensions that the peer has announced (v1.3).
    pub(super) extensions: Option<Box<Bytes>>,
    /// The peer's signed record, for peer exchange.
    pub(super) signed_record: Option<Box<Bytes>>,
    /// GRAFT and PRUNE that did not fit into the peer's queue.
    pub(super) retry: Option<Box<Control>>,
    /// Own topics whose announcement did not fit into the peer's queue.
    pub(super) unannounced: ThinVec<TopicIdx>,
    /// Number of remembered ids that the peer does not want.
    pub(super) unwanted: u32,
    /// Bytes of these ids, with their entries.
    pub(super) unwanted_bytes: usize,
    /// The state of the streams of both sides.
    pub(super) streams: super::streams::Streams,
    /// The times that the peer took to send requested parts.
    pub(super) responses: super::partial::Responses,
    /// The time up to which its offers of messages are ignored.
    pub(super) parked_until: Time,
    /// Number of its remembered offers.
    pub(super) offers: u32,
    /// Counters since the last heartbeat.
    pub(super) counts: Counts,
}

/// Activity of a peer since the last heartbeat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) ihaves: u32,
    /// Ids requested from the peer.
    pub(super) asked: usize,
    /// Ids requested by the peer.
    pub(super) iwanted: usize,
    pub(super) idontwants: u32,
    /// Partial messages of the peer.
    pub(super) partials: u32,
}

#[derive(Debug, Default)]
pub(super) struct PeerTable {
    peers: PeerMap<Peer>,
    /// The peers by the hashes of their identities, which `peers` stores.
    by_identity: HashTable<PeerId>,
    pub(super) hasher: PeerKeyed,
    /// Peers with a link that receive an IDONTWANT for every message.
    pub(super) reported_to: PeerSet,
}

impl PeerTable {
    pub(super) fn insert(&mut self, id: PeerId, peer: Peer) {
        self.forget(&peer.info.identity);
        self.peers.insert(id, peer);
        let (peers, hasher) = (&self.peers, &self.hasher);
        let hash = |id: &PeerId| peers.get(*id).map_or(0, |peer| hasher.hash_one(&peer.info.identity));
        self.by_identity.insert_unique(hash(&id), id, hash);
    }

    pub(super) fn remove(&mut self, id: PeerId) -> Option<Box<Peer>> {
        let identity = self.get(id)?.info.identity.clone();
        if self.find(&identity) == Some(id) {
            self.forget(&identity);
        }
        self.reported_to.remove(id);
        self.peers.remove(id)
    }

    pub(super) fn get(&self, id: PeerId) -> Option<&Peer> {
        self.peers.get(id)
    }

    pub(super) fn get_mut(&mut self, id: PeerId) -> Option<&mut Peer> {
        self.peers.get_mut(id)
    }

    pub(super) fn find(&self, identity: &PeerIdentity) -> Option<PeerId> {
        // Getters may call this before the start, when no hash key exists.
        if self.by_identity.is_empty() {
            return None;
        }
        let is_it = |id: &PeerId| self.get(*id).is_some_and(|peer| peer.info.identity == *identity);
        self.by_identity.find(self.hasher.hash_one(identity), is_it).copied()
    }

    /// Removes the entry of an identity.
    fn forget(&mut self, identity: &PeerIdentity) {
        let peers = &self.peers;
        let is_it = |id: &PeerId| peers.get(*id).is_some_and(|peer| peer.info.identity == *identity);
        if let Ok(entry) = self.by_identity.find_entry(self.hasher.hash_one(identity), is_it) {
            entry.remove();
        }
    }

    /// Returns the peers with a link, sorted.
    pub(super) fn connected(&self) -> &[PeerId] {
        self.peers.connected()
    }

    /// Returns the bytes of the extensions of all peers.
    pub(super) fn extension_bytes(&self) -> usize {
        let announced = self.connected().iter().filter_map(|id| self.get(*id)?.extensions.as_deref());
        announced.map(Bytes::len).sum()
    }

    pub(super) fn is_direct(&self, id: PeerId) -> bool {
        self.get(id).is_some_and(|peer| peer.direct)
    }

    /// Returns true if a peer can be in meshes: it speaks a protocol with meshes, and this node hears
    /// it.
    pub(super) fn has_mesh(&self, id: PeerId) -> bool {
        self.get(id)
            .is_some_and(|peer| peer.protocol.has_mesh() && !peer.observer && !peer.streams.is_unheard)
    }

    pub(super) fn has_idontwant(&self, id: PeerId) -> bool {
        self.get(id).is_some_and(|peer| peer.protocol.has_idontwant())
    }

    /// Notes the time that a peer took to send a requested part.
    pub(super) fn note_response(&mut self, id: PeerId, took: Duration) {
        if let Some(peer) = self.get_mut(id) {
            peer.responses.note(took);
        }
    }

    /// Returns true if a peer broke a promise lately, or is gone.
    pub(super) fn is_parked(&self, id: PeerId, now: Time) -> bool {
        self.get(id).is_none_or(|peer| peer.parked_until > now)
    }

    pub(super) fn note_failure(&mut self, id: PeerId) {
        if let Some(peer) = self.get_mut(id) {
            peer.responses.note_failure();
        }
    }

    /// Returns false if a peer did not send parts in time, and has sent none since.
    pub(super) fn is_reliable(&self, id: PeerId) -> bool {
        !self.get(id).is_some_and(|peer| peer.responses.has_failed())
    }

    /// Returns the time that a peer has to send a requested part, at least `least`.
    pub(super) fn patience(&self, id: PeerId, least: Duration) -> Duration {
        self.get(id).map_or(least, |peer| peer.responses.patience(least))
    }

    pub(super) fn is_outbound(&self, id: PeerId) -> bool {
        self.get(id).is_some_and(|peer| peer.info.outbound)
    }
}
