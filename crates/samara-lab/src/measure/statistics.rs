//! Mean and quantiles.

use serde::{Deserialize, Serialize};

/// What is told of a set of values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    /// The arithmetic mean.
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
    /// The statistics of some values, in any order; `None` if there are none. See [`quantile`] for the definition of
    /// percentiles.
    ///
    /// # Panics
    /// If a value is not a number.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        assert!(sorted.iter().all(|value| !value.is_nan()), "statistics of something that is not a number");
        sorted.sort_unstable_by(f64::total_cmp);
        let max = *sorted.last()?;
        let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
        let [p50, p95, p99] = [0.5, 0.95, 0.99].map(|share| quantile(&sorted, share));
        Some(Self { mean, p50, p95, p99, max })
    }
}

/// A quantile of sorted values, by linear interpolation between the closest ranks: the value at position
/// `share * (n - 1)`, counted from 0. This is type 7 of Hyndman and Fan (1996) and the default of NumPy and R.
///
/// # Panics
/// If there are no values or `share` is not in `0..=1`.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    assert!(!sorted.is_empty() && (0.0..=1.0).contains(&share));
    let position = share * (sorted.len() - 1) as f64;
    let below = position.floor() as usize;
    let above = position.ceil() as usize;
    sorted[below] + (sorted[above] - sorted[below]) * (position - below as f64)
}

/// A mean and how far off it may be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The mean of the repetitions.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval; 0 for a single repetition.
    pub half_width: f64,
    /// How many repetitions.
    pub repetitions: usize,
}

/// The 95 % confidence interval of the mean of independent repetitions (Student's t); `None` if there are none.
pub fn confidence_interval(values: &[f64]) -> Option<Interval> {
    let n = values.len();
    if n == 0 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n as f64;
    let half_width = if n == 1 {
        0.0
    } else {
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
        student_t_975(n - 1) * (variance / n as f64).sqrt()
    };
    Some(Interval { mean, half_width, repetitions: n })
}

/// The 97.5th percentile of Student's t distribution: tabled up to 10 degrees of freedom, beyond by the expansion of
/// Cornish and Fisher around the normal quantile (Abramowitz and Stegun 26.7.5; off by less than 0.001 from there on).
fn student_t_975(freedom: usize) -> f64 {
    const TABLE: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    if let Some(value) = TABLE.get(freedom - 1) {
        return *value;
    }
    let (z, v) = (1.959_964_f64, freedom as f64);
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    z + first / v + second / (v * v)
}
