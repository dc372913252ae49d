use super::*;

#[test]
fn percentiles_agree_with_numpy() {
    let values: Vec<f64> = (1..=10).map(f64::from).collect();
    let statistics = Statistics::of(&values).unwrap();
    assert!((statistics.mean - 5.5).abs() < 1e-12);
    assert!((statistics.p50 - 5.5).abs() < 1e-12);
    assert!((statistics.p95 - 9.55).abs() < 1e-12);
    assert!((statistics.max - 10.0).abs() < 1e-12);
    assert_eq!(Statistics::of(&[]), None);
}

/// With one and two degrees of freedom, the quantile has a closed form: tan(π(p - ½)) and (2p -
/// 1)·√(2/(4p(1 - p))), with p = 0.975.
#[test]
fn quantiles_agree_with_closed_forms() {
    let p: f64 = 0.975;
    let one = (std::f64::consts::PI * (p - 0.5)).tan();
    let two = (2.0 * p - 1.0) * (2.0 / (4.0 * p * (1.0 - p))).sqrt();
    assert!((quantile(1.0) / one - 1.0).abs() < 1e-11, "{}", quantile(1.0));
    assert!((quantile(2.0) / two - 1.0).abs() < 1e-11, "{}", quantile(2.0));
}

/// The values of textbook tables.
#[test]
fn quantiles_agree_with_tables() {
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

/// The quantile decreases with fractional degrees of freedom between 1 and 4.
#[test]
fn fractional_degrees_of_freedom_are_valid() {
    let all: Vec<f64> = (10..=40).map(|tenths| quantile(f64::from(tenths) / 10.0)).collect();
    assert!(all.windows(2).all(|pair| pair[0] > pair[1]), "{all:?}");
}

#[test]
fn tails_agree_with_closed_forms() {
    // One degree of freedom is Cauchy's distribution; two have t/√(2+t²).
    for t in [0.1_f64, 0.7, 1.0, 2.5, 40.0] {
        let cauchy = 1.0 - 2.0 / std::f64::consts::PI * t.atan();
        assert!((two_sided(t, 1.0) - cauchy).abs() < 1e-13, "{t}");
        assert!((two_sided(t, 2.0) - (1.0 - t / (2.0 + t * t).sqrt())).abs() < 1e-13, "{t}");
    }
    assert_eq!(two_sided(0.0, 5.0), 1.0);
}

#[test]
fn interval_is_t_times_the_standard_error() {
    // The variance of these five values is 2.5.
    let found = Spread::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
    assert_eq!((found.mean, found.min, found.max, found.seeds), (3.0, 1.0, 5.0, 5));
    let half = found.confidence_95;
    assert!((half - 2.776_445 * (2.5_f64 / 5.0).sqrt()).abs() < 1e-5, "{half}");
    // 0.1 added three times does not equal 0.3.
    for (value, seeds) in [(7.0, 1), (0.1, 3)] {
        let same = Spread { mean: value, confidence_95: 0.0, min: value, max: value, seeds };
        assert_eq!(Spread::of(&vec![value; seeds]), Some(same));
    }
    assert_eq!(Spread::of(&[]), None);
}

/// Compares with `ttest_ind(b, a, equal_var=False)` of SciPy and its confidence interval.
#[test]
fn welch_agrees_with_scipy() {
    let a = [17.2, 20.9, 22.6, 18.1, 21.7, 21.4, 23.5, 24.2, 14.7, 21.8];
    let b = [
        21.5, 22.8, 21.0, 23.0, 21.6, 23.6, 22.5, 20.7, 23.4, 21.8, 20.7, 21.7, 21.5, 22.5, 23.6, 21.5, 22.5,
        23.5, 21.5, 21.8,
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
fn without_spread_p_is_zero_or_one() {
    assert_eq!(welch(&[2.0, 2.0], &[2.0, 2.0]).map(|test| test.p), Some(1.0));
    assert_eq!(welch(&[2.0, 2.0], &[3.0, 3.0]).map(|test| test.p), Some(0.0));
    assert_eq!(welch(&[2.0], &[3.0, 3.0]), None);
}
