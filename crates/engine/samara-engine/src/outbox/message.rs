//! Pending copies, and their shared state by message.

// All tables here have keys that this node assigns, or addresses.
#![allow(clippy::disallowed_types)]

use std::collections::VecDeque;
use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};
use slab::Slab;
use smallvec::SmallVec;

use super::policy::{Orders, PendingCopy};
use super::queue::{Entry, NONE};
use super::{Dispatch, FeedbackSource, MessageOrder, Progress};
use crate::{MessageKey, PeerId, Time};

/// The number of copies that a report of a trusted observer stands for. It exceeds the mesh peers
/// of a message in common networks (GossipSub's degree is at most 12) and still keeps the wait of
/// every copy bounded.
pub(super) const OBSERVED_ROUNDS: u32 = 8;

/// The call that owed a copy, and the copy's place in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    /// The serial of the first copy of the call.
    pub(super) call: u64,
    /// The time after which the copy expires; [`Time::MAX`] without a deadline.
    pub(super) deadline: Time,
    pub(super) lane: u8,
    /// The driver's mark: see [`Outbox::set_mark`](super::Outbox::set_mark).
    pub(super) mark: u8,
    pub(super) batch: u32,
    /// The message's place in its batch.
    pub(super) index: u32,
    /// The copy's place among the copies of its message.
    pub(super) rank: u32,
    /// The copy's place in the plan.
    pub(super) place: u32,
    /// The peer's column in the plan.
    pub(super) column: u32,
}

#[derive(Debug)]
pub(super) struct Pending<F> {
    pub(super) frame: F,
    pub(super) serial: u64,
    pub(super) origin: Origin,
    pub(super) owed_at: Time,
    pub(super) peer: PeerId,
    pub(super) len: u32,
    pub(super) group: u32,
    /// Neighbours in the list of the link's lane, oldest first.
    pub(super) older: u32,
    pub(super) younger: u32,
    /// Neighbours in the list of the message.
    pub(super) before: u32,
    pub(super) after: u32,
    /// True while a staggered schedule holds the copy back.
    pub(super) held: bool,
}

impl<F> Pending<F> {
    /// Returns the key of a copy that was owed outside a batch. It never changes.
    #[inline]
    pub(super) fn key_without_batch(&self) -> Key {
        let (at, position) = (self.owed_at.as_nanos(), u64::from(self.origin.place));
        Key { at, round: 0, origin: self.origin.call, tier: 0, position, preference: 0 }
    }
}

/// The peer that a staggered message waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    Idle,
    /// The copy for this peer has not left yet.
    Queued {
        slot: u32,
        peer: PeerId,
    },
    /// It has left; the next copy is released at this time.
    Left {
        until: Time,
        peer: PeerId,
    },
}

#[derive(Debug)]
pub(super) struct Stagger {
    pub(super) timeout: Duration,
    pub(super) held: VecDeque<u32>,
    pub(super) waiting: Waiting,
}

/// The shared state of the pending copies of one message. Exists while there are any.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) message: MessageKey,
    pub(super) first: u32,
    pub(super) progress: Progress,
    pub(super) noted: SmallVec<[PeerId; 4]>,
    /// Whether an observer has the message. Stays true, since keys of copies never decrease.
    pub(super) observed: bool,
    pub(super) stagger: Option<Box<Stagger>>,
}

/// All pending copies, by slot and by message.
#[derive(Debug)]
pub(super) struct Store<F> {
    pub(super) dispatch: Dispatch,
    /// Patience of each lane in nanoseconds.
    pub(super) patience: Vec<u64>,
    pub(super) copies: Slab<Pending<F>>,
    pub(super) groups: Slab<Group>,
    pub(super) batches: Slab<Batch>,
    /// Present if a policy orders copies.
    pub(super) orders: Option<Box<Orders>>,
    /// Never iterated over.
    by_message: FxHashMap<MessageKey, u32>,
    /// The peers to which the copies of a message leave first. Never iterated over.
    pub(super) preferred: FxHashSet<PeerId>,
    /// The observers with a link. Never iterated over.
    pub(super) observers: FxHashSet<PeerId>,
}

/// An idle outbox keeps room for this many copies. With a thousand outboxes in one process, the
/// memory of their busiest moments would add up. A small message to each of some twenty peers needs
/// no new memory.
const KEPT_WHEN_IDLE: usize = 32;

impl<F> Store<F> {
    pub(super) fn new(dispatch: Dispatch, patience: Vec<u64>) -> Self {
        Self {
            dispatch,
            patience,
            copies: Slab::new(),
            groups: Slab::new(),
            batches: Slab::new(),
            orders: None,
            by_message: FxHashMap::default(),
            preferred: FxHashSet::default(),
            observers: FxHashSet::default(),
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.copies.is_empty()
            && self.groups.is_empty()
            && self.batches.is_empty()
            && self.by_message.is_empty()
    }

    pub(super) fn group_of(&self, message: MessageKey) -> Option<u32> {
        self.by_message.get(&message).copied()
    }

    /// Returns the copy that an entry stands for, unless it is gone.
    pub(super) fn live(&self, entry: &Entry) -> Option<&Pending<F>> {
        self.copies.get(entry.slot as usize).filter(|copy| copy.serial == entry.serial)
    }

    #[inline]
    pub(super) fn key(&self, slot: u32, copy: &Pending<F>) -> Key {
        match self.batches.get(copy.origin.batch as usize) {
            Some(batch) => self.key_in_batch(slot, copy, batch),
            None => copy.key_without_batch(),
        }
    }

    fn key_in_batch(&self, slot: u32, copy: &Pending<F>, batch: &Batch) -> Key {
        let (at, origin) = (copy.owed_at.as_nanos(), &copy.origin);
        if batch.rounds == Rounds::Custom
            && let Some(key) = self.orders.as_ref().and_then(|orders| orders.key(slot))
        {
            return key;
        }
        let group = &self.groups[copy.group as usize];
        let left = group.progress.sent;
        let before = match (self.dispatch, batch.rounds) {
            (Dispatch::Node, _) | (_, Rounds::Staggered { .. }) => left,
            (Dispatch::PerLink, _) => origin.rank,
        };
        let round = match batch.rounds {
            Rounds::Feedback(source) => before.saturating_add(group.feedback(source)),
            Rounds::Copies | Rounds::Staggered { .. } | Rounds::Custom => before,
        };
        let shuffled = || position(batch.messages, batch.seed, before, origin.index);
        let (tier, position) = if batch.loads.is_empty() {
            (0, shuffled())
        } else if origin.rank == before {
            (0, u64::from(origin.place))
        } else {
            (1 + batch.loads[origin.column as usize], shuffled())
        };
        let patience = self.patience[usize::from(origin.lane)];
        Key {
            at: at.saturating_add(patience.saturating_mul(u64::from(round))),
            round,
            origin: origin.call,
            tier,
            position,
            preference: self.preference(copy),
        }
    }

    /// Returns the place of a copy among those of its message.
    fn preference(&self, copy: &Pending<F>) -> u32 {
        let is_preferred = self.preferred.contains(&copy.peer);
        if is_preferred { copy.origin.rank } else { copy.origin.rank | NOT_PREFERRED }
    }

    pub(super) fn is_custom(&self, copy: &Pending<F>) -> bool {
        self.batches.get(copy.origin.batch as usize).is_some_and(|batch| batch.rounds == Rounds::Custom)
    }

    /// Returns a policy's view of a copy of a message.
    pub(super) fn pending_copy(&self, slot: u32) -> PendingCopy {
        let copy = &self.copies[slot as usize];
        let group = &self.groups[copy.group as usize];
        PendingCopy {
            message: group.message,
            peer: copy.peer,
            len: copy.len,
            owed_at: copy.owed_at,
            deadline: Some(copy.origin.deadline).filter(|deadline| *deadline != Time::MAX),
            batch: copy.origin.call,
            index: copy.origin.index,
            rank: copy.origin.rank,
            sent: group.progress.sent,
            noted: group.progress.noted,
        }
    }

    /// Inserts a copy into its message's list. Returns its slot.
    pub(super) fn insert(&mut self, mut copy: Pending<F>, message: Option<MessageKey>) -> u32 {
        let slot = self.copies.vacant_key() as u32;
        if let Some(message) = message {
            let groups = &mut self.groups;
            let id =
                *self.by_message.entry(message).or_insert_with(|| groups.insert(Group::new(message)) as u32);
            let group = &mut groups[id as usize];
            group.progress.owed += 1;
            group.progress.pending += 1;
            copy.group = id;
            copy.after = group.first;
            if let Some(next) = self.copies.get_mut(group.first as usize) {
                next.before = slot;
            }
            group.first = slot;
        }
        if let Some(batch) = self.batches.get_mut(copy.origin.batch as usize) {
            batch.live += 1;
        }
        self.copies.insert(copy);
        slot
    }

    /// Removes a copy from its slot and from its message's list, but leaves the group and the
    /// batch.
    #[inline]
    pub(super) fn remove(&mut self, slot: u32) -> Pending<F> {
        let copy = self.copies.remove(slot as usize);
        if copy.group != NONE {
            match self.copies.get_mut(copy.before as usize) {
                Some(before) => before.after = copy.after,
                None => self.groups[copy.group as usize].first = copy.after,
            }
            if let Some(after) = self.copies.get_mut(copy.after as usize) {
                after.before = copy.before;
            }
        }
        if self.copies.is_empty() && self.copies.capacity() > KEPT_WHEN_IDLE {
            self.copies = Slab::new();
        }
        if self.copies.is_empty()
            && let Some(orders) = &mut self.orders
        {
            orders.forget_keys();
        }
        copy
    }

    pub(super) fn forget_group(&mut self, id: u32) {
        let group = self.groups.remove(id as usize);
        self.by_message.remove(&group.message);
    }

    /// Returns the slots of a message's copies, for one peer or for all.
    pub(super) fn slots(&self, group: u32, peer: Option<PeerId>) -> SmallVec<[u32; 16]> {
        let mut slots = SmallVec::new();
        let mut slot = self.groups[group as usize].first;
        while let Some(copy) = self.copies.get(slot as usize) {
            if peer.is_none_or(|peer| peer == copy.peer) {
                slots.push(slot);
            }
            slot = copy.after;
        }
        slots
    }

    /// Remembers that a peer has a message.
    pub(super) fn note(&mut self, id: u32, peer: PeerId) {
        let group = &mut self.groups[id as usize];
        group.observed |= self.observers.contains(&peer);
        if group.noted.len() < Progress::NOTED_MAX && !group.noted.contains(&peer) {
            group.noted.push(peer);
            group.progress.noted += 1;
        }
    }
}

impl Group {
    fn new(message: MessageKey) -> Self {
        Self {
            message,
            first: NONE,
            progress: Progress::default(),
            noted: SmallVec::new(),
            observed: false,
            stagger: None,
        }
    }

    fn feedback(&self, source: FeedbackSource) -> u32 {
        match source {
            FeedbackSource::Peers { cap } => cap.min(self.noted.len() as u32),
            FeedbackSource::Observers if self.observed => OBSERVED_ROUNDS,
            FeedbackSource::Observers => 0,
        }
    }
}

// ---- the order of copies inside a lane ----

/// Puts the copies to other peers behind those to preferred ones. Ranks are below.
const NOT_PREFERRED: u32 = 1 << 31;

/// The sort key of copies of one lane, smallest first. The copy that was owed first wins ties.
///
/// While a copy is pending its key never decreases: rounds and loads only grow. Queues rely on that
/// and bring a key up to date only when it surfaces. When a policy assigns new keys, or a peer becomes
/// preferred, queues are rebuilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// Nanoseconds: the time when the copy was owed, plus the lane's patience for every round.
    pub(super) at: u64,
    pub(super) round: u32,
    /// The call that owed the copy.
    pub(super) origin: u64,
    /// Zero while a balanced plan is kept; otherwise one more than the number of copies of the
    /// batch that the peer got.
    pub(super) tier: u32,
    /// The place of the message in the round.
    pub(super) position: u64,
    /// The place of the peer in the message's order.
    pub(super) preference: u32,
}

impl Key {
    /// Returns the same key without the peer's place: equal for copies of one message that differ
    /// only in the peer order.
    pub(super) const fn of_any_peer(self) -> Self {
        Self { preference: 0, ..self }
    }
}

/// How the round of a copy is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounds {
    /// By the number of copies of the message before it.
    Copies,
    /// By these copies and by the feedback of peers.
    Feedback(FeedbackSource),
    /// By the number of copies of the message that left. Copies leave one at a time, at most
    /// `timeout` apart.
    Staggered { timeout: Duration },
    /// A policy orders the copies.
    Custom,
}

/// The shared state of the copies of one call with rounds.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) rounds: Rounds,
    pub(super) messages: MessageOrder,
    /// The seed of shuffled rounds.
    pub(super) seed: u64,
    /// Number of copies that each peer got, by the column of the plan. Empty unless the order is
    /// balanced.
    pub(super) loads: Vec<u32>,
    pub(super) live: u32,
}

/// Returns the place of a message in a round. A hash orders a shuffled round, so that any round can
/// be computed at any time (the finaliser of SplitMix64: Steele, Lea, Flood 2014).
pub(super) fn position(order: MessageOrder, seed: u64, round: u32, message: u32) -> u64 {
    match order {
        MessageOrder::AsGiven => u64::from(message),
        MessageOrder::Shuffled => {
            let cell = (u64::from(round) << 32) | u64::from(message);
            let mut z = seed ^ cell.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }
    }
}
