//! The report of transactions and their pools.

mod compare;
mod figures;
mod maps;
mod page;
mod rows;
mod words;

use samara_lab::reference::KnownComparison;
use samara_lab::results::{Outcome, PoolData, TransactionMetrics};
use samara_lab::scenario::{Loaded, Scenario};
use samara_lab::statistics::Statistics;

use crate::about::{About, by_place};
use crate::parts::{self, Runs};
use crate::terminal::number;
use crate::words::{fixed, percent, short_ms};

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
#[cfg_attr(test, derive(Default))]
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
    /// What it was done with but for its pool.
    circumstances: Option<Box<Scenario>>,
    copies: f64,
}

/// The columns: heading and cell.
const COLUMNS: [&str; 11] =
    ["copies", "SeenTx", "WantTx", "p50", "p99", "kB", "kB wire", "saved", "early", "by block", "incomplete"];

/// The place of what a run saves, which is known once all runs are.
const SAVED: usize = 7;

impl TransactionsReport {
    pub(crate) fn new(
        about: About,
        axes: Vec<(String, String)>,
        results: Vec<Outcome<PoolData>>,
        loaded: &Loaded,
        known: &[KnownComparison],
    ) -> Self {
        let groups = by_place(&results, &axes, |result| &result.run);
        let with = |((run, point), results): ((String, Vec<String>), Vec<&Outcome<PoolData>>)| {
            let circumstances = compare::circumstances(loaded, &run, &axes, &point).map(Box::new);
            Row { circumstances, ..row(run, point, &results) }
        };
        let mut rows: Vec<Row> = groups.into_iter().map(with).collect();
        let saved: Vec<Option<f64>> =
            rows.iter().map(|row| compare::saved(&rows, row, compare::BYTES[0].1)).collect();
        for (row, saved) in rows.iter_mut().zip(saved) {
            row.cells[SAVED] = fixed(saved.unwrap_or(f64::NAN), 2);
        }
        Self { about, axes, rows, known: known.to_vec() }
    }

    /// The key sentences.
    fn headline(&self) -> Vec<String> {
        words::headline(self)
    }
}

impl crate::Pages for TransactionsReport {
    fn html(&self) -> String {
        page::page(self)
    }

    fn figures(&self) -> Vec<(String, String)> {
        figures::all(self).into_iter().map(|figure| (figure.name, figure.svg)).collect()
    }

    fn table(&self) -> String {
        let table = parts::terminal_table(&self.axes, &self.rows, &COLUMNS, |row| row.cells.clone());
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
    /// A count of all seeds together.
    fn count(&self, value: fn(&TransactionMetrics) -> u64) -> f64 {
        self.metrics.iter().map(value).sum::<u64>() as f64
    }

    /// The mean of a figure over seeds.
    fn mean(&self, value: &dyn Fn(&TransactionMetrics) -> f64) -> f64 {
        self.metrics.iter().map(value).sum::<f64>() / self.metrics.len() as f64
    }
}

const LEGEND: &str = "For each node and transaction: bodies received (copies), announcements, requests; bytes in connections and on the wire.\n\
p50, p99: from the submission until a node has it. Saved: bytes in connections of the first run with the same transactions and network over those of this one. Early: requests that timed \
out although their peer was in time.";

fn row(run: String, point: Vec<String>, results: &[&Outcome<PoolData>]) -> Row {
    let over = |value: &dyn Fn(&TransactionMetrics) -> f64| {
        results.iter().map(|result| value(&result.metrics)).sum::<f64>() / results.len() as f64
    };
    let latency =
        |value: fn(&Statistics) -> f64| over(&|m| m.delivery_latency_ms.as_ref().map_or(f64::NAN, value));
    let copies = over(&|m| m.duplication_factor);
    let cells = vec![
        fixed(copies, 3),
        fixed(over(&|m| m.seen_tx), 1),
        fixed(over(&|m| m.want_tx), 2),
        short_ms(latency(|s| s.p50)),
        short_ms(latency(|s| s.p99)),
        fixed(over(&|m| m.connection_bytes) / 1e3, 2),
        fixed(over(&|m| m.bytes.total) / 1e3, 2),
        String::new(),
        number(over(&|m| m.early_timeouts as f64)),
        percent(over(&|m| m.by_block_share), 2),
        number(over(&|m| m.incomplete as f64)),
    ];
    Row {
        run,
        label: results[0].label.clone(),
        point,
        cells,
        metrics: results.iter().map(|result| result.metrics.clone()).collect(),
        latency: results[0].latency.clone(),
        circumstances: None,
        copies,
    }
}
