//! Parquet tables. Columns have the names and units of the metrics.

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

use super::{ColumnsResult, GroupResult, HandoverResult, MemberRow, MessagesResult, TransactionsResult};
use crate::measure::CopyRow;
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

/// Writes the tables of a run with blocks of columns into its directory.
///
/// # Errors
/// A file cannot be written.
pub(super) fn columns(
    directory: &Path,
    measured: &ColumnsMeasured,
    result: &ColumnsResult,
) -> Result<(), TableError> {
    deliveries(&directory.join("deliveries.parquet"), result)?;
    let rows = measured.collector.copies();
    copies(&directory.join("copies.parquet"), rows, result.columns, &result.published)?;
    let nodes = traffic(&measured.traffic, &measured.hosts, &measured.point.scenario);
    write(&directory.join("traffic.parquet"), nodes)
}

/// Writes the tables of a run with a stream of messages into its directory.
///
/// # Errors
/// A file cannot be written.
pub(super) fn messages(
    directory: &Path,
    measured: &MessagesMeasured,
    result: &MessagesResult,
) -> Result<(), TableError> {
    message_rows(&directory.join("messages.parquet"), result)?;
    distribution(&directory.join("delivery_latency.parquet"), "delivery_latency_ms", &result.latency)?;
    distribution(&directory.join("inter_arrival.parquet"), "inter_arrival_ms", &result.inter_arrival)?;
    let lost: Vec<((u32, u32), u64)> = result.lost.iter().map(|(link, copies)| (*link, *copies)).collect();
    write(
        &directory.join("queue_drops.parquet"),
        vec![
            ("node", numbers(lost.iter().map(|((node, _), _)| *node))),
            ("peer", numbers(lost.iter().map(|((_, peer), _)| *peer))),
            ("copies", Arc::new(UInt64Array::from_iter_values(lost.iter().map(|(_, copies)| *copies)))),
        ],
    )?;
    let mut nodes = traffic(&measured.traffic, &measured.hosts, &measured.point.scenario);
    let counts = &measured.counts;
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
    write(&directory.join("traffic.parquet"), nodes)
}

/// Writes the tables of a run with transactions into its directory.
///
/// # Errors
/// A file cannot be written.
pub(super) fn transactions(
    directory: &Path,
    measured: &TransactionsMeasured,
    result: &TransactionsResult,
) -> Result<(), TableError> {
    let rows = &result.transactions;
    let first = measured.point.scenario.transactions.clone().unwrap_or_default().warm_up.nanos();
    let ms = |at: u64| at.saturating_sub(first) as f64 / 1e6;
    let committed = rows.iter().map(|row| row.is_committed().then(|| ms(row.committed)));
    write(
        &directory.join("transactions.parquet"),
        vec![
            ("transaction", numbers(0..rows.len() as u32)),
            ("origin", numbers(rows.iter().map(|row| row.origin))),
            ("valid", Arc::new(BooleanArray::from_iter(rows.iter().map(|row| Some(row.valid)))) as ArrayRef),
            (
                "submitted_ms",
                Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| ms(row.submitted)))),
            ),
            ("pools", numbers(rows.iter().map(|row| row.pools))),
            (
                "dissemination_ms",
                Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.dissemination_ms()))),
            ),
            ("committed_ms", Arc::new(Float64Array::from_iter(committed))),
        ],
    )?;
    let blocks = &result.blocks;
    write(
        &directory.join("blocks.parquet"),
        vec![
            (
                "committed_ms",
                Arc::new(Float64Array::from_iter_values(blocks.iter().map(|block| ms(block.at)))) as ArrayRef,
            ),
            ("proposer", numbers(blocks.iter().map(|block| block.proposer))),
            ("transactions", numbers(blocks.iter().map(|block| block.txs))),
            ("bytes", Arc::new(UInt64Array::from_iter_values(blocks.iter().map(|block| block.bytes)))),
        ],
    )?;
    distribution(&directory.join("delivery_latency.parquet"), "delivery_latency_ms", &result.latency)?;
    let mut nodes = traffic(&measured.traffic, &measured.hosts, &measured.point.scenario);
    let honest = measured.uptime.honest.iter().map(|honest| Some(*honest));
    nodes.extend([
        ("links", numbers(measured.degrees.iter().copied())),
        ("honest", Arc::new(BooleanArray::from_iter(honest)) as ArrayRef),
    ]);
    write(&directory.join("traffic.parquet"), nodes)
}

/// Writes the table of a run with batches into its directory.
///
/// # Errors
/// A file cannot be written.
pub(super) fn handover(directory: &Path, result: &HandoverResult) -> Result<(), TableError> {
    let times = |value: fn(&BatchTimes) -> u64| {
        let all = result.batches.iter().map(|batch| value(batch) as f64 / 1e6);
        Arc::new(Float64Array::from_iter_values(all)) as ArrayRef
    };
    write(
        &directory.join("batches.parquet"),
        vec![
            ("begun_ms", times(|batch| batch.begun)),
            ("ready_ms", times(|batch| batch.ready)),
            ("whole_ms", times(|batch| batch.whole)),
        ],
    )
}

/// Writes the tables of a run with a group into its directory.
///
/// # Errors
/// A file cannot be written.
pub(super) fn group(
    directory: &Path,
    measured: &GroupMeasured,
    result: &GroupResult,
) -> Result<(), TableError> {
    distribution(&directory.join("delivery_latency.parquet"), "delivery_latency_ms", &result.latency)?;
    let pairs = || {
        result
            .links
            .iter()
            .enumerate()
            .flat_map(|(from, row)| row.iter().enumerate().map(move |(to, bytes)| (from, to, *bytes)))
    };
    write(
        &directory.join("links.parquet"),
        vec![
            ("from", numbers(pairs().map(|(from, ..)| from as u32))),
            ("to", numbers(pairs().map(|(_, to, _)| to as u32))),
            ("frame_bytes", Arc::new(UInt64Array::from_iter_values(pairs().map(|(.., bytes)| bytes)))),
        ],
    )?;
    let suspicions = &measured.suspicions;
    write(
        &directory.join("suspicions.parquet"),
        vec![
            (
                "at_ms",
                Arc::new(Float64Array::from_iter_values(suspicions.iter().map(|s| s.at as f64 / 1e6)))
                    as ArrayRef,
            ),
            ("by", numbers(suspicions.iter().map(|s| s.by))),
            ("node", numbers(suspicions.iter().map(|s| s.host))),
            ("false", Arc::new(BooleanArray::from_iter(suspicions.iter().map(|s| Some(s.is_false))))),
        ],
    )?;
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
    write(&directory.join("traffic.parquet"), nodes)
}

pub(super) fn numbers(values: impl Iterator<Item = u32>) -> ArrayRef {
    Arc::new(UInt32Array::from_iter_values(values))
}

/// A row for each message.
fn message_rows(path: &Path, result: &MessagesResult) -> Result<(), TableError> {
    let rows = &result.messages;
    let first = rows.iter().map(|row| row.published).min().unwrap_or(0);
    let published = rows.iter().map(|row| row.published.saturating_sub(first) as f64 / 1e6);
    let complete = |row: &&crate::measure::messages::MessageRow| row.delivered == result.others;
    let times = rows.iter().map(|row| Some(row).filter(complete).map(|row| row.dissemination_ms()));
    let hops = rows.iter().map(|row| Some(row).filter(complete).map(|row| u32::from(row.last_hop)));
    write(
        path,
        vec![
            ("message", numbers(0..rows.len() as u32)),
            ("publisher", numbers(rows.iter().map(|row| row.publisher))),
            ("published_ms", Arc::new(Float64Array::from_iter_values(published))),
            ("delivered", numbers(rows.iter().map(|row| row.delivered))),
            ("dissemination_ms", Arc::new(Float64Array::from_iter(times))),
            ("last_delivery_hop", Arc::new(UInt32Array::from_iter(hops))),
        ],
    )
}

/// A cumulative distribution.
pub(super) fn distribution(path: &Path, name: &str, points: &[(f64, f64)]) -> Result<(), TableError> {
    let column = |values: Vec<f64>| Arc::new(Float64Array::from(values)) as ArrayRef;
    let (values, shares) = points.iter().copied().unzip();
    write(path, vec![(name, column(values)), ("share", column(shares))])
}

/// Writes the deliveries of a run: a row for each column that a node waits for.
fn deliveries(path: &Path, result: &ColumnsResult) -> Result<(), TableError> {
    let rows = &result.deliveries;
    let ms = |at: u64, slot: u32| (at - result.published[slot as usize]) as f64 / 1e6;
    let arrivals = rows.iter().map(|row| row.delivered().then(|| ms(row.at, row.slot)));
    let lasts = rows.iter().map(|row| row.delivered().then(|| ms(row.last_at, row.slot)));
    let from = rows.iter().map(|row| row.delivered().then_some(row.from));
    write(
        path,
        vec![
            ("node", Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.host))) as ArrayRef),
            ("slot", Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.slot)))),
            ("column", Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.column)))),
            ("delivery_latency_ms", Arc::new(Float64Array::from_iter(arrivals))),
            ("from", Arc::new(UInt32Array::from_iter(from))),
            ("hops", Arc::new(UInt16Array::from_iter_values(rows.iter().map(|row| row.hops)))),
            ("copies", Arc::new(UInt16Array::from_iter_values(rows.iter().map(|row| row.copies)))),
            ("last_copy_ms", Arc::new(Float64Array::from_iter(lasts))),
        ],
    )
}

/// Writes all copies of a run in the order of arrival.
fn copies(path: &Path, rows: &[CopyRow], columns: u32, published: &[u64]) -> Result<(), TableError> {
    let slot = |row: &CopyRow| row.column / columns;
    let ms = |row: &CopyRow| (row.at as f64 - published[slot(row) as usize] as f64) / 1e6;
    write(
        path,
        vec![
            ("at_ms", Arc::new(Float64Array::from_iter_values(rows.iter().map(ms))) as ArrayRef),
            ("node", Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.host)))),
            ("from", Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.from)))),
            ("slot", Arc::new(UInt32Array::from_iter_values(rows.iter().map(slot)))),
            ("column", Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.column % columns)))),
            ("first", Arc::new(BooleanArray::from_iter(rows.iter().map(|row| Some(row.first))))),
        ],
    )
}

/// What files call the hosts and their regions, if they call them anything: a row for each.
pub(super) fn hosts(path: &Path, measured: &Measured) -> Result<(), TableError> {
    let (hosts, nodes) = match measured {
        Measured::Columns(measured) => (&measured.hosts, measured.point.scenario.network.nodes),
        Measured::Messages(measured) => (&measured.hosts, measured.point.scenario.network.nodes),
        Measured::Transactions(measured) => (&measured.hosts, measured.point.scenario.network.nodes),
        Measured::Group(measured) => (&measured.hosts, measured.point.scenario.network.nodes),
        Measured::Relay(measured) => (&measured.hosts, measured.point.scenario.network.nodes),
        Measured::Handover(_) => return Ok(()),
    };
    if hosts.names.is_none() && hosts.regions.is_empty() {
        return Ok(());
    }
    let name = |host: u32| hosts.names.as_ref().and_then(|names| names.all().get(host as usize).cloned());
    let region = |host: u32| hosts.regions.get(usize::from(hosts.configs[host as usize].region)).cloned();
    write(
        path,
        vec![
            ("node", numbers(0..nodes)),
            ("name", Arc::new(StringArray::from_iter((0..nodes).map(name)))),
            ("region", Arc::new(StringArray::from_iter((0..nodes).map(region)))),
        ],
    )
}

/// What every host sent and received from the first publication on.
pub(super) fn traffic(
    stats: &[HostStats],
    hosts: &Hosts,
    scenario: &Scenario,
) -> Vec<(&'static str, ArrayRef)> {
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

/// Writes keys and values.
///
/// # Errors
/// The file cannot be written.
pub(super) fn configuration(path: &Path, rows: &[(String, String)]) -> Result<(), TableError> {
    write(
        path,
        vec![
            ("key", Arc::new(StringArray::from_iter_values(rows.iter().map(|(key, _)| key))) as ArrayRef),
            ("value", Arc::new(StringArray::from_iter_values(rows.iter().map(|(_, value)| value)))),
        ],
    )
}

pub(super) fn write(path: &Path, columns: Vec<(&str, ArrayRef)>) -> Result<(), TableError> {
    let file = File::create(path).map_err(|error| TableError::of(path, error.into()))?;
    write_table(file, path, columns)
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
    let fail = |source: Box<dyn std::error::Error + Send + Sync>| TableError::of(path, source);
    let batch = RecordBatch::try_from_iter(columns).map_err(|error| fail(error.into()))?;
    let level = ZstdLevel::try_new(3).map_err(|error| fail(error.into()))?;
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
    let mut writer =
        ArrowWriter::try_new(sink, batch.schema(), Some(properties)).map_err(|error| fail(error.into()))?;
    writer.write(&batch).map_err(|error| fail(error.into()))?;
    writer.close().map_err(|error| fail(error.into()))?;
    Ok(())
}
