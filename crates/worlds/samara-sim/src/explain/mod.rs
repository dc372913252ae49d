//! Where the time of a delivery went: the causes, and the record of each first arrival.
//!
//! With [`AnySimulation::explain`](crate::AnySimulation::explain), every host divides the time of
//! each copy of an item into causes, from the moment when it was owed until its arrival. The sender
//! divides the time until the last byte has left. If the uplink is the host's own interface:
//!
//! - While the uplink is busy, the cause is the data that it serialises: the copy itself, copies of
//!   the same batch, other data ahead in the outbox or in the stream of the link, or other links.
//! - While the uplink is idle, the cause is the reason why the copy's link cannot send.
//!
//! If the uplink has a queue of its own, links never wait for the uplink itself:
//!
//! - In the outbox, the cause is the limit over all links while that has no room, and otherwise the
//!   reason why the copy's link cannot send.
//! - In its connection, the cause is the data of the same link that the uplink serialises, and
//!   otherwise that reason.
//! - In the queue, the cause is the queue, apart from the copy's own bytes and repairs.
//!
//! The receiver divides the rest into latency, gateways, its downlink, and losses. The parts of a
//! copy always add up to its time exactly.
//!
//! While the sender or the receiver of a hop is down, that is the cause, whatever the record says:
//! [`Arrivals::hop`] knows these times.
//!
//! The record rides with the frame ([`Carried`]), so that a retransmission has it, too. No other host
//! is consulted, and nothing changes in the simulation.

mod path;
mod recorder;
mod uplink;

use std::sync::{Arc, OnceLock};

use samara_engine::outbox::Outgoing;
use samara_engine::{Frame, MessageKey, NodeRng};
use smallvec::SmallVec;

pub use path::{Arrivals, Hop, Origin, parts_of};
pub(crate) use recorder::{Leaving, Recorder};

macro_rules! causes {
    ($($(#[doc = $doc:literal])* $name:ident = $label:literal,)*) => {
        /// The reason why a moment on the path of a delivery passed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Cause { $($(#[doc = $doc])* $name,)* }

        impl Cause {
            /// All causes, in the order of a path.
            pub const ALL: [Self; Self::COUNT] = [$(Self::$name,)*];
            /// The number of causes.
            pub const COUNT: usize = [$($label,)*].len();

            /// Returns the name of the cause in JSON.
            pub const fn label(self) -> &'static str {
                match self { $(Self::$name => $label,)* }
            }

            /// Returns the names of its columns in tables of paths: of a whole path, and of its last
            /// hop.
            pub const fn columns(self) -> [&'static str; 2] {
                match self { $(Self::$name => [concat!($label, "_ns"), concat!("hop_", $label, "_ns")],)* }
            }

            /// Returns the meaning of the cause.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),*).trim_ascii(),)* }
            }
        }
    };
}

causes! {
    /// The processor validates, computes or rebuilds before the node passes the item on.
    Processor = "processor",
    /// The node has the item but not all that belongs to it: the rest of a message, or the messages
    /// before it in an order.
    Order = "order",
    /// The receiver has asked nobody for the item yet: an announcement waits for its time, or is on its
    /// way.
    Announcement = "announcement",
    /// The receiver has asked another peer, which has not sent the item.
    Withheld = "withheld",
    /// A frame of the receiver is awaited: its request, or a credit.
    Request = "request",
    /// A timer of the protocol: a heartbeat, a round, or a copy that its schedule holds back.
    Timer = "timer",
    /// The sender or the receiver was down, or had not joined yet.
    NodeDown = "node_down",
    /// The link does not exist yet, or not any more.
    Handshake = "handshake",
    /// The copy waits in its node because the limit over all links is full, or its pacer holds bytes
    /// back.
    NodeLimit = "node_limit",
    /// The uplink sends copies of the same batch that go first.
    SameBatch = "same_batch",
    /// The uplink sends other data that go first in the outbox, or ahead on the same link.
    OtherTraffic = "other_traffic",
    /// The uplink sends data of other links, after the copy has been passed to its link.
    Interface = "interface",
    /// A channel collects data before it flushes its buffer.
    Flush = "flush",
    /// The congestion window is full, in slow start.
    SlowStart = "slow_start",
    /// The congestion window is full; it shrank because the connection was idle.
    IdleRestart = "idle_restart",
    /// The congestion window is full, in congestion avoidance.
    Avoidance = "congestion_avoidance",
    /// The congestion window is full; it grows again after a loss.
    Recovery = "recovery",
    /// The window of the receiver, a credit of HTTP/2 or a limit of the rate holds data back.
    FlowControl = "flow_control",
    /// The pacer spreads a window over a round trip.
    Pacing = "pacing",
    /// The last packet waits in the queue before the uplink, out of the node's reach: in its router.
    UplinkQueue = "uplink_queue",
    /// The uplink sends the bytes of the copy itself.
    Serialisation = "serialisation",
    /// The way of the last packet, with jitter.
    Latency = "latency",
    /// The queue and the rate of the gateways between regions.
    Gateway = "gateway",
    /// The queue and the rate of the receiver's downlink.
    Downlink = "downlink",
    /// A packet was lost: its repair, and what waits for that.
    Loss = "loss",
    /// Real nodes: the copy waits in its node until it is written to a socket, behind other copies or
    /// because its link takes no more.
    Outbox = "outbox",
    /// Real nodes: sockets, windows, links and losses between the two nodes, and the work of the
    /// receiver, without the emulated latency.
    Transport = "transport",
    /// The record does not say, for example because the copy came from outside it.
    Unknown = "unknown",
}

impl Cause {
    /// Returns the cause with a label.
    pub fn of_label(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.label() == label)
    }
}

/// Nanoseconds by cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts([u64; Cause::COUNT]);

impl Default for Parts {
    fn default() -> Self {
        Self([0; Cause::COUNT])
    }
}

impl Parts {
    /// Gives up to this many nanoseconds of some causes to another one, the first causes first. Returns
    /// the nanoseconds that they did not have.
    fn give(&mut self, from: impl IntoIterator<Item = Cause>, to: Cause, mut nanos: u64) -> u64 {
        for cause in from.into_iter().filter(|cause| *cause != to) {
            let given = nanos.min(self.get(cause));
            self.0[cause as usize] -= given;
            self.0[to as usize] += given;
            nanos -= given;
        }
        nanos
    }

    /// Adds nanoseconds to a cause.
    pub fn add(&mut self, cause: Cause, nanos: u64) {
        self.0[cause as usize] += nanos;
    }

    /// Returns the nanoseconds of a cause.
    pub const fn get(&self, cause: Cause) -> u64 {
        self.0[cause as usize]
    }

    /// Returns the sum of all causes in nanoseconds.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns the causes with a share, in the order of a path.
    pub fn iter(&self) -> impl Iterator<Item = (Cause, u64)> + '_ {
        Cause::ALL.into_iter().zip(self.0).filter(|(_, nanos)| *nanos > 0)
    }

    /// Returns the cause with the largest share; the first one in the order of a path if several
    /// have it. `None` if no time has passed.
    pub fn first(&self) -> Option<Cause> {
        self.iter().reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(cause, _)| cause)
    }
}

impl std::ops::AddAssign<&Compact> for Parts {
    fn add_assign(&mut self, parts: &Compact) {
        parts.iter().for_each(|(cause, nanos)| self.add(cause, nanos));
    }
}

/// Parts without those that are 0: eight bytes for each of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compact(Box<[u64]>);

impl Compact {
    const CAUSE_BITS: u32 = 5;

    /// Returns the causes with a share, in the order of a path.
    pub fn iter(&self) -> impl Iterator<Item = (Cause, u64)> + '_ {
        let low = (1 << Self::CAUSE_BITS) - 1;
        self.0.iter().map(move |part| (Cause::ALL[(part & low) as usize], part >> Self::CAUSE_BITS))
    }
}

impl From<&Parts> for Compact {
    fn from(parts: &Parts) -> Self {
        Self(parts.iter().map(|(cause, nanos)| nanos << Self::CAUSE_BITS | cause as u64).collect())
    }
}

/// The kind of input that an engine handled when it owed a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Trigger {
    /// The start of the node, or a command of its application.
    Command,
    /// A frame of a peer.
    Frame,
    /// A timer of the engine.
    Timer,
    /// A timer of the wrapper around the engine: the end of a computation.
    Processor,
    /// A link that came up or went down.
    Link,
}

impl Trigger {
    const ALL: [Self; 5] = [Self::Command, Self::Frame, Self::Timer, Self::Processor, Self::Link];

    pub(crate) fn of_mark(mark: u8) -> Self {
        Self::ALL.get(usize::from(mark)).copied().unwrap_or(Self::Command)
    }

    /// Returns the cause of the time between an item's arrival at a node and a copy that the node
    /// owed with this trigger.
    pub const fn cause(self) -> Cause {
        match self {
            Self::Command | Self::Processor => Cause::Processor,
            Self::Frame => Cause::Request,
            Self::Timer => Cause::Timer,
            Self::Link => Cause::Handshake,
        }
    }
}

/// Numbers of items, few of which need memory of their own.
pub type Items = SmallVec<[u64; 2]>;

/// The items in a frame, and those that it asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// The numbers of the items, which are the same at all hosts. Of a frame without items, only its
    /// requests are recorded.
    pub items: Items,
    /// The names by which requests ask for the items, in the order of the items; empty if nobody asks
    /// for them.
    pub names: Items,
    /// The names of the items that the frame asks for.
    pub asked: Items,
    /// The batch of the items: copies of one batch wait for each other.
    pub batch: Option<u64>,
}

/// Returns the items in a frame.
pub(crate) type Describe<F> = Arc<dyn Fn(&F, Option<MessageKey>) -> Contents + Send + Sync>;

/// The record of a host and the contents of frames, if the simulation records anything.
pub(crate) struct Explained<F>(Option<Box<(Recorder, Describe<F>)>>);

impl<F> Explained<F> {
    pub(crate) const OFF: Self = Self(None);

    pub(crate) fn new(recorder: Recorder, contents: Describe<F>) -> Self {
        Self(Some(Box::new((recorder, contents))))
    }

    pub(crate) const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Writes to the record, if there is one.
    pub(crate) fn note<T>(&mut self, write: impl FnOnce(&mut Recorder) -> T) -> Option<T> {
        self.0.as_mut().map(|explained| write(&mut explained.0))
    }

    /// Records a copy that is passed to its link. Returns `None` for a frame without items, and
    /// without a record.
    pub(crate) fn take(&mut self, now: u64, copy: &Outgoing<F>, rank: u64) -> Option<Arc<Trace>> {
        self.0.as_mut().and_then(|explained| explained.0.take(now, copy, rank, &explained.1))
    }
}

/// The first arrival of an item at a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The item that was sent: the item itself, unless the host has [made](Arrivals::make) it.
    pub item: u64,
    /// The host that sent the copy.
    pub from: u32,
    /// The time of the arrival, in nanoseconds.
    pub at: u64,
    /// The time since which the sender owed the copy.
    pub owed_at: u64,
    /// The reason why the sender owed it then.
    pub trigger: Trigger,
    /// The times at which the host first asked any peer for the item, and the sender. `None` if it did
    /// not ask the sender.
    pub asked: Option<Box<[u64; 2]>>,
    /// The time from `owed_at` to `at`, by cause.
    pub parts: Compact,
}

/// A frame with the record of its copy, if there is one.
#[derive(Clone, Debug)]
pub(crate) struct Carried<F> {
    pub(crate) frame: F,
    pub(crate) trace: Option<Arc<Trace>>,
}

impl<F> Carried<F> {
    pub(crate) const fn plain(frame: F) -> Self {
        Self { frame, trace: None }
    }
}

impl<F: Frame> Frame for Carried<F> {
    fn encoded_len(&self) -> usize {
        self.frame.encoded_len()
    }

    fn payload_len(&self) -> usize {
        self.frame.payload_len()
    }

    fn altered(&self, rng: &mut NodeRng) -> Option<Self> {
        self.frame.altered(rng).map(Self::plain)
    }
}

/// The record of a copy that has been passed to its link. Times in nanoseconds.
#[derive(Debug)]
pub(crate) struct Trace {
    items: Items,
    names: Items,
    batch: Option<u64>,
    owed_at: u64,
    trigger: Trigger,
    /// The first departure of the last byte. Set by the sender, read by the receiver.
    sent: OnceLock<Sent>,
}

#[derive(Debug)]
struct Sent {
    /// The number of the packet at the sender.
    order: u32,
    at: u64,
    /// The parts from the time when the copy was owed.
    parts: Compact,
}
