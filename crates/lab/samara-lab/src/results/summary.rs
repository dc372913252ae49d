//! The machine-readable summary: one JSON document, described in `docs/results.md`, and the related
//! comparisons.

use std::collections::BTreeMap;
use std::time::Instant;

use samara_document::Network;
use samara_report::Page;
use samara_scenario::{Loaded, Point, json};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Origin, Outcome, RivalFigures, relate};
use crate::expect::{Expectation, ExpectationResult};
use crate::explain::Means;
use crate::reference::{self, Comparison, PublishedComparison};
use crate::statistics::Statistics;
use crate::usage;

/// The document that `--format json` prints and `summary.json` holds.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    pub scenario: String,
    pub version: String,
    /// The first seed.
    pub seed: u64,
    /// The number of nodes of the first run.
    pub nodes: u32,
    /// A digest of all runs: equal digests mean equal runs.
    pub digest: String,
    #[serde(flatten)]
    pub headline: Headline,
    /// Wall-clock time in seconds.
    pub wall_s: f64,
    /// Processor time of the whole process, in seconds.
    pub cpu_s: f64,
    /// Peak memory of the process.
    pub peak_rss_bytes: u64,
    pub steps: u64,
    /// Resources of each process, if several simulated one network.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<ProcessUse>,
    pub runs: Vec<Run>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<PublishedComparison>,
}

/// A result's entry in an index, besides its scenario.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Headline {
    /// The origin of the result, if a command made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// The first sentence of the report.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub finding: String,
    /// The name of the report's main figure.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub figure: String,
    /// Whether the result is complete, nothing is missing, and no expectation fails.
    pub passes: bool,
    /// The number of expectations that hold, and of all that count.
    pub expectations: [usize; 2],
}

impl Headline {
    /// Takes the finding, the figure and the verdict of the result's page.
    pub fn take(&mut self, page: &Page, is_complete: bool) {
        self.passes = is_complete && !page.is_bad;
        self.finding = page.findings.first().cloned().unwrap_or_default();
        self.figure = page.figure.as_ref().map(|figure| figure.name.clone()).unwrap_or_default();
    }
}

/// Resources of one of several processes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ProcessUse {
    /// Number of hosts that it simulated.
    pub hosts: u32,
    /// Processor time in seconds, including busy waiting.
    pub cpu_s: f64,
    /// Time spent waiting for other processes and their data, in seconds.
    pub waited_s: f64,
    /// Bytes sent to other processes.
    pub sent_bytes: u64,
    /// Peak memory of the process.
    pub peak_rss_bytes: u64,
}

/// Additional information on a run with real nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RealRun {
    /// The programs of the nodes, in turn.
    pub programs: Vec<String>,
    /// Time from the last dial until links and meshes existed, in seconds.
    pub ready_s: f64,
    /// Delay of publications after their planned times.
    pub publish_error_ms: Option<Statistics>,
    /// Processor time of a node's process, from its start to its end.
    pub node_cpu_s: Option<Statistics>,
    /// Maximum share of a processor that a node's process used, over half a second or more.
    pub node_cpu_share_max: Option<Statistics>,
    /// Mean share of a processor that a node's process used while messages were in transit.
    pub node_cpu_share_mean: Option<Statistics>,
    /// Bytes that a node's process read and wrote, files and sockets together.
    pub node_io_bytes: Option<Statistics>,
    /// Peak memory of a node's process.
    pub node_peak_rss_bytes: Option<Statistics>,
    /// Maximum number of open files and sockets of a node's process.
    pub node_open_fds: Option<Statistics>,
    /// Share of one processor used for emulating links.
    pub relay_cpu_share: Option<f64>,
    /// 99th percentile of the delay of emulated links behind schedule.
    pub relay_late_p99_ms: Option<f64>,
    /// Reasons to doubt the figures.
    pub doubts: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Run {
    pub name: String,
    /// The parameters that distinguish the run: seed, values of the sweep, and changes of the
    /// variant.
    pub parameters: Map<String, Value>,
    /// Digest of all packets received by all hosts; zero for real nodes.
    pub digest: String,
    /// Number of steps of the simulation; zero for real nodes.
    pub steps: u64,
    /// The metrics by name; missing ones are null.
    pub metrics: Value,
    /// Where the time of the deliveries went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explained: Option<Means>,
    /// The tables that were not recorded, with the reasons.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub absent: BTreeMap<&'static str, String>,
    /// The numbers of faults that had no effect, since they began after the end of the run or of all its
    /// traffic.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub late_faults: Vec<usize>,
    /// The figures of uploads and calls in the houses of nodes, by kind; absent without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rivals: Vec<RivalFigures>,
    /// Additional information on a run with real nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub real: Option<RealRun>,
}

impl Run {
    /// Creates the entry of a run at a point. The last parameter is the amount of work in the run.
    pub fn new(point: &Point, digest: u64, steps: u64, (key, value): (&str, Value), metrics: Value) -> Self {
        let mut parameters = Map::new();
        parameters.insert("seed".to_owned(), point.seed.into());
        parameters.insert("nodes".to_owned(), point.scenario.network.nodes.into());
        if has_common_rates(&point.scenario.network) {
            parameters.insert("uplink_bps".to_owned(), point.scenario.network.uplink.bps().into());
        }
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
            ..Self::default()
        }
    }
}

/// Returns true if hosts have the rates of the network, and not all those of a class or a file.
fn has_common_rates(network: &Network) -> bool {
    let of_class = network.classes.iter().filter(|class| class.uplink.is_some());
    let shares: f64 = of_class.filter_map(|class| Some(class.share?.fraction())).sum();
    let all_have_a_class = shares > 1.0 - 1e-9 && network.classes_from.unwrap_or(0) == 0;
    network.nodes_file.is_none() && !all_have_a_class
}

/// Returns true if a digest is that of real nodes, whose packets have none.
pub fn is_of_real(digest: &str) -> bool {
    digest.bytes().all(|digit| digit == b'0')
}

/// Returns the digest of several runs in order (FNV-1a over their digests).
pub fn combined_digest<'a>(digests: impl IntoIterator<Item = &'a str>) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in digests.into_iter().flat_map(str::bytes) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    format!("{hash:016x}")
}

/// The resources used for a scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Used {
    pub wall_s: f64,
    /// Processor time of the whole process, in seconds.
    pub cpu_s: f64,
    /// Peak memory of the process.
    pub peak_rss_bytes: u64,
    /// The resources of each process, if several simulated one network.
    pub processes: Vec<ProcessUse>,
    /// The origin of the results, if a command made them.
    pub origin: Option<Origin>,
}

impl Used {
    /// Returns the resources used by this process since its start, and the time since `start`.
    pub fn since(start: Instant) -> Self {
        Self {
            wall_s: start.elapsed().as_secs_f64(),
            cpu_s: usage::cpu_seconds(),
            peak_rss_bytes: usage::peak_rss_bytes(),
            processes: Vec::new(),
            origin: None,
        }
    }
}

/// The results of a scenario's runs, with their comparisons and expectations.
#[derive(Clone, Debug)]
pub struct Findings {
    /// The machine-readable summary.
    pub summary: Summary,
    /// The outcomes of all runs without interruption.
    pub results: Vec<Outcome>,
    /// Comparisons with measurements of real networks.
    pub comparisons: Vec<Comparison>,
    /// The results of the scenario's expectations.
    pub checked: Vec<ExpectationResult>,
    /// Whether all runs finished.
    pub is_complete: bool,
}

impl Findings {
    /// Evaluates the results of all points; interrupted ones are `None`.
    pub fn of(loaded: &Loaded, results: Vec<Option<Outcome>>, used: Used) -> Result<Self, String> {
        let expectations = Expectation::all_of(loaded)?;
        let mut results: Vec<Outcome> = results.into_iter().flatten().collect();
        relate(loaded, &mut results);
        let runs = results.iter().map(|one| (&*one.run.name, &one.run.parameters, &one.run.metrics));
        let checked: Vec<ExpectationResult> = Expectation::check_all(&expectations, loaded, runs);
        let expectations = counted(&checked);
        Ok(Self {
            checked,
            comparisons: reference::compare(loaded, &results)?,
            summary: summary(loaded, &results, expectations, used),
            is_complete: results.len() == loaded.points.len(),
            results,
        })
    }
}

/// The number of expectations that hold, and of all, without those that do not count.
pub fn counted(checked: &[ExpectationResult]) -> [usize; 2] {
    let counting = || checked.iter().filter(|result| result.counts);
    [counting().filter(|result| result.holds).count(), counting().count()]
}

fn summary(loaded: &Loaded, results: &[Outcome], expectations: [usize; 2], used: Used) -> Summary {
    let first = loaded.points.first();
    Summary {
        scenario: loaded.scenario.scenario.name.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        seed: first.map_or(0, |point| point.seed),
        nodes: first.map_or(0, |point| point.scenario.network.nodes),
        digest: combined_digest(results.iter().map(|result| result.run.digest.as_str())),
        headline: Headline { origin: used.origin, expectations, ..Headline::default() },
        wall_s: used.wall_s,
        cpu_s: used.cpu_s,
        peak_rss_bytes: used.peak_rss_bytes,
        steps: results.iter().map(|result| result.run.steps).sum(),
        processes: used.processes,
        runs: results.iter().map(|result| result.run.clone()).collect(),
        published: reference::published(loaded, results),
    }
}
