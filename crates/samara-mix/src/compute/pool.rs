//! Jobs on all cores.

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

use super::{Done, Job};

/// Threads that run jobs. The engine never has more jobs out than its configuration allows, real-time ones first, so that the
/// pool needs no order of its own.
#[derive(Debug)]
pub struct Pool(ThreadPool);

impl Pool {
    /// So many threads; 0 stands for as many as there are cores.
    ///
    /// # Errors
    /// The system has no threads left.
    pub fn new(threads: usize) -> Result<Self, ThreadPoolBuildError> {
        let named = |index| format!("mix-{index}");
        ThreadPoolBuilder::new().num_threads(threads).thread_name(named).build().map(Self)
    }

    /// How many jobs run at the same time.
    pub fn threads(&self) -> usize {
        self.0.current_num_threads()
    }

    /// Runs anything on some thread: a job with something around it.
    pub fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        self.0.spawn(work);
    }

    /// Runs a job on some thread, and hands over the answer there.
    pub fn run(&self, job: Job, done: impl FnOnce(Done) + Send + 'static) {
        self.0.spawn(move || done(job.run()));
    }
}
