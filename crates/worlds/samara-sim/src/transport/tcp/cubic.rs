//! CUBIC (RFC 9438) with HyStart, as in Linux (`net/ipv4/tcp_cubic.c`).

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

/// The window from which HyStart works (`hystart_low_window`), in packets.
const HYSTART_WINDOW: f64 = 16.0;
/// Acknowledgements within this time of each other form a train (`hystart_ack_delta_us`), in
/// nanoseconds.
const TRAIN_GAP: u64 = 2_000_000;
/// Number of round trips of a round that are checked for a delay (`HYSTART_MIN_SAMPLES`).
const SAMPLES: u32 = 8;
/// The bounds of the required delay beyond the minimum round trip, of which it is an eighth
/// (`HYSTART_DELAY_THRESH`), in nanoseconds.
const DELAY_MIN: u64 = 4_000_000;
const DELAY_MAX: u64 = 16_000_000;
/// How long after a loss round trips are not used as samples of the path, in nanoseconds
/// (`cubictcp_acked`).
const UNSURE: u64 = 1_000_000_000;

/// The CUBIC state of one direction. Times in nanoseconds, windows in packets.
#[derive(Debug, Default)]
pub(super) struct Cubic {
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

impl Cubic {
    /// Handles an acknowledgement of new data, a round trip after they were sent. `una` is the
    /// first unacknowledged segment, `nxt` the next one to be sent. Returns true if slow start, in
    /// which the window is now, should end.
    pub(super) fn acknowledged(
        &mut self,
        now: u64,
        round_trip: u64,
        (una, nxt): (u32, u32),
        slow_start: Option<f64>,
    ) -> bool {
        if self.growth.as_ref().is_some_and(|growth| now - growth.since < UNSURE) {
            return false;
        }
        if self.round_trip_min == 0 || round_trip < self.round_trip_min {
            self.round_trip_min = round_trip.max(1);
        }
        match slow_start {
            Some(window) if window >= HYSTART_WINDOW && !self.slow_start.found => {
                self.slow_start.look(now, round_trip, (una, nxt), self.round_trip_min)
            }
            _ => false,
        }
    }

    /// Returns the growth of the window in congestion avoidance for this many acknowledged packets.
    pub(super) fn grow(&mut self, now: u64, window: f64, acknowledged: f64) -> f64 {
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

    /// Handles a loss. Returns the threshold of slow start, which is the window after recovery.
    pub(super) fn lost(&mut self, window: f64) -> f64 {
        self.growth = None;
        // A sender with a smaller window than before leaves room for others (fast convergence, RFC
        // 9438 section 4.7).
        let falls = window < self.window_max;
        self.window_max = if falls { window * (1.0 + LEFT) / 2.0 } else { window };
        (window * LEFT).max(2.0)
    }

    /// Resets all state after a retransmission timeout. Returns the threshold of slow start.
    pub(super) fn timed_out(&mut self, window: f64) -> f64 {
        *self = Self::default();
        (window * LEFT).max(2.0)
    }

    /// Excludes an idle time, in which the window could not have grown: nothing was sent since
    /// `last_sent`, and nothing is in flight.
    pub(super) fn was_idle(&mut self, now: u64, last_sent: u64) {
        if let Some(growth) = &mut self.growth {
            // The curve may have begun with the acknowledgement of the last data sent.
            growth.since = (growth.since + (now - last_sent)).min(now);
        }
    }
}

impl SlowStart {
    /// Returns true if the path is full. Either acknowledgements have come in a train for half of
    /// the minimum round trip (half, because nothing paces the packets), or the first round trips
    /// of a round are longer than the minimum.
    fn look(&mut self, now: u64, round_trip: u64, (una, nxt): (u32, u32), round_trip_min: u64) -> bool {
        if una > self.round_end {
            (self.round_end, self.round_start, self.train_end) = (nxt, now, now);
            (self.round_trip, self.samples) = (u64::MAX, 0);
        }
        if now - self.train_end <= TRAIN_GAP {
            self.train_end = now;
            self.found |= now - self.round_start > round_trip_min / 2;
        }
        self.round_trip = self.round_trip.min(round_trip);
        if self.samples < SAMPLES {
            self.samples += 1;
        } else {
            let longer = (round_trip_min / 8).clamp(DELAY_MIN, DELAY_MAX);
            self.found |= self.round_trip > round_trip_min + longer;
        }
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000_000;

    /// RFC 9438 section 4.2: after a loss at W, the window is at 0.7 W. It is back at W after K
    /// seconds, and after 2 K as far above W as it was below.
    #[test]
    fn window_follows_the_cubic_curve() {
        let mut cubic = Cubic { round_trip_min: 1, ..Cubic::default() };
        let mut window = cubic.lost(1_000.0);
        assert!((window - 700.2).abs() < 0.1);
        let plateau_after = ((1_000.0 - window) / GROWTH).cbrt();
        let (start, mut now) = (window, 0);
        let mut at = |seconds: f64, window: &mut f64, cubic: &mut Cubic| {
            while (now as f64) < seconds * 1e9 {
                now += MILLI;
                // A window in every 50 ms.
                *window += cubic.grow(now, *window, *window / 50.0);
            }
            *window
        };
        let middle = at(plateau_after, &mut window, &mut cubic);
        assert!((middle - 1_000.0).abs() < 5.0, "{middle}");
        let end = at(2.0 * plateau_after, &mut window, &mut cubic);
        assert!((end - (2_000.0 - start)).abs() < 10.0, "{end}");
    }

    /// RFC 9438 section 4.3: on short paths, the window grows like that of a Reno that backs off by
    /// as much.
    #[test]
    fn short_paths_are_not_slower_than_reno() {
        let mut cubic = Cubic { round_trip_min: MILLI, ..Cubic::default() };
        let mut window = cubic.lost(20.0);
        let before = window;
        for round in 1..=20 {
            window += cubic.grow(round * MILLI, window, window);
        }
        let reno = 20.0 * 3.0 * (1.0 - LEFT) / (1.0 + LEFT);
        assert!((window - before - reno).abs() < 1.5, "{before} {window} {reno}");
    }

    #[test]
    fn long_train_ends_slow_start() {
        let mut cubic = Cubic::default();
        assert!(!cubic.acknowledged(0, 90 * MILLI, (1, 100), Some(100.0)));
        // Half of 90 ms, with an acknowledgement in each millisecond.
        let ended = (1..100)
            .find(|at| cubic.acknowledged(at * MILLI, 90 * MILLI, (1 + *at as u32, 300), Some(100.0)));
        assert_eq!(ended, Some(46));
        assert!(
            !Cubic::default().acknowledged(0, 90 * MILLI, (1, 100), Some(15.0)),
            "the window is too small"
        );
    }

    #[test]
    fn longer_round_trips_end_slow_start() {
        let mut cubic = Cubic::default();
        cubic.acknowledged(0, 80 * MILLI, (1, 10), None);
        let mut ended = |round_trip: u64, una: u32| {
            let start = u64::from(una) * 1_000 * MILLI;
            // Far apart: no train.
            (1..=9).any(|ack| {
                cubic.acknowledged(
                    start + ack * 5 * MILLI,
                    round_trip,
                    (una + ack as u32, una + 20),
                    Some(50.0),
                )
            })
        };
        assert!(!ended(89 * MILLI, 20), "an eighth more than the least one is not too long");
        assert!(ended(91 * MILLI, 60));
    }

    #[test]
    fn fast_convergence_reduces_the_maximum_window() {
        let mut cubic = Cubic::default();
        cubic.lost(100.0);
        cubic.lost(80.0);
        assert!((cubic.window_max - 80.0 * (1.0 + LEFT) / 2.0).abs() < 1e-9);
        cubic.lost(200.0);
        assert!((cubic.window_max - 200.0).abs() < 1e-9);
    }
}
