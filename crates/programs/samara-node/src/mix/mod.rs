//! A node of a mix pool, or its scheduler, in a node: a task that records events.

mod live;

use std::time::Duration;

use samara_mix::{Cause, Event, Outcome};
use samara_net::mix::{Happened, Member, Options, Status, What};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

use crate::config::{self, Role};
use crate::model::{MixEvent, MixEvents, MixLink, MixReady, MixStatus, MixStopped, MixWhat};
use crate::part::{Record, Refusal, Request, ask, requests};
use samara_trace::unix_ns_of;

use crate::live::Live;
pub(crate) use live::Met;
use live::{File, Lines};

/// Interval between the counts in the live file.
const LIVE_EVERY: Duration = Duration::from_millis(250);
/// Maximum number of events in one answer.
const ANSWER_MAX: usize = 20_000;

/// A running node or scheduler. It ends when all clones are gone.
#[derive(Clone, Debug)]
pub(crate) struct Mix {
    member: Member,
    ready: MixReady,
    live: Live,
    requests: mpsc::Sender<Request<Task>>,
}

impl Mix {
    /// Starts the node. It finds the others on its own.
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
        let name = mix.name.clone().unwrap_or_else(|| live::name(member.number(), nodes));
        let file = mix.live.as_ref().map(|directory| {
            let file = File::create(directory, &name, role, nodes);
            file.map_err(|error| format!("mix.live: {}: {error}", directory.display()))
        });
        let live = Live::start(Some(name), role, Met::new(nodes));
        let lines = Lines::new(live.clone(), file.transpose()?, nodes);
        let (requests, inbox) = requests();
        let task = Task { member: member.clone(), events, requests: inbox, record: Record::new(), lines };
        tokio::spawn(task.run());
        Ok(Self { member, ready, live, requests })
    }

    /// Returns the mix's part of the first line on standard output.
    pub(crate) fn ready(&self) -> MixReady {
        self.ready.clone()
    }

    pub(crate) fn live(&self) -> Live {
        self.live.clone()
    }

    pub(crate) async fn snapshot(&self) -> Result<Status, Refusal> {
        Ok(self.member.status().await?)
    }

    pub(crate) async fn status(&self) -> Result<MixStatus, Refusal> {
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
            failed: status.mix.failed.total(),
            open: gateway.map(|gateway| gateway.counters.rounds_open),
            payloads: gateway.map(|gateway| gateway.counters.payloads_taken),
            loop_ms: status.looped.map(millis),
        })
    }

    pub(crate) async fn events(&self, from: u64) -> Result<MixEvents, Refusal> {
        ask(&self.requests, move |task| task.events(from)).await
    }

    /// Stops the node. There is nothing to wait for: its rounds fail elsewhere.
    pub(crate) async fn stop(self) -> MixStopped {
        let rounds = self.snapshot().await.map_or(0, |status| status.rounds.values().sum());
        self.member.stop().await;
        MixStopped { left_rounds: rounds }
    }
}

struct Task {
    member: Member,
    events: mpsc::Receiver<Happened>,
    requests: mpsc::Receiver<Request<Task>>,
    record: Record<MixEvent>,
    lines: Lines,
}

impl Task {
    async fn run(mut self) {
        let mut ticks = tokio::time::interval(LIVE_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut has_ended = false;
        loop {
            tokio::select! {
                event = self.events.recv(), if !has_ended => match event {
                    Some(happened) => self.note(&happened),
                    // The member has stopped. Clients can still request its events.
                    None => {
                        has_ended = true;
                        self.lines.finish();
                    }
                },
                request = self.requests.recv() => match request {
                    Some(request) => request(&mut self),
                    None => return,
                },
                _ = ticks.tick(), if self.lines.file().is_some() => {
                    let status = self.member.status().await;
                    if let (Some(file), Ok(status)) = (self.lines.file(), status) {
                        file.look(&status);
                    }
                }
            }
        }
    }

    fn note(&mut self, happened: &Happened) {
        self.lines.note(happened);
        log(&happened.what);
        if let Some(what) = what(&happened.what) {
            self.record.push(MixEvent { at_unix_ns: unix_ns_of(happened.at), what });
        }
    }

    fn events(&self, from: u64) -> MixEvents {
        let (first, next, events) = self.record.page(from, ANSWER_MAX, MixEvent::clone);
        MixEvents { first, next, events }
    }
}

fn log(what: &What) {
    match what {
        // As often as nobody sends.
        What::Event(Event::Failed { round, failure }) if failure.cause == Cause::TooFewSenders => {
            tracing::info!(round, cause = failure.cause.name(), "a round failed");
        }
        What::Event(Event::Failed { round, failure }) => {
            tracing::warn!(round, cause = failure.cause.name(), culprit = ?failure.culprit, "a round failed");
        }
        What::Event(Event::Paused { team, wait, failure }) => {
            let (cause, culprit) = (failure.cause.name(), failure.culprit);
            tracing::warn!(
                team,
                ?wait,
                cause,
                ?culprit,
                "no round of a team succeeded; it waits to be drawn again"
            );
        }
        What::Event(Event::Drawn { team, nodes }) => tracing::info!(team, ?nodes, "drew a team"),
        What::Event(Event::Delivered { round, outcomes }) => {
            tracing::debug!(round, payloads = outcomes.len(), "a round completed");
        }
        What::Event(Event::Refused { round, error }) => {
            tracing::warn!(round, %error, "refused a batch or a sender")
        }
        What::Event(_) | What::Worked { .. } => {}
    }
}

fn what(what: &What) -> Option<MixWhat> {
    let event = match what {
        What::Event(event) => event,
        What::Worked { round, phase, cpu } => {
            let phase = phase.map(|phase| phase.name().into());
            return Some(MixWhat::Worked { round: *round, phase, cpu_ns: cpu.as_nanos() as u64 });
        }
    };
    Some(match event {
        Event::Open(plan) => MixWhat::Open { round: plan.round },
        Event::Entered { round, slots } => MixWhat::Entered { round: *round, slots: *slots },
        Event::Delivered { round, outcomes } => {
            let is = |outcome: &Outcome| outcomes.iter().filter(|other| *other == outcome).count() as u32;
            MixWhat::Delivered {
                round: *round,
                slots: outcomes.len() as u32,
                void: is(&Outcome::Void),
                unreadable: is(&Outcome::Unreadable),
                digest: digest(outcomes),
            }
        }
        Event::Failed { round, failure } => {
            MixWhat::Failed { round: *round, cause: failure.cause.name().into(), culprit: failure.culprit }
        }
        Event::State { round, state } => MixWhat::State { round: *round, state: state.name().into() },
        Event::Mark { round, phase, mark } => {
            MixWhat::Mark { round: *round, phase: phase.name().into(), mark: mark.name().into() }
        }
        Event::Made { team, plan } => {
            MixWhat::Made { round: plan.round, team: *team, nodes: plan.team.clone() }
        }
        Event::Drawn { team, nodes } => MixWhat::Drawn { team: *team, nodes: nodes.clone() },
        Event::Round { round, state } => MixWhat::Round { round: *round, state: state.name().into() },
        Event::Refused { round, .. } => MixWhat::Refused { round: *round },
        Event::Looped { took, .. } => MixWhat::Looped { took_ns: took.map(|took| took.as_nanos() as u64) },
        // `GET /v1/mix` reports these.
        Event::RoundTrip { .. } | Event::Compute(_) => return None,
        // Metrics count it, and the events of the failed rounds come before.
        Event::Paused { .. } => return None,
    })
}

/// Returns the first 16 digits of SHA-256 of all outcomes in order: nodes with the same digest have
/// the same payloads in the same order.
fn digest(outcomes: &[Outcome]) -> String {
    let mut hasher = Sha256::new();
    for outcome in outcomes {
        match outcome {
            Outcome::Content(content) => hasher.update(content),
            Outcome::Void => hasher.update([1]),
            Outcome::Unreadable => hasher.update([2]),
        }
    }
    hasher.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
