//! The report of batches that one node hands to another.

mod bars;
mod page;
mod words;

use samara_lab::reference::KnownComparison;
use samara_lab::results::{HandoverData, HandoverMetrics, HandoverParts, Outcome};

use crate::about::{About, by_place};
use crate::parts::{self, Runs};
use crate::words::{fixed, short_ms};

/// A report over results of batches.
#[derive(Debug)]
pub(crate) struct HandoverReport {
    about: About,
    /// The axes of a sweep: key and label.
    axes: Vec<(String, String)>,
    rows: Vec<Row>,
    known: Vec<KnownComparison>,
}

/// Runs that differ in their seeds only.
#[derive(Clone, Debug)]
struct Row {
    run: String,
    label: String,
    /// The values of the sweep's axes, as written in the scenario.
    point: Vec<String>,
    /// One for each seed.
    metrics: Vec<HandoverMetrics>,
}

/// Which batches are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    First,
    Later,
}

impl Which {
    fn took(self, metrics: &HandoverMetrics) -> f64 {
        match self {
            Self::First => metrics.first_ms,
            Self::Later => metrics.later_ms,
        }
    }

    fn parts(self, metrics: &HandoverMetrics) -> &HandoverParts {
        match self {
            Self::First => &metrics.first_parts,
            Self::Later => &metrics.later_parts,
        }
    }

    /// The metric of a scenario's known figures.
    fn metric(self) -> &'static str {
        match self {
            Self::First => "first_ms",
            Self::Later => "later_ms",
        }
    }
}

/// The columns: heading and cell.
const COLUMNS: [&str; 10] = [
    "payloads",
    "first",
    "later",
    "range",
    "compute",
    "idle restart",
    "window",
    "slow start",
    "bytes",
    "latency",
];

const LEGEND: &str = "First: from the moment in which all payloads of the first batch on a connection are ready until all are at the other node. Later: the median of \
the other batches.\nThe other columns say what the later ones took, from the beginning of the work on a batch: by how much sooner it is there if one cause after the \
other is taken away, from the left. Bytes: the rate of the link.";

impl HandoverReport {
    pub(crate) fn new(
        about: About,
        axes: Vec<(String, String)>,
        results: Vec<Outcome<HandoverData>>,
        known: &[KnownComparison],
    ) -> Self {
        let groups = by_place(&results, &axes, |result| &result.run);
        let rows = groups.into_iter().filter_map(|((run, point), results)| {
            let label = results.first()?.label.clone();
            Some(Row {
                run,
                label,
                point,
                metrics: results.iter().map(|result| result.metrics.clone()).collect(),
            })
        });
        let rows = rows.collect();
        Self { about, axes, rows, known: known.to_vec() }
    }
}

impl crate::Pages for HandoverReport {
    fn html(&self) -> String {
        page::page(self)
    }

    fn figures(&self) -> Vec<(String, String)> {
        bars::all(self).into_iter().map(|figure| (figure.name, figure.svg)).collect()
    }

    fn table(&self) -> String {
        let table = parts::terminal_table(&self.axes, &self.rows, &COLUMNS, Row::cells);
        format!("{}\n{LEGEND}\n{table}{}\n", self.about.title, words::headline(self).join("\n"))
    }
}

impl Runs for Row {
    fn run(&self) -> &str {
        &self.run
    }

    fn label(&self) -> &str {
        &self.label
    }

    fn point(&self) -> &[String] {
        &self.point
    }
}

impl Row {
    /// The mean of a figure over seeds.
    fn mean(&self, value: impl Fn(&HandoverMetrics) -> f64) -> f64 {
        self.metrics.iter().map(value).sum::<f64>() / self.metrics.len() as f64
    }

    /// What a batch took by cause: names and means over seeds.
    fn parts(&self, which: Which) -> Vec<(&'static str, f64)> {
        let Some(first) = self.metrics.first() else { return Vec::new() };
        let names = which.parts(first).named().map(|(name, _)| name);
        let mean = |place: usize| self.mean(|metrics| which.parts(metrics).named()[place].1);
        names.into_iter().enumerate().map(|(place, name)| (name, mean(place))).collect()
    }

    fn cells(&self) -> Vec<String> {
        let range = (self.mean(|m| m.later_min_ms), self.mean(|m| m.later_max_ms));
        let mut cells = vec![
            fixed(self.mean(|m| f64::from(m.payloads)), 0),
            short_ms(self.mean(|m| m.first_ms)),
            short_ms(self.mean(|m| m.later_ms)),
            if range.1 - range.0 < 1.0 { "-".to_owned() } else { format!("{:.0}-{:.0}", range.0, range.1) },
        ];
        let shown = |ms: f64| if ms.abs() < 0.05 { "-".to_owned() } else { short_ms(ms) };
        cells.extend(self.parts(Which::Later).into_iter().map(|(_, ms)| shown(ms)));
        cells
    }
}
