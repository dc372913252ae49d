//! The receiving half: acknowledges packets and reassembles frames.

use samara_engine::Frame;
use smallvec::SmallVec;

use super::{PING, QuicConfig, Sender, StreamOrder};
use crate::packet::{Body, Sack};
use crate::transport::backlog::cut;
use crate::transport::{Ack, AckNeed, Around, LossRecovery, ReceiveHalf, Taken, Transport};

/// Maximum number of packet ranges in an acknowledgement; older ones are forgotten, as in quic-go
/// (`MaxNumAckRanges` in `internal/protocol/params.go`) and quinn (`MAX_ACK_BLOCKS` in
/// `quinn-proto/src/connection/spaces.rs`).
const MAX_ACK_RANGES: usize = 64;

/// The receiver of one direction. Times in nanoseconds.
#[derive(Debug)]
pub(crate) struct Receiver<F> {
    config: QuicConfig,
    numbers: Ranges,
    segments: Ranges,
    /// Frames whose last segment has arrived but that cannot be delivered yet, in the order of the
    /// segments.
    waiting: Vec<Waiting<F>>,
    /// Number of packets since the last acknowledgement that left.
    unacked: u32,
    /// The arrival time of the packet with the largest number.
    largest_at: u64,
    /// `None` if the window never changes.
    flow: Option<FlowControl>,
}

/// A receive window that grows, in segments: quic-go's `baseFlowController`.
#[derive(Clone, Copy, Debug)]
struct FlowControl {
    /// The first segment that the sender must not send yet.
    limit: u32,
    size: u32,
    most: u32,
    /// Number of segments passed on, and of those at the start of the measurement.
    read: u32,
    epoch_read: u32,
    /// The start of the measurement; 0 before the first segment.
    epoch_at: u64,
}

impl FlowControl {
    fn new(config: &QuicConfig) -> Option<Self> {
        let (size, most) = (config.initial_receive_window, config.receive_window);
        (size < most).then_some(Self { limit: size, size, most, read: 0, epoch_read: 0, epoch_at: 0 })
    }

    /// Notes that segments are read, up to this number of them. Returns true if the limit moves: once
    /// a quarter of the window is used (`WindowUpdateThreshold`). The window doubles if it is used
    /// faster than once in four round trips (`maybeAdjustWindowSize`).
    fn read(&mut self, now: u64, read: u32, round_trip: u64) -> bool {
        if self.epoch_at == 0 {
            self.epoch_at = now;
        }
        self.read = read;
        if self.limit - read > self.size - self.size / 4 {
            return false;
        }
        let in_epoch = read - self.epoch_read;
        if in_epoch > self.size / 2 {
            let fraction = f64::from(in_epoch) / f64::from(self.size);
            if ((now - self.epoch_at) as f64) < 4.0 * fraction * round_trip as f64 {
                self.size = self.size.saturating_mul(2).min(self.most);
            }
            (self.epoch_at, self.epoch_read) = (now, read);
        }
        self.limit = read + self.size;
        true
    }
}

/// A frame and its segments, `to` exclusive.
#[derive(Debug)]
struct Waiting<F> {
    from: u32,
    to: u32,
    frame: F,
}

impl<F: Frame> Receiver<F> {
    pub(crate) fn new(transport: &Transport) -> Self {
        Self {
            config: transport.control.quic(),
            numbers: Ranges::default(),
            segments: Ranges::default(),
            waiting: Vec::new(),
            unacked: 0,
            largest_at: 0,
            flow: FlowControl::new(&transport.control.quic()),
        }
    }

    /// Takes a packet with a segment; complete frames go to `deliver`. The time comes with the round
    /// trip of the connection, 0 if it is unknown.
    pub(crate) fn packet(
        &mut self,
        (now, round_trip): (u64, u64),
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
        let mut has_moved = false;
        if let Some(flow) = &mut self.flow {
            let read = match self.config.streams {
                StreamOrder::Single => self.segments.first_gap(),
                StreamOrder::PerFrame => self.segments.count(),
            };
            // The handshake measures the round trip of a connection that only receives; the model
            // has no sample of it.
            let known = if round_trip > 0 { round_trip } else { self.config.initial_rtt.as_nanos() as u64 };
            has_moved = flow.read(now, read, known);
        }
        // RFC 9000 section 13.2.1: packets out of order are acknowledged at once, whether they open
        // a gap or fill one.
        if number != expected || self.unacked >= self.config.ack_every || has_moved {
            AckNeed::Now
        } else {
            AckNeed::Later
        }
    }

    /// Handles a new segment.
    fn segment(&mut self, seq: u32, frame: Option<F>, transport: &Transport, deliver: &mut Vec<F>) {
        if self.waiting.is_empty() && self.segments.first_gap() == seq + 1 {
            // All segments before it have arrived.
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
                // Only the frame of this segment can have become complete.
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
}

impl<F: Frame> ReceiveHalf<F> for Receiver<F> {
    type Sender = Sender<F>;

    fn take(
        &mut self,
        sender: &mut Sender<F>,
        stamp: u32,
        body: Body<F>,
        around: &mut Around<'_, F>,
    ) -> Taken {
        let Body::Data { seq, frame } = body else { return Taken::mismatch() };
        self.packet((around.now, sender.srtt()), stamp, (seq, frame), around.transport, around.delivered)
            .into()
    }

    /// Returns an empty one if there is nothing new. Its `echo` is how long it was delayed, in
    /// microseconds.
    fn acknowledge(&mut self, now: u64, _transport: &Transport) -> Ack {
        if self.unacked == 0 {
            return Ack::default();
        }
        self.unacked = 0;
        let end = self.numbers.end();
        let sack = (self.numbers.first_gap() != end).then(|| {
            let ranges: SmallVec<_> = self.numbers.descending().collect();
            Box::new(Sack { ranges })
        });
        let window = self.flow.map_or(0, |flow| flow.limit);
        Ack { ack: end, echo: ((now - self.largest_at) / 1000) as u32, window, sack }
    }
}

/// A set of numbers as ranges (from, to exclusive), ascending, with gaps between them.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges(Vec<(u32, u32)>);

impl Ranges {
    /// Adds a number. Returns true if it is new.
    pub(super) fn insert(&mut self, number: u32) -> bool {
        // Most numbers arrive in order.
        match self.0.last_mut() {
            None => {
                self.0.push((number, number + 1));
                return true;
            }
            Some((_, to)) if *to == number => {
                *to += 1;
                return true;
            }
            Some((_, to)) if *to < number => {
                self.0.push((number, number + 1));
                return true;
            }
            Some(_) => {}
        }
        // The first range that ends at the number or after it; it exists.
        let at = self.0.partition_point(|(_, to)| *to < number);
        let (from, to) = self.0[at];
        if from <= number && number < to {
            return false;
        }
        if to == number {
            self.0[at].1 += 1;
            if self.0.get(at + 1).is_some_and(|(from, _)| *from == number + 1) {
                self.0[at].1 = self.0.remove(at + 1).1;
            }
        } else if from == number + 1 {
            self.0[at].0 = number;
        } else {
            self.0.insert(at, (number, number + 1));
        }
        true
    }

    pub(super) fn contains(&self, number: u32) -> bool {
        self.covers(number, number + 1)
    }

    pub(super) fn covers(&self, from: u32, to: u32) -> bool {
        let at = self.0.partition_point(|(_, end)| *end <= from);
        self.0.get(at).is_some_and(|(start, end)| *start <= from && to <= *end)
    }

    /// Returns the first missing number from 0 on.
    pub(super) fn first_gap(&self) -> u32 {
        match self.0.first() {
            Some((0, to)) => *to,
            _ => 0,
        }
    }

    /// Returns the size of the set.
    pub(super) fn count(&self) -> u32 {
        self.0.iter().map(|(from, to)| to - from).sum()
    }

    /// Returns one more than the largest number, or 0 for an empty set.
    pub(super) fn end(&self) -> u32 {
        self.0.last().map_or(0, |(_, to)| *to)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Forgets the range of the smallest numbers.
    pub(super) fn forget_first(&mut self) {
        if !self.0.is_empty() {
            self.0.remove(0);
        }
    }

    /// Returns the ranges, those of the largest numbers first.
    pub(super) fn descending(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.0.iter().rev().copied()
    }
}
