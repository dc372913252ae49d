//! Frames that wait for TCP, and the segments that they make.

use std::collections::VecDeque;

use smallvec::SmallVec;

use crate::backlog::Run;

/// Frames in a row, cut into segments when these can leave, so that small ones share a segment. Those of control overtake those of
/// data that nothing has left of: gRPC's writer takes them first, and data wait for it.
#[derive(Debug)]
pub(super) struct Bytes<T> {
    control: VecDeque<Waiting<T>>,
    data: VecDeque<Waiting<T>>,
    bytes: u64,
}

#[derive(Debug)]
struct Waiting<T> {
    bytes: u32,
    left: u32,
    /// When it was written, among all writes of the host.
    rank: u64,
    frame: T,
}

impl<T> Bytes<T> {
    pub(super) const fn new() -> Self {
        Self { control: VecDeque::new(), data: VecDeque::new(), bytes: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Bytes that wait.
    pub(super) const fn len(&self) -> u64 {
        self.bytes
    }

    /// The write rank of what leaves next; `u64::MAX` if there is nothing.
    pub(super) fn rank(&self) -> u64 {
        let line = if self.data_goes_on() { &self.data } else { &self.control };
        line.front().or(self.data.front()).map_or(u64::MAX, |waiting| waiting.rank)
    }

    pub(super) fn push_control(&mut self, bytes: u32, rank: u64, frame: T) {
        self.bytes += u64::from(bytes);
        self.control.push_back(Waiting { bytes, left: bytes, rank, frame });
    }

    pub(super) fn push_data(&mut self, bytes: u32, rank: u64, frame: T) {
        self.bytes += u64::from(bytes);
        self.data.push_back(Waiting { bytes, left: bytes, rank, frame });
    }

    /// Whether a part of the first data frame has left.
    fn data_goes_on(&self) -> bool {
        self.data.front().is_some_and(|waiting| waiting.left < waiting.bytes)
    }

    /// The next segment of at most `mss` bytes, and the frames that end in it.
    pub(super) fn cut(&mut self, mss: u32) -> Option<(Run, SmallVec<[T; 1]>)> {
        let mut run = Run { segments: 1, len: 0, unit: mss, rank: self.rank() };
        let mut complete = SmallVec::new();
        loop {
            let controls = !self.control.is_empty() && !self.data_goes_on();
            let line = if controls { &mut self.control } else { &mut self.data };
            let Some(front) = line.front_mut() else { break };
            let taken = front.left.min(mss - run.len);
            front.left -= taken;
            run.len += taken;
            if front.left > 0 {
                break;
            }
            complete.extend(line.pop_front().map(|waiting| waiting.frame));
        }
        self.bytes -= u64::from(run.len);
        (run.len > 0).then_some((run, complete))
    }
}
