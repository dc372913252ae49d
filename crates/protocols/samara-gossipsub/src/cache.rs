//! Caches of messages: the ids that a node has seen, and its recent messages in full.

// All tables here have keys that this node assigns, or addresses.
#![allow(clippy::disallowed_types)]

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use samara_engine::{MessageKey, PeerId, PeerKeyed, Time};
use smallvec::SmallVec;

use crate::engine::tables::TopicIdx;
use crate::rpc::{Message, MessageId};

/// The start of an id's time to live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SeenStrategy {
    /// Counts from the first arrival: the default of go-libp2p-pubsub, and the only choice in
    /// rust-libp2p.
    #[default]
    FirstSeen,
    /// Counts from the latest arrival: a message that keeps circulating never looks new again.
    LastSeen,
}

/// Bytes that a seen id takes beside its own: its entries in the table and the queue.
const SEEN_BYTES: usize = 128;

fn seen_bytes(id: &MessageId) -> usize {
    SEEN_BYTES + id.as_bytes().len()
}

/// The ids seen within the time to live, at most `capacity` of them. Each has a number that is
/// never reused.
///
/// Where ids are not hashes of messages, peers can choose them: the table needs a [`PeerKeyed`]
/// hasher.
#[derive(Debug)]
pub(crate) struct SeenCache {
    ttl: Duration,
    capacity: usize,
    bytes_max: usize,
    strategy: SeenStrategy,
    pub(crate) entries: HashMap<MessageId, Entry, PeerKeyed>,
    /// The next time to check each entry, oldest first. With [`SeenStrategy::LastSeen`], an entry
    /// that was seen again moves to the end for another time to live. It may stay in memory longer
    /// than it counts as seen, but the queue stays sorted without a search.
    queue: VecDeque<(Time, MessageKey, MessageId)>,
    next_key: u64,
    /// Bytes of all entries.
    pub(crate) bytes: usize,
    /// Number of ids forgotten within their time to live because the table was full.
    pub(crate) evicted: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    key: MessageKey,
    until: Time,
}

impl SeenCache {
    /// Creates an empty cache.
    ///
    /// # Panics
    /// If `capacity` is zero.
    pub(crate) fn new(ttl: Duration, capacity: usize, strategy: SeenStrategy) -> Self {
        assert!(capacity > 0, "the capacity of a seen cache must be greater than 0");
        let (entries, queue, bytes_max) = (HashMap::default(), VecDeque::new(), usize::MAX);
        Self { ttl, capacity, bytes_max, strategy, entries, queue, next_key: 0, bytes: 0, evicted: 0 }
    }

    /// Bounds the bytes of all ids, with their entries.
    pub(crate) fn with_bytes_max(self, bytes_max: usize) -> Self {
        Self { bytes_max, ..self }
    }

    /// Records that a message with this id arrived or is being published. Returns its number, and
    /// whether it is new or was forgotten.
    pub(crate) fn observe(&mut self, now: Time, id: &MessageId) -> (MessageKey, bool) {
        self.expire(now);
        let until = now + self.ttl;
        if let Some(entry) = self.entries.get_mut(id)
            && entry.until > now
        {
            if self.strategy == SeenStrategy::LastSeen {
                entry.until = until;
            }
            return (entry.key, false);
        }
        let bytes = seen_bytes(id);
        while (self.entries.len() >= self.capacity || self.bytes + bytes > self.bytes_max) && self.evict() {}
        let key = MessageKey(self.next_key);
        self.next_key += 1;
        if self.entries.insert(id.clone(), Entry { key, until }).is_none() {
            self.bytes += bytes;
        }
        self.queue.push_back((until, key, id.clone()));
        (key, true)
    }

    /// Returns the number of a seen id, without recording an arrival.
    pub(crate) fn get(&self, now: Time, id: &MessageId) -> Option<MessageKey> {
        self.entries.get(id).filter(|entry| entry.until > now).map(|entry| entry.key)
    }

    /// Forgets expired entries. Every [`observe`](Self::observe) does so too; a heartbeat calls
    /// this method so that a silent node frees its memory.
    pub(crate) fn expire(&mut self, now: Time) {
        while self.queue.front().is_some_and(|(due, ..)| *due <= now) {
            let Some((_, key, id)) = self.queue.pop_front() else { break };
            match self.entries.get(&id) {
                Some(entry) if entry.key == key && entry.until > now => {
                    self.queue.push_back((now + self.ttl, key, id));
                }
                Some(entry) if entry.key == key => {
                    self.entries.remove(&id);
                    self.bytes -= seen_bytes(&id);
                }
                _ => {}
            }
        }
    }

    /// Forgets the entry that has been in the queue for longest. Returns false if there is none.
    fn evict(&mut self) -> bool {
        while let Some((_, key, id)) = self.queue.pop_front() {
            if self.entries.get(&id).is_some_and(|entry| entry.key == key) {
                self.entries.remove(&id);
                self.bytes -= seen_bytes(&id);
                self.evicted += 1;
                return true;
            }
        }
        false
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

/// Bytes that a cached message takes beside its fields: entries of tables, and its structure.
const ENTRY_BYTES: usize = 512;

/// The messages of the last `history_length` heartbeats, at most `bytes_max` of them. Those of the
/// last `history_gossip` heartbeats are announced in gossip.
///
/// The keys are the node's own [`MessageKey`]s, which no peer chooses.
#[derive(Debug)]
pub(crate) struct MessageCache {
    history_length: u64,
    history_gossip: u64,
    bytes_max: usize,
    /// Number of heartbeats so far.
    tick: u64,
    entries: HashMap<MessageKey, Cached, FxBuildHasher>,
    /// For each topic, all entries with the heartbeat in which they arrived, oldest first.
    by_topic: Vec<VecDeque<(u64, MessageKey)>>,
    /// The topics of all entries with the heartbeat in which they arrived, oldest first.
    order: VecDeque<(u64, TopicIdx)>,
    /// Bytes of all entries, at most `bytes_max`.
    pub(crate) bytes: usize,
    /// Number of messages forgotten early, or not stored, because of `bytes_max`.
    pub(crate) evicted: u64,
}

#[derive(Debug)]
struct Cached {
    id: MessageId,
    message: Arc<Message>,
    /// Number of times that each peer received this message in answer to IWANT.
    transmissions: SmallVec<[(PeerId, u32); 2]>,
}

impl MessageCache {
    /// Creates an empty cache. If `history_gossip` exceeds `history_length`, gossip announces every
    /// message in the cache.
    pub(crate) fn new(history_length: usize, history_gossip: usize, bytes_max: usize) -> Self {
        Self {
            history_length: history_length as u64,
            history_gossip: history_gossip.min(history_length) as u64,
            bytes_max,
            tick: 0,
            entries: HashMap::default(),
            by_topic: Vec::new(),
            order: VecDeque::new(),
            bytes: 0,
            evicted: 0,
        }
    }

    /// Stores a message, unless the cache already holds it. The oldest messages make room for it.
    pub(crate) fn put(&mut self, key: MessageKey, topic: TopicIdx, id: MessageId, message: Arc<Message>) {
        if self.history_length == 0 || self.entries.contains_key(&key) {
            return;
        }
        let bytes = ENTRY_BYTES + message.bytes();
        if bytes > self.bytes_max {
            self.evicted += 1;
            return;
        }
        while self.bytes + bytes > self.bytes_max {
            self.forget_oldest();
            self.evicted += 1;
        }
        self.bytes += bytes;
        self.order.push_back((self.tick, topic));
        self.entries.insert(key, Cached { id, message, transmissions: SmallVec::new() });
        if self.by_topic.len() <= topic.index() {
            self.by_topic.resize_with(topic.index() + 1, VecDeque::new);
        }
        self.by_topic[topic.index()].push_back((self.tick, key));
    }

    pub(crate) fn get(&self, key: MessageKey) -> Option<&Arc<Message>> {
        self.entries.get(&key).map(|entry| &entry.message)
    }

    /// Returns the message for an answer to IWANT, and the ordinal of this answer to the peer, from
    /// 1. The caller compares it with the limit of retransmissions.
    pub(crate) fn get_for_peer(&mut self, key: MessageKey, peer: PeerId) -> Option<(&Arc<Message>, u32)> {
        let entry = self.entries.get_mut(&key)?;
        let place = entry.transmissions.binary_search_by_key(&peer, |(known, _)| *known);
        let at = place.unwrap_or_else(|at| {
            entry.transmissions.insert(at, (peer, 0));
            at
        });
        let count = &mut entry.transmissions[at].1;
        *count = count.saturating_add(1);
        Some((&entry.message, *count))
    }

    /// Returns the ids to announce on a topic: those of the last `history_gossip` heartbeats,
    /// oldest first.
    pub(crate) fn gossip_ids(&self, topic: TopicIdx) -> impl Iterator<Item = (MessageKey, &MessageId)> {
        let window = self.by_topic.get(topic.index());
        let oldest = (self.tick + 1).saturating_sub(self.history_gossip);
        let start = window.map_or(0, |window| window.partition_point(|(tick, _)| *tick < oldest));
        let keys = window.into_iter().flat_map(move |window| window.range(start..));
        keys.filter_map(|(_, key)| self.entries.get(key).map(|entry| (*key, &entry.id)))
    }

    /// Ends a heartbeat: forgets the messages that arrived `history_length` heartbeats ago.
    pub(crate) fn shift(&mut self) {
        self.tick += 1;
        while self.order.front().is_some_and(|(tick, _)| *tick + self.history_length <= self.tick) {
            self.forget_oldest();
        }
    }

    /// Forgets the entry that arrived first, which is also the first of its topic.
    fn forget_oldest(&mut self) {
        let Some((_, topic)) = self.order.pop_front() else { return };
        let Some((_, key)) = self.by_topic[topic.index()].pop_front() else { return };
        if let Some(entry) = self.entries.remove(&key) {
            self.bytes -= ENTRY_BYTES + entry.message.bytes();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}
