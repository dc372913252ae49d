//! The member of a group in a node: a task that broadcasts what is planned and keeps record of what is delivered.

mod record;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use samara_net::ring::{BroadcastError, Events, Group as Member, Options, StartError};
use tokio::sync::{mpsc, oneshot};

use crate::clock::unix_ns;
use crate::metrics::GroupSnapshot;
use crate::model::{
    Broadcast, Deliveries, GroupMember, GroupReady, GroupStatus, GroupStopped, PlannedReport,
};
use crate::node::schedule::{Due, Late, Plan, Planned};
use crate::pool::Gone;
use record::Record;

/// Requests that wait for the group's task.
const COMMANDS_MAX: usize = 64;

/// What the control API asks of the group's task.
#[derive(Debug)]
enum GroupCommand {
    Plan(Vec<Planned>, oneshot::Sender<Result<Vec<u64>, String>>),
    Planned(oneshot::Sender<Vec<PlannedReport>>),
    /// The answer is how many broadcasts will not be made.
    Cancel(oneshot::Sender<usize>),
    /// Those from a number on.
    Deliveries(u64, oneshot::Sender<Deliveries>),
}

/// A member that runs. It ends when all of these are gone.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    member: Member,
    commands: mpsc::Sender<GroupCommand>,
    /// Whether it is about to stop: then it takes nothing new from clients.
    stopping: Arc<AtomicBool>,
}

impl Group {
    /// Starts a member. It looks for the others by itself.
    pub(crate) async fn start(options: Options) -> Result<Self, String> {
        let started = Member::start(options).await;
        let (member, events) = started.map_err(|error| match error {
            StartError::Listen { .. } => {
                format!("ring.listen: {error}; expected a free port at an address of this machine")
            }
            _ => format!("ring: {error}"),
        })?;
        let (commands, inbox) = mpsc::channel(COMMANDS_MAX);
        let task = Task {
            member: member.clone(),
            events,
            commands: inbox,
            plan: Plan::new("broadcasts"),
            record: Record::default(),
        };
        tokio::spawn(task.run());
        Ok(Self { member, commands, stopping: Arc::default() })
    }

    /// For the first line on standard output.
    pub(crate) fn ready(&self) -> GroupReady {
        GroupReady { address: self.member.address() }
    }

    fn unless_stopping(&self) -> Result<(), Gone> {
        if self.stopping.load(Ordering::Relaxed) { Err(Gone) } else { Ok(()) }
    }

    /// Broadcasts a message, and waits until the group has taken it.
    ///
    /// # Errors
    /// A text: it is too long; or the node is about to stop.
    pub(crate) async fn broadcast(&self, message: Bytes) -> Result<Result<Broadcast, String>, Gone> {
        self.unless_stopping()?;
        let (bytes, at_unix_ns) = (message.len(), unix_ns());
        match self.member.broadcast(message).await {
            Ok(()) => Ok(Ok(Broadcast { bytes, at_unix_ns, took_ns: unix_ns().saturating_sub(at_unix_ns) })),
            Err(BroadcastError::Leaving) => Err(Gone),
            Err(error) => Ok(Err(error.to_string())),
        }
    }

    pub(crate) async fn status(&self) -> Result<GroupStatus, Gone> {
        let status = self.member.status().await.map_err(|_| Gone)?;
        let view = self.member.view();
        let members = view.iter().flat_map(|view| view.members.iter()).map(|member| GroupMember {
            address: String::from_utf8_lossy(member.identity.as_bytes()).into_owned(),
            incarnation: format!("{:016x}", member.incarnation),
        });
        Ok(GroupStatus {
            address: self.member.address(),
            epoch: view.as_ref().map(|view| view.id.counter),
            shape: view.as_ref().map(|view| view.shape.name().into()),
            members: members.collect(),
            links: status.links,
            delivered: status.ring.delivered,
            delivered_bytes: status.ring.delivered_bytes,
            queued_bytes: status.queued_bytes,
            window_bytes: status.window_bytes,
            kept_bytes: status.kept_bytes,
        })
    }

    pub(crate) async fn snapshot(&self) -> Result<GroupSnapshot, Gone> {
        let status = self.member.status().await.map_err(|_| Gone)?;
        Ok(GroupSnapshot { status, members: self.member.view().map_or(0, |view| view.len()) })
    }

    pub(crate) async fn plan(&self, planned: Vec<Planned>) -> Result<Result<Vec<u64>, String>, Gone> {
        self.unless_stopping()?;
        self.ask(|answer| GroupCommand::Plan(planned, answer)).await
    }

    pub(crate) async fn planned(&self) -> Result<Vec<PlannedReport>, Gone> {
        self.ask(GroupCommand::Planned).await
    }

    pub(crate) async fn deliveries(&self, from: u64) -> Result<Deliveries, Gone> {
        self.ask(|answer| GroupCommand::Deliveries(from, answer)).await
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> GroupCommand) -> Result<T, Gone> {
        let (answer, answered) = oneshot::channel();
        self.commands.send(command(answer)).await.map_err(|_| Gone)?;
        answered.await.map_err(|_| Gone)
    }

    /// Leaves the group, once all that was broadcast is complete, the time is over, or somebody is in a hurry.
    pub(crate) async fn stop(self, drain: Duration, hurry: oneshot::Receiver<()>) -> GroupStopped {
        self.stopping.store(true, Ordering::Relaxed);
        let cancelled = self.ask(GroupCommand::Cancel).await.unwrap_or(0);
        let hurried = async {
            if hurry.await.is_err() {
                // Nobody will be.
                std::future::pending::<()>().await;
            }
        };
        let left = tokio::select! {
            left = tokio::time::timeout(drain, self.member.leave()) => matches!(left, Ok(Ok(()))),
            () = hurried => false,
        };
        GroupStopped { left, cancelled_broadcasts: cancelled }
    }
}

struct Task {
    member: Member,
    events: Events,
    commands: mpsc::Receiver<GroupCommand>,
    plan: Plan,
    record: Record,
}

impl Task {
    async fn run(mut self) {
        let mut has_ended = false;
        loop {
            tokio::select! {
                // Broadcasts have their time.
                biased;
                due = self.plan.due() => self.broadcast_due(due).await,
                command = self.commands.recv() => match command {
                    Some(command) => self.handle_command(command),
                    None => return,
                },
                event = self.events.next(), if !has_ended => match event {
                    Some(event) => self.record.note(&event),
                    // It has left; what it has delivered can still be asked for.
                    None => has_ended = true,
                },
            }
        }
    }

    /// Waits for room, and takes what is delivered meanwhile: the group may have none because of that.
    async fn broadcast_due(&mut self, due: Due) {
        let (number, start, mut error) = (due.number, unix_ns(), None);
        for (_, message) in due.messages {
            let member = self.member.clone();
            let broadcast = member.broadcast(message);
            tokio::pin!(broadcast);
            let taken = loop {
                tokio::select! {
                    taken = &mut broadcast => break taken,
                    Some(event) = self.events.next() => self.record.note(&event),
                }
            };
            error = error.or(taken.err());
        }
        self.plan.done(number, start, unix_ns().saturating_sub(start), None);
        match error {
            None => tracing::info!(broadcast = number, "broadcast as planned"),
            Some(error) => tracing::warn!(broadcast = number, %error, "a planned broadcast was refused"),
        }
    }

    /// Whoever asked may have gone away meanwhile: then the answer is for nobody.
    fn handle_command(&mut self, command: GroupCommand) {
        match command {
            GroupCommand::Plan(planned, answer) => drop(answer.send(self.plan.add(planned, Late::Refuse))),
            GroupCommand::Planned(answer) => drop(answer.send(self.plan.report())),
            GroupCommand::Cancel(answer) => drop(answer.send(self.plan.cancel())),
            GroupCommand::Deliveries(from, answer) => drop(answer.send(self.record.deliveries(from))),
        }
    }
}
