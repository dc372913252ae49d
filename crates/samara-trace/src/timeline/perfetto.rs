//! Perfetto's protobuf (`protos/perfetto/trace`): a process track for each node, a track for each lane. Only the fields that are used,
//! written by hand, so that building this crate needs no protobuf compiler.

use std::collections::BTreeSet;
use std::io::{self, Write};

use prost::encoding::{WireType, encode_key, encode_varint};

use super::{Lane, Timeline};

/// The sequence of all packets, which puts them in order. Any number but 0.
const SEQUENCE: u64 = 1;

/// `TrackEvent.Type`
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;

/// A message that grows field by field.
#[derive(Default)]
struct Fields(Vec<u8>);

impl Fields {
    fn number(mut self, tag: u32, value: u64) -> Self {
        encode_key(tag, WireType::Varint, &mut self.0);
        encode_varint(value, &mut self.0);
        self
    }

    fn fixed(mut self, tag: u32, value: u64) -> Self {
        encode_key(tag, WireType::SixtyFourBit, &mut self.0);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn bytes(mut self, tag: u32, value: &[u8]) -> Self {
        encode_key(tag, WireType::LengthDelimited, &mut self.0);
        encode_varint(value.len() as u64, &mut self.0);
        self.0.extend_from_slice(value);
        self
    }

    fn text(self, tag: u32, value: &str) -> Self {
        self.bytes(tag, value.as_bytes())
    }

    fn message(self, tag: u32, fields: Self) -> Self {
        self.bytes(tag, &fields.0)
    }
}

impl Timeline {
    /// Writes the timeline in Perfetto's protobuf. Times are nanoseconds from the first event.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_perfetto(&self, mut out: impl Write) -> io::Result<()> {
        let lanes = self.lanes();
        let first = self.first();
        // `TracePacket`: timestamp = 8, trusted_packet_sequence_id = 10, track_event = 11, track_descriptor = 60.
        // A trace is a message with packets (1): those of several traces behind each other are one trace.
        let mut write = |packet: Fields| -> io::Result<()> {
            out.write_all(&Fields::default().message(1, packet.number(10, SEQUENCE)).0)
        };
        // `TrackDescriptor`: uuid = 1, name = 2, process = 3 (pid = 1, process_name = 6), parent_uuid = 5.
        for (node, number) in self.nodes.iter().zip(0..) {
            let process = Fields::default().number(1, u64::from(number) + 1).text(6, &node.name);
            let track = Fields::default().number(1, of_node(number)).message(3, process);
            write(Fields::default().message(60, track))?;
        }
        for lane in lanes.iter().collect::<BTreeSet<_>>() {
            let track = Fields::default().number(1, of_lane(*lane)).text(2, &lane.name());
            write(Fields::default().message(60, track.number(5, of_node(lane.node))))?;
        }
        // Arrows begin at the slices that copies came from.
        let mut outgoing: Vec<Vec<u64>> = vec![Vec::new(); self.slices.len()];
        for (slice, number) in self.slices.iter().zip(1..) {
            if let Some(source) = slice.source {
                outgoing[source].push(number);
            }
        }
        // Time, rank at that time, the slice, and whether this is its end: a slice ends before the next one
        // begins, and one without length right after its beginning.
        let mut ends: Vec<(i64, u8, usize, bool)> = Vec::with_capacity(2 * self.slices.len());
        for (at, slice) in self.slices.iter().enumerate() {
            ends.push((slice.start, 1, at, false));
            ends.push((slice.end, u8::from(slice.end == slice.start), at, true));
        }
        ends.sort_unstable();
        for (time, _, at, is_end) in ends {
            let lane = of_lane(lanes[at]);
            let event = if is_end {
                Fields::default().number(9, SLICE_END).number(11, lane)
            } else {
                self.begin(at, lane, &outgoing[at])
            };
            write(Fields::default().number(8, (time - first).max(0) as u64).message(11, event))?;
        }
        out.flush()
    }

    /// The beginning of a slice. `TrackEvent`: debug_annotations = 4 (string_value = 6, name = 10), type = 9,
    /// track_uuid = 11, categories = 22, name = 23, flow_ids = 47, terminating_flow_ids = 48.
    fn begin(&self, at: usize, lane: u64, outgoing: &[u64]) -> Fields {
        let slice = &self.slices[at];
        let mut event = Fields::default();
        for (name, value) in self.details(slice) {
            event = event.message(4, Fields::default().text(6, value).text(10, name));
        }
        event = event.number(9, SLICE_BEGIN).number(11, lane).text(22, slice.kind.name());
        event = event.text(23, &self.title(slice));
        event = outgoing.iter().fold(event, |event, id| event.fixed(47, *id));
        if slice.source.is_some() { event.fixed(48, at as u64 + 1) } else { event }
    }
}

/// Numbers of tracks: the node in the upper half, the lane in the lower one.
fn of_node(node: u32) -> u64 {
    (u64::from(node) + 1) << 32
}

fn of_lane(lane: Lane) -> u64 {
    of_node(lane.node) + u64::from(lane.lane) + 1
}
