//! The congestion window, NewReno as in RFC 9002 section 7 and appendix B, and the pacer that
//! spreads it over a round trip.
//!
//! quic-go and quinn use CUBIC by default. The TCP model here uses NewReno by default, and the two
//! models should differ only in the properties of QUIC as a transport.

use crate::explain::Cause;

/// The minimum window, in full packets (kMinimumWindow, RFC 9002 section 7.2).
const MINIMUM_PACKETS: u64 = 2;

/// The window of one direction in bytes. Times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewReno {
    pub(super) window: u64,
    threshold: u64,
    /// Packets sent until this time belong to the loss for which the window was reduced.
    recovery_from: Option<u64>,
    datagram: u64,
    most: u64,
}

impl NewReno {
    /// Creates a window. `datagram` is the size of a full packet; the window stays between 2 of
    /// them and `most` bytes.
    pub(super) fn new(initial_packets: u32, datagram: u32, most: u64) -> Self {
        let datagram = u64::from(datagram);
        let window = u64::from(initial_packets) * datagram;
        Self { window, threshold: u64::MAX, recovery_from: None, datagram, most: most.max(window) }
    }

    pub(super) fn packets(&self) -> f64 {
        self.window as f64 / self.datagram as f64
    }

    /// Returns why the window is not larger. `repairs` says whether lost data wait.
    pub(super) fn cause(&self, repairs: bool) -> Cause {
        match self.recovery_from {
            _ if repairs => Cause::Loss,
            None if self.threshold == u64::MAX => Cause::SlowStart,
            _ if self.window >= self.threshold => Cause::Avoidance,
            _ => Cause::Recovery,
        }
    }

    /// Returns true if another packet may join this many bytes in flight. Like quinn, requires room
    /// for a full packet.
    pub(super) const fn admits(&self, in_flight: u64) -> bool {
        in_flight + self.datagram <= self.window
    }

    /// Returns true if the window limits the sender, so that it may grow (RFC 9002 section 7.8).
    /// Uses the rule of quic-go (`isCwndLimited` in `internal/congestion/cubic_sender.go`): more
    /// than half of the window is used in slow start, or all but three packets.
    pub(super) const fn limits(&self, in_flight: u64) -> bool {
        let slow_start = self.window < self.threshold;
        in_flight + 3 * self.datagram >= self.window || (slow_start && in_flight > self.window / 2)
    }

    /// Handles the arrival of a packet of `bytes` (`OnPacketAcked`). The window grows if it limited
    /// the sender.
    pub(super) fn acknowledged(&mut self, bytes: u32, sent_at: u64, limited: bool) {
        if !limited || self.in_recovery(sent_at) {
            return;
        }
        self.window += if self.window < self.threshold {
            u64::from(bytes)
        } else {
            self.datagram * u64::from(bytes) / self.window
        };
        self.window = self.window.min(self.most);
    }

    /// Handles the loss of packets, the last of which was sent at `sent_at` (`OnCongestionEvent`).
    pub(super) fn lost(&mut self, sent_at: u64, now: u64) {
        if self.in_recovery(sent_at) {
            return;
        }
        self.recovery_from = Some(now);
        self.threshold = (self.window / 2).max(MINIMUM_PACKETS * self.datagram);
        self.window = self.threshold;
    }

    /// Resets the window after persistent congestion, which suggests another path (RFC 9002 section
    /// 7.6).
    pub(super) fn collapse(&mut self) {
        self.window = MINIMUM_PACKETS * self.datagram;
        self.recovery_from = None;
    }

    fn in_recovery(&self, sent_at: u64) -> bool {
        self.recovery_from.is_some_and(|from| sent_at <= from)
    }
}

/// The bucket fills at 5/4 of a window in a round trip (the N = 1.25 of RFC 9002 section 7.7; quinn
/// and quic-go).
const GAIN: (u128, u128) = (5, 4);
/// Minimum and maximum size of the bucket, in full packets (quinn `MIN_BURST_SIZE`,
/// `MAX_BURST_SIZE`; quic-go `maxBurstSizePackets` is also 10).
const BURST_PACKETS: (u64, u64) = (10, 256);
/// Between these bounds, the bucket holds as much as the window lets out in this time (quinn
/// `BURST_INTERVAL_NANOS`).
const BURST_NANOS: u128 = 2_000_000;

/// Spreads a window over a round trip (RFC 9002 section 7.7): a bucket of bytes that fills slightly
/// faster than the window empties, as in quinn (`quinn-proto/src/connection/pacing.rs`). The pacer
/// of quic-go (`internal/congestion/pacer.go`) has the same rate and the same minimum burst, but
/// releases single packets. Times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacer {
    tokens: u64,
    filled_at: u64,
    /// The time at which the next packet may leave; 0 if it may leave now.
    held_until: u64,
    datagram: u64,
}

impl Pacer {
    /// Creates a full bucket. `datagram` is the size of a full packet.
    pub(super) fn new(datagram: u32) -> Self {
        let datagram = u64::from(datagram);
        Self { tokens: BURST_PACKETS.0 * datagram, filled_at: 0, held_until: 0, datagram }
    }

    pub(super) const fn holds(&self) -> bool {
        self.held_until != 0
    }

    /// Returns the time at which the next packet may leave if nothing changes; `u64::MAX` if it may
    /// leave now.
    pub(super) const fn timer_at(&self) -> u64 {
        if self.holds() { self.held_until } else { u64::MAX }
    }

    pub(super) fn sent(&mut self, bytes: u32) {
        self.tokens = self.tokens.saturating_sub(u64::from(bytes));
    }

    /// Decides whether the next packet must wait. Like quinn, fills the bucket only once it holds
    /// less than a packet; if it still holds less then, the packet waits until the bucket is full.
    /// Nothing waits without a measured round trip (0).
    pub(super) fn update(&mut self, now: u64, window: u64, round_trip: u64) {
        self.held_until = 0;
        if round_trip == 0 {
            return;
        }
        let (window, round_trip) = (u128::from(window.max(1)), u128::from(round_trip));
        let (least, most) = (BURST_PACKETS.0 * self.datagram, BURST_PACKETS.1 * self.datagram);
        let capacity = ((window * BURST_NANOS / round_trip) as u64).clamp(least, most);
        self.tokens = self.tokens.min(capacity);
        if self.tokens >= self.datagram {
            return;
        }
        let elapsed = u128::from(now - self.filled_at);
        let filled = window * GAIN.0 * elapsed / (GAIN.1 * round_trip);
        self.tokens = (u128::from(self.tokens) + filled).min(u128::from(capacity)) as u64;
        self.filled_at = now;
        if self.tokens < self.datagram {
            let missing = u128::from(capacity - self.tokens);
            self.held_until = now + (missing * GAIN.1 * round_trip).div_ceil(window * GAIN.0) as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000_000;

    /// Returns how many packets of 1,000 bytes leave at once.
    fn leave(pacer: &mut Pacer, now: u64, window: u64, round_trip: u64) -> usize {
        let mut packets = 0;
        pacer.update(now, window, round_trip);
        while !pacer.holds() && packets < 1000 {
            packets += 1;
            pacer.sent(1000);
            pacer.update(now, window, round_trip);
        }
        packets
    }

    #[test]
    fn full_bucket_releases_ten_packets_at_once() {
        let mut pacer = Pacer::new(1000);
        // 40 packets in 100 ms, and a quarter more: 10 packets take 20 ms.
        assert_eq!(
            leave(&mut pacer, 100 * MILLI, 40_000, 100 * MILLI),
            20,
            "one full bucket, and its refill"
        );
        assert_eq!(pacer.timer_at(), 120 * MILLI);
        assert_eq!(leave(&mut pacer, 120 * MILLI, 40_000, 100 * MILLI), 10);
        // An acknowledgement on the way releases the packets available then: 2 packets after 4 ms.
        assert_eq!(leave(&mut pacer, 124 * MILLI, 40_000, 100 * MILLI), 2);
        assert_eq!(pacer.timer_at(), 144 * MILLI);
    }

    #[test]
    fn fast_paths_have_longer_bursts() {
        let mut pacer = Pacer::new(1000);
        // 2 ms of a window of 1,000 packets in 20 ms are 100 packets.
        leave(&mut pacer, 50 * MILLI, 1_000_000, 20 * MILLI);
        assert_eq!(pacer.timer_at(), 50 * MILLI + 1_600_000);
        assert_eq!(leave(&mut pacer, 50 * MILLI + 1_600_000, 1_000_000, 20 * MILLI), 100);
    }

    #[test]
    fn packets_do_not_wait_before_the_first_round_trip_sample() {
        let mut pacer = Pacer::new(1000);
        assert_eq!(leave(&mut pacer, MILLI, 40_000, 0), 1000);
        assert_eq!(pacer.timer_at(), u64::MAX);
    }
}
