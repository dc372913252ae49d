//! What happened at a node, or at the scheduler: in the log, and for those who ask.

use std::collections::VecDeque;
use std::time::SystemTime;

use samara_mix::{Event, Outcome};
use samara_net::mix::{Happened, What};
use sha2::{Digest, Sha256};

use crate::model::{MixEvent, MixEvents, MixWhat};

/// Events that are kept at most: the last ones.
const KEPT_MAX: usize = 200_000;
const ANSWER_MAX: usize = 20_000;

#[derive(Debug, Default)]
pub(super) struct Record {
    /// The number of the first one that is kept.
    first: u64,
    kept: VecDeque<MixEvent>,
}

pub(super) fn unix_ns(at: SystemTime) -> u64 {
    at.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

impl Record {
    pub(super) fn note(&mut self, happened: &Happened) {
        log(&happened.what);
        let Some(what) = what(&happened.what) else { return };
        if self.kept.len() >= KEPT_MAX {
            self.kept.pop_front();
            self.first += 1;
        }
        self.kept.push_back(MixEvent { at_unix_ns: unix_ns(happened.at), what });
    }

    /// Events from a number on, those that are known still.
    pub(super) fn events(&self, from: u64) -> MixEvents {
        let skip = from.saturating_sub(self.first);
        let start = self.first + skip.min(self.kept.len() as u64);
        let events = self.kept.iter().skip((start - self.first) as usize).take(ANSWER_MAX).cloned();
        let events: Vec<_> = events.collect();
        MixEvents { first: start, next: start + events.len() as u64, events }
    }
}

fn log(what: &What) {
    match what {
        What::Event(Event::Failed { round, failure }) => {
            tracing::warn!(round, cause = failure.cause.name(), culprit = ?failure.culprit, "a round has failed");
        }
        What::Event(Event::Drawn { team, nodes }) => tracing::info!(team, ?nodes, "a team was drawn"),
        What::Event(Event::Delivered { round, outcomes }) => {
            tracing::debug!(round, payloads = outcomes.len(), "a round has come out");
        }
        What::Event(Event::Refused { round, error }) => tracing::warn!(round, %error, "refused"),
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
        // Asked for by `GET /v1/mix`.
        Event::RoundTrip { .. } | Event::Compute(_) => return None,
    })
}

/// The first 16 digits of SHA-256 of all that came out, in order: nodes that have the same have the same payloads in the same order.
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
