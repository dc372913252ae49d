//! What a member broadcasts.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use samara_engine::Time;
use samara_spec::group::HEADER_BYTES;

/// Which message this is. It stands in the first bytes of the content, so that what arrives is not taken on the protocol's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The host that broadcast it.
    pub origin: u32,
    /// Its number among those of the origin: 1, 2, 3...
    pub number: u64,
    /// When the application handed it in; with a rate, when it was due.
    pub at: Time,
}

impl Header {
    /// A message of so many bytes, at least 20.
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

    /// Which message begins with these bytes.
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

/// What each sender broadcasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Bytes of a message.
    pub size: usize,
    pub count: u64,
    /// Nothing is broadcast from then on.
    pub until: Time,
    /// From one message to the next; as fast as they are taken, if absent.
    pub interval: Option<Duration>,
    /// How long a message takes on the fastest link: no application makes messages faster for long, also where it is alone and nothing holds
    /// it up.
    pub pace: Duration,
}

/// After so many messages at one moment a sender waits for as long as they take on a link.
pub(super) const BURST: u32 = 1_024;

/// Messages of one moment, each a few bytes behind the one before, so that they overlap: what follows a header is of no interest, and
/// the messages of a large group would take far more memory than all else, which each delivery would have to wait for.
#[derive(Debug, Default)]
struct Block {
    bytes: Bytes,
    /// The number of the first one.
    first: u64,
    count: u64,
    at: Time,
}

impl Block {
    const MAX: u64 = 64;
    /// From one header to the next; with two in a line of a processor's cache.
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

/// A sender on its way through its source.
#[derive(Debug)]
pub(super) struct Sender {
    source: Source,
    me: u32,
    is_sending: bool,
    /// The number of the next message.
    next: u64,
    /// When it is due, with a rate.
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

    /// The message that is to be broadcast now.
    pub(super) fn message(&mut self, now: Time) -> Option<Bytes> {
        if self.is_done(now) {
            return None;
        }
        let at = match self.source.interval {
            Some(_) if self.due > now => return None,
            // Whoever has to wait for room waits, too.
            Some(_) => self.due,
            None => now,
        };
        let (header, size) = (Header { origin: self.me, number: self.next, at }, self.source.size);
        if let Some(message) = self.block.message(header, size) {
            return Some(message);
        }
        let left = self.source.count - self.next + 1;
        // With a rate, each has its own time.
        let count = if self.source.interval.is_some() { 1 } else { left.min(Block::MAX) };
        self.block = Block::new(header, count, size);
        self.block.message(header, size)
    }

    pub(super) fn taken(&mut self) {
        self.next += 1;
        if let Some(interval) = self.source.interval {
            self.due += interval;
        }
    }

    /// How long a burst takes on a link.
    pub(super) fn burst_time(&self) -> Duration {
        (self.source.pace * BURST).max(Duration::from_micros(1))
    }

    /// When to look again, if a message is due later.
    pub(super) fn wake(&mut self, now: Time) -> Option<Time> {
        (!self.is_done(now) && self.source.interval.is_some() && self.due > now).then_some(self.due)
    }
}

#[cfg(test)]
mod tests;
