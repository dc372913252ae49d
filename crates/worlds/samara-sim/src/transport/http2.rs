//! The layer between a protocol and TCP in gRPC: HTTP/2 (RFC 9113), as far as it decides when bytes
//! may leave.
//!
//! A message is cut into `DATA` frames. They may leave only while the sender has **credit** for the
//! connection. The receiver starts with a window, and returns credit for received bytes with
//! `WINDOW_UPDATE` frames, each of which arrives half a round trip late. A window that stays at the
//! standard's 65,535 bytes therefore carries only that much in a round trip. A receiver can offer a
//! larger window from the start, or **estimate** the capacity of the path and widen the window, as
//! grpc-go does.
//!
//! ```text
//! outbox -> messages -> DATA frames (credit) -> Bytes -> Socket (segments) -> tcp::Sender
//!                               engine <- Receiver (credit, estimator) <- tcp::Receiver
//! ```
//!
//! Windows of streams are not modelled: grpc-go widens the window of a call to the message that is
//! being read (`maybeAdjust`), and elsewhere they are as large as the window of the connection, or
//! larger than the data that a call has in flight. Header blocks and TLS records are not modelled
//! either; they add less than one part in two hundred.

use std::collections::VecDeque;

use samara_engine::outbox::Room;

use super::backlog::Run;
use super::config::{Connection, Control, Framing, Transport};
use super::socket::{Item, Load, Readable, Socket, Stream};
pub(crate) use super::tcp::hello_bytes;
use super::{Ack, Around, LossRecovery, Outgoing, ReceiveHalf, SendHalf, Taken, tcp};
use crate::error::{ConfigError, ensure};
use crate::explain::Cause;
use crate::packet::Body;

#[cfg(test)]
mod tests;

/// The initial window of a connection in bytes (RFC 9113 section 6.9.2).
const INITIAL_WINDOW: u32 = 65_535;
/// The widest window that an estimator opens, in bytes (`bdpLimit` in
/// `internal/transport/bdp_estimator.go` of grpc-go since 1.17; the same in hyper).
const ESTIMATED_MAX: u32 = 16 << 20;
/// The header of a frame in bytes (RFC 9113 section 4.1).
const FRAME_HEADER: u32 = 9;
/// The prefix of a gRPC message in bytes: its compression flag and its length.
const MESSAGE_PREFIX: u32 = 5;
/// The largest `DATA` frame that every peer accepts, in bytes (`SETTINGS_MAX_FRAME_SIZE`, RFC 9113
/// section 6.5.2).
const FRAME_PAYLOAD: u32 = 16_384;
/// The size of a `WINDOW_UPDATE` frame in bytes (RFC 9113 section 6.9).
const UPDATE_BYTES: u32 = FRAME_HEADER + 4;
/// The size of a `PING` frame in bytes (RFC 9113 section 6.7).
const PING_BYTES: u32 = FRAME_HEADER + 8;

/// HTTP/2 over TCP or over the ideal transport. Both ends of a link have the same configuration.
/// The window of each direction belongs to its receiver: for an upload, to the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Http2Config {
    /// The amount of data that the receiver allows in flight on a connection.
    pub window: Window,
}

/// The amount of data that a receiver allows in flight on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Window {
    /// 65,535 bytes at first; wider if the path turns out to hold more, up to 16 MiB. This is the
    /// default of grpc-go at both ends, and `http2_adaptive_window` of hyper and tonic.
    #[default]
    Estimated,
    /// A fixed number of bytes from the start (hyper's server: 1 MiB; the standard's initial
    /// window: 65,535).
    Fixed {
        /// The size of the window in bytes (at least 1).
        bytes: u32,
    },
}

impl Window {
    /// Returns the window of a new connection in bytes.
    const fn at_first(self) -> u32 {
        match self {
            Self::Estimated => INITIAL_WINDOW,
            Self::Fixed { bytes } => bytes,
        }
    }
}

impl Transport {
    /// Returns TCP below TLS 1.3 and HTTP/2, as gRPC uses them.
    pub fn grpc(config: Http2Config) -> Self {
        Self {
            framing: Framing::PLAIN,
            // TCP and TLS 1.3 (RFC 8446 section 2); the preface of HTTP/2 needs no round trip.
            handshake_round_trips: 2,
            connection: Connection::Http2(config),
            ..Self::tcp()
        }
    }
}

/// Checks that the transport can carry HTTP/2.
pub(crate) fn check(transport: &Transport) -> Result<(), ConfigError> {
    let is_stream = !matches!(transport.control, Control::Quic(_) | Control::Datagram);
    ensure!(is_stream, "HTTP/2 is one stream of bytes; use tcp or ideal");
    ensure!(transport.framing == Framing::PLAIN, "HTTP/2 frames messages itself; the framing must be plain");
    let window = transport.connection.http2().window.at_first();
    ensure!(window > 0, "the window of HTTP/2 is 0 bytes; it must be at least 1");
    super::tcp::check(transport)
}

/// Returns the bytes on the wire of a message in its `DATA` frames, if credit does not cut it into
/// smaller ones.
pub(crate) fn wire_bytes(encoded_len: u32, transport: &Transport) -> u64 {
    wire_bytes_each(encoded_len, 1, transport)
}

/// Returns the bytes on the wire of each of several messages whose `DATA` frames share segments.
pub(crate) fn wire_bytes_each(encoded_len: u32, count: u32, transport: &Transport) -> u64 {
    let len = encoded_len + MESSAGE_PREFIX;
    let bytes = u64::from(len + len.div_ceil(FRAME_PAYLOAD) * FRAME_HEADER) * u64::from(count);
    let packets = bytes.div_ceil(u64::from(transport.mss));
    (bytes + packets * u64::from(transport.header)) / u64::from(count)
}

/// A message of which a part has no credit yet.
#[derive(Debug)]
struct Message<F> {
    frame: F,
    left: u32,
    rank: u64,
}

#[derive(Debug)]
pub(crate) struct Sender<F> {
    /// With the frames that HTTP/2 allows to leave.
    socket: Socket<F, Bytes<Item<F>>>,
    waiting: VecDeque<Message<F>>,
    waiting_bytes: u64,
    /// Bytes of messages that may leave beyond those that have left.
    credit: u64,
}

impl<F: Clone> Sender<F> {
    pub(crate) fn new(transport: &Transport) -> Self {
        Self {
            socket: Socket::new(Bytes::new(), transport),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            credit: u64::from(transport.connection.http2().window.at_first()),
        }
    }

    /// Adds the credit that the peer returned.
    fn add_credit(&mut self, bytes: u32) {
        self.credit += u64::from(bytes);
        self.use_credit();
    }

    fn control(&mut self, item: Item<F>, rank: u64) {
        let bytes = if matches!(item, Item::Credit(_)) { UPDATE_BYTES } else { PING_BYTES };
        self.socket.stream.push_control(bytes, rank, item);
    }

    /// Cuts waiting messages into frames while there is credit.
    fn use_credit(&mut self) {
        while self.credit > 0
            && let Some(front) = self.waiting.front_mut()
        {
            let most = u32::try_from(self.credit).unwrap_or(u32::MAX).min(FRAME_PAYLOAD);
            let bytes = front.left.min(most);
            front.left -= bytes;
            self.credit -= u64::from(bytes);
            self.waiting_bytes -= u64::from(bytes);
            let rank = front.rank;
            let complete = front.left == 0;
            let frame = if complete { self.waiting.pop_front().map(|message| message.frame) } else { None };
            self.socket.stream.push_data(FRAME_HEADER + bytes, rank, Item::Data { bytes, frame });
        }
    }
}

impl<F: Clone> SendHalf<F> for Sender<F> {
    fn recovery(&self) -> &impl LossRecovery {
        &self.socket.tcp
    }

    fn recovery_mut(&mut self) -> &mut impl LossRecovery {
        &mut self.socket.tcp
    }

    fn write(&mut self, frame: F, len: u32, rank: u64, _transport: &Transport) {
        let left = len + MESSAGE_PREFIX;
        self.waiting_bytes += u64::from(left);
        self.waiting.push_back(Message { frame, left, rank });
        self.use_credit();
    }

    fn has_buffer(&self, transport: &Transport) -> bool {
        let Socket { tcp, stream, .. } = &self.socket;
        tcp.backlog.buffered + stream.bytes + self.waiting_bytes < tcp.buffer_limit(transport)
    }

    fn room(&self, transport: &Transport) -> Room {
        if !self.socket.stream.is_empty() || !self.waiting.is_empty() {
            return Room::NONE;
        }
        Room(self.socket.tcp.room(transport).0.min(self.credit))
    }

    fn can_send(&self) -> bool {
        self.socket.can_send()
    }

    fn held(&self, now: u64) -> Option<Cause> {
        self.socket.held(now).or((!self.waiting.is_empty()).then_some(Cause::FlowControl))
    }

    fn next_rank(&self) -> u64 {
        self.socket.next_rank()
    }

    fn pop(&mut self, now: u64, _burst_max: u32, transport: &Transport) -> Option<Outgoing<F>> {
        self.socket.pop(now, 1, transport)
    }
}

/// A sequence of frames that is cut into segments when these can leave, so that small frames share
/// a segment. Control frames overtake data frames of which nothing has left: gRPC's writer takes
/// them first, and data wait for it.
#[derive(Debug)]
struct Bytes<T> {
    control: VecDeque<Waiting<T>>,
    data: VecDeque<Waiting<T>>,
    bytes: u64,
}

#[derive(Debug)]
struct Waiting<T> {
    bytes: u32,
    left: u32,
    /// The frame's place among all writes of the host.
    rank: u64,
    frame: T,
}

impl<T> Bytes<T> {
    const fn new() -> Self {
        Self { control: VecDeque::new(), data: VecDeque::new(), bytes: 0 }
    }

    fn push_control(&mut self, bytes: u32, rank: u64, frame: T) {
        self.bytes += u64::from(bytes);
        self.control.push_back(Waiting { bytes, left: bytes, rank, frame });
    }

    fn push_data(&mut self, bytes: u32, rank: u64, frame: T) {
        self.bytes += u64::from(bytes);
        self.data.push_back(Waiting { bytes, left: bytes, rank, frame });
    }

    /// Returns true if a part of the first data frame has left.
    fn data_goes_on(&self) -> bool {
        self.data.front().is_some_and(|waiting| waiting.left < waiting.bytes)
    }
}

impl<F> Stream<F> for Bytes<Item<F>> {
    fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    fn rank(&self) -> u64 {
        let line = if self.data_goes_on() { &self.data } else { &self.control };
        line.front().or(self.data.front()).map_or(u64::MAX, |waiting| waiting.rank)
    }

    /// Cuts one segment.
    fn cut(&mut self, mss: u32, _most: u32) -> Option<(Run, Readable<F>)> {
        let mut run = Run { segments: 1, len: 0, unit: mss, rank: self.rank() };
        let mut readable = Readable::nothing();
        loop {
            let controls = !self.control.is_empty() && !self.data_goes_on();
            let line = if controls { &mut self.control } else { &mut self.data };
            let Some(front) = line.front_mut() else { break };
            let taken = front.left.min(mss - run.len);
            front.left -= taken;
            run.len += taken;
            if front.left > 0 {
                break;
            }
            readable.items.extend(line.pop_front().map(|waiting| waiting.frame));
        }
        self.bytes -= u64::from(run.len);
        (run.len > 0).then_some((run, readable))
    }
}

#[derive(Debug)]
pub(crate) struct Receiver<F> {
    tcp: tcp::Receiver<Load<F>>,
    credit: Credit,
    estimator: Option<Estimator>,
    /// Segments that arrived in order and are not processed yet.
    arrived: Vec<Load<F>>,
}

impl<F: Clone> Receiver<F> {
    pub(crate) fn new(transport: &Transport) -> Self {
        let config = transport.connection.http2();
        Self {
            tcp: tcp::Receiver::new(transport),
            credit: Credit::new(config.window.at_first()),
            estimator: match config.window {
                Window::Estimated => Some(Estimator::new()),
                Window::Fixed { .. } => None,
            },
            arrived: Vec::new(),
        }
    }

    /// Reads a frame of HTTP/2, and writes the answer to `sender`.
    fn read(&mut self, item: &Item<F>, sender: &mut Sender<F>, around: &mut Around<'_, F>) {
        let mut next = || {
            around.counts.writes += 1;
            around.counts.writes
        };
        match item {
            Item::Data { bytes, frame } => {
                let ping = self.estimator.as_mut().is_some_and(|estimator| estimator.add(around.now, *bytes));
                if let Some(given) = self.credit.take_in(*bytes) {
                    sender.control(Item::Credit(given), next());
                }
                if ping {
                    // Returns all credit before the ping, as grpc-go does, so that the peer does
                    // not count it as a flood of pings.
                    if let Some(given) = self.credit.give_back() {
                        sender.control(Item::Credit(given), next());
                    }
                    sender.control(Item::Ping, next());
                }
                around.delivered.extend(frame.clone());
            }
            Item::Credit(bytes) => sender.add_credit(*bytes),
            Item::Ping => sender.control(Item::Pong, next()),
            Item::Pong => {
                let window = self.estimator.as_mut().and_then(|estimator| estimator.answered(around.now));
                if let Some(more) = window.and_then(|window| self.credit.widen(window)) {
                    sender.control(Item::Credit(more), next());
                }
            }
        }
    }
}

impl<F: Clone> ReceiveHalf<F> for Receiver<F> {
    type Sender = Sender<F>;

    fn take(
        &mut self,
        sender: &mut Sender<F>,
        stamp: u32,
        body: Body<F>,
        around: &mut Around<'_, F>,
    ) -> Taken {
        let Body::Stream { seq, load, .. } = body else { return Taken::mismatch() };
        let need = self.tcp.segment(stamp, (seq, load), around.transport, &mut self.arrived);
        let mut arrived = std::mem::take(&mut self.arrived);
        for item in arrived.iter().flat_map(|load| &load.items) {
            self.read(item, sender, around);
        }
        arrived.clear();
        self.arrived = arrived;
        need.into()
    }

    fn acknowledge(&mut self, now: u64, transport: &Transport) -> Ack {
        self.tcp.acknowledge(now, transport)
    }
}

/// The credit of a connection at its receiver: `trInFlow` in `internal/transport/flowcontrol.go` of
/// grpc-go. Bytes are accounted for when they arrive, even if they are not read yet.
#[derive(Debug)]
struct Credit {
    limit: u32,
    /// Bytes that arrived and whose credit was not returned yet.
    owed: u32,
}

impl Credit {
    const fn new(limit: u32) -> Self {
        Self { limit, owed: 0 }
    }

    /// Accounts for arriving bytes. Returns the credit to send now: all of it, once it is a quarter
    /// of the window.
    fn take_in(&mut self, bytes: u32) -> Option<u32> {
        self.owed += bytes;
        if self.owed < self.limit / 4 { None } else { self.give_back() }
    }

    /// Returns all credit that is owed, if any.
    fn give_back(&mut self) -> Option<u32> {
        let owed = std::mem::take(&mut self.owed);
        (owed > 0).then_some(owed)
    }

    /// Widens the window. Returns the difference.
    fn widen(&mut self, limit: u32) -> Option<u32> {
        let more = limit.saturating_sub(self.limit);
        self.limit += more;
        (more > 0).then_some(more)
    }
}

/// The weight of the past in the mean round trip, once there are enough samples (`alpha`).
const PAST: f64 = 0.9;
/// The number of samples with equal weights before that.
const ALIKE: f64 = 10.0;
/// A sample that fills this part of the window shows that the window may be the limit (`beta`).
const FULL: f64 = 0.66;
/// The new window as a multiple of the sample (`gamma`).
const WIDER: f64 = 2.0;
/// The assumed round trip as a multiple of the measured one.
const SLACK: f64 = 1.5;

/// `bdpEstimator` of `internal/transport/bdp_estimator.go` in grpc-go: the first data after a pause
/// sends a `PING`; the data that arrive until its answer are a sample. Times in nanoseconds.
#[derive(Debug)]
struct Estimator {
    window: u32,
    /// The time of the unanswered `PING`, and the bytes that have arrived since, including those
    /// that caused it.
    sample: Option<(u64, u32)>,
    samples: f64,
    /// The mean round trip in seconds.
    round_trip: f64,
    /// The largest bandwidth so far, in bytes per second.
    bandwidth_max: f64,
}

impl Estimator {
    const fn new() -> Self {
        Self { window: INITIAL_WINDOW, sample: None, samples: 0.0, round_trip: 0.0, bandwidth_max: 0.0 }
    }

    /// Adds arriving data to the sample. Returns whether to send a `PING`.
    fn add(&mut self, now: u64, bytes: u32) -> bool {
        if self.window == ESTIMATED_MAX {
            return false;
        }
        match &mut self.sample {
            Some((_, sample)) => {
                *sample += bytes;
                false
            }
            None => {
                self.sample = Some((now, bytes));
                self.samples += 1.0;
                true
            }
        }
    }

    /// Evaluates the answer of the `PING`. Returns the new window if it has become wider.
    fn answered(&mut self, now: u64) -> Option<u32> {
        let (sent_at, sample) = self.sample.take()?;
        let round_trip = (now - sent_at) as f64 / 1e9;
        let weight = if self.samples < ALIKE { 1.0 / self.samples } else { PAST };
        self.round_trip += (round_trip - self.round_trip) * weight;
        let bandwidth = f64::from(sample) / (self.round_trip * SLACK);
        if bandwidth < self.bandwidth_max {
            return None;
        }
        self.bandwidth_max = bandwidth;
        if f64::from(sample) < FULL * f64::from(self.window) {
            return None;
        }
        self.window = ((WIDER * f64::from(sample)) as u32).min(ESTIMATED_MAX);
        Some(self.window)
    }
}
