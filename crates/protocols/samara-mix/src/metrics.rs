//! Counters of nodes and of the scheduler.

use samara_engine::outbox::{Lane, Lost, Tally};
use samara_engine::{Frame, MessageKey, PeerId};

use crate::Cx;
use crate::compute::Voided;
use crate::round::{Cause, Phase};
use crate::wire::MixFrame;

samara_engine::names! {
    pub enum Ignored {
        Duplicate = "duplicate",
        /// Slots of which some had already arrived, or that end beyond the batch.
        Overlap = "overlap",
        /// A frame of a round that is over, or that this node did not take part in.
        Stale = "stale",
        /// A round whose number is not higher than all earlier ones: a replay.
        Replay = "replay",
        OutOfPhase = "out_of_phase",
        /// A frame from a node that is not its legitimate sender.
        Stranger = "stranger",
        /// A frame that contradicts the known state, for example because of its length.
        Inconsistent = "inconsistent",
        /// Shares of keys of unknown rounds, beyond the limit.
        EarlyOverflow = "early_overflow",
        LateAnswer = "late_answer",
    }
}

/// Counters of one node or of the scheduler since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize))]
pub struct Metrics {
    /// Rounds that this node took part in, or that the scheduler created.
    pub rounds: u64,
    /// Rounds whose payloads were delivered here; at the scheduler, completed rounds.
    pub completed: u64,
    pub delivered: u64,
    pub voided: Voided,
    /// Delivered slots without a payload: some node voided them.
    pub delivered_void: u64,
    /// Delivered slots that are unreadable.
    pub delivered_unreadable: u64,
    pub jobs: u64,
    /// Frames of slots passed to the outbox, and their bytes.
    pub slot_frames: Tally,
    /// Other frames passed to the outbox, and their bytes.
    pub control_frames: Tally,
    /// Frames of slots that were sent again after a link broke.
    pub resent_frames: u64,
    pub refused_frames: u64,
    /// Links that were closed because too many control frames waited for the peer.
    pub overflows: u64,
    pub dials: u64,
    /// Links that were closed because of silence.
    pub silences: u64,
    /// Pings that returned to the first node after their way around a team.
    pub loops: u64,
    /// Pings around a team that did not return in time.
    pub loops_lost: u64,
    /// Pings over a link that were answered.
    pub echoes: u64,
    /// Pings over a link that were not answered in time.
    pub echoes_lost: u64,
    pub draws: u64,
    /// Maximum bytes of slots held at the same time, over all rounds.
    pub held_bytes_max: u64,
    slots: [u64; Phase::ALL.len()],
    failed: [u64; Cause::ALL.len()],
    ignored: [u64; Ignored::ALL.len()],
}

impl Metrics {
    /// Returns the number of slots processed in a phase; for [`Phase::Result`], the number that
    /// arrived.
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

    /// Passes a frame to the outbox, and counts it.
    ///
    /// # Errors
    /// Returns an error if the peer is owed too many frames.
    pub(crate) fn owe(
        &mut self,
        peer: PeerId,
        lane: Lane,
        round: Option<MessageKey>,
        frame: MixFrame,
        cx: &mut Cx<'_>,
    ) -> Result<(), Lost> {
        let tally = match frame {
            MixFrame::Slots(_) => &mut self.slot_frames,
            _ => &mut self.control_frames,
        };
        tally.add(frame.encoded_len() as u32);
        let now = cx.now();
        let owed = cx.outbox().owe(now, peer, lane, frame, round, None);
        self.refused_frames += u64::from(owed.is_err());
        owed
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
