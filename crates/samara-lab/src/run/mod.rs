//! Runs a point of a scenario in the simulator.

mod all;
mod experiment;
mod net;

use std::sync::atomic::AtomicBool;

use samara_sim::Ranks;
use thiserror::Error;

use crate::data::Inputs;
use crate::family::Watching;
use crate::mix::measure::Collector as Rounds;
use crate::results::Measured;
use crate::scenario::{Point, Scenario};

pub(crate) use experiment::{Setup, Step, Stepped, simulate};
pub(crate) use net::{Codec, Net};

pub use crate::columns::run::{ColumnsMeasured, columns_bound_ms};
pub use crate::group::run::{GroupMeasured, MemberOutcomes, Suspicion};
pub use crate::messages::run::{MessagesMeasured, Plan, message_bounds_ms};
pub use crate::mix::handover::run::{BatchTimes, HandoverMeasured, Mechanism};
pub use crate::mix::run::{FaultWindow, MixMeasured, ProcessorLook};
pub use crate::pool::run::{BlockRow, Clients, Submission, Totals, TransactionsMeasured, proposers, roles};
pub use all::{LARGE, Watch, WatchRun, run_all};

/// Why a run ended without a result.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum RunError {
    /// Something in the scenario does not fit; only building the network shows it.
    #[error("{0}")]
    Scenario(String),
    /// Several processes cannot go on together.
    #[error("{0}")]
    Together(String),
    /// It was interrupted.
    #[error("interrupted")]
    Interrupted,
}

/// How a run is done.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions<'a> {
    /// Threads of the simulation.
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
    /// Steps of the simulation.
    pub steps: Option<u64>,
}

/// How much of the run is simulated between two looks at the results.
pub(crate) const SLICE_NANOS: u64 = 50_000_000;
/// How long after the last copy a run that is complete is left alone, so that late duplicates are counted.
pub(crate) const QUIET_NANOS: u64 = 1_000_000_000;

/// Runs a point. `progress` is told how far the run is, after each slice of virtual time.
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

/// The same; of teams that mix batches, `rounds` is shown all that hosts have told so far, as often.
///
/// # Errors
/// As [`run`].
pub fn run_seen(
    point: &Point,
    options: RunOptions<'_>,
    mut progress: impl FnMut(Progress),
    mut rounds: impl FnMut(&Rounds),
) -> Result<Box<dyn Measured>, RunError> {
    run_any(point, options, &mut progress, &mut rounds)
}

/// Not generic, so that simulations are compiled once, here, and not in every program and test that runs one.
fn run_any(
    point: &Point,
    options: RunOptions<'_>,
    progress: &mut dyn FnMut(Progress),
    rounds: &mut dyn FnMut(&Rounds),
) -> Result<Box<dyn Measured>, RunError> {
    (point.scenario.family().run)(point, options, Watching { progress, rounds })
}

/// Whether a scenario can be run by [`run_together`].
///
/// # Errors
/// What is in the way.
pub fn check_together(scenario: &Scenario) -> Result<(), RunError> {
    let what = "only blocks of columns are simulated in several processes; run this scenario in one";
    let run = scenario.family().run_together;
    if run.is_none() { Err(RunError::Scenario(what.to_owned())) } else { Ok(()) }
}

/// Runs a point in several processes, each of which calls this with the same point and has a part of the hosts. The first one gets the result.
///
/// # Errors
/// As [`run`]; the scenario is not about blocks of columns, or another process is gone.
pub fn run_together(
    point: &Point,
    options: RunOptions<'_>,
    ranks: &mut dyn Ranks,
    mut progress: impl FnMut(Progress),
) -> Result<Option<Box<dyn Measured>>, RunError> {
    check_together(&point.scenario)?;
    match point.scenario.family().run_together {
        Some(run) => run(point, options, ranks, &mut progress),
        None => Ok(None),
    }
}
