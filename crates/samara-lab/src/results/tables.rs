//! Parquet tables.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{
    Float64Builder, StringDictionaryBuilder, UInt16Builder, UInt32Builder, UInt64Builder,
};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, UInt16Type, UInt32Type};
use arrow_array::{ArrayRef, RecordBatch};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use crate::measure::Delivery;
use crate::run::Finished;

/// A table that grows run by run.
pub(super) struct Table {
    file: File,
    writer: Option<ArrowWriter<File>>,
}

impl Table {
    pub(super) fn create(path: &Path) -> std::io::Result<Self> {
        Ok(Self { file: File::create(path)?, writer: None })
    }

    pub(super) fn append(&mut self, batch: &RecordBatch) -> Result<(), ParquetError> {
        if self.writer.is_none() {
            let properties = WriterProperties::builder()
                .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
                .build();
            let file = self.file.try_clone().map_err(|error| ParquetError::External(Box::new(error)))?;
            self.writer = Some(ArrowWriter::try_new(file, batch.schema(), Some(properties))?);
        }
        let Some(writer) = &mut self.writer else { return Ok(()) };
        writer.write(batch)?;
        writer.flush()
    }

    pub(super) fn close(self) -> Result<(), ParquetError> {
        self.writer.map_or(Ok(()), |writer| writer.close().map(drop))
    }
}

type Columns = Vec<(&'static str, ArrayRef)>;

fn named(name: &str, rows: usize) -> ArrayRef {
    let mut names = StringDictionaryBuilder::<Int32Type>::new();
    (0..rows).for_each(|_| names.append_value(name));
    Arc::new(names.finish())
}

fn seeds(seed: u64, rows: usize) -> ArrayRef {
    let mut seeds = UInt64Builder::with_capacity(rows);
    seeds.append_value_n(seed, rows);
    Arc::new(seeds.finish())
}

/// One row for each message that a node was waiting for.
pub(super) fn deliveries(run: &Finished) -> Result<RecordBatch, ParquetError> {
    let rows = run.deliveries.len();
    let (mut slot, mut node) = (UInt16Builder::with_capacity(rows), UInt32Builder::with_capacity(rows));
    let (mut column, mut hops) = (UInt16Builder::with_capacity(rows), UInt16Builder::with_capacity(rows));
    let (mut copies, mut from) = (UInt16Builder::with_capacity(rows), UInt32Builder::with_capacity(rows));
    let (mut after, mut last) = (Float64Builder::with_capacity(rows), Float64Builder::with_capacity(rows));
    for delivery in &run.deliveries {
        slot.append_value(delivery.slot);
        node.append_value(delivery.node);
        column.append_value(delivery.column);
        after.append_option(delivery.after_ms());
        from.append_option((delivery.from != Delivery::NOBODY).then_some(delivery.from));
        hops.append_option(delivery.arrived().then_some(delivery.hops));
        copies.append_value(delivery.copies);
        let came = delivery.last_copy_nanos != Delivery::NEVER;
        last.append_option(came.then(|| delivery.last_copy_nanos as f64 / 1e6));
    }
    let columns: Columns = vec![
        ("run", named(&run.job.name(), rows)),
        ("seed", seeds(run.job.seed, rows)),
        ("slot", Arc::new(slot.finish())),
        ("node", Arc::new(node.finish())),
        ("column", Arc::new(column.finish())),
        ("delivery_latency_ms", Arc::new(after.finish())),
        ("from", Arc::new(from.finish())),
        ("hops", Arc::new(hops.finish())),
        ("copies", Arc::new(copies.finish())),
        ("last_copy_ms", Arc::new(last.finish())),
    ];
    batch(columns)
}

/// One row for each node.
pub(super) fn traffic(run: &Finished) -> Result<RecordBatch, ParquetError> {
    let rows = run.traffic.len();
    let integers = |of: &dyn Fn(&crate::measure::NodeTraffic) -> u64| -> ArrayRef {
        let mut values = UInt64Builder::with_capacity(rows);
        run.traffic.iter().for_each(|node| values.append_value(of(node)));
        Arc::new(values.finish())
    };
    let mut nodes = UInt32Builder::with_capacity(rows);
    (0..rows as u32).for_each(|node| nodes.append_value(node));
    let millis = |of: &dyn Fn(&crate::measure::NodeTraffic) -> u64| -> ArrayRef {
        let mut values = Float64Builder::with_capacity(rows);
        run.traffic.iter().for_each(|node| values.append_value(of(node) as f64 / 1e6));
        Arc::new(values.finish())
    };
    let columns: Columns = vec![
        ("run", named(&run.job.name(), rows)),
        ("seed", seeds(run.job.seed, rows)),
        ("node", Arc::new(nodes.finish())),
        ("uplink_bps", integers(&|node| node.uplink_bps)),
        ("downlink_bps", integers(&|node| node.downlink_bps)),
        ("bytes_up", integers(&|node| node.bytes_up)),
        ("bytes_down", integers(&|node| node.bytes_down)),
        ("payload_up", integers(&|node| node.payload_up)),
        ("control_up", integers(&|node| node.control_up)),
        ("payload_down", integers(&|node| node.payload_down)),
        ("control_down", integers(&|node| node.control_down)),
        ("packets_up", integers(&|node| node.packets_up)),
        ("packets_down", integers(&|node| node.packets_down)),
        ("retransmissions", integers(&|node| node.retransmissions)),
        ("timeouts", integers(&|node| node.timeouts)),
        ("uplink_busy_ms", millis(&|node| node.uplink_busy_nanos)),
        ("downlink_wait_ms_max", millis(&|node| node.downlink_wait_nanos)),
        ("copies_withdrawn", integers(&|node| node.copies_withdrawn)),
        ("queue_drops", integers(&|node| node.drops.in_queues())),
        ("expired", integers(&|node| node.drops.expired)),
        ("drops_downlink_full", integers(&|node| node.drops.downlink_full)),
        ("drops_downlink_codel", integers(&|node| node.drops.downlink_codel)),
        ("drops_random_loss", integers(&|node| node.drops.random_loss)),
        ("drops_partition", integers(&|node| node.drops.partition)),
        ("drops_stale", integers(&|node| node.drops.stale)),
    ];
    batch(columns)
}

fn batch(columns: Columns) -> Result<RecordBatch, ParquetError> {
    Ok(RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, values)| {
        let nullable = matches!(name, "delivery_latency_ms" | "from" | "hops" | "last_copy_ms");
        (name, values, nullable)
    }))?)
}

/// A row of the table of deliveries.
#[derive(Clone, Debug, PartialEq)]
pub struct DeliveryRow {
    /// The run, with the values of the sweep.
    pub run: String,
    /// The slot.
    pub slot: u16,
    /// The node.
    pub node: u32,
    /// The column.
    pub column: u16,
    /// Milliseconds from the publication to the delivery.
    pub delivery_latency_ms: Option<f64>,
    /// Copies received.
    pub copies: u16,
}

/// Reads `deliveries.parquet` again.
///
/// # Errors
/// The file cannot be read, or is not such a table.
pub fn read_deliveries(path: &Path) -> Result<Vec<DeliveryRow>, ParquetError> {
    let file = File::open(path).map_err(|error| ParquetError::External(Box::new(error)))?;
    let mut rows = Vec::new();
    for batch in ParquetRecordBatchReaderBuilder::try_new(file)?.build()? {
        let batch = batch?;
        let column = |name: &str| {
            batch
                .column_by_name(name)
                .ok_or_else(|| ParquetError::General(format!("there is no column {name}")))
        };
        let runs = column("run")?.as_dictionary::<Int32Type>();
        let names = runs.values().as_string::<i32>();
        let slots = column("slot")?.as_primitive::<UInt16Type>();
        let nodes = column("node")?.as_primitive::<UInt32Type>();
        let columns = column("column")?.as_primitive::<UInt16Type>();
        let after = column("delivery_latency_ms")?.as_primitive::<Float64Type>();
        let copies = column("copies")?.as_primitive::<UInt16Type>();
        for row in 0..batch.num_rows() {
            rows.push(DeliveryRow {
                run: runs.key(row).map(|key| names.value(key).to_owned()).unwrap_or_default(),
                slot: slots.value(row),
                node: nodes.value(row),
                column: columns.value(row),
                delivery_latency_ms: arrow_array::Array::is_valid(after, row).then(|| after.value(row)),
                copies: copies.value(row),
            });
        }
    }
    Ok(rows)
}
