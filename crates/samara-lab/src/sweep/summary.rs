//! What a sweep found: points, and means over their seeds.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use super::{PointRecord, VERSION};
use crate::results::{combined_digest, without_seed};
use crate::scenario::Loaded;
use crate::statistics::interval;

/// The document that `samara sweep --format json` prints and `summary.json` holds. `runs` are as those of a [`Summary`](crate::results::Summary).
#[derive(Clone, Debug, Serialize)]
pub struct SweepSummary {
    /// The scenario's name.
    pub scenario: String,
    /// The version of Samara.
    pub version: String,
    pub seeds: Vec<u64>,
    /// The number of nodes of the first point.
    pub nodes: u32,
    /// A digest of all points: that of `samara run` with the same scenario.
    pub digest: String,
    /// How long the process worked that finished the sweep, in seconds.
    pub wall_s: f64,
    /// Processor time of all points, in seconds.
    pub cpu_s: f64,
    /// The most memory that a point needed.
    pub peak_rss_bytes: u64,
    /// Steps of all simulations.
    pub steps: u64,
    /// Points of the sweep; those that are in `runs` are finished.
    pub points: usize,
    pub failed: Vec<FailedPoint>,
    /// Means over seeds.
    pub aggregates: Vec<Aggregate>,
    /// Point by point, in the order of the sweep.
    pub runs: Vec<PointRecord>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailedPoint {
    pub id: String,
    /// Its run with the values of the sweep.
    pub name: String,
    pub seed: u64,
    /// What went wrong.
    pub why: String,
}

/// Points that differ in their seeds only.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Aggregate {
    /// The name of the run.
    pub name: String,
    /// What the scenario calls it.
    pub label: String,
    /// What sets it apart, without seeds.
    pub parameters: Map<String, Value>,
    /// Finished seeds.
    pub seeds: usize,
    /// All figures that are numbers, by their dotted paths.
    pub metrics: BTreeMap<String, Spread>,
}

/// A figure over seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    pub mean: f64,
    /// Half the width of Student's 95 % confidence interval of the mean; 0 of one seed.
    pub confidence_95: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
    /// Seeds that measured it.
    pub seeds: usize,
}

impl SweepSummary {
    /// What finished points say, in the order of the sweep. Takes `wall_s` from whoever has waited for them.
    pub fn new(loaded: &Loaded, runs: Vec<PointRecord>, failed: Vec<FailedPoint>, wall_s: f64) -> Self {
        let mut seeds: Vec<u64> = loaded.points.iter().map(|point| point.seed).collect();
        seeds.sort_unstable();
        seeds.dedup();
        Self {
            scenario: loaded.scenario.scenario.name.clone(),
            version: VERSION.to_owned(),
            seeds,
            nodes: loaded.points.first().map_or(0, |point| point.scenario.network.nodes),
            digest: combined_digest(runs.iter().map(|run| run.digest.as_str())),
            wall_s,
            cpu_s: runs.iter().map(|run| run.cpu_s).sum(),
            peak_rss_bytes: runs.iter().map(|run| run.peak_rss_bytes).max().unwrap_or(0),
            steps: runs.iter().map(|run| run.steps).sum(),
            points: loaded.points.len(),
            failed,
            aggregates: aggregates(loaded, &runs),
            runs,
        }
    }
}

/// The paths of all figures that are numbers, in the order in which they come first.
pub fn metric_paths<'a>(aggregates: impl IntoIterator<Item = &'a Aggregate>) -> Vec<String> {
    let mut paths: Vec<String> = Vec::new();
    let mut known = std::collections::BTreeSet::new();
    for path in aggregates.into_iter().flat_map(|aggregate| aggregate.metrics.keys()) {
        if known.insert(path) {
            paths.push(path.clone());
        }
    }
    paths
}

fn aggregates(loaded: &Loaded, runs: &[PointRecord]) -> Vec<Aggregate> {
    let mut order: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut groups: Vec<Vec<&PointRecord>> = Vec::new();
    for run in runs {
        let key = (run.name.clone(), Value::Object(without_seed(&run.parameters)).to_string());
        let at = *order.entry(key).or_insert(groups.len());
        if at == groups.len() {
            groups.push(Vec::new());
        }
        groups[at].push(run);
    }
    let label = |name: &str| {
        let point = loaded.points.iter().find(|point| point.run == name);
        point.map_or_else(|| name.to_owned(), |point| point.label.clone())
    };
    let of_group = |group: Vec<&PointRecord>| {
        let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for (path, value) in group.iter().flat_map(|run| run.figures()) {
            if let Some(value) = value.as_f64() {
                values.entry(path).or_default().push(value);
            }
        }
        Aggregate {
            name: group[0].name.clone(),
            label: label(&group[0].name),
            parameters: without_seed(&group[0].parameters),
            seeds: group.len(),
            metrics: values.into_iter().filter_map(|(path, values)| Some((path, spread(&values)?))).collect(),
        }
    };
    groups.into_iter().map(of_group).collect()
}

fn spread(values: &[f64]) -> Option<Spread> {
    let interval = interval(values)?;
    Some(Spread {
        mean: interval.mean,
        confidence_95: interval.half,
        min: values.iter().copied().fold(f64::INFINITY, f64::min),
        max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        seeds: interval.count,
    })
}
