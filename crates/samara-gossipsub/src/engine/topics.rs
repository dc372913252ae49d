//! The topics that a node knows, by number.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use samara_engine::{PeerId, PeerKeyed, Time};
use thin_vec::ThinVec;

use crate::ids::TopicIdx;
use crate::rpc::Topic;

/// Peers in the order of their numbers. Small, so that a sorted vector beats any set, and thin: a node has four for each topic that it knows, nearly all of
/// them empty.
#[derive(Clone, Debug, Default)]
pub(super) struct PeerSet(ThinVec<PeerId>);

impl PeerSet {
    pub(super) fn contains(&self, peer: PeerId) -> bool {
        self.0.binary_search(&peer).is_ok()
    }

    /// `false` if it was there.
    pub(super) fn insert(&mut self, peer: PeerId) -> bool {
        match self.0.binary_search(&peer) {
            Ok(_) => false,
            Err(at) => {
                self.0.insert(at, peer);
                true
            }
        }
    }

    /// `false` if it was not there.
    pub(super) fn remove(&mut self, peer: PeerId) -> bool {
        match self.0.binary_search(&peer) {
            Ok(at) => {
                self.0.remove(at);
                true
            }
            Err(_) => false,
        }
    }

    pub(super) fn retain(&mut self, keep: impl FnMut(&PeerId) -> bool) {
        self.0.retain(keep);
    }

    pub(super) fn as_slice(&self) -> &[PeerId] {
        &self.0
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
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

/// What a node knows of a topic.
#[derive(Debug)]
pub(super) struct TopicState {
    pub(super) name: Topic,
    /// Whether this node ever used the topic itself. Others exist only as long as a peer subscribes to them.
    pub(super) local: bool,
    /// Whether this node has joined.
    pub(super) joined: bool,
    /// Whether the configuration has something of its own for this topic.
    pub(super) special: bool,
    /// Peers that have joined.
    pub(super) subscribers: PeerSet,
    /// Of these, those that get all messages and are in no mesh: direct peers, and those that speak floodsub.
    pub(super) always: PeerSet,
    /// The mesh; empty unless joined.
    pub(super) mesh: PeerSet,
    /// The fanout; empty if joined.
    pub(super) fanout: PeerSet,
    /// When a message was last published without having joined.
    pub(super) fanout_used: Option<Time>,
}

/// All topics that a node knows.
///
/// Peers bring topics in by subscribing. A number is taken back when the last of them leaves, unless this node has used
/// the topic itself, so that no peer can make the table grow beyond what it may subscribe to at a time.
#[derive(Debug)]
pub(super) struct TopicTable {
    /// By the hashes of their names, which `states` has.
    by_name: HashTable<TopicIdx>,
    hasher: PeerKeyed,
    states: Vec<TopicState>,
    free: Vec<TopicIdx>,
    /// Joined topics, sorted.
    joined: Vec<TopicIdx>,
    /// Topics with a fanout, sorted.
    fanouts: Vec<TopicIdx>,
}

impl TopicTable {
    pub(super) fn new(hasher: PeerKeyed) -> Self {
        Self {
            by_name: HashTable::new(),
            hasher,
            states: Vec::new(),
            free: Vec::new(),
            joined: Vec::new(),
            fanouts: Vec::new(),
        }
    }

    pub(super) fn find(&self, name: &Topic) -> Option<TopicIdx> {
        // Also asked by getters before the start, when there is no key to hash with.
        if self.by_name.is_empty() {
            return None;
        }
        let is_it = |topic: &TopicIdx| self.states[topic.index()].name == *name;
        self.by_name.find(self.hasher.hash_one(name), is_it).copied()
    }

    /// The number of a topic, made if there is none. `special`: see [`TopicState::special`].
    pub(super) fn intern(&mut self, name: &Topic, special: impl FnOnce() -> bool) -> TopicIdx {
        if let Some(known) = self.find(name) {
            return known;
        }
        let state = TopicState {
            name: name.clone(),
            local: false,
            joined: false,
            special: special(),
            subscribers: PeerSet::default(),
            always: PeerSet::default(),
            mesh: PeerSet::default(),
            fanout: PeerSet::default(),
            fanout_used: None,
        };
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

    /// Takes the number back if nobody needs the topic.
    pub(super) fn release(&mut self, topic: TopicIdx) {
        let state = &self.states[topic.index()];
        if state.local || !state.subscribers.is_empty() {
            return;
        }
        let hash = self.hasher.hash_one(&state.name);
        if let Ok(entry) = self.by_name.find_entry(hash, |known| *known == topic) {
            entry.remove();
            self.free.push(topic);
        }
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

    /// Topics that are known now.
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }
}

fn set(sorted: &mut Vec<TopicIdx>, topic: TopicIdx, present: bool) {
    match (sorted.binary_search(&topic), present) {
        (Err(at), true) => sorted.insert(at, topic),
        (Ok(at), false) => {
            sorted.remove(at);
        }
        _ => {}
    }
}
