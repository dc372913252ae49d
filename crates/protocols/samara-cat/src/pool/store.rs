//! The transactions of a pool, by key and in order, and the sets of signers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::slice;

use hashbrown::HashTable;
use samara_engine::{PeerKeyed, Time};
use slab::Slab;

use super::{Admission, Order, Signer};
use crate::{Transaction, TxKey};

/// A transaction in the pool with its attributes.
#[derive(Debug)]
pub struct Entry {
    pub transaction: Transaction,
    pub priority: i64,
    /// Gas in the application's unit.
    pub gas: u64,
    /// The account that signed it, if the application named one.
    pub sender: Option<Signer>,
    /// Its sequence number among the transactions of its sender; 0 if the application gave none.
    pub sequence: u64,
    pub since: Time,
    /// The height of the chain when it entered the pool.
    pub height: u64,
    /// The ordinal of its arrival in the pool, assigned by the store.
    pub(super) arrival: u64,
    /// The set of its sender, if the order has sets.
    pub(super) set: Option<u32>,
    /// Number of rechecks whose verdict is pending.
    pub(super) rechecks: u32,
}

impl Entry {
    pub(super) fn new(transaction: Transaction, admission: Admission, since: Time, height: u64) -> Self {
        let Admission { priority, gas, sender, sequence } = admission;
        let sequence = sequence.unwrap_or_default();
        let (arrival, set, rechecks) = (0, None, 0);
        Self { transaction, priority, gas, sender, sequence, since, height, arrival, set, rechecks }
    }

    pub(super) fn len(&self) -> u64 {
        self.transaction.len() as u64
    }
}

/// The position of a group: the first in this order is reaped first, the last is evicted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    priority: Reverse<i64>,
    /// The arrival of the oldest transaction. No two groups share it.
    arrival: u64,
}

/// Transactions that are reaped together and share one rank.
#[derive(Clone, Copy, Debug)]
enum Group {
    /// A transaction that depends on no other.
    Alone(u32),
    Signer(u32),
}

/// The transactions. The slab holds the entries; everything else refers to their slots.
#[derive(Debug)]
pub(super) struct Store {
    order: Order,
    entries: Slab<Entry>,
    bytes: u64,
    index: HashTable<u32>,
    hasher: PeerKeyed,
    groups: BTreeMap<Rank, Group>,
    sets: SignerSets,
    /// The slots by arrival.
    arrivals: BTreeMap<u64, u32>,
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
            arrivals: BTreeMap::new(),
            next_arrival: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn assert_invariants(&self) {
        let counts = [self.entries.len(), self.arrivals.len(), self.index.len()];
        assert_eq!(counts, [self.len(); 3], "entries, arrivals and keys");
        assert!(self.groups.len() <= self.len(), "{} groups of {} entries", self.groups.len(), self.len());
        assert_eq!(self.len() == 0, self.bytes == 0, "{} entries with {} bytes", self.len(), self.bytes);
    }

    pub(super) fn find(&self, key: &TxKey) -> Option<u32> {
        // Getters may call this before the start, when there is no key to hash with.
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

    /// Adds a transaction that is not in the store, and assigns its arrival number.
    pub(super) fn insert(&mut self, mut entry: Entry) {
        entry.arrival = self.next_arrival;
        self.next_arrival += 1;
        self.bytes += entry.len();
        let rank = Rank { priority: Reverse(self.priority(entry.priority)), arrival: entry.arrival };
        let hash = self.hasher.hash_one(entry.transaction.key_ref());
        // The pool limits its capacity to less than 2^32.
        let slot = self.entries.insert(entry) as u32;
        self.arrivals.insert(rank.arrival, slot);
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

    /// Removes transactions and calls `gone` with each. Empty slots are skipped.
    pub(super) fn remove(&mut self, slots: &[u32], mut gone: impl FnMut(Entry)) {
        // Each set is updated once for all its losses. Updating a large set for each loss would be
        // slow.
        let mut touched: Vec<u32> = Vec::new();
        for &slot in slots {
            let Some(entry) = self.entries.try_remove(slot as usize) else { continue };
            self.bytes -= entry.len();
            self.arrivals.remove(&entry.arrival);
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

    /// Returns the groups in order, each as the slots of its transactions in order.
    pub(super) fn groups(&self) -> impl DoubleEndedIterator<Item = &[u32]> {
        self.groups.values().map(|group| self.members(group))
    }

    /// Returns the slots in the order of arrival.
    pub(super) fn by_arrival(&self) -> impl Iterator<Item = u32> {
        self.arrivals.values().copied()
    }

    /// Returns these slots together with all others of their sets, each once.
    pub(super) fn with_sets(&self, slots: impl Iterator<Item = u32>) -> Vec<u32> {
        let (mut all, mut sets) = (Vec::new(), BTreeSet::new());
        for slot in slots {
            match self.entry(slot).set {
                None => all.push(slot),
                Some(set) if sets.insert(set) => all.extend(self.sets.members(set)),
                Some(_) => {}
            }
        }
        all
    }

    fn members<'a>(&'a self, group: &'a Group) -> &'a [u32] {
        match group {
            Group::Alone(slot) => slice::from_ref(slot),
            Group::Signer(set) => self.sets.members(*set),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.groups().flatten().map(|slot| self.entry(*slot))
    }

    /// Returns the transactions to evict so that `fits(transactions, bytes)` holds for the
    /// remaining ones. `None` if it would not hold even after evicting all candidates. Candidates
    /// are the transactions whose group has a lower priority than the group of the new transaction
    /// would have. The sender's own transactions are excluded, since evicting them would break its
    /// sequence.
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

    /// Returns the priority that applies in this order.
    fn priority(&self, priority: i64) -> i64 {
        if self.order == Order::Fifo { 0 } else { priority }
    }
}

// ---- the sets of signers (ADR 011 of celestia-core, "Sequence and priority ordering CAT mempool")
// ----

#[derive(Debug)]
struct SignerSets {
    sets: Slab<SignerSet>,
    index: HashTable<u32>,
    hasher: PeerKeyed,
}

#[derive(Debug)]
struct SignerSet {
    signer: Signer,
    /// Ordered by sequence number, then arrival.
    members: Vec<u32>,
    sums: Sums,
    /// The arrival of the oldest member.
    arrival: u64,
}

/// The sums from which the mean priority is computed.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    weighted: i128,
    weight: i128,
}

impl Sums {
    fn plus(self, priority: i64, weight: i128) -> Self {
        Self {
            weighted: self.weighted.saturating_add(i128::from(priority).saturating_mul(weight)),
            weight: self.weight.saturating_add(weight),
        }
    }

    /// Returns the mean, rounded down (ADR 011: "floored to int64").
    fn mean(self) -> i64 {
        let mean = self.weighted.div_euclid(self.weight.max(1));
        mean.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }
}

/// Returns the weight of a transaction in the mean of its set. celestia-core would divide by zero
/// in a set without gas.
fn weight(gas: u64) -> i128 {
    i128::from(gas.max(1))
}

impl SignerSets {
    fn new(hasher: PeerKeyed) -> Self {
        Self { sets: Slab::new(), index: HashTable::new(), hasher }
    }

    fn find(&self, signer: &Signer) -> Option<u32> {
        let hash = self.hasher.hash_one(signer);
        self.index.find(hash, |set| self.sets[*set as usize].signer == *signer).copied()
    }

    /// Inserts the transaction of a slot into the set of its sender, which it must have. Returns
    /// the set, and its former rank if it is not new.
    fn insert(&mut self, entries: &mut Slab<Entry>, slot: u32) -> (u32, Option<Rank>) {
        let Entry { sender, priority, gas, sequence, arrival, .. } = &entries[slot as usize];
        let (priority, weight, place, arrival) = (*priority, weight(*gas), (*sequence, *arrival), *arrival);
        let Some(signer) = sender else { unreachable!("a transaction in a set has a sender") };
        let (number, before) = match self.find(signer) {
            Some(number) => (number, Some(self.rank(number))),
            None => (self.open(signer.clone(), arrival), None),
        };
        let set = &mut self.sets[number as usize];
        let at = set.members.partition_point(|member| {
            let member = &entries[*member as usize];
            (member.sequence, member.arrival) < place
        });
        set.members.insert(at, slot);
        set.sums = set.sums.plus(priority, weight);
        entries[slot as usize].set = Some(number);
        (number, before)
    }

    fn open(&mut self, signer: Signer, arrival: u64) -> u32 {
        let hash = self.hasher.hash_one(&signer);
        let set = SignerSet { signer, members: Vec::with_capacity(1), sums: Sums::default(), arrival };
        // There are no more sets than transactions, whose slots fit as well.
        let number = self.sets.insert(set) as u32;
        let Self { sets, hasher, index } = self;
        index.insert_unique(hash, number, |set| hasher.hash_one(&sets[*set as usize].signer));
        number
    }

    /// Updates a set after some of its transactions have left `entries`. Removes it and returns
    /// `false` if none is left.
    fn prune(&mut self, entries: &Slab<Entry>, number: u32) -> bool {
        let set = &mut self.sets[number as usize];
        set.members.retain(|slot| entries.contains(*slot as usize));
        let left = || set.members.iter().map(|slot| &entries[*slot as usize]);
        let Some(arrival) = left().map(|entry| entry.arrival).min() else {
            let hash = self.hasher.hash_one(&set.signer);
            if let Ok(found) = self.index.find_entry(hash, |known| *known == number) {
                found.remove();
            }
            self.sets.remove(number as usize);
            return false;
        };
        let sums = left().fold(Sums::default(), |sums, entry| sums.plus(entry.priority, weight(entry.gas)));
        (set.sums, set.arrival) = (sums, arrival);
        true
    }

    fn rank(&self, number: u32) -> Rank {
        let set = &self.sets[number as usize];
        Rank { priority: Reverse(set.sums.mean()), arrival: set.arrival }
    }

    fn mean_with(&self, number: u32, priority: i64, weight: i128) -> i64 {
        self.sets[number as usize].sums.plus(priority, weight).mean()
    }

    fn members(&self, number: u32) -> &[u32] {
        &self.sets[number as usize].members
    }
}
