//! Which work goes first.

use std::collections::BTreeMap;

use super::Cx;
use crate::compute::Job;
use crate::event::Event;
use crate::metrics::Metrics;
use crate::round::Half;

/// Jobs that wait. Real time goes first, then the older round: what is begun is finished before something else is begun, so that
/// rounds come out one by one and not all together later. Few jobs are out at a time, and each is short, so that none waits for
/// long behind one that should go later.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    /// By half, round, and order in which they came up.
    waiting: BTreeMap<(Half, u64, u64), Job>,
    serial: u64,
    out: usize,
}

impl Jobs {
    pub(super) fn push(&mut self, job: Job) {
        self.serial += 1;
        self.waiting.insert((job.half(), job.round(), self.serial), job);
    }

    /// One that was out is done.
    pub(super) fn done(&mut self) {
        self.out = self.out.saturating_sub(1);
    }

    /// Asks for as many jobs as may be out.
    pub(super) fn pump(&mut self, jobs_max: usize, metrics: &mut Metrics, cx: &mut Cx<'_>) {
        while self.out < jobs_max {
            let Some((_, job)) = self.waiting.pop_first() else { break };
            self.out += 1;
            metrics.jobs += 1;
            metrics.work += job.work();
            cx.emit(Event::Compute(job));
        }
    }

    fn of(&self, round: u64) -> impl Iterator<Item = (&(Half, u64, u64), &Job)> {
        let halves = [Half::RealTime, Half::Precomputation].into_iter();
        halves.flat_map(move |half| self.waiting.range((half, round, 0)..=(half, round, u64::MAX)))
    }

    /// Drops the jobs of a round that wait.
    pub(super) fn forget(&mut self, round: u64) {
        let keys: Vec<_> = self.of(round).map(|(key, _)| *key).collect();
        for key in keys {
            self.waiting.remove(&key);
        }
    }

    pub(super) fn held_bytes(&self, round: u64) -> u64 {
        self.of(round).map(|(_, job)| job.held_bytes()).sum()
    }
}
