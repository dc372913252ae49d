//! Sealed frames that wait for TCP, and the segments that they make.

use std::collections::VecDeque;
use std::sync::Arc;

use smallvec::SmallVec;

use super::wire::SEALED_FRAME;
use crate::backlog::Run;
use crate::rewind;

/// What a segment brings: shared between what is on its way and what the sender keeps to send it again.
pub(crate) type Load<F> = Arc<Brings<F>>;

/// What becomes readable when sealed frames are complete.
#[derive(Debug)]
pub(crate) struct Brings<F> {
    /// Bytes of packets in them.
    pub(super) plain: u32,
    /// Segments that brought them.
    pub(super) segments: u32,
    /// Messages that end in them.
    pub(super) messages: SmallVec<[F; 1]>,
    /// Whether they hold a ping.
    pub(super) ping: bool,
    /// Whether they hold a pong.
    pub(super) pong: bool,
}

impl<F> Brings<F> {
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

/// Sealed frames, written one after the other, only the last of which brings something to read.
#[derive(Debug)]
pub(super) struct Sealed<F> {
    /// How many.
    pub(super) frames: u32,
    /// When the first was written, among all writes of the host; the others follow.
    pub(super) rank: u64,
    pub(super) brings: Brings<F>,
}

impl<F> Sealed<F> {
    pub(super) fn new(frames: u32, plain: u32, rank: u64) -> Self {
        Self { frames, rank, brings: Brings { plain, ..Brings::nothing() } }
    }
}

/// What is left of sealed frames that wait for a segment.
#[derive(Debug)]
struct Waiting<F> {
    /// Bytes that have not left.
    left: u32,
    /// Whether each has segments of its own.
    alone: bool,
    sealed: Sealed<F>,
}

/// Written to the socket and not yet in a segment.
///
/// A sealed frame that is written while the window is open leaves at once, as a segment of its own: sockets have
/// `TCP_NODELAY` and each frame is a write. One that has to wait for the window is appended to what waits there already,
/// and leaves in full segments (`tcp_sendmsg` fills the last buffer that has not been sent).
#[derive(Debug)]
pub(super) struct Stream<F> {
    waiting: VecDeque<Waiting<F>>,
    bytes: u64,
    /// Frames that leave alone.
    alone: u32,
    /// Frames, or parts of them, behind those.
    together: u32,
}

impl<F> Stream<F> {
    pub(super) const fn new() -> Self {
        Self { waiting: VecDeque::new(), bytes: 0, alone: 0, together: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Bytes that wait.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The write rank of the oldest frame.
    pub(super) fn rank(&self) -> u64 {
        self.waiting.front().map_or(u64::MAX, |waiting| waiting.sealed.rank)
    }

    /// Takes frames. `window` more segments can leave.
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

    /// The next segments of at most `mss` bytes, at most `most`, and what they bring. All were written one after the other:
    /// nothing that the host wrote to another link lies between them.
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

    /// Takes so many bytes from the front, at most what waits there; returns how many. What ends with them goes to `brings`.
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

    /// Cuts segments with a sealed frame each.
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

    /// Cuts full segments, whatever frames they hold.
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
