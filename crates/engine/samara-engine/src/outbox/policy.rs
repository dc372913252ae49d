//! Schedules in code: a policy sees the pending copies and decides in which order they leave.

use std::fmt;
use std::sync::Arc;

use super::message::Key;
use super::{Lane, Outbox};
use crate::{Frame, MessageKey, PeerId, Time};

/// A custom scheduling policy, for [`Schedule::Custom`](super::Schedule::Custom).
///
/// ```
/// use samara_engine::Time;
/// use samara_engine::outbox::{Custom, Orderer, PendingCopy, Policy, Schedule};
///
/// // First copies first, and the largest of them first.
/// struct LargestFirst;
///
/// impl Policy for LargestFirst {
///     fn name(&self) -> &str {
///         "largest-first"
///     }
///     fn orderer(&self, _seed: u64) -> Box<dyn Orderer> {
///         Box::new(LargestFirst)
///     }
/// }
///
/// impl Orderer for LargestFirst {
///     fn order(&mut self, _now: Time, _lane: &'static str, pending: &[PendingCopy], order: &mut Vec<u32>) {
///         order.sort_by_key(|at| {
///             let copy = &pending[*at as usize];
///             (copy.sent, std::cmp::Reverse(copy.len))
///         });
///     }
/// }
///
/// let schedule = Schedule::Custom(Custom::new(LargestFirst));
/// assert_eq!(format!("{schedule:?}"), "Custom(largest-first)");
/// ```
pub trait Policy: Send + Sync {
    /// Returns the name of the policy in reports and messages.
    fn name(&self) -> &str;

    /// Creates the orderer of one outbox. It may keep state; the same calls must return the same
    /// orders. `seed` belongs to the node, for policies that draw random numbers.
    fn orderer(&self, seed: u64) -> Box<dyn Orderer>;
}

/// Orders the pending copies of one outbox.
pub trait Orderer: Send {
    /// Puts pending copies into the order in which they should leave.
    ///
    /// `pending` holds the copies of one lane that this policy orders, in the order in which they
    /// were owed. `order` holds their indices 0, 1, 2, ..., to be permuted. Indices that are
    /// missing afterwards are appended; duplicate and out-of-range indices are ignored.
    fn order(&mut self, now: Time, lane: &'static str, pending: &[PendingCopy], order: &mut Vec<u32>);
}

/// A policy's view of a pending copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingCopy {
    /// The message that it is a copy of.
    pub message: MessageKey,
    /// The peer that the copy is for.
    pub peer: PeerId,
    /// Its encoded length in bytes.
    pub len: u32,
    /// The time since which it is owed.
    pub owed_at: Time,
    /// The time after which the copy expires, if any.
    pub deadline: Option<Time>,
    /// The number of the call that owed the copy. It grows with every call; copies of one batch
    /// have the same number.
    pub batch: u64,
    /// The message's place in its batch.
    pub index: u32,
    /// The copy's place among the copies of its message, in the engine's order.
    pub rank: u32,
    /// Number of copies of the message that have left since it became pending.
    pub sent: u32,
    /// Number of peers known to have the message ([`Outbox::note_has`]), at most
    /// [`Progress::NOTED_MAX`](super::Progress::NOTED_MAX).
    pub noted: u32,
}

/// A policy that several schedules share. It is equal only to its clones.
#[derive(Clone)]
pub struct Custom(Arc<dyn Policy>);

impl Custom {
    /// Wraps a policy for use in schedules.
    pub fn new(policy: impl Policy + 'static) -> Self {
        Self(Arc::new(policy))
    }

    /// Returns the name of the policy.
    pub fn name(&self) -> &str {
        self.0.name()
    }
}

impl PartialEq for Custom {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The orderers of an outbox and their decisions. Absent in an outbox without policies.
#[derive(Default)]
pub(super) struct Orders {
    orderers: Vec<(Custom, Box<dyn Orderer>)>,
    /// The orderer of each lane, and whether its order is out of date.
    lanes: Vec<Option<(usize, bool)>>,
    /// The keys of the copies, by slot.
    keys: Vec<Key>,
}

impl fmt::Debug for Orders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.orderers.iter().map(|(policy, _)| policy)).finish()
    }
}

impl Orders {
    /// Makes a policy order a lane from now on.
    pub(super) fn set_policy(&mut self, lane: Lane, policy: &Custom, seed: impl FnOnce() -> u64) {
        let known = self.orderers.iter().position(|(known, _)| known == policy);
        let orderer = known.unwrap_or_else(|| {
            self.orderers.push((policy.clone(), policy.0.orderer(seed())));
            self.orderers.len() - 1
        });
        let lane = usize::from(lane.0);
        if self.lanes.len() <= lane {
            self.lanes.resize(lane + 1, None);
        }
        self.lanes[lane] = Some((orderer, true));
    }

    pub(super) fn key(&self, slot: u32) -> Option<Key> {
        self.keys.get(slot as usize).copied()
    }

    pub(super) fn set_key(&mut self, slot: u32, key: Key) {
        let slot = slot as usize;
        if self.keys.len() <= slot {
            self.keys.resize(slot + 1, key);
        }
        self.keys[slot] = key;
    }

    pub(super) fn note(&mut self, lane: u8) {
        if let Some(Some((_, is_stale))) = self.lanes.get_mut(usize::from(lane)) {
            *is_stale = true;
        }
    }

    pub(super) fn note_all(&mut self) {
        self.lanes.iter_mut().flatten().for_each(|(_, is_stale)| *is_stale = true);
    }

    /// Forgets all keys once nothing is pending.
    pub(super) fn forget_keys(&mut self) {
        self.keys = Vec::new();
    }

    /// Returns the orderer of a lane if its order is out of date.
    fn take_stale(&mut self, lane: usize) -> Option<usize> {
        let (orderer, is_stale) = self.lanes.get_mut(lane)?.as_mut()?;
        std::mem::take(is_stale).then_some(*orderer)
    }

    fn order(&mut self, orderer: usize, now: Time, lane: &'static str, pending: &[PendingCopy]) -> Vec<u32> {
        let all = 0..pending.len() as u32;
        let mut order: Vec<u32> = all.clone().collect();
        self.orderers[orderer].1.order(now, lane, pending, &mut order);
        let mut is_listed = vec![false; pending.len()];
        order.retain(|at| {
            is_listed.get_mut(*at as usize).is_some_and(|is_listed| !std::mem::replace(is_listed, true))
        });
        order.extend(all.filter(|at| !is_listed[*at as usize]));
        order
    }
}

impl<F: Frame> Outbox<F> {
    /// Calls the policy of a lane if something has changed since the last call.
    ///
    /// The copies trade places among themselves: the first in the policy's order gets the first
    /// place, and takes it along when it leaves. Other copies on the lane therefore wait no longer
    /// than they would without a policy.
    pub(super) fn reorder(&mut self, now: Time, lane: u8) {
        let at = usize::from(lane);
        let Some(orders) = &mut self.store.orders else { return };
        let Some(orderer) = orders.take_stale(at) else { return };
        let mut slots: Vec<u32> = Vec::new();
        for active in &self.active[at] {
            let mut slot = self.oldest(active.peer(), at);
            while let Some(copy) = slot.and_then(|slot| self.store.copies.get(slot as usize)) {
                slots.extend(slot.filter(|_| self.store.is_custom(copy)));
                slot = Some(copy.younger);
            }
        }
        if slots.len() < 2 {
            return;
        }
        slots.sort_unstable_by_key(|slot| self.store.copies[*slot as usize].serial);
        let pending: Vec<PendingCopy> = slots.iter().map(|slot| self.store.pending_copy(*slot)).collect();
        let name = self.config.lanes[at].name;
        let Some(orders) = &mut self.store.orders else { return };
        let mut places: Vec<(u64, u64)> =
            slots.iter().filter_map(|slot| orders.key(*slot)).map(|key| (key.at, key.origin)).collect();
        places.sort_unstable();
        let order = orders.order(orderer, now, name, &pending);
        for ((turn, chosen), (at, origin)) in order.into_iter().enumerate().zip(places) {
            let key = Key { at, round: 0, origin, tier: 0, position: turn as u64, preference: 0 };
            orders.set_key(slots[chosen as usize], key);
        }
        self.line_up_again(at);
    }
}

/// Scheduling policies of a program, by the names that scenarios use: `schedule_publish = { kind =
/// "custom", policy = "mine" }`.
#[cfg(feature = "config")]
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policies(std::collections::BTreeMap<String, Custom>);

#[cfg(feature = "config")]
impl Policies {
    /// Adds a policy, or replaces the one with the same name.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, policy: impl Policy + 'static) -> Self {
        self.0.insert(name.into(), Custom::new(policy));
        self
    }

    /// Returns the names of the registered policies, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns the policy with this name.
    pub fn get(&self, name: &str) -> Option<Custom> {
        self.0.get(name).cloned()
    }
}
