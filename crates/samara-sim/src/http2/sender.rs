//! Messages in, `DATA` frames out while there is credit.

use std::collections::VecDeque;
use std::sync::Arc;

use samara_engine::Frame;
use samara_engine::outbox::Room;
use smallvec::SmallVec;

use super::bytes::Bytes;
use super::config::{FRAME_HEADER, FRAME_PAYLOAD, Http2Config, MESSAGE_PREFIX, PING_BYTES, UPDATE_BYTES};
use crate::backlog::Segment;
use crate::config::Transport;
use crate::tcp;

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
    pub(crate) fn new(config: Http2Config, transport: &Transport) -> Self {
        Self {
            tcp: tcp::Sender::new(transport.control.tcp()),
            bytes: Bytes::new(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            credit: u64::from(config.window.at_first()),
        }
    }

    pub(crate) const fn tcp(&self) -> &tcp::Sender<Load<F>> {
        &self.tcp
    }

    pub(crate) const fn tcp_mut(&mut self) -> &mut tcp::Sender<Load<F>> {
        &mut self.tcp
    }

    /// Takes a message of `len` encoded bytes.
    pub(crate) fn write(&mut self, frame: F, len: u32, rank: u64) {
        let left = len + MESSAGE_PREFIX;
        self.waiting_bytes += u64::from(left);
        self.waiting.push_back(Message { frame, left, rank });
        self.use_credit();
    }

    /// Whether a per-link queue may hand over another message.
    pub(crate) fn has_buffer(&self, transport: &Transport) -> bool {
        let buffered = self.tcp.buffered() + self.bytes.len() + self.waiting_bytes;
        buffered < self.tcp.buffer_limit(transport.control.tcp(), transport.mss)
    }

    /// Bytes of a message written now that would leave as soon as the uplink is free.
    pub(crate) fn room(&self, transport: &Transport) -> Room {
        if !self.bytes.is_empty() || !self.waiting.is_empty() {
            return Room::NONE;
        }
        Room(self.tcp.room(transport.mss).0.min(self.credit))
    }

    /// Whether a packet with data can leave now.
    pub(crate) fn can_send(&self) -> bool {
        self.tcp.can_send() || (!self.bytes.is_empty() && self.tcp.window_left() >= 1.0)
    }

    /// The write rank of what leaves next.
    pub(crate) fn next_rank(&self) -> u64 {
        if self.tcp.can_send() { self.tcp.next_rank() } else { self.bytes.rank() }
    }

    /// The segment that leaves at `now`, if one can: what was lost before what is new.
    pub(crate) fn pop(&mut self, now: u64, transport: &Transport) -> Option<Segment<Load<F>>> {
        if !self.tcp.can_send() {
            if self.tcp.window_left() < 1.0 {
                return None;
            }
            let (run, items) = self.bytes.cut(transport.mss)?;
            self.tcp.write_run(Arc::new(items), run);
        }
        self.tcp.pop(now, transport.control.tcp(), transport)
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
