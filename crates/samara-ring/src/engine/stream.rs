//! The units of one origin in one view: those that came, until all members have them.

use std::collections::VecDeque;

use crate::Payload;
use crate::wire::{UNIT_OVERHEAD, Unit};

/// What became of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inserted {
    New,
    Duplicate,
    Beyond,
}

pub(super) fn weight(unit: &Unit) -> u64 {
    unit.bytes.len() as u64 + UNIT_OVERHEAD
}

/// The units of one origin.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// The unit after this one is the first in `units`.
    base: u64,
    units: VecDeque<Option<Unit>>,
    /// Weight of `units`.
    held: u64,
    /// All units up to this one came.
    pub(super) have: u64,
    /// All units up to this one were handed to the application, or wait in its queue.
    pub(super) delivered: u64,
    /// This member answers for having all units up to this one (see `held_bytes`).
    pub(super) taken: u64,
    /// As the predecessor says: all members from the origin to it have the units up to this one.
    pub(super) reached_before: u64,
    /// The same, this member included.
    pub(super) reached: u64,
    /// All members have the units up to this one.
    pub(super) stable: u64,
    /// Whether the successor does not know the last two yet.
    pub(super) is_news: bool,
    /// Messages that were delivered.
    pub(super) number: u64,
    /// Messages that all members have.
    pub(super) stable_messages: u64,
    /// The beginning of a message whose end is not there yet.
    pub(super) partial: Option<Payload>,
}

impl Stream {
    pub(super) fn get(&self, sequence: u64) -> Option<&Unit> {
        let index = usize::try_from(sequence.checked_sub(self.base + 1)?).ok()?;
        self.units.get(index)?.as_ref()
    }

    /// Takes a unit, unless more than `weight_max` would be held or it is further ahead than so much could be.
    pub(super) fn insert(&mut self, unit: Unit, weight_max: u64) -> Inserted {
        if unit.sequence <= self.have || unit.sequence <= self.base {
            return Inserted::Duplicate;
        }
        let index = unit.sequence - self.base - 1;
        if index > weight_max / UNIT_OVERHEAD || self.held + weight(&unit) > weight_max {
            return Inserted::Beyond;
        }
        let index = index as usize;
        if self.units.len() == index && !self.has_gap() {
            self.held += weight(&unit);
            self.units.push_back(Some(unit));
            self.have += 1;
            return Inserted::New;
        }
        if self.units.len() <= index {
            self.units.resize(index + 1, None);
        }
        if self.units[index].is_some() {
            return Inserted::Duplicate;
        }
        self.held += weight(&unit);
        self.units[index] = Some(unit);
        let next = (self.have - self.base) as usize;
        self.have += self.units.range(next..).take_while(|unit| unit.is_some()).count() as u64;
        Inserted::New
    }

    /// Whether there are units that not all members are known to have.
    pub(super) fn is_active(&self) -> bool {
        self.have > self.stable
    }

    /// Whether units came behind one that is missing.
    pub(super) fn has_gap(&self) -> bool {
        self.last() > self.have
    }

    /// The last unit that is not kept any more, because all have it.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// The last unit that came.
    pub(super) fn last(&self) -> u64 {
        self.base + self.units.len() as u64
    }

    /// Lets go of all units up to this one. Returns their weight.
    pub(super) fn release(&mut self, sequence: u64) -> u64 {
        let before = self.held;
        while self.base < sequence.min(self.have)
            && let Some(unit) = self.units.pop_front()
        {
            self.base += 1;
            self.held -= unit.as_ref().map_or(0, weight);
            self.stable_messages += u64::from(unit.is_some_and(|unit| unit.last));
        }
        before - self.held
    }

    /// Weight of the units that are kept.
    pub(super) fn held(&self) -> u64 {
        self.held
    }
}
