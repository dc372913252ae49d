//! The options, events and counters of a behaviour.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use libp2p::{Multiaddr, PeerId, StreamProtocol};
use samara_engine::MessageKey;
use samara_engine::config::{ConfigError, check};
#[cfg(doc)]
use samara_engine::outbox::LaneCapacity;
use samara_engine::outbox::{Lost, OutboxConfig, Weight};
use samara_engine::uplink::LimitConfig;
use samara_gossipsub::rpc::{Message, MessageId, RpcFrame, Topic};
use samara_gossipsub::wire::{Limits, WireError};
use samara_gossipsub::{Config, Trace};

use crate::handler::PREFIX_BYTES_MAX;
use crate::transport::Meters;

/// The offered protocols, in order of preference.
pub const PROTOCOLS: [StreamProtocol; 5] = [
    StreamProtocol::new("/meshsub/1.3.0"),
    StreamProtocol::new("/meshsub/1.2.0"),
    StreamProtocol::new("/meshsub/1.1.0"),
    StreamProtocol::new("/meshsub/1.0.0"),
    StreamProtocol::new("/floodsub/1.0.0"),
];

/// The options of a [`Behaviour`](crate::Behaviour) that do not apply to simulations.
#[derive(Clone, Debug)]
pub struct Options {
    /// The protocols to offer and accept, in order of preference.
    pub protocols: Arc<[StreamProtocol]>,
    /// Maximum number of bytes in flight from the outbox into a stream, for each link. Further
    /// copies stay in the outbox, where they can still be withdrawn and reordered. A link with
    /// nothing in flight accepts one frame of any length. With one order over all links
    /// ([`uplink`](Self::uplink)), this is for urgent frames and for connections without a meter.
    pub in_flight_bytes: usize,
    /// The limit of what the node has under way over all its links, with one order over all links
    /// ([`Dispatch::Node`](samara_engine::outbox::Dispatch::Node)). It applies to connections with
    /// a meter. `None` switches it off: [`in_flight_bytes`](Self::in_flight_bytes) bounds each link.
    pub uplink: Option<LimitConfig>,
    /// The meters of the node's transports. Pass a clone to
    /// [`transport::tcp::Transport`](crate::transport::tcp::Transport), and one to
    /// [`transport::quic::Transport`](crate::transport::quic::Transport).
    pub meters: Meters,
    /// Hard limits of received frames. `None` is for the default limits with frames of at most
    /// [`Config::max_rpc_bytes`]. [`Behaviour::new`](crate::Behaviour::new) refuses shorter ones.
    pub limits: Option<Limits>,
    /// Maximum bytes owed to one peer on each lane whose [capacity](LaneCapacity::bytes) in
    /// [`Config::sending`] is not limited in bytes. A frame of [`Config::max_rpc_bytes`] always fits into
    /// an empty lane.
    pub lane_bytes: u64,
    /// Maximum number of bytes of frames that have begun and not ended, over all peers. Beyond it,
    /// the peer with the oldest one loses its stream.
    pub unfinished_bytes: usize,
    /// Whether [`LinkEvent::Sent`] reports every copy of a message that was written.
    pub report_sent: bool,
    /// Whether events report every frame read or written, for traces.
    pub report_frames: bool,
}

impl Default for Options {
    /// Returns all protocols, and 64 KiB in flight on each link: some milliseconds at a gigabit,
    /// and four columns of 16 KiB. The limit over all links is on, and there is no meter until a
    /// transport registers one. Each lane owes at most 16 MiB to a peer: four lanes owe 64 MiB, and copies
    /// of one message share its bytes. Unfinished frames take at most 64 MiB.
    fn default() -> Self {
        Self {
            protocols: PROTOCOLS.into(),
            in_flight_bytes: 64 << 10,
            uplink: Some(LimitConfig::default()),
            meters: Meters::new(),
            limits: None,
            lane_bytes: 16 << 20,
            unfinished_bytes: 64 << 20,
            report_sent: false,
            report_frames: false,
        }
    }
}

impl Options {
    /// Returns the limits of received frames at a node with this configuration.
    pub fn limits_with(&self, config: &Config) -> Limits {
        self.limits.clone().unwrap_or_else(|| Limits::with_frame_bytes(config.max_rpc_bytes))
    }

    /// Checks what must agree with the configuration of the engine.
    pub(crate) fn check(&self, config: &Config) -> Result<(), ConfigError> {
        let (found, least) = (self.limits_with(config).frame_bytes, config.max_rpc_bytes);
        let expected = format!("at least max_rpc_bytes = {least}; None follows it");
        check(found >= least, "options.limits.frame_bytes", found, expected)
    }

    /// Returns the configuration of the outbox, with [`lane_bytes`](Self::lane_bytes).
    pub(crate) fn outbox_config(&self, config: &Config) -> OutboxConfig {
        let mut outbox = config.outbox_config();
        let longest = (config.max_rpc_bytes + PREFIX_BYTES_MAX) as u64;
        for lane in outbox.lanes.iter_mut().filter(|lane| lane.capacity.bytes == u64::MAX) {
            lane.capacity.bytes = self.lane_bytes.max(longest);
        }
        outbox
    }
}

/// The reason why a stream of a peer was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A frame violates the wire format.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A frame did not arrive within 10 s and the time of its length at 100 kB/s.
    #[error(
        "{bytes} bytes of a frame arrived in {after:.1?}; expected the frame after 10 s, and 10 s more for each megabyte"
    )]
    TooSlow {
        /// The bytes in memory.
        bytes: usize,
        /// The announced length, once it has arrived.
        len: Option<usize>,
        /// The time since the frame began.
        after: Duration,
    },
    /// The frame was the oldest unfinished one when the unfinished frames of all peers exceeded
    /// [`Options::unfinished_bytes`].
    #[error(
        "unfinished frames of all peers take too much memory, and this one, of {bytes} bytes so far, is the oldest"
    )]
    NoRoom {
        /// The bytes in memory.
        bytes: usize,
    },
}

/// The reason why a node cannot publish in the order of a schedule. Nothing was published.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// The schedule draws peers by what the transport of a peer does not measure.
    #[error(
        "the order of peers is weighted by {}, which the transport of the connection to {peer} at {address} \
         does not measure: use the transports of samara_libp2p::transport with the meters of the options (TCP \
         on Linux, QUIC), or another order of peers",
        measured(*weight)
    )]
    NotMeasured {
        /// The weight of the order.
        weight: Weight,
        /// A peer that has joined a topic of the messages.
        peer: PeerId,
        /// The address of the peer.
        address: Multiaddr,
    },
    /// The schedule follows the announcements of observers, and none has a link.
    #[error(
        "the schedule follows the announcements of observers, and none of the {configured} observers of this \
         node is connected: name them by Config::observers or Behaviour::set_observers and connect to one, or \
         use the feedback of all peers"
    )]
    NotObserved {
        /// The number of observers that the node knows by name.
        configured: usize,
    },
}

/// Returns the name of what a weight is.
const fn measured(weight: Weight) -> &'static str {
    match weight {
        Weight::Score => "score",
        Weight::Latency => "latency",
        Weight::Bandwidth => "bandwidth",
    }
}

/// An event that [`Behaviour`](crate::Behaviour) reports.
#[derive(Clone, Debug)]
pub enum Event {
    /// Something happened on a link.
    Link(LinkEvent),
    /// The first copy of a message on a joined topic.
    Message {
        /// The id that the topic's function computes.
        id: MessageId,
        /// The number of the message at this node.
        key: MessageKey,
        /// The topic that the message names.
        topic: Topic,
        /// All fields of the message, as on the wire.
        message: Arc<Message>,
        /// The sender of the first copy; `None` for the node's own messages.
        from: Option<PeerId>,
    },
    /// A message awaits [`Behaviour::report_validation`](crate::Behaviour::report_validation).
    NeedsValidation {
        /// The id that the topic's function computes.
        id: MessageId,
        /// The topic that the message names.
        topic: Topic,
        /// All fields of the message, as on the wire.
        message: Arc<Message>,
        /// The sender of the first copy.
        from: PeerId,
    },
    /// A peer has mentioned a group of parts that this node does not know. An application that wants
    /// its parts calls [`Behaviour::provide`](crate::Behaviour::provide).
    Group {
        /// The topic of the group.
        topic: Topic,
        /// The id of the group.
        group: Bytes,
        /// The peer that mentioned it.
        from: PeerId,
    },
    /// Parts of a group, or its header, that await
    /// [`Behaviour::report_parts`](crate::Behaviour::report_parts).
    Parts {
        /// Names the verdict.
        ticket: u64,
        /// The topic of the group.
        topic: Topic,
        /// The id of the group.
        group: Bytes,
        /// The sender.
        from: PeerId,
        /// The header, if it is new.
        header: Option<Bytes>,
        /// The parts, with their numbers.
        parts: Vec<(u32, Bytes)>,
    },
    /// Another copy of a message (if enabled in the engine's configuration).
    Duplicate {
        /// The number of the message at this node.
        key: MessageKey,
        /// The sender of this copy.
        from: PeerId,
    },
    /// A peer joined or left a topic (if enabled in the engine's configuration).
    Subscription {
        /// The peer that joined or left.
        peer: PeerId,
        /// The topic that the peer joined or left.
        topic: Topic,
        /// True if the peer joined the topic.
        joined: bool,
    },
    /// A copy did not fit into its queue, or was dropped for another.
    Lost(Lost),
    /// A step within the protocol (if enabled in the engine's configuration).
    Trace {
        /// The step of the protocol.
        trace: Trace,
        /// The peer that the step concerns, if there is one. The peer numbers in the step may have
        /// been reused since.
        peer: Option<PeerId>,
    },
}

impl From<LinkEvent> for Event {
    fn from(event: LinkEvent) -> Self {
        Self::Link(event)
    }
}

/// An event of the links of a [`Behaviour`](crate::Behaviour) with any application.
#[derive(Clone, Debug)]
pub enum LinkEvent {
    /// The link to a peer is up: the peer speaks one of the protocols.
    Up {
        /// The remote peer.
        peer: PeerId,
        /// The first protocol negotiated on this link.
        protocol: StreamProtocol,
    },
    /// The link to a peer closed.
    Down {
        /// The remote peer.
        peer: PeerId,
        /// Number of copies owed to the peer or in flight.
        lost_copies: usize,
    },
    /// A stream broke with copies in flight, but the link stays open.
    Cut {
        /// The receiver of these copies.
        peer: PeerId,
        /// Number of copies of messages that may not have arrived.
        copies: usize,
    },
    /// A peer speaks none of the protocols.
    NotSupported {
        /// The remote peer.
        peer: PeerId,
    },
    /// A peer sent an invalid frame, and its stream was closed.
    Malformed {
        /// The remote peer.
        peer: PeerId,
        /// The fault of the frame.
        error: FrameError,
    },
    /// A connection is being closed because too many streams began on it. Both sides notice, and can
    /// connect again.
    GaveUp {
        /// The remote peer.
        peer: PeerId,
    },
    /// A copy of a message was written to the stream of a link (with
    /// [`Options::report_sent`](crate::Options::report_sent)).
    Sent {
        /// The number of the message at this node.
        key: MessageKey,
        /// The receiver of the copy.
        peer: PeerId,
        /// Number of copies of the message that left this node earlier.
        rank: u32,
    },
    /// A frame arrived (with [`Options::report_frames`](crate::Options::report_frames)). Its
    /// consequences are reported after it.
    FrameReceived {
        /// The peer that sent the frame.
        peer: PeerId,
        /// The decoded content of the frame.
        frame: RpcFrame,
    },
    /// A frame was written to the stream of a link (with
    /// [`Options::report_frames`](crate::Options::report_frames)).
    FrameSent {
        /// The receiver of the frame.
        peer: PeerId,
        /// The content of the frame before encoding.
        frame: RpcFrame,
    },
}

samara_engine::counters! {
    /// Frames and bytes over all streams since the start, as the engine counts them: without the
    /// overhead of the transports.
    #[derive(Copy, Eq)]
    pub struct Traffic {
        /// Frames written.
        pub frames_up: u64,
        /// Frames read.
        pub frames_down: u64,
        /// Bytes of payloads written, without Noise, Yamux, QUIC and TCP.
        pub payload_bytes_up: u64,
        /// All other bytes of frames written.
        pub control_bytes_up: u64,
        /// Bytes of payloads read.
        pub payload_bytes_down: u64,
        /// All other bytes of frames read.
        pub control_bytes_down: u64,
    }
}

samara_engine::counters! {
    /// The number of entries that a [`Behaviour`](crate::Behaviour) keeps, for tests of limits and for
    /// gauges. [`GossipSub::sizes`](samara_gossipsub::GossipSub::sizes) returns those of the engine.
    #[derive(Copy, Eq)]
    pub struct Sizes {
        /// Peers with a connection, whether or not they speak one of the protocols.
        pub peers: usize,
        /// Connections to these peers.
        pub connections: usize,
        /// Numbers of links: links that are up, and closed ones that may return.
        pub handles: usize,
        /// Recommended peers whose addresses are kept until they are dialled.
        pub recommended: usize,
        /// Bytes of frames in flight into streams.
        pub in_flight_bytes: usize,
        /// Bytes of frames that have begun and not ended.
        pub unfinished_bytes: usize,
        /// Events and requests that the swarm has not polled yet.
        pub actions: usize,
    }
}

/// The limit of what a node has under way over all its links.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Uplink {
    /// The most that may be under way.
    pub limit_bytes: u64,
    /// Bytes that are under way or about to be, over all links with a meter.
    pub under_way_bytes: u64,
    /// The delay that the limit sees: what the queue before the uplink adds to round trips.
    pub delay: Duration,
    /// The rate at which bytes arrived last; 0 if unknown.
    pub bytes_per_second: f64,
    /// Links whose transport has a meter.
    pub metered_links: usize,
    /// Links that the limit does not cover.
    pub other_links: usize,
}
