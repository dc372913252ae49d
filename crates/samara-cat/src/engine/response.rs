//! How long a peer takes to answer.

use std::time::Duration;

/// The estimator of RFC 6298, fed with the times from a request to its answer: the delays of queues, flushes and checks on both sides
/// are in it, as is the transfer of the body.
///
/// An answer belongs to one request without doubt, so that late ones count too: there is no need for Karn's algorithm.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ResponseTime {
    /// Nanoseconds: the smoothed time and its variation.
    smoothed: Option<(u64, u64)>,
    /// How often a request timed out since the last answer.
    timeouts: u32,
}

impl ResponseTime {
    /// An answer came after this time. RFC 6298, (2.2) and (2.3).
    pub(super) fn sample(&mut self, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX >> 3);
        self.timeouts = 0;
        self.smoothed = Some(match self.smoothed {
            None => (took, took / 2),
            Some((mean, variation)) => {
                let variation = variation - variation / 4 + mean.abs_diff(took) / 4;
                (mean - mean / 8 + took / 8, variation)
            }
        });
    }

    /// A request timed out: the next one waits longer. RFC 6298, (5.5).
    pub(super) fn timed_out(&mut self) {
        self.timeouts = self.timeouts.saturating_add(1);
    }

    /// The smoothed response time.
    pub(super) fn mean(&self) -> Option<Duration> {
        self.smoothed.map(|(mean, _)| Duration::from_nanos(mean))
    }

    /// Within which time an answer can be expected: RFC 6298, (2.3), with `slack` in the place of the clock's granularity (as in
    /// Linux), (2.1) while nothing is known, and (5.5).
    pub(super) fn expected(&self, initial: Duration, slack: Duration) -> Duration {
        let expected = self.smoothed.map_or(initial, |(mean, variation)| {
            Duration::from_nanos(mean) + slack.max(Duration::from_nanos(4 * variation))
        });
        expected.saturating_mul(1 << self.timeouts.min(6))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INITIAL: Duration = Duration::from_secs(1);
    const SLACK: Duration = Duration::from_millis(200);

    #[test]
    fn follows_rfc_6298() {
        let ms = Duration::from_millis;
        let mut time = ResponseTime::default();
        assert_eq!((time.mean(), time.expected(INITIAL, SLACK)), (None, INITIAL));
        time.sample(ms(400));
        assert_eq!((time.mean(), time.expected(INITIAL, SLACK)), (Some(ms(400)), ms(1_200)));
        time.sample(ms(480));
        // 7/8 * 400 + 1/8 * 480 = 410; 3/4 * 200 + 1/4 * 80 = 170.
        assert_eq!((time.mean(), time.expected(INITIAL, SLACK)), (Some(ms(410)), ms(410 + 4 * 170)));
        (0..100).for_each(|_| time.sample(ms(400)));
        let mean = time.mean().unwrap();
        assert!(mean.abs_diff(ms(400)) < ms(1));
        assert_eq!(time.expected(INITIAL, SLACK), mean + SLACK);
    }

    #[test]
    fn timeouts_double_it_until_the_next_answer() {
        let mut time = ResponseTime::default();
        time.timed_out();
        time.timed_out();
        assert_eq!(time.expected(INITIAL, SLACK), 4 * INITIAL);
        (0..100).for_each(|_| time.timed_out());
        assert_eq!(time.expected(INITIAL, SLACK), 64 * INITIAL);
        time.sample(Duration::from_millis(100));
        assert_eq!(time.expected(INITIAL, SLACK), Duration::from_millis(300));
    }
}
