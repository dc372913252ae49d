//! What the owner of a swarm sets, is told, and can look at.

use std::sync::Arc;

use libp2p::{PeerId, StreamProtocol};
use samara_engine::MessageKey;
use samara_engine::outbox::Lost;
use samara_gossipsub::Trace;
use samara_gossipsub::rpc::{Message, MessageId, RpcFrame, Topic};
use samara_gossipsub::wire::{Limits, WireError};

/// The protocols that are offered, the preferred one first.
pub const PROTOCOLS: [StreamProtocol; 5] = [
    StreamProtocol::new("/meshsub/1.3.0"),
    StreamProtocol::new("/meshsub/1.2.0"),
    StreamProtocol::new("/meshsub/1.1.0"),
    StreamProtocol::new("/meshsub/1.0.0"),
    StreamProtocol::new("/floodsub/1.0.0"),
];

/// Options of a [`Behaviour`](crate::Behaviour) that no simulation has.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which protocols are offered and accepted, the preferred one first.
    pub protocols: Arc<[StreamProtocol]>,
    /// Bytes that may be on their way from the outbox into a stream, for each link: beyond, copies stay in the outbox, where they can
    /// be withdrawn and their order follows what happens. A link with nothing on the way takes any one frame.
    pub in_flight_bytes: usize,
    /// Hard bounds of the frames that are read.
    pub limits: Limits,
    /// Whether [`Event::Sent`] tells of every copy of a message that was written.
    pub report_sent: bool,
    /// Whether every frame that is read or written is an event: for traces.
    pub report_frames: bool,
}

impl Default for Options {
    /// All protocols, 64 KiB in flight on each link: some milliseconds at a gigabit, and four columns of 16 KiB.
    fn default() -> Self {
        Self {
            protocols: PROTOCOLS.into(),
            in_flight_bytes: 64 << 10,
            limits: Limits::default(),
            report_sent: false,
            report_frames: false,
        }
    }
}

/// Something that [`Behaviour`](crate::Behaviour) tells.
#[derive(Clone, Debug)]
pub enum Event {
    /// A message on a joined topic, for the first time.
    Message {
        /// The id that the topic's function computes.
        id: MessageId,
        /// Its number at this node.
        key: MessageKey,
        /// The topic that the message names.
        topic: Topic,
        /// All fields of the message, as on the wire.
        message: Arc<Message>,
        /// Who sent the first copy; `None` for a message of one's own.
        from: Option<PeerId>,
    },
    /// A message waits for [`Behaviour::report_validation`](crate::Behaviour::report_validation).
    NeedsValidation {
        /// The id that the topic's function computes.
        id: MessageId,
        /// The topic that the message names.
        topic: Topic,
        /// All fields of the message, as on the wire.
        message: Arc<Message>,
        /// Who sent the first copy.
        from: PeerId,
    },
    /// A copy of a message was written to the stream of a link (with [`Options::report_sent`](crate::Options::report_sent)).
    Sent {
        /// The number of the message at this node.
        key: MessageKey,
        /// The peer that the frame is for.
        peer: PeerId,
        /// How many copies of it left this node before.
        rank: u32,
    },
    /// Another copy of a message (if the engine is configured so).
    Duplicate {
        /// Its number at this node.
        key: MessageKey,
        /// The sender of this copy.
        from: PeerId,
    },
    /// A peer speaks one of the protocols: its link is up.
    LinkUp {
        /// The remote peer.
        peer: PeerId,
        /// The first protocol that was agreed on over this link.
        protocol: StreamProtocol,
    },
    /// The link to a peer is gone.
    LinkDown {
        /// The remote peer.
        peer: PeerId,
        /// Copies that were owed to it, or on their way.
        lost_copies: usize,
    },
    /// A stream broke with copies on their way; the link goes on.
    Cut {
        /// The receiver of these copies.
        peer: PeerId,
        /// Copies of messages that may not have arrived.
        copies: usize,
    },
    /// A peer speaks none of the protocols.
    NotSupported {
        /// The remote peer.
        peer: PeerId,
    },
    /// A peer joined or left a topic (if the engine is configured so).
    Subscription {
        /// The peer that sent the subscription.
        peer: PeerId,
        /// The topic that it joined or left.
        topic: Topic,
        /// `true` if it joined.
        joined: bool,
    },
    /// A peer sent what is no frame; the stream it came on was closed.
    Malformed {
        /// The remote peer.
        peer: PeerId,
        /// What is wrong with it.
        error: WireError,
    },
    /// A copy did not fit into its queue, or made room for another.
    Lost(Lost),
    /// A change within the protocol (if the engine is configured so).
    Trace {
        /// The change.
        trace: Trace,
        /// The peer that it is about, if it is about one: the numbers of peers in it can be another's by now.
        peer: Option<PeerId>,
    },
    /// A frame came (with [`Options::report_frames`](crate::Options::report_frames)); what follows from it comes after.
    FrameReceived {
        /// The peer that sent the frame.
        peer: PeerId,
        /// Its content, decoded.
        frame: RpcFrame,
    },
    /// A frame was written to the stream of a link (likewise).
    FrameSent {
        /// The peer that the frame is for.
        peer: PeerId,
        /// Its content, before it was encoded.
        frame: RpcFrame,
    },
}

/// Frames that went over the streams of all links, in bytes with their lengths, without what the transports below add.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Payloads of messages, written.
    pub payload_up: u64,
    /// Everything else, written.
    pub control_up: u64,
    /// Payloads of messages, read.
    pub payload_down: u64,
    /// Everything else, read.
    pub control_down: u64,
}

/// How much a [`Behaviour`](crate::Behaviour) keeps, in entries: for tests of bounds and for gauges. What the engine keeps is
/// told by [`GossipSub::sizes`](samara_gossipsub::GossipSub::sizes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Peers with a connection, whether or not they speak a protocol.
    pub peers: usize,
    /// Their connections.
    pub connections: usize,
    /// Numbers of links: those that are up, and some that are gone and might come back.
    pub handles: usize,
    /// Recommended peers whose addresses are kept until they are dialled.
    pub recommended: usize,
    /// Bytes of frames that are on their way into streams.
    pub in_flight_bytes: usize,
    /// Events and requests that the swarm has not taken yet.
    pub actions: usize,
}
