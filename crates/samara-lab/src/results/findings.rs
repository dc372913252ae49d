//! What came out of all runs of a scenario, with all that is said of it.

use std::time::Instant;

use super::{Outcome, ProcessUse, Summary, combined_digest, relate};
use crate::reference::{self, Comparison, KnownComparison};
use crate::scenario::{Expectation, ExpectationResult, Loaded};
use crate::usage;

/// What it took to run a scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Used {
    /// How long it took, in seconds.
    pub wall_s: f64,
    /// Processor time of the whole process, in seconds.
    pub cpu_s: f64,
    /// The most memory that the process has had.
    pub peak_rss_bytes: u64,
    /// What each process had to do, where several simulated one network together.
    pub processes: Vec<ProcessUse>,
}

impl Used {
    /// What this process has used up to now, of which the work began at `start`.
    pub fn since(start: Instant) -> Self {
        Self {
            wall_s: start.elapsed().as_secs_f64(),
            cpu_s: usage::cpu_seconds(),
            peak_rss_bytes: usage::peak_rss_bytes(),
            processes: Vec::new(),
        }
    }
}

/// The results of a scenario's runs, beside each other, references and expectations.
#[derive(Clone, Debug)]
pub struct Findings {
    /// The machine-readable summary.
    pub summary: Summary,
    /// Those that were not interrupted.
    pub results: Vec<Outcome>,
    /// Beside measurements of real networks.
    pub comparisons: Vec<Comparison>,
    /// Beside figures that others have published.
    pub known: Vec<KnownComparison>,
    /// What has become of the scenario's expectations.
    pub checked: Vec<ExpectationResult>,
    /// Whether no run was interrupted.
    pub is_complete: bool,
}

impl Findings {
    /// Takes the results of all points; those that were interrupted are `None`.
    ///
    /// # Errors
    /// An expectation of the scenario is none, or a reference cannot be read.
    pub fn of(loaded: &Loaded, results: Vec<Option<Outcome>>, used: Used) -> Result<Self, String> {
        let expectations = Expectation::all_of(loaded)?;
        let mut results: Vec<Outcome> = results.into_iter().flatten().collect();
        relate(loaded, &mut results);
        let checked = results.iter().flat_map(|result| {
            let metrics = result.run.metrics.clone();
            let of_run = |expectation: &Expectation| expectation.check(&result.run.name, &metrics);
            expectations.iter().filter_map(of_run).collect::<Vec<_>>()
        });
        Ok(Self {
            checked: checked.collect(),
            comparisons: reference::compare(loaded, &results)?,
            known: reference::known(loaded, &results),
            summary: summary(loaded, &results, used),
            is_complete: results.len() == loaded.points.len(),
            results,
        })
    }
}

fn summary(loaded: &Loaded, results: &[Outcome], used: Used) -> Summary {
    let first = loaded.points.first();
    Summary {
        scenario: loaded.scenario.scenario.name.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        seed: first.map_or(0, |point| point.seed),
        nodes: first.map_or(0, |point| point.scenario.network.nodes),
        digest: combined_digest(results.iter().map(|result| result.run.digest.as_str())),
        wall_s: used.wall_s,
        cpu_s: used.cpu_s,
        peak_rss_bytes: used.peak_rss_bytes,
        steps: results.iter().map(|result| result.run.steps).sum(),
        processes: used.processes,
        runs: results.iter().map(|result| result.run.clone()).collect(),
    }
}
