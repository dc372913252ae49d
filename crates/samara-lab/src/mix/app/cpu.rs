//! The cores of a node: what is worked on when.

use std::collections::BTreeMap;

use samara_engine::Time;
use samara_mix::{Done, Job};

use super::Costs;

/// The cores of a node. The engine never asks for more jobs at a time than there are cores, so that each begins at once.
#[derive(Debug)]
pub(super) struct Cpu {
    costs: Costs,
    /// By core: until when it is busy.
    cores: Vec<Time>,
    /// Answers, by when they are there, and in the order in which they were asked for.
    out: BTreeMap<(Time, u64), Done>,
    serial: u64,
}

impl Cpu {
    pub(super) fn new(costs: Costs, cores: usize) -> Self {
        Self { costs, cores: vec![Time::ZERO; cores], out: BTreeMap::new(), serial: 0 }
    }

    /// Works on a job. Which core does, and from when to when.
    pub(super) fn take(&mut self, job: Job, now: Time) -> (usize, Time, Time) {
        let (core, free) = self
            .cores
            .iter_mut()
            .enumerate()
            .min_by_key(|(_, free)| **free)
            .unwrap_or_else(|| unreachable!("a node has a core"));
        let from = now.max(*free);
        let to = from + self.costs.job(&job);
        *free = to;
        self.serial += 1;
        // The answer depends on the job only, so that it can be there before it is due.
        self.out.insert((to, self.serial), job.run());
        (core, from, to)
    }

    /// The next answer that is due.
    pub(super) fn due(&mut self, now: Time) -> Option<Done> {
        let first = self.out.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }
}
