//! A round: who takes part, how far it is, and how it can end.

use samara_engine::Shape;
use thiserror::Error;

samara_engine::names! {
    /// How slots travel between the nodes of a team.
    #[cfg_attr(
        feature = "config",
        derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema),
        serde(rename_all = "kebab-case")
    )]
    pub enum Transfer {
        /// Each piece leaves as soon as it is worked on (`StreamPostPhase` of the original, since October 2019).
        Streamed = "streamed",
        /// All slots of a phase in one frame, once the last one is worked on (`PostPhase`).
        Unary = "unary",
    }
}

/// A round as the scheduler makes it. All nodes of the team know the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Its number: larger than those of all earlier ones.
    pub round: u64,
    /// The nodes, in order, by their numbers in the pool.
    pub team: Vec<u32>,
    pub batch: u32,
    /// Slots that are worked on, and sent, together: in the precomputation.
    pub precomputation_slots: u32,
    /// The same in real time.
    pub realtime_slots: u32,
    pub transfer: Transfer,
    /// How results get from the last node to all the others.
    pub shape: Shape,
}

impl Plan {
    /// The seat of a node, if it is in the team.
    pub fn seat_of(&self, node: u32) -> Option<u16> {
        self.team.iter().position(|member| *member == node).map(|seat| seat as u16)
    }

    /// The seats that a seat passes a piece of the result on to.
    pub(crate) fn children(&self, seat: u16, first: u32) -> impl Iterator<Item = u16> {
        let members = self.team.len();
        let piece = u64::from(first / self.realtime_slots);
        self.shape.children(members, (members - 1) as u16, seat, piece).into_iter()
    }
}

samara_engine::names! {
    /// A phase of a round. In each, slots pass all nodes of the team, from the first to the last one.
    pub enum Phase {
        /// Precomputation: each node multiplies its `R` and `U` into encrypted keys.
        PrecomputeDecrypt = "precompute_decrypt",
        /// Precomputation: each node permutes, and multiplies its `S` and `V` into them.
        PrecomputePermute = "precompute_permute",
        /// Precomputation: each node takes its share of the key off; the last one strips the keys and keeps what is left.
        Reveal = "reveal",
        /// Real time: each node replaces its key with a sender by its `R` and `U`.
        Decrypt = "decrypt",
        /// Real time: each node permutes, and multiplies by its `S` and `V`; the last one identifies the payloads.
        Permute = "permute",
        /// The last node sends all payloads to everybody.
        Result = "result",
    }
}

/// When slots of a phase may leave a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gate {
    /// Each as soon as it is ready.
    SlotWise,
    /// None before all have come: a permutation that begins earlier tells what it permutes.
    Barrier,
}

/// The half of a round that a phase belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Half {
    /// Work that somebody waits for: goes first, on the CPU and on the wire.
    RealTime,
    Precomputation,
}

impl Phase {
    /// When its slots may leave a node.
    pub const fn gate(self) -> Gate {
        match self {
            Self::PrecomputePermute | Self::Permute => Gate::Barrier,
            Self::PrecomputeDecrypt | Self::Reveal | Self::Decrypt | Self::Result => Gate::SlotWise,
        }
    }

    pub const fn half(self) -> Half {
        match self {
            Self::PrecomputeDecrypt | Self::PrecomputePermute | Self::Reveal => Half::Precomputation,
            Self::Decrypt | Self::Permute | Self::Result => Half::RealTime,
        }
    }

    /// What slots go through after it: at the first node again, but for results. `None` ends the precomputation, or the round.
    pub const fn next(self) -> Option<Self> {
        match self {
            Self::PrecomputeDecrypt => Some(Self::PrecomputePermute),
            Self::PrecomputePermute => Some(Self::Reveal),
            Self::Decrypt => Some(Self::Permute),
            Self::Permute => Some(Self::Result),
            Self::Reveal | Self::Result => None,
        }
    }

    /// Elements of a slot as it comes to a node.
    pub const fn elements(self) -> usize {
        match self {
            // Keys and ciphertexts of both payloads.
            Self::PrecomputeDecrypt | Self::PrecomputePermute => 4,
            Self::Reveal | Self::Decrypt | Self::Permute | Self::Result => 2,
        }
    }
}

samara_engine::names! {
    /// How far a node is with a round.
    ///
    /// The original's node is in one such state as a whole, because it works on one round at a time; here each round has its own. The
    /// original's `NOT_STARTED` and `CRASH` are about the process, and have no round.
    pub enum NodeState {
        /// It knows of the round, and draws its secrets.
        Waiting = "waiting",
        /// Keys are shared, and the precomputation is under way.
        Precomputing = "precomputing",
        /// Its part of the precomputation is done.
        Standby = "standby",
        Realtime = "realtime",
        /// It has all payloads.
        Completed = "completed",
        Error = "error",
    }
}

impl NodeState {
    /// Whether one state can follow another: they come in order, none is left out, and all but the last can fail.
    pub const fn can_become(self, next: Self) -> bool {
        match (self, next) {
            (Self::Completed | Self::Error, _) => false,
            (_, Self::Error) => true,
            _ => next as u8 == self as u8 + 1,
        }
    }
}

samara_engine::names! {
    /// How far a round is, as the scheduler sees it.
    pub enum RoundState {
        /// The team was told.
        Pending = "pending",
        /// All nodes of the team have begun.
        Precomputing = "precomputing",
        /// All nodes have finished the precomputation.
        Standby = "standby",
        /// The first node may take a batch.
        Queued = "queued",
        Realtime = "realtime",
        /// All nodes have all payloads; those that were lost meanwhile do not count.
        Completed = "completed",
        Failed = "failed",
    }
}

samara_engine::names! {
    /// Why a round failed. A failed round is dropped and never resumed; senders seal their payloads again for another one.
    #[derive(Error)]
    pub enum Cause {
        /// A node was not connected for longer than the limit.
        #[error("a node is lost")]
        PeerLost = "peer_lost",
        /// A half of the round took too long, or no batch came.
        #[error("it took too long")]
        Timeout = "timeout",
        #[error("the nodes have different keys")]
        KeyMismatch = "key_mismatch",
        /// A node sent a number that is no element of the group.
        #[error("a number that is no element of the group")]
        BadElement = "bad_element",
        /// A node forgot the round: it has started anew.
        #[error("a node has started anew")]
        Restarted = "restarted",
        #[error("a node refuses the plan")]
        Refused = "refused",
        /// A node, or the scheduler, does not know the round.
        #[error("the round is not known")]
        Unknown = "unknown",
    }
}

/// Why a round failed, and who is to blame for it in the eyes of whoever says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    pub cause: Cause,
    pub culprit: Option<u32>,
}

impl Failure {
    pub const fn of(cause: Cause) -> Self {
        Self { cause, culprit: None }
    }

    /// This node's fault.
    pub const fn by(cause: Cause, node: u32) -> Self {
        Self { cause, culprit: Some(node) }
    }
}
