//! Order statistics, and Student's t: confidence intervals of means, and Welch's test.

use samara_apps::Durations;
use samara_report::Unit;
use serde::Serialize;
use special::Beta;

/// Order statistics of a set of values.
///
/// Percentiles interpolate linearly between order statistics, as NumPy's default does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Statistics {
    pub mean: f64,
    /// The median.
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
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

    /// Those of durations, in milliseconds; `None` if there are none. Percentiles are those of the histogram's buckets.
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

/// A percentile (`0..=1`) of sorted values, interpolated.
///
/// # Panics
/// If there are no values.
pub fn percentile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    sorted[below] + (sorted[above] - sorted[below]) * (place - place.floor())
}

/// The level of all intervals and tests: two-sided, 95 %.
const CONFIDENCE: f64 = 0.95;

/// A figure over seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    pub mean: f64,
    /// Half the width of Student's 95 % confidence interval of the mean; 0 of one seed, which says nothing about it.
    pub confidence_95: f64,
    pub min: f64,
    pub max: f64,
    /// Seeds that measured it.
    pub seeds: usize,
}

impl Spread {
    /// That of some values; `None` if there are none.
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

    /// The mean, and the interval if there is one.
    pub(crate) fn written(&self, unit: Unit) -> String {
        let mean = unit.written(self.mean);
        let half = self.confidence_95;
        if half > 0.0 { format!("{mean} ± {}", unit.written(half)) } else { mean }
    }
}

/// How two means differ: Welch's test, which does not take the variances for equal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Welch {
    /// The second mean less the first.
    pub difference: f64,
    /// Half the width of the difference's 95 % confidence interval.
    pub half: f64,
    /// The probability of a difference at least as large if there were none (two-sided).
    pub p: f64,
}

impl Welch {
    /// Whether the difference is significant at 5 %.
    pub fn is_significant(&self) -> bool {
        self.p < 1.0 - CONFIDENCE
    }
}

/// Welch's test of the means of `a` and `b` (Welch 1947; degrees of freedom after Satterthwaite 1946); `None` if either has less than two
/// values. Without any spread, means are either equal (`p` = 1) or not (`p` = 0).
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

/// The mean and the variance of the sample (0 of one value); values that are all the same have no variance, whatever rounding says.
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

/// Student's t for a two-sided interval of 95 %, with so many degrees of freedom (more than 0).
fn quantile(freedom: f64) -> f64 {
    let (a, b) = (freedom / 2.0, 0.5);
    let x = (1.0 - CONFIDENCE).inv_inc_beta(a, b, a.ln_beta(b));
    (freedom * (1.0 - x) / x).sqrt()
}

/// The probability that Student's t is beyond `t` on either side: I_x(f/2, 1/2) at x = f/(f+t²) (DLMF 8.17, Abramowitz and Stegun 26.7.1).
fn two_sided(t: f64, freedom: f64) -> f64 {
    let (a, b) = (freedom / 2.0, 0.5);
    (freedom / (freedom + t * t)).inc_beta(a, b, a.ln_beta(b))
}

#[cfg(test)]
mod tests;
