//! The machine-readable result. Its keys are described in `docs/json.md`; they are a contract.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::ReferenceFigures;
use crate::measure::Metrics;
use crate::run::{Finished, Job};
use crate::scenario::Scenario;

/// What `samara run --format json` prints and `summary.json` holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// The scenario's name.
    pub scenario: String,
    /// The version of Samara.
    pub version: String,
    /// The first run's seed.
    pub seed: u64,
    /// Hosts of the first run.
    pub nodes: u32,
    /// A digest of the digests of all runs.
    pub digest: String,
    /// Time on the clock for everything, in seconds.
    pub wall_s: f64,
    /// CPU time of the process, in seconds.
    pub cpu_s: f64,
    /// The most memory that was resident at a time.
    pub peak_rss_bytes: u64,
    /// Packets sent and received and timers fired, over all runs.
    pub steps: u64,
    /// The runs, in the order of the scenario: sweep values, then runs, then seeds.
    pub runs: Vec<RunDocument>,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunDocument {
    /// The run's name in the scenario.
    pub name: String,
    /// What reports call it.
    pub label: String,
    /// Hosts.
    pub nodes: u32,
    /// The seed, and the keys that differ from the scenario with their values.
    pub parameters: BTreeMap<String, Value>,
    /// Where it is in the sweep: the keys and values of its axes.
    #[serde(default)]
    pub point: BTreeMap<String, Value>,
    /// The figures.
    pub metrics: Metrics,
    /// A digest of its deliveries.
    pub digest: String,
    /// Packets sent and received and timers fired.
    pub steps: u64,
    /// Time on the clock, in seconds.
    pub wall_s: f64,
    /// CPU time, in seconds: that of the whole process while the run was under way.
    pub cpu_s: f64,
    /// Virtual time that went by, in seconds.
    pub virtual_s: f64,
    /// The publishing node.
    pub publisher: u32,
    /// What had to be adapted to run the scenario.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What was measured elsewhere in the same case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reference: Vec<ReferenceFigures>,
}

impl RunDocument {
    /// What is told of a finished run, without references.
    pub fn of(finished: &Finished) -> Self {
        let job = &finished.job;
        Self {
            name: job.run.run.name.clone(),
            label: job.run.run.label().to_owned(),
            nodes: finished.nodes,
            parameters: job.parameters(),
            point: job.swept(),
            metrics: finished.metrics.clone(),
            digest: format!("{:016x}", finished.digest),
            steps: finished.steps,
            wall_s: finished.wall_s,
            cpu_s: finished.cpu_s,
            virtual_s: finished.virtual_s,
            publisher: finished.publisher,
            notes: finished.notes.clone(),
            reference: Vec::new(),
        }
    }
}

impl Document {
    /// A document without figures of the process.
    pub fn new(scenario: &str, seed: u64, runs: Vec<RunDocument>) -> Self {
        Self {
            scenario: scenario.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            seed,
            nodes: runs.first().map_or(0, |run| run.nodes),
            digest: digest_of(runs.iter().map(|run| run.digest.as_str())),
            wall_s: 0.0,
            cpu_s: 0.0,
            peak_rss_bytes: 0,
            steps: runs.iter().map(|run| run.steps).sum(),
            runs,
        }
    }

    /// The most significant figures of a document without what differs from machine to machine: equal for equal runs.
    pub fn without_resources(&self) -> Self {
        let mut same = self.clone();
        (same.wall_s, same.cpu_s, same.peak_rss_bytes) = (0.0, 0.0, 0);
        same.runs.iter_mut().for_each(|run| (run.wall_s, run.cpu_s) = (0.0, 0.0));
        same
    }
}

/// The digest of several digests, in hexadecimal.
pub fn digest_of<'a>(digests: impl IntoIterator<Item = &'a str>) -> String {
    let mut value: u64 = 0xcbf2_9ce4_8422_2325;
    for digest in digests {
        for byte in digest.bytes() {
            value = (value ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    format!("{value:016x}")
}

/// Every run's whole configuration: enough to do it again, and to see what it was.
pub fn configuration(source: &str, scenario: &Scenario, jobs: &[Job]) -> Value {
    let run = |job: &Job| json!({ "name": job.name(), "seed": job.seed, "scenario": job.run.scenario });
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "source": source,
        "scenario": scenario,
        "runs": jobs.iter().map(run).collect::<Vec<_>>(),
    })
}

/// A scenario as TOML, with all defaults written out.
///
/// # Errors
/// A scenario that TOML has no form for.
pub fn to_toml(scenario: &Scenario) -> Result<String, toml::ser::Error> {
    toml::to_string_pretty(scenario)
}
