//! What work takes.

use std::time::Duration;

use samara_mix::{Group, Job, Phase};

use crate::scenario::{Mix, PhaseCosts};
use samara_engine::units::Span;

/// What work takes on one core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Drawing the secrets of a round.
    pub generate: Duration,
    /// Raising one part of the team's key.
    pub share: Duration,
    /// A slot, by phase; passing results on takes nothing.
    pub slot: [Duration; Phase::ALL.len()],
    /// A slot in the permutation of the last node.
    pub permute_last: Duration,
}

/// Of the 2048-bit group, in nanoseconds: what `docs/protocols/mix.md` has from `cargo bench -p samara-mix` on one core of an AMD EPYC. Permutation is split as its products
/// are, 2 and at the last node 6 for a slot ([`Job::work`]); drawing secrets as [`measure`](super::calibrate::measure) found it there.
const MODP_2048: [(Kind, u64); 8] = [
    (Kind::Generate, 140_000),
    (Kind::Share, 4_700_000),
    (Kind::Slot(Phase::PrecomputeDecrypt), 530_000),
    (Kind::Slot(Phase::PrecomputePermute), 530_000),
    (Kind::Slot(Phase::Reveal), 1_270_000),
    (Kind::Slot(Phase::Decrypt), 8_900),
    (Kind::Slot(Phase::Permute), 4_000),
    (Kind::PermuteLast, 11_800),
];

/// Kinds of work that take different times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Generate,
    Share,
    Slot(Phase),
    PermuteLast,
}

impl Kind {
    /// How much longer it takes in the 4096-bit group: a product of twice as many words takes four times as long; long exponents are twice as
    /// long, short ones have 320 bits instead of 256.
    const fn with_4096_bits(self) -> f64 {
        match self {
            Self::Share => 4.0 * 2.0,
            Self::Slot(Phase::PrecomputeDecrypt | Phase::PrecomputePermute | Phase::Reveal) => {
                4.0 * 320.0 / 256.0
            }
            Self::Generate | Self::Slot(_) | Self::PermuteLast => 4.0,
        }
    }

    /// What a job is.
    pub(super) fn of(job: &Job) -> Self {
        match job.phase() {
            Some(Phase::Permute) if job.is_last() => Self::PermuteLast,
            Some(phase) => Self::Slot(phase),
            // Secrets are drawn with an inversion, parts of keys are raised to a power.
            None if job.work().long_powers > 0 => Self::Share,
            None => Self::Generate,
        }
    }
}

impl Costs {
    /// What a scenario says, and what is documented of its group where it says nothing, on the part of a core that a node has.
    pub fn of(mix: &Mix) -> Self {
        let mut costs = Self {
            generate: Duration::ZERO,
            share: Duration::ZERO,
            slot: [Duration::ZERO; Phase::ALL.len()],
            permute_last: Duration::ZERO,
        };
        let is_large = mix.group == Group::Modp4096;
        for (kind, nanos) in MODP_2048 {
            let factor = if is_large { kind.with_4096_bits() } else { 1.0 };
            costs.set(kind, Duration::from_nanos(nanos).mul_f64(factor));
        }
        for (kind, given) in given(&mix.cpu) {
            if let Some(span) = given {
                costs.set(kind, span.duration());
            }
        }
        costs.on(mix.processor.fraction())
    }

    /// The same on a part of a core.
    fn on(self, part: f64) -> Self {
        if part == 1.0 {
            return self;
        }
        let longer = |time: Duration| time.div_f64(part);
        Self {
            generate: longer(self.generate),
            share: longer(self.share),
            slot: self.slot.map(longer),
            permute_last: longer(self.permute_last),
        }
    }

    fn set(&mut self, kind: Kind, time: Duration) {
        match kind {
            Kind::Generate => self.generate = time,
            Kind::Share => self.share = time,
            Kind::Slot(phase) => self.slot[phase as usize] = time,
            Kind::PermuteLast => self.permute_last = time,
        }
    }

    /// What a job takes.
    pub fn job(&self, job: &Job) -> Duration {
        match Kind::of(job) {
            Kind::Generate => self.generate,
            Kind::Share => self.share,
            Kind::Slot(phase) => self.slot[phase as usize] * job.slots(),
            Kind::PermuteLast => self.permute_last * job.slots(),
        }
    }

    /// Names, and microseconds: of a slot from the third on.
    pub fn named_us(&self) -> [(&'static str, f64); 8] {
        let us = |time: Duration| time.as_nanos() as f64 / 1e3;
        let slot = |phase: Phase| (phase.name(), us(self.slot[phase as usize]));
        [
            ("generate", us(self.generate)),
            ("share", us(self.share)),
            slot(Phase::PrecomputeDecrypt),
            slot(Phase::PrecomputePermute),
            slot(Phase::Reveal),
            slot(Phase::Decrypt),
            slot(Phase::Permute),
            ("permute_last", us(self.permute_last)),
        ]
    }
}

fn given(cpu: &PhaseCosts) -> [(Kind, Option<Span>); 8] {
    [
        (Kind::Generate, cpu.generate),
        (Kind::Share, cpu.share),
        (Kind::Slot(Phase::PrecomputeDecrypt), cpu.precompute_decrypt),
        (Kind::Slot(Phase::PrecomputePermute), cpu.precompute_permute),
        (Kind::Slot(Phase::Reveal), cpu.reveal),
        (Kind::Slot(Phase::Decrypt), cpu.decrypt),
        (Kind::Slot(Phase::Permute), cpu.permute),
        (Kind::PermuteLast, cpu.permute_last),
    ]
}
