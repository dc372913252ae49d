//! The topics that a node knows.

use hashbrown::HashMap;
use samara_engine::PeerKeyed;

use crate::message::Topic;
use crate::peers::PeerSet;

/// A topic as one node names it, so that peers' topics are numbers.
pub(super) type TopicIdx = u32;

#[derive(Debug)]
pub(super) struct TopicState {
    pub(super) name: Topic,
    pub(super) joined: bool,
    /// Peers that have joined.
    pub(super) subscribers: PeerSet,
}

/// All topics that this node or a peer of it has joined; others are forgotten, so that no peer can make the table grow
/// beyond what it may subscribe to at a time.
#[derive(Debug)]
pub(super) struct TopicTable {
    by_name: HashMap<Topic, TopicIdx, PeerKeyed>,
    states: Vec<TopicState>,
    free: Vec<TopicIdx>,
    /// The topic that was found last: most traffic is on one, and its name is then not even hashed.
    last: TopicIdx,
}

impl TopicTable {
    pub(super) fn new(hasher: PeerKeyed) -> Self {
        let by_name = HashMap::with_hasher(hasher);
        Self { by_name, states: Vec::new(), free: Vec::new(), last: 0 }
    }

    pub(super) fn find(&mut self, name: &Topic) -> Option<TopicIdx> {
        // A number that was taken back keeps its name until it is used again: it must not be found.
        if let Some(last) = self.states.get(self.last as usize)
            && last.is_used()
            && last.name.is(name)
        {
            return Some(self.last);
        }
        let found = self.by_name.get(name).copied()?;
        self.last = found;
        Some(found)
    }

    pub(super) fn intern(&mut self, name: &Topic) -> TopicIdx {
        if let Some(known) = self.find(name) {
            return known;
        }
        let state = TopicState { name: name.clone(), joined: false, subscribers: PeerSet::default() };
        let topic = match self.free.pop() {
            Some(topic) => {
                self.states[topic as usize] = state;
                topic
            }
            None => {
                self.states.push(state);
                self.states.len() as TopicIdx - 1
            }
        };
        self.by_name.insert(name.clone(), topic);
        topic
    }

    /// Takes the number back if nobody has joined.
    pub(super) fn release(&mut self, topic: TopicIdx) {
        let state = &self.states[topic as usize];
        if !state.is_used() && self.by_name.remove(&state.name).is_some() {
            self.free.push(topic);
        }
    }

    pub(super) fn get(&self, topic: TopicIdx) -> &TopicState {
        &self.states[topic as usize]
    }

    pub(super) fn get_mut(&mut self, topic: TopicIdx) -> &mut TopicState {
        &mut self.states[topic as usize]
    }

    /// Joined topics, by number.
    pub(super) fn joined(&self) -> impl Iterator<Item = TopicIdx> + '_ {
        self.states.iter().zip(0..).filter(|(state, _)| state.joined).map(|(_, topic)| topic)
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }
}

impl TopicState {
    fn is_used(&self) -> bool {
        self.joined || !self.subscribers.is_empty()
    }
}
