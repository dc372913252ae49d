//! Everything about a member that can be chosen.

use std::fmt::Debug;
use std::time::Duration;

use samara_engine::PeerIdentity;
use samara_engine::outbox::{Dispatch, Lane, LaneConfig, OutboxConfig, Overflow};
use samara_engine::shape::{Shape, Workload, choose};
use thiserror::Error;

#[cfg(feature = "config")]
pub use parameters::Parameters;

#[cfg(feature = "config")]
mod parameters;

const MIB: u64 = 1 << 20;

/// How a member behaves. All members of a group need the same order and sizes; start from a [`Preset`], of which
/// [`Config::default`] is [`Preset::Ring`].
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
            capacity: samara_engine::outbox::LaneCapacity { copies, bytes, overflow: Overflow::Block },
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

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        let ring = matches!(self.shape, ShapeChoice::Fixed(Shape::Ring));
        // That nothing smaller is still to come is known only because the ring keeps the order of all its messages.
        check(self.order == Order::Fifo || ring, "shape", self.shape, "the ring, for total order")?;
        let chunk = self.chunk_bytes;
        check((1..=1 << 20).contains(&chunk), "chunk_bytes", chunk, "1 to 1 MiB")?;
        let batch = self.batch_bytes;
        check((1..=1 << 20).contains(&batch), "batch_bytes", batch, "1 to 1 MiB")?;
        check((1..=1_024).contains(&self.members_max), "members_max", self.members_max, "1 to 1024")?;
        check(self.message_bytes_max > 0, "message_bytes_max", 0, "at least 1")?;
        let hop = self.hop_window_bytes;
        check(hop >= (batch + chunk) as u64, "hop_window_bytes", hop, "at least a batch and a chunk")?;
        let window = &self.window;
        let possible = (chunk as u64) <= window.min_bytes && window.min_bytes <= window.max_bytes;
        check(possible, "window", window, "chunk_bytes <= min_bytes <= max_bytes")?;
        check(self.own_queue_bytes > 0, "own_queue_bytes", 0, "at least 1")?;
        let detection = &self.detection;
        check(!detection.heartbeat.is_zero(), "detection.heartbeat", detection.heartbeat, "more than zero")?;
        let ordered =
            detection.heartbeat < detection.timeout_min && detection.timeout_min <= detection.timeout_max;
        check(ordered, "detection", detection, "heartbeat < timeout_min <= timeout_max")
    }
}

/// Configurations with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "config", serde(rename_all = "kebab-case"), schemars(rename = "RingPreset"))]
pub enum Preset {
    /// The ring, FIFO for each sender.
    #[default]
    Ring,
    /// The ring in uniform total order.
    RingTotal,
    /// Each message to everybody by its origin, N-1 times.
    Direct,
    /// A plain daisy chain, without membership and recovery.
    Daisychain,
}

impl Preset {
    /// Those with a [`Config`].
    pub const ALL: [Self; 3] = [Self::Ring, Self::RingTotal, Self::Direct];

    /// The name in options and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::RingTotal => "ring-total",
            Self::Direct => "direct",
            Self::Daisychain => "daisychain",
        }
    }

    /// The preset of [`ALL`](Self::ALL) with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name() == name)
    }

    /// The configuration; `None` for the plain daisy chain, which is an [engine of its own](crate::daisychain).
    pub fn config(self) -> Option<Config> {
        let fifo = Config::default();
        match self {
            Self::Ring => Some(fifo),
            // Nothing is delivered before it is acknowledged: acknowledgements wait for nothing.
            Self::RingTotal => Some(Config { order: Order::Total, ack_delay: Duration::ZERO, ..fifo }),
            Self::Direct => Some(Config { shape: ShapeChoice::Fixed(Shape::Direct), ..fifo }),
            Self::Daisychain => None,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            group: 0,
            seeds: Vec::new(),
            order: Order::Fifo,
            shape: ShapeChoice::Fixed(Shape::Ring),
            early: Early::Hold,
            chunk_bytes: 64 << 10,
            batch_bytes: 64 << 10,
            message_bytes_max: 64 << 20,
            members_max: 256,
            // The bandwidth of 1 Gbit/s times 16 ms; more than a shaped link of 100 Mbit/s ever queues.
            hop_window_bytes: 2 * MIB,
            // At most twice what MFC of JGroups grants each sender (`max_credits` 2 MB in tcp.xml): a message is everywhere after one
            // lap, and known to be so after two.
            window: Window {
                min_bytes: 256 << 10,
                max_bytes: 4 * MIB,
                slack: Duration::from_millis(100),
                slack_per_member: Duration::from_millis(8),
            },
            memory_bytes: 128 * MIB,
            own_queue_bytes: 4 << 20,
            held_bytes: 4 * MIB,
            ack_delay: Duration::from_millis(1),
            slow: Slow::Wait,
            detection: Detection {
                heartbeat: Duration::from_millis(100),
                silent_beats: 3,
                timeout_min: Duration::from_millis(500),
                timeout_max: Duration::from_secs(4),
                link_grace: Duration::from_millis(200),
                verify: Duration::from_millis(300),
            },
            membership: Membership {
                form_after: Duration::from_millis(300),
                join_timeout: Duration::from_secs(1),
                merge_after: Duration::from_millis(200),
                flush_timeout: Duration::from_millis(600),
                repair_timeout: Duration::from_secs(5),
                redial: Duration::from_millis(500),
                forget_after: Duration::from_secs(600),
                ask_again_after: Duration::from_secs(1),
                unreachable_for: Duration::from_secs(3),
                ban: Duration::from_secs(30),
            },
        }
    }
}

/// A value that is not possible.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field}: found {found}, expected {expected}")]
pub struct ConfigError {
    /// Which one.
    pub field: &'static str,
    /// What it is.
    pub found: String,
    /// What it can be.
    pub expected: &'static str,
}

pub(crate) fn check(
    holds: bool,
    field: &'static str,
    found: impl Debug,
    expected: &'static str,
) -> Result<(), ConfigError> {
    if holds {
        return Ok(());
    }
    Err(ConfigError { field, found: format!("{found:?}"), expected })
}
