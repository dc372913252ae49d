//! Reno as in quic-go (`internal/congestion/cubic_sender.go`), with the delay part of HyStart
//! (`hybrid_slow_start.go`).

use super::{Controller, HYSTART_SAMPLES, HYSTART_WINDOW, RoundTrip, Window, is_delayed};

/// The part of the window that is left after a loss, in percent (`renoBeta`).
const LEFT_PERCENT: f64 = 70.0;

/// In slow start, every packet counts as a full one.
///
/// Slow start also ends if the shortest of the first eight round trips of a round is longer than the
/// shortest of all.
#[derive(Debug, Default)]
pub(crate) struct QuicGo {
    /// The last packet that was sent before the round; `None` between rounds.
    round_end: Option<u32>,
    /// The shortest round trip of the round in nanoseconds.
    least: u64,
    samples: u32,
    /// True once a round was longer.
    found: bool,
}

impl Controller for QuicGo {
    fn on_round_trip(&mut self, window: &mut Window, sample: &RoundTrip) {
        if !window.is_slow_start() {
            return;
        }
        if self.round_end.is_none() {
            (self.round_end, self.least, self.samples) = (Some(sample.nxt.wrapping_sub(1)), u64::MAX, 0);
        }
        self.samples += 1;
        if self.samples <= HYSTART_SAMPLES {
            self.least = self.least.min(sample.latest);
        }
        self.found |= self.samples == HYSTART_SAMPLES && is_delayed(self.least, sample.least);
        if self.found && window.packets() >= HYSTART_WINDOW {
            window.end_slow_start();
        }
    }

    fn on_ack(&mut self, window: &mut Window, acked: f64, _now: u64) {
        if window.is_slow_start() {
            window.slow_start(window.full);
        } else {
            window.avoid_congestion(acked);
        }
    }

    /// Ends the round once a packet that was sent after its start has arrived.
    fn on_end_acks(&mut self, window: &mut Window, largest: u32) {
        if window.is_slow_start() {
            self.round_end.take_if(|end| *end < largest);
        }
    }

    fn on_congestion_event(&mut self, window: &mut Window, flight: f64) {
        window.lower_threshold((flight * LEFT_PERCENT / 100.0).floor());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000_000;

    #[test]
    fn longer_round_trips_end_slow_start() {
        let (mut window, mut reno) = (Window::of_bytes(32, 1000), QuicGo::default());
        let sampled = |reno: &mut QuicGo, window: &mut Window, times, latest, last_sent: u32| {
            let sample = RoundTrip { now: 0, latest, least: 100 * MILLI, una: 0, nxt: last_sent + 1 };
            (0..times).for_each(|_| reno.on_round_trip(window, &sample));
        };
        // The first round: 100 ms.
        sampled(&mut reno, &mut window, 8, 100 * MILLI, 31);
        reno.on_ack(&mut window, 800.0, 0);
        reno.on_end_acks(&mut window, 32);
        assert_eq!(window.size as u64, 33_000, "slow start");
        // 12.4 ms more are too few, and 12.6 ms end slow start after eight samples.
        sampled(&mut reno, &mut window, 8, 112_400_000, 60);
        reno.on_ack(&mut window, 1000.0, 0);
        reno.on_end_acks(&mut window, 61);
        assert_eq!(window.size as u64, 34_000);
        sampled(&mut reno, &mut window, 7, 112_600_000, 90);
        reno.on_ack(&mut window, 1000.0, 0);
        sampled(&mut reno, &mut window, 1, 112_600_000, 90);
        assert!(!window.is_slow_start());
        (0..35).for_each(|_| reno.on_ack(&mut window, 1000.0, 0));
        assert_eq!(window.packets() as u64, 35, "one packet for each round trip, rounded down");
        let before = window.size;
        reno.on_congestion_event(&mut window, before);
        assert_eq!(window.threshold as u64, before as u64 * 7 / 10);
    }
}
