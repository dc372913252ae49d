//! The registry of the families of experiments.
//!
//! The section of a scenario that has a family's name selects that family
//! ([`samara_spec::family`]). The family runs the scenario and measures it.

use std::fmt;
use std::sync::{PoisonError, RwLock};

use samara_sim::Ranks;
use samara_spec::family::FamilySpec;
use samara_spec::{Loaded, Point, Scenario};

use crate::metric::Metric;
use crate::mix::measure::Collector;
use crate::report::Body;
use crate::results::{Findings, Measured, Outcome};
use crate::run::{Progress, RunError, RunOptions};
use crate::sweep::LACKS;
use crate::torture::Draw;
use crate::{columns, group, messages, mix, pool};

/// The observers of a run.
pub(crate) struct Watching<'a> {
    /// Receives the progress of the run after each slice of virtual time.
    pub(crate) progress: &'a mut dyn FnMut(Progress),
    /// Receives the events of the hosts of a mix, at the same times.
    pub(crate) rounds: &'a mut dyn FnMut(&Collector),
}

type Run = fn(&Point, RunOptions<'_>, Watching<'_>) -> Result<Box<dyn Measured>, RunError>;
pub(crate) type RunDistributed = fn(
    &Point,
    RunOptions<'_>,
    &mut dyn Ranks,
    &mut dyn FnMut(Progress),
) -> Result<Option<Box<dyn Measured>>, RunError>;

pub struct Family {
    /// The family's part of the scenario format.
    pub spec: &'static FamilySpec,
    /// All metrics that it can report.
    pub metrics: &'static [Metric],
    pub(crate) run: Run,
    pub(crate) run_distributed: Option<RunDistributed>,
    /// Whether no run is better than the bounds among the metrics. Otherwise they hold for a run's
    /// steady state, which a short run does not have.
    pub(crate) has_strict_bounds: bool,
    /// Two runs whose difference a page explains, if both have paths: otherwise it takes the slowest
    /// and the fastest one.
    pub(crate) explained_pair: [&'static str; 2],
    /// Draws a scenario for a search for broken promises. Returns false if the family has none.
    pub(crate) draw: fn(&mut Draw) -> bool,
    /// Contributes the family's part to a page of results.
    pub(crate) report: fn(&Loaded, &Findings) -> Body,
    /// Adds the metrics that relate an outcome to another run with equal parameters.
    ///
    /// The last argument is the scenario's first run. `None` if the family has no such metrics, or
    /// the other run is missing.
    pub(crate) related: fn(&Outcome, &[&Outcome], &str) -> Option<Outcome>,
    /// The metrics that count missing or wrong results: one above zero fails the result.
    pub(crate) lacks: &'static [&'static str],
    /// The metrics that exist only beside the scenario's first run.
    pub(crate) beside_first: &'static [&'static str],
}

impl Family {
    /// Defaults of most families; each one states its spec, metrics and run.
    pub(crate) const BASE: Self = Self {
        spec: &FamilySpec::BASE,
        metrics: &[],
        run: |_, _, _| Err(RunError::Interrupted),
        run_distributed: None,
        has_strict_bounds: true,
        explained_pair: [""; 2],
        draw: |_| false,
        report: crate::sweep::plain,
        related: |_, _, _| None,
        lacks: &LACKS,
        beside_first: &[],
    };
}

impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spec.fmt(f)
    }
}

pub(crate) fn boxed<M: Measured + 'static>(measured: M) -> Box<dyn Measured> {
    Box::new(measured)
}

/// The families that come with Samara, in the order of the documentation.
pub(crate) static BUILTIN: [&Family; 5] =
    [&columns::FAMILY, &messages::FAMILY, &pool::FAMILY, &group::FAMILY, &mix::FAMILY];

/// The families that programs have registered.
static ADDED: RwLock<Vec<&'static Family>> = RwLock::new(Vec::new());

/// Registers a family that does not come with Samara, so that scenarios can select it.
///
/// A program calls this once, before it loads a scenario.
///
/// # Panics
/// Panics if a family with this section exists.
pub fn register(family: Family) {
    samara_spec::family::register(family.spec);
    let mut added = ADDED.write().unwrap_or_else(PoisonError::into_inner);
    added.push(Box::leak(Box::new(family)));
}

/// Returns all families, in the order of the documentation.
pub fn all() -> Vec<&'static Family> {
    let added = ADDED.read().unwrap_or_else(PoisonError::into_inner);
    BUILTIN.iter().chain(added.iter()).copied().collect()
}

pub(crate) fn of(scenario: &Scenario) -> &'static Family {
    let section = scenario.family().section;
    let registered = all().into_iter().find(|family| family.spec.section == section);
    registered.expect("the section of a scenario was registered")
}
