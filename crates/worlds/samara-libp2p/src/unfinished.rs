//! Frames of peers that have begun and not ended: their deadlines, and the memory that they share.
//!
//! A stream with an open frame is in use, so nothing else would end it, and the frame may be as long
//! as the longest message.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures_timer::Delay;

use crate::event::FrameError;

/// The time that a peer has for a frame of any length, and the slowest rate at which it may send.
const GRACE: Duration = Duration::from_secs(10);
const BYTES_PER_SECOND_MIN: u64 = 100_000;

/// Returns the time that a peer has for a frame of this length.
fn time_for(len: usize) -> Duration {
    GRACE + Duration::from_secs_f64(len as f64 / BYTES_PER_SECOND_MIN as f64)
}

/// The memory that the unfinished frames of all streams share.
#[derive(Debug)]
pub(crate) struct Memory {
    bytes_max: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    bytes: usize,
    /// By age, oldest first.
    frames: BTreeMap<u64, (usize, Waker)>,
    next: u64,
}

impl Memory {
    pub(crate) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, held: Mutex::default() })
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the bytes of all unfinished frames.
    pub(crate) fn bytes(&self) -> usize {
        self.held().bytes
    }
}

impl Held {
    fn release(&mut self, age: u64) -> bool {
        let Some((bytes, _)) = self.frames.remove(&age) else { return false };
        self.bytes -= bytes;
        true
    }
}

/// The unfinished frame of a stream.
#[derive(Debug)]
pub(crate) struct Unfinished {
    memory: Arc<Memory>,
    /// The age and the begin of the frame, if there is one.
    open: Option<(u64, Instant)>,
    /// A timer that is set until a time, which may be that of an earlier frame.
    timer: Option<(Delay, Instant)>,
}

impl Unfinished {
    pub(crate) fn new(memory: Arc<Memory>) -> Self {
        Self { memory, open: None, timer: None }
    }

    /// Notes that the frame has ended.
    pub(crate) fn end(&mut self) {
        if let Some((age, _)) = self.open.take() {
            self.memory.held().release(age);
        }
    }

    /// Notes that the stream waits for the rest of a frame, of which `bytes` are in memory. Its
    /// length is `len`, once it is known. The oldest unfinished frame of all streams makes room.
    ///
    /// # Errors
    /// The frame took too long, or had to make room.
    pub(crate) fn wait(
        &mut self,
        bytes: usize,
        len: Option<usize>,
        now: Instant,
        cx: &mut Context<'_>,
    ) -> Result<(), FrameError> {
        let mut held = self.memory.held();
        let (age, since) = *self.open.get_or_insert_with(|| {
            held.next += 1;
            let age = held.next;
            held.frames.insert(age, (0, cx.waker().clone()));
            (age, now)
        });
        let Some((before, waker)) = held.frames.get_mut(&age) else {
            return Err(FrameError::NoRoom { bytes });
        };
        waker.clone_from(cx.waker());
        let before = std::mem::replace(before, bytes);
        held.bytes = held.bytes - before + bytes;
        while held.bytes > self.memory.bytes_max {
            let Some((oldest, (freed, waker))) = held.frames.pop_first() else { break };
            held.bytes -= freed;
            if oldest == age {
                return Err(FrameError::NoRoom { bytes });
            }
            waker.wake();
        }
        drop(held);
        let deadline = since + time_for(len.unwrap_or(0));
        if now >= deadline {
            return Err(FrameError::TooSlow { bytes, len, after: now - since });
        }
        self.wake_at(deadline, now, cx);
        Ok(())
    }

    fn wake_at(&mut self, deadline: Instant, now: Instant, cx: &mut Context<'_>) {
        // The timer is left to a later frame. Most frames end long before their deadline.
        if self.timer.as_ref().is_none_or(|(_, at)| *at > deadline) {
            self.timer = Some((Delay::new(deadline - now), deadline));
        }
        if let Some((timer, _)) = &mut self.timer
            && let Poll::Ready(()) = timer.poll_unpin(cx)
        {
            self.timer = Some((Delay::new(deadline - now), deadline));
            if let Some((timer, _)) = &mut self.timer
                && timer.poll_unpin(cx).is_ready()
            {
                cx.waker().wake_by_ref();
            }
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use futures::task::noop_waker_ref;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn wait(frame: &mut Unfinished, bytes: usize, len: usize, now: Instant) -> Result<(), FrameError> {
        frame.wait(bytes, Some(len), now, &mut Context::from_waker(noop_waker_ref()))
    }

    #[test]
    fn the_oldest_unfinished_frame_makes_room() {
        let memory = Memory::new(100);
        let now = Instant::now();
        let mut frames: Vec<_> = (0..4).map(|_| Unfinished::new(Arc::clone(&memory))).collect();
        for frame in &mut frames[..2] {
            assert_eq!(wait(frame, 40, 90, now), Ok(()));
        }
        assert_eq!(memory.bytes(), 80);
        // It grows: the other one is older, and goes.
        assert_eq!(wait(&mut frames[1], 70, 90, now), Ok(()));
        assert_eq!(memory.bytes(), 70);
        assert_eq!(wait(&mut frames[0], 40, 90, now), Err(FrameError::NoRoom { bytes: 40 }));
        assert_eq!(wait(&mut frames[2], 30, 90, now), Ok(()));
        assert_eq!(wait(&mut frames[3], 20, 90, now), Ok(()));
        assert!(wait(&mut frames[1], 70, 90, now).is_err());
        // A frame that ends, or whose stream ends, leaves nothing.
        frames[2].end();
        drop(frames.split_off(3));
        assert_eq!((memory.bytes(), memory.held().frames.len()), (0, 0));
        // A frame that needs more than all of the memory.
        assert!(wait(&mut frames[2], 101, 200, now).is_err());
        assert_eq!(memory.bytes(), 0);
    }

    #[test]
    fn a_frame_has_time_by_its_length() {
        let memory = Memory::new(1 << 30);
        let start = Instant::now();
        for (len, seconds) in [(10, 10), (1_000_000, 20), (12_000_000, 130)] {
            let mut frame = Unfinished::new(Arc::clone(&memory));
            assert_eq!(wait(&mut frame, 9, len, start), Ok(()));
            assert_eq!(wait(&mut frame, 9, len, start + seconds * SECOND - SECOND / 10), Ok(()));
            let late = wait(&mut frame, 9, len, start + seconds * SECOND + SECOND / 10);
            assert!(matches!(late, Err(FrameError::TooSlow { bytes: 9, .. })), "{len} bytes");
            // The next frame has its own time.
            frame.end();
            assert_eq!(wait(&mut frame, 9, len, start + 2 * seconds * SECOND), Ok(()));
        }
    }
}
