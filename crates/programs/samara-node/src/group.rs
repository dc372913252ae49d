//! The member of a group in a node, and a task that records deliveries.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use samara_net::ring::{
    BroadcastError, Event, Events, Group as Member, Member as GroupPeer, Options, StartError,
};
use tokio::sync::mpsc;

use crate::metrics::GroupSnapshot;
use crate::model::{Broadcast, Deliveries, Delivery, GroupMember, GroupReady, GroupStatus, GroupStopped};
use crate::part::{Record, Refusal, Request, Stopping, ask, requests};
use samara_trace::unix_ns;

/// A running member. It ends when all clones are gone.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    member: Member,
    requests: mpsc::Sender<Request<Task>>,
    stopping: Stopping,
}

impl Group {
    /// Starts a member. It finds the other members on its own. If it requires a seed, waits until
    /// one has answered.
    pub(crate) async fn start(options: Options) -> Result<Self, String> {
        let started = match options.require_seed {
            Some(_) => Member::join(options).await,
            None => Member::start(options).await,
        };
        let (member, events) = started.map_err(|error| match error {
            StartError::Listen { .. } => {
                format!("group.listen: {error}")
            }
            StartError::NoSeed { .. } => format!("group.require_seed: {error}"),
            StartError::Mismatch { .. } => format!("group.seeds: {error}"),
            _ => format!("group: {error}"),
        })?;
        let (requests, inbox) = requests();
        let task = Task { events, requests: inbox, deliveries: Record::new() };
        tokio::spawn(task.run());
        Ok(Self { member, requests, stopping: Stopping::default() })
    }

    /// Returns the member's part of the first line on standard output.
    pub(crate) fn ready(&self) -> GroupReady {
        GroupReady { address: self.member.address() }
    }

    /// Broadcasts a message, and waits until the group has accepted it.
    pub(crate) async fn broadcast(&self, message: Bytes) -> Result<Broadcast, Refusal> {
        self.stopping.check()?;
        let (bytes, at_unix_ns) = (message.len(), unix_ns());
        match self.member.broadcast(message).await {
            Ok(()) => Ok(Broadcast { bytes, at_unix_ns, took_ns: unix_ns().saturating_sub(at_unix_ns) }),
            Err(BroadcastError::Leaving) => Err(Refusal::Stopping),
            Err(error) => Err(Refusal::Wrong(error.to_string())),
        }
    }

    pub(crate) async fn status(&self) -> Result<GroupStatus, Refusal> {
        let status = self.member.status().await?;
        let view = self.member.view();
        let members = view.iter().flat_map(|view| view.members.iter()).map(|member| GroupMember {
            address: member.to_string(),
            incarnation: format!("{:016x}", member.incarnation),
        });
        let failed = status.failed_seeds.into_iter();
        Ok(GroupStatus {
            address: self.member.address(),
            epoch: view.as_ref().map(|view| view.id.counter),
            shape: view.as_ref().map(|view| view.shape.name().into()),
            members: members.collect(),
            links: status.links,
            failed_seeds: failed.map(|(seed, why)| (seed, why.to_string())).collect(),
            delivered: status.ring.delivered,
            delivered_bytes: status.ring.delivered_bytes,
            queued_bytes: status.queued_bytes,
            window_bytes: status.window_bytes,
            kept_bytes: status.kept_bytes,
        })
    }

    pub(crate) async fn snapshot(&self) -> Result<GroupSnapshot, Refusal> {
        let status = self.member.status().await?;
        Ok(GroupSnapshot { status, members: self.member.view().map_or(0, |view| view.len()) })
    }

    pub(crate) async fn deliveries(&self, from: u64) -> Result<Deliveries, Refusal> {
        ask(&self.requests, move |task| task.deliveries(from)).await
    }

    /// Leaves the group once all broadcasts are complete, the time is over, or `hurried` completes.
    pub(crate) async fn stop(self, drain: Duration, hurried: impl Future<Output = ()>) -> GroupStopped {
        self.stopping.begin();
        let left = tokio::select! {
            left = tokio::time::timeout(drain, self.member.leave()) => matches!(left, Ok(Ok(()))),
            () = hurried => false,
        };
        GroupStopped { left }
    }
}

struct Task {
    events: Events,
    requests: mpsc::Receiver<Request<Task>>,
    deliveries: Record<Delivered>,
}

struct Delivered {
    origin: GroupPeer,
    epoch: Option<u64>,
    number: u64,
    bytes: usize,
    at_unix_ns: u64,
}

/// Maximum number of deliveries in one answer.
const ANSWER_MAX: usize = 10_000;

impl Task {
    async fn run(mut self) {
        let mut has_ended = false;
        loop {
            tokio::select! {
                request = self.requests.recv() => match request {
                    Some(request) => request(&mut self),
                    None => return,
                },
                event = self.events.next(), if !has_ended => match event {
                    Some(event) => self.note(event),
                    // The member has left. Clients can still request its deliveries.
                    None => has_ended = true,
                },
            }
        }
    }

    /// Logs an event, and records it if it is a delivery.
    fn note(&mut self, event: Event) {
        match event {
            Event::Delivered { view, origin, number, payload, .. } => {
                let epoch = view.map(|view| view.counter);
                let (bytes, at_unix_ns) = (payload.len(), unix_ns());
                self.deliveries.push(Delivered { origin, epoch, number, bytes, at_unix_ns });
            }
            Event::View(view) => {
                let members: Vec<String> = view.members.iter().map(ToString::to_string).collect();
                tracing::info!(
                    epoch = view.id.counter,
                    shape = view.shape.name(),
                    ?members,
                    "installed a view"
                );
            }
            Event::Suspected { member, cause } => {
                tracing::warn!(%member, %cause, "a member is suspected of failure");
            }
            Event::Slow { member } => tracing::warn!(%member, "the group waits for a member"),
            // The owner of a member never receives these.
            Event::Refused(_) | Event::Room | Event::Left => {}
        }
    }

    fn deliveries(&self, from: u64) -> Deliveries {
        let (first, next, deliveries) = self.deliveries.page(from, ANSWER_MAX, |delivered| Delivery {
            origin: delivered.origin.to_string(),
            epoch: delivered.epoch,
            number: delivered.number,
            bytes: delivered.bytes,
            at_unix_ns: delivered.at_unix_ns,
        });
        Deliveries { first, next, deliveries }
    }
}
