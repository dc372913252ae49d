//! Student's t distribution: what a few seeds say of the mean of all.

/// The level of all intervals and tests: two-sided, 95 %.
const CONFIDENCE: f64 = 0.95;
/// Steps of the continued fraction; it converges within some tens for all degrees of freedom.
const STEPS_MAX: u32 = 300;
/// Where a series is as exact as it becomes.
const EXACT: f64 = 1e-15;

/// A mean and its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// Half the width of the interval; 0 of one value, since one value says nothing about the spread.
    pub half: f64,
    /// How many values there were.
    pub count: usize,
}

/// The mean of some values with Student's 95 % confidence interval; `None` if there are none.
pub fn interval(values: &[f64]) -> Option<Interval> {
    let (mean, variance) = mean_and_variance(values)?;
    let count = values.len();
    let half = if count < 2 { 0.0 } else { quantile(count as f64 - 1.0) * (variance / count as f64).sqrt() };
    Some(Interval { mean, half, count })
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
/// values. Without any spread means are either equal (`p` = 1) or not (`p` = 0).
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
pub fn quantile(freedom: f64) -> f64 {
    let outside = 1.0 - CONFIDENCE;
    let (mut low, mut high) = (0.0, 2.0);
    while two_sided(high, freedom) > outside {
        (low, high) = (high, high * 2.0);
    }
    // Halving is slow and cannot fail.
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if two_sided(middle, freedom) > outside {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

/// The probability that Student's t is beyond `t` on either side: I_x(f/2, 1/2) at x = f/(f+t²) (DLMF 8.17, Abramowitz and Stegun 26.7.1).
fn two_sided(t: f64, freedom: f64) -> f64 {
    incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5)
}

/// The regularised incomplete beta function by its continued fraction (DLMF 8.17.22), evaluated as Lentz does.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // The fraction converges fast below the mean only.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp() / a;
    let away = |value: f64| if value.abs() < f64::MIN_POSITIVE { f64::MIN_POSITIVE } else { value };
    let (mut fraction, mut c, mut d) = (1.0, 1.0, 0.0);
    for step in 0..STEPS_MAX {
        let m = f64::from(step / 2);
        let part = match step {
            0 => 1.0,
            _ if step % 2 == 0 => m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
            _ => -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
        };
        d = 1.0 / away(1.0 + part * d);
        c = away(1.0 + part / c);
        fraction *= c * d;
        if (1.0 - c * d).abs() < EXACT {
            break;
        }
    }
    front * (fraction - 1.0)
}

/// The logarithm of the gamma function for arguments above 0: Lanczos' approximation (g = 7, nine terms; Godfrey's coefficients).
fn ln_gamma(x: f64) -> f64 {
    const TERMS: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let sum: f64 = TERMS[0] + (1..).zip(&TERMS[1..]).map(|(i, term)| term / (x + f64::from(i))).sum::<f64>();
    let t = x + 7.5;
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

#[cfg(test)]
mod tests;
