//! Congestion control of TCP and QUIC: how the window grows with acknowledgements, and how it falls
//! after losses.
//!
//! An algorithm is a [`Controller`] and a file here. The sender owns the [`Window`] and repairs losses.
//! It calls, in this order for each acknowledgement: `on_round_trip` if it measured one;
//! `on_congestion_event` if the acknowledgement proves a loss, and then takes the window to the new
//! threshold, at once (RFC 6675, RFC 9002) or in proportion to arrivals (RFC 6937); `on_ack` for data
//! that left outside of a recovery, if the window was used; `on_end_acks`.

mod cubic;
mod new_reno;
mod quic_go;

use std::fmt::Debug;

pub(super) use cubic::Cubic;
pub(super) use new_reno::NewReno;
pub(super) use quic_go::QuicGo;

/// A congestion control algorithm. Times in nanoseconds.
pub(super) trait Controller: Debug + Send {
    /// Handles a measured round trip.
    fn on_round_trip(&mut self, _window: &mut Window, _sample: &RoundTrip) {}

    /// Grows the window, which limited the sender, after the arrival of `acked` in its unit.
    fn on_ack(&mut self, window: &mut Window, acked: f64, now: u64);

    /// Handles the end of an acknowledgement; `largest` is the largest number that arrived.
    fn on_end_acks(&mut self, _window: &mut Window, _largest: u32) {}

    /// Lowers the threshold after a loss. `flight` is what a sender with NewReno reduces: the window,
    /// or the data in flight (RFC 5681, equation 4).
    fn on_congestion_event(&mut self, window: &mut Window, flight: f64);

    /// Lowers the threshold after a retransmission timeout.
    fn on_timeout(&mut self, window: &mut Window, flight: f64) {
        self.on_congestion_event(window, flight);
    }

    /// Excludes an idle time, in which the window could not have grown: nothing was sent since
    /// `last_sent`, and nothing is in flight.
    fn on_idle(&mut self, _now: u64, _last_sent: u64) {}
}

/// A measured round trip. Numbers are of segments (TCP) or packets (QUIC).
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundTrip {
    pub(super) now: u64,
    pub(super) latest: u64,
    /// The shortest one of the connection so far.
    pub(super) least: u64,
    /// The first number that is not acknowledged.
    pub(super) una: u32,
    /// The number that leaves next.
    pub(super) nxt: u32,
}

/// The least threshold, in full packets (RFC 5681, equation 4; kMinimumWindow, RFC 9002 section 7.2).
pub(super) const MINIMUM: f64 = 2.0;

/// The congestion window of one direction.
///
/// TCP counts packets and a part of the next one, as Linux does (`snd_cwnd`, `snd_cwnd_cnt`). QUIC
/// counts whole bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) size: f64,
    /// The size at which slow start ends; infinite before the first loss.
    pub(super) threshold: f64,
    /// The size of a full packet: 1 if the unit is packets.
    full: f64,
}

impl Window {
    /// Creates a window that counts packets.
    pub(super) const fn of_packets(initial: f64) -> Self {
        Self { size: initial, threshold: f64::INFINITY, full: 1.0 }
    }

    /// Creates a window that counts bytes, where a full packet has this many.
    pub(super) fn of_bytes(initial_packets: u32, full: u32) -> Self {
        let full = f64::from(full);
        Self { size: f64::from(initial_packets) * full, threshold: f64::INFINITY, full }
    }

    pub(super) fn packets(&self) -> f64 {
        self.size / self.full
    }

    /// Returns the size of a window that counts bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.size as u64
    }

    /// Returns this many full packets in the unit of the window.
    pub(super) fn of_full(&self, packets: f64) -> f64 {
        self.whole(packets * self.full)
    }

    pub(super) fn is_slow_start(&self) -> bool {
        self.size < self.threshold
    }

    /// Returns true if a full packet may join those in flight.
    pub(super) fn admits(&self, in_flight: f64) -> bool {
        in_flight + self.full <= self.size
    }

    /// Grows by what has arrived, up to the threshold but by a packet at least (RFC 5681 section 3.1).
    fn slow_start(&mut self, acked: f64) {
        self.size = (self.size + acked).min(self.threshold.max(self.size + self.full));
    }

    /// Grows by a packet in each round trip (RFC 5681 section 3.1, RFC 9002 section 7.3.3).
    fn avoid_congestion(&mut self, acked: f64) {
        self.size += self.whole(self.full * acked / self.size);
    }

    fn lower_threshold(&mut self, to: f64) {
        self.threshold = to.max(self.of_full(MINIMUM));
    }

    /// Ends slow start at the current size.
    fn end_slow_start(&mut self) {
        self.threshold = self.size;
    }

    /// Undoes a reduction (RFC 4015).
    pub(super) fn restore(&mut self, before: &Self) {
        *self = Self { size: self.size.max(before.size), ..*before };
    }

    fn whole(&self, size: f64) -> f64 {
        if self.full > 1.0 { size.floor() } else { size }
    }
}

// ---- HyStart: the parts that Linux and quic-go share ----

/// The window in packets from which HyStart works (`hystart_low_window` in Linux,
/// `hybridStartLowWindow` in quic-go).
const HYSTART_WINDOW: f64 = 16.0;
/// Number of round trips of a round that are checked for a delay (`HYSTART_MIN_SAMPLES`,
/// `hybridStartMinSamples`).
const HYSTART_SAMPLES: u32 = 8;
/// The bounds of the delay that ends slow start, in nanoseconds (`HYSTART_DELAY_MIN` and
/// `HYSTART_DELAY_MAX`; `hybridStartDelayMinThresholdUs`, `hybridStartDelayMaxThresholdUs`).
const HYSTART_DELAY: (u64, u64) = (4_000_000, 16_000_000);

/// Returns true if a round trip is longer than the shortest one by an eighth, within the bounds
/// (`HYSTART_DELAY_THRESH`, `hybridStartDelayFactorExp`).
fn is_delayed(round_trip: u64, least: u64) -> bool {
    round_trip > least + (least / 8).clamp(HYSTART_DELAY.0, HYSTART_DELAY.1)
}
