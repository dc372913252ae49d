//! Sets of the transactions of one sender (ADR 011 of celestia-core, "Sequence and priority ordering CAT mempool").

use std::cmp::Reverse;
use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use slab::Slab;

use super::Signer;
use super::entry::Entry;
use super::store::Rank;

/// The sets, by sender.
#[derive(Debug)]
pub(super) struct SignerSets {
    sets: Slab<SignerSet>,
    index: HashTable<u32>,
    hasher: FixedState,
}

#[derive(Debug)]
struct SignerSet {
    signer: Signer,
    /// By sequence number, then arrival.
    members: Vec<u32>,
    /// No member comes after this sequence number and arrival: the next one mostly belongs at the end, and that is
    /// known without a look at the others.
    last: (u64, u64),
    sums: Sums,
    /// The arrival of the oldest member.
    arrival: u64,
    /// The rank under which the store has it in its order, if it does.
    rank: Option<Rank>,
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
    pub(super) fn new(seed: u64) -> Self {
        Self { sets: Slab::new(), index: HashTable::new(), hasher: FixedState::with_seed(seed) }
    }

    pub(super) fn find(&self, signer: &Signer) -> Option<u32> {
        let hash = self.hasher.hash_one(signer);
        self.index.find(hash, |set| self.sets[*set as usize].signer == *signer).copied()
    }

    /// A set without transactions for a sender that has none. One must be inserted next.
    pub(super) fn open(&mut self, signer: Signer, arrival: u64) -> u32 {
        let hash = self.hasher.hash_one(&signer);
        let (members, last, sums) = (Vec::with_capacity(1), (0, 0), Sums::default());
        let set = SignerSet { signer, members, last, sums, arrival, rank: None };
        // There are no more sets than transactions, whose slots fit too.
        let number = self.sets.insert(set) as u32;
        let Self { sets, hasher, index } = self;
        index.insert_unique(hash, number, |set| hasher.hash_one(&sets[*set as usize].signer));
        number
    }

    /// Puts the transaction in a slot into a set that is not ranked.
    pub(super) fn insert(&mut self, entries: &mut Slab<Entry>, number: u32, slot: u32) {
        let entry = &mut entries[slot as usize];
        entry.set = Some(number);
        let (priority, weight, place) = (entry.priority, weight(entry.gas), (entry.sequence, entry.arrival));
        let set = &mut self.sets[number as usize];
        if set.last < place {
            set.last = place;
            set.members.push(slot);
        } else {
            let at = set.members.partition_point(|member| {
                let member = &entries[*member as usize];
                (member.sequence, member.arrival) < place
            });
            set.members.insert(at, slot);
        }
        set.sums = set.sums.plus(priority, weight);
    }

    /// Brings a set that is not ranked up to date after some of its transactions have left `entries`. If none is left,
    /// the set is gone.
    pub(super) fn prune(&mut self, entries: &Slab<Entry>, number: u32) {
        let set = &mut self.sets[number as usize];
        set.members.retain(|slot| entries.contains(*slot as usize));
        let left = || set.members.iter().map(|slot| &entries[*slot as usize]);
        let Some(arrival) = left().map(|entry| entry.arrival).min() else {
            let hash = self.hasher.hash_one(&set.signer);
            if let Ok(found) = self.index.find_entry(hash, |known| *known == number) {
                found.remove();
            }
            self.sets.remove(number as usize);
            return;
        };
        let sums = left().fold(Sums::default(), |sums, entry| sums.plus(entry.priority, weight(entry.gas)));
        (set.sums, set.arrival) = (sums, arrival);
    }

    /// Notes that a set is in the order. Its rank there, if it exists and was not.
    pub(super) fn mark_ranked(&mut self, number: u32) -> Option<Rank> {
        let set = self.sets.get_mut(number as usize).filter(|set| set.rank.is_none())?;
        set.rank = Some(Rank { priority: Reverse(set.sums.mean()), arrival: set.arrival });
        set.rank
    }

    /// Notes that a set is not in the order any more. Its rank there, if it was.
    pub(super) fn unrank(&mut self, number: u32) -> Option<Rank> {
        self.sets[number as usize].rank.take()
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
