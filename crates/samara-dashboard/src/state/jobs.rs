//! How far simulations and testbeds are.

use std::collections::{BTreeMap, VecDeque};

use samara_trace::live::{Event, RunState};
use serde_json::{Value, json};

use super::{View, ms_or_null};

/// Runs of a scenario that are remembered.
const JOBS_MAX: usize = 1024;
/// Values of the past that the time left is made of.
const HISTORY: usize = 64;
/// What is left is judged by the last so many seconds, if there are as many.
const RECENT_NS: u64 = 20_000_000_000;
/// Earlier, there is no judging.
const LEAST_NS: u64 = 1_000_000_000;
/// At less than this share there is no judging either.
const LEAST_SHARE: f64 = 0.005;

/// By source and run.
#[derive(Debug, Default)]
pub(super) struct Jobs(BTreeMap<(String, String), Job>);

#[derive(Debug)]
struct Job {
    state: RunState,
    doing: Option<String>,
    share: Option<f64>,
    wall_ns: Option<u64>,
    virtual_ns: Option<u64>,
    deliveries: Option<u64>,
    deliveries_expected: Option<u64>,
    copies: Option<u64>,
    steps: Option<u64>,
    /// Who speaks for it has ended.
    is_over: bool,
    /// Time and share.
    past: VecDeque<(u64, f64)>,
}

impl Jobs {
    pub(super) fn take(&mut self, source: &str, who: &str, event: &Event) {
        let Event::Progress {
            state,
            doing,
            share,
            wall_ns,
            virtual_ns,
            deliveries,
            deliveries_expected,
            copies,
            steps,
        } = event
        else {
            return;
        };
        let key = (source.to_owned(), who.to_owned());
        if self.0.len() >= JOBS_MAX && !self.0.contains_key(&key) {
            return;
        }
        let mut past = self.0.remove(&key).map(|job| job.past).unwrap_or_default();
        // What is no share of anything is not known.
        let share = share.filter(|share| (0.0..=1.0).contains(share));
        if let (Some(wall), Some(share)) = (wall_ns, share) {
            if past.back().is_some_and(|(before, _)| before > wall) {
                past.clear();
            }
            past.push_back((*wall, share));
            if past.len() > HISTORY {
                past.pop_front();
            }
        }
        let job = Job {
            state: *state,
            doing: doing.as_deref().map(super::short),
            share,
            wall_ns: *wall_ns,
            virtual_ns: *virtual_ns,
            deliveries: *deliveries,
            deliveries_expected: *deliveries_expected,
            copies: *copies,
            steps: *steps,
            is_over: false,
            past,
        };
        self.0.insert(key, job);
    }

    /// A source has ended: what it has not said to be done will not be.
    pub(super) fn finish(&mut self, source: &str) {
        self.0.iter_mut().filter(|((of, _), _)| of == source).for_each(|(_, job)| job.is_over = true);
    }

    pub(super) fn forget(&mut self, source: &str) {
        self.0.retain(|(of, _), _| of != source);
    }

    pub(super) fn view(&self, view: &mut View) {
        let mut ids = Vec::new();
        for ((source, name), job) in &self.0 {
            let id = format!("job/{source}/{name}");
            view.insert(id.clone(), job.view(name));
            ids.push(id);
        }
        view.insert("jobs".to_owned(), ids.into());
        view.insert("overall".to_owned(), self.overall());
    }

    /// How much of everything is done, each run as much as any other.
    fn overall(&self) -> Value {
        if self.0.is_empty() {
            return Value::Null;
        }
        let share = |job: &Job| match job.state {
            RunState::Waiting => Some(0.0),
            RunState::Done => Some(1.0),
            RunState::Running | RunState::Failed => job.share,
        };
        let shares: Option<Vec<f64>> = self.0.values().map(share).collect();
        let count = |state| self.0.values().filter(|job| job.state == state && !job.is_stopped()).count();
        json!({
            "runs": self.0.len(),
            "waiting": count(RunState::Waiting),
            "running": count(RunState::Running),
            "done": count(RunState::Done),
            "failed": count(RunState::Failed),
            "stopped": self.0.values().filter(|job| job.is_stopped()).count(),
            "share": shares.map(|shares| shares.iter().sum::<f64>() / shares.len() as f64),
        })
    }
}

impl Job {
    /// It was never done, and never will be.
    fn is_stopped(&self) -> bool {
        self.is_over && matches!(self.state, RunState::Waiting | RunState::Running)
    }

    fn view(&self, name: &str) -> Value {
        json!({
            "run": name,
            "state": if self.is_stopped() { json!("stopped") } else { json!(self.state) },
            "doing": self.doing,
            "share": self.share,
            "wall_ms": ms_or_null(self.wall_ns),
            "virtual_ms": ms_or_null(self.virtual_ns),
            "deliveries": self.deliveries,
            "deliveries_expected": self.deliveries_expected,
            "copies": self.copies,
            "steps": self.steps,
            "left_ms": ms_or_null(self.left_ns()),
        })
    }

    /// How long it will take still, if it goes on as it went last. Runs end earlier once everything is delivered: this is the most.
    fn left_ns(&self) -> Option<u64> {
        if self.state != RunState::Running || self.is_over {
            return None;
        }
        let (wall, share) = *self.past.back()?;
        let (then, before) = *self.past.iter().find(|(then, _)| wall - then <= RECENT_NS)?;
        let (took, grown) = (wall - then, share - before);
        let is_known = wall >= LEAST_NS && share >= LEAST_SHARE && took > 0 && grown > 0.0;
        is_known.then(|| ((1.0 - share) / grown * took as f64) as u64)
    }
}
