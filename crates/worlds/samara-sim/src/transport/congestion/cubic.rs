//! CUBIC (RFC 9438) with HyStart, as in Linux (`net/ipv4/tcp_cubic.c`).

use super::{Controller, HYSTART_SAMPLES, HYSTART_WINDOW, MINIMUM, RoundTrip, Window, is_delayed};

/// The growth of the window over time: C, in packets per second cubed (RFC 9438 section 5).
const GROWTH: f64 = 0.4;
/// The part of the window that is left after a loss (717 / 1024 in Linux; 0.7 in RFC 9438 section
/// 4.6).
const LEFT: f64 = 717.0 / 1024.0;
/// Before the first loss, the window grows by at least one packet for this many acknowledged
/// (`bictcp_update`).
const FIRST_COUNT_MAX: f64 = 20.0;
/// The window grows by at most one packet for this many acknowledged, and by at least one packet
/// for this many acknowledged windows (`bictcp_update`).
const COUNT_MIN: f64 = 2.0;
const WINDOWS_MAX: f64 = 100.0;

/// Acknowledgements within this time of each other form a train (`hystart_ack_delta_us`), in
/// nanoseconds.
const TRAIN_GAP: u64 = 2_000_000;
/// How long after a loss round trips are not used as samples of the path, in nanoseconds
/// (`cubictcp_acked`).
const UNSURE: u64 = 1_000_000_000;

/// The state of one direction. Times in nanoseconds, windows in packets.
#[derive(Debug, Default)]
pub(crate) struct Cubic {
    /// The window before the last loss (`last_max_cwnd`); 0 if there was none.
    window_max: f64,
    growth: Option<Growth>,
    /// The minimum round trip; 0 if unknown.
    round_trip_min: u64,
    slow_start: SlowStart,
}

/// The curve that the window follows since its last loss or the end of slow start.
#[derive(Debug)]
struct Growth {
    since: u64,
    /// The time until the curve reaches its plateau, in seconds after `since`: K.
    plateau_after: f64,
    plateau: f64,
    /// The window that Reno would have (`tcp_cwnd`), and the acknowledged part of its next packet.
    reno: f64,
    acknowledged: f64,
}

#[derive(Debug, Default)]
struct SlowStart {
    found: bool,
    /// The round lasts until this segment is acknowledged.
    round_end: u32,
    round_start: u64,
    /// The last acknowledgement of the train that began with the round.
    train_end: u64,
    round_trip: u64,
    samples: u32,
}

impl Controller for Cubic {
    fn on_round_trip(&mut self, window: &mut Window, sample: &RoundTrip) {
        if self.growth.as_ref().is_some_and(|growth| sample.now - growth.since < UNSURE) {
            return;
        }
        if self.round_trip_min == 0 || sample.latest < self.round_trip_min {
            self.round_trip_min = sample.latest.max(1);
        }
        if window.is_slow_start()
            && window.packets() >= HYSTART_WINDOW
            && !self.slow_start.found
            && self.slow_start.look(sample, self.round_trip_min)
        {
            window.end_slow_start();
        }
    }

    fn on_ack(&mut self, window: &mut Window, acked: f64, now: u64) {
        if window.is_slow_start() {
            window.slow_start(acked);
        } else {
            let more = self.growth(now, window.packets(), acked / window.full);
            window.size += window.of_full(more);
        }
    }

    /// Leaves room for others if the window is smaller than before the last loss (fast convergence, RFC
    /// 9438 section 4.7).
    fn on_congestion_event(&mut self, window: &mut Window, _flight: f64) {
        self.growth = None;
        let packets = window.packets();
        let falls = packets < self.window_max;
        self.window_max = if falls { packets * (1.0 + LEFT) / 2.0 } else { packets };
        window.threshold = window.of_full((packets * LEFT).max(MINIMUM));
    }

    /// Forgets everything (`bictcp_reset`).
    fn on_timeout(&mut self, window: &mut Window, _flight: f64) {
        *self = Self::default();
        window.threshold = window.of_full((window.packets() * LEFT).max(MINIMUM));
    }

    fn on_idle(&mut self, now: u64, last_sent: u64) {
        if let Some(growth) = &mut self.growth {
            // The curve may have begun with the acknowledgement of the last data sent.
            growth.since = (growth.since + (now - last_sent)).min(now);
        }
    }
}

impl Cubic {
    /// Returns the growth of the window in congestion avoidance for this many acknowledged packets.
    fn growth(&mut self, now: u64, window: f64, acknowledged: f64) -> f64 {
        let window_max = self.window_max;
        let growth = self.growth.get_or_insert_with(|| {
            let below = (window_max - window).max(0.0);
            Growth {
                since: now,
                plateau_after: (below / GROWTH).cbrt(),
                plateau: window_max.max(window),
                reno: window,
                acknowledged: 0.0,
            }
        });
        let elapsed = (now - growth.since + self.round_trip_min) as f64 / 1e9;
        let target = growth.plateau + GROWTH * (elapsed - growth.plateau_after).powi(3);
        let mut count = if target > window { window / (target - window) } else { WINDOWS_MAX * window };
        if window_max == 0.0 {
            count = count.min(FIRST_COUNT_MAX);
        }
        // Grows like Reno where Reno would be faster (RFC 9438 section 4.3).
        growth.acknowledged += acknowledged;
        let reno_count = window * (1.0 + LEFT) / (3.0 * (1.0 - LEFT));
        let packets = (growth.acknowledged / reno_count).floor();
        growth.acknowledged -= packets * reno_count;
        growth.reno += packets;
        if growth.reno > window {
            count = count.min(window / (growth.reno - window));
        }
        acknowledged / count.max(COUNT_MIN)
    }
}

impl SlowStart {
    /// Returns true if the path is full. Either acknowledgements have come in a train for half of
    /// the minimum round trip (half, because nothing paces the packets), or the first round trips
    /// of a round are longer than the minimum.
    fn look(&mut self, sample: &RoundTrip, round_trip_min: u64) -> bool {
        let RoundTrip { now, latest, una, nxt, .. } = *sample;
        if una > self.round_end {
            (self.round_end, self.round_start, self.train_end) = (nxt, now, now);
            (self.round_trip, self.samples) = (u64::MAX, 0);
        }
        if now - self.train_end <= TRAIN_GAP {
            self.train_end = now;
            self.found |= now - self.round_start > round_trip_min / 2;
        }
        self.round_trip = self.round_trip.min(latest);
        if self.samples < HYSTART_SAMPLES {
            self.samples += 1;
        } else {
            self.found |= is_delayed(self.round_trip, round_trip_min);
        }
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000_000;

    /// Returns the state and the window after a loss at this window.
    fn after_loss(packets: f64) -> (Cubic, Window) {
        let (mut cubic, mut window) = (Cubic::default(), Window::of_packets(packets));
        lose(&mut cubic, &mut window, packets);
        (cubic, window)
    }

    fn lose(cubic: &mut Cubic, window: &mut Window, packets: f64) {
        window.size = packets;
        cubic.on_congestion_event(window, packets);
        window.size = window.threshold;
    }

    /// RFC 9438 section 4.2: after a loss at W, the window is at 0.7 W. It is back at W after K
    /// seconds, and after 2 K as far above W as it was below.
    #[test]
    fn window_follows_the_cubic_curve() {
        let (mut cubic, mut window) = after_loss(1_000.0);
        cubic.round_trip_min = 1;
        assert!((window.size - 700.2).abs() < 0.1);
        let plateau_after = ((1_000.0 - window.size) / GROWTH).cbrt();
        let (start, mut now) = (window.size, 0);
        let mut at = |seconds: f64| {
            while (now as f64) < seconds * 1e9 {
                now += MILLI;
                // A window in every 50 ms.
                let acked = window.size / 50.0;
                cubic.on_ack(&mut window, acked, now);
            }
            window.size
        };
        let middle = at(plateau_after);
        assert!((middle - 1_000.0).abs() < 5.0, "{middle}");
        let end = at(2.0 * plateau_after);
        assert!((end - (2_000.0 - start)).abs() < 10.0, "{end}");
    }

    /// A window in bytes follows the same curve as one in packets, but for rounding.
    #[test]
    fn unit_of_the_window_does_not_matter() {
        let mut packets = Window::of_packets(1_000.0);
        let mut bytes = Window::of_bytes(1_000, 1_200);
        let (mut of_packets, mut of_bytes) = (Cubic::default(), Cubic::default());
        lose(&mut of_packets, &mut packets, 1_000.0);
        lose(&mut of_bytes, &mut bytes, 1_200_000.0);
        for millis in 1..2_000 {
            of_packets.on_ack(&mut packets, 20.0, millis * MILLI);
            of_bytes.on_ack(&mut bytes, 24_000.0, millis * MILLI);
        }
        assert!(
            packets.size > 850.0 && (packets.size - bytes.packets()).abs() < 2.0,
            "{packets:?} {bytes:?}"
        );
    }

    /// RFC 9438 section 4.3: on short paths, the window grows like that of a Reno that backs off by
    /// as much.
    #[test]
    fn short_paths_are_not_slower_than_reno() {
        let (mut cubic, mut window) = after_loss(20.0);
        cubic.round_trip_min = MILLI;
        let before = window.size;
        for round in 1..=20 {
            let acked = window.size;
            cubic.on_ack(&mut window, acked, round * MILLI);
        }
        let reno = 20.0 * 3.0 * (1.0 - LEFT) / (1.0 + LEFT);
        assert!((window.size - before - reno).abs() < 1.5, "{before} {window:?} {reno}");
    }

    /// Handles a round trip with a window of so many packets. Returns true if it ends slow start.
    fn ends(cubic: &mut Cubic, packets: f64, now: u64, latest: u64, (una, nxt): (u32, u32)) -> bool {
        let mut window = Window::of_packets(packets);
        cubic.on_round_trip(&mut window, &RoundTrip { now, latest, least: latest, una, nxt });
        !window.is_slow_start()
    }

    #[test]
    fn long_train_ends_slow_start() {
        let mut cubic = Cubic::default();
        assert!(!ends(&mut cubic, 100.0, 0, 90 * MILLI, (1, 100)));
        // Half of 90 ms, with an acknowledgement in each millisecond.
        let ended =
            (1..100).find(|at| ends(&mut cubic, 100.0, at * MILLI, 90 * MILLI, (1 + *at as u32, 300)));
        assert_eq!(ended, Some(46));
        let mut small = Cubic::default();
        let ended = (0..100).find(|at| ends(&mut small, 15.0, at * MILLI, 90 * MILLI, (1 + *at as u32, 300)));
        assert_eq!(ended, None, "the window is too small");
    }

    #[test]
    fn longer_round_trips_end_slow_start() {
        let mut cubic = Cubic::default();
        ends(&mut cubic, 10.0, 0, 80 * MILLI, (1, 10));
        let mut ended = |round_trip: u64, una: u32| {
            let start = u64::from(una) * 1_000 * MILLI;
            // Far apart: no train.
            (1..=9).any(|ack| {
                let numbers = (una + ack as u32, una + 20);
                ends(&mut cubic, 50.0, start + ack * 5 * MILLI, round_trip, numbers)
            })
        };
        assert!(!ended(89 * MILLI, 20), "an eighth more than the least one is not too long");
        assert!(ended(91 * MILLI, 60));
    }

    #[test]
    fn fast_convergence_reduces_the_maximum_window() {
        let (mut cubic, mut window) = after_loss(100.0);
        lose(&mut cubic, &mut window, 80.0);
        assert!((cubic.window_max - 80.0 * (1.0 + LEFT) / 2.0).abs() < 1e-9);
        lose(&mut cubic, &mut window, 200.0);
        assert!((cubic.window_max - 200.0).abs() < 1e-9);
    }
}
