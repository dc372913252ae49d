//! What is counted, and what can go wrong with a connection.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use samara_engine::outbox;
use samara_mix::Metrics;

use super::gateway::GatewayStatus;

/// Why there is no link or no connection, or not any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Closed {
    /// It could not be reached.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// TLS or HTTP/2 did not come about; a certificate that is not expected, for one.
    #[error("the handshake failed: {0}")]
    Handshake(String),
    /// Too slow to answer.
    #[error("the handshake took too long")]
    HandshakeTimeout,
    /// The other side did not want the link.
    #[error("the link was refused: {0}")]
    Refused(String),
    /// Something that is no frame, or is longer than any can be.
    #[error("a frame that cannot be read: {0}")]
    Malformed(String),
    /// It hung up, or the network did, or it answers no PING any more.
    #[error("the connection ended: {0}")]
    Ended(String),
    /// There is a newer link to the same one.
    #[error("there is another link to it")]
    Duplicate,
    /// As many connections as there may be.
    #[error("there are as many as there may be")]
    Full,
    /// This one wanted it so.
    #[error("this one closed it")]
    Here,
}

impl Closed {
    /// What metrics call it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::Handshake(_) => "handshake",
            Self::HandshakeTimeout => "handshake_timeout",
            Self::Refused(_) => "refused",
            Self::Malformed(_) => "malformed",
            Self::Ended(_) => "ended",
            Self::Duplicate => "duplicate",
            Self::Full => "full",
            Self::Here => "here",
        }
    }
}

/// Counts by cause, from all tasks.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl Tally {
    pub(super) fn count(&self, cause: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(cause).or_insert(0) += 1;
    }

    pub(super) fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What the transport counts, all since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Links that came up.
    pub links: u64,
    /// Connections that came to nothing and links that went down, by cause ([`Closed::name`]).
    pub closed: BTreeMap<&'static str, u64>,
    /// Bytes of frames that were handed to HTTP/2.
    pub bytes_up: u64,
    /// Bytes of frames that came.
    pub bytes_down: u64,
    /// Frames that were handed to links.
    pub frames_up: u64,
    /// Frames that came.
    pub frames_down: u64,
    /// Of the frames up: those that were a call of their own.
    pub posts: u64,
    /// Copies that were owed to nodes whose link went down.
    pub lost_copies: u64,
    /// Events that the application did not take in time.
    pub events_lost: u64,
    /// Processor time of the work on numbers, all threads together.
    pub cpu: Duration,
}

/// A link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkStatus {
    /// Whose, by the number in the pool; the scheduler has the number after the last.
    pub node: u32,
    /// Whether this one dialled.
    pub outbound: bool,
    /// The last round trip of a ping of the engine; none as long as none was measured.
    pub round_trip: Option<Duration>,
    /// Frames that are owed.
    pub owed: usize,
    /// Their bytes.
    pub owed_bytes: u64,
    /// Bytes on their way from the outbox into HTTP/2.
    pub in_flight: u64,
    /// Bytes handed to HTTP/2 on this link.
    pub bytes_up: u64,
    /// Bytes that came by it.
    pub bytes_down: u64,
}

/// How a node or the scheduler stands.
#[derive(Clone, Debug)]
pub struct Status {
    /// What the protocol has counted.
    pub mix: Metrics,
    /// What the transport has counted.
    pub transport: Counters,
    /// What became of copies, by lane.
    pub lanes: Vec<(&'static str, outbox::Counters)>,
    /// Links that are up, by number.
    pub links: Vec<LinkStatus>,
    /// How long the last ping took around the team that this node is the first of, by the links' one-way latencies.
    pub looped: Option<Duration>,
    /// Rounds that are not over, by the name of their state.
    pub rounds: BTreeMap<&'static str, usize>,
    /// At the scheduler: the nodes of each team.
    pub teams: Vec<Vec<u32>>,
    /// Jobs that threads have.
    pub jobs_out: usize,
    /// Bytes of slots that are held for rounds.
    pub held_bytes: u64,
    /// What senders have made of it, if they can.
    pub gateway: Option<GatewayStatus>,
}
