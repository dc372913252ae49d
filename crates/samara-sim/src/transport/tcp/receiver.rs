//! The receiving half: puts segments in order and decides when to acknowledge.

use crate::packet::Sack;
use crate::transport::{Ack, AckNeed, Transport};

/// One direction, at its receiver.
#[derive(Debug)]
pub(crate) struct Receiver<F> {
    next: u32,
    /// Segments since the last acknowledgement that left.
    unacked: u32,
    /// Arrived beyond a gap, ordered by segment.
    early: Vec<(u32, Option<F>)>,
    /// The timestamp of the first segment since then: the one to be echoed (RFC 7323 section 4.3).
    stamp: u32,
    /// The segment that arrived last beyond a gap: its range is reported first.
    newest: u32,
}

impl<F> Receiver<F> {
    pub(crate) const fn new(_transport: &Transport) -> Self {
        Self { next: 0, unacked: 0, early: Vec::new(), stamp: 0, newest: 0 }
    }

    /// The next segment that is expected in order.
    pub(crate) const fn next(&self) -> u32 {
        self.next
    }

    /// Takes a segment; frames that are complete now go to `deliver` in order.
    pub(crate) fn segment(
        &mut self,
        stamp: u32,
        (seq, frame): (u32, Option<F>),
        transport: &Transport,
        deliver: &mut Vec<F>,
    ) -> AckNeed {
        let Some(config) = transport.control.tcp() else {
            deliver.extend(frame);
            return AckNeed::None;
        };
        if self.unacked == 0 {
            self.stamp = stamp;
        }
        self.unacked += 1;
        if seq < self.next {
            return AckNeed::Now;
        }
        if seq > self.next {
            if let Err(at) = self.early.binary_search_by_key(&seq, |(seq, _)| *seq) {
                self.early.insert(at, (seq, frame));
            }
            self.newest = seq;
            return AckNeed::Now;
        }
        self.next += 1;
        deliver.extend(frame);
        if self.early.is_empty() {
            return if self.unacked >= config.ack_every { AckNeed::Now } else { AckNeed::Later };
        }
        let run = self.early.iter().zip(self.next..).take_while(|((seq, _), next)| seq == next).count();
        self.next += run as u32;
        deliver.extend(self.early.drain(..run).filter_map(|(_, frame)| frame));
        AckNeed::Now
    }

    /// A packet leaves. Returns what it acknowledges.
    pub(crate) fn acknowledge(&mut self, _now: u64, _transport: &Transport) -> Ack {
        self.unacked = 0;
        Ack { ack: self.next, echo: self.stamp, window: 0, sack: self.beyond_gap() }
    }

    fn beyond_gap(&self) -> Option<Box<Sack>> {
        if self.early.is_empty() {
            return None;
        }
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for (seq, _) in &self.early {
            match ranges.last_mut() {
                Some((_, to)) if *to == *seq => *to += 1,
                _ => ranges.push((*seq, seq + 1)),
            }
        }
        let newest = ranges.iter().position(|(from, to)| (*from..*to).contains(&self.newest));
        let first = newest.map(|i| ranges.remove(i));
        let ranges = first.into_iter().chain(ranges.into_iter().rev()).take(4).collect();
        Some(Box::new(Sack { ranges }))
    }
}
