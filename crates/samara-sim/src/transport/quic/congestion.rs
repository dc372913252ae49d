//! The congestion window, NewReno as in RFC 9002 section 7 and appendix B, and the pacer that spreads it over a round trip.
//!
//! quic-go and quinn have CUBIC by default. The model of TCP here has NewReno, and the two should differ in nothing but what
//! makes QUIC another transport.

/// The least window, in full packets (kMinimumWindow, RFC 9002 section 7.2).
const MINIMUM_PACKETS: u64 = 2;

/// The window of one direction in bytes. Times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewReno {
    pub(super) window: u64,
    threshold: u64,
    /// Packets that were sent until then belong to the loss that the window was reduced for.
    recovery_from: Option<u64>,
    datagram: u64,
    most: u64,
}

impl NewReno {
    /// `datagram` is the size of a full packet; the window stays between 2 of them and `most` bytes.
    pub(super) fn new(initial_packets: u32, datagram: u32, most: u64) -> Self {
        let datagram = u64::from(datagram);
        let window = u64::from(initial_packets) * datagram;
        Self { window, threshold: u64::MAX, recovery_from: None, datagram, most: most.max(window) }
    }

    pub(super) fn packets(&self) -> f64 {
        self.window as f64 / self.datagram as f64
    }

    /// Whether another packet may join so many bytes. As quinn does, room for a full one is waited for.
    pub(super) const fn admits(&self, in_flight: u64) -> bool {
        in_flight + self.datagram <= self.window
    }

    /// Whether the window is what limits the sender, so that it may grow (RFC 9002 section 7.8), by the rule of quic-go
    /// (`isCwndLimited` in `internal/congestion/cubic_sender.go`): more than half of it is used in slow start, or all but
    /// three packets.
    pub(super) const fn limits(&self, in_flight: u64) -> bool {
        let slow_start = self.window < self.threshold;
        in_flight + 3 * self.datagram >= self.window || (slow_start && in_flight > self.window / 2)
    }

    /// A packet of `bytes` arrived (`OnPacketAcked`). The window grows if it was what limited the sender.
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

    /// Packets were lost, the last of which was sent at `sent_at` (`OnCongestionEvent`).
    pub(super) fn lost(&mut self, sent_at: u64, now: u64) {
        if self.in_recovery(sent_at) {
            return;
        }
        self.recovery_from = Some(now);
        self.threshold = (self.window / 2).max(MINIMUM_PACKETS * self.datagram);
        self.window = self.threshold;
    }

    /// Nothing arrived for so long that the path must be another one (RFC 9002 section 7.6).
    pub(super) fn collapse(&mut self) {
        self.window = MINIMUM_PACKETS * self.datagram;
        self.recovery_from = None;
    }

    fn in_recovery(&self, sent_at: u64) -> bool {
        self.recovery_from.is_some_and(|from| sent_at <= from)
    }
}

/// The bucket fills at 5/4 of a window in a round trip (the N = 1.25 of RFC 9002 section 7.7; quinn and quic-go).
const GAIN: (u128, u128) = (5, 4);
/// What the bucket holds at least and at most, in full packets (quinn `MIN_BURST_SIZE`, `MAX_BURST_SIZE`; quic-go
/// `maxBurstSizePackets` is 10, too).
const BURST_PACKETS: (u64, u64) = (10, 256);
/// In between, what the window lets out in this time (quinn `BURST_INTERVAL_NANOS`).
const BURST_NANOS: u128 = 2_000_000;

/// Spreads a window over a round trip (RFC 9002 section 7.7): a bucket of bytes that fills somewhat faster than the window
/// empties, as quinn has it (`quinn-proto/src/connection/pacing.rs`). quic-go's (`internal/congestion/pacer.go`) has the same
/// rate and the same least burst, but lets single packets go. Times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacer {
    tokens: u64,
    filled_at: u64,
    /// When the next packet may leave; 0 if it may now.
    held_until: u64,
    datagram: u64,
}

impl Pacer {
    /// A full bucket. `datagram` is the size of a full packet.
    pub(super) fn new(datagram: u32) -> Self {
        let datagram = u64::from(datagram);
        Self { tokens: BURST_PACKETS.0 * datagram, filled_at: 0, held_until: 0, datagram }
    }

    pub(super) const fn holds(&self) -> bool {
        self.held_until != 0
    }

    /// When the next packet may leave if nothing changes; `u64::MAX` if it may now.
    pub(super) const fn timer_at(&self) -> u64 {
        if self.holds() { self.held_until } else { u64::MAX }
    }

    pub(super) fn sent(&mut self, bytes: u32) {
        self.tokens = self.tokens.saturating_sub(u64::from(bytes));
    }

    /// Finds out whether the next packet must wait. As in quinn, the bucket is filled only once it has less than a packet,
    /// and one that is still not full enough then is waited for until it is full. Without a measured round trip (0)
    /// nothing waits.
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

    /// Packets of 1,000 bytes that leave at once.
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
    fn ten_packets_leave_at_once_and_ten_more_when_the_bucket_is_full() {
        let mut pacer = Pacer::new(1000);
        // 40 packets in 100 ms, and a quarter more: 10 take 20 ms.
        assert_eq!(
            leave(&mut pacer, 100 * MILLI, 40_000, 100 * MILLI),
            20,
            "one bucket, and what came before"
        );
        assert_eq!(pacer.timer_at(), 120 * MILLI);
        assert_eq!(leave(&mut pacer, 120 * MILLI, 40_000, 100 * MILLI), 10);
        // An acknowledgement on the way lets go what there is: 2 packets after 4 ms.
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
    fn nothing_waits_before_the_first_round_trip() {
        let mut pacer = Pacer::new(1000);
        assert_eq!(leave(&mut pacer, MILLI, 40_000, 0), 1000);
        assert_eq!(pacer.timer_at(), u64::MAX);
    }
}
