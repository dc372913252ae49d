//! The JSON of Chrome's tracing ("Trace Event Format"): a process for each node, a thread for each lane.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use serde_json::{Value, json};

use super::Timeline;

/// Slices without length cannot be clicked at: a nanosecond.
const LENGTH_MIN_NS: i64 = 1;

impl Timeline {
    /// Writes the timeline as the JSON that Chrome's `about:tracing` and Perfetto read. Times are microseconds from the first event.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_chrome(&self, mut out: impl Write) -> io::Result<()> {
        let lanes = self.lanes();
        let first = self.first();
        let us = |at: i64| (at - first) as f64 / 1e3;
        out.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[")?;
        let mut begun = false;
        let mut event = |value: Value| -> io::Result<()> {
            out.write_all(if std::mem::replace(&mut begun, true) { b",\n" } else { b"\n" })?;
            serde_json::to_writer(&mut out, &value)?;
            Ok(())
        };
        for (node, number) in self.nodes.iter().zip(1..) {
            event(named("process_name", number, 0, json!({"name": node.name})))?;
            event(named("process_sort_index", number, 0, json!({"sort_index": number})))?;
        }
        for lane in lanes.iter().collect::<BTreeSet<_>>() {
            event(named("thread_name", lane.node + 1, lane.lane + 1, json!({"name": lane.name()})))?;
        }
        for (slice, lane) in self.slices.iter().zip(&lanes) {
            let length = (slice.end - slice.start).max(LENGTH_MIN_NS);
            event(json!({
                "ph": "X", "name": self.title(slice), "cat": slice.kind.name(), "pid": slice.node + 1, "tid": lane.lane + 1,
                "ts": us(slice.start), "dur": length as f64 / 1e3, "args": self.details(slice).collect::<BTreeMap<_, _>>(),
            }))?;
        }
        for (slice, (lane, id)) in self.slices.iter().zip(lanes.iter().zip(1..)) {
            let Some(source) = slice.source else { continue };
            let from = &self.slices[source];
            // Arrows are bound to the slice that is there at their time.
            event(json!({
                "ph": "s", "name": "copy", "cat": "first", "id": id, "pid": from.node + 1, "tid": lanes[source].lane + 1,
                "ts": us(from.start),
            }))?;
            event(json!({
                "ph": "f", "bp": "e", "name": "copy", "cat": "first", "id": id, "pid": slice.node + 1, "tid": lane.lane + 1,
                "ts": us(slice.start),
            }))?;
        }
        out.write_all(b"\n]}\n")?;
        out.flush()
    }
}

/// An event that describes a process or a thread.
fn named(name: &str, process: u32, thread: u32, arguments: Value) -> Value {
    json!({"ph": "M", "name": name, "pid": process, "tid": thread, "args": arguments})
}
