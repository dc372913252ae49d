//! The message cache (`mcache`) of specification v1.0, "Message cache".

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use samara_engine::{MessageKey, PeerId};
use smallvec::SmallVec;

use crate::ids::TopicIdx;
use crate::rpc::{Message, MessageId};

/// The messages of the last `history_length` heartbeats; those of the last `history_gossip` are gossiped about.
///
/// Keyed by the node's own [`MessageKey`]s, which no peer chooses.
#[derive(Debug)]
pub struct MessageCache {
    history_length: u64,
    history_gossip: u64,
    /// Heartbeats so far.
    tick: u64,
    entries: HashMap<MessageKey, Entry, FxBuildHasher>,
    /// All entries with the heartbeat that they came in, oldest first.
    order: VecDeque<(u64, MessageKey, TopicIdx)>,
    /// The same by topic, so that gossip about one topic does not look at the others.
    by_topic: Vec<VecDeque<(u64, MessageKey)>>,
}

#[derive(Debug)]
struct Entry {
    id: MessageId,
    message: Arc<Message>,
    /// How often a peer was sent this message in answer to IWANT.
    transmissions: SmallVec<[(PeerId, u32); 2]>,
}

impl MessageCache {
    /// An empty cache. Where `history_gossip` is more than `history_length`, all that is kept is gossiped about.
    pub fn new(history_length: usize, history_gossip: usize) -> Self {
        Self {
            history_length: history_length as u64,
            history_gossip: history_gossip.min(history_length) as u64,
            tick: 0,
            entries: HashMap::default(),
            order: VecDeque::new(),
            by_topic: Vec::new(),
        }
    }

    /// Keeps a message. `false`, and nothing changes, if it is there already.
    pub fn put(&mut self, key: MessageKey, topic: TopicIdx, id: MessageId, message: Arc<Message>) -> bool {
        if self.history_length == 0 || self.entries.contains_key(&key) {
            return false;
        }
        self.entries.insert(key, Entry { id, message, transmissions: SmallVec::new() });
        self.order.push_back((self.tick, key, topic));
        if self.by_topic.len() <= topic.index() {
            self.by_topic.resize_with(topic.index() + 1, VecDeque::new);
        }
        self.by_topic[topic.index()].push_back((self.tick, key));
        true
    }

    /// The message, if it is still kept.
    pub fn get(&self, key: MessageKey) -> Option<&Arc<Message>> {
        self.entries.get(&key).map(|entry| &entry.message)
    }

    /// The message for an answer to IWANT, and the how-manieth answer to this peer it is (from 1). The caller
    /// compares with the limit of retransmissions.
    pub fn get_for_peer(&mut self, key: MessageKey, peer: PeerId) -> Option<(&Arc<Message>, u32)> {
        let entry = self.entries.get_mut(&key)?;
        let at = match entry.transmissions.binary_search_by_key(&peer, |(known, _)| *known) {
            Ok(at) => at,
            Err(at) => {
                entry.transmissions.insert(at, (peer, 0));
                at
            }
        };
        let count = &mut entry.transmissions[at].1;
        *count = count.saturating_add(1);
        Some((&entry.message, *count))
    }

    /// The ids to gossip about on a topic: those of the last `history_gossip` heartbeats, oldest first.
    pub fn gossip_ids(&self, topic: TopicIdx) -> impl Iterator<Item = (MessageKey, &MessageId)> {
        let window = self.by_topic.get(topic.index());
        let oldest = (self.tick + 1).saturating_sub(self.history_gossip);
        let start = window.map_or(0, |window| window.partition_point(|(tick, _)| *tick < oldest));
        let keys = window.into_iter().flat_map(move |window| window.range(start..));
        keys.filter_map(|(_, key)| self.entries.get(key).map(|entry| (*key, &entry.id)))
    }

    /// Ends a heartbeat: forgets what came in `history_length` heartbeats ago. Returns the number of messages
    /// forgotten.
    pub fn shift(&mut self) -> usize {
        self.tick += 1;
        let before = self.order.len();
        while let Some(&(tick, key, topic)) = self.order.front() {
            if tick + self.history_length > self.tick {
                break;
            }
            self.order.pop_front();
            self.entries.remove(&key);
            self.by_topic[topic.index()].pop_front();
        }
        before - self.order.len()
    }

    /// How many messages are kept.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
