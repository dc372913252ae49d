//! A member of a network that mixes, whichever it is.

use samara_engine::{Engine, Input};

use crate::event::{Command, Event};
use crate::metrics::Metrics;
use crate::node::{Cx, Node};
use crate::scheduler::Scheduler;
use crate::wire::MixFrame;

/// A node of the pool, or the scheduler: drivers run all hosts of a network as one type.
#[derive(Debug)]
pub enum Mix {
    /// A node.
    Node(Box<Node>),
    /// The scheduler.
    Scheduler(Box<Scheduler>),
}

impl Mix {
    /// What was counted.
    pub const fn metrics(&self) -> &Metrics {
        match self {
            Self::Node(node) => node.metrics(),
            Self::Scheduler(scheduler) => scheduler.metrics(),
        }
    }

    /// The node, if it is one.
    pub const fn node(&self) -> Option<&Node> {
        match self {
            Self::Node(node) => Some(node),
            Self::Scheduler(_) => None,
        }
    }

    /// The scheduler, if it is it.
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
