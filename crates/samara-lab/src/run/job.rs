//! Which run at which point of a sweep with which seed.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::scenario::{Coordinate, Plan, PlannedRun};

/// One thing to do: a run, at a point of a sweep, with a seed.
#[derive(Clone, Debug)]
pub struct Job {
    /// The run, with its scenario.
    pub run: PlannedRun,
    /// The point of the sweep.
    pub coordinates: Vec<Coordinate>,
    /// The seed.
    pub seed: u64,
}

impl Job {
    /// All that a plan asks for, in the order of its points, then its runs, then its seeds; of the runs only these, if any
    /// are named.
    pub fn all(plan: &Plan, only: &[String]) -> Vec<Self> {
        let mut jobs = Vec::new();
        for point in &plan.points {
            for run in &point.runs {
                if !only.is_empty() && !only.contains(&run.run.name) {
                    continue;
                }
                let coordinates = &point.coordinates;
                jobs.extend(plan.scenario.scenario.seeds.iter().map(|seed| Self {
                    run: run.clone(),
                    coordinates: coordinates.clone(),
                    seed: *seed,
                }));
            }
        }
        jobs
    }

    /// The name of the run, with the point of the sweep: `batch, 20 Mbit/s`.
    pub fn name(&self) -> String {
        let coordinates = self.coordinates.iter().map(Coordinate::text);
        std::iter::once(self.run.run.name.clone()).chain(coordinates).collect::<Vec<_>>().join(", ")
    }

    /// What the run sets, then what the sweep sets, then the seed.
    pub fn parameters(&self) -> BTreeMap<String, Value> {
        let mut parameters = self.swept();
        parameters.extend(self.run.run.set.iter().map(|(key, value)| (key.clone(), value.clone())));
        parameters.insert("seed".to_owned(), json!(self.seed));
        parameters
    }

    /// What the sweep sets.
    pub fn swept(&self) -> BTreeMap<String, Value> {
        let set = self.coordinates.iter().flat_map(|coordinate| &coordinate.set);
        set.map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}
