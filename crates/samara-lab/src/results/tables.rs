//! Tables in Arrow's format, as they are written into Parquet files. Columns have the names and units of the metrics.

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, UInt16Array, UInt32Array, UInt64Array,
};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use samara_sim::HostStats;
use thiserror::Error;

use super::{
    ColumnsResult, GroupResult, HandoverResult, MemberRow, MessagesResult, RunResult, TransactionsResult,
};
use crate::columns::measure::CopyRow;
use crate::network::Hosts;
use crate::run::{
    BatchTimes, ColumnsMeasured, GroupMeasured, Measured, MessagesMeasured, TransactionsMeasured,
};
use crate::scenario::Scenario;

/// Why a table could not be written or read.
#[derive(Debug, Error)]
#[error("{path}: {source}")]
pub struct TableError {
    path: String,
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl TableError {
    /// What went wrong with a file.
    pub(crate) fn of(path: &Path, source: Box<dyn std::error::Error + Send + Sync>) -> Self {
        Self { path: path.display().to_string(), source }
    }
}

/// The columns of a table.
pub(crate) type Columns = Vec<(&'static str, ArrayRef)>;

/// A table of a run, made when it is asked for: all at once would take much memory.
pub struct Table<'a> {
    name: &'static str,
    rows: usize,
    make: Box<dyn Fn() -> Columns + 'a>,
}

impl fmt::Debug for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} rows", self.name, self.rows)
    }
}

impl<'a> Table<'a> {
    pub(crate) fn new(name: &'static str, rows: usize, make: impl Fn() -> Columns + 'a) -> Self {
        Self { name, rows, make: Box::new(make) }
    }

    /// What it is called; the name of its file without `.parquet`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Makes it.
    pub fn batch(&self) -> RecordBatch {
        match RecordBatch::try_from_iter((self.make)()) {
            Ok(batch) => batch,
            Err(error) => unreachable!("all columns of {} have as many rows: {error}", self.name),
        }
    }

    /// Writes it into a directory.
    pub(crate) fn write(&self, directory: &Path) -> Result<(), TableError> {
        write(directory, self.name, &self.batch())
    }
}

/// Writes a table into a directory.
pub(crate) fn write(directory: &Path, name: &str, batch: &RecordBatch) -> Result<(), TableError> {
    let path = directory.join(format!("{name}.parquet"));
    let file = File::create(&path).map_err(|error| TableError::of(&path, error.into()))?;
    write_batch(file, &path, batch)
}

/// The tables of a run. What a result keeps is taken from it, so that both must be of the same run.
///
/// # Panics
/// If they are of different kinds.
pub fn tables<'a>(measured: &'a Measured, result: &'a RunResult) -> Vec<Table<'a>> {
    let of_kind = match (measured, result) {
        (Measured::Columns(measured), RunResult::Columns(result)) => columns(measured, result),
        (Measured::Messages(measured), RunResult::Messages(result)) => messages(measured, result),
        (Measured::Transactions(measured), RunResult::Transactions(result)) => transactions(measured, result),
        (Measured::Group(measured), RunResult::Group(result)) => group(measured, result),
        (Measured::Handover(_), RunResult::Handover(result)) => handover(result),
        (Measured::Relay(measured), RunResult::Relay(result)) => result.tables(measured),
        _ => panic!("a result is of the kind of its measurement"),
    };
    of_kind.into_iter().chain(hosts(measured)).collect()
}

/// Of a run with blocks of columns.
fn columns<'a>(measured: &'a ColumnsMeasured, result: &'a ColumnsResult) -> Vec<Table<'a>> {
    let rows = measured.collector.copies();
    vec![
        Table::new("deliveries", result.deliveries.len(), || deliveries(result)),
        Table::new("copies", rows.len(), || copies(rows, result.columns, &result.published)),
        Table::new("traffic", measured.traffic.len(), || {
            traffic(&measured.traffic, &measured.hosts, &measured.point.scenario)
        }),
    ]
}

/// Of a run with a stream of messages.
fn messages<'a>(measured: &'a MessagesMeasured, result: &'a MessagesResult) -> Vec<Table<'a>> {
    vec![
        Table::new("messages", result.messages.len(), || message_rows(result)),
        distribution("delivery_latency", "delivery_latency_ms", &result.latency),
        distribution("inter_arrival", "inter_arrival_ms", &result.inter_arrival),
        Table::new("queue_drops", result.lost.len(), || {
            vec![
                ("node", numbers(result.lost.keys().map(|(node, _)| *node))),
                ("peer", numbers(result.lost.keys().map(|(_, peer)| *peer))),
                ("copies", Arc::new(UInt64Array::from_iter_values(result.lost.values().copied()))),
            ]
        }),
        Table::new("traffic", measured.traffic.len(), || message_traffic(measured)),
    ]
}

fn message_traffic(measured: &MessagesMeasured) -> Columns {
    let counts = &measured.counts;
    let mut nodes = traffic(&measured.traffic, &measured.hosts, &measured.point.scenario);
    nodes.extend([
        ("links", numbers(measured.degrees.iter().copied())),
        (
            "delivered",
            Arc::new(UInt64Array::from_iter_values(measured.collector.delivered_by_node().iter().copied()))
                as ArrayRef,
        ),
        ("duplicates", Arc::new(UInt64Array::from_iter_values(counts.iter().map(|node| node.duplicates)))),
        ("answered_copies", Arc::new(UInt64Array::from_iter_values(counts.iter().map(|node| node.answered)))),
    ]);
    nodes
}

/// Of a run with transactions.
fn transactions<'a>(measured: &'a TransactionsMeasured, result: &'a TransactionsResult) -> Vec<Table<'a>> {
    let first = measured.point.scenario.transactions.as_ref().map_or(0, |t| t.warm_up.nanos());
    let ms = move |at: u64| at.saturating_sub(first) as f64 / 1e6;
    vec![
        Table::new("transactions", result.transactions.len(), move || transaction_rows(result, ms)),
        Table::new("blocks", result.blocks.len(), move || block_rows(result, ms)),
        distribution("delivery_latency", "delivery_latency_ms", &result.latency),
        Table::new("traffic", measured.traffic.len(), || {
            let mut nodes = traffic(&measured.traffic, &measured.hosts, &measured.point.scenario);
            let honest = measured.uptime.honest.iter().map(|honest| Some(*honest));
            nodes.extend([
                ("links", numbers(measured.degrees.iter().copied())),
                ("honest", Arc::new(BooleanArray::from_iter(honest)) as ArrayRef),
            ]);
            nodes
        }),
    ]
}

/// A row for each transaction.
fn transaction_rows(result: &TransactionsResult, ms: impl Fn(u64) -> f64) -> Columns {
    let rows = &result.transactions;
    let committed = rows.iter().map(|row| row.is_committed().then(|| ms(row.committed)));
    vec![
        ("transaction", numbers(0..rows.len() as u32)),
        ("origin", numbers(rows.iter().map(|row| row.origin))),
        ("valid", Arc::new(BooleanArray::from_iter(rows.iter().map(|row| Some(row.valid)))) as ArrayRef),
        ("submitted_ms", Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| ms(row.submitted))))),
        ("pools", numbers(rows.iter().map(|row| row.pools))),
        (
            "dissemination_ms",
            Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.dissemination_ms()))),
        ),
        ("committed_ms", Arc::new(Float64Array::from_iter(committed))),
    ]
}

/// A row for each block.
fn block_rows(result: &TransactionsResult, ms: impl Fn(u64) -> f64) -> Columns {
    let blocks = &result.blocks;
    vec![
        (
            "committed_ms",
            Arc::new(Float64Array::from_iter_values(blocks.iter().map(|block| ms(block.at)))) as ArrayRef,
        ),
        ("proposer", numbers(blocks.iter().map(|block| block.proposer))),
        ("transactions", numbers(blocks.iter().map(|block| block.txs))),
        ("bytes", Arc::new(UInt64Array::from_iter_values(blocks.iter().map(|block| block.bytes)))),
    ]
}

/// Of a run with batches.
fn handover(result: &HandoverResult) -> Vec<Table<'_>> {
    let times = |value: fn(&BatchTimes) -> u64| {
        let all = result.batches.iter().map(|batch| value(batch) as f64 / 1e6);
        Arc::new(Float64Array::from_iter_values(all)) as ArrayRef
    };
    vec![Table::new("batches", result.batches.len(), move || {
        vec![
            ("begun_ms", times(|batch| batch.begun)),
            ("ready_ms", times(|batch| batch.ready)),
            ("whole_ms", times(|batch| batch.whole)),
        ]
    })]
}

/// Of a run with a group.
fn group<'a>(measured: &'a GroupMeasured, result: &'a GroupResult) -> Vec<Table<'a>> {
    vec![
        distribution("delivery_latency", "delivery_latency_ms", &result.latency),
        Table::new("links", result.links.iter().map(Vec::len).sum(), || link_rows(result)),
        Table::new("suspicions", measured.suspicions.len(), || suspicion_rows(measured)),
        Table::new("traffic", measured.traffic.len(), || group_traffic(measured, result)),
    ]
}

/// A row for each pair of members.
fn link_rows(result: &GroupResult) -> Columns {
    let pairs = || {
        result
            .links
            .iter()
            .enumerate()
            .flat_map(|(from, row)| row.iter().enumerate().map(move |(to, bytes)| (from, to, *bytes)))
    };
    vec![
        ("from", numbers(pairs().map(|(from, ..)| from as u32))),
        ("to", numbers(pairs().map(|(_, to, _)| to as u32))),
        ("frame_bytes", Arc::new(UInt64Array::from_iter_values(pairs().map(|(.., bytes)| bytes)))),
    ]
}

/// A row for each time that a member suspected another.
fn suspicion_rows(measured: &GroupMeasured) -> Columns {
    let suspicions = &measured.suspicions;
    let at = suspicions.iter().map(|suspicion| suspicion.at as f64 / 1e6);
    vec![
        ("at_ms", Arc::new(Float64Array::from_iter_values(at)) as ArrayRef),
        ("by", numbers(suspicions.iter().map(|s| s.by))),
        ("node", numbers(suspicions.iter().map(|s| s.host))),
        ("false", Arc::new(BooleanArray::from_iter(suspicions.iter().map(|s| Some(s.is_false))))),
    ]
}

fn group_traffic(measured: &GroupMeasured, result: &GroupResult) -> Columns {
    let rows = &result.members;
    let float = |value: fn(&MemberRow) -> f64| {
        Arc::new(Float64Array::from_iter_values(rows.iter().map(value))) as ArrayRef
    };
    let count = |value: fn(&MemberRow) -> u64| {
        Arc::new(UInt64Array::from_iter_values(rows.iter().map(value))) as ArrayRef
    };
    let mut nodes = traffic(&measured.traffic, &measured.hosts, &measured.point.scenario);
    nodes.extend([
        ("steady", Arc::new(BooleanArray::from_iter(rows.iter().map(|row| Some(row.is_steady)))) as ArrayRef),
        ("broadcast", count(|row| row.broadcast)),
        ("delivered", count(|row| row.delivered)),
        ("throughput_mb_per_s", float(|row| row.throughput_mb_per_s)),
        ("uplink_utilisation", float(|row| row.uplink_utilisation)),
        ("longest_gap_ms", float(|row| row.longest_gap_ms)),
        ("longest_gap_until_ms", float(|row| row.longest_gap_until_ms)),
        ("idle_bytes_per_s", count(|row| row.idle_bytes)),
    ]);
    nodes
}

pub(crate) fn numbers(values: impl Iterator<Item = u32>) -> ArrayRef {
    Arc::new(UInt32Array::from_iter_values(values))
}

/// A row for each message.
fn message_rows(result: &MessagesResult) -> Columns {
    let rows = &result.messages;
    let first = rows.iter().map(|row| row.published).min().unwrap_or(0);
    let published = rows.iter().map(|row| row.published.saturating_sub(first) as f64 / 1e6);
    let complete = |row: &&crate::messages::measure::MessageRow| row.delivered == result.others;
    let times = rows.iter().map(|row| Some(row).filter(complete).map(|row| row.dissemination_ms()));
    let hops = rows.iter().map(|row| Some(row).filter(complete).map(|row| u32::from(row.last_hop)));
    vec![
        ("message", numbers(0..rows.len() as u32)),
        ("publisher", numbers(rows.iter().map(|row| row.publisher))),
        ("published_ms", Arc::new(Float64Array::from_iter_values(published))),
        ("delivered", numbers(rows.iter().map(|row| row.delivered))),
        ("dissemination_ms", Arc::new(Float64Array::from_iter(times))),
        ("last_delivery_hop", Arc::new(UInt32Array::from_iter(hops))),
    ]
}

/// A cumulative distribution.
pub(crate) fn distribution<'a>(
    table: &'static str,
    name: &'static str,
    points: &'a [(f64, f64)],
) -> Table<'a> {
    let column = |values: Vec<f64>| Arc::new(Float64Array::from(values)) as ArrayRef;
    Table::new(table, points.len(), move || {
        let (values, shares) = points.iter().copied().unzip();
        vec![(name, column(values)), ("share", column(shares))]
    })
}

/// A row for each column that a node waits for.
fn deliveries(result: &ColumnsResult) -> Columns {
    let rows = &result.deliveries;
    let ms = |at: u64, slot: u32| (at - result.published[slot as usize]) as f64 / 1e6;
    let arrivals = rows.iter().map(|row| row.delivered().then(|| ms(row.at, row.slot)));
    let lasts = rows.iter().map(|row| row.delivered().then(|| ms(row.last_at, row.slot)));
    let from = rows.iter().map(|row| row.delivered().then_some(row.from));
    vec![
        ("node", numbers(rows.iter().map(|row| row.host))),
        ("slot", numbers(rows.iter().map(|row| row.slot))),
        ("column", numbers(rows.iter().map(|row| row.column))),
        ("delivery_latency_ms", Arc::new(Float64Array::from_iter(arrivals))),
        ("from", Arc::new(UInt32Array::from_iter(from))),
        ("hops", Arc::new(UInt16Array::from_iter_values(rows.iter().map(|row| row.hops)))),
        ("copies", Arc::new(UInt16Array::from_iter_values(rows.iter().map(|row| row.copies)))),
        ("last_copy_ms", Arc::new(Float64Array::from_iter(lasts))),
    ]
}

/// All copies in the order of arrival.
fn copies(rows: &[CopyRow], columns: u32, published: &[u64]) -> Columns {
    let slot = |row: &CopyRow| row.column / columns;
    let ms = |row: &CopyRow| (row.at as f64 - published[slot(row) as usize] as f64) / 1e6;
    vec![
        ("at_ms", Arc::new(Float64Array::from_iter_values(rows.iter().map(ms))) as ArrayRef),
        ("node", numbers(rows.iter().map(|row| row.host))),
        ("from", numbers(rows.iter().map(|row| row.from))),
        ("slot", numbers(rows.iter().map(slot))),
        ("column", numbers(rows.iter().map(|row| row.column % columns))),
        ("first", Arc::new(BooleanArray::from_iter(rows.iter().map(|row| Some(row.first))))),
    ]
}

/// What files call the hosts and their regions, if they call them anything: a row for each.
fn hosts(measured: &Measured) -> Option<Table<'_>> {
    let hosts = match measured {
        Measured::Columns(measured) => &measured.hosts,
        Measured::Messages(measured) => &measured.hosts,
        Measured::Transactions(measured) => &measured.hosts,
        Measured::Group(measured) => &measured.hosts,
        Measured::Relay(measured) => &measured.hosts,
        Measured::Handover(_) => return None,
    };
    let nodes = measured.point().scenario.network.nodes;
    let name = |host: u32| hosts.names.as_ref().and_then(|names| names.all().get(host as usize).cloned());
    let region = |host: u32| hosts.regions.get(usize::from(hosts.configs[host as usize].region)).cloned();
    (hosts.names.is_some() || !hosts.regions.is_empty()).then(|| {
        Table::new("hosts", nodes as usize, move || {
            vec![
                ("node", numbers(0..nodes)),
                ("name", Arc::new(StringArray::from_iter((0..nodes).map(name)))),
                ("region", Arc::new(StringArray::from_iter((0..nodes).map(region)))),
            ]
        })
    })
}

/// What every host sent and received from the first publication on.
pub(crate) fn traffic(stats: &[HostStats], hosts: &Hosts, scenario: &Scenario) -> Columns {
    let classes = &scenario.network.classes;
    let class = hosts.class.iter().map(|class| class.map(|class| classes[class].name.as_str()));
    let count = |value: fn(&HostStats) -> u64| {
        Arc::new(UInt64Array::from_iter_values(stats.iter().map(value))) as ArrayRef
    };
    vec![
        ("node", Arc::new(UInt32Array::from_iter_values(0..stats.len() as u32)) as ArrayRef),
        ("class", Arc::new(StringArray::from_iter(class))),
        (
            "uplink_bps",
            Arc::new(UInt64Array::from_iter_values(hosts.configs.iter().map(|host| host.uplink_bps))),
        ),
        (
            "downlink_bps",
            Arc::new(UInt64Array::from_iter_values(hosts.configs.iter().map(|host| host.downlink_bps))),
        ),
        ("bytes_up", count(|stats| stats.sent.bytes)),
        ("bytes_down", count(|stats| stats.received.bytes)),
        ("packets_up", count(|stats| stats.sent.packets)),
        ("packets_down", count(|stats| stats.received.packets)),
        ("payload_bytes_up", count(|stats| stats.frames_sent.payload_bytes)),
        ("payload_bytes_down", count(|stats| stats.frames_received.payload_bytes)),
        ("control_bytes_up", count(|stats| stats.frames_sent.control_bytes)),
        ("control_bytes_down", count(|stats| stats.frames_received.control_bytes)),
        ("retransmissions", count(|stats| stats.retransmitted.packets)),
        ("timeouts", count(|stats| stats.timeouts)),
        ("dropped_downlink_full", count(|stats| stats.drops.downlink_full.packets)),
        ("dropped_downlink_codel", count(|stats| stats.drops.downlink_codel.packets)),
        ("dropped_random", count(|stats| stats.drops.random.packets)),
        ("dropped_partition", count(|stats| stats.drops.partition.packets)),
        ("dropped_stale", count(|stats| stats.drops.stale.packets)),
        ("uplink_busy_ns", count(|stats| stats.uplink_busy_nanos)),
    ]
}

/// Keys and values.
pub(crate) fn configuration(rows: &[(String, String)]) -> Table<'_> {
    Table::new("configuration", rows.len(), || {
        vec![
            ("key", Arc::new(StringArray::from_iter_values(rows.iter().map(|(key, _)| key))) as ArrayRef),
            ("value", Arc::new(StringArray::from_iter_values(rows.iter().map(|(_, value)| value)))),
        ]
    })
}

/// Writes a table; errors name `path`.
///
/// # Errors
/// It cannot be written.
pub(crate) fn write_table(
    sink: impl Write + Send,
    path: &Path,
    columns: Vec<(&str, ArrayRef)>,
) -> Result<(), TableError> {
    let batch = RecordBatch::try_from_iter(columns).map_err(|error| TableError::of(path, error.into()))?;
    write_batch(sink, path, &batch)
}

fn write_batch(sink: impl Write + Send, path: &Path, batch: &RecordBatch) -> Result<(), TableError> {
    let fail = |source: Box<dyn std::error::Error + Send + Sync>| TableError::of(path, source);
    let level = ZstdLevel::try_new(3).map_err(|error| fail(error.into()))?;
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
    let mut writer =
        ArrowWriter::try_new(sink, batch.schema(), Some(properties)).map_err(|error| fail(error.into()))?;
    writer.write(batch).map_err(|error| fail(error.into()))?;
    writer.close().map_err(|error| fail(error.into()))?;
    Ok(())
}
