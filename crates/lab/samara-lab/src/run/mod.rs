//! Runs a point of a scenario in the simulator.

mod course;
mod net;
mod setup;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use samara_engine::lock;
use samara_sim::{HostStats, Ranks, RivalStats};
use thiserror::Error;

use crate::explain::{Explain, Explained, Mode, PATHS};
use crate::family;
use crate::network::Hosts;
#[cfg(feature = "hosted")]
use crate::processes;
use crate::processes::{Fleet, Script};
use crate::results::{Measured, Outcome, Table};
use crate::torture::Broken;
use samara_document::Inputs;
use samara_scenario::{Loaded, Point, Scenario};

pub(crate) use course::run_as_one_of;
pub use course::{Course, WatchSteps, run_alone};
pub(crate) use setup::Setup;

/// The reason why a run ended without a result.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum RunError {
    /// The network cannot be built, or the processes of a distributed run cannot continue.
    #[error("{0}")]
    Failed(String),
    #[error("interrupted")]
    Interrupted,
}

#[derive(Clone, Copy, Debug)]
pub struct RunOptions<'a> {
    pub threads: usize,
    /// The source of the files that the scenario names.
    pub inputs: &'a Inputs,
    /// Another thread sets this to stop the run.
    pub stop: &'a AtomicBool,
    /// The record of the deliveries.
    pub explain: &'a Explain,
    /// The figures of the run's rivals: [`run`] adds them to the outcome.
    pub rivals: &'a Mutex<Vec<RivalStats>>,
    /// Whether the hosts are processes.
    pub in_processes: bool,
    /// Whether engines check their invariants after each input.
    pub check_invariants: bool,
}

impl<'a> RunOptions<'a> {
    /// Returns options of a run that nothing stops, and whose deliveries are not explained.
    pub fn new(threads: usize, inputs: &'a Inputs) -> Self {
        static STOP: AtomicBool = AtomicBool::new(false);
        static EXPLAIN: Explain = Explain::new(Mode::Off);
        static RIVALS: Mutex<Vec<RivalStats>> = Mutex::new(Vec::new());
        Self {
            threads,
            inputs,
            stop: &STOP,
            explain: &EXPLAIN,
            rivals: &RIVALS,
            in_processes: false,
            check_invariants: false,
        }
    }
}

/// The progress of a run. Values that a family does not have are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Share of the run that is done, from 0 to 1.
    pub share: f64,
    /// Simulated nanoseconds.
    pub virtual_nanos: Option<u64>,
    /// Number of required deliveries so far.
    pub deliveries: Option<u64>,
    /// Total number of required deliveries.
    pub deliveries_expected: Option<u64>,
    /// Number of copies that arrived, including redundant ones.
    pub copies: Option<u64>,
    pub steps: Option<u64>,
    /// The totals at the end of a run in one process.
    pub audit: Option<Audit>,
}

/// Totals of a run over all hosts, since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Audit {
    /// Simulated nanoseconds.
    pub virtual_nanos: u64,
    pub packets_sent: u64,
    pub packets_received: u64,
    pub packets_dropped: u64,
    pub frames_sent: u64,
    pub frames_received: u64,
    pub frames_lost: u64,
    /// Lanes of outboxes whose counters do not add up.
    pub unbalanced: u64,
}

/// Virtual time between two checks of the results.
pub const SLICE_NANOS: u64 = 50_000_000;
/// Time that a complete run continues after the last copy, so that late duplicates are counted.
pub const QUIET_NANOS: u64 = 1_000_000_000;

/// Returns the traffic of each host since an earlier count; all of it without one.
pub fn since(before: &[HostStats], now: Vec<HostStats>) -> Vec<HostStats> {
    let since = |(at, now): (usize, HostStats)| before.get(at).map_or(now, |before| now.since(before));
    now.into_iter().enumerate().map(since).collect()
}

/// Runs a point. After each slice of virtual time, `watch` receives the progress, and the
/// [state](crate::experiment::Experiment::state) of the experiment if it has one.
pub fn run(
    point: &Point,
    options: RunOptions<'_>,
    mut watch: impl FnMut(Progress, Option<&dyn Any>),
) -> Result<Box<dyn Measured>, RunError> {
    let rivals = Mutex::default();
    let options = RunOptions { rivals: &rivals, ..options };
    let measured = (family::runs(&point.scenario).alone)(point, options, &mut watch)?;
    let rivals = std::mem::take(&mut *lock(&rivals));
    let paths = match options.explain.take() {
        Some(explained) => Paths::Found(explained),
        None if options.explain.is_wanted() => Paths::Missing,
        None if rivals.is_empty() => return Ok(measured),
        None => Paths::Unwanted,
    };
    Ok(Box::new(Recorded { measured, paths, rivals }))
}

/// The paths of the deliveries of a run.
#[derive(Debug)]
pub(crate) enum Paths {
    Unwanted,
    /// The run had no delivery to explain.
    Missing,
    Found(Explained),
}

/// The measurements of a family, with the records of the network.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) measured: Box<dyn Measured>,
    pub(crate) paths: Paths,
    pub(crate) rivals: Vec<RivalStats>,
}

impl Measured for Recorded {
    fn setting(&self) -> (&Point, &Hosts) {
        self.measured.setting()
    }

    fn outcome(&self) -> Outcome {
        let outcome = self.measured.outcome().beside(&self.rivals);
        match &self.paths {
            Paths::Found(explained) => outcome.explained(explained),
            Paths::Missing => outcome.without(PATHS, Some("there are no deliveries to explain".to_owned())),
            Paths::Unwanted => outcome,
        }
    }

    fn tables<'a>(&'a self, outcome: &'a Outcome) -> Vec<Table<'a>> {
        let mut tables = self.measured.tables(outcome);
        tables.extend(self.explained().map(Explained::table));
        tables
    }

    fn explained(&self) -> Option<&Explained> {
        match &self.paths {
            Paths::Found(explained) => Some(explained),
            Paths::Missing | Paths::Unwanted => None,
        }
    }

    fn broken(&self) -> Vec<Broken> {
        self.measured.broken()
    }
}

/// Checks that [`run_distributed`] supports a scenario.
///
/// # Errors
/// The scenario has a fault that needs all hosts in one process.
pub fn check_distributed(scenario: &Scenario) -> Result<(), RunError> {
    let Some(index) = scenario.faults.iter().position(|fault| fault.kind.rival().is_some()) else {
        return Ok(());
    };
    let what =
        "uploads, calls and second nodes run in one process; remove it, or run this scenario in one process";
    Err(RunError::Failed(format!("fault.{index}.kind: {what}")))
}

/// Runs a point in several processes.
///
/// Each calls this function with the same point and simulates a part of the hosts. The first
/// process returns the result.
///
/// # Errors
/// Returns an error in the same cases as [`run`], if the protocol has no encoding of frames, or if
/// another process is gone.
pub fn run_distributed(
    point: &Point,
    options: RunOptions<'_>,
    ranks: &mut dyn Ranks,
    mut progress: impl FnMut(Progress),
) -> Result<Option<Box<dyn Measured>>, RunError> {
    check_distributed(&point.scenario)?;
    (family::runs(&point.scenario).as_one_of)(point, options, ranks, &mut |done, _| progress(done))
}

/// Runs a point on real processes. Also returns how much later than planned each command was carried
/// out, in milliseconds.
///
/// # Errors
/// The run cannot be planned, a host failed, or the run was interrupted.
pub fn run_on(
    point: &Point,
    options: RunOptions<'_>,
    fleet: &mut dyn Fleet,
    mut progress: impl FnMut(Progress),
) -> Result<(Box<dyn Measured>, Vec<f64>), RunError> {
    (family::runs(&point.scenario).on_fleet)(point, options, fleet, &mut |done, _| progress(done))
}

/// Checks that programs of others can be hosts of a point.
///
/// # Errors
/// Names the key that no briefing has.
pub fn check_programs(point: &Point, options: RunOptions<'_>) -> Result<(), RunError> {
    (family::runs(&point.scenario).check_briefing)(point, options)
}

/// Returns the orders to the hosts of a point that are known before the run.
///
/// # Errors
/// The run cannot be planned, hosts cannot run it, or its commands follow from events.
pub fn script(point: &Point, options: RunOptions<'_>) -> Result<Script, RunError> {
    (family::runs(&point.scenario).script)(point, options)
}

/// Runs one host of a point in this process: takes orders, and tells what happens on standard output.
///
/// # Errors
/// The run cannot be planned, its frames have no encoding, or an order is not valid.
#[cfg(feature = "hosted")]
pub fn run_host(
    point: &Point,
    options: RunOptions<'_>,
    host: u32,
    orders: processes::Input,
) -> Result<(), RunError> {
    (family::runs(&point.scenario).host)(point, options, host, orders)
}

/// Number of nodes above which runs are sequential, each on all threads, because of their memory.
pub const LARGE: u32 = 4000;

/// Observes the runs of a scenario. Several threads may run points at the same time.
pub trait Watch: Sync {
    fn begin<'a>(&'a self, point: &'a Point) -> impl WatchRun + 'a;
}

/// Observes the run of one point.
pub trait WatchRun {
    fn progress(&mut self, progress: Progress);

    /// Receives the [state](crate::experiment::Experiment::state) of an experiment that has one.
    fn state(&mut self, _state: &dyn Any) {}

    /// Receives the complete measurements and the outcome.
    ///
    /// # Errors
    /// Returns an error if the measurements cannot be stored; no further points run then.
    fn measured(&mut self, measured: &dyn Measured, outcome: &Outcome) -> Result<(), String>;

    /// Ends the observation. Not called after an interruption or an error of
    /// [`measured`](Self::measured).
    fn end(self, is_done: bool);
}

/// Runs all points of a scenario. Interrupted ones are `None`.
///
/// `explain` says which deliveries to explain. Small points run in parallel; large ones run one after the other, each on all threads.
///
/// # Errors
/// Returns the error of the first run that fails; the others are stopped then.
pub fn run_all<W: Watch>(
    loaded: &Loaded,
    (threads, explain): (usize, Mode),
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
            let explain = &Explain::new(explain);
            let threads = (threads / workers).max(1);
            let options = RunOptions { stop, explain, ..RunOptions::new(threads, &loaded.inputs) };
            let watched = RefCell::new(watch.begin(point));
            let ended = Cell::new(None);
            let seen = |progress: Progress, state: Option<&dyn Any>| {
                ended.set(progress.virtual_nanos);
                let mut watched = watched.borrow_mut();
                watched.progress(progress);
                if let Some(state) = state {
                    watched.state(state);
                }
            };
            // A protocol of somebody else may panic. The panic has written its place and message.
            let done = catch_unwind(AssertUnwindSafe(|| run(point, options, seen)));
            let done = done.unwrap_or_else(|_| {
                let text = format!(
                    "the protocol or the simulator has panicked with seed {}; RUST_BACKTRACE=1 shows the calls, and \
                     `torture` looks for a smaller scenario that panics",
                    point.seed
                );
                Err(RunError::Failed(text))
            });
            let mut watched = watched.into_inner();
            match done {
                Ok(measured) => {
                    let outcome = measured.outcome().ended_at(ended.get());
                    match watched.measured(&*measured, &outcome) {
                        Ok(()) => {
                            *lock(&results[index]) = Some(outcome);
                            watched.end(true);
                        }
                        Err(message) => fail(message),
                    }
                }
                Err(RunError::Interrupted) => return,
                Err(RunError::Failed(error)) => {
                    watched.end(false);
                    fail(format!("{}: run {}: {error}", loaded.source, point.name()));
                }
            }
        }
    };
    with_threads(workers, work);
    if let Some(message) = lock(&failure).take() {
        return Err(message);
    }
    let inner = |result: Mutex<Option<Outcome>>| result.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(results.into_iter().map(inner).collect())
}

/// Calls a function on this thread and on further ones, `threads` in all, or as many as the system
/// starts.
pub fn with_threads(threads: usize, work: impl Fn() + Sync) {
    let work = &work;
    std::thread::scope(|scope| {
        let _ =
            (1..threads).try_for_each(|_| std::thread::Builder::new().spawn_scoped(scope, work).map(drop));
        work();
    });
}
