//! Order statistics, distributions of durations, and confidence intervals.

pub mod student;

use hdrhistogram::Histogram;
use serde::Serialize;

/// Order statistics of a set of values.
///
/// Percentiles interpolate linearly between order statistics, as NumPy's default does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Statistics {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The largest value.
    pub max: f64,
}

impl Statistics {
    /// The statistics of some values; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            mean: sorted.iter().sum::<f64>() / sorted.len() as f64,
            p50: percentile(&sorted, 0.50),
            p95: percentile(&sorted, 0.95),
            p99: percentile(&sorted, 0.99),
            max: sorted[sorted.len() - 1],
        })
    }
}

/// A percentile (`0..=1`) of sorted values, interpolated.
///
/// # Panics
/// If there are no values.
pub fn percentile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    sorted[below] + (sorted[above] - sorted[below]) * (place - place.floor())
}

/// Durations of many events, in nanoseconds: to three digits, up to hours.
#[derive(Clone, Debug)]
pub struct Durations(Histogram<u64>);

impl Default for Durations {
    fn default() -> Self {
        // One microsecond to a day; three digits. These bounds are valid.
        match Histogram::new_with_bounds(1_000, 86_400_000_000_000, 3) {
            Ok(histogram) => Self(histogram),
            Err(error) => unreachable!("{error:?}"),
        }
    }
}

impl Durations {
    /// Adds one.
    pub fn add(&mut self, nanos: u64) {
        self.0.saturating_record(nanos);
    }

    /// Adds those of another one.
    pub fn join(&mut self, other: &Self) {
        // Both have the same bounds, so that everything fits.
        let _ = self.0.add(&other.0);
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Their statistics in milliseconds; `None` if there are none. Percentiles are those of the histogram's buckets.
    pub fn statistics_ms(&self) -> Option<Statistics> {
        let at = |share: f64| self.0.value_at_quantile(share) as f64 / 1e6;
        (!self.0.is_empty()).then(|| Statistics {
            mean: self.0.mean() / 1e6,
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            max: self.0.max() as f64 / 1e6,
        })
    }

    /// Milliseconds and the share of all that took at most so long, bucket by bucket.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_numpy_s() {
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        let statistics = Statistics::of(&values).unwrap();
        assert!((statistics.mean - 5.5).abs() < 1e-12);
        assert!((statistics.p50 - 5.5).abs() < 1e-12);
        assert!((statistics.p95 - 9.55).abs() < 1e-12);
        assert!((statistics.max - 10.0).abs() < 1e-12);
        assert_eq!(Statistics::of(&[]), None);
    }
}
