//! The report of broadcasts in a group.

mod bars;
mod figures;
mod links;
mod page;
mod price;
mod schedule;

use samara_lab::reference::KnownComparison;
use samara_lab::results::{GroupData, GroupMetrics, Outcome};
use samara_lab::statistics::Statistics;

use crate::about::{About, by_place};
use crate::parts::{self, Runs};
use crate::terminal::number;
use crate::words::{fixed, percent, percent_range, short_ms};

/// A figure of a run.
type Value = fn(&GroupMetrics) -> f64;

/// A report over results of groups.
#[derive(Debug)]
pub(crate) struct GroupReport {
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
    metrics: Vec<GroupMetrics>,
    /// The result of the first seed, of which single members and links are shown.
    first: Outcome<GroupData>,
}

/// The columns: heading and cell.
const COLUMNS: [&str; 12] =
    ["S", "MB/node/s", "bound", "share", "of shape", "gain", "p50", "p99", "gap", "lost", "wrong", "uplinks"];

const LEGEND: &str = "MB/node/s: payload that a member delivers, its own included. Bound: what no shape exceeds with S senders. Gain: over the first run \
with as many senders.\np50, p99: from handing in a message until another member has it. Gap: the longest time without a delivery. Wrong: duplicates and \
violations of order or agreement.";

impl GroupReport {
    pub(crate) fn new(
        about: About,
        axes: Vec<(String, String)>,
        results: Vec<Outcome<GroupData>>,
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

    /// The key sentences.
    fn headline(&self) -> Vec<String> {
        let all = |value: Value| self.rows.iter().map(|row| row.mean(value)).sum::<f64>();
        let deliveries = all(|m| m.deliveries as f64);
        let wrong: Vec<&Row> =
            self.rows.iter().filter(|row| row.mean(|m| (m.lost + m.faults()) as f64) > 0.0).collect();
        let mut sentences = vec![if wrong.is_empty() {
            format!(
                "{} deliveries in {} runs: nothing was lost, nothing came twice, and order was kept.",
                number(deliveries),
                self.rows.len()
            )
        } else {
            let mut names: Vec<&str> = wrong.iter().map(|row| row.label.as_str()).collect();
            names.dedup();
            format!("Messages were lost, came twice, or out of order with: {}.", names.join(", "))
        }];
        let gain = |row: &&Row| row.mean(|m| m.gain.unwrap_or(f64::NAN));
        let gains = self.rows.iter().filter(|row| gain(row).is_finite());
        if let Some(best) = gains.max_by(|a, b| gain(a).total_cmp(&gain(b))).filter(|row| gain(row) > 1.05) {
            sentences.push(format!(
                "{} delivers {:.2} MB/node/s with {} of {} members sending, {:.2} times as much as the first run with as many senders, \
                 and {:.1} % of what any shape could.",
                best.label,
                best.mean(|m| m.throughput_mb_per_s),
                best.first.metrics.senders,
                best.first.metrics.members,
                gain(&best),
                best.mean(|m| m.share_of_bound) * 100.0
            ));
        }
        sentences
    }
}

impl crate::Pages for GroupReport {
    fn html(&self) -> String {
        page::page(self)
    }

    fn figures(&self) -> Vec<(String, String)> {
        figures::all(self).into_iter().map(|figure| (figure.name, figure.svg)).collect()
    }

    fn table(&self) -> String {
        let table = parts::terminal_table(&self.axes, &self.rows, &COLUMNS, Row::cells);
        format!("{}\n{}\n{}{}\n", self.about.title, LEGEND, table, self.headline().join("\n"))
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
        let of = |metrics: &GroupMetrics| metrics.delivery_latency_ms.as_ref().map_or(f64::NAN, value);
        self.metrics.iter().map(of).sum::<f64>() / self.metrics.len() as f64
    }

    fn cells(&self) -> Vec<String> {
        let percent = |value: Value| percent(self.mean(value), 1);
        vec![
            self.first.metrics.senders.to_string(),
            fixed(self.mean(|m| m.throughput_mb_per_s), 2),
            fixed(self.mean(|m| m.upper_bound_mb_per_s), 2),
            percent(|m| m.share_of_bound),
            percent(|m| m.share_of_shape_bound),
            fixed(self.mean(|m| m.gain.unwrap_or(f64::NAN)), 2),
            short_ms(self.latency(|s| s.p50)),
            short_ms(self.latency(|s| s.p99)),
            short_ms(self.mean(|m| m.longest_gap_ms)),
            number(self.mean(|m| m.lost as f64)),
            number(self.mean(|m| m.faults() as f64)),
            percent_range(self.mean(|m| m.uplink_utilisation_min), self.mean(|m| m.uplink_utilisation_max)),
        ]
    }
}
