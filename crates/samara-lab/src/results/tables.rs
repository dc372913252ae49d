//! Tables in Arrow's format, as they are written into Parquet files. Columns have the names and units of the metrics.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use samara_sim::HostStats;

use super::{Measured, Outcome};
use crate::files::{At, FileError, NewFile};
use crate::network::Hosts;
use crate::scenario::Scenario;

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
    pub(crate) fn write(&self, directory: &Path) -> Result<(), FileError> {
        write(directory, self.name, &self.batch())
    }
}

/// Writes a table into a directory.
pub(crate) fn write(directory: &Path, name: &str, batch: &RecordBatch) -> Result<(), FileError> {
    let path = directory.join(format!("{name}.parquet"));
    let mut file = NewFile::create(&path)?;
    let mut write = || {
        let properties = WriterProperties::builder();
        let properties = properties.set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?)).build();
        let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties))?;
        writer.write(batch)?;
        writer.close()
    };
    write().at(&path)?;
    file.finish()
}

pub(crate) fn numbers(values: impl Iterator<Item = u32>) -> ArrayRef {
    Arc::new(UInt32Array::from_iter_values(values))
}

pub(crate) fn longs(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(values))
}

/// Numbers, or nothing where there is `None`.
pub(crate) fn floats(values: impl Iterator<Item = impl Into<Option<f64>>>) -> ArrayRef {
    Arc::new(Float64Array::from_iter(values.map(Into::<Option<f64>>::into)))
}

pub(crate) fn flags(values: impl Iterator<Item = bool>) -> ArrayRef {
    Arc::new(BooleanArray::from_iter(values.map(Some)))
}

pub(crate) fn texts(values: impl Iterator<Item = impl AsRef<str>>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

pub(crate) fn distribution<'a>(
    table: &'static str,
    name: &'static str,
    points: &'a [(f64, f64)],
) -> Table<'a> {
    Table::new(table, points.len(), move || {
        let (values, shares) = (points.iter().map(|point| point.0), points.iter().map(|point| point.1));
        vec![(name, floats(values)), ("share", floats(shares))]
    })
}

/// The tables of a run, and what files call its hosts and their regions, if they call them anything.
///
/// # Panics
/// If the outcome is not that of the measurements.
pub fn tables<'a>(measured: &'a dyn Measured, outcome: &'a Outcome) -> Vec<Table<'a>> {
    let mut tables = measured.tables(outcome);
    tables.extend(hosts(measured));
    tables
}

/// A row for each host with a name or a region.
fn hosts(measured: &dyn Measured) -> Option<Table<'_>> {
    let (point, hosts) = measured.setting();
    let nodes = point.scenario.network.nodes;
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

/// Reads a counter of a host.
type Counter = fn(&HostStats) -> u64;

/// What every host sent and received from the first publication on.
pub(crate) fn traffic(stats: &[HostStats], hosts: &Hosts, scenario: &Scenario) -> Columns {
    let classes = &scenario.network.classes;
    let class = hosts.class.iter().map(|class| class.map(|class| classes[class].name.as_str()));
    let configs = || hosts.configs.iter();
    let counters: [(_, Counter); 16] = [
        ("bytes_up", |stats| stats.sent.bytes),
        ("bytes_down", |stats| stats.received.bytes),
        ("packets_up", |stats| stats.sent.packets),
        ("packets_down", |stats| stats.received.packets),
        ("payload_bytes_up", |stats| stats.frames_sent.payload_bytes),
        ("payload_bytes_down", |stats| stats.frames_received.payload_bytes),
        ("control_bytes_up", |stats| stats.frames_sent.control_bytes),
        ("control_bytes_down", |stats| stats.frames_received.control_bytes),
        ("retransmissions", |stats| stats.retransmitted.packets),
        ("timeouts", |stats| stats.timeouts),
        ("dropped_downlink_full", |stats| stats.drops.downlink_full.packets),
        ("dropped_downlink_codel", |stats| stats.drops.downlink_codel.packets),
        ("dropped_random", |stats| stats.drops.random.packets),
        ("dropped_partition", |stats| stats.drops.partition.packets),
        ("dropped_stale", |stats| stats.drops.stale.packets),
        ("uplink_busy_ns", |stats| stats.uplink_busy_nanos),
    ];
    let mut columns: Columns = vec![
        ("node", numbers(0..stats.len() as u32)),
        ("class", Arc::new(StringArray::from_iter(class))),
        ("uplink_bps", longs(configs().map(|host| host.uplink_bps))),
        ("downlink_bps", longs(configs().map(|host| host.downlink_bps))),
    ];
    columns.extend(counters.map(|(name, count)| (name, longs(stats.iter().map(count)))));
    columns
}

/// Keys and values.
pub(crate) fn configuration(rows: &[(String, String)]) -> Table<'_> {
    Table::new("configuration", rows.len(), || {
        vec![
            ("key", texts(rows.iter().map(|(key, _)| key))),
            ("value", texts(rows.iter().map(|(_, value)| value))),
        ]
    })
}
