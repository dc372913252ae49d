//! Order statistics; confidence intervals of means by Student's t; and Welch's test.

use samara_apps::Durations;
use samara_report::Unit;
use serde::{Deserialize, Serialize};
use special::Beta;

/// Order statistics of a set of values.
///
/// Percentiles are interpolated linearly between order statistics, like NumPy's default.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Statistics {
    pub mean: f64,
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: f64,
}

impl Statistics {
    /// Computes the statistics of values; `None` if there are none.
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

    /// Computes the statistics of durations in milliseconds; `None` if there are none. Percentiles
    /// have the precision of the histogram's buckets.
    pub fn of_durations(durations: &Durations) -> Option<Self> {
        (durations.count() > 0).then(|| Self {
            mean: durations.mean_ms(),
            p50: durations.quantile_ms(0.5),
            p95: durations.quantile_ms(0.95),
            p99: durations.quantile_ms(0.99),
            max: durations.max_ms(),
        })
    }
}

/// Returns an interpolated percentile (`0..=1`) of sorted values.
///
/// # Panics
/// Panics if there are no values.
pub fn percentile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    sorted[below] + (sorted[above] - sorted[below]) * (place - place.floor())
}

/// The level of all two-sided intervals and tests.
const CONFIDENCE: f64 = 0.95;

/// The distribution of a figure over seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    pub mean: f64,
    /// Half the width of Student's 95 % confidence interval of the mean; 0 for one seed, where it
    /// is unknown.
    pub confidence_95: f64,
    pub min: f64,
    pub max: f64,
    /// Number of seeds that measured the figure.
    pub seeds: usize,
}

impl Spread {
    /// Computes the spread of values; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let (mean, variance) = mean_and_variance(values)?;
        let count = values.len() as f64;
        let half = if count < 2.0 { 0.0 } else { quantile(count - 1.0) * (variance / count).sqrt() };
        Some(Self {
            mean,
            confidence_95: half,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            seeds: values.len(),
        })
    }

    pub(crate) fn written(&self, unit: Unit) -> String {
        let mean = unit.written(self.mean);
        let half = self.confidence_95;
        if half > 0.0 { format!("{mean} ± {}", unit.written(half)) } else { mean }
    }
}

/// The difference of two means by Welch's test, which does not assume equal variances.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Welch {
    /// The second mean minus the first.
    pub difference: f64,
    /// Half the width of the difference's 95 % confidence interval.
    pub half: f64,
    /// The two-sided probability of a difference at least as large if the means were equal.
    pub p: f64,
}

impl Welch {
    /// Returns true if the difference is significant at 5 %.
    pub fn is_significant(&self) -> bool {
        self.p < 1.0 - CONFIDENCE
    }
}

/// Performs Welch's test of the means of `a` and `b` (Welch 1947; degrees of freedom after
/// Satterthwaite 1946).
///
/// `None` if either has fewer than two values. Without any spread, means are either equal (`p` = 1)
/// or different (`p` = 0).
pub fn welch(a: &[f64], b: &[f64]) -> Option<Welch> {
    if a.len() < 2 || b.len() < 2 {
        return None;
    }
    let ((mean_a, variance_a), (mean_b, variance_b)) = (mean_and_variance(a)?, mean_and_variance(b)?);
    let (of_a, of_b) = (variance_a / a.len() as f64, variance_b / b.len() as f64);
    let (difference, error) = (mean_b - mean_a, (of_a + of_b).sqrt());
    if error == 0.0 {
        let p = if difference == 0.0 { 1.0 } else { 0.0 };
        return Some(Welch { difference, half: 0.0, p });
    }
    let freedom = (of_a + of_b).powi(2)
        / (of_a.powi(2) / (a.len() as f64 - 1.0) + of_b.powi(2) / (b.len() as f64 - 1.0));
    Some(Welch {
        difference,
        half: quantile(freedom) * error,
        p: two_sided(difference.abs() / error, freedom),
    })
}

/// Returns the mean and the sample variance (0 for one value). Equal values have no variance,
/// without rounding errors.
fn mean_and_variance(values: &[f64]) -> Option<(f64, f64)> {
    let first = *values.first()?;
    if values.iter().all(|value| *value == first) {
        return Some((first, 0.0));
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((mean, squares / (count - 1.0)))
}

/// Returns Student's t for a two-sided interval of 95 %, with `freedom` degrees of freedom (more
/// than 0).
fn quantile(freedom: f64) -> f64 {
    let (a, b) = (freedom / 2.0, 0.5);
    let x = (1.0 - CONFIDENCE).inv_inc_beta(a, b, a.ln_beta(b));
    (freedom * (1.0 - x) / x).sqrt()
}

/// Returns the two-sided tail probability of Student's t: I_x(f/2, 1/2) at x = f/(f+t²) (DLMF 8.17,
/// Abramowitz and Stegun 26.7.1).
fn two_sided(t: f64, freedom: f64) -> f64 {
    let (a, b) = (freedom / 2.0, 0.5);
    (freedom / (freedom + t * t)).inc_beta(a, b, a.ln_beta(b))
}

#[cfg(test)]
mod tests;
