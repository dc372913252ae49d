//! Distributions of durations.

use hdrhistogram::Histogram;

/// A histogram of durations in nanoseconds, with three significant digits, up to one day.
#[derive(Clone, Debug)]
pub struct Durations(Histogram<u64>);

impl Default for Durations {
    fn default() -> Self {
        // One microsecond to one day with three digits: these bounds are valid.
        match Histogram::new_with_bounds(1_000, 86_400_000_000_000, 3) {
            Ok(histogram) => Self(histogram),
            Err(error) => unreachable!("{error:?}"),
        }
    }
}

impl Durations {
    pub fn add(&mut self, nanos: u64) {
        self.0.saturating_record(nanos);
    }

    pub fn join(&mut self, other: &Self) {
        // Both histograms have the same bounds, so the addition cannot fail.
        let _ = self.0.add(&other.0);
    }

    pub fn count(&self) -> u64 {
        self.0.len()
    }

    pub fn mean_ms(&self) -> f64 {
        self.0.mean() / 1e6
    }

    /// Returns the quantile in milliseconds, to the precision of the histogram's buckets.
    pub fn quantile_ms(&self, share: f64) -> f64 {
        self.0.value_at_quantile(share) as f64 / 1e6
    }

    pub fn max_ms(&self) -> f64 {
        self.0.max() as f64 / 1e6
    }

    /// Returns the upper end of each bucket in milliseconds, with the share of durations up to it.
    pub fn distribution_ms(&self) -> Vec<(f64, f64)> {
        let all = self.count() as f64;
        let mut sum = 0.0;
        self.0
            .iter_recorded()
            .map(|bucket| {
                sum += bucket.count_at_value() as f64;
                (bucket.value_iterated_to() as f64 / 1e6, sum / all)
            })
            .collect()
    }
}
