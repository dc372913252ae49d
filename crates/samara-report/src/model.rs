//! What a report is made of.

use std::collections::BTreeMap;

use samara_lab::reference::Comparison;
use samara_lab::results::{RunResult, Summary};
use samara_lab::scenario::{Loaded, Outcome};

use crate::{figures, html};

/// A report over the results of a scenario.
#[derive(Debug)]
pub struct Report {
    pub(crate) title: String,
    pub(crate) description: String,
    pub(crate) scenario: String,
    pub(crate) toml: String,
    /// The runs that were chosen, if not all of them were.
    pub(crate) only: Vec<String>,
    pub(crate) summary: Summary,
    pub(crate) results: Vec<RunResult>,
    pub(crate) comparisons: Vec<Comparison>,
    pub(crate) outcomes: Vec<Outcome>,
    /// The axes of a sweep: key and label.
    pub(crate) axes: Vec<(String, String)>,
    pub(crate) rows: Vec<Row>,
}

/// Runs that differ in their seeds only.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) run: String,
    pub(crate) label: String,
    /// The values of the sweep's axes, as written in the scenario.
    pub(crate) point: Vec<String>,
    pub(crate) seeds: usize,
    /// Means over seeds; times in milliseconds.
    pub(crate) mean: f64,
    /// Half the width of the 95 % confidence interval of the mean, over seeds; 0 with one seed.
    pub(crate) confidence: f64,
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
    pub(crate) bound: f64,
    pub(crate) copies: f64,
    pub(crate) bytes_up: f64,
    pub(crate) withdrawn: f64,
    pub(crate) incomplete: f64,
    pub(crate) queue_drops: f64,
    pub(crate) retransmissions: f64,
}

impl Row {
    /// How many times the bound the mean is.
    pub(crate) fn over_bound(&self) -> f64 {
        if self.bound > 0.0 { self.mean / self.bound } else { f64::NAN }
    }
}

/// Student's t for a two-sided 95 % interval, by degrees of freedom from 1.
const STUDENT_T: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];

impl Report {
    /// A report.
    pub fn new(
        loaded: &Loaded,
        summary: &Summary,
        results: &[RunResult],
        comparisons: &[Comparison],
        outcomes: &[Outcome],
    ) -> Self {
        let axes: Vec<(String, String)> = loaded
            .scenario
            .sweep
            .iter()
            .flat_map(|sweep| &sweep.axis)
            .map(|axis| {
                (axis.key.clone(), if axis.label.is_empty() { axis.key.clone() } else { axis.label.clone() })
            })
            .collect();
        let all = &loaded.scenario.runs;
        let done = |name: &String| results.iter().any(|result| result.run.name == *name);
        let chosen = all.iter().map(|run| &run.name).filter(|name| done(name));
        let only = if chosen.clone().count() < all.len() { chosen.cloned().collect() } else { Vec::new() };
        Self {
            only,
            title: loaded.scenario.scenario.title.clone(),
            description: loaded.scenario.scenario.description.clone(),
            scenario: loaded.source.clone(),
            toml: loaded.text.clone(),
            summary: summary.clone(),
            results: results.to_vec(),
            comparisons: comparisons.to_vec(),
            outcomes: outcomes.to_vec(),
            rows: rows(results, &axes),
            axes,
        }
    }

    /// The HTML file.
    pub fn html(&self) -> String {
        html::page(self)
    }

    /// The figures: names and SVG.
    pub fn figures(&self) -> Vec<(String, String)> {
        figures::all(self)
    }
}

/// A run and the values of a sweep's axes.
type Place = (String, Vec<String>);

fn rows(results: &[RunResult], axes: &[(String, String)]) -> Vec<Row> {
    let mut groups: Vec<(Place, Vec<&RunResult>)> = Vec::new();
    let mut index: BTreeMap<Place, usize> = BTreeMap::new();
    for result in results {
        let value = |key: &String| match result.run.parameters.get(key) {
            Some(serde_json::Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => String::new(),
        };
        let key = (result.run.name.clone(), axes.iter().map(|(key, _)| value(key)).collect());
        let at = *index.entry(key.clone()).or_insert_with(|| {
            groups.push((key, Vec::new()));
            groups.len() - 1
        });
        groups[at].1.push(result);
    }
    groups.into_iter().map(|((run, point), results)| row(run, point, &results)).collect()
}

fn row(run: String, point: Vec<String>, results: &[&RunResult]) -> Row {
    let over = |value: &dyn Fn(&RunResult) -> f64| {
        results.iter().map(|result| value(result)).sum::<f64>() / results.len() as f64
    };
    let time = |value: fn(&samara_lab::measure::Statistics) -> f64| {
        move |result: &RunResult| result.run.metrics.time_to_custody_ms.as_ref().map_or(f64::NAN, value)
    };
    let mean = over(&time(|s| s.mean));
    let deviation = {
        let squares = over(&|result: &RunResult| (time(|s| s.mean)(result) - mean).powi(2));
        let n = results.len() as f64;
        if n > 1.0 { (squares * n / (n - 1.0)).sqrt() } else { 0.0 }
    };
    let t = match results.len() {
        0 | 1 => 0.0,
        n => STUDENT_T.get(n - 2).copied().unwrap_or(1.96),
    };
    Row {
        run,
        label: results[0].label.clone(),
        point,
        seeds: results.len(),
        mean,
        confidence: t * deviation / (results.len() as f64).sqrt(),
        p50: over(&time(|s| s.p50)),
        p95: over(&time(|s| s.p95)),
        p99: over(&time(|s| s.p99)),
        max: over(&time(|s| s.max)),
        bound: over(&|r| r.run.metrics.lower_bound_ms),
        copies: over(&|r| r.run.metrics.duplication_factor),
        bytes_up: over(&|r| r.run.metrics.bytes_up_per_node),
        withdrawn: over(&|r| r.run.metrics.withdrawn_copies as f64),
        incomplete: over(&|r| r.run.metrics.incomplete as f64),
        queue_drops: over(&|r| r.run.metrics.queue_drops as f64),
        retransmissions: over(&|r| r.run.metrics.retransmissions as f64),
    }
}
