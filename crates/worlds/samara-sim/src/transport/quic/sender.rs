//! The sending half: frames in, packets out, as fast as the window allows.

use std::collections::BTreeSet;

use samara_engine::outbox::Room;
use samara_engine::uplink::Load;

use super::congestion::Congestion;
use super::pacer::Pacer;
use super::receiver::Ranges;
use super::recovery::{News, Recovery, Sent};
use super::{PING, QuicConfig, QuicSendBuffer, StreamOrder};
use crate::explain::Cause;
use crate::transport::backlog::{Backlog, Segment};
use crate::transport::congestion::RoundTrip;
use crate::transport::{Ack, Flow, LossRecovery, Outgoing, SendHalf, Transport};

/// Number of packets per probe timeout (RFC 9002 section 6.2.4 allows one or two; quic-go and quinn
/// send two).
const PROBES: u32 = 2;

/// The sender of one direction. Times in nanoseconds.
#[derive(Debug)]
pub(crate) struct Sender<F> {
    config: QuicConfig,
    /// Frames that were written and have not arrived completely.
    backlog: Backlog<F>,
    /// Bytes in `backlog` that were never sent.
    unsent: u64,
    /// Segments that are known to have arrived; the next field counts them.
    arrived: Ranges,
    arrived_count: u32,
    /// Segments to retransmit.
    lost: BTreeSet<u32>,
    congestion: Congestion,
    recovery: Recovery,
    /// `None` without pacing: windows leave as fast as the uplink takes them.
    pacer: Option<Pacer>,
    /// Number of packets that may leave regardless of the window.
    probes: u32,
    /// The first segment that the receiver has no room for; `u32::MAX` if its window never changes.
    limit: u32,
    /// The time of the first probe timeout since the last new acknowledgement; 0 if there was none.
    stalled_since: u64,
}

impl<F: Clone> Sender<F> {
    pub(crate) fn new(transport: &Transport) -> Self {
        let config = transport.control.quic();
        let datagram = transport.datagram();
        Self {
            config,
            backlog: Backlog::new(),
            unsent: 0,
            arrived: Ranges::default(),
            arrived_count: 0,
            lost: BTreeSet::new(),
            congestion: Congestion::new(
                config.initial_window,
                datagram,
                config.receive_window,
                config.behaviour,
            ),
            recovery: Recovery::new(&config),
            pacer: config.pacing.then(|| Pacer::new(datagram, config.behaviour)),
            probes: 0,
            limit: match config.initial_receive_window {
                first if first < config.receive_window => first,
                _ => u32::MAX,
            },
            stalled_since: 0,
        }
    }

    fn pace(&mut self, now: u64) {
        if let Some(pacer) = &mut self.pacer {
            pacer.update(now, self.congestion.window.bytes(), self.recovery.rtt.smoothed());
        }
    }

    /// Returns true if the window and the pacer let a packet out.
    fn may_leave(&self) -> bool {
        self.congestion.admits(self.recovery.in_flight) && !self.is_held()
    }

    /// Returns the number of segments that the receiver keeps or will keep: on a single stream,
    /// also those behind a gap.
    fn outstanding(&self) -> u32 {
        match self.config.streams {
            StreamOrder::Single => self.backlog.nxt - self.arrived.first_gap(),
            StreamOrder::PerFrame => self.backlog.nxt - self.arrived_count,
        }
    }

    fn can_receive(&self) -> bool {
        self.receivable() > 0
    }

    /// Returns the number of further segments that the receiver has room for.
    fn receivable(&self) -> u32 {
        if self.limit == u32::MAX {
            self.config.receive_window.saturating_sub(self.outstanding())
        } else {
            self.limit.saturating_sub(self.backlog.nxt)
        }
    }

    /// Returns the packet with data that leaves at `now`, if one can. Lost segments go before new
    /// ones. A probe without either repeats the oldest segment in flight (RFC 9002 section 6.2.4).
    pub(super) fn pop_segment(&mut self, now: u64, transport: &Transport) -> Option<Segment<F>> {
        if !self.can_send() {
            return None;
        }
        let stamp = self.recovery.next_number();
        let segment = if let Some(seq) = self.lost.pop_first() {
            self.backlog.take(Some(seq), stamp, transport)
        } else if self.backlog.has_new() && self.can_receive() {
            let segment = self.backlog.take(None, stamp, transport);
            self.unsent -= u64::from(segment.len);
            segment
        } else {
            self.take_oldest(stamp, transport)
        };
        self.probes = self.probes.saturating_sub(1);
        let bytes = segment.len + transport.packet_overhead();
        self.recovery.sent(segment.seq, bytes, now);
        if let Some(pacer) = &mut self.pacer {
            pacer.sent(bytes);
        }
        self.pace(now);
        Some(segment)
    }

    fn take_oldest(&mut self, stamp: u32, transport: &Transport) -> Segment<F> {
        let arrived = &self.arrived;
        let unknown = |sent: &&mut Sent| sent.segment != PING && !arrived.contains(sent.segment);
        match self.recovery.oldest().find(unknown) {
            Some(sent) => {
                sent.taken_over = true;
                self.backlog.take(Some(sent.segment), stamp, transport)
            }
            None => Segment { seq: PING, count: 1, len: 0, frame: None, again: false, stamp },
        }
    }

    /// Queues lost segments for retransmission and reduces the window.
    fn repair(&mut self, news: &News, now: u64) {
        let Some(last) = news.lost.last() else { return };
        for sent in &news.lost {
            if sent.segment != PING && !sent.taken_over && !self.arrived.contains(sent.segment) {
                self.lost.insert(sent.segment);
            }
        }
        self.congestion.lost(last.at, now);
        if news.persistent {
            self.congestion.collapse();
        }
    }
}

impl<F: Clone> SendHalf<F> for Sender<F> {
    fn recovery(&self) -> &impl LossRecovery {
        self
    }

    fn recovery_mut(&mut self) -> &mut impl LossRecovery {
        self
    }

    fn write(&mut self, frame: F, len: u32, rank: u64, transport: &Transport) {
        self.unsent += u64::from(self.backlog.write(frame, len, rank, transport));
    }

    fn has_buffer(&self, _transport: &Transport) -> bool {
        match self.config.send_buffer {
            QuicSendBuffer::Unsent { bytes } => self.unsent < bytes,
            QuicSendBuffer::Unacked { bytes } => self.backlog.buffered < bytes,
        }
    }

    fn room(&self, transport: &Transport) -> Room {
        if self.backlog.has_new() || !self.lost.is_empty() || !self.can_receive() || !self.may_leave() {
            return Room::NONE;
        }
        let window = self.congestion.window.bytes() - self.recovery.in_flight;
        let packets = window / u64::from(transport.datagram());
        let received = u64::from(self.receivable());
        Room(packets.min(received) * u64::from(transport.mss))
    }

    fn can_send(&self) -> bool {
        let wanted = !self.lost.is_empty() || (self.backlog.has_new() && self.can_receive());
        self.probes > 0 || (wanted && self.may_leave())
    }

    fn held(&self, _now: u64) -> Option<Cause> {
        if !self.lost.is_empty() || self.backlog.has_new() && self.can_receive() {
            return Some(self.window_cause());
        }
        self.backlog.has_new().then_some(Cause::FlowControl)
    }

    fn next_rank(&self) -> u64 {
        if !self.lost.is_empty() || !self.backlog.has_new() {
            return self.backlog.oldest_rank();
        }
        self.backlog.new_rank()
    }

    fn pop(&mut self, now: u64, _burst_max: u32, transport: &Transport) -> Option<Outgoing<F>> {
        self.pop_segment(now, transport).map(Outgoing::from)
    }
}

impl<F: Clone> LossRecovery for Sender<F> {
    fn srtt(&self) -> u64 {
        self.recovery.rtt.smoothed()
    }

    fn cwnd(&self) -> f64 {
        self.congestion.window.packets()
    }

    fn flow(&self) -> Flow {
        Flow {
            load: Load { in_flight: self.recovery.in_flight, waiting: self.unsent },
            arrived: self.recovery.acknowledged,
            lost: self.recovery.lost,
            trip: self.recovery.rtt.last(),
        }
    }

    fn is_held(&self) -> bool {
        self.pacer.is_some_and(|pacer| pacer.holds())
    }

    fn window_cause(&self) -> Cause {
        if self.is_held() { Cause::Pacing } else { self.congestion.cause(!self.lost.is_empty()) }
    }

    /// Returns the time of loss detection, a probe, or the release by the pacer.
    fn timer_at(&self) -> u64 {
        self.recovery.timer_at().min(self.pacer.map_or(u64::MAX, |pacer| pacer.timer_at()))
    }

    fn stalled_for(&self, now: u64) -> u64 {
        if self.stalled_since == 0 { 0 } else { now - self.stalled_since }
    }

    fn acknowledged(&mut self, ack: &Ack, now: u64, _transport: &Transport) -> bool {
        // RFC 9002 section 7.8: a sender that is held back only by the pacer is not limited by the
        // application.
        let limited = self.is_held() || self.congestion.limits(self.recovery.in_flight);
        let has_room = self.limit < ack.window && self.limit != u32::MAX;
        if has_room {
            self.limit = ack.window;
        }
        let Some(news) = self.recovery.acknowledged(ack, now) else {
            return has_room;
        };
        if let Some(latest) = news.sample {
            let (una, nxt) = (self.recovery.acknowledged_to(), self.recovery.next_number());
            let least = self.recovery.rtt.least();
            let Congestion { window, controller, .. } = &mut self.congestion;
            controller.on_round_trip(window, &RoundTrip { now, latest, least, una, nxt });
        }
        self.probes = 0;
        self.stalled_since = 0;
        for sent in &news.acknowledged {
            if sent.segment != PING && self.arrived.insert(sent.segment) {
                self.arrived_count += 1;
                self.lost.remove(&sent.segment);
            }
        }
        self.backlog.release(self.arrived.first_gap());
        self.repair(&news, now);
        for sent in &news.acknowledged {
            self.congestion.acknowledged(sent.bytes, sent.at, now, limited);
        }
        if let Some(largest) = news.largest {
            let Congestion { window, controller, .. } = &mut self.congestion;
            controller.on_end_acks(window, largest);
        }
        self.pace(now);
        true
    }

    /// Handles the expired timer (`OnLossDetectionTimeout`). Returns true if it was a probe
    /// timeout.
    fn timed_out(&mut self, now: u64, _transport: &Transport) -> bool {
        if self.is_held() {
            self.pace(now);
        }
        if self.recovery.timer_at() > now {
            return false;
        }
        if self.recovery.waits_for_loss() {
            let news = self.recovery.time_passed(now);
            self.repair(&news, now);
            return false;
        }
        self.recovery.probe();
        self.probes = PROBES;
        if self.stalled_since == 0 {
            self.stalled_since = now;
        }
        true
    }
}
