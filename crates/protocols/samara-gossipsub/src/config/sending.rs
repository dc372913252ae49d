//! The assignment of frames to queues, and the lengths of queues.

use std::time::Duration;

use samara_engine::outbox::{Dispatch, Lane, LaneCapacity, LaneConfig, OutboxConfig};

use super::Config;

/// The assignment of frames to queues (lanes of the outbox).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LaneLayout {
    /// A separate lane for control (always first), own messages, forwarded messages, and answers to
    /// IWANT (always last).
    #[default]
    Split,
    /// As in go-libp2p-pubsub: IDONTWANT goes first, and everything else shares one queue in the
    /// order in which it was queued.
    Shared,
}

/// The frames that answer an IWANT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Answers {
    /// A frame for each message, which other frames can overtake and IDONTWANT can withdraw.
    #[default]
    FramePerMessage,
    /// One frame for all messages of an answer, as in go-libp2p-pubsub: one place in the queue, and
    /// a full queue drops all of them. A longer answer is split.
    OneFrame {
        /// Maximum length of a frame in bytes.
        bytes_max: usize,
    },
}

samara_engine::settings! {
    /// Queues, and the order in which they are drained.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SendingConfig {
        /// Whether each link drains its own queue, or one order covers all links.
        pub dispatch: Dispatch => dispatch,
        /// The assignment of frames to queues.
        pub layout: LaneLayout,
        /// Capacity for control messages, per peer. In the shared layout: for IDONTWANT and other
        /// pending frames.
        #[range(..)]
        pub control: LaneCapacity,
        /// Capacity for own messages. In the shared layout: for everything but IDONTWANT.
        #[range(..)]
        pub publish: LaneCapacity,
        /// Capacity for forwarded messages.
        #[range(..)]
        pub forward: LaneCapacity,
        /// Capacity for answers to IWANT.
        #[range(..)]
        pub answer: LaneCapacity,
        /// Maximum time for which schedules that prefer first copies can hold back a copy.
        pub patience: Duration,
    }
}

/// The lane of each kind of frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lanes {
    /// The lane of IDONTWANT.
    pub urgent: Lane,
    /// The lane of subscriptions, GRAFT, PRUNE, IHAVE and IWANT.
    pub control: Lane,
    /// The lane of own messages.
    pub publish: Lane,
    /// The lane of forwarded messages.
    pub forward: Lane,
    /// The lane of answers to IWANT.
    pub answer: Lane,
}

impl Lanes {
    /// The lanes of [`LaneLayout::Split`].
    pub const SPLIT: Self =
        Self { urgent: Lane(0), control: Lane(0), publish: Lane(1), forward: Lane(2), answer: Lane(3) };
    /// The lanes of [`LaneLayout::Shared`].
    pub const SHARED: Self =
        Self { urgent: Lane(0), control: Lane(1), publish: Lane(1), forward: Lane(1), answer: Lane(1) };

    /// Returns the lanes of a layout.
    pub const fn of(layout: LaneLayout) -> Self {
        match layout {
            LaneLayout::Split => Self::SPLIT,
            LaneLayout::Shared => Self::SHARED,
        }
    }
}

impl Config {
    /// Returns the configuration of the outbox that a node with this configuration needs.
    pub fn outbox_config(&self) -> OutboxConfig {
        let sending = &self.sending;
        let patience = sending.patience;
        let lane = |name, priority, capacity| LaneConfig { name, priority, capacity, patience };
        let lanes = match sending.layout {
            // Own and forwarded messages take turns: neither a publisher's burst nor forwarded
            // traffic may starve the other.
            LaneLayout::Split => vec![
                lane("control", 0, sending.control),
                lane("publish", 1, sending.publish),
                lane("forward", 1, sending.forward),
                lane("answer", 2, sending.answer),
            ],
            LaneLayout::Shared => {
                vec![lane("urgent", 0, sending.control), lane("normal", 1, sending.publish)]
            }
        };
        OutboxConfig { dispatch: sending.dispatch, lanes }
    }
}
