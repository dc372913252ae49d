//! How long a peer takes to answer.

use std::time::Duration;

use samara_engine::Time;

/// The estimator of RFC 6298, fed with the times from a request to its answer: the delays of queues, flushes and checks on both sides
/// are in it, as is the transfer of the body.
///
/// An answer belongs to one request without doubt, so that late ones count too: there is no need for Karn's algorithm.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ResponseTime {
    /// Nanoseconds: the smoothed time and its variation.
    smoothed: Option<(u64, u64)>,
    /// How often the time has doubled since the last answer.
    timeouts: u32,
    /// When it did so last.
    doubled_at: Time,
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

    /// A request timed out: later ones are waited for longer. RFC 6298, (5.5). Of several that were under way together only the first
    /// one counts: they are one round.
    pub(super) fn timed_out(&mut self, sent_at: Time, now: Time) {
        if self.timeouts == 0 || sent_at >= self.doubled_at {
            self.timeouts = self.timeouts.saturating_add(1);
            self.doubled_at = now;
        }
    }

    /// The smoothed response time.
    pub(super) fn mean(&self) -> Option<Duration> {
        self.smoothed.map(|(mean, _)| Duration::from_nanos(mean))
    }

    /// Within which time a request is usually answered: RFC 6298, (2.3), with `slack` in the place of the clock's granularity (as in
    /// Linux). `None` while nothing is known.
    pub(super) fn usual(&self, slack: Duration) -> Option<Duration> {
        let (mean, variation) = self.smoothed?;
        Some(Duration::from_nanos(mean) + slack.max(Duration::from_nanos(variation.saturating_mul(4))))
    }

    /// Within which time the answer can be expected to a request that was sent at this time: the usual time, doubled by each round of
    /// timeouts before it. RFC 6298, (5.5). `None` while nothing is known.
    pub(super) fn expected(&self, sent_at: Time, slack: Duration) -> Option<Duration> {
        let is_before = self.timeouts > 0 && sent_at < self.doubled_at;
        let doublings = self.timeouts - u32::from(is_before);
        Some(self.usual(slack)?.saturating_mul(1 << doublings.min(6)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLACK: Duration = Duration::from_millis(200);

    #[test]
    fn follows_rfc_6298() {
        let ms = Duration::from_millis;
        let mut time = ResponseTime::default();
        assert_eq!((time.mean(), time.usual(SLACK)), (None, None));
        time.sample(ms(400));
        assert_eq!((time.mean(), time.usual(SLACK)), (Some(ms(400)), Some(ms(1_200))));
        time.sample(ms(480));
        // 7/8 * 400 + 1/8 * 480 = 410; 3/4 * 200 + 1/4 * 80 = 170.
        assert_eq!((time.mean(), time.usual(SLACK)), (Some(ms(410)), Some(ms(410 + 4 * 170))));
        (0..100).for_each(|_| time.sample(ms(400)));
        let mean = time.mean().unwrap();
        assert!(mean.abs_diff(ms(400)) < ms(1));
        assert_eq!(time.usual(SLACK), Some(mean + SLACK));
    }

    #[test]
    fn rounds_of_timeouts_double_it_until_the_next_answer() {
        let at = Time::from_secs;
        let mut time = ResponseTime::default();
        time.timed_out(at(0), at(1));
        assert_eq!(time.expected(at(2), SLACK), None, "nothing is known");
        (0..100).for_each(|_| time.sample(Duration::from_millis(100)));
        let usual = time.usual(SLACK).unwrap();
        assert_eq!(time.expected(at(2), SLACK), Some(usual));
        // Three requests of one round.
        (0..3).for_each(|_| time.timed_out(at(2), at(3)));
        assert_eq!(time.expected(at(2), SLACK), Some(usual), "sent before it doubled");
        assert_eq!(time.expected(at(3), SLACK), Some(2 * usual));
        (3..100).for_each(|second| time.timed_out(at(second), at(second + 1)));
        assert_eq!(time.expected(at(200), SLACK), Some(64 * usual));
        time.sample(Duration::from_millis(100));
        assert_eq!(time.expected(at(200), SLACK), time.usual(SLACK));
    }
}
