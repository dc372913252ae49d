//! Round trip times and what follows from them (RFC 9002 sections 5 and 6).

use super::GRANULARITY;

/// The estimator of one direction. Times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rtt {
    latest: u64,
    smoothed: u64,
    variation: u64,
    least: u64,
    first_sample_at: Option<u64>,
}

impl Rtt {
    /// Before the first sample: RFC 9002 section 5.3.
    pub(super) const fn new(initial: u64) -> Self {
        Self { latest: 0, smoothed: initial, variation: initial / 2, least: 0, first_sample_at: None }
    }

    /// Takes a sample; `ack_delay` is how long the peer says that it kept the acknowledgement, at most what it announced.
    pub(super) fn sample(&mut self, latest: u64, ack_delay: u64, now: u64) {
        self.latest = latest;
        if self.first_sample_at.is_none() {
            self.first_sample_at = Some(now);
            (self.least, self.smoothed, self.variation) = (latest, latest, latest / 2);
            return;
        }
        self.least = self.least.min(latest);
        // A delay that would make the round trip shorter than the shortest one ever is not believed.
        let adjusted = if latest >= self.least + ack_delay { latest - ack_delay } else { latest };
        self.variation = (3 * self.variation + self.smoothed.abs_diff(adjusted)) / 4;
        self.smoothed = (7 * self.smoothed + adjusted) / 8;
    }

    /// The smoothed round trip time, 0 before the first sample.
    pub(super) const fn smoothed(&self) -> u64 {
        if self.first_sample_at.is_some() { self.smoothed } else { 0 }
    }

    pub(super) const fn first_sample_at(&self) -> Option<u64> {
        self.first_sample_at
    }

    /// The probe timeout (section 6.2.1).
    pub(super) fn probe_timeout(&self, max_ack_delay: u64) -> u64 {
        self.smoothed + (4 * self.variation).max(GRANULARITY) + max_ack_delay
    }

    /// How long after a later packet was acknowledged, counted from when it was sent, a packet is lost: 9/8 of the round
    /// trip (kTimeThreshold, section 6.1.2).
    pub(super) fn loss_delay(&self) -> u64 {
        (self.latest.max(self.smoothed) * 9 / 8).max(GRANULARITY)
    }
}
