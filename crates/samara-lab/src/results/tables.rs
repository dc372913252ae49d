//! Parquet tables. Columns have the names and units of the metrics.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, UInt16Array, UInt32Array, UInt64Array,
};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use thiserror::Error;

use super::RunResult;
use crate::measure::CopyRow;
use crate::run::Measured;

/// Why a table could not be written.
#[derive(Debug, Error)]
#[error("{path}: {source}")]
pub struct TableError {
    path: String,
    source: Box<dyn std::error::Error + Send + Sync>,
}

/// Writes the deliveries of a run: a row for each column that a node waits for.
///
/// # Errors
/// The file cannot be written.
pub(super) fn deliveries(path: &Path, result: &RunResult) -> Result<(), TableError> {
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
///
/// # Errors
/// The file cannot be written.
pub(super) fn copies(
    path: &Path,
    rows: &[CopyRow],
    columns: u32,
    published: &[u64],
) -> Result<(), TableError> {
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

/// Writes what every host sent and received from the first publication on.
///
/// # Errors
/// The file cannot be written.
pub(super) fn traffic(path: &Path, measured: &Measured) -> Result<(), TableError> {
    let stats = &measured.traffic;
    let hosts = &measured.hosts;
    let classes = &measured.point.scenario.network.classes;
    let class = hosts.class.iter().map(|class| class.map(|class| classes[class].name.as_str()));
    let count = |value: fn(&samara_sim::HostStats) -> u64| {
        Arc::new(UInt64Array::from_iter_values(stats.iter().map(value))) as ArrayRef
    };
    write(
        path,
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
        ],
    )
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

fn write(path: &Path, columns: Vec<(&str, ArrayRef)>) -> Result<(), TableError> {
    let fail = |source: Box<dyn std::error::Error + Send + Sync>| TableError {
        path: path.display().to_string(),
        source,
    };
    let batch = RecordBatch::try_from_iter(columns).map_err(|error| fail(error.into()))?;
    let file = File::create(path).map_err(|error| fail(error.into()))?;
    let level = ZstdLevel::try_new(3).map_err(|error| fail(error.into()))?;
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
    let mut writer =
        ArrowWriter::try_new(file, batch.schema(), Some(properties)).map_err(|error| fail(error.into()))?;
    writer.write(&batch).map_err(|error| fail(error.into()))?;
    writer.close().map_err(|error| fail(error.into()))?;
    Ok(())
}
