//! Limits on the rate at which packets are written and read.

/// How long a sample lasts, in nanoseconds (100 ms: `New` in `libs/flowrate/flowrate.go`).
const SAMPLE: u64 = 100_000_000;
/// The shortest wait for the end of a sample (`minWait` in `waitNextSample`).
const WAIT_MIN: u64 = 5_000_000;

/// A flow monitor: within a sample of 100 ms nothing more is admitted once a tenth of the rate was transferred. What the
/// last transfer was too much is forgotten with the sample, and a sample ends with the first look at it after its time,
/// so that samples of idle times are longer. (There the clock has steps of 20 ms; here it has none.)
#[derive(Debug, Default)]
pub(super) struct Limiter {
    since: u64,
    bytes: u64,
}

impl Limiter {
    /// A monitor that starts at `now`.
    pub(super) const fn new(now: u64) -> Self {
        Self { since: now, bytes: 0 }
    }

    /// Whether something may be transferred now at `rate` bytes per second (0: without limit); otherwise when to ask again.
    pub(super) fn admit(&mut self, now: u64, rate: u64) -> Result<(), u64> {
        if rate == 0 {
            return Ok(());
        }
        self.end_sample(now);
        if self.bytes < (rate / 10).max(1) { Ok(()) } else { Err((self.since + SAMPLE).max(now + WAIT_MIN)) }
    }

    /// So many bytes were transferred.
    pub(super) fn count(&mut self, now: u64, bytes: u32) {
        self.bytes += u64::from(bytes);
        self.end_sample(now);
    }

    fn end_sample(&mut self, now: u64) {
        if now - self.since >= SAMPLE {
            self.since = now;
            self.bytes = 0;
        }
    }
}
