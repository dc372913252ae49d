//! Requests of the control API to the node.

use libp2p::Multiaddr;
use samara_engine::outbox::Schedule;
use samara_gossipsub::rpc::Topic;
use tokio::sync::oneshot;

use super::payload::Payload;
use super::schedule::Planned;
use crate::metrics::Snapshot;
use crate::model::{BatchReport, PlannedReport, Status};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Wrong(String),
    Stopping,
}

pub(crate) type Answer<T> = oneshot::Sender<T>;

#[derive(Debug)]
pub(crate) enum Command {
    Status(Answer<Status>),
    Metrics(Answer<Box<Snapshot>>),
    Dial(Multiaddr, Answer<Result<(), Refusal>>),
    /// Joins the topic, or leaves it. The answer is whether that is a change.
    Join(Topic, bool, Answer<Result<bool, Refusal>>),
    Publish {
        messages: Vec<(String, Payload)>,
        /// `None` for the configuration's.
        schedule: Option<Schedule>,
        answer: Answer<Result<BatchReport, Refusal>>,
    },
    Batch(u64, Answer<Option<BatchReport>>),
    Plan(Vec<Planned>, Answer<Result<Vec<u64>, Refusal>>),
    Planned(Answer<Vec<PlannedReport>>),
    Stop,
}
