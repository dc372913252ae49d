//! The congestion window, NewReno as in RFC 9002 section 7 and appendix B, and the pacer that
//! spreads it over a round trip.
//!
//! quinn uses CUBIC by default. The TCP model here uses NewReno by default, and the two models should
//! differ only in the properties of QUIC as a transport. quic-go uses a Reno of its own
//! (`internal/congestion/cubic_sender.go`): see [`QuicBehaviour::QuicGo`].

use super::{GRANULARITY, QuicBehaviour};
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
    /// Only in quic-go.
    delay: Option<DelayIncrease>,
}

/// The factor of quic-go's window after a loss in percent (`renoBeta`); RFC 9002 has a half
/// (kLossReductionFactor).
const QUIC_GO_BETA_PERCENT: u64 = 70;

impl NewReno {
    /// Creates a window. `datagram` is the size of a full packet; the window stays between 2 of
    /// them and `most` bytes.
    pub(super) fn new(initial_packets: u32, datagram: u32, most: u64, behaviour: QuicBehaviour) -> Self {
        let datagram = u64::from(datagram);
        let window = u64::from(initial_packets) * datagram;
        let delay = (behaviour == QuicBehaviour::QuicGo).then(DelayIncrease::default);
        Self { window, threshold: u64::MAX, recovery_from: None, datagram, most: most.max(window), delay }
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
    /// for a full packet; quic-go sends if there is any room.
    pub(super) const fn admits(&self, in_flight: u64) -> bool {
        let needed = if self.delay.is_some() { 1 } else { self.datagram };
        in_flight + needed <= self.window
    }

    /// Ends slow start if the round trip has become longer, in quic-go. `last_sent` is the number of
    /// the last packet.
    pub(super) fn sampled(&mut self, latest: u64, least: u64, last_sent: u32) {
        let Some(delay) = &mut self.delay else { return };
        if self.window < self.threshold
            && delay.is_found(latest, least, last_sent)
            && self.window >= DELAY_WINDOW_PACKETS * self.datagram
        {
            self.threshold = self.window;
        }
    }

    /// Ends the round of a delay measurement once a packet that was sent after its start has
    /// arrived.
    pub(super) fn arrived(&mut self, number: u32) {
        if self.window < self.threshold
            && let Some(delay) = &mut self.delay
            && delay.round_end.is_some_and(|end| end < number)
        {
            delay.round_end = None;
        }
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
            if self.delay.is_some() { self.datagram } else { u64::from(bytes) }
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
        let percent = if self.delay.is_some() { QUIC_GO_BETA_PERCENT } else { 50 };
        self.threshold = (self.window * percent / 100).max(MINIMUM_PACKETS * self.datagram);
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

/// HyStart exits slow start from this window on (quic-go, `hybridStartLowWindow`).
const DELAY_WINDOW_PACKETS: u64 = 16;
/// Number of samples of a round (`hybridStartMinSamples`).
const DELAY_SAMPLES: u32 = 8;
/// Minimum and maximum increase of the round trip that ends slow start (4 and 16 ms,
/// `hybridStartDelayMinThresholdUs`, `hybridStartDelayMaxThresholdUs`); between them, an eighth.
const DELAY_INCREASE: (u64, u64) = (4_000_000, 16_000_000);

/// The delay part of HyStart, as in quic-go (`internal/congestion/hybrid_slow_start.go`): the lowest
/// of the first eight round trips of a round is compared with the lowest of all.
#[derive(Clone, Copy, Debug, Default)]
struct DelayIncrease {
    /// The last packet that was sent before the round; `None` between rounds.
    round_end: Option<u32>,
    /// The lowest round trip of the round in nanoseconds.
    least: u64,
    samples: u32,
    found: bool,
}

impl DelayIncrease {
    fn is_found(&mut self, latest: u64, least: u64, last_sent: u32) -> bool {
        if self.round_end.is_none() {
            (self.round_end, self.least, self.samples) = (Some(last_sent), u64::MAX, 0);
        }
        self.samples += 1;
        if self.samples <= DELAY_SAMPLES {
            self.least = self.least.min(latest);
        }
        if self.samples == DELAY_SAMPLES {
            let increase = (least / 8).clamp(DELAY_INCREASE.0, DELAY_INCREASE.1);
            self.found |= self.least > least + increase;
        }
        self.found
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
    fn quic_go_leaves_slow_start_when_the_round_trip_grows() {
        let packets = |window: &NewReno| window.window / 1000;
        let mut window = NewReno::new(32, 1000, u64::MAX, QuicBehaviour::QuicGo);
        // The first round: 100 ms.
        (0..8).for_each(|_| window.sampled(100 * MILLI, 100 * MILLI, 31));
        window.acknowledged(1000, 1, true);
        window.arrived(32);
        assert_eq!(packets(&window), 33, "slow start");
        // 12.4 ms more are too few, and 12.6 ms end slow start after eight samples.
        (0..8).for_each(|_| window.sampled(112_400_000, 100 * MILLI, 60));
        window.acknowledged(1000, 1, true);
        window.arrived(61);
        assert_eq!(packets(&window), 34);
        (0..7).for_each(|_| window.sampled(112_600_000, 100 * MILLI, 90));
        window.acknowledged(1000, 1, true);
        window.sampled(112_600_000, 100 * MILLI, 90);
        (0..35).for_each(|_| window.acknowledged(1000, 1, true));
        assert_eq!(packets(&window), 35, "one packet for each round trip, rounded down");
        // A loss leaves 70 %.
        let before = window.window;
        window.lost(5, 6);
        assert_eq!(window.window, before * 7 / 10);
    }

    #[test]
    fn packets_do_not_wait_before_the_first_round_trip_sample() {
        let mut pacer = Pacer::new(1000, QuicBehaviour::Rfc);
        assert_eq!(leave(&mut pacer, MILLI, 40_000, 0), 1000);
        assert_eq!(pacer.timer_at(), u64::MAX);
    }
}
