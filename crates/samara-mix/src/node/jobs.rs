//! Which work goes first.

use std::collections::VecDeque;

use super::Cx;
use crate::compute::Job;
use crate::event::Event;
use crate::metrics::Metrics;
use crate::round::Half;

/// Jobs that wait, by half, in the order in which they came up. Few are out at a time, and each is short, so that real time never
/// waits for long behind precomputation.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    realtime: VecDeque<Job>,
    precomputation: VecDeque<Job>,
    out: usize,
}

impl Jobs {
    pub(super) fn push(&mut self, job: Job) {
        match job.half() {
            Half::RealTime => self.realtime.push_back(job),
            Half::Precomputation => self.precomputation.push_back(job),
        }
    }

    /// One that was out is done.
    pub(super) fn done(&mut self) {
        self.out = self.out.saturating_sub(1);
    }

    /// Asks for as many jobs as may be out.
    pub(super) fn pump(&mut self, jobs_max: usize, metrics: &mut Metrics, cx: &mut Cx<'_>) {
        while self.out < jobs_max {
            let Some(job) = self.realtime.pop_front().or_else(|| self.precomputation.pop_front()) else {
                break;
            };
            self.out += 1;
            metrics.jobs += 1;
            metrics.work += job.work();
            cx.emit(Event::Compute(job));
        }
    }

    /// Drops the jobs of a round that wait.
    pub(super) fn forget(&mut self, round: u64) {
        self.realtime.retain(|job| job.round() != round);
        self.precomputation.retain(|job| job.round() != round);
    }

    pub(super) fn held_bytes(&self, round: u64) -> u64 {
        let jobs = self.realtime.iter().chain(&self.precomputation).filter(|job| job.round() == round);
        jobs.map(Job::held_bytes).sum()
    }
}
