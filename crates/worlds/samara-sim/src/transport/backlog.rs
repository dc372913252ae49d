//! Frames that were written to a link, cut into segments: the send queue of every transport model.

use std::collections::VecDeque;

use super::{Framing, Transport};

#[derive(Debug)]
pub(crate) struct Segment<F> {
    pub(crate) seq: u32,
    /// Number of segments that leave together, of which `seq` is the first. More than one only on
    /// connections with channels.
    pub(crate) count: u32,
    /// Payload length in bytes.
    pub(crate) len: u32,
    pub(crate) frame: Option<F>,
    pub(crate) again: bool,
    /// The packet's identification, which its acknowledgement refers to: a timestamp (TCP) or its
    /// number (QUIC).
    pub(crate) stamp: u32,
}

/// A bit of [`Written::unit`], beyond the size of any segment: a field of its own would take 8 bytes of
/// every link with data.
const TOGETHER: u32 = 1 << 31;

#[derive(Debug)]
struct Written<F> {
    frame: F,
    first: u32,
    segments: u32,
    /// Payload bytes with framing.
    len: u32,
    /// Payload bytes of each segment except the first and the last; with [`TOGETHER`], all segments
    /// leave together on their first transmission.
    unit: u32,
    /// The frame's place among all writes of the host.
    rank: u64,
}

impl<F> Written<F> {
    /// Returns the number of segments that leave together from this one on, and their bytes.
    fn leaving(&self, offset: u32, again: bool, framing: Framing) -> (u32, u32) {
        let unit = self.unit & !TOGETHER;
        if self.unit & TOGETHER != 0 && !again {
            return (self.segments - offset, self.len - offset * unit);
        }
        (1, segment_len(self.len, offset, self.segments, unit, framing))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) segments: u32,
    pub(crate) len: u32,
    /// Payload bytes of each segment; the last one may have fewer.
    pub(crate) unit: u32,
    /// The first frame's place among all writes of the host.
    pub(crate) rank: u64,
}

/// Frames that are written but not released yet. Segments are numbered from 0.
#[derive(Debug)]
pub(crate) struct Backlog<F> {
    written: VecDeque<Written<F>>,
    /// The index in `written` of the frame that contains `nxt`.
    cursor: usize,
    /// The first segment that was never sent.
    pub(super) nxt: u32,
    end: u32,
    /// Bytes of all frames that are not released.
    pub(super) buffered: u64,
}

impl<F: Clone> Backlog<F> {
    pub(crate) const fn new() -> Self {
        Self { written: VecDeque::new(), cursor: 0, nxt: 0, end: 0, buffered: 0 }
    }

    /// Takes a frame of `len` encoded bytes. Returns its length with framing in bytes.
    pub(crate) fn write(&mut self, frame: F, len: u32, rank: u64, transport: &Transport) -> u32 {
        let (len, segments) = cut(len, transport.mss, transport.framing);
        let (unit, first) = (transport.mss, self.end);
        self.push(Written { frame, first, segments, len, unit, rank });
        len
    }

    /// Takes data that is already cut into segments of `unit` bytes, the last of which may be
    /// shorter. All of them leave together.
    pub(crate) fn write_run(&mut self, frame: F, run: Run) {
        let Run { segments, len, unit, rank } = run;
        self.push(Written { frame, first: self.end, segments, len, unit: unit | TOGETHER, rank });
    }

    fn push(&mut self, written: Written<F>) {
        self.end += written.segments;
        self.buffered += u64::from(written.len);
        self.written.push_back(written);
    }

    /// Returns true if there is a segment that was never sent.
    pub(crate) const fn has_new(&self) -> bool {
        self.nxt < self.end
    }

    pub(crate) const fn unsent(&self) -> u32 {
        self.end - self.nxt
    }

    /// Returns the write rank of the oldest frame.
    pub(crate) fn oldest_rank(&self) -> u64 {
        self.written.front().map_or(0, |written| written.rank)
    }

    /// Returns the write rank of the frame that contains the next new segment.
    pub(crate) fn new_rank(&self) -> u64 {
        self.written.get(self.cursor).map_or(u64::MAX, |written| written.rank)
    }

    /// Returns segment `again`, which was sent before, or the next new one.
    pub(crate) fn take(&mut self, again: Option<u32>, stamp: u32, transport: &Transport) -> Segment<F> {
        let (seq, index) = match again {
            Some(seq) => (seq, self.written.partition_point(|written| written.first <= seq) - 1),
            None => (self.nxt, self.cursor),
        };
        let written = &self.written[index];
        let offset = seq - written.first;
        let (count, len) = written.leaving(offset, again.is_some(), transport.framing);
        let complete = offset + count == written.segments;
        let frame = complete.then(|| written.frame.clone());
        if again.is_none() {
            self.nxt += count;
            self.cursor += usize::from(complete);
        }
        Segment { seq, count, len, frame, again: again.is_some(), stamp }
    }

    /// Returns the next segment, which is not kept after it has left.
    pub(crate) fn take_and_forget(&mut self, transport: &Transport) -> Option<Segment<F>> {
        let written = self.written.front()?;
        let seq = self.nxt;
        let offset = seq - written.first;
        let (count, len) = written.leaving(offset, false, transport.framing);
        self.nxt += count;
        let mut frame = None;
        if offset + count == written.segments {
            self.buffered -= u64::from(written.len);
            frame = self.written.pop_front().map(|written| written.frame);
        }
        Some(Segment { seq, count, len, frame, again: false, stamp: 0 })
    }

    /// Returns the bytes of the segments `from..to`, which are not released.
    pub(crate) fn bytes(&self, from: u32, to: u32, transport: &Transport) -> u64 {
        let mut bytes = 0;
        for written in &self.written {
            let (first, end) = (written.first.max(from), (written.first + written.segments).min(to));
            if written.first >= to {
                break;
            }
            if first == written.first && end == written.first + written.segments {
                bytes += u64::from(written.len);
            } else {
                let unit = written.unit & !TOGETHER;
                let len = |seq| {
                    segment_len(written.len, seq - written.first, written.segments, unit, transport.framing)
                };
                bytes += (first..end).map(|seq| u64::from(len(seq))).sum::<u64>();
            }
        }
        bytes
    }

    /// Releases the frames before `una`, which have arrived.
    pub(crate) fn release(&mut self, una: u32) {
        while self.written.front().is_some_and(|written| written.first + written.segments <= una) {
            self.buffered -= self.written.pop_front().map_or(0, |written| u64::from(written.len));
            self.cursor -= 1;
        }
        if self.written.is_empty() {
            // Most links of a large network are idle most of the time.
            self.written = VecDeque::new();
        }
    }
}

/// Returns the bytes with framing and the number of segments of a frame of `len` encoded bytes.
pub(crate) fn cut(len: u32, mss: u32, framing: Framing) -> (u32, u32) {
    let small = len + framing.small_overhead;
    if small <= mss {
        return (small, 1);
    }
    let large = len + framing.large_overhead;
    let lead = u32::from(framing.lead > 0);
    (large, lead + (large - framing.lead).div_ceil(mss))
}

pub(crate) fn segment_len(len: u32, offset: u32, segments: u32, mss: u32, framing: Framing) -> u32 {
    if segments == 1 {
        return len;
    }
    if offset == 0 && framing.lead > 0 {
        return framing.lead;
    }
    let before = if framing.lead > 0 { framing.lead + (offset - 1) * mss } else { offset * mss };
    (len - before).min(mss)
}
