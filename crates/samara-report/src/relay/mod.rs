//! The report of teams that mix batches.

mod bars;
mod figures;
mod page;
mod rounds;
mod timeline;
mod words;

use samara_lab::reference::KnownComparison;
use samara_lab::results::{MixData, Outcome, RelayMetrics};
use samara_lab::statistics::Statistics;

use crate::about::{About, by_place};
use crate::parts::{self, Runs};
use crate::terminal::number;
use crate::words::{MISSING, fixed, percent, percent_range, short_ms};

/// A figure of a run.
type Value = fn(&RelayMetrics) -> f64;

/// A report over results of relays.
#[derive(Debug)]
pub(crate) struct RelayReport {
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
    metrics: Vec<RelayMetrics>,
    /// The result of the first seed, of which single rounds are shown.
    first: Outcome<MixData>,
}

/// The columns: heading and cell.
const COLUMNS: [&str; 13] = [
    "slots/s",
    "gain",
    "formula",
    "bound",
    "share",
    "limit",
    "latency",
    "c",
    "L",
    "processors",
    "failed",
    "wrong",
    "gap",
];

const LEGEND: &str = "Slots/s: payloads that come out, with as many rounds in flight as there can be. Gain: over the first run of the series. Formula: n + n L/c, over a first run of\n\
unary rounds one after another. Bound: what the busiest processor or uplink allows. Latency: of a batch, from payloads in to payloads out at all nodes, median.\n\
c: work of a node on a pass; L: until the next node has all of it. Processors: how busy, least to most. Failed: rounds. Wrong: payloads or orders. Gap: the longest of a team between two rounds.";

impl RelayReport {
    pub(crate) fn new(
        about: About,
        axes: Vec<(String, String)>,
        results: Vec<Outcome<MixData>>,
        known: &[KnownComparison],
    ) -> Self {
        let groups = by_place(&results, &axes, |result| &result.run);
        let rows = groups.into_iter().filter_map(|((run, point), results)| {
            let first = (*results.first()?).clone();
            let metrics = results.iter().map(|result| result.metrics.clone()).collect();
            Some(Row { run, label: first.label.clone(), point, metrics, first })
        });
        let rows = rows.collect();
        Self { about, axes, rows, known: known.to_vec() }
    }
}

impl crate::Pages for RelayReport {
    fn html(&self) -> String {
        page::page(self)
    }

    fn figures(&self) -> Vec<(String, String)> {
        let sections = figures::all(self).into_iter();
        sections.flat_map(|section| section.figures).map(|figure| (figure.name, figure.svg)).collect()
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
    fn mean(&self, value: Value) -> f64 {
        self.metrics.iter().map(value).sum::<f64>() / self.metrics.len() as f64
    }

    fn latency(&self, value: fn(&Statistics) -> f64) -> f64 {
        let of = |metrics: &RelayMetrics| metrics.batch_latency_ms.as_ref().map_or(f64::NAN, value);
        self.metrics.iter().map(of).sum::<f64>() / self.metrics.len() as f64
    }

    /// Whether this is the first run of its series: what others are measured by.
    fn is_base(&self) -> bool {
        self.first.metrics.gain.is_some_and(|gain| gain == 1.0)
    }

    fn gain(&self) -> f64 {
        self.mean(|m| m.gain.unwrap_or(f64::NAN))
    }

    fn cells(&self) -> Vec<String> {
        let first = &self.first.metrics;
        let percent = |value: Value| percent(self.mean(value), 0);
        let factor = |value: f64| fixed(value, 2);
        let by_formula = self.mean(|m| m.gain_by_formula.unwrap_or(f64::NAN));
        vec![
            number(self.mean(|m| m.slots_per_s)),
            factor(self.gain()),
            if self.is_base() { MISSING.to_owned() } else { factor(by_formula) },
            number(self.mean(|m| m.upper_bound_slots_per_s)),
            percent(|m| m.share_of_bound),
            first.limit.to_owned(),
            short_ms(self.latency(|s| s.p50)),
            short_ms(self.mean(|m| m.compute_ms)),
            short_ms(self.mean(|m| m.transfer_ms)),
            percent_range(self.mean(|m| m.cpu_utilisation_min), self.mean(|m| m.cpu_utilisation_max)),
            format!("{:.0} of {:.0}", self.mean(|m| m.failed as f64), self.mean(|m| m.rounds as f64)),
            number(self.mean(|m| m.faults() as f64)),
            short_ms(self.mean(|m| m.longest_gap_ms)),
        ]
    }
}
