//! Results: metrics, the machine-readable summary, and the tables of a results directory.

mod directory;
mod findings;
mod metric;
mod saved;
mod summary;
pub(crate) mod tables;
mod traffic;

pub use crate::columns::metrics::{ColumnMetrics, Slot, column_metrics};
pub use crate::group::gateways::GatewayFigures;
pub use crate::group::metrics::{GroupBytes, GroupMetrics, MemberRow, group_metrics};
pub use crate::messages::metrics::{MessageMetrics, message_metrics};
pub use crate::mix::handover::metrics::{HandoverMetrics, HandoverParts, handover_metrics};
pub use crate::mix::metrics::{RelayMetrics, relay_metrics};
pub use crate::pool::metrics::{TransactionBytes, TransactionMetrics, transaction_metrics};
pub(crate) use directory::flatten_toml;
pub use directory::{DirectoryError, ResultsDirectory, point_name};
pub use findings::{Findings, Used};
pub use metric::{Better, better, is_first, rank};
pub use saved::{Curve, Saved, SavedRun};
pub use summary::{Metrics, ProcessUse, RealRun, Run, Summary, combined_digest};
pub(crate) use tables::write_table;
pub use tables::{Table, TableError, tables};
pub use traffic::PacketDrops;
pub(crate) use traffic::{packet_drops, ratio};

use std::collections::BTreeMap;

use samara_mix::Phase;

use crate::columns::measure::Delivery;
use crate::messages::measure::MessageRow;
use crate::mix::measure::{PhaseTimes, RoundRow, WorkSpan};
use crate::pool::measure::TxRow;
use crate::run::{
    BatchTimes, BlockRow, ColumnsMeasured, HandoverMeasured, Harm, Measured, MessagesMeasured,
    TransactionsMeasured,
};
use crate::scenario::Loaded;

/// What is kept of a run: its metrics, and what figures are drawn from.
#[derive(Clone, Debug)]
pub enum RunResult {
    /// Of blocks of columns.
    Columns(ColumnsResult),
    /// Of a stream of messages.
    Messages(MessagesResult),
    /// Of transactions and their pools.
    Transactions(Box<TransactionsResult>),
    /// Of broadcasts in a group.
    Group(Box<GroupResult>),
    /// Of batches that one node hands to another.
    Handover(Box<HandoverResult>),
    /// Of teams that mix batches.
    Relay(Box<RelayResult>),
}

/// What is kept of a run with blocks of columns.
#[derive(Clone, Debug)]
pub struct ColumnsResult {
    /// The entry in the summary.
    pub run: Run,
    /// The figures.
    pub metrics: ColumnMetrics,
    /// For each slot: when it was published, in nanoseconds of the run.
    pub published: Vec<u64>,
    /// Columns of a block.
    pub columns: u32,
    /// First copies and what came after them.
    pub deliveries: Vec<Delivery>,
    /// For each slot: milliseconds until hosts had all their columns; `None` for those that never had.
    pub custody_ms: Vec<Vec<(u32, Option<f64>)>>,
    /// What the scenario calls the variant.
    pub label: String,
    /// What is different about it.
    pub description: String,
}

/// What is kept of a run with a stream of messages.
#[derive(Clone, Debug)]
pub struct MessagesResult {
    /// The entry in the summary.
    pub run: Run,
    /// The figures.
    pub metrics: MessageMetrics,
    /// Message by message.
    pub messages: Vec<MessageRow>,
    /// Nodes that a message is to reach: all but its publisher.
    pub others: u32,
    /// Milliseconds from publication to delivery, and the share of deliveries that took at most so long.
    pub latency: Vec<(f64, f64)>,
    /// Milliseconds between two deliveries at a node, and the share that were at most so far apart.
    pub inter_arrival: Vec<(f64, f64)>,
    /// Copies that did not fit into the queue of a node (first) for a peer (second).
    pub lost: BTreeMap<(u32, u32), u64>,
    /// Links of each node.
    pub degrees: Vec<u32>,
    /// What the scenario calls the variant.
    pub label: String,
    /// What is different about it.
    pub description: String,
    /// The series that it is drawn with.
    pub series: String,
}

/// What is kept of a run with transactions.
#[derive(Clone, Debug)]
pub struct TransactionsResult {
    /// The entry in the summary.
    pub run: Run,
    /// The figures.
    pub metrics: TransactionMetrics,
    /// Transaction by transaction.
    pub transactions: Vec<TxRow>,
    /// Block by block.
    pub blocks: Vec<BlockRow>,
    /// Milliseconds from submission to delivery, and the share of deliveries that took at most so long.
    pub latency: Vec<(f64, f64)>,
    /// Links of each node.
    pub degrees: Vec<u32>,
    /// What the scenario calls the variant.
    pub label: String,
    /// What is different about it.
    pub description: String,
    /// The series that it is drawn with.
    pub series: String,
}

/// What is kept of a run with a group.
#[derive(Clone, Debug)]
pub struct GroupResult {
    /// The entry in the summary.
    pub run: Run,
    /// The figures.
    pub metrics: GroupMetrics,
    /// Member by member.
    pub members: Vec<MemberRow>,
    /// Bytes of frames on each link: by sender, and then by receiver.
    pub links: Vec<Vec<u64>>,
    /// Milliseconds from handing in a message until another member delivers it, and the share of deliveries that took at most so long.
    pub latency: Vec<(f64, f64)>,
    /// How long the stream took, in milliseconds.
    pub took_ms: f64,
    /// What the scenario calls the variant.
    pub label: String,
    /// What is different about it.
    pub description: String,
    /// The series that it is drawn with.
    pub series: String,
}

/// What is kept of a run with batches.
#[derive(Clone, Debug)]
pub struct HandoverResult {
    /// The entry in the summary.
    pub run: Run,
    /// The figures.
    pub metrics: HandoverMetrics,
    /// Batch by batch.
    pub batches: Vec<BatchTimes>,
    /// What the scenario calls the variant.
    pub label: String,
    /// What is different about it.
    pub description: String,
}

/// What is kept of a run with a relay. Times are nanoseconds of the run.
#[derive(Clone, Debug)]
pub struct RelayResult {
    /// The entry in the summary.
    pub run: Run,
    /// The figures.
    pub metrics: RelayMetrics,
    /// Round by round.
    pub rounds: Vec<RoundRow>,
    /// By round, node and phase: when things happened.
    pub phases: Vec<((u64, u32, Phase), PhaseTimes)>,
    /// What cores worked on.
    pub work: Vec<WorkSpan>,
    /// What faults did to nodes.
    pub harm: Vec<Harm>,
    /// When payloads began to come.
    pub begun: u64,
    /// When the last round was over.
    pub over: u64,
    /// What the scenario calls the variant.
    pub label: String,
    /// What is different about it.
    pub description: String,
    /// The series that it is drawn with.
    pub series: String,
}

impl RunResult {
    /// Takes what is needed out of the measurements of a run.
    pub fn of(measured: &Measured) -> Self {
        let run = Run::of(measured);
        match measured {
            Measured::Columns(measured) => Self::Columns(ColumnsResult::of(run, measured)),
            Measured::Messages(measured) => Self::Messages(MessagesResult::of(run, measured)),
            Measured::Transactions(measured) => {
                Self::Transactions(Box::new(TransactionsResult::of(run, measured)))
            }
            Measured::Group(measured) => Self::Group(Box::new(GroupResult::of(run, measured))),
            Measured::Handover(measured) => Self::Handover(Box::new(HandoverResult::of(run, measured))),
            Measured::Relay(measured) => Self::Relay(Box::new(RelayResult::of(run, measured))),
        }
    }

    /// The result of a run on real nodes.
    pub fn of_real(measured: &Measured, real: RealRun) -> Self {
        let mut result = Self::of(measured);
        let run = match &mut result {
            Self::Columns(result) => &mut result.run,
            Self::Messages(result) => &mut result.run,
            Self::Transactions(result) => &mut result.run,
            Self::Group(result) => &mut result.run,
            Self::Handover(result) => &mut result.run,
            Self::Relay(result) => &mut result.run,
        };
        run.real = Some(real);
        result
    }

    /// The entry in the summary.
    pub fn run(&self) -> &Run {
        match self {
            Self::Columns(result) => &result.run,
            Self::Messages(result) => &result.run,
            Self::Transactions(result) => &result.run,
            Self::Group(result) => &result.run,
            Self::Handover(result) => &result.run,
            Self::Relay(result) => &result.run,
        }
    }
}

impl HandoverResult {
    fn of(run: Run, measured: &HandoverMeasured) -> Self {
        Self {
            run,
            metrics: handover_metrics(measured),
            batches: measured.batches.clone(),
            label: measured.point.label.clone(),
            description: measured.point.description.clone(),
        }
    }
}

impl ColumnsResult {
    fn of(run: Run, measured: &ColumnsMeasured) -> Self {
        let slots = 0..measured.published.len() as u32;
        let custody_ms = slots
            .map(|slot| measured.collector.custody_ms(slot, measured.published[slot as usize]))
            .collect();
        Self {
            run,
            metrics: column_metrics(measured),
            published: measured.published.clone(),
            columns: measured.point.scenario.workload.columns,
            deliveries: measured.collector.deliveries().to_vec(),
            custody_ms,
            label: measured.point.label.clone(),
            description: measured.point.description.clone(),
        }
    }
}

impl MessagesResult {
    fn of(run: Run, measured: &MessagesMeasured) -> Self {
        Self {
            run,
            metrics: message_metrics(measured),
            messages: measured.collector.rows().to_vec(),
            others: measured.point.scenario.network.nodes - 1,
            latency: measured.collector.latency().distribution_ms(),
            inter_arrival: measured.collector.inter_arrival().distribution_ms(),
            lost: measured.lost.clone(),
            degrees: measured.degrees.clone(),
            label: measured.point.label.clone(),
            description: measured.point.description.clone(),
            series: measured.point.series.clone(),
        }
    }
}

impl TransactionsResult {
    fn of(run: Run, measured: &TransactionsMeasured) -> Self {
        Self {
            run,
            metrics: transaction_metrics(measured),
            transactions: measured.collector.rows().to_vec(),
            blocks: measured.blocks.clone(),
            latency: measured.collector.latency().distribution_ms(),
            degrees: measured.degrees.clone(),
            label: measured.point.label.clone(),
            description: measured.point.description.clone(),
            series: measured.point.series.clone(),
        }
    }
}

impl TransactionsResult {
    fn relate(&mut self, base: &Self) {
        let (own, base) = (self.metrics.connection_bytes, base.metrics.connection_bytes);
        self.metrics.bytes_saved_factor = (own > 0.0).then(|| base / own);
        self.run.metrics = Metrics::Transactions(Box::new(self.metrics.clone()));
    }
}

/// Sets figures of transactions beside those of the scenario's first run, and figures of groups beside those of the first run with as
/// many senders, those of relays beside the first run of their series; in all cases with the same values of the sweep and the same seed.
pub fn relate(loaded: &Loaded, results: &mut [RunResult]) {
    let first = loaded.scenario.runs.first().map_or(&loaded.scenario.scenario.name, |run| &run.name).clone();
    let all = results.to_vec();
    for result in results {
        let own = result.run().clone();
        let mut same = all.iter().filter(|other| other.run().parameters == own.parameters);
        match result {
            RunResult::Transactions(result) => {
                if let Some(RunResult::Transactions(base)) = same.find(|other| other.run().name == first) {
                    result.relate(base);
                }
            }
            RunResult::Group(result) => {
                if let Some(RunResult::Group(base)) = same.next() {
                    result.relate(base);
                }
            }
            RunResult::Relay(result) => {
                let is_base = |base: &&RelayResult| base.series == result.series;
                let mut bases = same.filter_map(|other| match other {
                    RunResult::Relay(base) => Some(&**base),
                    _ => None,
                });
                if let Some(base) = bases.find(is_base) {
                    result.relate(base);
                }
            }
            RunResult::Columns(_) | RunResult::Messages(_) | RunResult::Handover(_) => {}
        }
    }
}
