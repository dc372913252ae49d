//! Events as a timeline: a track for each node, a slice for each copy of a message, and an arrow
//! from its source for each first copy.
//!
//! [`Timeline::write_perfetto`] writes the format of [Perfetto], and [`Timeline::write_chrome`] the
//! [JSON] that it and Chrome's `about:tracing` read. If the trace has both ends of a copy, its
//! slice covers the time from sending to arrival. If it has only the arrival, the slice has no
//! length.
//!
//! [Perfetto]: https://perfetto.dev
//! [JSON]: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, VecDeque};
use std::io::{self, Write};

use prost::encoding::{WireType, encode_key, encode_varint};
use serde_json::{Value, json};

use crate::{Body, DeliverMessage, DuplicateMessage, RpcMeta, TraceEvent};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Published,
    First,
    Duplicate,
    Rejected,
    Lost,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Published => "published",
            Self::First => "first",
            Self::Duplicate => "duplicate",
            Self::Rejected => "rejected",
            Self::Lost => "lost",
        }
    }
}

/// A slice of the timeline: a copy or a publication.
#[derive(Debug)]
struct Slice {
    node: u32,
    kind: Kind,
    /// Nanoseconds since 1970.
    start: i64,
    end: i64,
    /// Index into [`Timeline::messages`].
    message: u32,
    /// The other end of the copy; `None` if unknown.
    peer: Option<u32>,
    /// The slice that the copy came from, where its arrow starts.
    source: Option<usize>,
    reason: Option<String>,
}

impl Slice {
    /// Returns true if the node received the copy.
    fn is_received(&self) -> bool {
        matches!(self.kind, Kind::First | Kind::Duplicate | Kind::Rejected)
    }
}

/// A lane of a node. Viewers nest overlapping slices of a track, so slices of a lane never overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Lane {
    node: u32,
    /// Lane 0 has the node's publications and losses. Received copies are in lanes from 1 on.
    lane: u32,
}

impl Lane {
    fn name(self) -> String {
        if self.lane == 0 { "own".to_owned() } else { format!("received {}", self.lane) }
    }
}

#[derive(Debug, Default)]
struct Node {
    name: String,
    /// The slice that brought a message, by the number of the message.
    has: HashMap<u32, usize>,
}

/// A copy: the id and topic of its message, and its sender.
type Copied = (Option<Vec<u8>>, Option<String>, Option<Vec<u8>>);

/// A message with its topic and id.
#[derive(Debug)]
struct Named {
    topic: String,
    id: String,
}

/// A timeline, built from events in the order of time.
#[derive(Debug, Default)]
pub struct Timeline {
    nodes: Vec<Node>,
    numbers: HashMap<Vec<u8>, u32>,
    messages: Vec<Named>,
    message_numbers: HashMap<Vec<u8>, u32>,
    slices: Vec<Slice>,
    /// Sending times of copies that have not arrived, by sender, receiver and message.
    on_their_way: HashMap<(u32, u32, u32), VecDeque<i64>>,
    /// Copies that arrived without an outcome yet: their times of sending and arrival.
    arrived: HashMap<(u32, u32, u32), (Option<i64>, i64)>,
}

impl Timeline {
    /// Names a node, by the bytes of its peer id. Nodes are shown in the order of their naming.
    /// Other nodes get a name from their id.
    pub fn name(&mut self, peer_id: &[u8], name: &str) {
        let number = self.node(peer_id);
        name.clone_into(&mut self.nodes[number as usize].name);
    }

    /// The numbers of nodes, messages and slices.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.nodes.len(), self.messages.len(), self.slices.len())
    }

    /// Adds an event. Events that do not concern a copy of a message are ignored.
    pub fn add(&mut self, event: &TraceEvent) {
        let (Some(me), Some(at)) = (&event.peer_id, event.timestamp) else { return };
        let me = self.node(me);
        match event.body() {
            Some(Body::PublishMessage(body)) => {
                let message = self.message(body.message_id, body.topic);
                self.has(me, Kind::Published, (at, at), message, None);
            }
            Some(Body::SendRpc(body)) => {
                let to = body.send_to.map(|peer| self.node(&peer));
                for message in self.in_rpc(body.meta) {
                    if let Some(to) = to {
                        self.on_their_way.entry((me, to, message)).or_default().push_back(at);
                    }
                }
            }
            Some(Body::DropRpc(body)) => {
                let peer = body.send_to.map(|peer| self.node(&peer));
                for message in self.in_rpc(body.meta) {
                    self.slice(me, Kind::Lost, (at, at), message, peer);
                }
            }
            Some(Body::RecvRpc(body)) => {
                let Some(from) = body.received_from.map(|peer| self.node(&peer)) else { return };
                for message in self.in_rpc(body.meta) {
                    let sent = self.on_their_way.get_mut(&(from, me, message)).and_then(VecDeque::pop_front);
                    self.arrived.insert((me, from, message), (sent.filter(|sent| *sent <= at), at));
                }
            }
            Some(Body::DeliverMessage(DeliverMessage { message_id, topic, received_from })) => {
                self.arrival(me, at, Kind::First, (message_id, topic, received_from));
            }
            Some(Body::DuplicateMessage(DuplicateMessage { message_id, topic, received_from })) => {
                self.arrival(me, at, Kind::Duplicate, (message_id, topic, received_from));
            }
            Some(Body::RejectMessage(body)) => {
                self.arrival(me, at, Kind::Rejected, (body.message_id, body.topic, body.received_from));
                if let Some(slice) = self.slices.last_mut() {
                    slice.reason = body.reason;
                }
            }
            _ => {}
        }
    }

    fn node(&mut self, peer_id: &[u8]) -> u32 {
        if let Some(number) = self.numbers.get(peer_id) {
            return *number;
        }
        let number = self.nodes.len() as u32;
        // Peer ids differ at their end.
        let name = hex(&peer_id[peer_id.len().saturating_sub(4)..]);
        self.nodes.push(Node { name, has: HashMap::new() });
        self.numbers.insert(peer_id.to_vec(), number);
        number
    }

    fn message(&mut self, id: Option<Vec<u8>>, topic: Option<String>) -> u32 {
        let id = id.unwrap_or_default();
        if let Some(number) = self.message_numbers.get(&id) {
            return *number;
        }
        let number = self.messages.len() as u32;
        self.messages.push(Named { topic: topic.unwrap_or_default(), id: hex(&id) });
        self.message_numbers.insert(id, number);
        number
    }

    fn in_rpc(&mut self, meta: Option<RpcMeta>) -> Vec<u32> {
        let messages = meta.map(|meta| meta.messages).unwrap_or_default();
        messages.into_iter().map(|message| self.message(message.message_id, message.topic)).collect()
    }

    /// Adds a received copy, which starts at its sending time if that is known.
    fn arrival(&mut self, me: u32, at: i64, kind: Kind, (id, topic, from): Copied) {
        let message = self.message(id, topic);
        let from = from.map(|peer| self.node(&peer));
        if kind == Kind::First {
            // A node also delivers its own messages.
            if from != Some(me) {
                let times = self.times(me, from, message, at);
                self.has(me, kind, times, message, from);
            }
        } else {
            let times = self.times(me, from, message, at);
            self.slice(me, kind, times, message, from);
        }
    }

    /// The times of sending and arrival of a copy. An unknown time is that of the current event.
    fn times(&mut self, me: u32, from: Option<u32>, message: u32, at: i64) -> (i64, i64) {
        let known = from.and_then(|from| self.arrived.remove(&(me, from, message)));
        known.map_or((at, at), |(sent, came)| (sent.unwrap_or(came), came))
    }

    fn slice(&mut self, node: u32, kind: Kind, (start, end): (i64, i64), message: u32, peer: Option<u32>) {
        self.slices.push(Slice { node, kind, start, end, message, peer, source: None, reason: None });
    }

    /// Adds a slice by which the node gets the message.
    fn has(&mut self, node: u32, kind: Kind, times: (i64, i64), message: u32, peer: Option<u32>) {
        let source = peer.and_then(|peer| self.nodes[peer as usize].has.get(&message).copied());
        let at = self.slices.len();
        self.slice(node, kind, times, message, peer);
        self.slices[at].source = source;
        self.nodes[node as usize].has.entry(message).or_insert(at);
    }

    /// The title of a slice: the shortened topic, and the id.
    fn title(&self, slice: &Slice) -> String {
        let message = &self.messages[slice.message as usize];
        // In topics of Ethereum, the last part but one names the content.
        let mut parts = message.topic.rsplit('/').filter(|part| !part.is_empty() && *part != "ssz_snappy");
        let topic = parts.next().unwrap_or("message");
        format!("{topic} {}", &message.id[..message.id.len().min(8)])
    }

    /// The details of a slice that viewers show: topic, id, and optionally the peer and the reason.
    fn details<'a>(&'a self, slice: &'a Slice) -> impl Iterator<Item = (&'static str, &'a str)> {
        let message = &self.messages[slice.message as usize];
        let peer = slice.peer.map(|peer| self.nodes[peer as usize].name.as_str());
        let all = [
            ("topic", Some(message.topic.as_str())),
            ("message", Some(message.id.as_str())),
            ("peer", peer),
            ("reason", slice.reason.as_deref()),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }

    fn first(&self) -> i64 {
        self.slices.iter().map(|slice| slice.start).min().unwrap_or(0)
    }

    /// The lane of each slice. Slices that touch do not overlap, but two slices without length at
    /// the same time do.
    fn lanes(&self) -> Vec<Lane> {
        let mut lanes: Vec<Lane> =
            self.slices.iter().map(|slice| Lane { node: slice.node, lane: 0 }).collect();
        let mut order: Vec<usize> =
            (0..self.slices.len()).filter(|at| self.slices[*at].is_received()).collect();
        order.sort_by_key(|at| (self.slices[*at].node, self.slices[*at].start, *at));
        // State of one node: the end of each lane's last slice, and the free lanes.
        let (mut node, mut count) = (None, 0);
        let mut busy: BinaryHeap<Reverse<(i64, u32)>> = BinaryHeap::new();
        let mut free: BinaryHeap<Reverse<u32>> = BinaryHeap::new();
        for at in order {
            let slice = &self.slices[at];
            if node != Some(slice.node) {
                (node, count) = (Some(slice.node), 0);
                busy.clear();
                free.clear();
            }
            while busy.peek().is_some_and(|Reverse((until, _))| *until <= slice.start) {
                free.extend(busy.pop().map(|Reverse((_, lane))| Reverse(lane)));
            }
            let Reverse(lane) = free.pop().unwrap_or_else(|| {
                count += 1;
                Reverse(count)
            });
            // A slice without length occupies one nanosecond.
            busy.push(Reverse((slice.end.max(slice.start + 1), lane)));
            lanes[at].lane = lane;
        }
        lanes
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

// ---- JSON of Chrome's tracing ("Trace Event Format"): a process for each node, a thread for each
// lane ----

/// Minimum length of a slice in nanoseconds. Viewers do not allow clicks on slices without length.
const LENGTH_MIN_NS: i64 = 1;

impl Timeline {
    /// Writes the timeline as the JSON that Chrome's `about:tracing` and Perfetto read. Times are
    /// microseconds from the first event.
    ///
    /// # Errors
    /// The target returns an error.
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
            // Viewers bind an arrow to the slice at its time.
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

// ---- Perfetto's protobuf (`protos/perfetto/trace`): a process track for each node, a track for each lane ----

// Only the fields in use, written by hand, so that building this crate needs no protobuf compiler.

/// The sequence of all packets, which orders them. Any number except 0.
const SEQUENCE: u64 = 1;

/// `TrackEvent.Type`
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;

/// The fields of a protobuf message.
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
    /// The target returns an error.
    pub fn write_perfetto(&self, mut out: impl Write) -> io::Result<()> {
        let lanes = self.lanes();
        let first = self.first();
        // `TracePacket`: timestamp = 8, trusted_packet_sequence_id = 10, track_event = 11,
        // track_descriptor = 60. A trace is a message with packets (1), so concatenated traces are
        // one trace.
        let mut write = |packet: Fields| -> io::Result<()> {
            out.write_all(&Fields::default().message(1, packet.number(10, SEQUENCE)).0)
        };
        // `TrackDescriptor`: uuid = 1, name = 2, process = 3 (pid = 1, process_name = 6),
        // parent_uuid = 5.
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
        // Time, rank at that time, slice, and whether this is its end. A slice ends before the next
        // one begins, and a slice without length ends right after its beginning.
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

    /// The packet that begins a slice. `TrackEvent`: debug_annotations = 4 (string_value = 6, name
    /// = 10), type = 9, track_uuid = 11,
    /// categories = 22, name = 23, flow_ids = 47, terminating_flow_ids = 48.
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

/// The id of a node's track, with the node in the upper half. The lower half is that of a lane.
fn of_node(node: u32) -> u64 {
    (u64::from(node) + 1) << 32
}

fn of_lane(lane: Lane) -> u64 {
    of_node(lane.node) + u64::from(lane.lane) + 1
}

#[cfg(test)]
mod tests;
