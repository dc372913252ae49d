//! The registry of the families of experiments.
//!
//! A scenario selects a family by the one section that has the family's name
//! ([`samara_spec::family`]). The family runs what the scenario says, and measures it.

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
use crate::{columns, group, messages, mix, pool};

/// The observers of a point that is run.
pub(crate) struct Watching<'a> {
    /// Sees how far the run is, after each slice of virtual time.
    pub(crate) progress: &'a mut dyn FnMut(Progress),
    /// Sees all events of the hosts of a mix, as often.
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
    /// What scenarios say of it.
    pub spec: &'static FamilySpec,
    /// Everything that it can report.
    pub metrics: &'static [Metric],
    pub(crate) run: Run,
    pub(crate) run_distributed: Option<RunDistributed>,
    /// What it contributes to a page of its results.
    pub(crate) report: fn(&Loaded, &Findings) -> Body,
    /// The outcome with the metrics that set it beside one of the other runs with equal parameters, if there are such metrics
    /// and the run to compare with; the last argument is the scenario's first run.
    pub(crate) related: fn(&Outcome, &[&Outcome], &str) -> Option<Outcome>,
}

impl Family {
    /// What most families have; each one states its spec, metrics and run itself.
    pub(crate) const BASE: Self = Self {
        spec: &FamilySpec::BASE,
        metrics: &[],
        run: |_, _, _| Err(RunError::Interrupted),
        run_distributed: None,
        report: crate::sweep::plain,
        related: |_, _, _| None,
    };
}

impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spec.fmt(f)
    }
}

/// The measurements of a family as those of any family.
pub(crate) fn boxed<M: Measured + 'static>(measured: M) -> Box<dyn Measured> {
    Box::new(measured)
}

/// The families that come with Samara, in the order in which documentation lists them.
pub(crate) static BUILTIN: [&Family; 5] =
    [&columns::FAMILY, &messages::FAMILY, &pool::FAMILY, &group::FAMILY, &mix::FAMILY];

/// The families that programs have added.
static ADDED: RwLock<Vec<&'static Family>> = RwLock::new(Vec::new());

/// Lets scenarios select a family that does not come with Samara. A program does so once, before it
/// loads a scenario.
///
/// # Panics
/// If there is a family with this section.
pub fn register(family: Family) {
    samara_spec::family::register(family.spec);
    let mut added = ADDED.write().unwrap_or_else(PoisonError::into_inner);
    added.push(Box::leak(Box::new(family)));
}

/// All families, in the order in which documentation lists them.
pub fn all() -> Vec<&'static Family> {
    let added = ADDED.read().unwrap_or_else(PoisonError::into_inner);
    BUILTIN.iter().chain(added.iter()).copied().collect()
}

/// The family that a scenario selects.
pub(crate) fn of(scenario: &Scenario) -> &'static Family {
    let section = scenario.family().section;
    match all().into_iter().find(|family| family.spec.section == section) {
        Some(family) => family,
        None => unreachable!("[{section}] was registered"),
    }
}
