//! Progress of simulations and testbeds.

use std::collections::{BTreeMap, VecDeque};

use samara_trace::live::{Progress, RunState};
use serde_json::{Value, json};

use super::{View, ms_or_null};

/// Runs of a scenario that are remembered.
const JOBS_MAX: usize = 1024;
/// Past values from which the remaining time is estimated.
const HISTORY: usize = 64;
/// The estimate is of the last 20 s, if there are as many.
const RECENT_NS: u64 = 20_000_000_000;
/// There is no estimate before so much time.
const LEAST_NS: u64 = 1_000_000_000;
/// There is no estimate below this share either.
const LEAST_SHARE: f64 = 0.005;

/// Progress by source and run.
#[derive(Debug, Default)]
pub(super) struct Jobs(BTreeMap<(String, String), Job>);

#[derive(Debug, Default)]
struct Job {
    last: Progress,
    /// The source that reports it has ended.
    is_over: bool,
    /// Time and share.
    past: VecDeque<(u64, f64)>,
}

impl Jobs {
    pub(super) fn take(&mut self, source: &str, run: &str, progress: &Progress) {
        let key = (source.to_owned(), run.to_owned());
        if self.0.len() >= JOBS_MAX && !self.0.contains_key(&key) {
            return;
        }
        let job = self.0.entry(key).or_default();
        job.is_over = false;
        job.last = progress.clone();
        job.last.doing = progress.doing.as_deref().map(super::short);
        // A value outside of 0 to 1 is no share.
        job.last.share = progress.share.filter(|share| (0.0..=1.0).contains(share));
        if let (Some(wall), Some(share)) = (progress.wall_ns, job.last.share) {
            if job.past.back().is_some_and(|(before, _)| *before > wall) {
                job.past.clear();
            }
            job.past.push_back((wall, share));
            if job.past.len() > HISTORY {
                job.past.pop_front();
            }
        }
    }

    /// A source has ended: its unfinished runs will not finish.
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

    /// The share of all runs that is done, each run with the same weight.
    fn overall(&self) -> Value {
        if self.0.is_empty() {
            return Value::Null;
        }
        let share = |job: &Job| match job.last.state {
            RunState::Waiting => Some(0.0),
            RunState::Done => Some(1.0),
            RunState::Running | RunState::Failed => job.last.share,
        };
        let shares: Option<Vec<f64>> = self.0.values().map(share).collect();
        let count =
            |state| self.0.values().filter(|job| job.last.state == state && !job.is_stopped()).count();
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
    /// Whether it ended before it was done.
    fn is_stopped(&self) -> bool {
        self.is_over && matches!(self.last.state, RunState::Waiting | RunState::Running)
    }

    fn view(&self, name: &str) -> Value {
        let last = &self.last;
        json!({
            "run": name,
            "state": if self.is_stopped() { json!("stopped") } else { json!(last.state) },
            "doing": last.doing,
            "share": last.share,
            "wall_ms": ms_or_null(last.wall_ns),
            "virtual_ms": ms_or_null(last.virtual_ns),
            "deliveries": last.deliveries,
            "deliveries_expected": last.deliveries_expected,
            "copies": last.copies,
            "steps": last.steps,
            "left_ms": ms_or_null(self.left_ns()),
        })
    }

    /// The remaining time at the latest rate. A run ends earlier once everything is delivered: this is the most.
    fn left_ns(&self) -> Option<u64> {
        if self.last.state != RunState::Running || self.is_over {
            return None;
        }
        let (wall, share) = *self.past.back()?;
        let (then, before) = *self.past.iter().find(|(then, _)| wall - then <= RECENT_NS)?;
        let (took, grown) = (wall - then, share - before);
        let is_known = wall >= LEAST_NS && share >= LEAST_SHARE && took > 0 && grown > 0.0;
        is_known.then(|| ((1.0 - share) / grown * took as f64) as u64)
    }
}
