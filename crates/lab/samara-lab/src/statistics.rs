//! Order statistics; confidence intervals of means by Student's t; and tests of differences of means.

use hdrhistogram::Histogram;
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
            mean: Sample::mean(&sorted),
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
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    let (share, distance) = (place - place.floor(), above - below);
    // The distance of the largest numbers is beyond the range of numbers.
    if distance.is_finite() { below + distance * share } else { below * (1.0 - share) + above * share }
}

/// The level of two-sided intervals and tests.
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
        let Sample { scaled_mean, variance, unit } = Sample::of(values)?;
        let count = values.len() as f64;
        let half = if count < 2.0 {
            0.0
        } else {
            quantile(count - 1.0, CONFIDENCE) * (variance / count).sqrt() * unit
        };
        Some(Self {
            mean: scaled_mean * unit,
            confidence_95: half,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            seeds: values.len(),
        })
    }

    /// Returns the bounds of the confidence interval of the mean.
    pub fn interval(&self) -> (f64, f64) {
        (self.mean - self.confidence_95, self.mean + self.confidence_95)
    }

    pub fn written(&self, unit: Unit) -> String {
        let mean = unit.written(self.mean);
        let half = self.confidence_95;
        if half > 0.0 { format!("{mean} ± {}", unit.written(half)) } else { mean }
    }
}

/// A test of the difference of two means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Test {
    pub kind: TestKind,
    /// The second mean minus the first.
    pub difference: f64,
    /// Half the width of the difference's confidence interval. Zero is outside of it where the difference
    /// is significant: the interval is of 95 %, or of 97.5 % if this is the stronger one of two tests.
    pub half: f64,
    /// The two-sided probability of a difference at least as large if the means were equal.
    pub p: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestKind {
    /// Student's test of the differences of pairs.
    Paired,
    /// Welch's test, which does not assume equal variances.
    Welch,
}

impl TestKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Paired => "paired",
            Self::Welch => "Welch",
        }
    }
}

/// The values of a figure, each with its seed.
pub type BySeed = [(Option<u64>, f64)];

impl Test {
    /// Tests the difference of two figures over seeds.
    ///
    /// With the same seeds on both sides, values of one seed are a pair: a seed sets network and
    /// workload, and what these add to both sides cancels out. Where they add nothing, pairs have fewer
    /// degrees of freedom than they need. So it is the stronger one of the test by pairs and of Welch's test,
    /// with twice its `p` (Bonferroni). With other seeds, it is Welch's test.
    pub fn of(a: &BySeed, b: &BySeed) -> Option<Self> {
        let sorted = |of: &BySeed| {
            let mut of = of.to_vec();
            of.sort_by_key(|(seed, _)| *seed);
            of
        };
        let (a, b) = (sorted(a), sorted(b));
        let has_seed = a.iter().all(|(seed, _)| seed.is_some());
        let is_paired = has_seed && a.iter().map(|of| of.0).eq(b.iter().map(|of| of.0));
        let [a, b] = [a, b].map(|of| of.into_iter().map(|(_, value)| value).collect::<Vec<_>>());
        if !is_paired {
            return welch(&a, &b, CONFIDENCE);
        }
        let each = f64::midpoint(CONFIDENCE, 1.0);
        let stronger = [paired(&a, &b, each)?, welch(&a, &b, each)?];
        let stronger = stronger.into_iter().min_by(|one, other| one.p.total_cmp(&other.p))?;
        Some(Self { p: (2.0 * stronger.p).min(1.0), ..stronger })
    }

    /// Returns true if the difference is significant at 5 %.
    pub fn is_significant(&self) -> bool {
        self.p < 1.0 - CONFIDENCE
    }
}

/// Performs Welch's test of the means of `a` and `b` (Welch 1947; degrees of freedom after
/// Satterthwaite 1946).
///
/// `None` if either has fewer than two values, or one that is not finite. Without any spread, means
/// are either equal (`p` = 1) or different (`p` = 0).
fn welch(a: &[f64], b: &[f64], confidence: f64) -> Option<Test> {
    if a.len() < 2 || b.len() < 2 || a.iter().chain(b).any(|value| !value.is_finite()) {
        return None;
    }
    let (in_a, in_b) = (Sample::of(a)?, Sample::of(b)?);
    // Squares of variances are beyond the range of numbers unless they have a common unit.
    let unit_of = |sample: &Sample| if sample.variance > 0.0 { sample.unit } else { 0.0 };
    let unit = Some(unit_of(&in_a).max(unit_of(&in_b))).filter(|unit| *unit > 0.0).unwrap_or(1.0);
    let of = |sample: &Sample, count: usize| match sample.variance {
        0.0 => 0.0,
        variance => variance / count as f64 * (sample.unit / unit) * (sample.unit / unit),
    };
    let mean = |sample: &Sample| match sample.unit / unit {
        ratio if ratio.is_finite() => sample.scaled_mean * ratio,
        // Equal values have the unit 1.
        _ => sample.scaled_mean / unit,
    };
    let (of_a, of_b) = (of(&in_a, a.len()), of(&in_b, b.len()));
    let difference = in_b.scaled_mean * in_b.unit - in_a.scaled_mean * in_a.unit;
    let error = (of_a + of_b).sqrt();
    if error == 0.0 {
        let p = if difference == 0.0 { 1.0 } else { 0.0 };
        return Some(Test { kind: TestKind::Welch, difference, half: 0.0, p });
    }
    let freedom = (of_a + of_b).powi(2)
        / (of_a.powi(2) / (a.len() as f64 - 1.0) + of_b.powi(2) / (b.len() as f64 - 1.0));
    if !(freedom.is_finite() && freedom > 0.0) {
        return None;
    }
    let t = (mean(&in_b) - mean(&in_a)).abs() / error;
    Some(Test {
        kind: TestKind::Welch,
        difference,
        half: quantile(freedom, confidence) * error * unit,
        p: two_sided(t, freedom),
    })
}

/// Performs Student's test of the differences of pairs.
///
/// `None` if there are fewer than two pairs, or if a value or a difference is not finite. Without any
/// spread, means are either equal (`p` = 1) or different (`p` = 0).
fn paired(a: &[f64], b: &[f64], confidence: f64) -> Option<Test> {
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| b - a).collect();
    if differences.len() < 2 || differences.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let Sample { scaled_mean, variance, unit } = Sample::of(&differences)?;
    let (count, difference) = (differences.len() as f64, scaled_mean * unit);
    let error = (variance / count).sqrt();
    let p = match error {
        0.0 if difference == 0.0 => 1.0,
        0.0 => 0.0,
        error => two_sided(scaled_mean.abs() / error, count - 1.0),
    };
    let half = if error == 0.0 { 0.0 } else { quantile(count - 1.0, confidence) * error * unit };
    Some(Test { kind: TestKind::Paired, difference, half, p })
}

/// The moments of values. A power of two as unit keeps squares of the largest and the smallest
/// numbers within the range of numbers, and changes no digit of others.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// The mean, in units.
    scaled_mean: f64,
    /// The sample variance (0 for one value), in squares of the unit.
    variance: f64,
    unit: f64,
}

impl Sample {
    /// Equal values have no variance, without rounding errors.
    fn of(values: &[f64]) -> Option<Self> {
        let first = *values.first()?;
        if values.iter().all(|value| *value == first) {
            return Some(Self { scaled_mean: first, variance: 0.0, unit: 1.0 });
        }
        let unit = power_of_two(values);
        let count = values.len() as f64;
        let mean = values.iter().map(|value| value / unit).sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value / unit - mean).powi(2)).sum();
        Some(Self { scaled_mean: mean, variance: squares / (count - 1.0), unit })
    }

    /// Returns the mean of at least one value.
    fn mean(values: &[f64]) -> f64 {
        let unit = power_of_two(values);
        values.iter().map(|value| value / unit).sum::<f64>() / values.len() as f64 * unit
    }
}

/// Returns the largest power of two up to the largest of the values; 1 if that is 0 or not finite.
fn power_of_two(values: &[f64]) -> f64 {
    const EXPONENT: u64 = 0x7ff << 52;
    let bits = values.iter().fold(0.0_f64, |most, value| most.max(value.abs())).to_bits();
    match bits & EXPONENT {
        EXPONENT => 1.0,
        0 if bits == 0 => 1.0,
        // Numbers without an exponent of their own.
        0 => f64::from_bits(1 << bits.ilog2()),
        exponent => f64::from_bits(exponent),
    }
}

/// Returns Student's t for a two-sided interval, with `freedom` degrees of freedom (more than 0).
fn quantile(freedom: f64, confidence: f64) -> f64 {
    let (a, b) = (freedom / 2.0, 0.5);
    let x = (1.0 - confidence).inv_inc_beta(a, b, a.ln_beta(b));
    (freedom * (1.0 - x) / x).sqrt()
}

/// Returns the two-sided tail probability of Student's t: I_x(f/2, 1/2) at x = f/(f+t²) (DLMF 8.17,
/// Abramowitz and Stegun 26.7.1).
fn two_sided(t: f64, freedom: f64) -> f64 {
    let (a, b) = (freedom / 2.0, 0.5);
    (freedom / (freedom + t * t)).inc_beta(a, b, a.ln_beta(b))
}

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
    #[inline]
    pub fn add(&mut self, nanos: u64) {
        self.histogram.saturating_record(nanos);
        self.sum += u128::from(nanos);
        self.max = self.max.max(nanos);
    }

    #[inline]
    pub fn join(&mut self, other: &Self) {
        // Both histograms have the same bounds, so the addition cannot fail.
        let _ = self.histogram.add(&other.histogram);
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    #[inline]
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    #[inline]
    pub fn mean_ms(&self) -> f64 {
        self.sum as f64 / self.count() as f64 / 1e6
    }

    /// Returns the quantile in milliseconds, to the precision of the histogram's buckets.
    #[inline]
    pub fn quantile_ms(&self, share: f64) -> f64 {
        // The upper end of the last bucket can lie above the maximum.
        self.histogram.value_at_quantile(share).min(self.max) as f64 / 1e6
    }

    #[inline]
    pub fn max_ms(&self) -> f64 {
        self.max as f64 / 1e6
    }

    /// Returns the upper end of each bucket in milliseconds, with the share of durations up to it.
    #[inline]
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

#[cfg(test)]
mod tests;
