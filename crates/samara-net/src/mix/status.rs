//! What a node or the scheduler reports: events, state and counters.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use futures::Stream;
use samara_engine::outbox;
use samara_mix::{Event, Metrics, Phase};
use tokio::sync::mpsc;

use super::gateway::GatewayStatus;
use crate::status::Counters;

/// An event with its time.
#[derive(Debug)]
pub struct Happened {
    /// The time.
    pub at: SystemTime,
    /// The event.
    pub what: What,
}

/// An event of a node or the scheduler.
#[derive(Debug)]
pub enum What {
    /// An event of the protocol; never [`Event::Compute`].
    Event(Event),
    /// A phase is over. Where the system does not know the processor time of a thread, `cpu` is wall time.
    Worked {
        /// The round.
        round: u64,
        /// The phase; `None` for keys and secrets, before the first phase.
        phase: Option<Phase>,
        /// The processor time of all threads for the phase.
        cpu: Duration,
    },
}

/// The events of a node or the scheduler, in order. It ends when that has stopped.
///
/// Events that find the queue full are dropped and counted ([`Counters::events_lost`]).
#[derive(Debug)]
pub struct Events(pub(super) mpsc::Receiver<Happened>);

impl Events {
    /// The next event; `None` at the end.
    pub async fn next(&mut self) -> Option<Happened> {
        self.0.recv().await
    }

    /// The next event, if one waits.
    pub fn try_next(&mut self) -> Option<Happened> {
        self.0.try_recv().ok()
    }
}

impl Stream for Events {
    type Item = Happened;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Happened>> {
        self.0.poll_recv(cx)
    }
}

/// Closed connections by cause, counted by the tasks of servers.
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
