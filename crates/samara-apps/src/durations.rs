//! Distributions of durations.

use hdrhistogram::Histogram;

/// A histogram of durations in nanoseconds, with three significant digits, up to one day. Mean and
/// maximum are exact.
#[derive(Clone, Debug)]
pub struct Durations {
    histogram: Histogram<u64>,
    sum: u128,
    max: u64,
}

impl Default for Durations {
    fn default() -> Self {
        // One microsecond to one day with three digits: these bounds are valid.
        match Histogram::new_with_bounds(1_000, 86_400_000_000_000, 3) {
            Ok(histogram) => Self { histogram, sum: 0, max: 0 },
            Err(error) => unreachable!("{error:?}"),
        }
    }
}

impl Durations {
    pub fn add(&mut self, nanos: u64) {
        self.histogram.saturating_record(nanos);
        self.sum += u128::from(nanos);
        self.max = self.max.max(nanos);
    }

    pub fn join(&mut self, other: &Self) {
        // Both histograms have the same bounds, so the addition cannot fail.
        let _ = self.histogram.add(&other.histogram);
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    pub fn mean_ms(&self) -> f64 {
        self.sum as f64 / self.count() as f64 / 1e6
    }

    /// Returns the quantile in milliseconds, to the precision of the histogram's buckets.
    pub fn quantile_ms(&self, share: f64) -> f64 {
        // The upper end of the last bucket can lie above the maximum.
        self.histogram.value_at_quantile(share).min(self.max) as f64 / 1e6
    }

    pub fn max_ms(&self) -> f64 {
        self.max as f64 / 1e6
    }

    /// Returns the upper end of each bucket in milliseconds, with the share of durations up to it.
    pub fn distribution_ms(&self) -> Vec<(f64, f64)> {
        let all = self.count() as f64;
        let mut sum = 0.0;
        self.histogram
            .iter_recorded()
            .map(|bucket| {
                sum += bucket.count_at_value() as f64;
                (bucket.value_iterated_to().min(self.max) as f64 / 1e6, sum / all)
            })
            .collect()
    }
}
