//! Runs a point of a scenario in the simulator.

mod experiment;
mod net;

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use samara_sim::Ranks;
use thiserror::Error;

use crate::family::{self, RunDistributed, Watching};
use crate::mix::measure::Collector as Rounds;
use crate::results::{Measured, Outcome};
use samara_scenario::Inputs;
use samara_spec::{Loaded, Point, Scenario};

pub(crate) use experiment::{Setup, Step, Stepped, simulate};
pub(crate) use net::Net;

pub use crate::columns::run::ColumnsMeasured;
pub use crate::group::run::{GroupMeasured, MemberOutcomes, Suspicion};
pub use crate::messages::run::{MessagesMeasured, Plan};
pub use crate::mix::run::{FaultWindow, Mechanism, MixMeasured, ProcessorLook};
pub use crate::pool::run::{BlockRow, Clients, Submission, Totals, TransactionsMeasured, proposers, roles};

/// Why a run ended without a result.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum RunError {
    /// Something in the scenario does not fit; only building the network shows it.
    #[error("{0}")]
    Scenario(String),
    /// Several processes cannot go on together.
    #[error("{0}")]
    Distributed(String),
    #[error("interrupted")]
    Interrupted,
}

#[derive(Clone, Copy, Debug)]
pub struct RunOptions<'a> {
    pub threads: usize,
    /// Where the files come from that the scenario names.
    pub inputs: &'a Inputs,
    /// Set from elsewhere to stop.
    pub stop: &'a AtomicBool,
}

/// How far a run is. What a kind of run does not know is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// How much of it is done: 0 to 1.
    pub share: f64,
    /// How much has been simulated, in nanoseconds.
    pub virtual_nanos: Option<u64>,
    /// What has reached somebody who was to get it.
    pub deliveries: Option<u64>,
    /// How much that is to be.
    pub deliveries_expected: Option<u64>,
    /// Copies that have arrived, those included that nobody needed.
    pub copies: Option<u64>,
    pub steps: Option<u64>,
}

/// How much of the run is simulated between two looks at the results.
pub(crate) const SLICE_NANOS: u64 = 50_000_000;
/// How long after the last copy a run that is complete is left alone, so that late duplicates are counted.
pub(crate) const QUIET_NANOS: u64 = 1_000_000_000;

/// Runs a point. `progress` sees how far the run is, after each slice of virtual time.
///
/// # Errors
/// The network cannot be built as the scenario says, or the run was stopped.
pub fn run(
    point: &Point,
    options: RunOptions<'_>,
    progress: impl FnMut(Progress),
) -> Result<Box<dyn Measured>, RunError> {
    run_seen(point, options, progress, |_| {})
}

/// The same; of teams that mix batches, `rounds` sees all events of hosts so far, as often.
///
/// # Errors
/// As [`run`].
pub fn run_seen(
    point: &Point,
    options: RunOptions<'_>,
    mut progress: impl FnMut(Progress),
    mut rounds: impl FnMut(&Rounds),
) -> Result<Box<dyn Measured>, RunError> {
    let watching = Watching { progress: &mut progress, rounds: &mut rounds };
    (family::of(&point.scenario).run)(point, options, watching)
}

fn distributed(scenario: &Scenario) -> Result<RunDistributed, RunError> {
    let what = "only blocks of columns are simulated in several processes; run this scenario in one";
    family::of(scenario).run_distributed.ok_or_else(|| RunError::Scenario(what.to_owned()))
}

/// Checks that a scenario can be run by [`run_distributed`].
///
/// # Errors
/// The family of the scenario runs in one process only.
pub fn check_distributed(scenario: &Scenario) -> Result<(), RunError> {
    distributed(scenario).map(drop)
}

/// Runs a point in several processes, each of which calls this with the same point and has a part of the hosts. The first one gets the result.
///
/// # Errors
/// As [`run`]; the scenario is not about blocks of columns, or another process is gone.
pub fn run_distributed(
    point: &Point,
    options: RunOptions<'_>,
    ranks: &mut dyn Ranks,
    mut progress: impl FnMut(Progress),
) -> Result<Option<Box<dyn Measured>>, RunError> {
    distributed(&point.scenario)?(point, options, ranks, &mut progress)
}

/// From so many nodes on, runs are done one after the other, each on all threads: memory counts then.
pub const LARGE: u32 = 4000;

/// Whoever looks on while the points of a scenario are run. Points may be run at the same time, from several threads.
pub trait Watch: Sync {
    /// What looks on at one of them.
    fn begin<'a>(&'a self, point: &'a Point) -> impl WatchRun + 'a;
}

/// Whoever looks on at one point.
pub trait WatchRun {
    fn progress(&mut self, progress: Progress);

    /// Of teams that mix batches: all that hosts have told so far.
    fn rounds(&mut self, _told: &Rounds) {}

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
