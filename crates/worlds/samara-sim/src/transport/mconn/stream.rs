//! Data on the way to the socket: the buffer of packets, and sealed frames that wait for TCP.

use std::collections::VecDeque;

use super::{BUFFER_BYTES, SEALED_FRAME, SEALED_PLAINTEXT};
use crate::rewind;
use crate::transport::backlog::Run;
use crate::transport::socket::{self, Item, Readable};

/// The buffered writer of one end of a connection (Go's `bufio.Writer` of 64 KiB). Positions are
/// bytes since the start.
#[derive(Debug)]
pub(super) struct Writer<F> {
    /// The end of the written bytes.
    written: u64,
    /// The end of the sealed bytes.
    sealed: u64,
    /// The end of the current flush; equal to `sealed` if there is none.
    flush_to: u64,
    /// The items that complete, each with the position of its end.
    items: VecDeque<(u64, Item<F>)>,
}

impl<F> Writer<F> {
    pub(super) const fn new() -> Self {
        Self { written: 0, sealed: 0, flush_to: 0, items: VecDeque::new() }
    }

    /// Writes a packet while no flush is in progress. Returns true if the buffer was full: then a
    /// flush of all 64 KiB begins, and the rest stays in the buffer.
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

    /// Begins a flush of the whole buffer. Returns false if the buffer is empty.
    pub(super) fn flush(&mut self) -> bool {
        self.flush_to = self.written;
        self.is_flushing()
    }

    /// Returns true if a flush waits for the socket.
    pub(super) const fn is_flushing(&self) -> bool {
        self.sealed < self.flush_to
    }

    /// Returns the next sealed frames of the current flush, at most `most`, up to the one that
    /// carries something to read. `rank` belongs to the first one.
    pub(super) fn seal(&mut self, most: u32, rank: u64) -> Option<Sealed<F>> {
        let limit = u64::from(most) * u64::from(SEALED_PLAINTEXT);
        let mut plain = (self.flush_to - self.sealed).min(limit);
        if plain == 0 {
            return None;
        }
        if let Some((end, _)) = self.items.front() {
            // The frame in which the item ends is filled up with the data behind it.
            let needed = (end - self.sealed).next_multiple_of(u64::from(SEALED_PLAINTEXT));
            plain = plain.min(needed);
        }
        self.sealed += plain;
        let mut sealed = Sealed::new(plain.div_ceil(u64::from(SEALED_PLAINTEXT)) as u32, plain as u32, rank);
        let complete = self.items.partition_point(|(end, _)| *end <= self.sealed);
        sealed.readable.items.reserve_exact(complete);
        sealed.readable.items.extend(self.items.drain(..complete).map(|(_, item)| item));
        rewind(&mut self.items);
        Some(sealed)
    }
}

/// Sealed frames written one after the other, of which only the last carries something to read.
#[derive(Debug)]
pub(super) struct Sealed<F> {
    pub(super) frames: u32,
    /// The first frame's place among all writes of the host; the others follow.
    pub(super) rank: u64,
    pub(super) readable: Readable<F>,
}

impl<F> Sealed<F> {
    pub(super) fn new(frames: u32, plain: u32, rank: u64) -> Self {
        Self { frames, rank, readable: Readable { bytes: plain, ..Readable::nothing() } }
    }
}

/// The rest of sealed frames that wait for a segment.
#[derive(Debug)]
struct Waiting<F> {
    left: u32,
    /// True if each frame has its own segments.
    alone: bool,
    sealed: Sealed<F>,
}

/// Data written to the socket and not yet in a segment.
///
/// A sealed frame that is written while the window is open leaves at once, as its own segment:
/// sockets have `TCP_NODELAY` and each frame is a write. A frame that has to wait for the window is
/// appended to the data that wait already, and leaves in full segments (`tcp_sendmsg` fills the
/// last buffer that has not been sent).
#[derive(Debug)]
pub(super) struct Stream<F> {
    waiting: VecDeque<Waiting<F>>,
    /// Bytes of all waiting data.
    pub(super) bytes: u64,
    alone: u32,
    /// Number of frames, or parts of them, behind those in `alone`.
    together: u32,
}

impl<F> Stream<F> {
    pub(super) const fn new() -> Self {
        Self { waiting: VecDeque::new(), bytes: 0, alone: 0, together: 0 }
    }

    /// Takes frames. The window allows `window` more segments.
    pub(super) fn write(&mut self, mut sealed: Sealed<F>, window: f64) {
        let room = if self.together == 0 { (window as u32).saturating_sub(self.alone) } else { 0 };
        let alone = room.min(sealed.frames);
        if 0 < alone && alone < sealed.frames {
            let readable = std::mem::replace(&mut sealed.readable, Readable::nothing());
            let rest =
                Sealed { frames: sealed.frames - alone, rank: sealed.rank + u64::from(alone), readable };
            sealed.frames = alone;
            self.push(sealed, true);
            self.push(rest, false);
        } else {
            self.push(sealed, alone > 0);
        }
    }

    fn push(&mut self, sealed: Sealed<F>, alone: bool) {
        *(if alone { &mut self.alone } else { &mut self.together }) += sealed.frames;
        let left = sealed.frames * SEALED_FRAME;
        self.bytes += u64::from(left);
        self.waiting.push_back(Waiting { left, alone, sealed });
    }

    /// Takes up to `most` bytes of the waiting data at the front, and returns their number. Items
    /// that end with them go to `readable`.
    fn take(&mut self, most: u32, readable: &mut Readable<F>) -> u32 {
        let Some(front) = self.waiting.front_mut() else { return 0 };
        let taken = front.left.min(most);
        front.left -= taken;
        let frames = front.left.div_ceil(SEALED_FRAME);
        let gone = front.sealed.frames - frames;
        front.sealed.frames = frames;
        front.sealed.rank += u64::from(gone);
        *(if front.alone { &mut self.alone } else { &mut self.together }) -= gone;
        if frames == 0
            && let Some(front) = self.waiting.pop_front()
        {
            add(readable, front.sealed.readable);
            rewind(&mut self.waiting);
        }
        taken
    }

    /// Cuts a segment off the first sealed frame, which is longer.
    fn cut_part(&mut self, mss: u32, readable: &mut Readable<F>) -> Run {
        let rank = socket::Stream::rank(self);
        let left = self.waiting.front().map_or(0, |front| (front.left - 1) % SEALED_FRAME + 1);
        Run { segments: 1, len: self.take(left.min(mss), readable), unit: mss, rank }
    }

    /// Cuts segments with one sealed frame each.
    fn cut_alone(&mut self, most: u32, readable: &mut Readable<F>) -> Run {
        let mut run = Run { segments: 0, len: 0, unit: SEALED_FRAME, rank: socket::Stream::rank(self) };
        while run.segments < most
            && let Some(front) = self.waiting.front()
            && front.alone
            && front.sealed.rank == run.rank + u64::from(run.segments)
        {
            let len = self.take((most - run.segments) * SEALED_FRAME, readable);
            run.len += len;
            run.segments += len / SEALED_FRAME;
        }
        run
    }

    /// Cuts full segments, regardless of the borders of frames.
    fn cut_full(&mut self, mss: u32, most: u32, readable: &mut Readable<F>) -> Run {
        let mut run = Run { segments: 0, len: 0, unit: mss, rank: socket::Stream::rank(self) };
        let mut next = run.rank;
        while run.segments < most && !self.waiting.is_empty() && socket::Stream::rank(self) <= next {
            let mut len = 0;
            while len < mss && !self.waiting.is_empty() {
                next = socket::Stream::rank(self) + 1;
                len += self.take(mss - len, readable);
            }
            run.segments += 1;
            run.len += len;
        }
        run
    }
}

impl<F> socket::Stream<F> for Stream<F> {
    fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn rank(&self) -> u64 {
        self.waiting.front().map_or(u64::MAX, |waiting| waiting.sealed.rank)
    }

    fn cut(&mut self, mss: u32, most: u32) -> Option<(Run, Readable<F>)> {
        let front = self.waiting.front()?;
        let mut readable = Readable::nothing();
        let run = match front.alone {
            true if mss < SEALED_FRAME => self.cut_part(mss, &mut readable),
            true => self.cut_alone(most, &mut readable),
            false => self.cut_full(mss, most, &mut readable),
        };
        self.bytes -= u64::from(run.len);
        readable.segments = run.segments;
        Some((run, readable))
    }
}

fn add<F>(readable: &mut Readable<F>, other: Readable<F>) {
    readable.bytes += other.bytes;
    if readable.items.is_empty() {
        readable.items = other.items;
    } else {
        readable.items.extend(other.items);
    }
}
