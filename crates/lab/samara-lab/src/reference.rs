//! Compares our figures with measurements of real networks.

use std::collections::BTreeMap;

use samara_document::Inputs;
use samara_document::keys::plain;
use samara_scenario::{Loaded, PublishedFigure, Verdict, json};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::expect::figure_of;
use crate::family;
use crate::results::{Outcome, Run};
use crate::statistics::{Spread, Statistics};

/// A run and its reference; each side pools all its runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    pub run: String,
    pub label: String,
    /// Time to custody of our runs.
    pub ours_ms: Statistics,
    /// Time to custody of the reference.
    pub reference_ms: Statistics,
    /// Copies received per node and column, ours and theirs.
    pub copies: (f64, f64),
    /// Number of runs, ours and theirs.
    pub runs: (usize, usize),
}

impl Comparison {
    /// Returns the deviation of our mean, as a share of the reference's mean.
    pub fn mean_deviation(&self) -> f64 {
        self.ours_ms.mean / self.reference_ms.mean - 1.0
    }

    /// Returns the deviation of our 95th percentile, as a share of the reference's.
    pub fn p95_deviation(&self) -> f64 {
        self.ours_ms.p95 / self.reference_ms.p95 - 1.0
    }
}

/// The results that a measurement of a real network can stand beside.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrivals {
    /// Time to custody of the nodes that reached it, in milliseconds, by slot.
    pub custody_ms: Vec<Vec<f64>>,
    /// Copies received per node and column.
    pub copies: f64,
}

/// Compares the runs of a scenario with their references.
///
/// A statistic of several runs is the mean of their statistics, so that slow and fast runs have
/// equal weight.
pub fn compare(loaded: &Loaded, results: &[Outcome]) -> Result<Vec<Comparison>, String> {
    let mut comparisons = Vec::new();
    for (run, files) in &loaded.scenario.reference {
        let of_run = results.iter().filter(|outcome| outcome.run.name == *run);
        let arrivals = family::of(&loaded.scenario).arrivals;
        let ours: Vec<(&Outcome, Arrivals)> =
            of_run.filter_map(|outcome| Some((outcome, arrivals(outcome)?))).collect();
        let mut theirs = Vec::new();
        for file in files {
            theirs.extend(reference_runs(file, &loaded.inputs)?);
        }
        let ours_statistics: Vec<Statistics> = ours
            .iter()
            .flat_map(|(_, arrivals)| &arrivals.custody_ms)
            .filter_map(|slot| Statistics::of(slot))
            .collect();
        let their_statistics: Vec<Statistics> =
            theirs.iter().filter_map(|run| Statistics::of(&run.custody_ms)).collect();
        let (Some(ours_ms), Some(reference_ms)) = (mean(&ours_statistics), mean(&their_statistics)) else {
            continue;
        };
        let our_copies = ours.iter().map(|(_, arrivals)| arrivals.copies).sum::<f64>() / ours.len() as f64;
        let their_copies = theirs.iter().map(|run| run.copies).sum::<f64>() / theirs.len() as f64;
        comparisons.push(Comparison {
            run: run.clone(),
            label: ours[0].0.point.label.clone(),
            ours_ms,
            reference_ms,
            copies: (our_copies, their_copies),
            runs: (ours_statistics.len(), their_statistics.len()),
        });
    }
    Ok(comparisons)
}

/// A published or measured figure, and ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublishedComparison {
    #[serde(flatten)]
    pub figure: PublishedFigure,
    /// Our value over all seeds.
    pub ours: Spread,
    pub verdict: Verdict,
}

impl PublishedComparison {
    /// Returns the deviation of our value, as a share of theirs.
    pub fn deviation(&self) -> f64 {
        self.ours.mean / self.figure.value - 1.0
    }

    /// Returns the run, with the sweep values of the figure.
    pub fn run(&self) -> String {
        std::iter::once(self.figure.run.clone())
            .chain(self.figure.at.values().map(plain))
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Returns the metric, with the run by whose value it is divided.
    pub fn metric(&self) -> String {
        let over = self.figure.over.iter().map(|over| format!(" / {over}"));
        std::iter::once(self.figure.metric.clone()).chain(over).collect()
    }
}

/// Returns the published figures that a scenario lists, paired with ours. It omits figures of runs
/// without results, and those whose conditions a changed key no longer meets. A figure that depends on
/// a key of the sweep has an entry for each value.
pub fn published(loaded: &Loaded, results: &[Outcome]) -> Vec<PublishedComparison> {
    let runs: Vec<Figures<'_>> = results.iter().map(|outcome| Figures::of(&outcome.run)).collect();
    let compare = |figure: PublishedFigure| {
        let ours = Wanted::of(&figure).spread(&figure.seeds, &runs)?;
        Some(PublishedComparison { verdict: figure.verdict(judged(&figure, &ours)), ours, figure })
    };
    let figures = loaded.scenario.published.iter().filter(|figure| loaded.meets_conditions(figure));
    figures.flat_map(|figure| at_each_value(loaded, figure)).filter_map(compare).collect()
}

/// Returns the interval of our value of a figure that is judged: the confidence interval, or the least
/// and the largest value if the source names the seeds, which are then all that there are.
pub fn judged(figure: &PublishedFigure, ours: &Spread) -> (f64, f64) {
    if figure.seeds.is_empty() { ours.interval() } else { (ours.min, ours.max) }
}

/// Returns a figure for each value of the key that it depends on, or the figure itself.
pub fn at_each_value(loaded: &Loaded, figure: &PublishedFigure) -> Vec<PublishedFigure> {
    let Some(key) = &figure.depends else { return vec![figure.clone()] };
    let axes = loaded.scenario.sweep.iter().flat_map(|sweep| &sweep.axis);
    let values = axes.filter(|axis| axis.key == *key).flat_map(|axis| &axis.values);
    let at = |value: &toml::Value| {
        let mut at = figure.at.clone();
        at.insert(key.clone(), value.clone());
        PublishedFigure { at, ..figure.clone() }
    };
    values.map(at).collect()
}

/// The name of a value in the results of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Wanted {
    pub run: String,
    pub metric: String,
    /// The value is divided by that of this run with the same seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<String>,
    /// Values of the sweep's keys.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub at: BTreeMap<String, toml::Value>,
}

impl Wanted {
    pub fn of(figure: &PublishedFigure) -> Self {
        let PublishedFigure { run, metric, over, at, .. } = figure.clone();
        Self { run, metric, over, at }
    }

    /// Returns the value over the seeds of these runs. If any of them has one of `seeds`, the others
    /// do not count.
    pub fn spread(&self, seeds: &[u64], runs: &[Figures<'_>]) -> Option<Spread> {
        let values = |run: &str| {
            let at = |of: &Figures<'_>| {
                self.at.iter().all(|(key, value)| of.parameters.get(key) == Some(&json(value)))
            };
            let of = runs.iter().filter(|of| of.name == run && at(of));
            let value = |of: &Figures<'_>| {
                let seed = of.parameters.get("seed").and_then(Value::as_u64);
                Some((seed, figure_of(of.metrics, &self.metric)?))
            };
            let mut values: Vec<(Option<u64>, f64)> = of.filter_map(value).collect();
            let is_measured = |seed: Option<u64>| seed.is_some_and(|seed| seeds.contains(&seed));
            if values.iter().any(|(seed, _)| is_measured(*seed)) {
                values.retain(|(seed, _)| is_measured(*seed));
            }
            values
        };
        let own = values(&self.run).into_iter();
        let ours: Vec<f64> = match self.over.as_deref().map(values) {
            None => own.map(|(_, value)| value).collect(),
            Some(over) => {
                let of_seed = |seed| over.iter().find(|(other, _)| *other == seed);
                own.filter_map(|(seed, value)| Some(value / of_seed(seed)?.1)).collect()
            }
        };
        Spread::of(&ours)
    }
}

/// The figures of a run.
#[derive(Clone, Copy, Debug)]
pub struct Figures<'r> {
    pub name: &'r str,
    pub parameters: &'r Map<String, Value>,
    pub metrics: &'r Value,
}

impl<'r> Figures<'r> {
    pub fn of(Run { name, parameters, metrics, .. }: &'r Run) -> Self {
        Self { name, parameters, metrics }
    }
}

fn mean(all: &[Statistics]) -> Option<Statistics> {
    let over = |value: fn(&Statistics) -> f64| all.iter().map(value).sum::<f64>() / all.len() as f64;
    (!all.is_empty()).then(|| Statistics {
        mean: over(|s| s.mean),
        p50: over(|s| s.p50),
        p95: over(|s| s.p95),
        p99: over(|s| s.p99),
        max: over(|s| s.max),
    })
}

/// A run of a real network.
#[derive(Clone, Debug, PartialEq)]
pub struct ReferenceRun {
    /// Time to custody of each node, in milliseconds.
    pub custody_ms: Vec<f64>,
    /// Copies received per node and column.
    pub copies: f64,
}

/// Reads the arrivals of reference runs.
pub fn reference_runs(name: &str, inputs: &Inputs) -> Result<Vec<ReferenceRun>, String> {
    let text = inputs.read(name)?;
    let mut rows: Vec<(&str, u32, f64, f64)> = Vec::new();
    for (number, line) in text.lines().enumerate().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let parsed = (|| {
            let [run, node, _, arrival, copies, _] = fields.as_slice() else { return None };
            Some((*run, node.parse().ok()?, arrival.parse().ok()?, copies.parse().ok()?))
        })();
        rows.push(parsed.ok_or_else(|| format!("{name}:{}: \"{line}\" is not an arrival", number + 1))?);
    }
    let run = |rows: &[(&str, u32, f64, f64)]| {
        let mut custody: BTreeMap<u32, f64> = BTreeMap::new();
        for (_, node, arrival, _) in rows {
            let last = custody.entry(*node).or_insert(0.0);
            *last = last.max(*arrival);
        }
        let copies = rows.iter().map(|(.., copies)| copies).sum::<f64>() / rows.len() as f64;
        ReferenceRun { custody_ms: custody.into_values().collect(), copies }
    };
    Ok(rows.chunk_by(|a, b| a.0 == b.0).map(run).collect())
}
