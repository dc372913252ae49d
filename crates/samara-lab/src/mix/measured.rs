//! What a scenario wants measured on the machine before it is run.

use crate::mix::app::measure;
use samara_scenario::ScenarioError;

use crate::scenario::{CostsKind, Loaded, Mix, PhaseCosts};

impl Loaded {
    /// Whether [`measure_costs`](Self::measure_costs) has something to do.
    pub fn wants_costs(&self) -> bool {
        let wants = |mix: Option<&Mix>| mix.is_some_and(|mix| mix.costs == CostsKind::Measured);
        wants(self.scenario.find()) || self.points.iter().any(|point| wants(point.scenario.find()))
    }

    /// Measures on this machine what work takes, where the scenario wants that, and writes it into the scenario as if it had been given: run
    /// again, it does the same. What was measured; `None` if nothing was to be.
    ///
    /// # Errors
    /// Single runs want it, or runs of several groups: the scenario could not say which was measured for which.
    pub fn measure_costs(&mut self) -> Result<Option<PhaseCosts>, ScenarioError> {
        if !self.wants_costs() {
            return Ok(None);
        }
        let groups =
            || self.points.iter().filter_map(|point| point.scenario.find::<Mix>()).map(|mix| mix.group);
        let is_one = groups().all(|group| Some(group) == groups().next());
        let (Some(mix), Some(group), true) = (self.scenario.find::<Mix>(), groups().next(), is_one) else {
            return Err(self.refuse("\"measured\" belongs to a scenario whose runs all have one group"));
        };
        let of_all = mix.costs == CostsKind::Measured;
        let has_own = |run: &crate::scenario::RunSpec| run.set.contains_key("mix.costs");
        if !of_all || self.scenario.runs.iter().any(has_own) {
            return Err(self.refuse("\"measured\" belongs to the whole scenario, not to a run"));
        }
        let costs = measure(group);
        let points = self.points.iter_mut().map(|point| &mut point.scenario);
        for mix in points.chain([&mut self.scenario]).filter_map(|scenario| scenario.find_mut::<Mix>()) {
            mix.costs = CostsKind::Documented;
            mix.cpu = mix.cpu.or(&costs);
        }
        self.write()?;
        Ok(Some(costs))
    }

    fn refuse(&self, message: &str) -> ScenarioError {
        ScenarioError::one(&self.source, format!("mix.costs: {message}"))
    }
}
