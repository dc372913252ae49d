//! The buffer that packets are written into, and what a flush makes of it.

use std::collections::VecDeque;

use super::stream::Sealed;
use super::wire::{BUFFER_BYTES, SEALED_PLAINTEXT};
use crate::rewind;

/// What a packet means to the receiver once it is complete.
#[derive(Debug)]
pub(super) enum Item<F> {
    /// A whole message is there.
    Message(F),
    /// The sender wants a pong.
    Ping,
    /// The answer to a ping.
    Pong,
}

/// The buffered writer of one end of a connection (Go's `bufio.Writer` of 64 KiB). Places are bytes since the start.
#[derive(Debug)]
pub(super) struct Writer<F> {
    /// Everything that was written ends here.
    written: u64,
    /// Everything that was sealed ends here.
    sealed: u64,
    /// A flush is under way up to here; there is none if it is `sealed`.
    flush_to: u64,
    /// What completes at which place.
    items: VecDeque<(u64, Item<F>)>,
}

impl<F> Writer<F> {
    pub(super) const fn new() -> Self {
        Self { written: 0, sealed: 0, flush_to: 0, items: VecDeque::new() }
    }

    /// Writes a packet. Returns whether the buffer was full: then a flush of all 64 KiB begins, and what did not fit stays.
    /// No flush is under way.
    pub(super) fn write(&mut self, bytes: u32, item: Option<Item<F>>) -> bool {
        self.written += u64::from(bytes);
        if let Some(item) = item {
            self.items.push_back((self.written, item));
        }
        let full = self.written - self.sealed > BUFFER_BYTES;
        if full {
            self.flush_to = self.sealed + BUFFER_BYTES;
        }
        full
    }

    /// Begins a flush of all that is there. Returns whether there is anything.
    pub(super) fn flush(&mut self) -> bool {
        self.flush_to = self.written;
        self.is_flushing()
    }

    /// Whether a flush waits for the socket.
    pub(super) const fn is_flushing(&self) -> bool {
        self.sealed < self.flush_to
    }

    /// The next sealed frames of the flush that is under way, at most `most`: up to the one that brings something to read.
    /// `rank` is the first one's.
    pub(super) fn seal(&mut self, most: u32, rank: u64) -> Option<Sealed<F>> {
        let limit = u64::from(most) * u64::from(SEALED_PLAINTEXT);
        let mut plain = (self.flush_to - self.sealed).min(limit);
        if plain == 0 {
            return None;
        }
        if let Some((end, _)) = self.items.front() {
            // The frame in which it ends is filled up with what comes behind it.
            let needed = (end - self.sealed).next_multiple_of(u64::from(SEALED_PLAINTEXT));
            plain = plain.min(needed);
        }
        self.sealed += plain;
        let mut sealed = Sealed::new(plain.div_ceil(u64::from(SEALED_PLAINTEXT)) as u32, plain as u32, rank);
        let complete = self.items.partition_point(|(end, _)| *end <= self.sealed);
        sealed.brings.messages.reserve_exact(complete);
        for (_, item) in self.items.drain(..complete) {
            match item {
                Item::Message(frame) => sealed.brings.messages.push(frame),
                Item::Ping => sealed.brings.ping = true,
                Item::Pong => sealed.brings.pong = true,
            }
        }
        rewind(&mut self.items);
        Some(sealed)
    }
}
