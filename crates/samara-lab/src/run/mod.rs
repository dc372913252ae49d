//! Runs a point of a scenario in the simulator.

mod all;
mod experiment;
mod net;

use std::sync::atomic::AtomicBool;

use samara_sim::Ranks;
use thiserror::Error;

use crate::family::{RunDistributed, Watching};
use crate::mix::measure::Collector as Rounds;
use crate::results::Measured;
use crate::scenario::{Point, Scenario};
use samara_scenario::Inputs;

pub(crate) use experiment::{Setup, Step, Stepped, simulate};
pub(crate) use net::{Codec, Net};

pub use crate::columns::run::{ColumnsMeasured, columns_bound_ms};
pub use crate::group::run::{GroupMeasured, MemberOutcomes, Suspicion};
pub use crate::messages::run::{MessagesMeasured, Plan, message_bounds_ms};
pub use crate::mix::run::{FaultWindow, Mechanism, MixMeasured, ProcessorLook};
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
    Distributed(String),
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
    (point.scenario.family().run)(point, options, watching)
}

fn distributed(scenario: &Scenario) -> Result<RunDistributed, RunError> {
    let what = "only blocks of columns are simulated in several processes; run this scenario in one";
    scenario.family().run_distributed.ok_or_else(|| RunError::Scenario(what.to_owned()))
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
