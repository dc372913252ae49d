//! Sealed frames that wait for TCP, and the segments that they make.

use std::collections::VecDeque;
use std::sync::Arc;

use super::wire::SEALED_FRAME;

/// What a segment brings: shared between what is on its way and what the sender keeps to send it again.
pub(crate) type Load<F> = Arc<Brings<F>>;

/// What becomes readable when sealed frames are complete.
#[derive(Debug)]
pub(crate) struct Brings<F> {
    /// Bytes of packets in them.
    pub(super) plain: u32,
    /// Messages that end in them.
    pub(super) messages: Vec<F>,
    /// Whether they hold a ping.
    pub(super) ping: bool,
    /// Whether they hold a pong.
    pub(super) pong: bool,
}

impl<F> Brings<F> {
    const fn nothing() -> Self {
        Self { plain: 0, messages: Vec::new(), ping: false, pong: false }
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

/// A sealed frame.
#[derive(Debug)]
pub(super) struct Sealed<F> {
    /// Bytes that have not left.
    left: u32,
    /// Whether its segments carry nothing else.
    alone: bool,
    /// When it was written, among all writes of the host.
    rank: u64,
    pub(super) brings: Brings<F>,
}

impl<F> Sealed<F> {
    pub(super) fn new(plain: u32, rank: u64) -> Self {
        let brings = Brings { plain, ..Brings::nothing() };
        Self { left: SEALED_FRAME, alone: false, rank, brings }
    }
}

/// Written to the socket and not yet in a segment.
///
/// A sealed frame that is written while the window is open leaves at once, as a segment of its own: sockets have
/// `TCP_NODELAY` and each frame is a write. One that has to wait for the window is appended to what waits there already,
/// and leaves in full segments (`tcp_sendmsg` fills the last buffer that has not been sent).
#[derive(Debug)]
pub(super) struct Stream<F> {
    frames: VecDeque<Sealed<F>>,
    bytes: u64,
    /// Frames at the end that are filled up.
    together: usize,
}

impl<F> Stream<F> {
    pub(super) const fn new() -> Self {
        Self { frames: VecDeque::new(), bytes: 0, together: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Bytes that wait.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The write rank of the oldest frame.
    pub(super) fn rank(&self) -> u64 {
        self.frames.front().map_or(u64::MAX, |frame| frame.rank)
    }

    /// Takes a frame. `window` more segments can leave.
    pub(super) fn write(&mut self, mut frame: Sealed<F>, window: f64) {
        frame.alone = self.together == 0 && self.frames.len() as f64 + 1.0 <= window;
        if !frame.alone {
            self.together += 1;
        }
        self.bytes += u64::from(frame.left);
        self.frames.push_back(frame);
    }

    /// The next segment of at most `mss` bytes: its length, its rank, and what it brings.
    pub(super) fn cut(&mut self, mss: u32) -> Option<(u32, u64, Load<F>)> {
        let rank = self.frames.front()?.rank;
        let mut brings = Brings::nothing();
        let mut len = 0;
        while len < mss
            && let Some(frame) = self.frames.front_mut()
        {
            let part = frame.left.min(mss - len);
            frame.left -= part;
            len += part;
            if frame.left > 0 {
                break;
            }
            let Some(frame) = self.frames.pop_front() else { break };
            brings.add(frame.brings);
            if frame.alone {
                break;
            }
            self.together -= 1;
        }
        self.bytes -= u64::from(len);
        Some((len, rank, Arc::new(brings)))
    }
}
