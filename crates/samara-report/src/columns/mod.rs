//! The report of blocks of columns.

mod figures;
mod page;
mod table;
mod words;

use samara_engine::units::Span;
use samara_lab::reference::Comparison;
use samara_lab::results::{ColumnsData, Outcome};
use samara_lab::statistics::Statistics;

use crate::about::{About, by_place, mean_and_confidence};
use crate::words::times;

/// A report over results of blocks of columns.
#[derive(Debug)]
pub(crate) struct ColumnsReport {
    pub(crate) about: About,
    pub(crate) results: Vec<Outcome<ColumnsData>>,
    pub(crate) comparisons: Vec<Comparison>,
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
    /// Nodes that did not get all their columns, of those that waited: counted once for each slot and seed.
    pub(crate) missed: (usize, usize),
    pub(crate) deadline: Span,
    pub(crate) queue_drops: f64,
    pub(crate) retransmissions: f64,
}

impl Row {
    /// How many times the bound the mean is; NaN if a node is incomplete, since the bound is over all nodes and the mean over the
    /// others.
    pub(crate) fn over_bound(&self) -> f64 {
        times(self.mean, self.bound).filter(|_| self.incomplete == 0.0).unwrap_or(f64::NAN)
    }
}

impl ColumnsReport {
    pub(crate) fn new(
        about: About,
        axes: Vec<(String, String)>,
        results: Vec<Outcome<ColumnsData>>,
        comparisons: &[Comparison],
    ) -> Self {
        let groups = by_place(&results, &axes, |result| &result.run);
        let rows = groups.into_iter().map(|((run, point), results)| row(run, point, &results)).collect();
        Self { about, rows, axes, comparisons: comparisons.to_vec(), results }
    }

    /// Whether a run is the fastest of several in which every node is complete.
    fn is_best(&self, row: &Row) -> bool {
        let complete = self.rows.iter().filter(|row| row.incomplete == 0.0);
        let least = complete.map(|row| row.mean).fold(f64::INFINITY, f64::min);
        row.incomplete == 0.0 && row.mean == least && self.axes.is_empty() && self.rows.len() > 1
    }
}

impl crate::Pages for ColumnsReport {
    fn html(&self) -> String {
        page::page(self)
    }

    fn figures(&self) -> Vec<(String, String)> {
        figures::all(self)
    }

    fn table(&self) -> String {
        table::table(self)
    }
}

fn row(run: String, point: Vec<String>, results: &[&Outcome<ColumnsData>]) -> Row {
    let over = |value: &dyn Fn(&Outcome<ColumnsData>) -> f64| {
        results.iter().map(|result| value(result)).sum::<f64>() / results.len() as f64
    };
    let time = |value: fn(&Statistics) -> f64| {
        move |result: &Outcome<ColumnsData>| {
            result.metrics.time_to_custody_ms.as_ref().map_or(f64::NAN, value)
        }
    };
    let waited = || results.iter().flat_map(|result| result.custody_ms.iter().flatten());
    let means: Vec<f64> = results.iter().map(|result| time(|s| s.mean)(result)).collect();
    let (mean, confidence) = mean_and_confidence(&means);
    Row {
        run,
        label: results[0].label.clone(),
        point,
        seeds: results.len(),
        mean,
        confidence,
        p50: over(&time(|s| s.p50)),
        p95: over(&time(|s| s.p95)),
        p99: over(&time(|s| s.p99)),
        max: over(&time(|s| s.max)),
        bound: over(&|r| r.metrics.lower_bound_ms),
        copies: over(&|r| r.metrics.duplication_factor),
        bytes_up: over(&|r| r.metrics.bytes_up_per_node),
        withdrawn: over(&|r| r.metrics.withdrawn_copies as f64),
        incomplete: over(&|r| r.metrics.incomplete as f64),
        missed: (waited().filter(|(_, time)| time.is_none()).count(), waited().count()),
        deadline: results[0].deadline,
        queue_drops: over(&|r| r.metrics.queue_drops as f64),
        retransmissions: over(&|r| r.metrics.retransmissions as f64),
    }
}
