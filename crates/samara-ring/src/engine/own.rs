//! What this member broadcasts: the messages that wait, and how much may be on the way.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use samara_engine::Time;

/// Messages that wait to be broadcast.
#[derive(Debug, Default)]
pub(super) struct Own {
    queue: VecDeque<Bytes>,
    bytes: usize,
    /// How much of the first message is on its way already.
    sent: usize,
    /// Whether the application was refused, and waits for room.
    pub(super) was_full: bool,
}

/// A chunk that is ready to be numbered.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) first: bool,
    pub(super) last: bool,
    pub(super) bytes: Bytes,
}

impl Own {
    /// Whether there is room: of one message that is too long alone, there is while nothing else waits.
    pub(super) fn has_room(&self, len: usize, bytes_max: usize) -> bool {
        // A message without content takes room too.
        self.queue.is_empty() || self.bytes + len.max(1) <= bytes_max
    }

    pub(super) fn push(&mut self, message: Bytes) {
        self.bytes += message.len().max(1);
        self.queue.push_back(message);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The next piece of at most `len` bytes. A message leaves the queue with its last one.
    pub(super) fn next(&mut self, len: usize) -> Option<Chunk> {
        let message = self.queue.front()?;
        let (start, end) = (self.sent, message.len().min(self.sent + len));
        let chunk = Chunk { first: start == 0, last: end == message.len(), bytes: message.slice(start..end) };
        self.sent = end;
        if chunk.last {
            self.bytes -= message.len().max(1);
            self.sent = 0;
            self.queue.pop_front();
        }
        Some(chunk)
    }

    /// A message whose end is not on its way begins again: it must belong to one view.
    pub(super) fn rewind(&mut self) {
        self.sent = 0;
    }
}

/// How much of its own this member may have on the way: additive increase and multiplicative decrease, by the time that a
/// unit needs until it is known to be everywhere.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// Weight of own units that are not known to be everywhere.
    pub(super) on_the_way: u64,
    limit: u64,
    max: u64,
    min: u64,
    /// Doubles in each lap until one takes too long.
    is_starting: bool,
    /// The unit that is timed, since when, and whether the window was full since.
    probe: Option<(u64, Time, bool)>,
}

impl Flow {
    pub(super) fn begin(&mut self, min: u64, max: u64) {
        // Where the last view had found a limit it is the best guess.
        let limit = if self.limit == 0 { min } else { self.limit };
        *self =
            Self { on_the_way: 0, limit: limit.clamp(min, max), max, min, is_starting: true, probe: None };
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Whether one more unit may be sent.
    pub(super) fn is_open(&mut self) -> bool {
        let open = self.on_the_way < self.limit;
        if let (false, Some(probe)) = (open, &mut self.probe) {
            probe.2 = true;
        }
        open
    }

    pub(super) fn send(&mut self, sequence: u64, weight: u64, now: Time) {
        self.on_the_way += weight;
        self.probe.get_or_insert((sequence, now, false));
    }

    /// Units up to this one, of this weight, are known to be everywhere.
    pub(super) fn stable(&mut self, sequence: u64, weight: u64, now: Time, goal: Duration) {
        self.on_the_way = self.on_the_way.saturating_sub(weight);
        let Some((_, since, was_full)) = self.probe.take_if(|probe| probe.0 <= sequence) else { return };
        if now.since(since) > goal {
            self.is_starting = false;
            self.limit -= self.limit / 8;
        } else if was_full {
            // Additive: what grows in proportion to itself never becomes equal to what others have.
            self.limit += if self.is_starting { self.limit } else { self.min / 16 };
        }
        self.limit = self.limit.clamp(self.min, self.max);
    }
}
