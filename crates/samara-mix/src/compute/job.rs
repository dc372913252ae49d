//! A piece of work as a value.

use std::fmt;
use std::ops::{Add, AddAssign};
use std::sync::Arc;

use bytes::Bytes;

use super::vault::{BadElement, Output, Seat, Slots, Vault, generate};
use crate::round::{Half, Phase};
use crate::{Group, Secret};

pub(crate) enum Task {
    /// Draws the secrets of a round.
    Generate { seat: Seat, batch: u32, seed: Secret },
    /// Raises a part of the team's key.
    Share { vault: Arc<dyn Vault>, origin: u16, key: Bytes, is_complete: bool },
    /// Works on slots.
    Slots { vault: Arc<dyn Vault>, seat: Seat, slots: Slots },
}

/// A piece of work. [`run`](Self::run) it anywhere, and give the answer to the engine.
pub struct Job {
    pub(crate) round: u64,
    pub(crate) group: Group,
    pub(crate) task: Task,
}

pub(crate) enum Answer {
    Generated(Arc<dyn Vault>),
    Shared { origin: u16, key: Bytes, is_complete: bool },
    Slots { phase: Phase, first: u32, count: u32, output: Output },
}

/// What became of a job.
pub struct Done {
    pub(crate) round: u64,
    pub(crate) answer: Result<Answer, BadElement>,
}

impl Job {
    /// Does the work, on this thread. The answer depends on the job only.
    pub fn run(self) -> Done {
        let round = self.round;
        let answer = match self.task {
            Task::Generate { seat, batch, seed } => {
                Ok(Answer::Generated(generate(self.group, seat, batch, &seed)))
            }
            Task::Share { vault, origin, key, is_complete } => vault
                .share(&key, is_complete)
                .map(|key| Answer::Shared { origin, key: key.into(), is_complete }),
            Task::Slots { vault, slots, .. } => vault.work(&slots).map(|output| Answer::Slots {
                phase: slots.phase,
                first: slots.first,
                count: slots.count,
                output,
            }),
        };
        Done { round, answer }
    }

    /// The round that it is for.
    pub const fn round(&self) -> u64 {
        self.round
    }

    /// The phase that it is a piece of; `None` for the keys at the beginning of a round.
    pub const fn phase(&self) -> Option<Phase> {
        match &self.task {
            Task::Slots { slots, .. } => Some(slots.phase),
            _ => None,
        }
    }

    /// The half of the round that it belongs to.
    pub const fn half(&self) -> Half {
        match &self.task {
            Task::Slots { slots, .. } => slots.phase.half(),
            _ => Half::Precomputation,
        }
    }

    /// Whether it is slots at the last node of the team, which has more to do in some phases.
    pub fn is_last(&self) -> bool {
        matches!(&self.task, Task::Slots { seat, .. } if seat.is_last())
    }

    /// Slots that it works on.
    pub const fn slots(&self) -> u32 {
        match &self.task {
            Task::Slots { slots, .. } => slots.count,
            _ => 0,
        }
    }

    /// Bytes of slots that it holds on to, alone or together with others.
    pub(crate) fn held_bytes(&self) -> u64 {
        match &self.task {
            Task::Slots {
                slots: Slots { input: super::Input::Some { elements, credentials }, .. }, ..
            } => (elements.len() + credentials.len()) as u64,
            _ => 0,
        }
    }

    /// What has to be done, counted in operations: a simulator charges the time that they take on some machine.
    pub fn work(&self) -> Work {
        let Task::Slots { slots, seat, .. } = &self.task else {
            return match &self.task {
                Task::Share { .. } => Work { long_powers: 1, ..Work::default() },
                _ => Work { inversions: 1, ..Work::default() },
            };
        };
        let each = match slots.phase {
            Phase::PrecomputeDecrypt | Phase::PrecomputePermute => {
                Work { table_powers: 4, products: 6, streams: 2, ..Work::default() }
            }
            Phase::Reveal if seat.is_last() => Work { powers: 2, products: 12, ..Work::default() },
            Phase::Reveal => Work { powers: 2, ..Work::default() },
            Phase::Decrypt => Work { products: 4, streams: 3, ..Work::default() },
            Phase::Permute if seat.is_last() => Work { products: 6, streams: 1, ..Work::default() },
            Phase::Permute | Phase::Result => Work { products: 2, streams: 1, ..Work::default() },
        };
        let strips = slots.phase == Phase::Reveal && seat.is_last();
        each.times(slots.count.into()) + Work { inversions: u64::from(strips), ..Work::default() }
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match &self.task {
            Task::Generate { .. } => "generate",
            Task::Share { .. } => "share",
            Task::Slots { slots, .. } => slots.phase.name(),
        };
        write!(f, "Job(round {}, {name}, {} slots)", self.round, self.slots())
    }
}

impl fmt::Debug for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Done(round {}, {})", self.round, if self.answer.is_ok() { "ok" } else { "bad element" })
    }
}

impl Done {
    /// The round that it is for.
    pub const fn round(&self) -> u64 {
        self.round
    }
}

/// Operations of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Exponentiations with an exponent as long as the group's order.
    pub long_powers: u64,
    /// Exponentiations with a short exponent.
    pub powers: u64,
    /// The same of a base that there is a table for.
    pub table_powers: u64,
    /// Montgomery multiplications.
    pub products: u64,
    /// Inversions.
    pub inversions: u64,
    /// Streams of BLAKE3 that keys, factors and codes come from.
    pub streams: u64,
}

impl Work {
    /// So many times this work.
    pub const fn times(self, count: u64) -> Self {
        Self {
            long_powers: self.long_powers * count,
            powers: self.powers * count,
            table_powers: self.table_powers * count,
            products: self.products * count,
            inversions: self.inversions * count,
            streams: self.streams * count,
        }
    }
}

impl Add for Work {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            long_powers: self.long_powers + other.long_powers,
            powers: self.powers + other.powers,
            table_powers: self.table_powers + other.table_powers,
            products: self.products + other.products,
            inversions: self.inversions + other.inversions,
            streams: self.streams + other.streams,
        }
    }
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}
