//! The report of a sweep: means over seeds, from metrics alone.

mod figures;
mod page;

use samara_lab::results::{is_first, rank};
use samara_lab::scenario::{ExpectationResult, Loaded};
use samara_lab::sweep::{Aggregate, SweepSummary, metric_paths};

use crate::about::axes;
use crate::draw::Unit;
use crate::parts::{Figure, Runs, terminal_table};
use crate::terminal::number;
use crate::words::{MISSING, short_ms};

/// Columns of metrics in tables of the page, and of the terminal.
const COLUMNS_MAX: usize = 6;
const TERMINAL_COLUMNS_MAX: usize = 4;

/// A report over the points of a sweep.
#[derive(Debug)]
pub struct SweepReport {
    title: String,
    description: String,
    source: String,
    toml: String,
    summary: SweepSummary,
    outcomes: Vec<ExpectationResult>,
    /// The axes: key and label.
    axes: Vec<(String, String)>,
    rows: Vec<Row>,
    /// The metrics that are shown, the most telling first.
    metrics: Vec<String>,
}

/// Points that differ in their seeds only.
#[derive(Clone, Debug)]
struct Row {
    aggregate: Aggregate,
    /// The values of the axes.
    point: Vec<String>,
}

impl Runs for Row {
    fn run(&self) -> &str {
        &self.aggregate.name
    }

    fn label(&self) -> &str {
        &self.aggregate.label
    }

    fn point(&self) -> &[String] {
        &self.point
    }
}

impl Row {
    /// The mean of a metric over seeds, and half the width of its confidence interval.
    fn mean(&self, metric: &str) -> Option<(f64, f64)> {
        self.aggregate.metrics.get(metric).map(|spread| (spread.mean, spread.confidence_95))
    }

    fn cells(&self, metrics: &[String]) -> Vec<String> {
        let cell = |metric: &String| match self.mean(metric) {
            Some((mean, half)) if self.aggregate.seeds > 1 && half > 0.0 => {
                format!("{} ± {}", shown(metric, mean), shown(metric, half))
            }
            Some((mean, _)) => shown(metric, mean),
            None => MISSING.to_owned(),
        };
        std::iter::once(self.aggregate.seeds.to_string()).chain(metrics.iter().map(cell)).collect()
    }
}

impl SweepReport {
    /// A report.
    pub fn new(loaded: &Loaded, summary: &SweepSummary, outcomes: &[ExpectationResult]) -> Self {
        let axes = axes(loaded);
        let value = |aggregate: &Aggregate, key: &String| match aggregate.parameters.get(key) {
            Some(serde_json::Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => String::new(),
        };
        let rows: Vec<Row> = summary
            .aggregates
            .iter()
            .map(|aggregate| Row {
                point: axes.iter().map(|(key, _)| value(aggregate, key)).collect(),
                aggregate: aggregate.clone(),
            })
            .collect();
        let mut metrics = metric_paths(&summary.aggregates);
        metrics.retain(|path| is_first(path));
        metrics.sort_by_key(|path| rank(path));
        // Of the mean and the percentiles of one figure, the first says enough here.
        let name = |path: &str| path.split('.').next().unwrap_or_default().to_owned();
        metrics.dedup_by_key(|path| name(path));
        Self {
            title: loaded.scenario.scenario.title.clone(),
            description: loaded.scenario.scenario.description.clone(),
            source: loaded.source.clone(),
            toml: loaded.text.clone(),
            summary: summary.clone(),
            outcomes: outcomes.to_vec(),
            axes,
            rows,
            metrics,
        }
    }

    /// The HTML file.
    pub fn html(&self) -> String {
        page::page(self)
    }

    /// The figures: names and SVG.
    pub fn figures(&self) -> Vec<(String, String)> {
        self.drawn().into_iter().map(|figure| (figure.name, figure.svg)).collect()
    }

    /// The table for the terminal.
    pub fn table(&self) -> String {
        let metrics = self.columns(TERMINAL_COLUMNS_MAX);
        let mut headings = vec!["seeds"];
        headings.extend(metrics.iter().map(String::as_str));
        let table = terminal_table(&self.axes, &self.rows, &headings, |row| row.cells(metrics));
        format!("{}\n{table}", self.title)
    }

    fn drawn(&self) -> Vec<Figure> {
        figures::all(self)
    }

    /// So many metrics at most, the first of them.
    fn columns(&self, most: usize) -> &[String] {
        &self.metrics[..self.metrics.len().min(most)]
    }

    /// Whether a point failed, or something did not reach every node in one.
    fn is_bad(&self) -> bool {
        let lacks = |row: &Row| {
            ["incomplete", "lost", "wrong"]
                .iter()
                .any(|metric| row.mean(metric).is_some_and(|(mean, _)| mean > 0.0))
        };
        !self.summary.failed.is_empty() || self.rows.iter().any(lacks)
    }

    /// The most seeds of a row.
    fn seeds(&self) -> usize {
        self.rows.iter().map(|row| row.aggregate.seeds).max().unwrap_or(0)
    }
}

/// A value of a metric as people write it.
pub(crate) fn shown(metric: &str, value: f64) -> String {
    match unit_of(metric) {
        _ if !value.is_finite() => MISSING.to_owned(),
        Unit::Milliseconds => short_ms(value),
        Unit::Bytes if value.abs() >= 1000.0 => {
            let (factor, unit) = if value.abs() >= 1e6 { (1e6, "MB") } else { (1e3, "kB") };
            format!("{:.2} {unit}", value / factor)
        }
        Unit::Share => {
            let percent = value * 100.0;
            if percent.fract() == 0.0 { format!("{percent:.0} %") } else { format!("{percent:.1} %") }
        }
        _ => number(value),
    }
}

/// The unit of a metric, which its name says.
pub(crate) fn unit_of(metric: &str) -> Unit {
    let name = metric.split('.').find(|part| part.contains("_ms")).unwrap_or(metric);
    if name.ends_with("_ms") {
        Unit::Milliseconds
    } else if metric.contains("bytes") && !metric.contains("factor") && !metric.contains("per_byte") {
        Unit::Bytes
    } else if metric.contains("share") || metric.contains("ratio") || metric.contains("utilisation") {
        Unit::Share
    } else {
        Unit::Number
    }
}
