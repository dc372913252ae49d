//! The retained data of a run with transactions, and its tables.

use crate::section::Transactions;
use samara_scenario::Point;

use super::course::{BlockRow, TransactionsMeasured};
use super::measure::TxRow;
use super::metrics::{TransactionMetrics, transaction_metrics};
use super::torture;
use samara_lab::network::Hosts;
use samara_lab::results::columns::column;
use samara_lab::results::deliveries::{DELIVERIES, senders};
use samara_lab::results::tables::{Columns, Table, distribution, traffic};
use samara_lab::results::{ByClass, Measured, Outcome, Spread};

/// The retained data of a run with transactions.
#[derive(Clone, Debug)]
pub struct PoolData {
    pub metrics: TransactionMetrics,
    pub transactions: Vec<TxRow>,
    pub blocks: Vec<BlockRow>,
    /// Milliseconds from submission to delivery, with the cumulative share of deliveries.
    pub latency: Vec<(f64, f64)>,
    /// Number of links of each node.
    pub degrees: Vec<u32>,
    /// The way of some transactions.
    pub(crate) spread: Spread,
    /// The names of regions, and the region of each host; both empty without regions.
    pub regions: (Vec<String>, Vec<u16>),
}

/// Returns the outcome with the factors of saved bytes and copies relative to the scenario's first
/// run.
pub(super) fn related(own: &Outcome, others: &[&Outcome], first: &str) -> Option<Outcome> {
    let base = others.iter().find(|other| other.run.name == first)?.data::<PoolData>()?;
    let mut related = own.data::<PoolData>()?.clone();
    let factor = |value: fn(&TransactionMetrics) -> f64| {
        let (own, base) = (value(&related.metrics), value(&base.metrics));
        (own > 0.0).then(|| base / own)
    };
    let bytes = factor(|metrics| metrics.connection_bytes);
    let copies = factor(|metrics| metrics.duplication_factor);
    related.metrics.bytes_saved_factor = bytes;
    related.metrics.copies_saved_factor = copies;
    Some(own.with(related))
}

impl TransactionsMeasured {
    /// Computes the metrics that come from single nodes for each class of nodes.
    fn by_class(&self) -> ByClass {
        let is_honest = |node: u32| self.uptime.honest.get(node as usize) == Some(&true);
        let reached = self.collector.reached(&self.uptime, self.end_nanos);
        ByClass::of(&self.point, &self.hosts)
            .ratio("delivered_share", reached.map(|(node, has)| (node, f64::from(u8::from(has)), 1.0)))
            .deliveries("delivery_latency_ms", &self.collector.deliveries, |_| true)
            .bytes(&self.traffic, is_honest)
            .uplinks(&self.traffic, self.measured_nanos, is_honest)
    }
}

impl Measured for TransactionsMeasured {
    fn setting(&self) -> (&Point, &Hosts) {
        (&self.point, &self.hosts)
    }

    fn broken(&self) -> Vec<samara_lab::torture::Broken> {
        torture::broken(self)
    }

    fn outcome(&self) -> Outcome {
        let data = PoolData {
            metrics: transaction_metrics(self),
            transactions: self.collector.rows.clone(),
            blocks: self.blocks.clone(),
            latency: self.collector.latency.distribution_ms(),
            degrees: self.degrees.clone(),
            spread: self.collector.spread(&self.point, &self.uptime),
            regions: self.hosts.placed(),
        };
        let workload: &Transactions = self.point.scenario.part();
        let parameter = match (workload.rate, workload.closed_loop()) {
            (Some(rate), _) => ("transactions_per_s", rate.into()),
            (None, clients) => ("clients", clients.into()),
        };
        let absence = self.collector.deliveries.absence("pool.duration or network.nodes");
        let is_incomplete = data.metrics.incomplete > 0;
        Outcome::new(&self.point, self.digest, parameter, data, is_incomplete)
            .by_class(self.by_class())
            .without(DELIVERIES, absence)
    }

    fn tables<'a>(&'a self, outcome: &'a Outcome) -> Vec<Table<'a>> {
        let data: &PoolData = outcome.own();
        let first = self.point.scenario.part::<Transactions>().warm_up.nanos();
        let ms = move |at: u64| at.saturating_sub(first) as f64 / 1e6;
        let mut tables = vec![
            Table::new("transactions", data.transactions.len(), move || transactions(&data.transactions, ms)),
            Table::new("blocks", data.blocks.len(), move || blocks(&data.blocks, ms)),
            distribution("delivery_latency", "delivery_latency_ms", &data.latency),
            Table::new("traffic", self.traffic.len(), || {
                let mut nodes = traffic(&self.traffic, &self.hosts, &self.point.scenario);
                nodes.push(("links", column(self.degrees.iter().copied())));
                nodes.push(("honest", column(self.uptime.honest.iter().copied())));
                nodes
            }),
        ];
        tables.extend(self.collector.deliveries.table(|rows| {
            [vec![("transaction", column(rows.iter().map(|row| row.item)))], vec![senders(rows)]]
        }));
        tables
    }
}

fn transactions(rows: &[TxRow], ms: impl Fn(u64) -> f64) -> Columns {
    let committed = rows.iter().map(|row| row.is_committed().then(|| ms(row.committed)));
    vec![
        ("transaction", column(0..rows.len() as u32)),
        ("origin", column(rows.iter().map(|row| row.origin))),
        ("valid", column(rows.iter().map(|row| row.valid))),
        ("submitted_ms", column(rows.iter().map(|row| ms(row.submitted)))),
        ("pools", column(rows.iter().map(|row| row.pools))),
        ("dissemination_ms", column(rows.iter().map(TxRow::dissemination_ms))),
        ("committed_ms", column(committed)),
    ]
}

fn blocks(rows: &[BlockRow], ms: impl Fn(u64) -> f64) -> Columns {
    vec![
        ("committed_ms", column(rows.iter().map(|block| ms(block.at)))),
        ("proposer", column(rows.iter().map(|block| block.proposer))),
        ("transactions", column(rows.iter().map(|block| block.txs))),
        ("bytes", column(rows.iter().map(|block| block.bytes))),
    ]
}
