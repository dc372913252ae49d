//! The copies of a simulated run, from the table in its results directory, as events of nodes.

use std::fs::File;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt32Type};
use arrow_array::{BooleanArray, PrimitiveArray, RecordBatch};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use samara_trace::{
    Body, DeliverMessage, DuplicateMessage, MessageMeta, PublishMessage, RecvRpc, RpcMeta, TraceEvent,
};

/// When simulated runs begin by the clocks of their nodes: on 1 January 2000, in nanoseconds since 1970.
const START_NS: i64 = 946_684_800_000_000_000;

/// The peer id of a simulated node: what a peer id looks like (a key of 32 bytes in an identity multihash), with the node's number for a
/// key. No key belongs to it.
pub(super) fn peer_id(node: u32) -> Vec<u8> {
    let mut id = vec![0x00, 0x24, 0x08, 0x01, 0x12, 0x20];
    id.resize(6 + 28, 0);
    id.extend(node.to_be_bytes());
    id
}

/// The copies of a run, in the order of time: publications, arrivals, and what became of them.
///
/// # Errors
/// A text: the table cannot be read.
pub(super) fn events(path: &Path, workload: &samara_lab::scenario::Columns) -> Result<Vec<TraceEvent>, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let file = File::open(path).map_err(|error| wrong(&error))?;
    let reader =
        ParquetRecordBatchReaderBuilder::try_new(file).and_then(ParquetRecordBatchReaderBuilder::build);
    let mut events = Vec::new();
    let published = |slot: u32| {
        let nanos = workload.warm_up.nanos() + u64::from(slot) * workload.slot_interval.nanos();
        START_NS.saturating_add_unsigned(nanos)
    };
    for slot in 0..workload.slots {
        for column in 0..workload.count {
            let (message_id, topic) = names(slot, column);
            let body = Body::PublishMessage(PublishMessage { message_id, topic });
            events.push(TraceEvent::new(&peer_id(workload.publisher), published(slot), body));
        }
    }
    for batch in reader.map_err(|error| wrong(&error))? {
        let batch = batch.map_err(|error| wrong(&error))?;
        let columns =
            Columns::of(&batch).ok_or_else(|| wrong(&"found a table without the columns of copies"))?;
        for row in 0..batch.num_rows() {
            let (node, from) = (columns.node.value(row), columns.from.value(row));
            let slot = columns.slot.value(row);
            let at = published(slot) + (columns.at_ms.value(row) * 1e6).round() as i64;
            let (message_id, topic) = names(slot, columns.column.value(row));
            let received_from = Some(peer_id(from));
            let message = MessageMeta { message_id: message_id.clone(), topic: topic.clone() };
            let meta = Some(RpcMeta { messages: vec![message], ..RpcMeta::default() });
            let came = Body::RecvRpc(RecvRpc { received_from: received_from.clone(), meta });
            let became = if columns.first.value(row) {
                Body::DeliverMessage(DeliverMessage { message_id, topic, received_from })
            } else {
                Body::DuplicateMessage(DuplicateMessage { message_id, topic, received_from })
            };
            events.extend([came, became].map(|body| TraceEvent::new(&peer_id(node), at, body)));
        }
    }
    // Stable: what became of a copy stays behind its arrival.
    events.sort_by_key(|event| event.timestamp);
    Ok(events)
}

/// Id and topic of a column: the numbers of slot and column, and Ethereum's name.
fn names(slot: u32, column: u32) -> (Option<Vec<u8>>, Option<String>) {
    let id = [slot.to_be_bytes(), column.to_be_bytes()].concat();
    (Some(id), Some(format!("/eth2/00000000/data_column_sidecar_{column}/ssz_snappy")))
}

/// The columns of the table.
struct Columns<'a> {
    at_ms: &'a PrimitiveArray<Float64Type>,
    node: &'a PrimitiveArray<UInt32Type>,
    from: &'a PrimitiveArray<UInt32Type>,
    slot: &'a PrimitiveArray<UInt32Type>,
    column: &'a PrimitiveArray<UInt32Type>,
    first: &'a BooleanArray,
}

impl<'a> Columns<'a> {
    fn of(batch: &'a RecordBatch) -> Option<Self> {
        let number = |name: &str| batch.column_by_name(name)?.as_primitive_opt::<UInt32Type>();
        Some(Self {
            at_ms: batch.column_by_name("at_ms")?.as_primitive_opt::<Float64Type>()?,
            node: number("node")?,
            from: number("from")?,
            slot: number("slot")?,
            column: number("column")?,
            first: batch.column_by_name("first")?.as_boolean_opt()?,
        })
    }
}
