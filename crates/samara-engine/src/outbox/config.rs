//! How an outbox is set up, and what it counts.

use std::time::Duration;

/// Whether links drain their own queues or one order holds over all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum Dispatch {
    /// Each link drains its own queue and the links share the uplink as the network interface pleases: what
    /// implementations with a queue per peer do.
    #[default]
    PerLink,
    /// One order over all links: the next copy is the best one among all links that have room.
    Node,
}

/// What happens to a copy that a full queue has no place for. All three are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum Overflow {
    /// The copy is not taken; whoever owed it is told and can try again later.
    Block,
    /// The copy is dropped.
    #[default]
    DropNewest,
    /// The copies that have been owed longest on the same lane and link are dropped instead, as many as it takes. A copy
    /// that is larger than the whole lane is dropped itself.
    DropOldest,
}

/// The number of a lane: an index into [`OutboxConfig::lanes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(pub u8);

/// A class of frames that share a priority, a capacity and an overflow policy.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneConfig {
    /// What counters and reports call it.
    pub name: &'static str,
    /// Lanes with a smaller number always go first; lanes with the same number take turns, a copy each.
    pub priority: u8,
    /// How much may be owed to one peer.
    pub capacity: LaneCapacity,
    /// How much younger a first copy may be and still go before a second one; twice as much for a third, and so on.
    /// This bounds how long any copy can be held back by the schedules that prefer first copies: nothing starves.
    pub patience: Duration,
}

impl LaneConfig {
    /// A lane with room for everything, and a patience of four seconds (the time that an Ethereum attester waits for a
    /// block).
    pub const fn unbounded(name: &'static str, priority: u8) -> Self {
        Self { name, priority, capacity: LaneCapacity::UNBOUNDED, patience: Duration::from_secs(4) }
    }
}

/// How much a lane holds for one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneCapacity {
    /// The most copies.
    pub copies: usize,
    /// The most encoded bytes of all copies together.
    pub bytes: u64,
    /// What happens beyond.
    pub overflow: Overflow,
}

impl LaneCapacity {
    /// Room for everything.
    pub const UNBOUNDED: Self = Self { copies: usize::MAX, bytes: u64::MAX, overflow: Overflow::DropNewest };

    /// Room for so many copies of any length; what comes beyond is dropped (and counted).
    pub const fn copies(copies: usize) -> Self {
        Self { copies, ..Self::UNBOUNDED }
    }
}

/// How an outbox is set up.
#[derive(Clone, Debug, PartialEq)]
pub struct OutboxConfig {
    /// Who chooses the next copy.
    pub dispatch: Dispatch,
    /// The lanes, named by their index.
    pub lanes: Vec<LaneConfig>,
}

/// What became of copies, in copies and bytes. At any time
/// `owed = sent + withdrawn + expired + dropped_oldest + pending`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Taken into the outbox.
    pub owed: Tally,
    /// Handed to the transport.
    pub sent: Tally,
    /// Taken back: the peer has it, does not want it, or is gone.
    pub withdrawn: Tally,
    /// Not sent because the deadline had passed.
    pub expired: Tally,
    /// Dropped on arrival because the queue was full (never counted as owed).
    pub dropped_newest: Tally,
    /// Dropped from the queue to make room.
    pub dropped_oldest: Tally,
    /// Refused because the queue was full (never counted as owed); the caller was told.
    pub refused: Tally,
    /// Owed still.
    pub pending: Tally,
}

impl Counters {
    /// Whether every copy and byte that was owed is accounted for.
    pub fn add_up(&self) -> bool {
        let parts = [self.sent, self.withdrawn, self.expired, self.dropped_oldest, self.pending];
        self.owed.copies == parts.iter().map(|part| part.copies).sum::<u64>()
            && self.owed.bytes == parts.iter().map(|part| part.bytes).sum::<u64>()
    }
}

/// What became of the copies of one message since it became pending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Copies taken into the outbox.
    pub owed: u32,
    /// Copies handed to the transport.
    pub sent: u32,
    /// Copies taken back.
    pub withdrawn: u32,
    /// Copies whose deadline had passed.
    pub expired: u32,
    /// Copies dropped to make room.
    pub dropped_oldest: u32,
    /// Copies owed still, those that are held back included.
    pub pending: u32,
    /// Different peers noted to have the message (at most [`Progress::NOTED_MAX`] and the observers are remembered).
    pub noted: u32,
}

impl Progress {
    /// How many peers are remembered to have a message. More do not matter: no sensible cap of a feedback schedule is
    /// larger, and a message must not cost memory without bound because many claim to have it.
    pub const NOTED_MAX: usize = 64;
}

/// A number of copies and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Messages times peers.
    pub copies: u64,
    /// Their encoded bytes.
    pub bytes: u64,
}

impl Tally {
    /// Counts one more copy of `bytes` bytes.
    pub fn add(&mut self, bytes: u32) {
        self.copies += 1;
        self.bytes += u64::from(bytes);
    }

    pub(super) fn remove(&mut self, bytes: u32) {
        self.copies -= 1;
        self.bytes -= u64::from(bytes);
    }
}

/// How many bytes of a copy would leave at once if a link were given it now: what a window has left, for example.
///
/// A link with any room can be given a copy. `bool` stands for a driver that knows no more than that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Room(pub u64);

impl Room {
    /// The link can take nothing.
    pub const NONE: Self = Self(0);
    /// Any copy would leave at once, as far as the driver knows.
    pub const WHOLE: Self = Self(u64::MAX);

    /// Whether the link can be given a copy.
    pub const fn is_some(self) -> bool {
        self.0 > 0
    }

    /// Whether a copy of `len` bytes would leave at once.
    pub const fn takes(self, len: u32) -> bool {
        self.0 >= len as u64
    }
}

impl From<bool> for Room {
    fn from(has_room: bool) -> Self {
        if has_room { Self::WHOLE } else { Self::NONE }
    }
}
