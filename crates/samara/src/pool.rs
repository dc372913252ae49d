//! Several runs at a time, their results in the order of the scenario.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

use anyhow::{Context, Result};
use samara_lab::run::{Control, Finished, Job, execute};

use crate::progress::Bar;

/// Does all jobs and hands the results to `each` in their order. Where there are many, several are done at a time with one
/// thread each, which is faster than all threads for each in turn; results do not depend on it.
pub(crate) fn run_all(
    jobs: &[Job],
    threads: usize,
    stop: &AtomicBool,
    bar: &Bar,
    mut each: impl FnMut(Finished) -> Result<()>,
) -> Result<()> {
    let workers = if jobs.len() >= 2 * threads { threads } else { 1 };
    let within = if workers > 1 { 1 } else { threads };
    let next = AtomicUsize::new(0);
    // A bound, so that results do not pile up in memory behind a slow run.
    let (sender, receiver) = mpsc::sync_channel(2 * workers);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::SeqCst);
                    let Some(job) = jobs.get(index).filter(|_| !stop.load(Ordering::SeqCst)) else { return };
                    let progress = |progress| bar.advance(index, progress);
                    let control = Control { threads: within, stop, progress: &progress };
                    let finished = execute(job, &control)
                        .with_context(|| format!("run {:?} with seed {}", job.name(), job.seed));
                    bar.finish_run(index, &job.name());
                    if sender.send((index, finished)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut waiting = BTreeMap::new();
        let mut due = 0;
        for (index, finished) in receiver {
            waiting.insert(index, finished);
            while let Some(finished) = waiting.remove(&due) {
                due += 1;
                if let Err(error) = finished.and_then(&mut each) {
                    // The others need not begin.
                    next.store(jobs.len(), Ordering::SeqCst);
                    return Err(error);
                }
            }
        }
        Ok(())
    })
}
