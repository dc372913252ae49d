//! The state of a round and its phases at a node, and the waiting jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use samara_engine::{MessageKey, Time};

use super::Cx;
use super::lifecycle::TeamKey;
use crate::compute::{Job, Seat, Vault};
use crate::metrics::Metrics;
use crate::mix::Event;
use crate::round::{Gate, Half, NodeState, Phase, Plan};
use crate::sender::{Batch, FIELD_BYTES, SenderId};
use crate::wire::MixFrame;

/// The salt and the sender of a slot.
pub(super) type SlotName = [u8; 2 * FIELD_BYTES];

pub(super) struct Round {
    pub(super) plan: Arc<Plan>,
    pub(super) seat: Seat,
    pub(super) state: NodeState,
    /// Start of the current state; for the first two states, the start of the round.
    pub(super) since: Time,
    pub(super) vault: Option<Arc<dyn Vault>>,
    pub(super) key: TeamKey,
    /// Frames of the key agreement and their receivers, kept until the precomputation is over.
    pub(super) key_frames: Vec<(u32, MixFrame)>,
    pub(super) stages: BTreeMap<Phase, Stage>,
    /// Frames of slots by phase and seat, kept until the seat has the whole phase.
    pub(super) outgoing: BTreeMap<(Phase, u16), Vec<MixFrame>>,
    /// Work that needs the team's key, before the key is agreed.
    pub(super) held: Vec<Job>,
    pub(super) names: BTreeSet<SlotName>,
    /// The senders of valid payloads so far, if the configuration has a minimum.
    pub(super) senders: BTreeSet<SenderId>,
    /// True once the scheduler has reported that the round can take a batch.
    pub(super) is_queued: bool,
    /// Payloads that wait for earlier rounds.
    pub(super) batch: Option<Batch>,
}

impl Round {
    pub(super) fn new(plan: Arc<Plan>, position: u16, now: Time) -> Self {
        let team = plan.team.len() as u16;
        Self {
            seat: Seat { position, team },
            state: NodeState::Waiting,
            since: now,
            vault: None,
            key: TeamKey::new(team),
            key_frames: Vec::new(),
            stages: BTreeMap::new(),
            outgoing: BTreeMap::new(),
            held: Vec::new(),
            names: BTreeSet::new(),
            senders: BTreeSet::new(),
            is_queued: false,
            batch: None,
            plan,
        }
    }

    pub(super) fn number(&self) -> u64 {
        self.plan.round
    }

    pub(super) fn message(&self) -> MessageKey {
        MessageKey(self.plan.round)
    }

    pub(super) fn next_seat(&self) -> u16 {
        (self.seat.position + 1) % self.seat.team
    }

    pub(super) fn seat_before(&self) -> u16 {
        (self.seat.position + self.seat.team - 1) % self.seat.team
    }

    pub(super) fn node_at(&self, seat: u16) -> u32 {
        self.plan.team[usize::from(seat)]
    }

    /// Returns the node that sends slots to this one.
    pub(super) fn before(&self) -> u32 {
        self.node_at(self.seat_before())
    }

    pub(super) fn held_bytes(&self) -> u64 {
        let bytes = |frame: &MixFrame| match frame {
            MixFrame::Slots(piece) => piece.len() as u64,
            _ => 0,
        };
        let outgoing: u64 = self.outgoing.values().flatten().map(bytes).sum();
        let stages: u64 = self.stages.values().map(Stage::held_bytes).sum();
        let waiting = self.batch.as_ref().map_or(0, |batch| batch.elements.len() + batch.credentials.len());
        outgoing + stages + waiting as u64 + self.held.iter().map(Job::held_bytes).sum::<u64>()
    }
}

/// The set of slots of a batch that have arrived.
#[derive(Debug)]
struct Marks {
    bits: Vec<u64>,
    left: u32,
}

impl Marks {
    fn new(batch: u32) -> Self {
        Self { bits: vec![0; batch.div_ceil(64) as usize], left: batch }
    }

    fn has(&self, slot: u32) -> bool {
        self.bits[slot as usize / 64] >> (slot % 64) & 1 == 1
    }

    /// Marks slots as arrived. Reports whether some, or all, of them had arrived before.
    fn mark(&mut self, first: u32, count: u32) -> Arrival {
        let had = (first..first + count).filter(|slot| self.has(*slot)).count() as u32;
        if had > 0 {
            return if had == count { Arrival::Duplicate } else { Arrival::Overlap };
        }
        (first..first + count).for_each(|slot| self.bits[slot as usize / 64] |= 1 << (slot % 64));
        self.left -= count;
        Arrival::New
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    New,
    Duplicate,
    /// Some of the slots had arrived before.
    Overlap,
}

/// A buffer for slots of a fixed length that arrive in any order.
#[derive(Debug)]
pub(super) struct Gathering {
    bytes: Vec<u8>,
    width: usize,
}

impl Gathering {
    pub(super) fn new(batch: u32, width: usize) -> Self {
        Self { bytes: vec![0; batch as usize * width], width }
    }

    pub(super) fn put(&mut self, first: u32, bytes: &[u8]) {
        let at = first as usize * self.width;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub(super) fn finish(self) -> Bytes {
        self.bytes.into()
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }
}

/// The handling of arriving slots, by the [`Gate`] of the phase.
#[derive(Debug)]
pub(super) enum Intake {
    /// Each slot is processed at once, and none is kept.
    SlotWise,
    /// Slots are gathered, and processed when all have arrived.
    Barrier(Gathering),
    /// Slots are forwarded at once, and also gathered.
    Both(Gathering),
}

#[derive(Debug)]
pub(super) struct Stage {
    marks: Marks,
    batch: u32,
    pub(super) intake: Intake,
    pub(super) from: u64,
    pub(super) finished: u32,
    /// Processed slots that wait for the rest, if slots travel together.
    pub(super) leaving: Option<[Gathering; 2]>,
}

impl Stage {
    pub(super) fn new(phase: Phase, batch: u32, slot_bytes: usize) -> Self {
        let intake = match phase.gate() {
            _ if phase == Phase::Result => Intake::Both(Gathering::new(batch, slot_bytes)),
            Gate::SlotWise => Intake::SlotWise,
            Gate::Barrier => Intake::Barrier(Gathering::new(batch, slot_bytes)),
        };
        Self { marks: Marks::new(batch), batch, intake, from: 0, finished: 0, leaving: None }
    }

    pub(super) fn record_arrival(&mut self, first: u32, count: u32) -> Arrival {
        self.marks.mark(first, count)
    }

    pub(super) fn is_complete(&self) -> bool {
        self.marks.left == 0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.marks.left == self.batch
    }

    /// Takes the gathered slots. Works once; later slots are not gathered.
    pub(super) fn take_gathered(&mut self) -> Bytes {
        match std::mem::replace(&mut self.intake, Intake::SlotWise) {
            Intake::SlotWise => Bytes::new(),
            Intake::Barrier(gathering) | Intake::Both(gathering) => gathering.finish(),
        }
    }

    pub(super) fn held_bytes(&self) -> u64 {
        let gathered = match &self.intake {
            Intake::SlotWise => 0,
            Intake::Barrier(gathering) | Intake::Both(gathering) => gathering.len(),
        };
        let leaving = self.leaving.iter().flatten().map(Gathering::len).sum::<usize>();
        (gathered + leaving) as u64
    }
}

/// The waiting jobs. Real time goes first, then the older round: finishing a round before starting
/// another one lets rounds come out one by one, and not all together later. Few jobs run at a time,
/// and each is short, so none waits for long behind one with lower priority.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    /// The jobs by half, round, and order of arrival.
    waiting: BTreeMap<(Half, u64, u64), Job>,
    serial: u64,
    out: usize,
}

impl Jobs {
    pub(super) fn push(&mut self, job: Job) {
        self.serial += 1;
        self.waiting.insert((job.half(), job.round(), self.serial), job);
    }

    /// Returns the number of jobs that run.
    pub(super) const fn out(&self) -> usize {
        self.out
    }

    pub(super) fn done(&mut self) {
        self.out = self.out.saturating_sub(1);
    }

    /// Requests jobs until `jobs_max` are running.
    pub(super) fn pump(&mut self, jobs_max: usize, metrics: &mut Metrics, cx: &mut Cx<'_>) {
        while self.out < jobs_max {
            let Some((_, job)) = self.waiting.pop_first() else { break };
            self.out += 1;
            metrics.jobs += 1;
            cx.emit(Event::Compute(job));
        }
    }

    fn of(&self, round: u64) -> impl Iterator<Item = (&(Half, u64, u64), &Job)> {
        let halves = [Half::RealTime, Half::Precomputation].into_iter();
        halves.flat_map(move |half| self.waiting.range((half, round, 0)..=(half, round, u64::MAX)))
    }

    pub(super) fn forget(&mut self, round: u64) {
        let keys: Vec<_> = self.of(round).map(|(key, _)| *key).collect();
        for key in keys {
            self.waiting.remove(&key);
        }
    }

    pub(super) fn held_bytes(&self, round: u64) -> u64 {
        self.of(round).map(|(_, job)| job.held_bytes()).sum()
    }
}
