//! What is counted, and what can go wrong with a connection.

use std::collections::BTreeMap;

use samara_engine::outbox;
use samara_ring::Metrics;

/// Why there is no link, or not any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Closed {
    /// The node could not be reached.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// A name that is no address: it cannot be dialled.
    #[error("its name is not an address")]
    NoAddress,
    /// It is not what a member says first.
    #[error("the handshake failed: {0}")]
    Handshake(String),
    /// Too slow to answer.
    #[error("dialling or the handshake took too long")]
    HandshakeTimeout,
    /// A member of another group.
    #[error("it belongs to another group")]
    OtherGroup,
    /// Another member than the one that was dialled, or this one itself.
    #[error("another member is there: {0}")]
    OtherNode(std::net::SocketAddr),
    /// A frame that is longer than any can be.
    #[error("a frame of {found} bytes, at most {max} are allowed")]
    FrameTooLong {
        /// Its length.
        found: usize,
        /// What is allowed.
        max: usize,
    },
    /// Something that is no frame.
    #[error("a frame that cannot be read: {0}")]
    Malformed(String),
    /// Nothing has come for too long: members send heartbeats.
    #[error("nothing came for too long")]
    Idle,
    /// It hung up, or the network did.
    #[error("the connection ended: {0}")]
    Ended(String),
    /// There is a better connection to the same node.
    #[error("there is another connection to it")]
    Duplicate,
    /// There are as many connections, or dials under way, as there may be.
    #[error("there are as many as there may be")]
    Full,
    /// This node wanted it so.
    #[error("this node closed it")]
    Here,
}

impl Closed {
    /// What metrics call it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::NoAddress => "no_address",
            Self::Handshake(_) => "handshake",
            Self::HandshakeTimeout => "handshake_timeout",
            Self::OtherGroup => "other_group",
            Self::OtherNode(_) => "other_node",
            Self::FrameTooLong { .. } => "frame_too_long",
            Self::Malformed(_) => "malformed",
            Self::Idle => "idle",
            Self::Ended(_) => "ended",
            Self::Duplicate => "duplicate",
            Self::Full => "full",
            Self::Here => "here",
        }
    }

    /// All names.
    pub const NAMES: [&'static str; 13] = [
        "unreachable",
        "no_address",
        "handshake",
        "handshake_timeout",
        "other_group",
        "other_node",
        "frame_too_long",
        "malformed",
        "idle",
        "ended",
        "duplicate",
        "full",
        "here",
    ];
}

/// What a member's transport counts, all since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Links that came up.
    pub links: u64,
    /// Connections that came to nothing and links that went down, by cause ([`Closed::name`]).
    pub closed: BTreeMap<&'static str, u64>,
    /// Bytes that sockets have taken, with the lengths in front of frames.
    pub bytes_up: u64,
    /// The same for those that came.
    pub bytes_down: u64,
    /// Frames that were handed to links.
    pub frames_up: u64,
    /// Frames that came.
    pub frames_down: u64,
    /// Copies that were owed to nodes whose link went down.
    pub lost_copies: u64,
    /// How often the group had to wait because deliveries were not taken.
    pub pauses: u64,
}

/// How a member stands.
#[derive(Clone, Debug)]
pub struct Status {
    /// What the protocol has counted.
    pub ring: Metrics,
    /// What the transport has counted.
    pub transport: Counters,
    /// What became of copies, by lane.
    pub lanes: Vec<(&'static str, outbox::Counters)>,
    /// Nodes with a link.
    pub links: usize,
    /// Bytes of own messages that wait to be broadcast.
    pub queued_bytes: usize,
    /// Bytes of its own that the member may have on the way at present.
    pub window_bytes: u64,
    /// Bytes of messages that are kept until all members have them.
    pub kept_bytes: u64,
    /// Bytes of deliveries that the application has not taken yet.
    pub waiting_bytes: usize,
}
