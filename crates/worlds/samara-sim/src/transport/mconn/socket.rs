//! The socket under a connection, and the data on the way to it: the buffer of packets, and sealed
//! frames that wait for TCP.

use std::collections::VecDeque;
use std::sync::Arc;

use smallvec::SmallVec;

use super::{BUFFER_BYTES, SEALED_FRAME, SEALED_PLAINTEXT};
use crate::explain::Cause;
use crate::rewind;
use crate::transport::backlog::{Run, Segment};
use crate::transport::{LossRecovery, SendHalf, Transport, tcp};

/// The maximum interval between probes of a closed window, in nanoseconds (`TCP_RTO_MAX` in Linux).
const PERSIST_MAX: u64 = 120_000_000_000;

/// The send buffer over the ideal transport in bytes. Nothing can be withdrawn below the channels,
/// so that a short buffer, as elsewhere on that transport, would be of no use. This is about the
/// initial size in Linux.
const IDEAL_SEND_BUFFER: u64 = 131_072;

/// The sending half of a socket. It passes a segment to TCP only when the segment can leave, so
/// that data waiting for the window can still be combined.
#[derive(Debug)]
pub(super) struct Socket<F> {
    pub(super) tcp: tcp::Sender<Load<F>>,
    stream: Stream<F>,
    /// The time at which the receiver's closed window is probed; `u64::MAX` if it is open or
    /// something is in flight.
    pub(super) persist_at: u64,
    probes: u32,
    probe_due: bool,
}

impl<F> Socket<F> {
    pub(super) fn new(transport: &Transport) -> Self {
        Self {
            tcp: tcp::Sender::new(transport),
            stream: Stream::new(),
            persist_at: u64::MAX,
            probes: 0,
            probe_due: false,
        }
    }

    /// Returns how many writes of this many bytes the send buffer takes. The last one may exceed
    /// it.
    pub(super) fn room_for(&self, bytes: u32, transport: &Transport) -> u32 {
        let limit = match transport.control.tcp() {
            Some(_) => self.tcp.buffer_limit(transport),
            None => IDEAL_SEND_BUFFER,
        };
        let left = limit.saturating_sub(self.tcp.backlog.buffered + self.stream.bytes);
        u32::try_from(left.div_ceil(u64::from(bytes))).unwrap_or(u32::MAX)
    }

    pub(super) fn write(&mut self, sealed: Sealed<F>) {
        self.stream.write(sealed, self.tcp.window_left());
    }

    /// Returns true if nothing waits to leave and no timer for a closed window runs.
    pub(super) fn is_quiet(&self) -> bool {
        self.stream.is_empty() && self.persist_at == u64::MAX
    }

    pub(super) fn can_send(&self) -> bool {
        self.probe_due || self.tcp.can_send() || (!self.stream.is_empty() && self.tcp.window_left() >= 1.0)
    }

    /// Returns why data cannot leave, unless they can; `None` if none wait.
    pub(super) fn held(&self, now: u64) -> Option<Cause> {
        let own = || (!self.stream.is_empty()).then(|| self.own_cause());
        self.tcp.held(now).or_else(own)
    }

    fn own_cause(&self) -> Cause {
        if self.tcp.receive_window == 0 { Cause::FlowControl } else { self.tcp.window_cause() }
    }

    /// Returns the write rank of the next segment to leave.
    pub(super) fn next_rank(&self) -> u64 {
        if self.tcp.can_send() { self.tcp.next_rank() } else { self.stream.rank() }
    }

    /// Returns the segments that leave at `now`, at most `most`, if any can. Lost segments go
    /// before new ones.
    pub(super) fn pop(&mut self, now: u64, most: u32, transport: &Transport) -> Option<Segment<Load<F>>> {
        if self.probe_due {
            // Data that the receiver already has: it answers with its window.
            self.probe_due = false;
            return Some(self.tcp.probe(now));
        }
        if !self.tcp.can_send() {
            let window = self.tcp.window_left();
            if window < 1.0 {
                return None;
            }
            let (run, load) = self.stream.cut(transport.mss, (window as u32).min(most))?;
            self.tcp.write_run(load, run);
        }
        self.tcp.pop_segment(now, transport)
    }

    /// Sets the number of packets that the receiver has room for beyond its acknowledgement.
    /// Returns true if it grew.
    pub(super) fn set_window(&mut self, window: u32) -> bool {
        window > std::mem::replace(&mut self.tcp.receive_window, window)
    }

    /// Sets or stops the timer that probes a closed window (RFC 9293 section 3.8.6.1).
    pub(super) fn watch_window(&mut self, now: u64, transport: &Transport) {
        let shut = self.tcp.is_shut() && !self.stream.is_empty();
        let Some(config) = transport.control.tcp().filter(|_| shut) else {
            self.persist_at = u64::MAX;
            self.probes = 0;
            self.probe_due = false;
            return;
        };
        if self.persist_at == u64::MAX {
            let wait = self.tcp.rtt.timeout(config).saturating_mul(1 << self.probes.min(16)).min(PERSIST_MAX);
            self.persist_at = now.saturating_add(wait);
        }
    }

    /// Requests a probe, because its time has come.
    pub(super) fn probe(&mut self) {
        self.persist_at = u64::MAX;
        self.probes += 1;
        self.probe_due = true;
    }
}

/// The meaning of a complete packet for the receiver.
#[derive(Debug)]
pub(super) enum Item<F> {
    Message(F),
    Ping,
    Pong,
}

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

/// The load of a segment. The packet on its way and the sender's copy for retransmission share it.
pub(crate) type Load<F> = Arc<Brings<F>>;

/// The data that become readable when sealed frames are complete.
#[derive(Debug)]
pub(crate) struct Brings<F> {
    /// Bytes of packets in these frames.
    pub(super) plain: u32,
    /// Number of segments that carried these frames.
    pub(super) segments: u32,
    pub(super) messages: SmallVec<[F; 1]>,
    pub(super) ping: bool,
    pub(super) pong: bool,
}

impl<F> Brings<F> {
    /// Returns the messages that become readable.
    pub(crate) fn frames(&self) -> &[F] {
        &self.messages
    }

    fn nothing() -> Self {
        Self { plain: 0, segments: 0, messages: SmallVec::new(), ping: false, pong: false }
    }

    fn add(&mut self, other: Self) {
        self.plain += other.plain;
        self.ping |= other.ping;
        self.pong |= other.pong;
        if self.messages.is_empty() {
            self.messages = other.messages;
        } else {
            self.messages.extend(other.messages);
        }
    }
}

/// Sealed frames written one after the other, of which only the last carries something to read.
#[derive(Debug)]
pub(super) struct Sealed<F> {
    pub(super) frames: u32,
    /// The first frame's place among all writes of the host; the others follow.
    pub(super) rank: u64,
    pub(super) brings: Brings<F>,
}

impl<F> Sealed<F> {
    pub(super) fn new(frames: u32, plain: u32, rank: u64) -> Self {
        Self { frames, rank, brings: Brings { plain, ..Brings::nothing() } }
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

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the write rank of the oldest frame.
    pub(super) fn rank(&self) -> u64 {
        self.waiting.front().map_or(u64::MAX, |waiting| waiting.sealed.rank)
    }

    /// Takes frames. The window allows `window` more segments.
    pub(super) fn write(&mut self, mut sealed: Sealed<F>, window: f64) {
        let room = if self.together == 0 { (window as u32).saturating_sub(self.alone) } else { 0 };
        let alone = room.min(sealed.frames);
        if 0 < alone && alone < sealed.frames {
            let brings = std::mem::replace(&mut sealed.brings, Brings::nothing());
            let rest = Sealed { frames: sealed.frames - alone, rank: sealed.rank + u64::from(alone), brings };
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

    /// Cuts the next segments of at most `mss` bytes, at most `most`, and returns them with their
    /// load. All were written one after the other: nothing that the host wrote to another link lies
    /// between them.
    pub(super) fn cut(&mut self, mss: u32, most: u32) -> Option<(Run, Load<F>)> {
        let front = self.waiting.front()?;
        let mut brings = Brings::nothing();
        let run = match front.alone {
            true if mss < SEALED_FRAME => self.cut_part(mss, &mut brings),
            true => self.cut_alone(most, &mut brings),
            false => self.cut_full(mss, most, &mut brings),
        };
        self.bytes -= u64::from(run.len);
        brings.segments = run.segments;
        Some((run, Arc::new(brings)))
    }

    /// Takes up to `most` bytes of the waiting data at the front, and returns their number. Items
    /// that end with them go to `brings`.
    fn take(&mut self, most: u32, brings: &mut Brings<F>) -> u32 {
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
            brings.add(front.sealed.brings);
            rewind(&mut self.waiting);
        }
        taken
    }

    /// Cuts a segment off the first sealed frame, which is longer.
    fn cut_part(&mut self, mss: u32, brings: &mut Brings<F>) -> Run {
        let rank = self.rank();
        let left = self.waiting.front().map_or(0, |front| (front.left - 1) % SEALED_FRAME + 1);
        Run { segments: 1, len: self.take(left.min(mss), brings), unit: mss, rank }
    }

    /// Cuts segments with one sealed frame each.
    fn cut_alone(&mut self, most: u32, brings: &mut Brings<F>) -> Run {
        let mut run = Run { segments: 0, len: 0, unit: SEALED_FRAME, rank: self.rank() };
        while run.segments < most
            && let Some(front) = self.waiting.front()
            && front.alone
            && front.sealed.rank == run.rank + u64::from(run.segments)
        {
            let len = self.take((most - run.segments) * SEALED_FRAME, brings);
            run.len += len;
            run.segments += len / SEALED_FRAME;
        }
        run
    }

    /// Cuts full segments, regardless of the borders of frames.
    fn cut_full(&mut self, mss: u32, most: u32, brings: &mut Brings<F>) -> Run {
        let mut run = Run { segments: 0, len: 0, unit: mss, rank: self.rank() };
        let mut next = run.rank;
        while run.segments < most && !self.is_empty() && self.rank() <= next {
            let mut len = 0;
            while len < mss && !self.is_empty() {
                next = self.rank() + 1;
                len += self.take(mss - len, brings);
            }
            run.segments += 1;
            run.len += len;
        }
        run
    }
}
