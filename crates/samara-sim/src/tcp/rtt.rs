//! Round trip times and the retransmission timeout (RFC 6298).

use crate::config::{RtoFloor, TcpConfig};

/// The estimator of one direction. Times in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RttEstimator {
    smoothed: u64,
    variation: u64,
    /// Doublings of the timeout since the last acknowledgement of something new.
    backoff: u8,
}

/// The timeout never grows beyond this (RFC 6298 allows any limit of at least 60 s; Linux has 120 s).
const MAX_RTO: u64 = 120_000_000_000;

impl RttEstimator {
    pub(crate) const fn new() -> Self {
        Self { smoothed: 0, variation: 0, backoff: 0 }
    }

    /// The smoothed round trip time, 0 before the first sample.
    pub(crate) const fn smoothed(&self) -> u64 {
        self.smoothed
    }

    /// Takes a sample: RFC 6298 (2.2) and (2.3) with alpha = 1/8 and beta = 1/4.
    pub(crate) fn sample(&mut self, rtt: u64) {
        if self.smoothed == 0 {
            self.smoothed = rtt.max(1);
            self.variation = rtt / 2;
        } else {
            self.variation = (3 * self.variation + self.smoothed.abs_diff(rtt)) / 4;
            self.smoothed = (7 * self.smoothed + rtt) / 8;
        }
    }

    /// Something new was acknowledged.
    pub(crate) fn progress(&mut self) {
        self.backoff = 0;
    }

    /// The timer expired (5.5).
    pub(crate) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(10);
    }

    /// The current timeout.
    pub(crate) fn timeout(&self, config: &TcpConfig) -> u64 {
        let floor = config.min_rto.as_nanos() as u64;
        let base = match config.rto_floor {
            _ if self.smoothed == 0 => config.initial_rto.as_nanos() as u64,
            RtoFloor::Sum => (self.smoothed + 4 * self.variation).max(floor),
            RtoFloor::Variation => self.smoothed + (4 * self.variation).max(floor),
        };
        (base << self.backoff).min(MAX_RTO)
    }
}
