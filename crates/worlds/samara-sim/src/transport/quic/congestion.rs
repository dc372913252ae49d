//! The congestion window of one direction, and the recovery period of RFC 9002 section 7.3.2.
//!
//! quinn uses CUBIC by default. The TCP model here uses NewReno by default, and the two models should
//! differ only in the properties of QUIC as a transport.

use super::QuicBehaviour;
use crate::explain::Cause;
use crate::transport::congestion::{Controller, MINIMUM, NewReno, QuicGo, Window};

/// The window of one direction in bytes. Times in nanoseconds.
#[derive(Debug)]
pub(super) struct Congestion {
    pub(super) window: Window,
    pub(super) controller: Box<dyn Controller>,
    behaviour: QuicBehaviour,
    /// Packets sent until this time belong to the loss for which the window was reduced.
    recovery_from: Option<u64>,
    most: f64,
}

impl Congestion {
    /// Creates a window. `datagram` is the size of a full packet; the window stays between 2 of
    /// them and `most_packets`.
    pub(super) fn new(
        initial_packets: u32,
        datagram: u32,
        most_packets: u32,
        behaviour: QuicBehaviour,
    ) -> Self {
        let window = Window::of_bytes(initial_packets, datagram);
        let most = window.of_full(f64::from(most_packets)).max(window.size);
        let controller: Box<dyn Controller> = match behaviour {
            QuicBehaviour::Rfc => Box::new(NewReno),
            QuicBehaviour::QuicGo => Box::<QuicGo>::default(),
        };
        Self { window, controller, behaviour, recovery_from: None, most }
    }

    /// Returns why the window is not larger. `repairs` says whether lost data wait.
    pub(super) fn cause(&self, repairs: bool) -> Cause {
        if repairs {
            Cause::Loss
        } else if self.window.threshold.is_infinite() {
            Cause::SlowStart
        } else if self.window.is_slow_start() {
            Cause::Recovery
        } else {
            Cause::Avoidance
        }
    }

    /// Returns true if another packet may join this many bytes in flight. Like quinn, requires room
    /// for a full packet; quic-go sends if there is any room.
    pub(super) fn admits(&self, in_flight: u64) -> bool {
        match self.behaviour {
            QuicBehaviour::Rfc => self.window.admits(in_flight as f64),
            QuicBehaviour::QuicGo => (in_flight as f64) < self.window.size,
        }
    }

    /// Returns true if the window limits the sender, so that it may grow (RFC 9002 section 7.8).
    /// Uses the rule of quic-go (`isCwndLimited` in `internal/congestion/cubic_sender.go`): more
    /// than half of the window is used in slow start, or all but three packets.
    pub(super) fn limits(&self, in_flight: u64) -> bool {
        let (in_flight, window) = (in_flight as f64, &self.window);
        in_flight + window.of_full(3.0) >= window.size
            || (window.is_slow_start() && in_flight > window.size / 2.0)
    }

    /// Handles the arrival of a packet of `bytes` (`OnPacketAcked`). The window grows if it limited
    /// the sender.
    pub(super) fn acknowledged(&mut self, bytes: u32, sent_at: u64, now: u64, limited: bool) {
        if limited && !self.in_recovery(sent_at) {
            self.controller.on_ack(&mut self.window, f64::from(bytes), now);
            self.window.size = self.window.size.min(self.most);
        }
    }

    /// Handles the loss of packets, the last of which was sent at `sent_at` (`OnCongestionEvent`).
    pub(super) fn lost(&mut self, sent_at: u64, now: u64) {
        if self.in_recovery(sent_at) {
            return;
        }
        self.recovery_from = Some(now);
        let flight = self.window.size;
        self.controller.on_congestion_event(&mut self.window, flight);
        self.window.size = self.window.threshold;
    }

    /// Resets the window after persistent congestion, which suggests another path (RFC 9002 section
    /// 7.6).
    pub(super) fn collapse(&mut self) {
        self.window.size = self.window.of_full(MINIMUM);
        self.recovery_from = None;
    }

    fn in_recovery(&self, sent_at: u64) -> bool {
        self.recovery_from.is_some_and(|from| sent_at <= from)
    }
}
