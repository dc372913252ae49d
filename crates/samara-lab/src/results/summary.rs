//! The machine-readable summary: one JSON document, described in `docs/results.md`, and the comparisons beside it.

use std::time::Instant;

use samara_spec::{Loaded, Point, json};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{Outcome, relate};
use crate::expect::{Expectation, ExpectationResult};
use crate::reference::{self, Comparison, PublishedComparison};
use crate::statistics::Statistics;
use crate::usage;

/// The document that `--format json` prints and `summary.json` holds.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The scenario's name.
    pub scenario: String,
    /// The version of Samara.
    pub version: String,
    /// The first seed.
    pub seed: u64,
    /// The number of nodes of the first run.
    pub nodes: u32,
    /// A digest of all runs: equal digests mean equal runs.
    pub digest: String,
    /// How long it took.
    pub wall_s: f64,
    /// Processor time of the whole process.
    pub cpu_s: f64,
    /// Peak memory of the process.
    pub peak_rss_bytes: u64,
    /// Steps of all simulations.
    pub steps: u64,
    /// What each process had to do, where several simulated one network together.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<ProcessUse>,
    pub runs: Vec<Run>,
}

/// What one of several processes had to do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ProcessUse {
    /// Hosts that it simulated.
    pub hosts: u32,
    /// Its processor time. Waiting for others takes some, too.
    pub cpu_s: f64,
    /// How long it waited for others, and for what they sent.
    pub waited_s: f64,
    /// Bytes that it sent to others.
    pub sent_bytes: u64,
    /// The most memory that it has had.
    pub peak_rss_bytes: u64,
}

/// What is known of a run on real nodes beyond its figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RealRun {
    /// The programs that the nodes were, in turn.
    pub programs: Vec<String>,
    /// From the last dial until links and meshes were there.
    pub ready_s: f64,
    /// How much later than planned publications were made.
    pub publish_error_ms: Option<Statistics>,
    /// Processor time of a node's process, from its start to its end.
    pub node_cpu_s: Option<Statistics>,
    /// The most memory of a node's process.
    pub node_peak_rss_bytes: Option<Statistics>,
    /// The most open files and sockets of a node's process.
    pub node_open_fds: Option<Statistics>,
    /// Of batches that are mixed: processors that the busiest node took while payloads were on their way. One that has `mix.cores` of its own can
    /// do no more than that many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busiest_node_cpu_share: Option<f64>,
    /// The share of all processors of the machine that nodes, sender and emulated links took together meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_cpu_share: Option<f64>,
    /// The share of one processor that emulating links took.
    pub relay_cpu_share: Option<f64>,
    /// How late emulated links were, of 99 in 100 packets at most.
    pub relay_late_p99_ms: Option<f64>,
    /// Reasons to distrust the figures.
    pub doubts: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Its name in the scenario.
    pub name: String,
    /// What sets it apart: its seed, the values of the sweep, and what the variant changes.
    pub parameters: Map<String, Value>,
    /// A digest of every packet that every host received; zero for real nodes.
    pub digest: String,
    /// Steps of the simulation; zero for real nodes.
    pub steps: u64,
    /// The figures by their names; those that were not measured are null.
    pub metrics: Value,
    /// What is known beyond that of a run on real nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub real: Option<RealRun>,
}

impl Run {
    /// The entry of a run at a point. `parameter` says how much there was to do.
    pub(crate) fn new(
        point: &Point,
        digest: u64,
        steps: u64,
        (key, value): (&str, Value),
        metrics: Value,
    ) -> Self {
        let mut parameters = Map::new();
        parameters.insert("seed".to_owned(), point.seed.into());
        parameters.insert("nodes".to_owned(), point.scenario.network.nodes.into());
        parameters.insert("uplink_bps".to_owned(), point.scenario.network.uplink.bps().into());
        parameters.insert(key.to_owned(), value);
        for (key, value) in &point.sweep {
            parameters.insert(key.clone(), json(value));
        }
        Self {
            name: point.run.clone(),
            parameters,
            digest: format!("{digest:016x}"),
            steps,
            metrics,
            real: None,
        }
    }
}

/// The digest of several runs in their order (FNV-1a over their digests).
pub fn combined_digest<'a>(digests: impl IntoIterator<Item = &'a str>) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in digests.into_iter().flat_map(str::bytes) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    format!("{hash:016x}")
}

/// The resources that a scenario took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Used {
    pub wall_s: f64,
    /// Processor time of the whole process, in seconds.
    pub cpu_s: f64,
    /// The most memory of the process.
    pub peak_rss_bytes: u64,
    /// The share of each process, where several simulated one network together.
    pub processes: Vec<ProcessUse>,
}

impl Used {
    /// The resources of this process up to now; the work began at `start`.
    pub fn since(start: Instant) -> Self {
        Self {
            wall_s: start.elapsed().as_secs_f64(),
            cpu_s: usage::cpu_seconds(),
            peak_rss_bytes: usage::peak_rss_bytes(),
            processes: Vec::new(),
        }
    }
}

/// The results of a scenario's runs, compared with each other, with references and with expectations.
#[derive(Clone, Debug)]
pub struct Findings {
    /// The machine-readable summary.
    pub summary: Summary,
    /// The runs that were not interrupted.
    pub results: Vec<Outcome>,
    /// Comparisons with measurements of real networks.
    pub comparisons: Vec<Comparison>,
    /// Comparisons with published figures.
    pub published: Vec<PublishedComparison>,
    /// The results of the scenario's expectations.
    pub checked: Vec<ExpectationResult>,
    /// Whether no run was interrupted.
    pub is_complete: bool,
}

impl Findings {
    /// Takes the results of all points; those that were interrupted are `None`.
    ///
    /// # Errors
    /// An expectation of the scenario does not parse, or a reference cannot be read.
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
            published: reference::published(loaded, &results),
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
