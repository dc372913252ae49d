//! Perfetto's protobuf (`protos/perfetto/trace`): a process track for each node, a track for each lane. Only the fields that are used,
//! by hand, so that no compiler of protobuf is needed.

use std::collections::BTreeSet;
use std::io::{self, Write};

use prost::Message;

use super::lanes::Lane;
use super::{Slice, Timeline};

/// Packets of one sequence are in order. Any number but 0.
const SEQUENCE: u32 = 1;

/// `TrackEvent.Type`
const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;

#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<TracePacket>,
}

#[derive(Clone, PartialEq, Message)]
struct TracePacket {
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(message, optional, tag = "3")]
    process: Option<ProcessDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct ProcessDescriptor {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(string, optional, tag = "6")]
    process_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    debug_annotations: Vec<DebugAnnotation>,
    #[prost(int32, optional, tag = "9")]
    kind: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    track_uuid: Option<u64>,
    #[prost(string, repeated, tag = "22")]
    categories: Vec<String>,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    flow_ids: Vec<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    terminating_flow_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct DebugAnnotation {
    #[prost(string, optional, tag = "6")]
    string_value: Option<String>,
    #[prost(string, optional, tag = "10")]
    name: Option<String>,
}

impl Timeline {
    /// Writes the timeline in Perfetto's protobuf. Times are nanoseconds from the first event.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_perfetto(&self, mut out: impl Write) -> io::Result<()> {
        let lanes = self.lanes();
        let first = self.slices.iter().map(|slice| slice.start).min().unwrap_or(0);
        let mut write = |packet: TracePacket| -> io::Result<()> {
            // A trace is a message with packets: those of several traces behind each other are one trace.
            out.write_all(&Trace { packet: vec![packet] }.encode_to_vec())
        };
        for (node, number) in self.nodes.iter().zip(0..) {
            write(descriptor(TrackDescriptor {
                uuid: Some(of_node(number)),
                name: None,
                process: Some(ProcessDescriptor {
                    pid: i32::try_from(number + 1).ok(),
                    process_name: Some(node.name.clone()),
                }),
                parent_uuid: None,
            }))?;
        }
        for lane in lanes.iter().collect::<BTreeSet<_>>() {
            write(descriptor(TrackDescriptor {
                uuid: Some(of_lane(*lane)),
                name: Some(lane.name()),
                process: None,
                parent_uuid: Some(of_node(lane.node)),
            }))?;
        }
        // Arrows begin where copies came from.
        let mut outgoing: Vec<Vec<u64>> = vec![Vec::new(); self.slices.len()];
        for (slice, number) in self.slices.iter().zip(1..) {
            if let Some(source) = slice.source {
                outgoing[source].push(number);
            }
        }
        // Time, what comes first at that time, the slice, and whether this is its end: a slice ends before the next one begins, and one
        // without length right after its beginning.
        let mut ends: Vec<(i64, u8, usize, bool)> = Vec::with_capacity(2 * self.slices.len());
        for (at, slice) in self.slices.iter().enumerate() {
            ends.push((slice.start, 1, at, false));
            ends.push((slice.end, u8::from(slice.end == slice.start), at, true));
        }
        ends.sort_unstable();
        for (time, _, at, is_end) in ends {
            let slice = &self.slices[at];
            let event = if !is_end {
                TrackEvent {
                    debug_annotations: self.annotations(slice),
                    kind: Some(SLICE_BEGIN),
                    track_uuid: Some(of_lane(lanes[at])),
                    categories: vec![slice.kind.name().to_owned()],
                    name: Some(self.title(slice)),
                    flow_ids: std::mem::take(&mut outgoing[at]),
                    terminating_flow_ids: slice.source.map(|_| at as u64 + 1).into_iter().collect(),
                }
            } else {
                TrackEvent {
                    kind: Some(SLICE_END),
                    track_uuid: Some(of_lane(lanes[at])),
                    ..TrackEvent::default()
                }
            };
            write(TracePacket {
                timestamp: u64::try_from(time - first).ok(),
                trusted_packet_sequence_id: Some(SEQUENCE),
                track_event: Some(event),
                track_descriptor: None,
            })?;
        }
        out.flush()
    }

    fn annotations(&self, slice: &Slice) -> Vec<DebugAnnotation> {
        let message = &self.messages[slice.message as usize];
        let all = [
            ("topic", Some(message.topic.as_str())),
            ("message", Some(message.id.as_str())),
            ("peer", self.peer_name(slice)),
            ("reason", slice.reason.as_deref()),
        ];
        let annotation = |(name, value): (&str, Option<&str>)| {
            value.map(|value| DebugAnnotation {
                string_value: Some(value.to_owned()),
                name: Some(name.to_owned()),
            })
        };
        all.into_iter().filter_map(annotation).collect()
    }
}

fn descriptor(track: TrackDescriptor) -> TracePacket {
    TracePacket {
        trusted_packet_sequence_id: Some(SEQUENCE),
        track_descriptor: Some(track),
        ..TracePacket::default()
    }
}

/// Tracks are known by numbers of their own.
fn of_node(node: u32) -> u64 {
    (u64::from(node) + 1) << 32
}

fn of_lane(lane: Lane) -> u64 {
    of_node(lane.node) + u64::from(lane.lane) + 1
}
