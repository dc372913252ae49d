//! What is kept of a run with transactions, and its tables.

use crate::scenario::Transactions;

use super::measure::TxRow;
use super::metrics::{TransactionMetrics, transaction_metrics};
use super::run::{BlockRow, TransactionsMeasured};
use crate::network::Hosts;
use crate::results::columns::column;
use crate::results::tables::{Columns, Table, distribution, traffic};
use crate::results::{Data, Measured, Outcome};
use crate::scenario::Point;

/// What is kept of a run with transactions.
#[derive(Clone, Debug)]
pub struct PoolData {
    /// The figures.
    pub metrics: TransactionMetrics,
    pub transactions: Vec<TxRow>,
    pub blocks: Vec<BlockRow>,
    /// Milliseconds from submission to delivery, and the share of deliveries that took at most so long.
    pub latency: Vec<(f64, f64)>,
    /// Links of each node.
    pub degrees: Vec<u32>,
}

impl Data for PoolData {
    type Metrics = TransactionMetrics;

    fn metrics(&self) -> &TransactionMetrics {
        &self.metrics
    }

    fn is_incomplete(&self) -> bool {
        self.metrics.incomplete > 0
    }
}

/// The run with how much it saves beside the scenario's first one.
pub(super) fn related(own: &Outcome, others: &[&Outcome], first: &str) -> Option<Outcome> {
    let base = others.iter().find(|other| other.run.name == first)?.data::<PoolData>()?;
    let mut related = own.data::<PoolData>()?.clone();
    let (bytes, base) = (related.metrics.connection_bytes, base.metrics.connection_bytes);
    related.metrics.bytes_saved_factor = (bytes > 0.0).then(|| base / bytes);
    Some(own.with(related))
}

impl PoolData {
    fn of(measured: &TransactionsMeasured) -> Self {
        Self {
            metrics: transaction_metrics(measured),
            transactions: measured.collector.rows().to_vec(),
            blocks: measured.blocks.clone(),
            latency: measured.collector.latency().distribution_ms(),
            degrees: measured.degrees.clone(),
        }
    }
}

impl Measured for TransactionsMeasured {
    fn setting(&self) -> (&Point, &Hosts) {
        (&self.point, &self.hosts)
    }

    fn outcome(&self) -> Outcome {
        let data = PoolData::of(self);
        let workload = self.point.scenario.part::<Transactions>().clone();
        let parameter = match (workload.rate, workload.closed_loop()) {
            (Some(rate), _) => ("transactions_per_s", rate.into()),
            (None, clients) => ("clients", clients.into()),
        };
        Outcome::new(&self.point, (self.digest, self.steps), parameter, data)
    }

    fn tables<'a>(&'a self, outcome: &'a Outcome) -> Vec<Table<'a>> {
        let Some(data) = outcome.data::<PoolData>() else { panic!("the outcome of another family") };
        transactions(self, data)
    }
}

/// Of a run with transactions.
fn transactions<'a>(measured: &'a TransactionsMeasured, result: &'a PoolData) -> Vec<Table<'a>> {
    let first = measured.point.scenario.find::<Transactions>().map_or(0, |t| t.warm_up.nanos());
    let ms = move |at: u64| at.saturating_sub(first) as f64 / 1e6;
    vec![
        Table::new("transactions", result.transactions.len(), move || transaction_rows(result, ms)),
        Table::new("blocks", result.blocks.len(), move || block_rows(result, ms)),
        distribution("delivery_latency", "delivery_latency_ms", &result.latency),
        Table::new("traffic", measured.traffic.len(), || {
            let mut nodes = traffic(&measured.traffic, &measured.hosts, &measured.point.scenario);
            let honest = measured.uptime.honest.iter().map(|honest| Some(*honest));
            nodes.extend([("links", column(measured.degrees.iter().copied())), ("honest", column(honest))]);
            nodes
        }),
    ]
}

fn transaction_rows(result: &PoolData, ms: impl Fn(u64) -> f64) -> Columns {
    let rows = &result.transactions;
    let committed = rows.iter().map(|row| row.is_committed().then(|| ms(row.committed)));
    vec![
        ("transaction", column(0..rows.len() as u32)),
        ("origin", column(rows.iter().map(|row| row.origin))),
        ("valid", column(rows.iter().map(|row| row.valid))),
        ("submitted_ms", column(rows.iter().map(|row| ms(row.submitted)))),
        ("pools", column(rows.iter().map(|row| row.pools))),
        ("dissemination_ms", column(rows.iter().map(|row| row.dissemination_ms()))),
        ("committed_ms", column(committed)),
    ]
}

fn block_rows(result: &PoolData, ms: impl Fn(u64) -> f64) -> Columns {
    let blocks = &result.blocks;
    vec![
        ("committed_ms", column(blocks.iter().map(|block| ms(block.at)))),
        ("proposer", column(blocks.iter().map(|block| block.proposer))),
        ("transactions", column(blocks.iter().map(|block| block.txs))),
        ("bytes", column(blocks.iter().map(|block| block.bytes))),
    ]
}
