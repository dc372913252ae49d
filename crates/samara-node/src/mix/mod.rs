//! A node of a pool that mixes, or its scheduler, in a node: a task that keeps record of what happens.

mod live;
mod record;

use std::time::Duration;

use samara_net::mix::{Events, Member, Options, Status};
use tokio::sync::{mpsc, oneshot};

use crate::config::{self, Role};
use crate::model::{MixEvents, MixLink, MixReady, MixStatus, MixStopped};
use crate::pool::Gone;
use live::Live;
use record::Record;

const COMMANDS_MAX: usize = 64;
/// How often what counts is said in the live file.
const LIVE_EVERY: Duration = Duration::from_millis(250);

/// A node that runs. It ends when all of these are gone.
#[derive(Clone, Debug)]
pub(crate) struct Mix {
    member: Member,
    ready: MixReady,
    /// Those from a number on.
    events: mpsc::Sender<(u64, oneshot::Sender<MixEvents>)>,
}

impl Mix {
    /// Starts it. It looks for the others by itself.
    pub(crate) async fn start(mix: &config::Mix, options: Options) -> Result<Self, String> {
        let fingerprint = options.identity.fingerprint().to_string();
        let nodes = options.pool.len();
        let started = Member::start(options).await;
        let (member, events) = started.map_err(|error| format!("mix: {error}"))?;
        let role = match mix.role {
            Role::Node => "node",
            Role::Scheduler => "scheduler",
        };
        let ready = MixReady {
            role: role.into(),
            number: member.number(),
            fingerprint,
            address: member.address(),
            gateway: member.gateway(),
        };
        let live = match &mix.live {
            None => None,
            Some(directory) => {
                let name = mix.name.clone().unwrap_or_else(|| live::name(member.number(), nodes));
                let live = Live::create(directory, &name, role, nodes);
                Some(live.map_err(|error| format!("mix.live: {}: {error}", directory.display()))?)
            }
        };
        let (sender, asked) = mpsc::channel(COMMANDS_MAX);
        let task = Task { member: member.clone(), events, asked, record: Record::default(), live };
        tokio::spawn(task.run());
        Ok(Self { member, ready, events: sender })
    }

    /// For the first line on standard output.
    pub(crate) fn ready(&self) -> MixReady {
        self.ready.clone()
    }

    pub(crate) async fn snapshot(&self) -> Result<Status, Gone> {
        self.member.status().await.map_err(|_| Gone)
    }

    pub(crate) async fn status(&self) -> Result<MixStatus, Gone> {
        let status = self.snapshot().await?;
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        let links = status.links.iter().map(|link| MixLink {
            node: link.node,
            outbound: link.outbound,
            round_trip_ms: link.round_trip.map(millis),
            owed_copies: link.owed,
            owed_bytes: link.owed_bytes,
        });
        let gateway = status.gateway.as_ref();
        Ok(MixStatus {
            role: self.ready.role.clone(),
            number: self.ready.number,
            links: links.collect(),
            rounds: status.rounds.iter().map(|(state, count)| ((*state).into(), *count)).collect(),
            teams: status.teams.clone(),
            completed: status.mix.completed,
            failed: status.mix.failed_total(),
            open: gateway.map(|gateway| gateway.open),
            payloads: gateway.map(|gateway| gateway.payloads),
            loop_ms: status.looped.map(millis),
        })
    }

    pub(crate) async fn events(&self, from: u64) -> Result<MixEvents, Gone> {
        let (answer, answered) = oneshot::channel();
        self.events.send((from, answer)).await.map_err(|_| Gone)?;
        answered.await.map_err(|_| Gone)
    }

    /// Ends it. There is nothing to wait for: what it is needed for fails elsewhere.
    pub(crate) async fn stop(self) -> MixStopped {
        let rounds = self.snapshot().await.map_or(0, |status| status.rounds.values().sum());
        self.member.stop().await;
        MixStopped { left_rounds: rounds }
    }
}

struct Task {
    member: Member,
    events: Events,
    asked: mpsc::Receiver<(u64, oneshot::Sender<MixEvents>)>,
    record: Record,
    live: Option<Live>,
}

impl Task {
    async fn run(mut self) {
        let mut ticks = tokio::time::interval(LIVE_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut has_ended = false;
        loop {
            tokio::select! {
                event = self.events.next(), if !has_ended => match event {
                    Some(happened) => {
                        if let Some(live) = &mut self.live {
                            live.note(&happened);
                        }
                        self.record.note(&happened);
                    }
                    // It has stopped; what happened can still be asked for.
                    None => {
                        has_ended = true;
                        if let Some(live) = self.live.take() {
                            live.finish();
                        }
                    }
                },
                asked = self.asked.recv() => match asked {
                    // Fails only if the asker has given up.
                    Some((from, answer)) => drop(answer.send(self.record.events(from))),
                    None => return,
                },
                _ = ticks.tick(), if self.live.is_some() => {
                    let status = self.member.status().await;
                    if let (Some(live), Ok(status)) = (&mut self.live, status) {
                        live.look(&status);
                    }
                }
            }
        }
    }
}
