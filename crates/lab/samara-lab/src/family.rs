//! The registry of the families of experiments.
//!
//! The section of a scenario that has a family's name selects that family
//! ([`samara_scenario::family`]). The family runs the scenario and measures it.

use std::fmt;
use std::sync::{PoisonError, RwLock};

use samara_document::ScenarioError;
use samara_hosts::Layer;
use samara_scenario::family::{self as sections, FamilySpec};
use samara_scenario::{Loaded, Point, Scenario};
use samara_sim::Ranks;

use crate::experiment::Experiment;
use crate::metric::{Metric, declared};
use crate::page::PageSpec;
#[cfg(feature = "hosted")]
use crate::processes;
use crate::processes::{Fleet, ScriptOf, check_briefing, run_in_processes, script};
use crate::reference::Arrivals;
use crate::results::{Measured, Outcome};
use crate::run::{RunError, RunOptions, WatchSteps, run_alone, run_as_one_of};
use crate::torture::Draw;

/// Runs a point in one process.
pub type RunAlone = fn(&Point, RunOptions<'_>, WatchSteps<'_>) -> Result<Box<dyn Measured>, RunError>;
/// Simulates a point in several processes, of which this is one. Only the first returns measurements.
pub type RunAsOneOf =
    fn(&Point, RunOptions<'_>, &mut dyn Ranks, WatchSteps<'_>) -> Result<Option<Box<dyn Measured>>, RunError>;
/// Runs a point on real processes. Also returns how much later than planned each command was carried
/// out, in milliseconds.
pub type RunOnFleet = fn(
    &Point,
    RunOptions<'_>,
    &mut dyn Fleet,
    WatchSteps<'_>,
) -> Result<(Box<dyn Measured>, Vec<f64>), RunError>;
/// Checks that programs of others can be hosts of a point.
pub type CheckBriefing = fn(&Point, RunOptions<'_>) -> Result<(), RunError>;
/// Runs one host of a point in this process.
#[cfg(feature = "hosted")]
pub type RunHost = fn(&Point, RunOptions<'_>, u32, processes::Input) -> Result<(), RunError>;

/// The ways to run an experiment.
#[derive(Clone, Copy, Debug)]
pub struct Runs {
    pub(crate) alone: RunAlone,
    pub(crate) as_one_of: RunAsOneOf,
    pub(crate) on_fleet: RunOnFleet,
    pub(crate) check_briefing: CheckBriefing,
    pub(crate) script: ScriptOf,
    pub(crate) layer: Layer,
    #[cfg(feature = "hosted")]
    pub(crate) host: RunHost,
}

impl Runs {
    /// Returns those of an experiment.
    pub fn of<E: Experiment>() -> Self {
        Self {
            alone: |point, options, watch| Ok(Box::new(run_alone::<E>(point, options, watch)?)),
            as_one_of: |point, options, ranks, watch| {
                let measured = run_as_one_of::<E>(point, options, ranks, watch)?;
                Ok(measured.map(|measured| Box::new(measured) as Box<dyn Measured>))
            },
            on_fleet: run_in_processes::<E>,
            check_briefing: check_briefing::<E>,
            script: script::<E>,
            layer: E::worlds().sockets.layer,
            #[cfg(feature = "hosted")]
            host: processes::host::<E>,
        }
    }

    /// Runs in one process by another function.
    #[must_use]
    pub fn with_alone(self, alone: RunAlone) -> Self {
        Self { alone, ..self }
    }
}

/// A family of experiments: the section that selects it, and what a program does with its results.
pub struct Family {
    /// The family's part of the scenario format.
    pub spec: &'static FamilySpec,
    /// All metrics that it can report.
    pub metrics: &'static [Metric],
    /// Returns the experiment of a scenario: [`Runs::of`]. Different protocols may have different ones.
    pub runs: fn(&Scenario) -> Runs,
    /// Whether no run is better than the bounds among the metrics. Otherwise they hold for a run's
    /// steady state, which a short run does not have.
    pub has_strict_bounds: bool,
    /// Values of a scenario that are measured on this machine before it runs.
    pub calibration: Calibration,
    /// Draws a scenario for a search for broken promises. Returns false if the family has none.
    pub draw: fn(&mut Draw) -> bool,
    /// Declares the family's part of a page of results.
    pub page: &'static PageSpec,
    /// Adds the metrics that relate an outcome to another run with equal parameters.
    ///
    /// The last argument is the scenario's first run. `None` if the family has no such metrics, or
    /// the other run is missing.
    pub related: fn(&Outcome, &[&Outcome], &str) -> Option<Outcome>,
    /// Returns the times and copies of an outcome that a measurement of a real network can stand
    /// beside; `None` for families without such measurements.
    pub arrivals: fn(&Outcome) -> Option<Arrivals>,
    /// The metrics that count missing or wrong results: one above zero fails the result.
    pub lacks: &'static [&'static str],
    /// The metrics that exist only beside the scenario's first run.
    pub beside_first: &'static [&'static str],
    /// The condition of what a run waits for, such as a deadline, if metrics cover only what met it.
    pub deadline: Option<Deadline>,
}

/// The metrics of a deadline, or of another condition that some metrics require.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    /// The share of what made it.
    pub share: &'static str,
    /// What makes it or misses it, in the plural.
    pub items: &'static str,
    /// How these make it: "were in time".
    pub made: &'static str,
    /// What the survivors cover, such as "what arrived in time".
    pub covered: &'static str,
    /// The metrics that cover only what made it.
    pub survivors: &'static [&'static str],
    /// Whether a sweep in which something misses it goes by the share. Otherwise it only marks the
    /// survivors.
    pub leads: bool,
}

/// How a family measures values of a scenario on this machine.
#[derive(Clone, Copy, Debug)]
pub struct Calibration {
    /// Returns true if the scenario requests it.
    pub is_wanted: fn(&Loaded) -> bool,
    /// Measures the values and writes them into the scenario, as if the user had set them. Returns them
    /// in words; `None` if the scenario requests nothing.
    pub measure: Measure,
}

/// See [`Calibration::measure`]. The error names what cannot be measured.
pub type Measure = fn(&mut Loaded) -> Result<Option<String>, ScenarioError>;

impl Family {
    /// Defaults of most families; each one states its spec, metrics and runs.
    pub const BASE: Self = Self {
        spec: &FamilySpec::BASE,
        metrics: &[],
        runs: |_| unreachable!("each family states its experiments"),
        has_strict_bounds: true,
        calibration: Calibration { is_wanted: |_| false, measure: |_| Ok(None) },
        draw: |_| false,
        page: &PageSpec::BASE,
        related: |_, _, _| None,
        arrivals: |_| None,
        lacks: &[],
        beside_first: &[],
        deadline: None,
    };

    /// Checks that the family declares all metrics that it names.
    ///
    /// # Panics
    /// If it does not.
    fn check(&self) {
        self.page.check(self);
        if let Some(Deadline { share, survivors, .. }) = &self.deadline {
            for metric in [share].into_iter().chain(*survivors) {
                declared(metric, Some(self)).unwrap_or_else(|error| panic!("the deadline: {error}"));
            }
        }
    }
}

impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spec.fmt(f)
    }
}

/// The families of the program, as [`samara_scenario::family`] has them.
static BASE: RwLock<Vec<&'static Family>> = RwLock::new(Vec::new());
static ADDED: RwLock<Vec<&'static Family>> = RwLock::new(Vec::new());

fn read(families: &RwLock<Vec<&'static Family>>) -> Vec<&'static Family> {
    families.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Registers the families that a program is made of, in the order of the documentation. Further calls
/// have no effect.
///
/// # Panics
/// If a family that was added has the section of one of them, or one names an undeclared metric.
pub fn set_base(families: &[&'static Family]) {
    families.iter().for_each(|family| family.check());
    sections::set_base(families.iter().map(|family| family.spec));
    let mut base = BASE.write().unwrap_or_else(PoisonError::into_inner);
    if base.is_empty() {
        base.extend(families);
    }
}

/// Adds a family to those of the program, so that scenarios can select it.
///
/// A program calls this once, before it loads a scenario.
///
/// # Panics
/// If a family with this section exists, or it names an undeclared metric.
pub fn register(family: Family) {
    family.check();
    sections::register(family.spec);
    let mut added = ADDED.write().unwrap_or_else(PoisonError::into_inner);
    added.push(Box::leak(Box::new(family)));
}

/// Returns all families: those of the program in the order of the documentation, then the added ones.
pub fn all() -> Vec<&'static Family> {
    let mut all = read(&BASE);
    all.extend(read(&ADDED));
    all
}

/// Returns the families that were added to those of the program.
pub fn added() -> Vec<&'static Family> {
    read(&ADDED)
}

/// Returns the family of a scenario.
///
/// # Panics
/// If its section is not registered.
pub fn of(scenario: &Scenario) -> &'static Family {
    let section = scenario.family().section;
    let registered = all().into_iter().find(|family| family.spec.section == section);
    registered.expect("the section of a scenario was registered")
}

/// Returns the experiment of a scenario.
pub fn runs(scenario: &Scenario) -> Runs {
    (of(scenario).runs)(scenario)
}
