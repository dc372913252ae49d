//! Everything about a member that can be chosen.

mod preset;
mod validate;

use std::time::Duration;

use samara_engine::PeerIdentity;
use samara_engine::outbox::{Dispatch, Lane, LaneConfig, OutboxConfig, Overflow};

use samara_engine::shape::{Shape, Workload, choose};

pub use preset::Preset;
pub use validate::ConfigError;

/// How a member behaves. All members of a group need the same order and sizes; start from a [`Preset`], of which
/// [`Config::default`] is [`Preset::Fifo`].
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Which group: nodes with another one are not listened to.
    pub group: u64,
    /// Nodes that are dialled again and again while there is no link to them. Members of a view are dialled in any case.
    pub seeds: Vec<PeerIdentity>,
    /// In which order messages are delivered.
    pub order: Order,
    /// How messages travel. The coordinator decides for the whole view.
    pub shape: ShapeChoice,
    /// What becomes of messages that are broadcast before there is a view.
    pub early: Early,

    // ---- sizes ----
    /// Longer messages travel in chunks of so many bytes, so that forwarding begins before the last byte has come.
    pub chunk_bytes: usize,
    /// Units are put together in frames of about so many bytes.
    pub batch_bytes: usize,
    /// The longest message that can be broadcast.
    pub message_bytes_max: usize,
    /// The most members of a view.
    pub members_max: usize,

    // ---- flow ----
    /// The most bytes on the way to one successor: beyond, units wait here, where own and forwarded ones take turns. It is a quarter at
    /// least, and between them as much as arrives in a round trip and 50 ms.
    pub hop_window_bytes: u64,
    /// How much of its own a member may have on the way to the group.
    pub window: Window,
    /// What all members together may have on the way: bounds each one's window to its share.
    pub memory_bytes: u64,
    /// The most bytes that wait to be broadcast.
    pub own_queue_bytes: usize,
    /// The most bytes that wait for an application that does not take deliveries, before the member stops to acknowledge and the
    /// group has to wait.
    pub held_bytes: u64,
    /// How long acknowledgements wait for a frame to travel with.
    pub ack_delay: Duration,
    /// What is done about a member that holds the group up.
    pub slow: Slow,

    // ---- members ----
    /// How failures are noticed.
    pub detection: Detection,
    /// How views come about.
    pub membership: Membership,
}

/// In which order messages are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Those of one sender in the order in which it broadcast them, as soon as they come.
    Fifo,
    /// All in the same order everywhere, and only once all members have them: uniform total order, after LCR (Guerraoui, Levy,
    /// Pochon and Quéma, "Throughput optimal total order broadcast for cluster environments", 2010). Needs [`Shape::Ring`].
    Total,
}

/// How messages travel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ShapeChoice {
    /// Always so.
    Fixed(Shape),
    /// As is best for this workload, whose `members` are those of the view ([`choose`]).
    ByFormula(Workload),
}

impl ShapeChoice {
    /// The shape for a view of so many members.
    pub fn shape(&self, members: usize) -> Shape {
        match *self {
            Self::Fixed(shape) => shape,
            Self::ByFormula(workload) => choose(&Workload { members, ..workload }).shape,
        }
    }
}

/// What becomes of messages that are broadcast before there is a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Early {
    /// They wait for it.
    Hold,
    /// They go to everybody who is connected, directly: delivered without view and number, and without any promise. JGroups does
    /// so.
    Direct,
}

/// How much of its own a member may have on the way to the group: it grows while a message needs no longer than the time allowed
/// until it is known to be everywhere, and shrinks when it needs longer. So links stay busy, and queues short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Never less bytes.
    pub min_bytes: u64,
    /// Never more.
    pub max_bytes: u64,
    /// The time allowed beyond what the round trips between members make necessary...
    pub slack: Duration,
    /// ...and for each member, which has to receive a frame whole before it forwards it: the time of two frames on its link, at most this.
    pub slack_per_member: Duration,
}

/// What is done about a member that holds the group up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slow {
    /// The group waits. [`Event::Slow`](crate::Event::Slow) tells.
    Wait,
    /// It is told, and the member is removed if it has taken nothing for so long while others have.
    Remove {
        /// How long.
        after: Duration,
    },
}

/// How failures are noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detection {
    /// How often a member tells everybody that it is there.
    pub heartbeat: Duration,
    /// A member that was silent for `silent_beats` heartbeats, and as long as a round trip takes at most (mean and four times
    /// the variation, as for RFC 6298) is suspected.
    pub silent_beats: u32,
    /// But never after a shorter time.
    pub timeout_min: Duration,
    /// And always after a longer one.
    pub timeout_max: Duration,
    /// A link that is down may take so long to come up again. If it cannot be dialled the member is suspected at once.
    pub link_grace: Duration,
    /// The coordinator removes a member that it hears, but that another member does not hear, after so long.
    pub verify: Duration,
}

/// How views come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Nodes without a view wait so long for each other before they form one.
    pub form_after: Duration,
    /// A node that does not reach all of its seeds waits so long.
    pub join_timeout: Duration,
    /// The coordinator waits so long for more newcomers after the first one.
    pub merge_after: Duration,
    /// How long a member may take to answer a proposal.
    pub flush_timeout: Duration,
    /// How long a member may take to get what it lacks of the old view.
    pub repair_timeout: Duration,
    /// How often a node is dialled that is not connected. After a failed dial of a node that was never connected, or a minute of
    /// them of any other node, the wait doubles, up to 16 times.
    pub redial: Duration,
    /// How long a node is dialled that was a member and is no seed.
    pub forget_after: Duration,
    /// A node that does not answer a proposal is not asked again sooner; then twice as long, up to 64 times.
    pub ask_again_after: Duration,
    /// A member that was removed because another one does not reach it is not taken back sooner.
    pub unreachable_for: Duration,
    /// A member that was removed for slowness is not taken back sooner.
    pub ban: Duration,
}

impl Membership {
    /// After so long, a view change will not come to an end by itself.
    pub(crate) fn flush_patience(&self) -> Duration {
        2 * self.flush_timeout + self.repair_timeout
    }
}

impl Config {
    /// The lane of everything but messages.
    pub const CONTROL: Lane = Lane(0);
    /// The lane of messages, and of the acknowledgements that must not overtake them.
    pub const DATA: Lane = Lane(1);

    /// The outbox that a node with this configuration needs.
    pub fn outbox(&self) -> OutboxConfig {
        let lane = |name, priority, copies, bytes| LaneConfig {
            name,
            priority,
            capacity_copies: copies,
            capacity_bytes: bytes,
            overflow: Overflow::Block,
            // Nothing is ever held back: every frame has one receiver.
            patience: Duration::ZERO,
        };
        // A frame can be one unit longer than the batch, and the last one may begin when the window is all but full.
        let data = self.hop_window_bytes + 2 * (self.batch_bytes + self.chunk_bytes) as u64 + (1 << 20);
        OutboxConfig {
            dispatch: Dispatch::PerLink,
            lanes: vec![lane("control", 0, 4_096, 16 << 20), lane("data", 1, usize::MAX, data)],
        }
    }

    /// How much may be on the way to a successor for which so much would do.
    pub(crate) fn hop_window(&self, wanted: u64) -> u64 {
        let least = self.hop_window_bytes / 4;
        let frame = (self.batch_bytes + self.chunk_bytes) as u64;
        wanted.clamp(least.max(frame).min(self.hop_window_bytes), self.hop_window_bytes)
    }

    /// What a member of a view of so many may have on the way.
    pub(crate) fn window_max(&self, members: usize) -> u64 {
        let share = self.memory_bytes / members.max(1) as u64;
        self.window.max_bytes.min(share).max(self.window.min_bytes)
    }
}
