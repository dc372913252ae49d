//! Which messages a node has seen, and the numbers it gave them.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::time::Duration;

use hashbrown::HashTable;
use samara_engine::{MessageKey, PeerKeyed, Time};

use crate::message::MessageId;

/// The ids seen within the time to live, at most `capacity` of them; each has a number that is never given out again.
///
/// The time to live counts from the first arrival (`Strategy_FirstSeen` of go-libp2p-pubsub's `timecache`, its default),
/// so that ids are forgotten in the order in which they came and numbers are places in a queue: about 32 bytes an id, which
/// matters with 10,000 nodes in a process.
///
/// Frames carry ids, which peers can invent: the table needs a [`PeerKeyed`] hasher.
#[derive(Debug)]
pub struct SeenCache {
    ttl: Duration,
    capacity: usize,
    hasher: PeerKeyed,
    /// Oldest first. The first one has the number `first`.
    queue: VecDeque<Entry>,
    first: u64,
    /// The low 32 bits of the numbers, by id. At most `u32::MAX` ids are kept, so that these tell them apart.
    table: HashTable<u32>,
    evicted: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    id: MessageId,
    until: Time,
}

impl SeenCache {
    /// The most ids that a cache can hold.
    pub const CAPACITY_MAX: usize = u32::MAX as usize;

    /// An empty cache.
    ///
    /// # Panics
    /// If `capacity` is zero or more than [`CAPACITY_MAX`](Self::CAPACITY_MAX).
    pub fn new(ttl: Duration, capacity: usize, hasher: PeerKeyed) -> Self {
        assert!((1..=Self::CAPACITY_MAX).contains(&capacity), "a seen cache holds 1 to {} ids", u32::MAX);
        Self { ttl, capacity, hasher, queue: VecDeque::new(), first: 0, table: HashTable::new(), evicted: 0 }
    }

    /// The number of an id that was seen.
    pub fn get(&mut self, now: Time, id: MessageId) -> Option<MessageKey> {
        self.expire(now);
        let (queue, first) = (&self.queue, self.first);
        let low = self.table.find(self.hasher.hash_one(id), |low| id_at(queue, first, *low) == id)?;
        Some(MessageKey(first + place(first, *low) as u64))
    }

    /// Takes an id as seen that [`get`](Self::get) has just not found, and gives it a number.
    pub fn insert(&mut self, now: Time, id: MessageId) -> MessageKey {
        debug_assert!(self.get(now, id).is_none(), "an id is inserted twice");
        if self.queue.len() >= self.capacity {
            self.evicted += 1;
            self.forget_oldest();
        }
        let key = self.first + self.queue.len() as u64;
        self.queue.push_back(Entry { id, until: now + self.ttl });
        let (queue, first, hasher) = (&self.queue, self.first, &self.hasher);
        let rehash = |low: &u32| hasher.hash_one(id_at(queue, first, *low));
        self.table.insert_unique(hasher.hash_one(id), key as u32, rehash);
        MessageKey(key)
    }

    fn expire(&mut self, now: Time) {
        while self.queue.front().is_some_and(|oldest| oldest.until <= now) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some(oldest) = self.queue.front() else { return };
        let low = self.first as u32;
        if let Ok(entry) = self.table.find_entry(self.hasher.hash_one(oldest.id), |known| *known == low) {
            entry.remove();
        }
        self.queue.pop_front();
        self.first += 1;
    }

    /// How many ids are kept.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether no id is kept.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Ids that were forgotten before their time because the cache was full. Not zero means that duplicates may be taken
    /// for new messages: the capacity is too small for the traffic.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }
}

/// The place in the queue of a number of which the low bits are known.
fn place(first: u64, low: u32) -> usize {
    low.wrapping_sub(first as u32) as usize
}

fn id_at(queue: &VecDeque<Entry>, first: u64, low: u32) -> MessageId {
    queue[place(first, low)].id
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> MessageId {
        MessageId::from_bytes((u128::from(number) * 0x9e37_79b9_7f4a_7c15).to_be_bytes())
    }

    #[test]
    fn ids_keep_their_numbers_until_their_time_is_over() {
        let mut seen = SeenCache::new(Duration::from_secs(10), 1000, PeerKeyed::from_key([0, 1]));
        for number in 0..100 {
            assert_eq!(seen.get(Time::from_secs(number), id(number)), None);
            assert_eq!(seen.insert(Time::from_secs(number), id(number)), MessageKey(number));
            for known in 0..=number {
                let expected = (known + 10 > number).then_some(MessageKey(known));
                assert_eq!(seen.get(Time::from_secs(number), id(known)), expected);
            }
        }
        assert_eq!((seen.len(), seen.evicted()), (10, 0));
        assert_eq!(seen.get(Time::from_secs(200), id(99)), None);
        assert!(seen.is_empty() && seen.table.is_empty());
    }

    #[test]
    fn a_full_cache_forgets_the_oldest_and_counts_it() {
        let mut seen = SeenCache::new(Duration::from_secs(10), 8, PeerKeyed::from_key([0, 1]));
        for number in 0..20 {
            seen.insert(Time::ZERO, id(number));
        }
        assert_eq!((seen.len(), seen.table.len(), seen.evicted()), (8, 8, 12));
        assert_eq!(seen.get(Time::ZERO, id(11)), None);
        assert_eq!(seen.get(Time::ZERO, id(12)), Some(MessageKey(12)));
        // A number is never given out again, not even to the same id.
        assert_eq!(seen.insert(Time::ZERO, id(0)), MessageKey(20));
    }

    #[test]
    fn numbers_go_on_beyond_32_bits() {
        let mut seen = SeenCache::new(Duration::from_secs(1), 100, PeerKeyed::from_key([0, 1]));
        seen.first = u64::from(u32::MAX) - 50;
        for number in 0..100 {
            let key = seen.insert(Time::ZERO, id(number));
            assert_eq!(key, MessageKey(u64::from(u32::MAX) - 50 + number));
        }
        for number in 0..100 {
            let expected = Some(MessageKey(u64::from(u32::MAX) - 50 + number));
            assert_eq!(seen.get(Time::ZERO, id(number)), expected);
        }
        assert_eq!(seen.get(Time::from_secs(1), id(99)), None);
        assert!(seen.table.is_empty());
    }
}
