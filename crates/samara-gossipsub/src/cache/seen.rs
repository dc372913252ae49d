//! Which messages a node has seen, and the numbers it gave them.

use std::collections::VecDeque;
use std::time::Duration;

use hashbrown::HashMap;
use samara_engine::{MessageKey, PeerKeyed, Time};

use crate::rpc::MessageId;

/// From when the time to live of an id counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SeenStrategy {
    /// From its first arrival (the default of go-libp2p-pubsub, and rust-libp2p's only one).
    #[default]
    FirstSeen,
    /// From its latest arrival, so that a message that keeps circulating is never taken for new.
    LastSeen,
}

/// The answer of [`SeenCache::observe`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Not seen before (or forgotten since); from now on it has this number.
    New(MessageKey),
    /// Seen before under this number.
    Before(MessageKey),
}

impl Seen {
    /// The number, new or known.
    pub fn key(self) -> MessageKey {
        match self {
            Self::New(key) | Self::Before(key) => key,
        }
    }
}

/// The ids seen within the time to live, at most `capacity` of them; each has a number that is never given out again.
///
/// Peers can choose ids where these are no hashes of messages: the table needs a [`PeerKeyed`] hasher.
#[derive(Debug)]
pub struct SeenCache {
    ttl: Duration,
    capacity: usize,
    strategy: SeenStrategy,
    entries: HashMap<MessageId, Entry, PeerKeyed>,
    /// When to look at an entry next, oldest first. With [`SeenStrategy::LastSeen`] an entry that was seen again goes
    /// to the end for one more time to live: it may stay in memory longer than it counts as seen, and the queue stays
    /// sorted without being searched.
    queue: VecDeque<(Time, MessageKey, MessageId)>,
    next_key: u64,
    evicted: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: MessageKey,
    until: Time,
}

impl SeenCache {
    /// An empty cache.
    ///
    /// # Panics
    /// If `capacity` is zero.
    pub fn new(ttl: Duration, capacity: usize, strategy: SeenStrategy, hasher: PeerKeyed) -> Self {
        assert!(capacity > 0, "a seen cache needs a capacity");
        Self {
            ttl,
            capacity,
            strategy,
            entries: HashMap::with_hasher(hasher),
            queue: VecDeque::new(),
            next_key: 0,
            evicted: 0,
        }
    }

    /// A message with this id arrived, or is being published.
    pub fn observe(&mut self, now: Time, id: &MessageId) -> Seen {
        self.expire(now);
        let until = now + self.ttl;
        if let Some(entry) = self.entries.get_mut(id)
            && entry.until > now
        {
            if self.strategy == SeenStrategy::LastSeen {
                entry.until = until;
            }
            return Seen::Before(entry.key);
        }
        if self.entries.len() >= self.capacity {
            self.evict();
        }
        let key = MessageKey(self.next_key);
        self.next_key += 1;
        self.entries.insert(id.clone(), Entry { key, until });
        self.queue.push_back((until, key, id.clone()));
        Seen::New(key)
    }

    /// The number of an id that was seen, without counting as an arrival.
    pub fn get(&self, now: Time, id: &MessageId) -> Option<MessageKey> {
        self.entries.get(id).filter(|entry| entry.until > now).map(|entry| entry.key)
    }

    /// Whether this id was seen.
    pub fn contains(&self, now: Time, id: &MessageId) -> bool {
        self.get(now, id).is_some()
    }

    /// Forgets what is over. Every [`observe`](Self::observe) does it too; a heartbeat calls it so that a silent
    /// node gives its memory back.
    pub fn expire(&mut self, now: Time) {
        while self.queue.front().is_some_and(|(due, ..)| *due <= now) {
            let Some((_, key, id)) = self.queue.pop_front() else { break };
            match self.entries.get(&id) {
                Some(entry) if entry.key == key && entry.until > now => {
                    self.queue.push_back((now + self.ttl, key, id));
                }
                Some(entry) if entry.key == key => {
                    self.entries.remove(&id);
                }
                _ => {}
            }
        }
    }

    /// Makes room by forgetting the entry that has been in the queue for longest.
    fn evict(&mut self) {
        while let Some((_, key, id)) = self.queue.pop_front() {
            if self.entries.get(&id).is_some_and(|entry| entry.key == key) {
                self.entries.remove(&id);
                self.evicted += 1;
                return;
            }
        }
    }

    /// How many ids are kept.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no id is kept.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Ids that were forgotten before their time because the cache was full. Not zero means duplicates may be taken
    /// for new messages: the capacity is too small for the traffic.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }
}
