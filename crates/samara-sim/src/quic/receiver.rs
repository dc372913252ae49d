//! The receiving half: acknowledges packets, and puts frames together.

use samara_engine::Frame;
use smallvec::SmallVec;

use super::ranges::Ranges;
use super::{PING, QuicConfig, StreamOrder};
use crate::backlog::cut;
use crate::config::Transport;
use crate::half::{Ack, AckNeed};
use crate::packet::Sack;

/// An acknowledgement names at most so many ranges of packets, and older ones are forgotten, as in quic-go
/// (`MaxNumAckRanges` in `internal/protocol/params.go`) and quinn (`MAX_ACK_BLOCKS` in
/// `quinn-proto/src/connection/spaces.rs`).
const MAX_ACK_RANGES: usize = 64;

/// One direction, at its receiver. Times in nanoseconds.
#[derive(Debug)]
pub(crate) struct Receiver<F> {
    config: QuicConfig,
    /// Packets that arrived.
    numbers: Ranges,
    /// Segments that arrived.
    segments: Ranges,
    /// Frames whose last segment is there and which cannot be delivered yet, in the order of the segments.
    waiting: Vec<Waiting<F>>,
    /// Packets since the last acknowledgement that left.
    unacked: u32,
    /// When the packet with the largest number arrived.
    largest_at: u64,
}

/// A frame and its segments, `to` exclusive.
#[derive(Debug)]
struct Waiting<F> {
    from: u32,
    to: u32,
    frame: F,
}

impl<F: Frame> Receiver<F> {
    pub(crate) fn new(config: QuicConfig) -> Self {
        Self {
            config,
            numbers: Ranges::default(),
            segments: Ranges::default(),
            waiting: Vec::new(),
            unacked: 0,
            largest_at: 0,
        }
    }

    /// Takes a packet with a segment; frames that are complete now go to `deliver`.
    pub(crate) fn packet(
        &mut self,
        now: u64,
        number: u32,
        (seq, frame): (u32, Option<F>),
        transport: &Transport,
        deliver: &mut Vec<F>,
    ) -> AckNeed {
        let expected = self.numbers.end();
        self.numbers.insert(number);
        if self.numbers.len() > MAX_ACK_RANGES {
            self.numbers.forget_first();
        }
        if number >= expected {
            self.largest_at = now;
        }
        self.unacked += 1;
        if seq != PING && self.segments.insert(seq) {
            self.segment(seq, frame, transport, deliver);
        }
        // RFC 9000 section 13.2.1: at once what comes out of order, whether it opens a gap or fills one.
        if number != expected || self.unacked >= self.config.ack_every {
            AckNeed::Now
        } else {
            AckNeed::Later
        }
    }

    /// A segment is there that was not there before.
    fn segment(&mut self, seq: u32, frame: Option<F>, transport: &Transport, deliver: &mut Vec<F>) {
        if self.waiting.is_empty() && self.segments.first_gap() == seq + 1 {
            // Everything before it is there.
            deliver.extend(frame);
            return;
        }
        if let Some(frame) = frame {
            let to = seq + 1;
            let from = to - cut(frame.encoded_len() as u32, transport.mss, transport.framing).1;
            let at = self.waiting.partition_point(|waiting| waiting.to < to);
            self.waiting.insert(at, Waiting { from, to, frame });
        }
        match self.config.streams {
            StreamOrder::Single => {
                let gap = self.segments.first_gap();
                let ready = self.waiting.partition_point(|waiting| waiting.to <= gap);
                deliver.extend(self.waiting.drain(..ready).map(|waiting| waiting.frame));
            }
            StreamOrder::PerFrame => {
                // The only frame that can have become complete is the one that the segment is of.
                let at = self.waiting.partition_point(|waiting| waiting.to <= seq);
                let complete = self.waiting.get(at).is_some_and(|waiting| {
                    waiting.from <= seq && self.segments.covers(waiting.from, waiting.to)
                });
                if complete {
                    deliver.push(self.waiting.remove(at).frame);
                }
            }
        }
    }

    /// Something leaves that carries an acknowledgement if there is news. Its `echo` is how long it was kept, in
    /// microseconds.
    pub(crate) fn acknowledge(&mut self, now: u64) -> Ack {
        if self.unacked == 0 {
            return Ack { ack: 0, echo: 0, window: 0, sack: None };
        }
        self.unacked = 0;
        let end = self.numbers.end();
        let sack = (self.numbers.first_gap() != end).then(|| {
            let ranges: SmallVec<_> = self.numbers.descending().collect();
            Box::new(Sack { ranges })
        });
        Ack { ack: end, echo: ((now - self.largest_at) / 1000) as u32, window: 0, sack }
    }
}
