//! Spreads a window over a round trip (RFC 9002 section 7.7): a bucket of bytes that fills somewhat faster than the window
//! empties, as quinn has it (`quinn-proto/src/connection/pacing.rs`). quic-go's
//! (`internal/congestion/pacer.go`) has the same rate and the same least burst, but lets single packets go.

/// The bucket fills at 5/4 of a window in a round trip (the N = 1.25 of RFC 9002 section 7.7; quinn and quic-go).
const GAIN: (u128, u128) = (5, 4);
/// What the bucket holds at least and at most, in full packets (quinn `MIN_BURST_SIZE`, `MAX_BURST_SIZE`; quic-go
/// `maxBurstSizePackets` is 10, too).
const BURST_PACKETS: (u64, u64) = (10, 256);
/// In between, what the window lets out in this time (quinn `BURST_INTERVAL_NANOS`).
const BURST_NANOS: u128 = 2_000_000;

/// The pacer of one direction. Times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacer {
    /// Bytes that may leave at once.
    tokens: u64,
    /// When tokens were last added.
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

    /// A packet left.
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
