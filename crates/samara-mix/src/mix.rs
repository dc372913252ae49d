//! A member of a network that mixes, its commands and its events.

use std::sync::Arc;
use std::time::Duration;

use samara_engine::{Engine, Input};
use thiserror::Error;

use crate::Secret;
use crate::compute::{Done, Job};
use crate::metrics::Metrics;
use crate::node::{Cx, Node};
use crate::round::{Failure, NodeState, Phase, Plan, RoundState};
use crate::scheduler::Scheduler;
use crate::sender::{Batch, Outcome, RegisterError, SenderId};
use crate::wire::MixFrame;

/// A node of the pool, or the scheduler: drivers run all hosts of a network as one type.
#[derive(Debug)]
pub enum Mix {
    Node(Box<Node>),
    Scheduler(Box<Scheduler>),
}

impl Mix {
    pub const fn metrics(&self) -> &Metrics {
        match self {
            Self::Node(node) => node.metrics(),
            Self::Scheduler(scheduler) => scheduler.metrics(),
        }
    }

    pub const fn node(&self) -> Option<&Node> {
        match self {
            Self::Node(node) => Some(node),
            Self::Scheduler(_) => None,
        }
    }

    pub const fn scheduler(&self) -> Option<&Scheduler> {
        match self {
            Self::Node(_) => None,
            Self::Scheduler(scheduler) => Some(scheduler),
        }
    }
}

impl From<Node> for Mix {
    fn from(node: Node) -> Self {
        Self::Node(Box::new(node))
    }
}

impl From<Scheduler> for Mix {
    fn from(scheduler: Scheduler) -> Self {
        Self::Scheduler(Box::new(scheduler))
    }
}

impl Engine for Mix {
    type Frame = MixFrame;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: Input<MixFrame, Command>, cx: &mut Cx<'_>) {
        match self {
            Self::Node(node) => node.handle(input, cx),
            Self::Scheduler(scheduler) => scheduler.handle(input, cx),
        }
    }
}

/// What a node can be asked for by [`Input::Command`].
#[derive(Debug)]
pub enum Command {
    /// The answer of a job that the node has asked for.
    Computed(Done),
    /// Mixes payloads: for the first node of the round's team, once [`Event::Open`] has come. [`Event::Refused`] if it cannot.
    Mix { round: u64, batch: Batch },
    /// Shares a secret with a sender from the next job on.
    Register { sender: SenderId, secret: Secret },
    /// Forgets a sender.
    Forget { sender: SenderId },
}

#[derive(Debug)]
pub enum Event {
    /// A job to be run, anywhere and at any time; [`Command::Computed`] brings the answer.
    Compute(Job),
    /// At the first node of a team: a round takes a batch of this many payloads, sealed for it.
    Open(Arc<Plan>),
    /// A batch for a round, or a sender, was not taken.
    Refused { round: Option<u64>, error: RefuseError },
    /// At the first node of a team: a batch was taken. From here on its payloads are on their way, or wait for earlier rounds;
    /// with [`Event::Delivered`] at the same node, by the same clock, they have come out.
    Entered { round: u64, slots: u32 },
    /// All payloads of a round, in the order in which they came out: the same at all nodes of the team.
    Delivered { round: u64, outcomes: Vec<Outcome> },
    /// A round has failed: nothing of it was delivered here, and nothing will be. At the scheduler: it is over.
    Failed { round: u64, failure: Failure },
    /// This node is in a new state with a round.
    State { round: u64, state: NodeState },
    /// A moment of a phase at this node.
    Mark { round: u64, phase: Phase, mark: Mark },
    /// At the first node of a team: a ping has gone around it, from node to node in the order of the team. It took the sum of the one-way
    /// latencies of all links from the first node over the others back to it; `None` if it was not back when the next one left.
    Looped { team: Vec<u32>, took: Option<Duration> },
    /// A ping was answered over a link, by a node of this number or by the scheduler, whose number follows the last one; `None` if there
    /// was no answer when the next one left.
    RoundTrip { node: u32, took: Option<Duration> },
    /// At the scheduler: a team was drawn. No nodes: there are too few.
    Drawn { team: usize, nodes: Vec<u32> },
    /// At the scheduler: a round was made. Its first [`Event::Round`] follows.
    Made { team: usize, plan: Arc<Plan> },
    /// At the scheduler: a round is in a new state.
    Round { round: u64, state: RoundState },
}

samara_engine::names! {
    /// A moment of a phase: what the original's metrics are tagged with.
    pub enum Mark {
        /// The first slots have arrived.
        FirstReceived = "first_received",
        LastReceived = "last_received",
        /// The first ones are worked on.
        FirstFinished = "first_finished",
        LastFinished = "last_finished",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RefuseError {
    /// The round is not known, is over, or has had its batch.
    #[error("the round takes no batch")]
    NotOpen,
    /// This node is not the first one of the round's team.
    #[error("another node takes the batch of this round")]
    NotFirst,
    #[error("a batch of {found} payloads, the round has {expected} slots")]
    BatchLength { found: usize, expected: u32 },
    /// Payloads were sealed for another group, or a team of another size.
    #[error("payloads were sealed for another group or a team of another size")]
    Sealed,
    #[error(transparent)]
    Register(#[from] RegisterError),
    #[error("the scheduler takes no commands")]
    Scheduler,
}
