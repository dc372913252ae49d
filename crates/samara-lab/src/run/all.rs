//! Runs all points of a scenario.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Progress, RunError, RunOptions, run_seen};
use crate::mix::measure::Collector;
use crate::results::{Measured, Outcome};
use crate::scenario::{Loaded, Point};

/// From so many nodes on, runs are done one after the other, each on all threads: memory counts then.
pub const LARGE: u32 = 4000;

/// Whoever looks on while the points of a scenario are run. Points may be run at the same time, from several threads.
pub trait Watch: Sync {
    /// What looks on at one of them.
    type Run<'a>: WatchRun
    where
        Self: 'a;

    fn begin<'a>(&'a self, point: &'a Point) -> Self::Run<'a>;
}

/// Whoever looks on at one point.
pub trait WatchRun {
    /// How far it is.
    fn progress(&mut self, progress: Progress);

    /// Of teams that mix batches: all that hosts have told so far.
    fn rounds(&mut self, _told: &Collector) {}

    /// What was measured, while it is all there.
    ///
    /// # Errors
    /// It cannot be kept; nothing is run any more.
    fn measured(&mut self, measured: &dyn Measured, outcome: &Outcome) -> Result<(), String>;

    /// It is over. Not called of a run that was interrupted, or whose measurements could not be kept.
    fn end(self, is_done: bool);
}

/// Runs all points of a scenario: several at once if they are small, each on all threads if they are large. Those that were interrupted are
/// `None`.
///
/// # Errors
/// The first run that cannot be done, with what is in the way; the others are stopped then.
pub fn run_all<W: Watch>(
    loaded: &Loaded,
    threads: usize,
    stop: &AtomicBool,
    watch: &W,
) -> Result<Vec<Option<Outcome>>, String> {
    let points = &loaded.points;
    let is_large = points.iter().any(|point| point.scenario.network.nodes > LARGE);
    let workers = if is_large { 1 } else { threads.min(points.len()).max(1) };
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Outcome>>> = points.iter().map(|_| Mutex::default()).collect();
    let failure: Mutex<Option<String>> = Mutex::default();
    let fail = |message: String| {
        lock(&failure).get_or_insert(message);
        stop.store(true, Ordering::SeqCst);
    };
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::SeqCst);
            let Some(point) = points.get(index) else { return };
            let options = RunOptions { threads: (threads / workers).max(1), inputs: &loaded.inputs, stop };
            let watched = RefCell::new(watch.begin(point));
            let progress = |progress| watched.borrow_mut().progress(progress);
            let done = run_seen(point, options, progress, |told| watched.borrow_mut().rounds(told));
            let mut watched = watched.into_inner();
            match done {
                Ok(measured) => {
                    let outcome = measured.outcome();
                    match watched.measured(&*measured, &outcome) {
                        Ok(()) => {
                            *lock(&results[index]) = Some(outcome);
                            watched.end(true);
                        }
                        Err(message) => fail(message),
                    }
                }
                Err(RunError::Interrupted) => return,
                Err(RunError::Scenario(error) | RunError::Distributed(error)) => {
                    watched.end(false);
                    fail(format!("{}: run {}: {error}", loaded.source, point.name()));
                }
            }
        }
    };
    std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
    if let Some(message) = lock(&failure).take() {
        return Err(message);
    }
    let inner = |result: Mutex<Option<Outcome>>| result.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(results.into_iter().map(inner).collect())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
