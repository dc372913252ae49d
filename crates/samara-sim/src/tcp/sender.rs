//! The sending half: frames in, segments out, as fast as the window allows.

use samara_engine::outbox::Room;

use super::cubic::Cubic;
use super::rtt::RttEstimator;
use super::scoreboard::Scoreboard;
use crate::backlog::{Backlog, Run, Segment};
use crate::config::{Congestion, SendBuffer, TcpConfig, Transport};
use crate::packet::Sack;

/// One direction, at its sender. Times in nanoseconds.
#[derive(Debug)]
pub(crate) struct Sender<F> {
    /// Written and not wholly acknowledged.
    backlog: Backlog<F>,
    una: u32,
    /// The receiver's window in packets.
    receive_window: u32,
    /// Packets, with a fraction for congestion avoidance.
    cwnd: f64,
    /// The largest congestion window so far: send buffers never shrink.
    cwnd_max: f64,
    ssthresh: f64,
    /// How the window grows and shrinks, if not as in NewReno.
    cubic: Option<Box<Cubic>>,
    rtt: RttEstimator,
    last_sent: u64,
    /// When the retransmission timer expires; `u64::MAX` if it is off.
    rto_at: u64,
    /// When the first timeout since the last acknowledgement of something new happened; 0 if none did.
    stalled_since: u64,
    /// Present while something is missing.
    holes: Option<Box<Holes>>,
}

#[derive(Debug)]
struct Holes {
    board: Scoreboard,
    /// Recovery ends when everything before this is acknowledged; `None` before it starts.
    recover: Option<u32>,
    /// Whether a timeout started it: the window then grows as in slow start.
    timeout: bool,
}

impl<F: Clone> Sender<F> {
    pub(crate) fn new(config: Option<&TcpConfig>) -> Self {
        Self {
            backlog: Backlog::new(),
            una: 0,
            receive_window: config.map_or(u32::MAX, |config| config.receive_window),
            cwnd: config.map_or(f64::INFINITY, |config| f64::from(config.initial_window)),
            cwnd_max: config.map_or(f64::INFINITY, |config| f64::from(config.initial_window)),
            ssthresh: f64::INFINITY,
            cubic: config
                .filter(|config| config.congestion == Congestion::Cubic)
                .map(|_| Box::new(Cubic::default())),
            rtt: RttEstimator::new(),
            last_sent: 0,
            rto_at: u64::MAX,
            stalled_since: 0,
            holes: None,
        }
    }

    /// Takes a frame of `len` encoded bytes.
    pub(crate) fn write(&mut self, frame: F, len: u32, rank: u64, transport: &Transport) {
        self.backlog.write(frame, len, rank, transport);
    }

    /// Takes segments that leave together. The windows let them all out now.
    pub(crate) fn write_run(&mut self, frame: F, run: Run) {
        debug_assert!(f64::from(run.segments) <= self.window_left());
        self.backlog.write_run(frame, run);
    }

    /// Whether a per-link queue may hand over another frame.
    pub(crate) fn has_buffer(&self, config: Option<&TcpConfig>, mss: u32) -> bool {
        self.backlog.buffered() < self.buffer_limit(config, mss)
    }

    /// Bytes of all frames that were written and not wholly acknowledged.
    pub(crate) const fn buffered(&self) -> u64 {
        self.backlog.buffered()
    }

    /// The size of the send buffer in bytes.
    pub(crate) fn buffer_limit(&self, config: Option<&TcpConfig>, mss: u32) -> u64 {
        match config.map(|config| config.send_buffer) {
            None => u64::from(4 * mss),
            Some(SendBuffer::Fixed { bytes }) => bytes,
            Some(SendBuffer::Auto { per_packet, min }) => {
                min.max((self.cwnd_max * f64::from(per_packet)) as u64)
            }
            Some(SendBuffer::Unsent { bytes }) => self.buffered().saturating_sub(self.unsent(mss)) + bytes,
        }
    }

    /// About so many bytes were never sent: the last segments of frames may be shorter.
    fn unsent(&self, mss: u32) -> u64 {
        u64::from(self.backlog.unsent()) * u64::from(mss)
    }

    /// Whether a segment that left has made room for frames, where what was never sent is what counts.
    pub(crate) fn has_room_again(&self, config: &TcpConfig, mss: u32) -> bool {
        matches!(config.send_buffer, SendBuffer::Unsent { bytes } if 2 * self.unsent(mss) < bytes)
    }

    /// How many new segments the windows let out beside those in flight. Segments that are to be sent again go before.
    pub(crate) fn window_left(&self) -> f64 {
        if self.lost_waiting() {
            return 0.0;
        }
        let received = self.receive_window.saturating_sub(self.backlog.nxt() - self.una);
        (self.cwnd - f64::from(self.pipe())).min(f64::from(received))
    }

    /// The receiver has room for so many packets beyond what it acknowledges. Returns how many it had before.
    pub(crate) fn set_receive_window(&mut self, window: u32) -> u32 {
        std::mem::replace(&mut self.receive_window, window)
    }

    /// Whether nothing is in flight and the receiver has no room.
    pub(crate) fn is_shut(&self) -> bool {
        self.receive_window == 0 && self.backlog.nxt() == self.una
    }

    /// The retransmission timeout in nanoseconds.
    pub(crate) fn timeout(&self, config: &TcpConfig) -> u64 {
        self.rtt.timeout(config)
    }

    /// A packet without data that the receiver answers, as it has had the segment: a probe of its window. Something was
    /// acknowledged before.
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

    /// Bytes of a frame written now that would leave as soon as the uplink is free.
    pub(crate) fn room(&self, mss: u32) -> Room {
        if self.backlog.has_new() || !self.receiver_open() || !self.window_open() || self.lost_waiting() {
            return Room::NONE;
        }
        let window = self.cwnd - f64::from(self.pipe());
        let received = self.receive_window - (self.backlog.nxt() - self.una);
        Room(window.min(f64::from(received)) as u64 * u64::from(mss))
    }

    /// Whether a segment can leave now.
    pub(crate) fn can_send(&self) -> bool {
        (self.lost_waiting() || (self.backlog.has_new() && self.receiver_open())) && self.window_open()
    }

    /// The write rank of the segment that leaves next.
    pub(crate) fn next_rank(&self) -> u64 {
        if self.lost_waiting() {
            return self.backlog.oldest_rank();
        }
        self.backlog.new_rank()
    }

    /// The smoothed round trip time in nanoseconds, 0 if unknown.
    pub(crate) fn srtt(&self) -> u64 {
        self.rtt.smoothed()
    }

    /// The congestion window in packets.
    pub(crate) fn cwnd(&self) -> f64 {
        self.cwnd
    }

    /// When the retransmission timer expires.
    pub(crate) fn rto_at(&self) -> u64 {
        self.rto_at
    }

    /// How long nothing new was acknowledged since a first timeout.
    pub(crate) fn stalled_for(&self, now: u64) -> u64 {
        if self.stalled_since == 0 { 0 } else { now - self.stalled_since }
    }

    fn lost_waiting(&self) -> bool {
        self.holes.as_ref().is_some_and(|holes| holes.board.has_lost())
    }

    fn pipe(&self) -> u32 {
        self.backlog.nxt() - self.una - self.holes.as_ref().map_or(0, |holes| holes.board.absent())
    }

    fn window_open(&self) -> bool {
        f64::from(self.pipe()) + 1.0 <= self.cwnd
    }

    fn receiver_open(&self) -> bool {
        self.backlog.nxt() - self.una < self.receive_window
    }

    /// The segment that leaves at `now`, if one can.
    pub(crate) fn pop(
        &mut self,
        now: u64,
        config: Option<&TcpConfig>,
        transport: &Transport,
    ) -> Option<Segment<F>> {
        let Some(config) = config else { return self.pop_ideal(transport) };
        if config.idle_restart && self.backlog.nxt() == self.una {
            self.restart_after_idle(now, config);
        }
        if !self.can_send() {
            return None;
        }
        if self.backlog.nxt() == self.una
            && self.last_sent > 0
            && let Some(cubic) = &mut self.cubic
        {
            cubic.was_idle(now, self.last_sent);
        }
        let lost = self.holes.as_mut().and_then(|holes| holes.board.take_lost());
        let segment = self.backlog.take(lost, timestamp(now), transport);
        self.last_sent = now;
        if self.rto_at == u64::MAX {
            self.rto_at = now.saturating_add(self.rtt.timeout(config));
        }
        Some(segment)
    }

    fn pop_ideal(&mut self, transport: &Transport) -> Option<Segment<F>> {
        let segment = self.backlog.take_and_forget(transport)?;
        self.una = self.backlog.nxt();
        Some(segment)
    }

    /// Linux's `tcp_cwnd_restart`: the window is halved for every timeout that the connection was idle, not below the
    /// initial window, and three quarters of it are kept as threshold.
    fn restart_after_idle(&mut self, now: u64, config: &TcpConfig) {
        let rto = self.rtt.timeout(config);
        let mut idle = now.saturating_sub(self.last_sent);
        if self.last_sent == 0 || idle <= rto {
            return;
        }
        self.ssthresh = self.ssthresh.max(self.cwnd * 0.75);
        let floor = f64::from(config.initial_window).min(self.cwnd);
        while idle > rto && self.cwnd > floor {
            self.cwnd = (self.cwnd / 2.0).floor();
            idle -= rto;
        }
        self.cwnd = self.cwnd.max(floor);
    }

    /// Takes an acknowledgement. Returns whether anything was news (there may be room now).
    pub(crate) fn acknowledged(
        &mut self,
        ack: u32,
        sack: Option<&Sack>,
        echo: u32,
        now: u64,
        config: &TcpConfig,
    ) -> bool {
        let in_flight = self.backlog.nxt() - self.una;
        let advanced = ack.saturating_sub(self.una).min(in_flight);
        if sack.is_some() && self.holes.is_none() {
            self.holes =
                Some(Box::new(Holes { board: Scoreboard::new(self.una), recover: None, timeout: false }));
        }
        if advanced > 0 {
            self.advance(self.una + advanced, echo, now);
        }
        let mut news = advanced;
        if let Some(holes) = &mut self.holes {
            news = holes.board.advance(self.una);
            for (from, to) in sack.into_iter().flat_map(Sack::iter) {
                news += holes.board.sack(from, to.min(self.backlog.nxt()));
            }
        }
        if advanced > 0 {
            self.rto_at = if self.una == self.backlog.nxt() {
                u64::MAX
            } else {
                now.saturating_add(self.rtt.timeout(config))
            };
        }
        self.recover(now, news, in_flight, config);
        news > 0
    }

    fn advance(&mut self, una: u32, echo: u32, now: u64) {
        let round_trip = u64::from(timestamp(now).wrapping_sub(echo)) * 1000;
        self.una = una;
        self.stalled_since = 0;
        self.rtt.progress();
        self.rtt.sample(round_trip);
        self.backlog.release(una);
        if let Some(cubic) = &mut self.cubic {
            let slow_start = (self.cwnd < self.ssthresh).then_some(self.cwnd);
            if cubic.acknowledged(now, round_trip, (una, self.backlog.nxt()), slow_start) {
                self.ssthresh = self.cwnd;
            }
        }
    }

    /// Fast recovery (RFC 6675 section 5) and growth of the window (RFC 5681 section 3.1, or RFC 9438).
    fn recover(&mut self, now: u64, news: u32, in_flight: u32, config: &TcpConfig) {
        let mut grows = true;
        if let Some(holes) = &mut self.holes {
            match holes.recover {
                Some(recover) if self.una >= recover => {
                    if !holes.timeout {
                        self.cwnd = self.ssthresh;
                    }
                    holes.recover = None;
                    holes.timeout = false;
                    grows = false;
                }
                Some(_) => {
                    holes.board.find_lost();
                    grows = holes.timeout;
                }
                None => {}
            }
            if holes.recover.is_none() && holes.board.find_lost() {
                self.ssthresh = match &mut self.cubic {
                    Some(cubic) => cubic.lost(self.cwnd),
                    None => f64::from((in_flight / 2).max(2)),
                };
                self.cwnd = self.ssthresh;
                holes.recover = Some(self.backlog.nxt());
                grows = false;
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
        let news = f64::from(news);
        if self.cwnd < self.ssthresh {
            if config.grow_unused || self.cwnd < 2.0 * f64::from(in_flight) {
                self.cwnd = (self.cwnd + news).min(self.ssthresh.max(self.cwnd + 1.0));
            }
        } else if config.grow_unused || f64::from(in_flight) + 1.0 > self.cwnd {
            self.cwnd += match &mut self.cubic {
                Some(cubic) => cubic.grow(now, self.cwnd, news),
                None => news / self.cwnd,
            };
        }
        self.cwnd = self.cwnd.min(f64::from(config.receive_window));
        self.cwnd_max = self.cwnd_max.max(self.cwnd);
    }

    /// The retransmission timer expired (RFC 6298 section 5, RFC 5681 section 3.1).
    pub(crate) fn timed_out(&mut self, now: u64, config: &TcpConfig) {
        if self.backlog.nxt() == self.una {
            self.rto_at = u64::MAX;
            return;
        }
        let in_flight = self.backlog.nxt() - self.una;
        let una = self.una;
        let nxt = self.backlog.nxt();
        let holes = self.holes.get_or_insert_with(|| {
            Box::new(Holes { board: Scoreboard::new(una), recover: None, timeout: false })
        });
        // A second timeout in the same recovery must not halve the threshold again (RFC 5681, equation 4).
        if !holes.timeout {
            self.ssthresh = match &mut self.cubic {
                Some(cubic) => cubic.timed_out(self.cwnd),
                None => f64::from((in_flight / 2).max(2)),
            };
        }
        holes.board.all_lost(nxt);
        holes.recover = Some(nxt);
        holes.timeout = true;
        self.cwnd = f64::from(config.loss_window);
        if self.stalled_since == 0 {
            self.stalled_since = now;
        }
        self.rtt.back_off();
        self.rto_at = now.saturating_add(self.rtt.timeout(config));
    }
}

/// A time as packets carry it: in microseconds modulo 2^32.
pub(crate) const fn timestamp(nanos: u64) -> u32 {
    (nanos / 1000) as u32
}
