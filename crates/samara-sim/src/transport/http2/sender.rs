//! Messages in, `DATA` frames out while there is credit.

use std::collections::VecDeque;
use std::sync::Arc;

use samara_engine::Frame;
use samara_engine::outbox::Room;
use smallvec::SmallVec;

use super::{FRAME_HEADER, FRAME_PAYLOAD, MESSAGE_PREFIX, PING_BYTES, UPDATE_BYTES};
use crate::packet::Body;
use crate::transport::backlog::{Run, Segment};
use crate::transport::{Outgoing, SendHalf, Transport, tcp};

/// What a segment brings: the frames that end in it. Shared between what is on its way and what the sender keeps to send again.
pub(crate) type Load<F> = Arc<SmallVec<[Item<F>; 1]>>;

/// A frame of HTTP/2.
#[derive(Debug)]
pub(crate) enum Item<F> {
    /// So many bytes of messages, and the one that ends with them.
    Data { bytes: u32, message: Option<F> },
    /// So many bytes more may leave.
    Update(u32),
    /// An answer is wanted.
    Ping,
    /// The answer.
    Pong,
}

/// A message of which a part has no credit yet.
#[derive(Debug)]
struct Message<F> {
    frame: F,
    left: u32,
    rank: u64,
}

/// The sending end of a connection.
#[derive(Debug)]
pub(crate) struct Sender<F> {
    tcp: tcp::Sender<Load<F>>,
    /// What may leave as far as HTTP/2 is concerned.
    bytes: Bytes<Item<F>>,
    waiting: VecDeque<Message<F>>,
    waiting_bytes: u64,
    /// Bytes of messages that may leave beyond those that have.
    credit: u64,
}

impl<F: Frame> Sender<F> {
    pub(crate) fn new(transport: &Transport) -> Self {
        Self {
            tcp: tcp::Sender::new(transport),
            bytes: Bytes::new(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            credit: u64::from(transport.connection.http2().window.at_first()),
        }
    }

    // ---- what the receiving end wants ----

    /// The peer lets so many bytes more leave.
    pub(super) fn add_credit(&mut self, bytes: u32) {
        self.credit += u64::from(bytes);
        self.use_credit();
    }

    /// Gives the peer credit for so many bytes.
    pub(super) fn give_credit(&mut self, bytes: u32, rank: u64) {
        self.bytes.push_control(UPDATE_BYTES, rank, Item::Update(bytes));
    }

    pub(super) fn ping(&mut self, rank: u64) {
        self.bytes.push_control(PING_BYTES, rank, Item::Ping);
    }

    pub(super) fn pong(&mut self, rank: u64) {
        self.bytes.push_control(PING_BYTES, rank, Item::Pong);
    }

    /// Makes frames of what waits while there is credit.
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
            let message = if complete { self.waiting.pop_front().map(|message| message.frame) } else { None };
            self.bytes.push_data(FRAME_HEADER + bytes, rank, Item::Data { bytes, message });
        }
    }
}

impl<F: Frame> SendHalf<F> for Sender<F> {
    type Recovery = tcp::Sender<Load<F>>;

    fn recovery(&self) -> &Self::Recovery {
        &self.tcp
    }

    fn recovery_mut(&mut self) -> &mut Self::Recovery {
        &mut self.tcp
    }

    fn write(&mut self, frame: F, len: u32, rank: u64, _transport: &Transport) {
        let left = len + MESSAGE_PREFIX;
        self.waiting_bytes += u64::from(left);
        self.waiting.push_back(Message { frame, left, rank });
        self.use_credit();
    }

    fn has_buffer(&self, transport: &Transport) -> bool {
        self.tcp.buffered() + self.bytes.len() + self.waiting_bytes < self.tcp.buffer_limit(transport)
    }

    fn room(&self, transport: &Transport) -> Room {
        if !self.bytes.is_empty() || !self.waiting.is_empty() {
            return Room::NONE;
        }
        Room(self.tcp.room(transport).0.min(self.credit))
    }

    fn can_send(&self) -> bool {
        self.tcp.can_send() || (!self.bytes.is_empty() && self.tcp.window_left() >= 1.0)
    }

    fn next_rank(&self) -> u64 {
        if self.tcp.can_send() { self.tcp.next_rank() } else { self.bytes.rank() }
    }

    /// What was lost goes before what is new.
    fn pop(&mut self, now: u64, _burst_max: u32, transport: &Transport) -> Option<Outgoing<F>> {
        if !self.tcp.can_send() {
            if self.tcp.window_left() < 1.0 {
                return None;
            }
            let (run, items) = self.bytes.cut(transport.mss)?;
            self.tcp.write_run(Arc::new(items), run);
        }
        let Segment { seq, count: _, len, frame: load, again, stamp } =
            self.tcp.pop_segment(now, transport)?;
        Some(Outgoing { body: Body::Http2 { seq, load }, len, again, stamp, frees: true })
    }
}

/// Frames in a row, cut into segments when these can leave, so that small ones share a segment. Those of control overtake those of
/// data that nothing has left of: gRPC's writer takes them first, and data wait for it.
#[derive(Debug)]
pub(super) struct Bytes<T> {
    control: VecDeque<Waiting<T>>,
    data: VecDeque<Waiting<T>>,
    bytes: u64,
}

#[derive(Debug)]
struct Waiting<T> {
    bytes: u32,
    left: u32,
    /// When it was written, among all writes of the host.
    rank: u64,
    frame: T,
}

impl<T> Bytes<T> {
    pub(super) const fn new() -> Self {
        Self { control: VecDeque::new(), data: VecDeque::new(), bytes: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Bytes that wait.
    pub(super) const fn len(&self) -> u64 {
        self.bytes
    }

    /// The write rank of what leaves next; `u64::MAX` if there is nothing.
    pub(super) fn rank(&self) -> u64 {
        let line = if self.data_goes_on() { &self.data } else { &self.control };
        line.front().or(self.data.front()).map_or(u64::MAX, |waiting| waiting.rank)
    }

    pub(super) fn push_control(&mut self, bytes: u32, rank: u64, frame: T) {
        self.bytes += u64::from(bytes);
        self.control.push_back(Waiting { bytes, left: bytes, rank, frame });
    }

    pub(super) fn push_data(&mut self, bytes: u32, rank: u64, frame: T) {
        self.bytes += u64::from(bytes);
        self.data.push_back(Waiting { bytes, left: bytes, rank, frame });
    }

    /// Whether a part of the first data frame has left.
    fn data_goes_on(&self) -> bool {
        self.data.front().is_some_and(|waiting| waiting.left < waiting.bytes)
    }

    /// The next segment of at most `mss` bytes, and the frames that end in it.
    pub(super) fn cut(&mut self, mss: u32) -> Option<(Run, SmallVec<[T; 1]>)> {
        let mut run = Run { segments: 1, len: 0, unit: mss, rank: self.rank() };
        let mut complete = SmallVec::new();
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
            complete.extend(line.pop_front().map(|waiting| waiting.frame));
        }
        self.bytes -= u64::from(run.len);
        (run.len > 0).then_some((run, complete))
    }
}
