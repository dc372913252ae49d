use samara_engine::{NodeRng, Purpose};

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
    assert!((quantile(1.0, CONFIDENCE) / one - 1.0).abs() < 1e-11, "{}", quantile(1.0, CONFIDENCE));
    assert!((quantile(2.0, CONFIDENCE) / two - 1.0).abs() < 1e-11, "{}", quantile(2.0, CONFIDENCE));
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
        assert!(
            (quantile(freedom, CONFIDENCE) - t).abs() < 6e-4,
            "{freedom}: {}",
            quantile(freedom, CONFIDENCE)
        );
    }
}

/// The quantile decreases with fractional degrees of freedom between 1 and 4.
#[test]
fn fractional_degrees_of_freedom_are_valid() {
    let all: Vec<f64> = (10..=40).map(|tenths| quantile(f64::from(tenths) / 10.0, CONFIDENCE)).collect();
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
    let found = welch(&a, &b, CONFIDENCE).unwrap();
    assert!((found.difference - 1.525).abs() < 1e-9, "{}", found.difference);
    assert!((found.p - P_OF_SCIPY).abs() < 1e-9, "{}", found.p);
    assert!((found.half - 2.173_421_325).abs() < 1e-8, "{}", found.half);
    assert!(!found.is_significant());
    let back = welch(&b, &a, CONFIDENCE).unwrap();
    assert!((back.p - found.p).abs() < 1e-15 && back.difference == -found.difference);
}

const P_OF_SCIPY: f64 = 0.148_841_696_605_328;

#[test]
fn without_spread_p_is_zero_or_one() {
    assert_eq!(welch(&[2.0, 2.0], &[2.0, 2.0], CONFIDENCE).map(|test| test.p), Some(1.0));
    assert_eq!(welch(&[2.0, 2.0], &[3.0, 3.0], CONFIDENCE).map(|test| test.p), Some(0.0));
    assert_eq!(welch(&[2.0], &[3.0, 3.0], CONFIDENCE), None);
}

/// Compares with `ttest_rel(b, a)` of SciPy and its confidence interval of 97.5 %: two tests share 5 %.
/// Seeds in another order are the same pairs; other seeds are none.
#[test]
fn equal_seeds_are_pairs() {
    let of = |seeds: [u64; 3], values: [f64; 3]| -> Vec<(Option<u64>, f64)> {
        seeds.into_iter().map(Some).zip(values).collect()
    };
    let a = of([1, 2, 3], [141.0, 152.5, 160.0]);
    let found = Test::of(&a, &of([3, 1, 2], [165.7, 148.8, 159.4])).unwrap();
    assert_eq!(found.kind, TestKind::Paired);
    assert!((found.difference - 6.8).abs() < 1e-9, "{found:?}");
    assert!((found.p - 2.0 * P_OF_PAIRS).abs() < 1e-9, "{found:?}");
    assert!((found.half - HALF_OF_PAIRS).abs() < 1e-8, "{found:?}");
    assert!(found.is_significant());
    let other = Test::of(&a, &of([1, 2, 4], [148.8, 159.4, 165.7])).unwrap();
    assert!(other.kind == TestKind::Welch && !other.is_significant(), "{other:?}");
    let unknown: Vec<_> = a.iter().map(|(_, value)| (None, *value)).collect();
    assert_eq!(Test::of(&unknown, &unknown).map(|test| (test.kind, test.p)), Some((TestKind::Welch, 1.0)));
    let shifted = of([1, 2, 3], [142.0, 153.5, 161.0]);
    assert_eq!(Test::of(&a, &shifted).map(|test| test.p), Some(0.0));
    assert_eq!(Test::of(&a, &a).map(|test| test.p), Some(1.0));
    assert_eq!(Test::of(&a[..1], &shifted[..1]), None);
}

/// Seeds that add nothing in common to both sides do not hide a difference.
#[test]
fn equal_seeds_without_a_common_part_have_the_test_of_welch() {
    let of = |values: [f64; 3]| -> Vec<(Option<u64>, f64)> { (1..).map(Some).zip(values).collect() };
    let found = Test::of(&of([687.9, 730.3, 718.1]), &of([791.3, 763.9, 814.1])).unwrap();
    assert!(found.kind == TestKind::Welch && found.is_significant(), "{found:?}");
}

/// Of equal distributions, at most 5 % differ, with a common part and without one.
#[test]
fn equal_means_seldom_differ() {
    let mut rng = NodeRng::new(7, 0, Purpose::Workload);
    let mut draw = || (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0;
    for common in [0.0, 1.0, 5.0] {
        let mut significant = 0;
        for _ in 0..4_000 {
            let shared: Vec<f64> = (0..3).map(|_| common * draw()).collect();
            let mut side = || -> Vec<(Option<u64>, f64)> {
                shared.iter().zip(1..).map(|(shared, seed)| (Some(seed), shared + draw())).collect()
            };
            significant += u32::from(Test::of(&side(), &side()).is_some_and(|test| test.is_significant()));
        }
        assert!((20..=220).contains(&significant), "{common}: {significant} of 4,000");
    }
}

const P_OF_PAIRS: f64 = 0.007_906_951_726_540_656;
const HALF_OF_PAIRS: f64 = 3.774565110;

/// The extremes of what a summary in JSON can hold. Every pair of samples has an end, and the same
/// test as samples of ordinary size.
#[test]
fn extreme_values_have_a_test() {
    let usual = welch(&[0.0, 1.0, 3.0], &[1.0, 2.0, 9.0], CONFIDENCE).unwrap();
    for size in [5e-324, 1e-310, 1e-90, 1e-78, 1e78, 1e90, 1e150, 1e300] {
        let of = |values: [f64; 3]| values.map(|value| value * size);
        let found = welch(&of([0.0, 1.0, 3.0]), &of([1.0, 2.0, 9.0]), CONFIDENCE).unwrap();
        assert!((found.p / usual.p - 1.0).abs() < 1e-9, "{size}: {}", found.p);
        let spread = Spread::of(&of([1.0, 2.0, 9.0])).unwrap();
        assert!((spread.mean / (4.0 * size) - 1.0).abs() < 1e-9, "{size}: {}", spread.mean);
    }
    let values = [0.0, 5e-324, 1e-90, 1.0, 1e78, 1e308, f64::MAX];
    let signed = values.into_iter().chain(values.map(|value| -value));
    let pairs: Vec<[f64; 2]> = signed.clone().flat_map(|a| signed.clone().map(move |b| [a, b])).collect();
    for a in &pairs {
        let spread = Spread::of(a).unwrap();
        assert!(spread.mean.is_finite() && spread.min <= spread.mean && spread.mean <= spread.max, "{a:?}");
        assert!(Statistics::of(a).is_some_and(|of| of.mean.is_finite() && of.p95.is_finite()), "{a:?}");
        for b in &pairs {
            let found = welch(a, b, CONFIDENCE).unwrap_or_else(|| panic!("{a:?}, {b:?}"));
            assert!((0.0..=1.0).contains(&found.p), "{a:?}, {b:?}: {found:?}");
        }
    }
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        for other in [0.0, 1.0, f64::MAX, f64::INFINITY, f64::NAN] {
            assert_eq!(welch(&[value, other], &[1.0, 2.0], CONFIDENCE).map(|test| test.p.is_nan()), None);
            let _ = (Spread::of(&[value, other]), Statistics::of(&[value, other]));
        }
    }
}

/// A unit changes no digit of ordinary values.
#[test]
fn units_of_samples_are_exact() {
    let values = [688.123, 701.7, 655.01, 0.1, 1e-3];
    let (count, sum) = (values.len() as f64, values.iter().sum::<f64>());
    let mean = sum / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let sample = Sample::of(&values).unwrap();
    let unit = sample.unit;
    assert_eq!((sample.scaled_mean * unit, sample.variance * unit * unit), (mean, variance));
    assert_eq!(Sample::mean(&values), mean);
}
