use proptest::prelude::*;

use super::{Decimal, Kind, RATE, Rate, SHARE, SIZE, SPAN, Share, Size, Span};

/// Reads a text, and returns what is written for its value.
fn again(kind: &Kind, text: &str) -> String {
    match kind.name {
        "a rate" => Rate::parse(text).unwrap().to_string(),
        "a time" => Span::parse(text).unwrap().to_string(),
        "a size" => Size::parse(text).unwrap().to_string(),
        _ => Share::parse(text).unwrap().to_string(),
    }
}

/// Values of all magnitudes, those around powers of ten and of two among them.
fn values(most: u64) -> impl Strategy<Value = u64> {
    let power =
        |base: u64| move |(exponent, off): (u32, i64)| base.saturating_pow(exponent).wrapping_add_signed(off);
    let any = (0_u32..64, any::<u64>()).prop_map(|(bits, value)| value >> bits);
    let near = |base, exponents: u32| (0..exponents, -2_i64..=2).prop_map(power(base));
    prop_oneof![any, near(10, 19), near(2, 63), Just(most)].prop_map(move |value| value.min(most))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn what_is_written_reads_as_the_same_value(rate in values(RATE.most.0), span in values(SPAN.most.0), size in values(SIZE.most.0)) {
        prop_assert_eq!(Rate::parse(&Rate(rate).to_string()), Ok(Rate(rate)));
        prop_assert_eq!(Span::parse(&Span(span).to_string()), Ok(Span(span)));
        prop_assert_eq!(Size::parse(&Size(size).to_string()), Ok(Size(size)));
    }

    /// Any finite fraction, and those that a person would write.
    #[test]
    fn shares_read_as_the_same_fraction(bits in any::<u64>(), hundredths in 0_u32..1_000_000) {
        let any = f64::from_bits(bits >> 1);
        for fraction in [any, f64::from(hundredths) / 1e4, f64::from(hundredths) * 0.0001] {
            if fraction.is_finite() && fraction < 1e300 {
                let text = Share(fraction).to_string();
                prop_assert_eq!(Share::parse(&text).map(|share| share.0.to_bits()), Ok(fraction.to_bits()), "{}", text);
            }
        }
    }

    /// A percentage as in files is written with the digits that it was read from.
    #[test]
    fn percentages_keep_their_digits(hundredths in 0_u32..1_000_000) {
        let number = format!("{}.{:02}", hundredths / 100, hundredths % 100);
        let natural = format!("{} %", number.trim_end_matches('0').trim_end_matches('.'));
        prop_assert_eq!(again(&SHARE, &format!("{number} %")), natural);
    }

    /// No text in another decimal unit is shorter and reads as the same value.
    #[test]
    fn the_shortest_text_is_written(value in values(SPAN.most.0)) {
        let written = Span(value).to_string().chars().count();
        for (unit, factor) in SPAN.units.iter().filter(|(_, factor)| *factor <= value.min(1_000_000_000)) {
            let text = format!("{} {unit}", value as f64 / *factor as f64);
            if text.chars().count() < written {
                prop_assert_ne!(Span::parse(&text), Ok(Span(value)), "{}", text);
            }
        }
    }
}

#[test]
fn constants_are_written_as_a_person_would() {
    for (fraction, text) in [(0.82, "82 %"), (0.07, "7 %"), (0.001, "0.1 %"), (1.0, "100 %"), (0.0, "0 %")] {
        assert_eq!(Share::from_fraction(fraction).to_string(), text);
    }
    assert_eq!(Share::from_fraction(1e-12).to_string(), "1e-10 %");
    assert_eq!(Share::from_fraction(12.5).to_string(), "1250 %");
    for percent in 0..=100 {
        let text = format!("{percent} %");
        assert_eq!(Share::from_fraction(f64::from(percent) / 100.0).to_string(), text);
        assert_eq!(again(&SHARE, &text), text);
    }
    for text in ["2 s", "1.5 s", "90 s", "5 min", "714 ms", "333333333 ns", "0 s", "1.5 h", "87600 h"] {
        assert_eq!(again(&SPAN, text), text);
    }
    for text in ["20 Mbit/s", "1.5 Gbit/s", "999999999 bit/s", "0 bit/s"] {
        assert_eq!(again(&RATE, text), text);
    }
    for text in ["128 KiB", "4 kB", "4097 B", "1.5 GB", "0 B"] {
        assert_eq!(again(&SIZE, text), text);
    }
    assert_eq!(again(&SPAN, "500 us"), "500 µs");
    assert_eq!(again(&SIZE, "4096 B"), "4 KiB");
}

/// Binary fractions lose a nanosecond here: 0.29 x 100 is less than 29.
#[test]
fn decimal_fractions_are_exact() {
    for hundredths in 0..10_000_u64 {
        let number = format!("{}.{:02}", hundredths / 100, hundredths % 100);
        assert_eq!(Span::parse(&format!("{number} us")), Ok(Span(hundredths * 10)), "{number}");
        assert_eq!(Rate::parse(&format!("{number} Gbit/s")), Ok(Rate(hundredths * 10_000_000)), "{number}");
    }
    assert_eq!(Span::parse("315359999999999999 ns"), Ok(Span(315_359_999_999_999_999)), "above 2^53");
    assert_eq!(Span::parse("0.3333333333333333 s"), Ok(Span(333_333_333)), "the nearest");
    assert_eq!(Span::parse("1.9999999999 s"), Ok(Span(2_000_000_000)), "the nearest");
    assert_eq!(Size::parse("1_000.5e-1 kB"), Ok(Size(100_050)));
    assert_eq!(Size::parse(".5 KiB"), Ok(Size(512)));
    assert_eq!(Size::parse("1e3 B"), Ok(Size(1000)));
    assert_eq!(Size::parse("000000000000000000000000000000000001 B"), Ok(Size(1)));
    assert_eq!(Size::parse("0e99999999999999999999 B"), Ok(Size(0)));
    assert_eq!(Share::parse("1e-1 %"), Ok(Share(0.001)));
}

#[test]
fn values_that_have_no_place_are_refused() {
    for (text, problem) in [
        ("0.4 ns", "\"0.4 ns\" is too small; expected 0, or a time of at least 1 ns"),
        ("1e-99999999999999999999 s", "is too small"),
        ("87601 h", "is too large; expected a time of at most 87600 h"),
        ("1e30 s", "is too large"),
        ("12345678901234567890123456789012345678901234567890 s", "is too large"),
        ("1e999 s", "is not finite"),
        ("-1 s", "is negative"),
        ("1 m", "unknown unit \"m\"; expected a time"),
        ("1", "has no unit"),
    ] {
        let error = Span::parse(text).unwrap_err();
        assert!(error.contains(problem), "{text}: {error}");
    }
    assert!(Share::parse("1e999 %").unwrap_err().contains("is not finite"));
    assert_eq!(Decimal::read("1e400").times(1), None);
}
