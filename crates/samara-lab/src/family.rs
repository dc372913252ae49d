//! The families of experiments: the one list of what a scenario can be about.

use samara_sim::Ranks;

use crate::metric::Metric;
use crate::mix::measure::Collector;
use crate::results::Measured;
use crate::run::{Progress, RunError, RunOptions};
use crate::scenario::{Checks, Point, Scenario};
use crate::{columns, group, messages, mix, pool};

/// Who looks on while a point is run.
pub(crate) struct Watching<'a> {
    /// Sees how far the run is, after each slice of virtual time.
    pub(crate) progress: &'a mut dyn FnMut(Progress),
    /// Sees all that the hosts of a mix have told so far, as often.
    pub(crate) rounds: &'a mut dyn FnMut(&Collector),
}

type Run = fn(&Point, RunOptions<'_>, Watching<'_>) -> Result<Box<dyn Measured>, RunError>;
type RunTogether = fn(
    &Point,
    RunOptions<'_>,
    &mut dyn Ranks,
    &mut dyn FnMut(Progress),
) -> Result<Option<Box<dyn Measured>>, RunError>;

/// A family of experiments.
pub struct Family {
    /// The section of a scenario that selects it.
    pub section: &'static str,
    /// Everything that it can report.
    pub metrics: &'static [Metric],
    /// Whether hosts have the links of `network.topology`; other families make their own.
    pub has_topology: bool,
    /// Whether each node keeps some columns.
    pub has_custody: bool,
    pub(crate) is_chosen: fn(&Scenario) -> bool,
    pub(crate) check: fn(&mut Checks<'_>, &Scenario),
    pub(crate) run: Run,
    /// Runs a point in several processes, if the family can.
    pub(crate) run_together: Option<RunTogether>,
}

/// All families. The last one is that of scenarios without a section of another one.
static FAMILIES: [&Family; 6] = [
    &mix::FAMILY,
    &mix::handover::FAMILY,
    &group::FAMILY,
    &pool::FAMILY,
    &messages::FAMILY,
    &columns::FAMILY,
];

/// All families, in the order in which documentation lists them.
pub(crate) fn all() -> impl Iterator<Item = &'static Family> {
    FAMILIES.into_iter().rev()
}

impl Scenario {
    /// The family of experiments that the scenario belongs to.
    pub fn family(&self) -> &'static Family {
        let chosen = FAMILIES.iter().find(|family| (family.is_chosen)(self));
        chosen.unwrap_or(&FAMILIES[FAMILIES.len() - 1])
    }
}

impl std::fmt::Debug for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.section)
    }
}

/// The measurements of a family as those of any family.
pub(crate) fn boxed<M: Measured + 'static>(measured: M) -> Box<dyn Measured> {
    Box::new(measured)
}
