//! Keys of recently removed transactions.

use hashlink::LinkedHashMap;
use samara_engine::PeerKeyed;

use crate::TxKey;

/// A cache of at most `capacity` keys with a value each. A new key replaces the least recently
/// pushed one.
///
/// As in `LRUTxCache` of celestia-core, pushing a known key makes it the newest, and looking it up
/// does not. Unlike there, a push also replaces the value, and a capacity of 0 means no cache at
/// all (there, in some generations, one key).
#[derive(Debug)]
pub struct KeyCache<V> {
    capacity: usize,
    /// From the oldest to the newest.
    entries: LinkedHashMap<TxKey, V, PeerKeyed>,
}

impl<V> KeyCache<V> {
    pub fn new(capacity: usize, hasher: PeerKeyed) -> Self {
        Self { capacity, entries: LinkedHashMap::with_hasher(hasher) }
    }

    /// Makes `key` the newest, with this value. Returns true if it was not in the cache.
    pub fn push(&mut self, key: TxKey, value: V) -> bool {
        if self.capacity == 0 {
            return true;
        }
        let is_new = self.entries.insert(key, value).is_none();
        if self.entries.len() > self.capacity {
            self.entries.pop_front();
        }
        is_new
    }

    /// Removes a key. Returns true if it was in the cache.
    pub fn remove(&mut self, key: &TxKey) -> bool {
        !self.is_empty() && self.entries.remove(key).is_some()
    }

    /// Returns the value of a key, without making the key newer.
    pub fn get(&self, key: &TxKey) -> Option<&V> {
        // Getters may call this before the start, when there is no key to hash with.
        if self.is_empty() { None } else { self.entries.get(key) }
    }

    pub fn contains(&self, key: &TxKey) -> bool {
        self.get(key).is_some()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the keys, oldest first.
    pub fn keys(&self) -> impl Iterator<Item = &TxKey> {
        self.entries.keys()
    }
}
