//! Keys of recently removed transactions.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use samara_engine::PeerKeyed;
use slab::Slab;

use crate::TxKey;

/// Marks the absence of a neighbour in the list.
const NONE: u32 = u32::MAX;

/// A cache of at most `capacity` keys with a value each. A new key replaces the least recently
/// pushed one.
///
/// As in `LRUTxCache` of celestia-core, pushing a known key makes it the newest, and looking it up
/// does not. Unlike there, a push also replaces the value, and a capacity of 0 means no cache at
/// all (there, in some generations, one key).
///
/// The keys are in a slab, linked from the oldest to the newest. The table holds only their slots.
#[derive(Debug)]
pub struct KeyCache<V> {
    capacity: usize,
    nodes: Slab<Node<V>>,
    index: HashTable<u32>,
    hasher: PeerKeyed,
    oldest: u32,
    newest: u32,
}

#[derive(Debug)]
struct Node<V> {
    key: TxKey,
    older: u32,
    newer: u32,
    value: V,
}

impl<V> KeyCache<V> {
    pub fn new(capacity: usize, hasher: PeerKeyed) -> Self {
        Self {
            capacity: capacity.min(NONE as usize),
            nodes: Slab::new(),
            index: HashTable::new(),
            hasher,
            oldest: NONE,
            newest: NONE,
        }
    }

    /// Makes `key` the newest, with this value. Returns true if it was not in the cache.
    pub fn push(&mut self, key: TxKey, value: V) -> bool {
        if self.capacity == 0 {
            return true;
        }
        if let Some(at) = self.find(&key) {
            self.nodes[at as usize].value = value;
            self.unlink(at);
            self.link(at);
            return false;
        }
        if self.index.len() >= self.capacity {
            let oldest = self.nodes[self.oldest as usize].key;
            self.remove(&oldest);
        }
        let at = self.nodes.insert(Node { key, older: NONE, newer: NONE, value }) as u32;
        self.link(at);
        let Self { nodes, hasher, index, .. } = self;
        index.insert_unique(hasher.hash_one(key), at, |at| hasher.hash_one(nodes[*at as usize].key));
        true
    }

    /// Removes a key. Returns true if it was in the cache.
    pub fn remove(&mut self, key: &TxKey) -> bool {
        if self.index.is_empty() {
            return false;
        }
        let nodes = &self.nodes;
        let found = self.index.find_entry(self.hasher.hash_one(key), |at| nodes[*at as usize].key == *key);
        let Ok(found) = found else { return false };
        let at = found.remove().0;
        self.unlink(at);
        self.nodes.remove(at as usize);
        true
    }

    /// Returns the value of a key, without making the key newer.
    pub fn get(&self, key: &TxKey) -> Option<&V> {
        self.find(key).map(|at| &self.nodes[at as usize].value)
    }

    pub fn contains(&self, key: &TxKey) -> bool {
        self.find(key).is_some()
    }

    pub fn len(&self) -> usize {
        self.index.len()
    }

    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Returns the keys, oldest first.
    pub fn keys(&self) -> impl Iterator<Item = &TxKey> {
        let first = self.nodes.get(self.oldest as usize);
        std::iter::successors(first, |node| self.nodes.get(node.newer as usize)).map(|node| &node.key)
    }

    fn find(&self, key: &TxKey) -> Option<u32> {
        if self.index.is_empty() {
            return None;
        }
        self.index.find(self.hasher.hash_one(key), |at| self.nodes[*at as usize].key == *key).copied()
    }

    /// Appends an unlinked node at the newest end.
    fn link(&mut self, at: u32) {
        let older = std::mem::replace(&mut self.newest, at);
        let node = &mut self.nodes[at as usize];
        (node.older, node.newer) = (older, NONE);
        match self.nodes.get_mut(older as usize) {
            Some(older) => older.newer = at,
            None => self.oldest = at,
        }
    }

    fn unlink(&mut self, at: u32) {
        let Node { older, newer, .. } = self.nodes[at as usize];
        match self.nodes.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
        match self.nodes.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
    }
}
