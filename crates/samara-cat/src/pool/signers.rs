//! Sets of the transactions of one sender (ADR 011 of celestia-core, "Sequence and priority ordering CAT mempool").

use std::cmp::Reverse;
use std::hash::BuildHasher;

use hashbrown::HashTable;
use samara_engine::PeerKeyed;
use slab::Slab;

use super::Signer;
use super::entry::Entry;
use super::store::Rank;

/// The sets, by sender.
#[derive(Debug)]
pub(super) struct SignerSets {
    sets: Slab<SignerSet>,
    index: HashTable<u32>,
    hasher: PeerKeyed,
}

#[derive(Debug)]
struct SignerSet {
    signer: Signer,
    /// By sequence number, then arrival.
    members: Vec<u32>,
    sums: Sums,
    /// The arrival of the oldest member.
    arrival: u64,
}

/// What the mean priority is computed from.
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

    /// The mean, rounded down (ADR 011: "floored to int64").
    fn mean(self) -> i64 {
        let mean = self.weighted.div_euclid(self.weight.max(1));
        mean.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }
}

/// What a transaction counts for in the mean of its set. celestia-core would divide by zero in a set without gas.
pub(super) fn weight(gas: u64) -> i128 {
    i128::from(gas.max(1))
}

impl SignerSets {
    pub(super) fn new(hasher: PeerKeyed) -> Self {
        Self { sets: Slab::new(), index: HashTable::new(), hasher }
    }

    pub(super) fn find(&self, signer: &Signer) -> Option<u32> {
        let hash = self.hasher.hash_one(signer);
        self.index.find(hash, |set| self.sets[*set as usize].signer == *signer).copied()
    }

    /// Puts the transaction in a slot, which has a sender, into the set of this sender. Which set that is, and which rank it had if it is
    /// not new.
    pub(super) fn insert(&mut self, entries: &mut Slab<Entry>, slot: u32) -> (u32, Option<Rank>) {
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
        // There are no more sets than transactions, whose slots fit too.
        let number = self.sets.insert(set) as u32;
        let Self { sets, hasher, index } = self;
        index.insert_unique(hash, number, |set| hasher.hash_one(&sets[*set as usize].signer));
        number
    }

    /// Brings a set up to date after some of its transactions have left `entries`. If none is left, the set is gone, and
    /// this is `false`.
    pub(super) fn prune(&mut self, entries: &Slab<Entry>, number: u32) -> bool {
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

    pub(super) fn rank(&self, number: u32) -> Rank {
        let set = &self.sets[number as usize];
        Rank { priority: Reverse(set.sums.mean()), arrival: set.arrival }
    }

    /// The mean priority that a set would have with one more transaction.
    pub(super) fn mean_with(&self, number: u32, priority: i64, weight: i128) -> i64 {
        self.sets[number as usize].sums.plus(priority, weight).mean()
    }

    pub(super) fn members(&self, number: u32) -> &[u32] {
        &self.sets[number as usize].members
    }

    pub(super) fn clear(&mut self) {
        self.sets.clear();
        self.index.clear();
    }
}
