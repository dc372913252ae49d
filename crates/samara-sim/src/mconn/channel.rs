//! A channel of a connection.

use std::collections::VecDeque;

use super::wire::{MESSAGE_PACKET_BYTES, packet_bytes};
use crate::rewind;

/// What is left of `recently_sent` after each interval (`updateStats` in `p2p/conn/connection.go`).
const DECAY: f64 = 0.8;
/// So many steps leave nothing of any number of bytes that a connection could carry in between.
const DECAY_STEPS_MAX: u64 = 200;

/// A message and its bytes.
type Message<F> = (F, u32);

/// One channel of one end of a connection.
#[derive(Debug)]
pub(super) struct Channel<F> {
    /// The message at the head of the queue: most queues never have another one.
    head: Option<Message<F>>,
    /// Those behind it.
    queue: VecDeque<Message<F>>,
    /// The message that packets are being made of, and how many of its bytes were sent.
    sending: Option<(Message<F>, u32)>,
    /// Bytes in packets, decaying.
    recently_sent: u64,
    /// Whether copies in the outbox wait for room in the queue.
    pub(super) full: bool,
}

/// A packet that was written.
#[derive(Debug)]
pub(super) struct Written<F> {
    /// Its bytes of the message.
    pub(super) data: u32,
    /// Its bytes in all.
    pub(super) bytes: u32,
    /// The message, if this was its last packet.
    pub(super) complete: Option<F>,
}

impl<F> Channel<F> {
    pub(super) const fn new() -> Self {
        Self { head: None, queue: VecDeque::new(), sending: None, recently_sent: 0, full: false }
    }

    /// Whether the queue takes another message.
    pub(super) fn has_room(&self, capacity: usize) -> bool {
        usize::from(self.head.is_some()) + self.queue.len() < capacity
    }

    pub(super) fn push(&mut self, frame: F, len: u32) {
        match self.head {
            None => self.head = Some((frame, len)),
            Some(_) => self.queue.push_back((frame, len)),
        }
    }

    /// Takes the next message out of the queue if none is being sent. Returns whether there is room in the queue for it,
    /// or `None` if there is nothing to send.
    pub(super) fn poll(&mut self) -> Option<bool> {
        if self.sending.is_some() {
            return Some(false);
        }
        self.sending = Some((self.head.take()?, 0));
        self.head = self.queue.pop_front();
        rewind(&mut self.queue);
        Some(true)
    }

    /// Whether there is something to send.
    pub(super) fn is_pending(&self) -> bool {
        self.sending.is_some() || self.head.is_some()
    }

    /// What decides whose turn it is: the least goes first.
    pub(super) fn ratio(&self, priority: u32) -> f32 {
        self.recently_sent as f32 / priority as f32
    }

    /// So many intervals have passed.
    pub(super) fn decay(&mut self, steps: u64) {
        for _ in 0..steps.min(DECAY_STEPS_MAX) {
            self.recently_sent = (self.recently_sent as f64 * DECAY) as u64;
        }
    }

    /// Makes the next packet, if there is something to send.
    pub(super) fn write(&mut self, id: u8) -> Option<Written<F>> {
        let ((_, len), sent) = self.sending.as_mut()?;
        let data = (*len - *sent).min(MESSAGE_PACKET_BYTES);
        *sent += data;
        let last = sent == len;
        let bytes = packet_bytes(id, last, data);
        self.recently_sent += u64::from(bytes);
        let complete = if last { self.sending.take().map(|((frame, _), _)| frame) } else { None };
        Some(Written { data, bytes, complete })
    }
}
