//! The report of transactions and their pools.

mod figures;
mod page;

use samara_lab::measure::Statistics;
use samara_lab::reference::KnownComparison;
use samara_lab::results::{TransactionMetrics, TransactionsResult};

use crate::about::{About, by_place};
use crate::terminal::{draw, number};
use crate::words::short_ms;

/// A figure of a run.
type Value = fn(&TransactionMetrics) -> f64;

/// A report over results of transactions.
#[derive(Debug)]
pub(crate) struct TransactionsReport {
    about: About,
    /// The axes of a sweep: key and label.
    axes: Vec<(String, String)>,
    rows: Vec<Row>,
    known: Vec<KnownComparison>,
}

/// Runs that differ in their seeds only: means over seeds.
#[derive(Clone, Debug)]
struct Row {
    run: String,
    label: String,
    /// The values of the sweep's axes, as written in the scenario.
    point: Vec<String>,
    cells: Vec<String>,
    /// One for each seed.
    metrics: Vec<TransactionMetrics>,
    /// Milliseconds until a node had a transaction, and the share of deliveries that took at most so long; of the first seed.
    latency: Vec<(f64, f64)>,
    copies: f64,
    saved: f64,
    transactions: f64,
    incomplete: f64,
}

/// The columns: heading and cell.
const COLUMNS: [&str; 11] =
    ["copies", "SeenTx", "WantTx", "p50", "p99", "kB", "kB wire", "saved", "early", "by block", "incomplete"];

impl TransactionsReport {
    pub(crate) fn new(
        about: About,
        axes: Vec<(String, String)>,
        results: Vec<TransactionsResult>,
        known: &[KnownComparison],
    ) -> Self {
        let groups = by_place(&results, &axes, |result| &result.run);
        let rows = groups.into_iter().map(|((run, point), results)| row(run, point, &results)).collect();
        Self { about, axes, rows, known: known.to_vec() }
    }

    pub(crate) fn html(&self) -> String {
        page::page(self)
    }

    pub(crate) fn figures(&self) -> Vec<(String, String)> {
        figures::all(self).into_iter().map(|(name, _, svg)| (name, svg)).collect()
    }

    pub(crate) fn table(&self) -> String {
        let mut header: Vec<String> = vec!["run".to_owned()];
        header.extend(self.axes.iter().map(|(_, label)| label.clone()));
        header.extend(COLUMNS.map(str::to_owned));
        let rows: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| [vec![row.run.clone()], row.point.clone(), row.cells.clone()].concat())
            .collect();
        format!(
            "{}\n{}\n{}{}\n",
            self.about.title,
            LEGEND,
            draw(&header, &rows, 1 + self.axes.len()),
            self.headline().join("\n")
        )
    }

    /// The key sentences.
    fn headline(&self) -> Vec<String> {
        let (total, incomplete) = self.rows.iter().fold((0.0, 0.0), |(total, incomplete), row| {
            (total + row.transactions, incomplete + row.incomplete)
        });
        let mut sentences = vec![if incomplete == 0.0 {
            format!(
                "{} transactions in {} runs, and every valid one reached every honest node.",
                number(total),
                self.rows.len()
            )
        } else {
            format!(
                "{} of {} transactions did not reach every honest node.",
                number(incomplete),
                number(total)
            )
        }];
        let best =
            self.rows.iter().filter(|row| row.saved.is_finite()).max_by(|a, b| a.saved.total_cmp(&b.saved));
        if let Some(best) = best.filter(|row| row.saved > 1.0) {
            sentences.push(format!(
                "{} needs {:.1} times fewer bytes than {}, with {:.2} bodies for each node and transaction.",
                best.label, best.saved, self.rows[0].label, best.copies
            ));
        }
        sentences
    }
}

impl Row {
    /// The mean of a figure over seeds.
    fn mean(&self, value: &dyn Fn(&TransactionMetrics) -> f64) -> f64 {
        self.metrics.iter().map(value).sum::<f64>() / self.metrics.len() as f64
    }
}

const LEGEND: &str = "For each node and transaction: bodies received (copies), announcements, requests; bytes in connections and on the wire.\n\
p50, p99: from the submission until a node has it. Saved: bytes in connections of the first run over those of this one. Early: requests that timed \
out although their peer was in time.";

fn row(run: String, point: Vec<String>, results: &[&TransactionsResult]) -> Row {
    let over = |value: &dyn Fn(&TransactionMetrics) -> f64| {
        results.iter().map(|result| value(&result.metrics)).sum::<f64>() / results.len() as f64
    };
    let latency =
        |value: fn(&Statistics) -> f64| over(&|m| m.delivery_latency_ms.as_ref().map_or(f64::NAN, value));
    let saved = over(&|m| m.bytes_saved_factor.unwrap_or(f64::NAN));
    let copies = over(&|m| m.duplication_factor);
    let incomplete = over(&|m| m.incomplete as f64);
    let cells = vec![
        format!("{copies:.3}"),
        format!("{:.1}", over(&|m| m.seen_tx)),
        format!("{:.2}", over(&|m| m.want_tx)),
        short_ms(latency(|s| s.p50)),
        short_ms(latency(|s| s.p99)),
        format!("{:.2}", over(&|m| m.connection_bytes) / 1e3),
        format!("{:.2}", over(&|m| m.bytes.total) / 1e3),
        if saved.is_finite() { format!("{saved:.2}") } else { "-".to_owned() },
        number(over(&|m| m.early_timeouts as f64)),
        format!("{:.2} %", over(&|m| m.by_block_share) * 100.0),
        number(incomplete),
    ];
    Row {
        run,
        label: results[0].label.clone(),
        point,
        cells,
        metrics: results.iter().map(|result| result.metrics.clone()).collect(),
        latency: results[0].latency.clone(),
        copies,
        saved,
        transactions: over(&|m| m.transactions as f64),
        incomplete,
    }
}
