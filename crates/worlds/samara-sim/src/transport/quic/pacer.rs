//! The pacer, which spreads a window over a round trip (RFC 9002 section 7.7).

use super::{GRANULARITY, QuicBehaviour};

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
/// releases packets as soon as there are tokens for one, at least 1 ms after the last. Times in
/// nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacer {
    behaviour: QuicBehaviour,
    tokens: u64,
    /// quic-go: bytes that left since the last update.
    taken: u64,
    filled_at: u64,
    /// The time at which the next packet may leave; 0 if it may leave now.
    held_until: u64,
    datagram: u64,
}

impl Pacer {
    /// Creates a full bucket. `datagram` is the size of a full packet.
    pub(super) fn new(datagram: u32, behaviour: QuicBehaviour) -> Self {
        let datagram = u64::from(datagram);
        let tokens = BURST_PACKETS.0 * datagram;
        Self { behaviour, tokens, taken: 0, filled_at: 0, held_until: 0, datagram }
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
        match self.behaviour {
            QuicBehaviour::Rfc => self.tokens = self.tokens.saturating_sub(u64::from(bytes)),
            QuicBehaviour::QuicGo => self.taken += u64::from(bytes),
        }
    }

    /// Decides whether the next packet must wait. Like quinn, fills the bucket only once it holds
    /// less than a packet; if it still holds less then, the packet waits until the bucket is full.
    /// Nothing waits without a measured round trip (0).
    pub(super) fn update(&mut self, now: u64, window: u64, round_trip: u64) {
        self.held_until = 0;
        if round_trip == 0 {
            self.taken = 0;
            return;
        }
        if self.behaviour == QuicBehaviour::QuicGo {
            self.release(now, u128::from(window.max(1)), u128::from(round_trip));
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

    /// Takes the bytes that left, and decides as quic-go: the next packet leaves if the bucket has
    /// tokens for it. The bucket holds what leaves in 2 ms (`MinPacingDelay` and
    /// `TimerGranularity`), but at least ten packets.
    fn release(&mut self, now: u64, window: u128, round_trip: u128) {
        let (gained, per) = (window * GAIN.0, GAIN.1 * round_trip);
        let burst = (gained * BURST_NANOS / per) as u64;
        let capacity = burst.max(BURST_PACKETS.0 * self.datagram);
        let budget = |elapsed: u64| (gained * u128::from(elapsed) / per) as u64;
        let tokens = (self.tokens + budget(now - self.filled_at)).min(capacity);
        if self.taken > 0 {
            // Only a packet that leaves updates the bucket.
            (self.tokens, self.filled_at) = (tokens.saturating_sub(self.taken), now);
            self.taken = 0;
        }
        let tokens = (self.tokens + budget(now - self.filled_at)).min(capacity);
        if tokens < self.datagram {
            let missing = u128::from(self.datagram.saturating_sub(self.tokens));
            let wait = (missing * per).div_ceil(gained) as u64;
            self.held_until = self.filled_at + wait.max(GRANULARITY);
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
        let mut pacer = Pacer::new(1000, QuicBehaviour::Rfc);
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
        let mut pacer = Pacer::new(1000, QuicBehaviour::Rfc);
        // 2 ms of a window of 1,000 packets in 20 ms are 100 packets.
        leave(&mut pacer, 50 * MILLI, 1_000_000, 20 * MILLI);
        assert_eq!(pacer.timer_at(), 50 * MILLI + 1_600_000);
        assert_eq!(leave(&mut pacer, 50 * MILLI + 1_600_000, 1_000_000, 20 * MILLI), 100);
    }

    #[test]
    fn quic_go_releases_packets_as_tokens_come() {
        let mut pacer = Pacer::new(1000, QuicBehaviour::QuicGo);
        // 40 packets in 100 ms, and a quarter more: one packet in 2 ms.
        assert_eq!(leave(&mut pacer, 100 * MILLI, 40_000, 100 * MILLI), 10, "a full bucket");
        assert_eq!(pacer.timer_at(), 102 * MILLI);
        assert_eq!(leave(&mut pacer, 102 * MILLI, 40_000, 100 * MILLI), 1);
        assert_eq!(pacer.timer_at(), 104 * MILLI);
        // On a fast path, 1 ms passes between two bursts: 2,500 packets in a second.
        let mut pacer = Pacer::new(1000, QuicBehaviour::QuicGo);
        leave(&mut pacer, 100 * MILLI, 200_000, 100 * MILLI);
        assert_eq!(pacer.timer_at(), 101 * MILLI);
        assert_eq!(leave(&mut pacer, 101 * MILLI, 200_000, 100 * MILLI), 2);
        // The bucket never holds more than ten packets, or 2 ms.
        assert_eq!(leave(&mut pacer, 900 * MILLI, 200_000, 100 * MILLI), 10);
        assert_eq!(leave(&mut pacer, 1_900 * MILLI, 2_000_000, 100 * MILLI), 50);
    }

    #[test]
    fn packets_do_not_wait_before_the_first_round_trip_sample() {
        let mut pacer = Pacer::new(1000, QuicBehaviour::Rfc);
        assert_eq!(leave(&mut pacer, MILLI, 40_000, 0), 1000);
        assert_eq!(pacer.timer_at(), u64::MAX);
    }
}
