//! What processors do for rounds.

use std::collections::BTreeMap;
use std::time::Duration;

use samara_mix::{Done, Job, Phase};

/// The answer of a job, and what it took.
pub(super) struct Worked {
    pub(super) done: Done,
    pub(super) phase: Option<Phase>,
    pub(super) cpu: Duration,
}

/// The processor time of this thread; where the system does not tell it, a time that goes by.
fn thread_time() -> Duration {
    #[cfg(unix)]
    if let Ok(time) = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID) {
        return time.into();
    }
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed()
}

/// Runs a job on this thread.
pub(super) fn run(job: Job) -> Worked {
    let phase = job.phase();
    let start = thread_time();
    let done = job.run();
    Worked { done, phase, cpu: thread_time().saturating_sub(start) }
}

/// What was done for phases that are not through.
#[derive(Debug, Default)]
pub(super) struct Ledger(BTreeMap<(u64, Option<Phase>), Duration>);

impl Ledger {
    pub(super) fn add(&mut self, round: u64, phase: Option<Phase>, cpu: Duration) {
        *self.0.entry((round, phase)).or_default() += cpu;
    }

    /// A phase is through: what was done for it.
    pub(super) fn take(&mut self, round: u64, phase: Option<Phase>) -> Duration {
        self.0.remove(&(round, phase)).unwrap_or_default()
    }

    /// A round is over.
    pub(super) fn forget(&mut self, round: u64) {
        self.0.retain(|(of, _), _| *of != round);
    }
}
