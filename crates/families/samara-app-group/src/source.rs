//! The messages that a member broadcasts.

use std::time::Duration;

use crate::HEADER_BYTES;
use bytes::{Bytes, BytesMut};
use samara_engine::Time;

/// The identity of a message, written in the first bytes of its content.
///
/// The measurements read it from there, so that they do not depend on the protocol's own account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The host that broadcast it.
    pub origin: u32,
    /// The message's number at its origin: 1, 2, 3...
    pub number: u64,
    /// When the application handed it in or, with a rate, when it was due.
    pub at: Time,
}

impl Header {
    /// Returns a message of `size` bytes, at least 20.
    pub fn message(&self, size: usize) -> Bytes {
        let mut message = BytesMut::zeroed(size.max(HEADER_BYTES));
        self.write(&mut message);
        message.freeze()
    }

    fn write(&self, into: &mut [u8]) {
        into[..4].copy_from_slice(&self.origin.to_le_bytes());
        into[4..12].copy_from_slice(&self.number.to_le_bytes());
        into[12..HEADER_BYTES].copy_from_slice(&self.at.as_nanos().to_le_bytes());
    }

    /// Reads the header at the start of a message.
    pub fn of(content: &[u8]) -> Option<Self> {
        let (origin, rest) = content.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        Some(Self {
            origin: u32::from_le_bytes(*origin),
            number: u64::from_le_bytes(*number),
            at: Time::from_nanos(u64::from_le_bytes(*rest.first_chunk()?)),
        })
    }
}

/// The stream of messages that each sender broadcasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Size of a message in bytes.
    pub size: usize,
    pub count: u64,
    /// The time at which broadcasting ends.
    pub until: Time,
    /// Time from one message to the next; `None` for as fast as the engine takes them.
    pub interval: Option<Duration>,
    /// Time that a message takes on the fastest link. No application makes messages faster than
    /// that for long, even if it is alone and nothing holds it up.
    pub pace: Duration,
}

/// A sender that has sent this many messages at one moment pauses for the time they take on a link.
pub(super) const BURST: u32 = 1_024;

/// Messages made at the same moment. Each starts a few bytes after the previous one: they overlap.
///
/// Nothing reads the bytes after a header. Separate messages of a large group would take far more
/// memory than everything else, and each delivery would wait for that memory.
#[derive(Debug, Default)]
struct Block {
    bytes: Bytes,
    first: u64,
    count: u64,
    at: Time,
}

impl Block {
    const MAX: u64 = 64;
    /// Bytes from one header to the next, so that two headers share a cache line of the processor.
    const STEP: usize = 32;

    fn new(first: Header, count: u64, size: usize) -> Self {
        let mut bytes = BytesMut::zeroed((count as usize - 1) * Self::STEP + size.max(HEADER_BYTES));
        for place in 0..count {
            let header = Header { number: first.number + place, ..first };
            header.write(&mut bytes[place as usize * Self::STEP..]);
        }
        Self { bytes: bytes.freeze(), first: first.number, count, at: first.at }
    }

    fn message(&self, header: Header, size: usize) -> Option<Bytes> {
        let place = header.number.checked_sub(self.first).filter(|place| *place < self.count)?;
        let start = place as usize * Self::STEP;
        (self.at == header.at).then(|| self.bytes.slice(start..start + size.max(HEADER_BYTES)))
    }
}

/// The progress of a sender through its source.
#[derive(Debug)]
pub(super) struct Sender {
    source: Source,
    me: u32,
    is_sending: bool,
    next: u64,
    /// When the next message is due; used only with a rate.
    due: Time,
    block: Block,
}

impl Sender {
    pub(super) fn new(source: Source, me: u32) -> Self {
        Self { source, me, is_sending: false, next: 1, due: Time::ZERO, block: Block::default() }
    }

    pub(super) fn begin(&mut self, now: Time) {
        (self.is_sending, self.due) = (true, now);
    }

    pub(super) fn stop(&mut self) {
        self.is_sending = false;
    }

    pub(super) fn is_done(&mut self, now: Time) -> bool {
        let paced = self.source.interval.is_some();
        let at = if paced { self.due } else { now };
        if self.next > self.source.count || at >= self.source.until {
            self.is_sending = false;
        }
        !self.is_sending
    }

    /// Returns the message to broadcast now, if any.
    pub(super) fn message(&mut self, now: Time) -> Option<Bytes> {
        if self.is_done(now) {
            return None;
        }
        let at = match self.source.interval {
            Some(_) if self.due > now => return None,
            // A message that waits for room keeps the time at which it was due.
            Some(_) => self.due,
            None => now,
        };
        let (header, size) = (Header { origin: self.me, number: self.next, at }, self.source.size);
        if let Some(message) = self.block.message(header, size) {
            return Some(message);
        }
        let left = self.source.count - self.next + 1;
        // With a rate, each message has its own time.
        let count = if self.source.interval.is_some() { 1 } else { left.min(Block::MAX) };
        self.block = Block::new(header, count, size);
        self.block.message(header, size)
    }

    /// Returns the number of messages that the engine accepted.
    pub(super) fn broadcast(&self) -> u64 {
        self.next - 1
    }

    pub(super) fn taken(&mut self) {
        self.next += 1;
        if let Some(interval) = self.source.interval {
            self.due += interval;
        }
    }

    /// Returns the time that a burst takes on a link.
    pub(super) fn burst_time(&self) -> Duration {
        (self.source.pace * BURST).max(Duration::from_micros(1))
    }

    /// Returns the time of the next message, if it is due later than now.
    pub(super) fn wake(&mut self, now: Time) -> Option<Time> {
        (!self.is_done(now) && self.source.interval.is_some() && self.due > now).then_some(self.due)
    }
}

#[cfg(test)]
mod tests;
