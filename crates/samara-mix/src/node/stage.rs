//! A phase of a round at a node: which slots have come, and what becomes of them.

use bytes::Bytes;

use crate::round::{Gate, Phase};

/// Which slots of a batch have come.
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

    /// Marks slots that have not come. Whether there were such that had.
    fn mark(&mut self, first: u32, count: u32) -> Came {
        let had = (first..first + count).filter(|slot| self.has(*slot)).count() as u32;
        if had > 0 {
            return if had == count { Came::Duplicate } else { Came::Overlap };
        }
        (first..first + count).for_each(|slot| self.bits[slot as usize / 64] |= 1 << (slot % 64));
        self.left -= count;
        Came::New
    }
}

/// Whether slots had come before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Came {
    New,
    /// All of them.
    Duplicate,
    /// Some of them.
    Overlap,
}

/// Slots of a fixed length that are put together in any order.
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

/// What happens to slots that come, by the [`Gate`] of the phase.
#[derive(Debug)]
pub(super) enum Intake {
    /// Each is worked on at once: nothing is kept.
    SlotWise,
    /// All are gathered, and only then anything is done with them.
    Barrier(Gathering),
    /// They are passed on at once, and gathered.
    Both(Gathering),
}

/// A phase of a round at this node.
#[derive(Debug)]
pub(super) struct Stage {
    marks: Marks,
    batch: u32,
    pub(super) intake: Intake,
    /// Seats that slots came from.
    pub(super) from: u64,
    /// Slots that are worked on.
    pub(super) finished: u32,
    /// What is worked on and waits for the rest, if slots travel together.
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

    /// Takes note of slots that come.
    pub(super) fn came(&mut self, first: u32, count: u32) -> Came {
        self.marks.mark(first, count)
    }

    /// Whether all slots have come.
    pub(super) fn is_complete(&self) -> bool {
        self.marks.left == 0
    }

    /// Whether no slot has come.
    pub(super) fn is_empty(&self) -> bool {
        self.marks.left == self.batch
    }

    /// What was gathered, once; nothing is gathered any more.
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
