//! What can go wrong with a connection.

use super::info::Incompatible;

/// How a peer broke the rules of a connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// A sealed frame that does not open.
    #[error("a sealed frame does not open")]
    Seal,
    /// A packet that is longer than any can be.
    #[error("a packet is longer than any can be")]
    PacketLength,
    /// A packet that is none.
    #[error("a packet cannot be read")]
    Packet,
    /// A packet for a channel that is not there.
    #[error("a packet is for channel {0}, which is not there")]
    UnknownChannel(i32),
    /// A message beyond the limit of its channel.
    #[error("a message on channel {channel:#04x} is longer than {longest} bytes")]
    MessageTooLong {
        /// Which channel.
        channel: u8,
        /// Its longest message.
        longest: usize,
    },
    /// A message that is no frame.
    #[error("a message on channel {channel:#04x} is no frame: {error}")]
    Frame {
        /// Which channel.
        channel: u8,
        /// What is wrong with it.
        error: String,
    },
}

/// Why there is no link, or not any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Closed {
    /// The peer could not be reached.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// The secret connection did not come about.
    #[error("the handshake failed: {0}")]
    Handshake(String),
    /// Too slow to dial, or to say who it is.
    #[error("the handshake took too long")]
    HandshakeTimeout,
    /// Nobody to talk to.
    #[error("{0}")]
    Incompatible(#[from] Incompatible),
    /// It broke the rules.
    #[error("it broke the rules: {0}")]
    Broken(#[from] Broken),
    /// No answer to a ping.
    #[error("it did not answer a ping")]
    PongTimeout,
    /// It hung up, or the network did.
    #[error("the connection ended: {0}")]
    Ended(String),
    /// There is a better connection to the same node, or as many as there may be.
    #[error("there is another connection to it")]
    Duplicate,
    /// As many connections as there may be.
    #[error("there are as many connections as there may be")]
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
            Self::Handshake(_) => "handshake",
            Self::HandshakeTimeout => "handshake_timeout",
            Self::Incompatible(_) => "incompatible",
            Self::Broken(_) => "broken",
            Self::PongTimeout => "pong_timeout",
            Self::Ended(_) => "ended",
            Self::Duplicate => "duplicate",
            Self::Full => "full",
            Self::Here => "here",
        }
    }

    /// All names.
    pub const NAMES: [&'static str; 10] = [
        "unreachable",
        "handshake",
        "handshake_timeout",
        "incompatible",
        "broken",
        "pong_timeout",
        "ended",
        "duplicate",
        "full",
        "here",
    ];
}

/// Why a node cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("{address} cannot be listened on: {error}")]
    Listen {
        /// Which.
        address: std::net::SocketAddr,
        /// Why not.
        error: std::io::Error,
    },
    /// An option is not possible.
    #[error("{0}")]
    Options(String),
    /// The system has no random numbers.
    #[error("there are no random numbers: {0}")]
    Random(getrandom::Error),
}

/// The node has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node has stopped")]
pub struct Gone;
