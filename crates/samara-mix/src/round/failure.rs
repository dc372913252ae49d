//! Why a round failed.

use thiserror::Error;

/// Why a round failed. A failed round is dropped and never resumed; senders seal their payloads again for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Error)]
pub enum Cause {
    /// A node was not connected for longer than the limit.
    #[error("a node is lost")]
    PeerLost,
    /// A half of the round took too long, or no batch came.
    #[error("it took too long")]
    Timeout,
    /// Nodes have different keys of the team.
    #[error("the nodes have different keys")]
    KeyMismatch,
    /// A node sent a number that is no element of the group.
    #[error("a number that is no element of the group")]
    BadElement,
    /// A node forgot the round: it has started anew.
    #[error("a node has started anew")]
    Restarted,
    /// A node cannot do what the plan asks for.
    #[error("a node refuses the plan")]
    Refused,
    /// A node, or the scheduler, does not know the round.
    #[error("the round is not known")]
    Unknown,
}

impl Cause {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::PeerLost,
        Self::Timeout,
        Self::KeyMismatch,
        Self::BadElement,
        Self::Restarted,
        Self::Refused,
        Self::Unknown,
    ];

    /// What reports call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PeerLost => "peer_lost",
            Self::Timeout => "timeout",
            Self::KeyMismatch => "key_mismatch",
            Self::BadElement => "bad_element",
            Self::Restarted => "restarted",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
        }
    }

    /// Its number on the wire; 0 is no failure.
    pub(crate) const fn number(self) -> u32 {
        self as u32 + 1
    }

    pub(crate) fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.number() == number)
    }
}

/// Why a round failed, and who is to blame for it in the eyes of whoever says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Why.
    pub cause: Cause,
    /// The number of a node in the pool.
    pub culprit: Option<u32>,
}

impl Failure {
    /// Nobody's fault.
    pub const fn of(cause: Cause) -> Self {
        Self { cause, culprit: None }
    }

    /// This node's fault.
    pub const fn by(cause: Cause, node: u32) -> Self {
        Self { cause, culprit: Some(node) }
    }
}
