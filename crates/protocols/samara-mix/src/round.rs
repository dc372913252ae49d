//! A round: its participants, its progress, and its possible ends.

use samara_engine::Shape;
use thiserror::Error;

samara_engine::names! {
    /// The transfer of slots between the nodes of a team.
    #[cfg_attr(
        feature = "config",
        derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema),
        serde(rename_all = "kebab-case")
    )]
    pub enum Transfer {
        /// Each piece leaves as soon as it is processed (`StreamPostPhase` of the original, since
        /// October 2019).
        Streamed = "streamed",
        /// All slots of a phase leave in one frame, once the last one is processed (`PostPhase`).
        Unary = "unary",
    }
}

/// A round as the scheduler defines it. All nodes of the team have the same plan.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize))]
pub struct Plan {
    /// The number of the round, higher than those of all earlier ones.
    pub round: u64,
    /// The nodes by their numbers in the pool, in the order of their seats.
    pub team: Vec<u32>,
    /// The incarnation of each node that the round was made with, by seat. Empty if the scheduler
    /// has seen one incarnation of each node only.
    pub incarnations: Vec<u64>,
    pub batch: u32,
    /// Slots that a node processes and sends together in the precomputation.
    pub precomputation_slots: u32,
    /// Slots that a node processes and sends together in real time.
    pub realtime_slots: u32,
    pub transfer: Transfer,
    /// The shape along which results travel from the last node to all the others.
    pub shape: Shape,
}

impl Plan {
    /// Returns the seat of a node, if it is in the team.
    pub fn seat_of(&self, node: u32) -> Option<u16> {
        self.team.iter().position(|member| *member == node).map(|seat| seat as u16)
    }

    /// Returns the incarnation of a node that the round was made with. `None` if the node is not in
    /// the team, or if the round was made with the first incarnation of each node.
    pub(crate) fn incarnation_of(&self, node: u32) -> Option<u64> {
        self.incarnations.get(usize::from(self.seat_of(node)?)).copied()
    }

    /// Returns the seats to which a seat forwards a piece of the result.
    pub(crate) fn children(&self, seat: u16, first: u32) -> impl Iterator<Item = u16> {
        let members = self.team.len();
        let piece = u64::from(first / self.realtime_slots);
        self.shape.children(members, (members - 1) as u16, seat, piece).into_iter()
    }
}

samara_engine::names! {
    /// A phase of a round. In each phase, slots pass through all nodes of the team, from the first
    /// to the last.
    #[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize))]
    #[cfg_attr(feature = "config", serde(rename_all = "snake_case"))]
    pub enum Phase {
        /// Precomputation: each node multiplies its `R` and `U` into encrypted keys.
        PrecomputeDecrypt = "precompute_decrypt",
        /// Precomputation: each node permutes, and multiplies its `S` and `V` into them.
        PrecomputePermute = "precompute_permute",
        /// Precomputation: each node removes its share of the key; the last one divides out the
        /// keys and keeps the rest.
        Reveal = "reveal",
        /// Real time: each node replaces its key with a sender by its `R` and `U`.
        Decrypt = "decrypt",
        /// Real time: each node permutes, and multiplies by its `S` and `V`; the last one
        /// identifies the payloads.
        Permute = "permute",
        /// The last node sends all payloads to all the others.
        Result = "result",
    }
}

/// The time at which slots of a phase may leave a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gate {
    /// Each slot as soon as it is ready.
    SlotWise,
    /// No slot before all have arrived: an earlier start would reveal part of the permutation.
    Barrier,
}

/// The half of a round that a phase belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Half {
    /// Work that senders wait for. It goes first, on the CPU and on the wire.
    RealTime,
    Precomputation,
}

impl Phase {
    /// Returns the gate for the slots of this phase.
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

    /// Returns the phase that follows, which starts at the first node unless it is
    /// [`Phase::Result`]. `None` ends the precomputation, or the round.
    pub const fn next(self) -> Option<Self> {
        match self {
            Self::PrecomputeDecrypt => Some(Self::PrecomputePermute),
            Self::PrecomputePermute => Some(Self::Reveal),
            Self::Decrypt => Some(Self::Permute),
            Self::Permute => Some(Self::Result),
            Self::Reveal | Self::Result => None,
        }
    }

    /// Returns the number of elements in a slot that arrives at a node.
    pub const fn elements(self) -> usize {
        match self {
            // Keys and ciphertexts of both payloads.
            Self::PrecomputeDecrypt | Self::PrecomputePermute => 4,
            Self::Reveal | Self::Decrypt | Self::Permute | Self::Result => 2,
        }
    }
}

samara_engine::names! {
    /// The progress of a node in a round.
    ///
    /// A node of the original has one such state as a whole, because it works on one round at a
    /// time. Here each round has its own. The original's `NOT_STARTED` and `CRASH` describe the
    /// process, and do not apply to rounds.
    pub enum NodeState {
        /// The node knows the round, and draws its secrets.
        Waiting = "waiting",
        /// The nodes exchange keys, and the precomputation runs.
        Precomputing = "precomputing",
        /// The node's part of the precomputation is done.
        Standby = "standby",
        Realtime = "realtime",
        /// The node has all payloads.
        Completed = "completed",
        Error = "error",
    }
}

impl NodeState {
    /// Returns true if `next` can follow this state: states follow in order without gaps, and all
    /// but the last can fail.
    pub const fn can_become(self, next: Self) -> bool {
        match (self, next) {
            (Self::Completed | Self::Error, _) => false,
            (_, Self::Error) => true,
            _ => next as u8 == self as u8 + 1,
        }
    }
}

samara_engine::names! {
    /// The progress of a round, as the scheduler sees it.
    #[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize))]
    #[cfg_attr(feature = "config", serde(rename_all = "snake_case"))]
    pub enum RoundState {
        /// The scheduler has sent the plan to the team.
        Pending = "pending",
        /// All nodes of the team have begun.
        Precomputing = "precomputing",
        /// All nodes have finished the precomputation.
        Standby = "standby",
        /// The first node may accept a batch.
        Queued = "queued",
        Realtime = "realtime",
        /// All nodes have all payloads, except for nodes that were lost meanwhile.
        Completed = "completed",
        Failed = "failed",
    }
}

samara_engine::names! {
    /// The cause of a round's failure. A failed round is dropped and never resumed; senders seal
    /// their payloads again for another one.
    #[derive(Error)]
    #[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize))]
    #[cfg_attr(feature = "config", serde(rename_all = "snake_case"))]
    pub enum Cause {
        /// A node was disconnected for longer than the limit.
        #[error("a node is lost")]
        PeerLost = "peer_lost",
        /// A half of the round took too long, or no batch arrived.
        #[error("the round timed out")]
        Timeout = "timeout",
        #[error("the nodes have different keys")]
        KeyMismatch = "key_mismatch",
        /// A node sent a number that is not an element of the group.
        #[error("a node sent a number that is not an element of the group")]
        BadElement = "bad_element",
        /// A node lost the round because it restarted.
        #[error("a node restarted")]
        Restarted = "restarted",
        #[error("a node rejected the plan")]
        Refused = "refused",
        /// A node, or the scheduler, does not know the round.
        #[error("a host does not know the round")]
        Unknown = "unknown",
        /// The work of a node on the round panicked, which is a bug of the program.
        #[error("the work of a node on the round panicked")]
        Panicked = "panicked",
        /// The first node waited too long for payloads of enough different senders, or a node found
        /// valid payloads of fewer in the batch.
        #[error("too few senders had payloads for the round")]
        TooFewSenders = "too_few_senders",
    }
}

/// The cause of a round's failure, and the responsible node according to the host that reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize))]
pub struct Failure {
    pub cause: Cause,
    pub culprit: Option<u32>,
}

impl Failure {
    pub const fn of(cause: Cause) -> Self {
        Self { cause, culprit: None }
    }

    /// Returns a failure for which this node is responsible.
    pub const fn by(cause: Cause, node: u32) -> Self {
        Self { cause, culprit: Some(node) }
    }
}
