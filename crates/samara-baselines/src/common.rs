//! Parameters that all engines of this crate have.

use std::fmt::{Debug, Display};
use std::time::Duration;

use samara_engine::outbox::{Dispatch, Lane, LaneConfig, OutboxConfig, Overflow, Schedule};
use thiserror::Error;

use crate::seen::SeenCache;

/// A value that is not possible.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field}: found {found}, expected {expected}")]
pub struct ConfigError {
    /// Which one.
    pub field: &'static str,
    /// What it is.
    pub found: String,
    /// What it can be.
    pub expected: String,
}

pub(crate) fn check(
    holds: bool,
    field: &'static str,
    found: impl Debug,
    expected: impl Display,
) -> Result<(), ConfigError> {
    if holds {
        return Ok(());
    }
    Err(ConfigError { field, found: format!("{found:?}"), expected: expected.to_string() })
}

/// How much a lane of the outbox holds for one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneCapacity {
    /// Copies.
    pub copies: usize,
    /// Their bytes.
    pub bytes: u64,
    /// What happens beyond.
    pub overflow: Overflow,
}

impl LaneCapacity {
    /// Room for so many copies of any length; what comes beyond is dropped (and counted).
    pub const fn copies(copies: usize) -> Self {
        Self { copies, bytes: u64::MAX, overflow: Overflow::DropNewest }
    }
}

/// Queues and who drains them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sending {
    /// Who chooses the next copy.
    pub dispatch: Dispatch,
    /// One queue per peer for everything, of the capacity `forwarded`, as in go-libp2p-pubsub. Otherwise control frames go
    /// first, then own and forwarded messages in turn.
    pub shared: bool,
    /// Room for control frames, per peer.
    pub control: LaneCapacity,
    /// Room for own messages.
    pub own: LaneCapacity,
    /// Room for messages of others.
    pub forwarded: LaneCapacity,
    /// How long schedules that prefer first copies can hold any copy back.
    pub patience: Duration,
}

impl Sending {
    /// The queue of go-libp2p-pubsub: 32 frames per peer (`peerOutboundQueueSize` in `pubsub.go`), of which those beyond are
    /// lost.
    pub const fn go_libp2p_pubsub() -> Self {
        let queue = LaneCapacity::copies(32);
        Self { shared: true, control: queue, own: queue, forwarded: queue, ..Self::split() }
    }

    /// Lanes of their own for control, own and forwarded messages, with the same capacities as the default of
    /// `samara-gossipsub`, so that protocols can be compared.
    pub const fn split() -> Self {
        Self {
            dispatch: Dispatch::PerLink,
            shared: false,
            control: LaneCapacity::copies(20_000),
            own: LaneCapacity::copies(5000),
            forwarded: LaneCapacity::copies(5000),
            patience: Duration::from_secs(4),
        }
    }

    pub(crate) fn lanes(&self) -> Lanes {
        if self.shared {
            Lanes { control: Lane(0), own: Lane(0), forwarded: Lane(0) }
        } else {
            Lanes { control: Lane(0), own: Lane(1), forwarded: Lane(2) }
        }
    }
}

/// The lane of each kind of frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lanes {
    pub(crate) control: Lane,
    pub(crate) own: Lane,
    pub(crate) forwarded: Lane,
}

/// What all engines of this crate have in common.
#[derive(Clone, Debug, PartialEq)]
pub struct Common {
    /// The longest frame that is sent or accepted, in bytes with its length prefix.
    pub max_frame_bytes: usize,
    /// How long a message is known as seen.
    pub seen_ttl: Duration,
    /// Most ids known as seen; beyond, the oldest are forgotten (and counted).
    pub seen_capacity: usize,
    /// Whether a copy that is owed to a peer is taken back when the peer sends or announces the message itself. No
    /// implementation of these protocols does it, but then they choose the order of copies when they queue them.
    pub withdraw: bool,
    /// Whether the application gets [`Event::Message`](crate::Event::Message) for its own messages.
    pub deliver_own: bool,
    /// Whether every duplicate is an [`Event::Duplicate`](crate::Event::Duplicate).
    pub report_duplicates: bool,
    /// Queues and who drains them.
    pub sending: Sending,
    /// The order of copies of own messages.
    pub schedule_own: Schedule,
    /// The order of copies of forwarded messages.
    pub schedule_forwarded: Schedule,
}

impl Default for Common {
    /// Frames of at most 1 MiB (`DefaultMaxMessageSize` in go-libp2p-pubsub's `pubsub.go`) and the prefix of 3 bytes; seen
    /// for 120 s (`TimeCacheDuration` in the same file); 2^20 ids, as in `samara-gossipsub`.
    fn default() -> Self {
        Self {
            max_frame_bytes: (1 << 20) + 3,
            seen_ttl: Duration::from_secs(120),
            seen_capacity: 1 << 20,
            withdraw: true,
            deliver_own: true,
            report_duplicates: false,
            sending: Sending::split(),
            schedule_own: Schedule::Sequential,
            schedule_forwarded: Schedule::Sequential,
        }
    }
}

impl Common {
    /// The outbox that a node with this configuration needs.
    pub fn outbox_config(&self) -> OutboxConfig {
        let sending = &self.sending;
        let lane = |name, priority, room: LaneCapacity| LaneConfig {
            capacity_copies: room.copies,
            capacity_bytes: room.bytes,
            overflow: room.overflow,
            patience: sending.patience,
            ..LaneConfig::unbounded(name, priority)
        };
        let lanes = if sending.shared {
            vec![lane("all", 0, sending.forwarded)]
        } else {
            vec![
                lane("control", 0, sending.control),
                lane("own", 1, sending.own),
                lane("forwarded", 1, sending.forwarded),
            ]
        };
        OutboxConfig { dispatch: sending.dispatch, lanes }
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        check(self.max_frame_bytes >= 1, "max_frame_bytes", self.max_frame_bytes, "at least 1")?;
        check(!self.seen_ttl.is_zero(), "seen_ttl", self.seen_ttl, "more than 0")?;
        let expected = format!("1 to {}", SeenCache::CAPACITY_MAX);
        let holds = (1..=SeenCache::CAPACITY_MAX).contains(&self.seen_capacity);
        check(holds, "seen_capacity", self.seen_capacity, expected)?;
        let Sending { control, own, forwarded, .. } = &self.sending;
        for (field, room) in
            [("sending.control", control), ("sending.own", own), ("sending.forwarded", forwarded)]
        {
            check(
                room.copies >= 1 && room.bytes >= 1,
                field,
                room,
                "room for at least one copy of one byte",
            )?;
        }
        Ok(())
    }
}
