//! The configuration of an outbox, and its counters.

use std::borrow::Cow;
use std::time::Duration;

use crate::{Counted, Counter, Gauge, Rows, Value};

/// Whether each link drains its own queue or one order covers all links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum Dispatch {
    /// Each link drains its own queue, and the network interface decides how the links share the
    /// uplink. Implementations with a queue per peer do this.
    #[default]
    PerLink,
    /// One order over all links: the next copy is the best one among all links that have room.
    Node,
}

/// The treatment of a copy that does not fit into a full queue. Each case has its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum Overflow {
    /// The copy is refused; the caller is notified and can try again later.
    Block,
    /// The copy is dropped.
    #[default]
    DropNewest,
    /// The oldest copies of the same lane and link are dropped, as many as necessary. A copy that
    /// is larger than the whole lane is dropped itself.
    DropOldest,
}

/// The number of a lane: an index into [`OutboxConfig::lanes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(pub u8);

/// A class of frames that share a priority, a capacity and an overflow policy.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneConfig {
    /// The name of the lane in counters and reports.
    pub name: &'static str,
    /// Lanes with a smaller number always go first. Lanes with the same number take turns, one copy
    /// each.
    pub priority: u8,
    /// The maximum amount owed to one peer on this lane.
    pub capacity: LaneCapacity,
    /// How much younger a first copy may be and still go before a second one; twice as much for a
    /// third, and so on. This limits how long schedules that prefer first copies can hold back any
    /// copy: nothing starves.
    pub patience: Duration,
}

impl LaneConfig {
    /// Returns a lane with unlimited capacity and a patience of four seconds, the time that an
    /// Ethereum attester waits for a block.
    pub const fn unbounded(name: &'static str, priority: u8) -> Self {
        Self { name, priority, capacity: LaneCapacity::UNBOUNDED, patience: Duration::from_secs(4) }
    }
}

crate::ranges! {
    /// The capacity of a lane for one peer.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LaneCapacity {
        /// Maximum number of copies.
        #[range(1..)]
        pub copies: usize,
        /// Maximum encoded bytes of all copies together.
        #[range(1..)]
        pub bytes: u64,
        /// The treatment of copies beyond the capacity.
        pub overflow: Overflow,
    }
}

impl LaneCapacity {
    /// A capacity without any limit.
    pub const UNBOUNDED: Self = Self { copies: usize::MAX, bytes: u64::MAX, overflow: Overflow::DropNewest };

    /// Returns a capacity of `copies` copies of any length. Further copies are dropped and counted.
    pub const fn copies(copies: usize) -> Self {
        Self { copies, ..Self::UNBOUNDED }
    }
}

/// The configuration of an outbox.
#[derive(Clone, Debug, PartialEq)]
pub struct OutboxConfig {
    /// How the next copy is chosen.
    pub dispatch: Dispatch,
    /// The lanes; [`Lane`] is an index into this list.
    pub lanes: Vec<LaneConfig>,
}

crate::counters! {
    /// Counters of copies by their end, in copies and bytes. At any time `owed = sent + withdrawn +
    /// expired + dropped_oldest + pending`.
    #[derive(Copy, Eq)]
    pub struct Counters {
        /// Copies taken into the outbox.
        pub owed: Tally,
        /// Copies passed to the transport.
        pub sent: Tally,
        /// Copies withdrawn: the peer has the message, does not want it, or is gone.
        pub withdrawn: Tally,
        /// Copies not sent because the deadline had passed.
        pub expired: Tally,
        /// Copies dropped on arrival because the queue was full; never counted as owed.
        pub dropped_newest: Tally,
        /// Copies dropped from the queue to make room for newer ones.
        pub dropped_oldest: Tally,
        /// Copies refused because the queue was full; never counted as owed. The caller was notified.
        pub refused: Tally,
        /// Copies that are still owed.
        pub pending: Gauge<Tally>,
    }
}

impl Counters {
    /// Returns true if every copy and byte that was owed is accounted for.
    pub fn add_up(&self) -> bool {
        let parts = [self.sent, self.withdrawn, self.expired, self.dropped_oldest, *self.pending];
        self.owed.copies == parts.iter().map(|part| part.copies).sum::<u64>()
            && self.owed.bytes == parts.iter().map(|part| part.bytes).sum::<u64>()
    }
}

/// The counters of each lane, by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByLane(pub Vec<(&'static str, Counters)>);

impl ByLane {
    /// Returns the counters of all lanes together.
    pub fn total(&self) -> Counters {
        let mut total = Counters::default();
        for (_, counters) in &self.0 {
            total.add(counters);
            total.pending.0.change_by(&counters.pending, |sum, more| *sum += more);
        }
        total
    }
}

impl Counted for ByLane {
    fn declared() -> Vec<Counter> {
        Counters::declared().into_iter().map(|counter| Counter { label: Some("lane"), ..counter }).collect()
    }

    fn rows(&self) -> Vec<Rows> {
        let mut all = vec![Rows::new(); Counters::declared().len()];
        for (lane, counters) in &self.0 {
            for (rows, values) in all.iter_mut().zip(counters.rows()) {
                rows.extend(values.into_iter().map(|(_, number)| (Some(Cow::Borrowed(*lane)), number)));
            }
        }
        all
    }

    fn change_by(&mut self, other: &Self, change: fn(&mut u64, u64)) {
        for ((_, own), (_, other)) in self.0.iter_mut().zip(&other.0) {
            own.change_by(other, change);
        }
    }
}

/// Counters of the copies of one message since it became pending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Copies taken into the outbox.
    pub owed: u32,
    /// Copies passed to the transport.
    pub sent: u32,
    /// Copies withdrawn before they left.
    pub withdrawn: u32,
    /// Copies whose deadline had passed.
    pub expired: u32,
    /// Copies dropped to make room for newer ones.
    pub dropped_oldest: u32,
    /// Copies that are still owed, including those held back.
    pub pending: u32,
    /// Number of different peers noted to have the message. At most [`Progress::NOTED_MAX`] peers
    /// are remembered.
    pub noted: u32,
}

impl Progress {
    /// Maximum number of peers remembered to have a message. More are not useful: no sensible cap
    /// of a feedback schedule is larger, and claims of peers must not cost unbounded memory.
    pub const NOTED_MAX: usize = 64;
}

/// A number of copies and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize))]
pub struct Tally {
    /// Number of copies: messages times peers.
    pub copies: u64,
    /// Encoded bytes of the copies.
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

/// The number of bytes of a copy that would leave at once if the driver passed it to a link now,
/// for example the rest of a window.
///
/// A link with any room accepts a copy. A driver that knows no more than that uses `bool`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Room(pub u64);

impl Room {
    /// The link accepts nothing.
    pub const NONE: Self = Self(0);
    /// Any copy would leave at once, as far as the driver knows.
    pub const WHOLE: Self = Self(u64::MAX);

    /// Returns true if the link accepts a copy.
    pub const fn is_some(self) -> bool {
        self.0 > 0
    }

    /// Returns true if a copy of `len` bytes would leave at once.
    pub const fn takes(self, len: u32) -> bool {
        self.0 >= len as u64
    }
}

impl From<bool> for Room {
    fn from(has_room: bool) -> Self {
        if has_room { Self::WHOLE } else { Self::NONE }
    }
}
