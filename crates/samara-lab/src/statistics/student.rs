//! Student's t distribution: confidence intervals of means, and Welch's test.

use special::Beta;

/// The level of all intervals and tests: two-sided, 95 %.
const CONFIDENCE: f64 = 0.95;

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
pub fn quantile(freedom: f64) -> f64 {
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
mod tests {
    use super::*;

    /// With one and two degrees of freedom, the quantile has a closed form: tan(π(p - ½)), and (2p - 1)·√(2/(4p(1 - p))), p = 0.975.
    #[test]
    fn quantiles_of_closed_form() {
        let p: f64 = 0.975;
        let one = (std::f64::consts::PI * (p - 0.5)).tan();
        let two = (2.0 * p - 1.0) * (2.0 / (4.0 * p * (1.0 - p))).sqrt();
        assert!((quantile(1.0) / one - 1.0).abs() < 1e-11, "{}", quantile(1.0));
        assert!((quantile(2.0) / two - 1.0).abs() < 1e-11, "{}", quantile(2.0));
    }

    /// The table that every textbook has.
    #[test]
    fn quantiles_of_the_table() {
        for (freedom, t) in [
            (3.0, 3.182),
            (4.0, 2.776),
            (5.0, 2.571),
            (9.0, 2.262),
            (19.0, 2.093),
            (29.0, 2.045),
            (100.0, 1.984),
            (1e6, 1.960),
        ] {
            assert!((quantile(freedom) - t).abs() < 6e-4, "{freedom}: {}", quantile(freedom));
        }
    }

    /// Between 1 and 2 the quantile lies between theirs, and falls.
    #[test]
    fn degrees_of_freedom_need_not_be_whole() {
        let all: Vec<f64> = (10..=40).map(|tenths| quantile(f64::from(tenths) / 10.0)).collect();
        assert!(all.windows(2).all(|pair| pair[0] > pair[1]), "{all:?}");
    }

    #[test]
    fn tails_have_closed_forms() {
        // One degree of freedom is Cauchy's distribution, two have t/√(2+t²).
        for t in [0.1_f64, 0.7, 1.0, 2.5, 40.0] {
            let cauchy = 1.0 - 2.0 / std::f64::consts::PI * t.atan();
            assert!((two_sided(t, 1.0) - cauchy).abs() < 1e-13, "{t}");
            assert!((two_sided(t, 2.0) - (1.0 - t / (2.0 + t * t).sqrt())).abs() < 1e-13, "{t}");
        }
        assert_eq!(two_sided(0.0, 5.0), 1.0);
    }

    #[test]
    fn an_interval_is_the_mean_and_t_times_its_error() {
        // Variance 2.5 over five values.
        let found = interval(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!((found.mean, found.count), (3.0, 5));
        assert!((found.half - 2.776_445 * (2.5_f64 / 5.0).sqrt()).abs() < 1e-5, "{}", found.half);
        assert_eq!(interval(&[7.0]), Some(Interval { mean: 7.0, half: 0.0, count: 1 }));
        // 0.1 three times does not add up to 0.3.
        assert_eq!(interval(&[0.1; 3]), Some(Interval { mean: 0.1, half: 0.0, count: 3 }));
        assert_eq!(interval(&[]), None);
    }

    /// Beside `ttest_ind(b, a, equal_var=False)` of SciPy and its confidence interval.
    #[test]
    fn welch_agrees_with_scipy() {
        let a = [17.2, 20.9, 22.6, 18.1, 21.7, 21.4, 23.5, 24.2, 14.7, 21.8];
        let b = [
            21.5, 22.8, 21.0, 23.0, 21.6, 23.6, 22.5, 20.7, 23.4, 21.8, 20.7, 21.7, 21.5, 22.5, 23.6, 21.5,
            22.5, 23.5, 21.5, 21.8,
        ];
        let found = welch(&a, &b).unwrap();
        assert!((found.difference - 1.525).abs() < 1e-9, "{}", found.difference);
        assert!((found.p - P_OF_SCIPY).abs() < 1e-9, "{}", found.p);
        assert!((found.half - 2.173_421_325).abs() < 1e-8, "{}", found.half);
        assert!(!found.is_significant());
        let back = welch(&b, &a).unwrap();
        assert!((back.p - found.p).abs() < 1e-15 && back.difference == -found.difference);
    }

    const P_OF_SCIPY: f64 = 0.148_841_696_605_328;

    #[test]
    fn without_spread_means_are_equal_or_not() {
        assert_eq!(welch(&[2.0, 2.0], &[2.0, 2.0]).map(|test| test.p), Some(1.0));
        assert_eq!(welch(&[2.0, 2.0], &[3.0, 3.0]).map(|test| test.p), Some(0.0));
        assert_eq!(welch(&[2.0], &[3.0, 3.0]), None);
    }
}
