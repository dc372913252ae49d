//! The transactions of a pool: by key, and in order.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::slice;

use hashbrown::HashTable;
use samara_engine::PeerKeyed;
use slab::Slab;

use super::config::Order;
use super::entry::Entry;
use super::signers::{SignerSets, weight};
use super::{Admission, Signer};
use crate::TxKey;

/// Where a group stands: the first in this order is reaped first, the last is evicted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    pub(super) priority: Reverse<i64>,
    /// The arrival of the oldest transaction. No two groups share it.
    pub(super) arrival: u64,
}

/// What is reaped together and has one rank.
#[derive(Clone, Copy, Debug)]
enum Group {
    /// A transaction that depends on no other.
    Alone(u32),
    /// The transactions of a sender.
    Signer(u32),
}

/// The transactions. An entry is in the slab, and everything else has its slot.
#[derive(Debug)]
pub(super) struct Store {
    order: Order,
    entries: Slab<Entry>,
    bytes: u64,
    index: HashTable<u32>,
    hasher: PeerKeyed,
    groups: BTreeMap<Rank, Group>,
    sets: SignerSets,
    next_arrival: u64,
}

impl Store {
    pub(super) fn new(order: Order, hasher: PeerKeyed) -> Self {
        Self {
            order,
            entries: Slab::new(),
            bytes: 0,
            index: HashTable::new(),
            hasher,
            groups: BTreeMap::new(),
            sets: SignerSets::new(hasher),
            next_arrival: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn find(&self, key: &TxKey) -> Option<u32> {
        // Also asked by getters before the start, when there is no key to hash with.
        if self.index.is_empty() {
            return None;
        }
        let matches = |slot: &u32| self.entry(*slot).transaction.key_ref() == key;
        self.index.find(self.hasher.hash_one(key), matches).copied()
    }

    pub(super) fn entry(&self, slot: u32) -> &Entry {
        &self.entries[slot as usize]
    }

    pub(super) fn entry_mut(&mut self, slot: u32) -> &mut Entry {
        &mut self.entries[slot as usize]
    }

    /// Adds a transaction that is not there yet, and numbers it.
    pub(super) fn insert(&mut self, mut entry: Entry) {
        entry.arrival = self.next_arrival;
        self.next_arrival += 1;
        self.bytes += entry.len();
        let rank = Rank { priority: Reverse(self.priority(entry.priority)), arrival: entry.arrival };
        let hash = self.hasher.hash_one(entry.transaction.key_ref());
        // The pool keeps its capacity below 2^32.
        let slot = self.entries.insert(entry) as u32;
        let Self { entries, hasher, index, .. } = self;
        index
            .insert_unique(hash, slot, |slot| hasher.hash_one(entries[*slot as usize].transaction.key_ref()));
        if self.order == Order::SignerSets && self.entry(slot).sender.is_some() {
            let (set, before) = self.sets.insert(&mut self.entries, slot);
            if let Some(before) = before {
                self.groups.remove(&before);
            }
            self.groups.insert(self.sets.rank(set), Group::Signer(set));
        } else {
            self.groups.insert(rank, Group::Alone(slot));
        }
    }

    /// Takes transactions out (slots without one are passed over) and calls `gone` with each.
    pub(super) fn remove(&mut self, slots: &[u32], mut gone: impl FnMut(Entry)) {
        // A set is brought up to date once for all that it loses, or a large one would be gone through for each.
        let mut touched: Vec<u32> = Vec::new();
        for &slot in slots {
            let Some(entry) = self.entries.try_remove(slot as usize) else { continue };
            self.bytes -= entry.len();
            let hash = self.hasher.hash_one(entry.transaction.key_ref());
            if let Ok(found) = self.index.find_entry(hash, |known| *known == slot) {
                found.remove();
            }
            if let Some(set) = entry.set {
                touched.push(set);
            } else {
                let priority = Reverse(self.priority(entry.priority));
                self.groups.remove(&Rank { priority, arrival: entry.arrival });
            }
            gone(entry);
        }
        touched.sort_unstable();
        touched.dedup();
        for set in touched {
            self.groups.remove(&self.sets.rank(set));
            if self.sets.prune(&self.entries, set) {
                self.groups.insert(self.sets.rank(set), Group::Signer(set));
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.index.clear();
        self.groups.clear();
        self.sets.clear();
        self.bytes = 0;
    }

    /// The groups in order, each as the slots of its transactions in order.
    pub(super) fn groups(&self) -> impl DoubleEndedIterator<Item = &[u32]> {
        self.groups.values().map(|group| self.members(group))
    }

    fn members<'a>(&'a self, group: &'a Group) -> &'a [u32] {
        match group {
            Group::Alone(slot) => slice::from_ref(slot),
            Group::Signer(set) => self.sets.members(*set),
        }
    }

    /// All transactions in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.groups().flatten().map(|slot| self.entry(*slot))
    }

    /// The transactions that must leave so that, with those that stay, `fits(transactions, bytes)` holds. `None` if it
    /// would not hold even if all left that may: those whose group has a lower priority than the group of the new transaction would
    /// have, except for those of its own sender, whose sequence would be torn.
    pub(super) fn victims(
        &self,
        admission: &Admission,
        fits: impl Fn(usize, u64) -> bool,
    ) -> Option<Vec<u32>> {
        let (mut txs, mut bytes) = (self.len(), self.bytes);
        let mut victims = Vec::new();
        if fits(txs, bytes) {
            return Some(victims);
        }
        let own = self.own_set(admission.sender.as_ref());
        let priority = match own {
            Some(set) => self.sets.mean_with(set, admission.priority, weight(admission.gas)),
            None => self.priority(admission.priority),
        };
        let lower = self.groups.iter().rev().take_while(|(rank, _)| rank.priority.0 < priority);
        for (_, group) in lower {
            if matches!(group, Group::Signer(set) if Some(*set) == own) {
                continue;
            }
            for &slot in self.members(group).iter().rev() {
                victims.push(slot);
                txs -= 1;
                bytes -= self.entry(slot).len();
                if fits(txs, bytes) {
                    return Some(victims);
                }
            }
        }
        None
    }

    fn own_set(&self, sender: Option<&Signer>) -> Option<u32> {
        sender.and_then(|signer| self.sets.find(signer))
    }

    /// What counts of an application's priority.
    fn priority(&self, priority: i64) -> i64 {
        if self.order == Order::Fifo { 0 } else { priority }
    }
}
