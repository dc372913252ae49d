//! CUBIC (RFC 9438) with HyStart, as Linux has them (`net/ipv4/tcp_cubic.c`).

/// By what part of the window it grows over time: C, in packets per second cubed (RFC 9438 section 5).
const GROWTH: f64 = 0.4;
/// What is left of the window after a loss (717 / 1024 in Linux; 0.7 in RFC 9438 section 4.6).
const LEFT: f64 = 717.0 / 1024.0;
/// Before the first loss the window grows by one packet for so many acknowledged at the latest (`bictcp_update`).
const FIRST_COUNT_MAX: f64 = 20.0;
/// The window grows by one packet for so many acknowledged at the soonest, and at the latest for so many windows (`bictcp_update`).
const COUNT_MIN: f64 = 2.0;
const WINDOWS_MAX: f64 = 100.0;

/// HyStart works from this window on (`hystart_low_window`), in packets.
const HYSTART_WINDOW: f64 = 16.0;
/// Acknowledgements that come within this time of each other are a train (`hystart_ack_delta_us`), in nanoseconds.
const TRAIN_GAP: u64 = 2_000_000;
/// Round trips of a round that are looked at for a delay (`HYSTART_MIN_SAMPLES`).
const SAMPLES: u32 = 8;
/// How much longer than the least they have to be: an eighth of it, within these bounds (`HYSTART_DELAY_THRESH`), in nanoseconds.
const DELAY_MIN: u64 = 4_000_000;
const DELAY_MAX: u64 = 16_000_000;
/// Round trips after a loss are no sample of the path for so long, in nanoseconds (`cubictcp_acked`).
const UNSURE: u64 = 1_000_000_000;

/// What CUBIC knows of one direction. Times in nanoseconds, windows in packets.
#[derive(Debug, Default)]
pub(super) struct Cubic {
    /// The window before the last loss (`last_max_cwnd`); 0 if there was none.
    window_max: f64,
    growth: Option<Growth>,
    /// The least round trip; 0 if unknown.
    round_trip_min: u64,
    slow_start: SlowStart,
}

/// The curve that the window follows since its last loss, or since slow start ended.
#[derive(Debug)]
struct Growth {
    since: u64,
    /// When the curve reaches its plateau, in seconds after `since`: K.
    plateau_after: f64,
    plateau: f64,
    /// The window that Reno would have (`tcp_cwnd`), and what was acknowledged of its next packet.
    reno: f64,
    acknowledged: f64,
}

#[derive(Debug, Default)]
struct SlowStart {
    found: bool,
    /// The round lasts until this is acknowledged.
    round_end: u32,
    round_start: u64,
    /// The last acknowledgement of the train that began with the round.
    train_end: u64,
    round_trip: u64,
    samples: u32,
}

impl Cubic {
    /// Something new was acknowledged, a round trip after it was sent; `una` is now the first that is not, `nxt` the next to be sent.
    /// Returns whether slow start, in which the window is now, is to end.
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

    /// How much the window grows in congestion avoidance because so many packets were acknowledged.
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
        // Where Reno would be faster (RFC 9438 section 4.3).
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

    /// A packet was lost. Returns the threshold of slow start, which is the window after recovery.
    pub(super) fn lost(&mut self, window: f64) -> f64 {
        self.growth = None;
        // Whoever gets less than before leaves room for others (fast convergence, RFC 9438 section 4.7).
        let falls = window < self.window_max;
        self.window_max = if falls { window * (1.0 + LEFT) / 2.0 } else { window };
        (window * LEFT).max(2.0)
    }

    /// The retransmission timer expired: everything begins anew. Returns the threshold of slow start.
    pub(super) fn timed_out(&mut self, window: f64) -> f64 {
        *self = Self::default();
        (window * LEFT).max(2.0)
    }

    /// Nothing was sent since `last_sent`, and nothing is in flight: that is no time in which the window could have grown.
    pub(super) fn was_idle(&mut self, now: u64, last_sent: u64) {
        if let Some(growth) = &mut self.growth {
            // The curve may have begun with the acknowledgement of what was sent last.
            growth.since = (growth.since + (now - last_sent)).min(now);
        }
    }
}

impl SlowStart {
    /// Whether the path is full: acknowledgements have come in a train for half of the least round trip (half, because nothing
    /// paces the packets), or the first round trips of a round are longer than the least one.
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

    /// RFC 9438 section 4.2: after a loss at W the window is at 0.7 W, at W again after K seconds, and above it after 2 K as much as it was below.
    #[test]
    fn the_window_follows_the_cubic_curve() {
        let mut cubic = Cubic { round_trip_min: 1, ..Cubic::default() };
        let mut window = cubic.lost(1_000.0);
        assert!((window - 700.2).abs() < 0.1);
        let plateau_after = ((1_000.0 - window) / GROWTH).cbrt();
        let (start, mut now) = (window, 0);
        let mut at = |seconds: f64, window: &mut f64, cubic: &mut Cubic| {
            while (now as f64) < seconds * 1e9 {
                now += MILLI;
                // A window each 50 ms.
                *window += cubic.grow(now, *window, *window / 50.0);
            }
            *window
        };
        let middle = at(plateau_after, &mut window, &mut cubic);
        assert!((middle - 1_000.0).abs() < 5.0, "{middle}");
        let end = at(2.0 * plateau_after, &mut window, &mut cubic);
        assert!((end - (2_000.0 - start)).abs() < 10.0, "{end}");
    }

    /// RFC 9438 section 4.3: on short paths the window grows as Reno's does that backs off by as much.
    #[test]
    fn on_a_short_path_it_is_not_slower_than_reno() {
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
    fn a_long_train_ends_slow_start() {
        let mut cubic = Cubic::default();
        assert!(!cubic.acknowledged(0, 90 * MILLI, (1, 100), Some(100.0)));
        // Half of 90 ms, an acknowledgement each millisecond.
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
            // Far from each other: no train.
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
    fn a_smaller_window_than_last_time_makes_room() {
        let mut cubic = Cubic::default();
        cubic.lost(100.0);
        cubic.lost(80.0);
        assert!((cubic.window_max - 80.0 * (1.0 + LEFT) / 2.0).abs() < 1e-9);
        cubic.lost(200.0);
        assert!((cubic.window_max - 200.0).abs() < 1e-9);
    }
}
