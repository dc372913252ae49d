//! What is counted.

use samara_engine::outbox::{Lane, Tally};
use samara_engine::{Frame, MessageKey, PeerId};

use crate::Cx;
use crate::compute::Voided;
use crate::round::{Cause, Phase};
use crate::wire::MixFrame;

samara_engine::names! {
    pub enum Ignored {
        Duplicate = "duplicate",
        /// Slots of which some were here, or that end beyond the batch.
        Overlap = "overlap",
        /// Something of a round that is over, or that this node never had to do with.
        Stale = "stale",
        /// A round whose number is not larger than all that were seen: a replay.
        Replay = "replay",
        OutOfPhase = "out_of_phase",
        /// Something from a node that has nothing to say about it.
        Stranger = "stranger",
        /// Something that contradicts what is known, for example of another length.
        Inconsistent = "inconsistent",
        /// Parts of keys of rounds that are not known yet, beyond what is kept.
        EarlyOverflow = "early_overflow",
        LateAnswer = "late_answer",
    }
}

/// Counters of one node or of the scheduler, all since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Rounds that this node took part in, or that the scheduler made.
    pub rounds: u64,
    /// Of these: those whose payloads were delivered here; at the scheduler, that were completed.
    pub completed: u64,
    pub delivered: u64,
    pub voided: Voided,
    /// Slots that were delivered and hold nothing: voided by some node.
    pub delivered_void: u64,
    /// Slots that were delivered and cannot be read.
    pub delivered_unreadable: u64,
    pub jobs: u64,
    /// Frames of slots that were owed to the outbox, and their bytes.
    pub slot_frames: Tally,
    /// Other frames that were owed to the outbox, and their bytes.
    pub control_frames: Tally,
    /// Frames of slots that were owed again, because a link had broken.
    pub resent_frames: u64,
    pub refused_frames: u64,
    pub dials: u64,
    /// Links that were closed because nothing came.
    pub silences: u64,
    /// Pings that came back around a team, to its first node.
    pub loops: u64,
    /// Those that did not come back in time.
    pub loops_lost: u64,
    /// Pings that were answered over a link.
    pub echoes: u64,
    /// Those that were not answered in time.
    pub echoes_lost: u64,
    pub draws: u64,
    /// The most bytes of slots that were held at the same time, of all rounds together.
    pub held_bytes_max: u64,
    slots: [u64; Phase::ALL.len()],
    failed: [u64; Cause::ALL.len()],
    ignored: [u64; Ignored::ALL.len()],
}

impl Metrics {
    /// Slots that were worked on in a phase; of results, slots that came.
    pub const fn slots(&self, phase: Phase) -> u64 {
        self.slots[phase as usize]
    }

    pub const fn failed(&self, cause: Cause) -> u64 {
        self.failed[cause as usize]
    }

    pub fn failed_total(&self) -> u64 {
        self.failed.iter().sum()
    }

    pub const fn ignored(&self, cause: Ignored) -> u64 {
        self.ignored[cause as usize]
    }

    pub fn ignored_by_cause(&self) -> impl Iterator<Item = (Ignored, u64)> {
        Ignored::ALL.iter().map(|cause| (*cause, self.ignored(*cause)))
    }

    /// Owes a frame, and counts it.
    pub(crate) fn owe(
        &mut self,
        peer: PeerId,
        lane: Lane,
        round: Option<MessageKey>,
        frame: MixFrame,
        cx: &mut Cx<'_>,
    ) {
        let tally = match frame {
            MixFrame::Slots(_) => &mut self.slot_frames,
            _ => &mut self.control_frames,
        };
        tally.add(frame.encoded_len() as u32);
        let now = cx.now();
        if cx.outbox().owe(now, peer, lane, frame, round, None).is_err() {
            self.refused_frames += 1;
        }
    }

    pub(crate) fn ignore(&mut self, cause: Ignored) {
        self.ignored[cause as usize] += 1;
    }

    pub(crate) fn fail(&mut self, cause: Cause) {
        self.failed[cause as usize] += 1;
    }

    pub(crate) fn worked(&mut self, phase: Phase, slots: u32) {
        self.slots[phase as usize] += u64::from(slots);
    }
}
