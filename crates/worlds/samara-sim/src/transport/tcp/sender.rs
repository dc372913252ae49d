//! The sending half: frames in, segments out, as fast as the window allows.

use std::collections::VecDeque;

use samara_engine::outbox::Room;
use samara_engine::uplink::Load;

use super::{Congestion, Recovery, RtoFloor, SendBuffer, TcpConfig};
use crate::explain::Cause;
use crate::packet::Sack;
use crate::transport::backlog::{Backlog, Run, Segment};
use crate::transport::congestion::{Controller, Cubic, NewReno, RoundTrip, Window};
use crate::transport::{Ack, Flow, LossRecovery, Outgoing, SendHalf, Transport};

/// The sender of one direction. Times in nanoseconds.
#[derive(Debug)]
pub(crate) struct Sender<F> {
    /// Frames that were written and are not completely acknowledged.
    pub(crate) backlog: Backlog<F>,
    una: u32,
    /// The receiver's window in packets, beyond its acknowledgement.
    pub(crate) receive_window: u32,
    /// The congestion window in packets.
    window: Window,
    /// The largest congestion window so far: send buffers never shrink.
    window_max: f64,
    controller: Box<dyn Controller>,
    pub(crate) rtt: RttEstimator,
    last_sent: u64,
    /// Bytes of the segments from `una` on, and of those before.
    outstanding: u64,
    arrived: u64,
    /// Number of segments that left again.
    sent_again: u32,
    /// The time at which the retransmission timer expires; `u64::MAX` if it is off.
    rto_at: u64,
    /// The time at which silence calls for a probe; `u64::MAX` if it does not.
    probe_at: u64,
    probe: Probe,
    /// The time of the first timeout since the last new acknowledgement; 0 if there was none.
    stalled_since: u64,
    holes: Option<Box<Holes>>,
}

/// A tail loss probe (RFC 8985 section 7): one segment after two round trips of silence, whose
/// acknowledgement tells whether those before it were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    Off,
    /// It leaves next.
    Due,
    /// It left at a time, as packets carry it, as the last segment before `end`, for the first time or
    /// `again`.
    Sent {
        end: u32,
        stamp: u32,
        again: bool,
    },
}

#[derive(Debug)]
struct Holes {
    board: Scoreboard,
    /// A segment is lost if so many later ones have arrived.
    threshold: u32,
    /// The time at which one later arrival is enough: packets that overtake others had their time.
    /// `u64::MAX` if none arrived.
    settled_at: u64,
    /// Recovery ends when everything before this is acknowledged; `None` before it starts.
    recover: Option<u32>,
    /// True if a timeout started it: the window then grows as in slow start.
    timeout: bool,
    /// The state before a timeout, until the timeout is known to be right.
    undo: Option<Undo>,
    /// The pace of a recovery that no timeout started.
    pace: Pace,
}

/// Proportional rate reduction (RFC 6937): while the window falls to its threshold, segments leave in
/// proportion to those that arrive, the first retransmission at once.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    /// The window before the loss.
    before: f64,
    /// Numbers of segments that have arrived and left since.
    arrived: f64,
    left: f64,
}

impl Pace {
    /// Returns the window after an acknowledgement of `news` segments.
    fn window(&mut self, news: u32, pipe: u32, threshold: f64) -> f64 {
        let (news, pipe) = (f64::from(news), f64::from(pipe));
        self.arrived += news;
        let sends = if pipe > threshold {
            (self.arrived * threshold / self.before).ceil() - self.left
        } else {
            // The slow start reduction bound.
            (threshold - pipe).min((self.arrived - self.left).max(news) + 1.0)
        };
        pipe + sends.max(if self.left == 0.0 { 1.0 } else { 0.0 })
    }
}

impl Holes {
    fn new(una: u32) -> Self {
        Self {
            board: Scoreboard::new(una),
            threshold: DUP_THRESHOLD,
            settled_at: u64::MAX,
            recover: None,
            timeout: false,
            undo: None,
            pace: Pace::default(),
        }
    }
}

/// The state before a timeout, which may have been too early: the segments were late, not lost.
#[derive(Clone, Copy, Debug)]
struct Undo {
    /// The time of the timeout, as packets carry it.
    since: u32,
    window: Window,
    /// Whether nothing was acknowledged in order since.
    is_first: bool,
}

impl<F: Clone> Sender<F> {
    pub(crate) fn new(transport: &Transport) -> Self {
        let config = transport.control.tcp();
        let initial = config.map_or(f64::INFINITY, |config| f64::from(config.initial_window));
        let controller: Box<dyn Controller> = match config.map(|config| config.congestion) {
            Some(Congestion::Cubic) => Box::<Cubic>::default(),
            Some(Congestion::Reno) | None => Box::new(NewReno),
        };
        Self {
            backlog: Backlog::new(),
            una: 0,
            receive_window: config.map_or(u32::MAX, |config| config.receive_window),
            window: Window::of_packets(initial),
            window_max: initial,
            controller,
            rtt: RttEstimator::new(),
            last_sent: 0,
            outstanding: 0,
            arrived: 0,
            sent_again: 0,
            rto_at: u64::MAX,
            probe_at: u64::MAX,
            probe: Probe::Off,
            stalled_since: 0,
            holes: None,
        }
    }

    /// Takes segments that leave together. The windows must let all of them out now.
    pub(crate) fn write_run(&mut self, frame: F, run: Run) {
        debug_assert!(f64::from(run.segments) <= self.window_left());
        self.outstanding += u64::from(run.len);
        self.backlog.write_run(frame, run);
    }

    /// Returns the size of the send buffer in bytes.
    pub(crate) fn buffer_limit(&self, transport: &Transport) -> u64 {
        match transport.control.tcp().map(|config| config.send_buffer) {
            None => u64::from(4 * transport.mss),
            Some(SendBuffer::Fixed { bytes }) => bytes,
            Some(SendBuffer::Auto { per_packet, min }) => {
                min.max((self.window_max * f64::from(per_packet)) as u64)
            }
            Some(SendBuffer::Unsent { bytes }) => {
                self.backlog.buffered.saturating_sub(self.unsent(transport.mss)) + bytes
            }
        }
    }

    /// Returns about how many bytes were never sent: the last segments of frames may be shorter.
    fn unsent(&self, mss: u32) -> u64 {
        u64::from(self.backlog.unsent()) * u64::from(mss)
    }

    /// Returns the number of new segments that the windows let out besides those in flight.
    /// Retransmissions go first.
    pub(crate) fn window_left(&self) -> f64 {
        if self.lost_waiting() {
            return 0.0;
        }
        let received = self.receive_window.saturating_sub(self.backlog.nxt - self.una);
        (self.window.size - f64::from(self.pipe())).min(f64::from(received))
    }

    /// Returns true if nothing is in flight and the receiver has no room.
    pub(crate) fn is_shut(&self) -> bool {
        self.receive_window == 0 && self.backlog.nxt == self.una
    }

    /// Returns a packet without data that repeats an acknowledged segment, so that the receiver
    /// answers with its window. Requires an earlier acknowledgement.
    pub(crate) fn probe(&self, now: u64) -> Segment<F> {
        Segment {
            seq: self.una.saturating_sub(1),
            count: 1,
            len: 0,
            frame: None,
            again: false,
            stamp: timestamp(now),
        }
    }

    fn lost_waiting(&self) -> bool {
        self.holes.as_ref().is_some_and(|holes| holes.board.has_lost())
    }

    fn pipe(&self) -> u32 {
        self.backlog.nxt - self.una - self.holes.as_ref().map_or(0, |holes| holes.board.absent())
    }

    fn window_open(&self) -> bool {
        self.window.admits(f64::from(self.pipe()))
    }

    fn receiver_open(&self) -> bool {
        self.backlog.nxt - self.una < self.receive_window
    }

    /// Returns the segment that leaves at `now`, if one can.
    pub(crate) fn pop_segment(&mut self, now: u64, transport: &Transport) -> Option<Segment<F>> {
        let Some(config) = transport.control.tcp() else { return self.pop_ideal(transport) };
        if config.idle_restart && self.backlog.nxt == self.una {
            self.restart_after_idle(now, config);
        }
        if !self.can_send() {
            return None;
        }
        if self.probe == Probe::Due {
            return Some(self.take_probe(now, config, transport));
        }
        if self.backlog.nxt == self.una && self.last_sent > 0 {
            self.controller.on_idle(now, self.last_sent);
        }
        let lost = self.holes.as_mut().and_then(|holes| {
            holes.pace.left += 1.0;
            holes.board.take_lost(timestamp(now))
        });
        self.sent_again += u32::from(lost.is_some());
        let segment = self.backlog.take(lost, timestamp(now), transport);
        self.last_sent = now;
        if self.rto_at == u64::MAX {
            self.rto_at = now.saturating_add(self.rtt.timeout(config));
        }
        self.plan_probe(now, config);
        Some(segment)
    }

    /// Takes a new segment, even beyond the congestion window, or else the last one again.
    fn take_probe(&mut self, now: u64, config: &TcpConfig, transport: &Transport) -> Segment<F> {
        let is_new = self.backlog.has_new() && self.receiver_open();
        let again = (!is_new).then(|| self.backlog.nxt - 1);
        let stamp = timestamp(now);
        self.sent_again += u32::from(again.is_some());
        let segment = self.backlog.take(again, stamp, transport);
        self.probe = Probe::Sent { end: self.backlog.nxt, stamp, again: again.is_some() };
        self.last_sent = now;
        self.rto_at = now.saturating_add(self.rtt.timeout(config));
        segment
    }

    /// Sets the time of the next probe (`tcp_schedule_loss_probe` in Linux): one for each silence, and
    /// only while nothing is known to be lost.
    fn plan_probe(&mut self, now: u64, config: &TcpConfig) {
        let in_flight = self.backlog.nxt - self.una;
        let is_open =
            self.holes.as_ref().is_none_or(|holes| holes.recover.is_none() && holes.board.absent() == 0);
        let is_wanted = config.recovery == Recovery::Linux && is_open && in_flight > 0;
        self.probe_at = if is_wanted && self.probe == Probe::Off && self.rtt.smoothed > 0 {
            // The acknowledgement of a single segment may be delayed.
            let slack = if in_flight == 1 { config.min_rto.as_nanos() as u64 } else { PROBE_SLACK };
            self.rto_at.min(now + 2 * self.rtt.smoothed + slack)
        } else {
            u64::MAX
        };
    }

    /// Handles an acknowledgement of something new, perhaps the answer to a probe.
    fn probe_answered(&mut self, echo: u32, in_flight: u32, config: &TcpConfig) {
        let Probe::Sent { end, stamp, again } = self.probe else {
            self.probe = Probe::Off;
            return;
        };
        let is_answer = !is_older(echo, stamp);
        if self.una >= end {
            self.probe = Probe::Off;
            if again && is_answer {
                // It has repaired the loss of the last segment.
                self.lower_threshold(in_flight, config);
                self.window.size = self.window.threshold;
            }
        } else if is_answer && let Some(holes) = &mut self.holes {
            // Two round trips have passed since those before it left.
            holes.threshold = 1;
        }
    }

    fn lower_threshold(&mut self, in_flight: u32, config: &TcpConfig) {
        let flight = self.flight(in_flight, config);
        self.controller.on_congestion_event(&mut self.window, flight);
    }

    /// Returns what NewReno reduces: the data in flight (RFC 5681, equation 4), or the window in Linux
    /// (`tcp_reno_ssthresh`).
    fn flight(&self, in_flight: u32, config: &TcpConfig) -> f64 {
        match config.recovery {
            Recovery::Linux => self.window.size,
            Recovery::Rfc6675 => f64::from(in_flight),
        }
    }

    fn pop_ideal(&mut self, transport: &Transport) -> Option<Segment<F>> {
        let segment = self.backlog.take_and_forget(transport)?;
        self.una = self.backlog.nxt;
        Some(segment)
    }

    /// Linux's `tcp_cwnd_restart`: halves the window for every timeout that the connection was
    /// idle, not below the initial window, and keeps three quarters of it as the threshold.
    fn restart_after_idle(&mut self, now: u64, config: &TcpConfig) {
        let rto = self.rtt.timeout(config);
        let mut idle = now.saturating_sub(self.last_sent);
        if self.last_sent == 0 || idle <= rto {
            return;
        }
        let window = &mut self.window;
        window.threshold = window.threshold.max(window.size * 0.75);
        let floor = f64::from(config.initial_window).min(window.size);
        while idle > rto && window.size > floor {
            window.size = (window.size / 2.0).floor();
            idle -= rto;
        }
        window.size = window.size.max(floor);
    }

    fn advance(&mut self, una: u32, echo: u32, now: u64, transport: &Transport) {
        let round_trip = u64::from(timestamp(now).wrapping_sub(echo)) * 1000;
        let bytes = self.backlog.bytes(self.una, una, transport);
        self.outstanding -= bytes;
        self.arrived += bytes;
        self.una = una;
        self.stalled_since = 0;
        self.rtt.backoff = 0;
        self.rtt.sample(round_trip);
        self.backlog.release(una);
        let sample =
            RoundTrip { now, latest: round_trip, least: self.rtt.least(), una, nxt: self.backlog.nxt };
        self.controller.on_round_trip(&mut self.window, &sample);
    }

    /// Ends the recovery from a timeout that was too early: an acknowledgement is older than it (Eifel, RFC
    /// 3522), or segments arrive that were not retransmitted (F-RTO, RFC 5682; without its new data in
    /// place of the second retransmission). The windows are restored (RFC 4015), as in Linux.
    fn undo_timeout(&mut self, advanced: u32, echo: u32, originals: u32) {
        let Some(holes) = &mut self.holes else { return };
        let Some(undo) = &mut holes.undo else { return };
        let is_old = advanced > 0 && is_older(echo, undo.since);
        if is_old || undo.is_first && originals > 0 {
            self.window.restore(&undo.window);
            holes.board.none_lost();
            holes.threshold = DUP_THRESHOLD;
            (holes.recover, holes.timeout, holes.undo) = (None, false, None);
        } else {
            undo.is_first &= advanced == 0;
        }
    }

    /// Fast recovery (RFC 6675 section 5, RFC 6937) and growth of the window (RFC 5681 section 3.1, or
    /// RFC 9438).
    fn recover(&mut self, now: u64, news: u32, in_flight: u32, config: &TcpConfig) {
        let mut grows = true;
        if let Some(holes) = &mut self.holes {
            match holes.recover {
                Some(recover) if self.una >= recover => {
                    if !holes.timeout {
                        self.window.size = self.window.threshold;
                    }
                    holes.threshold = DUP_THRESHOLD;
                    (holes.recover, holes.timeout, holes.undo) = (None, false, None);
                    grows = false;
                }
                Some(_) => {
                    holes.board.find_lost(holes.threshold);
                    grows = holes.timeout;
                }
                None => {}
            }
            let begins = holes.recover.is_none() && holes.board.find_lost(holes.threshold);
            if begins {
                let before = self.window.size;
                self.lower_threshold(in_flight, config);
                let Some(holes) = &mut self.holes else { return };
                holes.pace = Pace { before, ..Pace::default() };
                holes.recover = Some(self.backlog.nxt);
                if config.recovery == Recovery::Linux {
                    // In recovery, packets are taken to arrive in order (`tcp_rack_reo_wnd`).
                    (holes.threshold, holes.settled_at) = (1, u64::MAX);
                    holes.board.find_lost(holes.threshold);
                }
                (self.probe, self.probe_at) = (Probe::Off, u64::MAX);
                grows = false;
            }
            let Some(holes) = &mut self.holes else { return };
            if holes.recover.is_some() && !holes.timeout {
                let pipe = self.backlog.nxt - self.una - holes.board.absent();
                self.window.size = match config.recovery {
                    Recovery::Linux => holes.pace.window(news, pipe, self.window.threshold),
                    Recovery::Rfc6675 => self.window.threshold,
                };
            }
            if holes.recover.is_none() && holes.board.absent() == 0 {
                self.holes = None;
            }
        }
        if grows {
            self.grow(now, news, in_flight, config);
        }
    }

    fn grow(&mut self, now: u64, news: u32, in_flight: u32, config: &TcpConfig) {
        let (in_flight, window) = (f64::from(in_flight), &mut self.window);
        let is_used = if window.is_slow_start() {
            window.size < 2.0 * in_flight
        } else {
            in_flight + 1.0 > window.size
        };
        if is_used || config.grow_unused {
            self.controller.on_ack(window, f64::from(news), now);
        }
        window.size = window.size.min(f64::from(config.receive_window));
        self.window_max = self.window_max.max(window.size);
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
        self.outstanding += u64::from(self.backlog.write(frame, len, rank, transport));
    }

    fn has_buffer(&self, transport: &Transport) -> bool {
        self.backlog.buffered < self.buffer_limit(transport)
    }

    /// Applies only if the limit is on bytes that were never sent.
    fn has_room_again(&self, transport: &Transport) -> bool {
        let buffer = transport.control.tcp().map(|config| config.send_buffer);
        matches!(buffer, Some(SendBuffer::Unsent { bytes }) if 2 * self.unsent(transport.mss) < bytes)
    }

    fn room(&self, transport: &Transport) -> Room {
        if self.backlog.has_new() || !self.receiver_open() || !self.window_open() || self.lost_waiting() {
            return Room::NONE;
        }
        Room(self.window_left() as u64 * u64::from(transport.mss))
    }

    fn can_send(&self) -> bool {
        self.probe == Probe::Due
            || (self.lost_waiting() || (self.backlog.has_new() && self.receiver_open())) && self.window_open()
    }

    fn held(&self, _now: u64) -> Option<Cause> {
        if self.backlog.has_new() && !self.receiver_open() {
            return Some(Cause::FlowControl);
        }
        (self.backlog.has_new() || self.lost_waiting()).then(|| self.window_cause())
    }

    fn next_rank(&self) -> u64 {
        if self.lost_waiting() { self.backlog.oldest_rank() } else { self.backlog.new_rank() }
    }

    fn pop(&mut self, now: u64, _burst_max: u32, transport: &Transport) -> Option<Outgoing<F>> {
        self.pop_segment(now, transport).map(Outgoing::from)
    }
}

impl<F: Clone> LossRecovery for Sender<F> {
    fn srtt(&self) -> u64 {
        self.rtt.smoothed
    }

    fn cwnd(&self) -> f64 {
        self.window.size
    }

    /// Segments in flight, and those that are lost or have arrived beyond a hole, count as full ones.
    fn flow(&self) -> Flow {
        let bytes = |segments: u32| u64::from(segments) * u64::from(SEGMENT);
        let board = self.holes.as_ref().map(|holes| &holes.board);
        let absent = board.map_or(0, Scoreboard::absent);
        let under_way = self.outstanding.saturating_sub(bytes(absent));
        let in_flight = bytes(self.pipe()).min(under_way);
        Flow {
            load: Load { in_flight, waiting: under_way - in_flight },
            arrived: self.arrived + bytes(board.map_or(0, |board| board.sacked)),
            lost: bytes(self.sent_again),
            trip: self.rtt.last,
        }
    }

    fn window_cause(&self) -> Cause {
        match &self.holes {
            Some(holes) if holes.recover.is_some() => Cause::Loss,
            _ if self.window.size >= self.window.threshold => Cause::Avoidance,
            // Only idle times and timeouts make a window smaller and slow start begin again. After an
            // idle time the threshold is at least three quarters of the window, after a timeout at
            // most 0.7 of it.
            _ if self.window.size >= self.window_max => Cause::SlowStart,
            _ if self.window.threshold >= 0.75 * self.window_max => Cause::IdleRestart,
            _ => Cause::Recovery,
        }
    }

    fn timer_at(&self) -> u64 {
        let settled_at = self.holes.as_ref().map_or(u64::MAX, |holes| holes.settled_at);
        self.rto_at.min(self.probe_at).min(settled_at)
    }

    fn stalled_for(&self, now: u64) -> u64 {
        if self.stalled_since == 0 { 0 } else { now - self.stalled_since }
    }

    fn acknowledged(&mut self, ack: &Ack, now: u64, transport: &Transport) -> bool {
        let Some(config) = transport.control.tcp() else { return false };
        let in_flight = self.backlog.nxt - self.una;
        let advanced = ack.ack.saturating_sub(self.una).min(in_flight);
        let sack = ack.sack.as_deref();
        let is_linux = config.recovery == Recovery::Linux;
        if sack.is_some() && self.holes.is_none() {
            self.holes = Some(Box::new(Holes::new(self.una)));
        }
        if advanced > 0 {
            self.advance(self.una + advanced, ack.echo, now, transport);
        }
        let mut news = advanced;
        let mut is_alive = advanced > 0;
        if let Some(holes) = &mut self.holes {
            let lost = holes.board.lost;
            news = holes.board.advance(self.una);
            let mut arrived = Sacked::default();
            for (from, to) in sack.into_iter().flat_map(Sack::iter) {
                holes.board.sack(from, to.min(self.backlog.nxt), &mut arrived);
            }
            news += arrived.segments;
            if is_linux && advanced == 0 && arrived.first_copies > 0 {
                self.rtt.sample(u64::from(timestamp(now).wrapping_sub(ack.echo)) * 1000);
                is_alive = holes.board.first_again().is_some_and(|again| is_older(ack.echo, again));
            }
            let originals = lost - holes.board.lost;
            if is_linux && news > 0 {
                holes.board.find_lost_again(ack.echo);
            }
            let waits = is_linux && holes.recover.is_none() && holes.board.sacked > 0;
            holes.settled_at = match holes.settled_at {
                _ if !waits => u64::MAX,
                u64::MAX => now + self.rtt.tolerance(),
                at => at,
            };
            self.undo_timeout(advanced, ack.echo, originals);
        }
        if news > 0 {
            self.probe_answered(ack.echo, in_flight, config);
        }
        // While segments arrive that left before the retransmission of the first one, that has not had its
        // time (`tcp_clean_rtx_queue` in Linux).
        if is_alive {
            self.rto_at = if self.una == self.backlog.nxt {
                u64::MAX
            } else {
                now.saturating_add(self.rtt.timeout(config))
            };
        }
        self.recover(now, news, in_flight, config);
        if is_alive {
            self.plan_probe(now, config);
        }
        news > 0
    }

    /// Handles a retransmission timeout (RFC 6298 section 5, RFC 5681 section 3.1).
    fn timed_out(&mut self, now: u64, transport: &Transport) -> bool {
        let Some(config) = transport.control.tcp() else { return true };
        if self.backlog.nxt == self.una {
            (self.rto_at, self.probe_at) = (u64::MAX, u64::MAX);
            return true;
        }
        let in_flight = self.backlog.nxt - self.una;
        if let Some(holes) = self.holes.as_mut().filter(|holes| holes.settled_at <= now) {
            (holes.threshold, holes.settled_at) = (1, u64::MAX);
            self.recover(now, 0, in_flight, config);
            return false;
        }
        if self.probe_at <= now {
            (self.probe, self.probe_at) = (Probe::Due, u64::MAX);
            // Until it leaves.
            self.rto_at = now.saturating_add(self.rtt.timeout(config));
            return false;
        }
        (self.probe, self.probe_at) = (Probe::Off, u64::MAX);
        let una = self.una;
        let nxt = self.backlog.nxt;
        let holes = self.holes.get_or_insert_with(|| Box::new(Holes::new(una)));
        if config.recovery == Recovery::Linux && holes.recover.is_none() {
            holes.undo = Some(Undo { since: timestamp(now), window: self.window, is_first: true });
        }
        // A second timeout in the same recovery must not halve the threshold again (RFC 5681,
        // equation 4).
        if !holes.timeout {
            let flight = self.flight(in_flight, config);
            self.controller.on_timeout(&mut self.window, flight);
        }
        let Some(holes) = &mut self.holes else { return true };
        holes.board.all_lost(nxt);
        holes.settled_at = u64::MAX;
        holes.recover = Some(nxt);
        holes.timeout = true;
        self.window.size = f64::from(config.loss_window);
        if self.stalled_since == 0 {
            self.stalled_since = now;
        }
        self.rtt.back_off();
        self.rto_at = now.saturating_add(self.rtt.timeout(config));
        true
    }
}

/// Returns a time as packets carry it: in microseconds modulo 2^32.
pub(crate) const fn timestamp(nanos: u64) -> u32 {
    (nanos / 1000) as u32
}

/// Returns true if a timestamp precedes another one by at most half of their range.
const fn is_older(stamp: u32, than: u32) -> bool {
    stamp.wrapping_sub(than) > u32::MAX / 2
}

/// The round-trip estimator of one direction. Times in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RttEstimator {
    /// The smoothed round-trip time, 0 before the first sample.
    smoothed: u64,
    variation: u64,
    /// The last sample, 0 before the first.
    last: u64,
    /// The least sample in microseconds.
    least: u32,
    /// Number of doublings of the timeout since the last new acknowledgement.
    backoff: u8,
}

/// About the payload of a full segment, in bytes.
const SEGMENT: u32 = 1_448;

/// The time of a probe beyond two round trips: two ticks of the kernel's clock (`TCP_TIMEOUT_MIN`).
const PROBE_SLACK: u64 = 2_000_000;

/// The upper limit of the timeout (RFC 6298 allows any limit of at least 60 s; Linux has 120 s).
const MAX_RTO: u64 = 120_000_000_000;

impl RttEstimator {
    const fn new() -> Self {
        Self { smoothed: 0, variation: 0, last: 0, least: u32::MAX, backoff: 0 }
    }

    /// Adds a sample: RFC 6298 (2.2) and (2.3) with alpha = 1/8 and beta = 1/4.
    fn sample(&mut self, rtt: u64) {
        self.last = rtt;
        self.least = self.least.min(timestamp(rtt));
        if self.smoothed == 0 {
            self.smoothed = rtt.max(1);
            self.variation = rtt / 2;
        } else {
            self.variation = (3 * self.variation + self.smoothed.abs_diff(rtt)) / 4;
            self.smoothed = (7 * self.smoothed + rtt) / 8;
        }
    }

    /// Returns the shortest round trip so far.
    fn least(&self) -> u64 {
        u64::from(self.least) * 1000
    }

    /// Returns how long a segment may be late before a later one proves its loss (`tcp_rack_reo_wnd`).
    fn tolerance(&self) -> u64 {
        (self.least() / 4).min(self.smoothed / 8)
    }

    fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(10);
    }

    pub(crate) fn timeout(&self, config: &TcpConfig) -> u64 {
        let floor = config.min_rto.as_nanos() as u64;
        let base = match config.rto_floor {
            _ if self.smoothed == 0 => config.initial_rto.as_nanos() as u64,
            RtoFloor::Sum => (self.smoothed + 4 * self.variation).max(floor),
            RtoFloor::Variation => self.smoothed + (4 * self.variation).max(floor),
        };
        (base << self.backoff).min(MAX_RTO)
    }
}

/// Number of arrived segments above a hole after which it counts as lost (DupThresh, RFC 6675
/// section 2).
const DUP_THRESHOLD: u32 = 3;

const SACKED: u8 = 1;
const LOST: u8 = 2;
const SENT_AGAIN: u8 = 4;

/// The state of the segments from the first unacknowledged one on.
#[derive(Debug, Default)]
struct Scoreboard {
    first: u32,
    states: VecDeque<u8>,
    /// Number of segments that arrived beyond a hole.
    sacked: u32,
    /// Number of segments that count as lost and were not retransmitted yet.
    lost: u32,
    /// No segment before this one waits for retransmission.
    hint: u32,
    /// The retransmitted segments with the times as packets carry them, in the order in which they left.
    again: VecDeque<(u32, u32)>,
}

/// The segments beyond a hole in an acknowledgement.
#[derive(Debug, Default)]
struct Sacked {
    /// Number of segments that were not known to have arrived.
    segments: u32,
    /// Number of these that were not retransmitted.
    first_copies: u32,
}

impl Scoreboard {
    fn new(una: u32) -> Self {
        Self { first: una, hint: una, ..Self::default() }
    }

    /// Returns the number of segments that are not in the network: arrived or lost.
    fn absent(&self) -> u32 {
        self.sacked + self.lost
    }

    fn has_lost(&self) -> bool {
        self.lost > 0
    }

    /// Marks everything before `una` as arrived. Returns how many of these segments are news.
    fn advance(&mut self, una: u32) -> u32 {
        let mut news = 0;
        while self.first < una {
            let state = self.states.pop_front().unwrap_or(0);
            self.first += 1;
            if state & SACKED != 0 {
                self.sacked -= 1;
            } else {
                news += 1;
                if state & (LOST | SENT_AGAIN) == LOST {
                    self.lost -= 1;
                }
            }
        }
        self.hint = self.hint.max(una);
        while self.again.front().is_some_and(|(seq, _)| *seq < una) {
            self.again.pop_front();
        }
        news
    }

    /// Returns the time of the retransmission of the first segment, if it was retransmitted.
    fn first_again(&self) -> Option<u32> {
        self.again.front().filter(|(seq, _)| *seq == self.first).map(|(_, stamp)| *stamp)
    }

    /// Marks the segments `from..to` as arrived.
    fn sack(&mut self, from: u32, to: u32, arrived: &mut Sacked) {
        for seq in from.max(self.first)..to {
            let state = self.state_mut(seq);
            if *state & SACKED == 0 {
                let was_waiting = *state & (LOST | SENT_AGAIN) == LOST;
                *state |= SACKED;
                arrived.segments += 1;
                arrived.first_copies += u32::from(*state & SENT_AGAIN == 0);
                self.sacked += 1;
                if was_waiting {
                    self.lost -= 1;
                }
            }
        }
    }

    /// Marks segments with enough arrivals above them as lost. Returns true if there is anything to
    /// retransmit.
    fn find_lost(&mut self, threshold: u32) -> bool {
        let mut above = self.sacked;
        for state in &mut self.states {
            if above < threshold {
                break;
            }
            if *state & SACKED != 0 {
                above -= 1;
            } else if *state & LOST == 0 {
                *state |= LOST;
                self.lost += 1;
            }
        }
        self.hint = self.first;
        self.lost > 0
    }

    /// Marks retransmitted segments as lost again if a segment that left later has arrived (RACK, RFC 8985,
    /// without tolerance for packets in another order).
    fn find_lost_again(&mut self, arrived: u32) {
        let (first, states, lost) = (self.first, &mut self.states, &mut self.lost);
        self.again.retain(|(seq, stamp)| {
            let is_lost = is_older(*stamp, arrived);
            let state = seq.checked_sub(first).and_then(|at| states.get_mut(at as usize));
            if let Some(state) = state.filter(|state| is_lost && **state & SACKED == 0) {
                *state = LOST;
                *lost += 1;
            }
            !is_lost
        });
        self.hint = self.first;
    }

    /// Marks everything up to `nxt` that has not arrived as lost, after a timeout (RFC 5681 section
    /// 3.1). Segments that were retransmitted before are retransmitted again.
    fn all_lost(&mut self, nxt: u32) {
        if nxt > self.first {
            self.state_mut(nxt - 1);
        }
        self.lost = 0;
        self.again.clear();
        for state in &mut self.states {
            if *state & SACKED == 0 {
                *state = LOST;
                self.lost += 1;
            }
        }
        self.hint = self.first;
    }

    /// Forgets what counts as lost: what has not arrived is in the network.
    fn none_lost(&mut self) {
        self.states.iter_mut().for_each(|state| *state &= SACKED);
        self.lost = 0;
        self.again.clear();
    }

    /// Takes the first segment to retransmit. It leaves at a time, as packets carry it.
    fn take_lost(&mut self, stamp: u32) -> Option<u32> {
        if self.lost == 0 {
            return None;
        }
        let start = (self.hint - self.first) as usize;
        for (i, state) in self.states.iter_mut().enumerate().skip(start) {
            if *state & (LOST | SACKED | SENT_AGAIN) == LOST {
                *state |= SENT_AGAIN;
                self.lost -= 1;
                let seq = self.first + i as u32;
                self.hint = seq + 1;
                self.again.push_back((seq, stamp));
                return Some(seq);
            }
        }
        debug_assert!(false, "the count of lost segments is wrong");
        None
    }

    fn state_mut(&mut self, seq: u32) -> &mut u8 {
        let index = (seq - self.first) as usize;
        if self.states.len() <= index {
            self.states.resize(index + 1, 0);
        }
        &mut self.states[index]
    }
}
