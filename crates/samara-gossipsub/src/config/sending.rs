//! Which frames share a queue, and how long queues are.

use std::time::Duration;

use samara_engine::outbox::{Dispatch, Lane, LaneCapacity, LaneConfig, OutboxConfig};

use super::Config;

/// Which frames share a queue (a lane of the outbox).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LaneLayout {
    /// A lane each for control (always first), own messages, forwarded messages, and answers to IWANT (always last).
    #[default]
    Split,
    /// go-libp2p-pubsub: IDONTWANT goes first, everything else shares one queue in the order in which it was owed.
    Shared,
}

/// Queues and who drains them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendingConfig {
    /// Who chooses the next copy.
    pub dispatch: Dispatch,
    /// Which frames share a queue.
    pub layout: LaneLayout,
    /// Room for control messages, per peer. In the shared layout: for IDONTWANT, together with what else is pending.
    pub control: LaneCapacity,
    /// Room for own messages; in the shared layout for everything but IDONTWANT.
    pub publish: LaneCapacity,
    /// Room for forwarded messages.
    pub forward: LaneCapacity,
    /// Room for answers to IWANT.
    pub answer: LaneCapacity,
    /// How long schedules that prefer first copies can hold any copy back.
    pub patience: Duration,
}

/// The lane of each kind of frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lanes {
    /// IDONTWANT.
    pub urgent: Lane,
    /// Subscriptions, GRAFT, PRUNE, IHAVE, IWANT.
    pub control: Lane,
    /// Own messages.
    pub publish: Lane,
    /// Forwarded messages.
    pub forward: Lane,
    /// Answers to IWANT.
    pub answer: Lane,
}

impl Lanes {
    /// The lanes of [`LaneLayout::Split`].
    pub const SPLIT: Self =
        Self { urgent: Lane(0), control: Lane(0), publish: Lane(1), forward: Lane(2), answer: Lane(3) };
    /// The lanes of [`LaneLayout::Shared`].
    pub const SHARED: Self =
        Self { urgent: Lane(0), control: Lane(1), publish: Lane(1), forward: Lane(1), answer: Lane(1) };

    /// The lanes of a layout.
    pub const fn of(layout: LaneLayout) -> Self {
        match layout {
            LaneLayout::Split => Self::SPLIT,
            LaneLayout::Shared => Self::SHARED,
        }
    }
}

impl Config {
    /// The outbox that a node with this configuration needs.
    pub fn outbox_config(&self) -> OutboxConfig {
        let sending = &self.sending;
        let patience = sending.patience;
        let lane = |name, priority, capacity| LaneConfig { name, priority, capacity, patience };
        let lanes = match sending.layout {
            // Own and forwarded messages take turns: neither a publisher's burst nor the traffic of others may
            // starve the other.
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
