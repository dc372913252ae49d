//! A host of a mix network, its commands and its events.

use std::sync::Arc;
use std::time::Duration;

use samara_engine::{Engine, Input, Outbox};
use thiserror::Error;

use crate::Secret;
use crate::compute::{Done, Job};
use crate::config::Config;
use crate::metrics::Metrics;
use crate::node::{Cx, Node};
use crate::round::{Failure, NodeState, Phase, Plan, RoundState};
use crate::scheduler::Scheduler;
use crate::sender::{Batch, Outcome, RegisterError, SenderId};
use crate::wire::MixFrame;

/// A node of the pool, or the scheduler, so that drivers can run all hosts of a network as one
/// type.
#[derive(Debug)]
pub enum Mix {
    Node(Box<Node>),
    Scheduler(Box<Scheduler>),
}

impl Mix {
    pub fn config(&self) -> &Config {
        match self {
            Self::Node(node) => node.config(),
            Self::Scheduler(scheduler) => scheduler.config(),
        }
    }

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

impl Mix {
    /// Registers the secret that a node shares with a sender, starting with the next job.
    ///
    /// # Errors
    /// Returns an error if the name is [`SenderId::NOBODY`], or if this is the scheduler.
    pub fn register(&mut self, sender: SenderId, secret: Secret) -> Result<(), RefuseError> {
        match self {
            Self::Node(node) => Ok(node.register(sender, secret)?),
            Self::Scheduler(_) => Err(RefuseError::Scheduler),
        }
    }
}

/// An engine that contains a node of a mix network, or its scheduler: links ask it for the plans of
/// rounds.
pub trait WithMix {
    fn mix(&self) -> &Mix;
}

impl WithMix for Mix {
    fn mix(&self) -> &Mix {
        self
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

    fn assert_invariants(&self, outbox: &Outbox<MixFrame>) {
        match self {
            Self::Node(node) => node.assert_invariants(outbox),
            Self::Scheduler(scheduler) => scheduler.assert_invariants(outbox),
        }
    }
}

/// A command to a node, sent with [`Input::Command`].
#[derive(Debug)]
pub enum Command {
    /// The result of a job that the node requested.
    Computed(Done),
    /// Mixes payloads. Send it to the first node of the round's team after [`Event::Open`]. If the
    /// node cannot mix them, [`Event::Refused`] follows.
    Mix { round: u64, batch: Batch },
    /// Registers the secret shared with a sender, starting with the next job.
    Register { sender: SenderId, secret: Secret },
    /// Removes a sender.
    Forget { sender: SenderId },
    /// Fails a round that waits for its batch at its first node: too few senders have payloads.
    Abandon { round: u64 },
}

#[derive(Debug)]
pub enum Event {
    /// A job to run anywhere and at any time. [`Command::Computed`] returns the result.
    Compute(Job),
    /// At the first node of a team: a round accepts a batch of this many payloads, sealed for it.
    Open(Arc<Plan>),
    /// The node rejected a batch for a round, or a sender.
    Refused { round: Option<u64>, error: RefuseError },
    /// At the first node of a team: it accepted a batch. From now on the payloads are in real time,
    /// or wait for earlier rounds. [`Event::Delivered`] at the same node, by the same clock, marks
    /// their exit.
    Entered { round: u64, slots: u32 },
    /// All payloads of a round in their new order, which is the same at all nodes of the team.
    Delivered { round: u64, outcomes: Vec<Outcome> },
    /// A round has failed: none of its payloads were or will be delivered here. At the scheduler:
    /// it is over.
    Failed { round: u64, failure: Failure },
    /// A round is in a new state at this node.
    State { round: u64, state: NodeState },
    /// A milestone of a phase at this node.
    Mark { round: u64, phase: Phase, mark: Mark },
    /// At the first node of a team: a ping has gone around the team, from node to node in the order
    /// of the team. `took` is the sum of the one-way latencies of all links from the first node
    /// over the others back to it, or `None` if the ping was not back when the next one left.
    Looped { team: Vec<u32>, took: Option<Duration> },
    /// A node, or the scheduler, answered a ping over a link. The number of the scheduler follows
    /// the last one of the nodes. `took` is `None` if there was no answer when the next ping left.
    RoundTrip { node: u32, took: Option<Duration> },
    /// At the scheduler: a team was drawn. `nodes` is empty if there are too few.
    Drawn { team: usize, nodes: Vec<u32> },
    /// At the scheduler: no round of a team got through its precomputation, and `failure` ended one of
    /// them. The team is drawn again after this time.
    Paused { team: usize, wait: Duration, failure: Failure },
    /// At the scheduler: a round was created. Its first [`Event::Round`] follows.
    Made { team: usize, plan: Arc<Plan> },
    /// At the scheduler: a round is in a new state.
    Round { round: u64, state: RoundState },
}

samara_engine::names! {
    /// A milestone of a phase, as the original tags its metrics.
    #[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize))]
    #[cfg_attr(feature = "config", serde(rename_all = "snake_case"))]
    pub enum Mark {
        /// The first slots have arrived.
        FirstReceived = "first_received",
        LastReceived = "last_received",
        /// The first slots are processed.
        FirstFinished = "first_finished",
        LastFinished = "last_finished",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RefuseError {
    /// The round is unknown, is over, or already has its batch.
    #[error("the round takes no batch now")]
    NotOpen,
    /// This node is not the first one of the round's team.
    #[error("only the first node of the round's team accepts the batch")]
    NotFirst,
    #[error("the batch has {found} payloads, but the round has {expected} slots")]
    BatchLength { found: usize, expected: u32 },
    /// The payloads were sealed for another group, or for a team of another size.
    #[error("the payloads were sealed for another group, or for a team of another size")]
    Sealed,
    #[error(transparent)]
    Register(#[from] RegisterError),
    #[error("the scheduler accepts no commands")]
    Scheduler,
}
