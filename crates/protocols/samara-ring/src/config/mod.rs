//! Configuration of a member.

use std::fmt;
use std::time::Duration;

use samara_engine::PeerIdentity;
pub use samara_engine::config::ConfigError;
use samara_engine::config::check;
use samara_engine::outbox::{Dispatch, Lane, LaneConfig, OutboxConfig, Overflow};
use samara_engine::settings::{Ranges, above};
use samara_engine::shape::{Shape, Workload, choose};
#[cfg(feature = "config")]
use samara_engine::units::{Size, Span};

#[cfg(feature = "config")]
pub use parameters::{FileConfig, Parameters, key_of};

#[cfg(feature = "config")]
mod parameters;

const MIB: u64 = 1 << 20;

samara_engine::settings! {
    /// The configuration of a member. All members of a group need the same order and sizes. Start from
    /// a [`Preset`]; [`Config::default`] is [`Preset::Ring`].
    #[derive(Clone, Debug, PartialEq)]
    pub struct Config {
        /// The group of this node. It ignores nodes of other groups.
        pub group: u64,
        /// Nodes that this node keeps dialling while there is no link to them. It dials members of its
        /// view in any case.
        pub seeds: Vec<PeerIdentity>,
        /// Whether this node waits for other nodes instead of forming its first view alone.
        pub needs_others: bool,
        pub order: Order,
        /// The shape along which messages travel. The coordinator decides for the whole view.
        pub shape: ShapeChoice,
        /// Handling of messages that are broadcast before there is a view.
        pub early: Early,

        /// Longer messages travel in chunks of this size, so that forwarding begins before the last
        /// byte has arrived.
        #[range(1..=1 << 20)]
        pub chunk_bytes: usize => chunk as Size,
        /// Approximate size of a frame, which packs several units.
        #[range(1..=1 << 20)]
        pub batch_bytes: usize => batch as Size,
        #[range(1..)]
        pub message_bytes_max: usize,
        #[range(1..=1_024)]
        pub members_max: usize,

        /// Maximum number of bytes in flight to one successor. Beyond it, units wait in this member,
        /// which alternates between its own and forwarded ones. The window in use is the number of
        /// bytes that arrive in a round trip plus 50 ms, but at least a quarter of this value and at
        /// most all of it.
        pub hop_window_bytes: u64 => hop_window as Size,
        /// The window of a member's own messages: how much it may have in flight to the group.
        pub window: Window => ..,
        /// Maximum number of bytes that all members together may have in flight. Each member's window
        /// is at most its share.
        pub memory_bytes: u64 => memory as Size,
        /// Maximum number of bytes that wait to be broadcast. Beyond it, the application has to wait.
        #[range(1..)]
        pub own_queue_bytes: usize => own_queue as Size,
        /// Maximum number of bytes that wait for an application that takes no deliveries. Beyond it,
        /// the member stops acknowledging and the group has to wait.
        pub held_bytes: u64,
        /// Maximum time that acknowledgements wait for a data frame to carry them.
        pub ack_delay: Duration => ack_delay as Span,
        /// Removes a member that takes nothing for this long while others do. If absent, the group
        /// waits for it.
        pub slow: Slow => remove_slow_after as Span,

        pub detection: Detection => ..,
        pub membership: Membership,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Messages of one sender arrive in the order in which it broadcast them, without further
    /// delay.
    Fifo,
    /// All members deliver all messages in the same order, each only after all members have it:
    /// uniform total order, after LCR (Guerraoui, Levy, Pochon and Quéma, "Throughput optimal total
    /// order broadcast for cluster environments", 2010). Needs [`Shape::Ring`].
    Total,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ShapeChoice {
    Fixed(Shape),
    /// The best shape for this workload ([`choose`]). `members` comes from the view instead.
    ByFormula(Workload),
}

impl fmt::Display for ShapeChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fixed(shape) => shape.name(),
            Self::ByFormula(_) => "by formula",
        })
    }
}

impl ShapeChoice {
    pub fn shape(&self, members: usize) -> Shape {
        match *self {
            Self::Fixed(shape) => shape,
            Self::ByFormula(workload) => choose(&Workload { members, ..workload }).shape,
        }
    }
}

/// Handling of messages that are broadcast before there is a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Early {
    Hold,
    /// Sends them directly to every connected node. They are delivered without view and number, and
    /// without any guarantee. JGroups does this.
    Direct,
}

samara_engine::settings! {
    /// The window of a member's own messages: how much it may have in flight to the group. It grows
    /// while messages reach all members, and their origin learns of it, within the allowed time; it
    /// shrinks when they take longer. This keeps links busy and queues short.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Window {
        /// Lower bound of the window of a member's own messages in flight to the group.
        pub min_bytes: u64 => window_min as Size,
        /// Upper bound of the window of a member's own messages in flight to the group.
        pub max_bytes: u64 => window_max as Size,
        /// Allowed time beyond the round trips between members.
        pub slack: Duration,
        /// Additional allowed time for each member, because each receives a whole frame before it
        /// forwards it. It is the time of two frames on the member's link, but at most this.
        pub slack_per_member: Duration,
    }
}

/// Handling of a member that holds the group up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slow {
    /// The group waits. [`Event::Slow`](crate::Event::Slow) reports the member.
    Wait,
    /// Reports the member, and removes it if it takes nothing for this long while others do.
    Remove { after: Duration },
}

samara_engine::settings! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Detection {
        /// Interval at which a member sends a heartbeat to every connected node.
        #[range(above(Duration::ZERO))]
        pub heartbeat: Duration => heartbeat as Span,
        /// A member is suspected after a silence of `silent_beats` heartbeats plus the longest expected
        /// round trip (mean plus four times the variation, as in RFC 6298).
        pub silent_beats: u32,
        /// Minimum silence after which a member is suspected.
        pub timeout_min: Duration => suspect_after as Span,
        /// Upper bound of that silence.
        pub timeout_max: Duration,
        /// Time that a broken link has to come up again. If dialling fails, the member is suspected at
        /// once.
        pub link_grace: Duration,
        /// Time after which the coordinator removes a member that it hears but another member does not.
        pub verify: Duration,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Time for which nodes without a view wait for each other before they form one.
    pub form_after: Duration,
    /// Time for which a node waits if it does not reach all of its seeds.
    pub join_timeout: Duration,
    /// Time for which the coordinator waits for more newcomers after the first one.
    pub merge_after: Duration,
    /// Maximum time for a member to answer a proposal.
    pub flush_timeout: Duration,
    /// Maximum time for a member to receive the missing units of the old view.
    pub repair_timeout: Duration,
    /// Interval between two dials of a node that is not connected. It doubles after each failed
    /// dial, up to 16 times the interval; for nodes that were connected before, and for seeds, only
    /// after a minute of failed dials.
    pub redial: Duration,
    /// Time for which this node keeps dialling a former member that is not a seed.
    pub forget_after: Duration,
    /// Minimum time before this node asks a node again that did not answer a proposal. It doubles
    /// with each further proposal without an answer, up to 64 times this value.
    pub ask_again_after: Duration,
    /// Minimum time before a member returns that was removed because another one does not reach it.
    pub unreachable_for: Duration,
    /// Minimum time before a member returns that was removed for slowness.
    pub ban: Duration,
}

impl Membership {
    /// Time after which a view change is stuck.
    pub(crate) fn flush_patience(&self) -> Duration {
        2 * self.flush_timeout + self.repair_timeout
    }
}

impl Config {
    /// The lane of everything except messages.
    pub const CONTROL: Lane = Lane(0);
    /// The lane of messages, and of the acknowledgements that must not overtake them.
    pub const DATA: Lane = Lane(1);

    pub fn outbox(&self) -> OutboxConfig {
        let lane = |name, priority, copies, bytes| LaneConfig {
            name,
            priority,
            capacity: samara_engine::outbox::LaneCapacity { copies, bytes, overflow: Overflow::Block },
            // No copy waits for a better moment: every frame has one receiver.
            patience: Duration::ZERO,
        };
        // A frame can be one unit longer than the batch, and the last frame may begin when the
        // window is almost full.
        let data = self.hop_window_bytes + 2 * (self.batch_bytes + self.chunk_bytes) as u64 + (1 << 20);
        OutboxConfig {
            dispatch: Dispatch::PerLink,
            lanes: vec![lane("control", 0, 4_096, 16 << 20), lane("data", 1, usize::MAX, data)],
        }
    }

    /// Returns the window to a successor, given the number of bytes that would suffice.
    pub(crate) fn hop_window(&self, wanted: u64) -> u64 {
        let least = self.hop_window_bytes / 4;
        let frame = (self.batch_bytes + self.chunk_bytes) as u64;
        wanted.clamp(least.max(frame).min(self.hop_window_bytes), self.hop_window_bytes)
    }

    /// Returns the largest window of a member in a view of this many members.
    pub fn window_max(&self, members: usize) -> u64 {
        let share = self.memory_bytes / members.max(1) as u64;
        self.window.max_bytes.min(share).max(self.window.min_bytes)
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        self.check_ranges()?;
        let ring = matches!(self.shape, ShapeChoice::Fixed(Shape::Ring));
        // Only the ring keeps the order of all its messages, so that a member knows when no smaller
        // one can still come.
        check(self.order == Order::Fifo || ring, "shape", self.shape.to_string(), "ring, for total order")?;
        let (chunk, batch) = (self.chunk_bytes, self.batch_bytes);
        let hop = self.hop_window_bytes;
        check(hop >= (batch + chunk) as u64, "hop_window_bytes", hop, "at least a batch and a chunk")?;
        let window = &self.window;
        let possible = (chunk as u64) <= window.min_bytes && window.min_bytes <= window.max_bytes;
        check(possible, "window", window, "chunk_bytes <= min_bytes <= max_bytes")?;
        let detection = &self.detection;
        let ordered =
            detection.heartbeat < detection.timeout_min && detection.timeout_min <= detection.timeout_max;
        check(ordered, "detection", detection, "heartbeat < timeout_min <= timeout_max")
    }
}

samara_engine::names! {
    /// Named configurations.
    #[derive(Default)]
    #[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
    #[cfg_attr(feature = "config", serde(rename_all = "kebab-case"), schemars(rename = "RingPreset"))]
    pub enum Preset {
        /// The ring, FIFO for each sender.
        #[default]
        Ring = "ring",
        /// The ring in uniform total order.
        RingTotal = "ring-total",
        /// Each origin sends each of its messages directly to every other member: N-1 times.
        Direct = "direct",
        /// A plain daisy chain, without membership and recovery.
        Daisychain = "daisychain",
    }
}

impl Preset {
    /// Returns the configuration, or `None` for the plain daisy chain, which is a separate engine
    /// ([`daisychain`](crate::daisychain)).
    pub fn config(self) -> Option<Config> {
        let fifo = Config::default();
        match self {
            Self::Ring => Some(fifo),
            // Delivery waits for acknowledgements, so acknowledgements wait for nothing.
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
            needs_others: false,
            order: Order::Fifo,
            shape: ShapeChoice::Fixed(Shape::Ring),
            early: Early::Hold,
            chunk_bytes: 64 << 10,
            batch_bytes: 64 << 10,
            message_bytes_max: 64 << 20,
            members_max: 256,
            // The bandwidth of 1 Gbit/s times 16 ms. A shaped link of 100 Mbit/s never queues as
            // much.
            hop_window_bytes: 2 * MIB,
            // At most twice what MFC of JGroups grants each sender (`max_credits` 2 MB in tcp.xml):
            // a message needs one lap to reach all members, and a second one to be known to have.
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
