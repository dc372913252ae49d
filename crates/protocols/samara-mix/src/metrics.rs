//! Counters of nodes and of the scheduler.

use samara_engine::outbox::{Lane, Lost, Tally};
use samara_engine::{Frame, Gauge, MessageKey, PeerId};

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

samara_engine::counters! {
    /// Counters of one node or of the scheduler since its start.
    #[derive(Eq)]
    #[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize))]
    pub struct Metrics {
        /// Rounds that this node took part in, or that the scheduler created.
        pub rounds: u64,
        /// Rounds whose payloads were delivered here; at the scheduler, completed rounds.
        pub completed: u64,
        /// Rounds that failed.
        pub failed[cause: Cause]: u64,
        /// Slots that came out.
        pub delivered: u64,
        /// Slots that this node voided.
        pub voided[cause: Voided]: u64,
        /// Delivered slots without a payload: some node voided them.
        pub delivered_void: u64,
        /// Delivered slots that are unreadable.
        pub delivered_unreadable: u64,
        /// Slots processed in a phase; as results, those that arrived.
        pub slots[phase: Phase]: u64,
        /// Jobs assigned to processors.
        pub jobs: u64,
        /// Frames of slots passed to the outbox.
        pub slot_frames: Tally,
        /// Other frames passed to the outbox.
        pub control_frames: Tally,
        /// Frames of slots that were sent again after a link broke.
        pub resent_frames: u64,
        /// Frames that the outbox refused.
        pub queue_drops: u64,
        /// Links that were closed because too many control frames waited for the peer.
        pub overflows: u64,
        /// Attempts to connect to nodes.
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
        /// Teams that were drawn.
        pub draws: u64,
        /// Teams that waited before they were drawn again, because all rounds of the previous draw
        /// failed in their precomputation.
        pub paused_draws: u64,
        /// Maximum bytes of slots held at the same time, over all rounds.
        pub held_bytes_max: Gauge,
        /// Input of peers without effect.
        pub ignored[cause: Ignored]: u64,
    }
}

impl Metrics {
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
        self.queue_drops += u64::from(owed.is_err());
        owed
    }

    pub(crate) fn ignore(&mut self, cause: Ignored) {
        self.ignored[cause] += 1;
    }
}
