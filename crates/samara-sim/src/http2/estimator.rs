//! What the path holds: the product of its bandwidth and its delay, as grpc-go estimates it.

use super::config::{ESTIMATED_MAX, INITIAL_WINDOW};

/// The weight of the past in the mean round trip, once there are enough samples (`alpha`).
const PAST: f64 = 0.9;
/// How many samples count alike before that.
const ALIKE: f64 = 10.0;
/// A sample that fills this part of the window shows that the window may be what limits (`beta`).
const FULL: f64 = 0.66;
/// How much wider than the sample the window then becomes (`gamma`).
const WIDER: f64 = 2.0;
/// The round trip is taken to be so much longer than measured.
const SLACK: f64 = 1.5;

/// `bdpEstimator` of `internal/transport/bdp_estimator.go` in grpc-go: the first data after a pause sends a `PING`; what arrives until it is
/// answered is a sample. Times in nanoseconds.
#[derive(Debug)]
pub(super) struct Estimator {
    window: u32,
    /// When the `PING` was sent that is not answered yet, and what has arrived since, itself included.
    sample: Option<(u64, u32)>,
    samples: f64,
    /// The mean round trip in seconds.
    round_trip: f64,
    /// The largest bandwidth so far, in bytes per second.
    bandwidth_max: f64,
}

impl Estimator {
    pub(super) const fn new() -> Self {
        Self { window: INITIAL_WINDOW, sample: None, samples: 0.0, round_trip: 0.0, bandwidth_max: 0.0 }
    }

    /// Data arrive. Whether a `PING` is to be sent.
    pub(super) fn add(&mut self, now: u64, bytes: u32) -> bool {
        if self.window == ESTIMATED_MAX {
            return false;
        }
        match &mut self.sample {
            Some((_, sample)) => {
                *sample += bytes;
                false
            }
            None => {
                self.sample = Some((now, bytes));
                self.samples += 1.0;
                true
            }
        }
    }

    /// The `PING` is answered. Returns how wide the window is now, if it has become wider.
    pub(super) fn answered(&mut self, now: u64) -> Option<u32> {
        let (sent_at, sample) = self.sample.take()?;
        let round_trip = (now - sent_at) as f64 / 1e9;
        let weight = if self.samples < ALIKE { 1.0 / self.samples } else { PAST };
        self.round_trip += (round_trip - self.round_trip) * weight;
        let bandwidth = f64::from(sample) / (self.round_trip * SLACK);
        if bandwidth < self.bandwidth_max {
            return None;
        }
        self.bandwidth_max = bandwidth;
        if f64::from(sample) < FULL * f64::from(self.window) {
            return None;
        }
        self.window = ((WIDER * f64::from(sample)) as u32).min(ESTIMATED_MAX);
        Some(self.window)
    }
}
