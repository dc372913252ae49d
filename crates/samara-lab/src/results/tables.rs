//! Parquet tables.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{
    Float64Builder, StringDictionaryBuilder, UInt16Builder, UInt32Builder, UInt64Builder,
};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, PrimitiveArray, RecordBatch};
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

/// A name for each row, by its number; nothing where there is no such name.
fn texts(names: &[String], numbers: &[u16]) -> ArrayRef {
    let mut values = StringDictionaryBuilder::<Int32Type>::new();
    numbers.iter().for_each(|number| values.append_option(names.get(usize::from(*number))));
    Arc::new(values.finish())
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
        ("class", texts(&run.classes, &run.class_of)),
        ("region", texts(&run.regions, &run.region_of)),
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
        let nullable = matches!(name, "region" | "delivery_latency_ms" | "from" | "hops" | "last_copy_ms");
        (name, values, nullable)
    }))?)
}

/// The deliveries of one run, as they are in the table.
#[derive(Clone, Debug, PartialEq)]
pub struct RunDeliveries {
    /// The run, with the point of the sweep.
    pub run: String,
    /// The seed.
    pub seed: u64,
    /// By slot, node and column. Times are rounded to nanoseconds.
    pub deliveries: Vec<Delivery>,
}

/// Reads `deliveries.parquet` again: run by run, in the order of the summary.
///
/// # Errors
/// The file cannot be read, or is not such a table.
pub fn read_deliveries(path: &Path) -> Result<Vec<RunDeliveries>, ParquetError> {
    let file = File::open(path).map_err(|error| ParquetError::External(Box::new(error)))?;
    let mut runs: Vec<RunDeliveries> = Vec::new();
    for batch in ParquetRecordBatchReaderBuilder::try_new(file)?.build()? {
        append(&batch?, &mut runs)?;
    }
    Ok(runs)
}

fn append(batch: &RecordBatch, runs: &mut Vec<RunDeliveries>) -> Result<(), ParquetError> {
    let column = |name: &str| {
        let missing = || ParquetError::General(format!("there is no column {name}"));
        batch.column_by_name(name).ok_or_else(missing)
    };
    let names = column("run")?.as_dictionary::<Int32Type>();
    let texts = names.values().as_string::<i32>();
    let seeds = column("seed")?.as_primitive::<UInt64Type>();
    let slots = column("slot")?.as_primitive::<UInt16Type>();
    let nodes = column("node")?.as_primitive::<UInt32Type>();
    let columns = column("column")?.as_primitive::<UInt16Type>();
    let after = column("delivery_latency_ms")?.as_primitive::<Float64Type>();
    let from = column("from")?.as_primitive::<UInt32Type>();
    let hops = column("hops")?.as_primitive::<UInt16Type>();
    let copies = column("copies")?.as_primitive::<UInt16Type>();
    let last = column("last_copy_ms")?.as_primitive::<Float64Type>();
    let nanos = |times: &PrimitiveArray<Float64Type>, row: usize| {
        if times.is_valid(row) { (times.value(row) * 1e6).round() as u64 } else { Delivery::NEVER }
    };
    for row in 0..batch.num_rows() {
        let name = names.key(row).map_or("", |key| texts.value(key));
        let seed = seeds.value(row);
        // A run may be the same as the one before in name and seed, but never in where its rows start again.
        let place = (slots.value(row), nodes.value(row), columns.value(row));
        let goes_on = runs.last().is_some_and(|run| {
            let last = run.deliveries.last().map(|last| (last.slot, last.node, last.column));
            run.run == name && run.seed == seed && last < Some(place)
        });
        if !goes_on {
            runs.push(RunDeliveries { run: name.to_owned(), seed, deliveries: Vec::new() });
        }
        let delivery = Delivery {
            node: nodes.value(row),
            slot: slots.value(row),
            column: columns.value(row),
            after_nanos: nanos(after, row),
            from: if from.is_valid(row) { from.value(row) } else { Delivery::NOBODY },
            hops: if hops.is_valid(row) { hops.value(row) } else { 0 },
            copies: copies.value(row),
            last_copy_nanos: nanos(last, row),
        };
        if let Some(run) = runs.last_mut() {
            run.deliveries.push(delivery);
        }
    }
    Ok(())
}
