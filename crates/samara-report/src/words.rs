//! Figures in words. All of these functions write [`MISSING`] for a number that is not finite.

/// A value that does not exist, such as the mean of nothing.
pub const MISSING: &str = "–";

/// A number with so many decimals.
pub fn fixed(value: f64, decimals: usize) -> String {
    if value.is_finite() { format!("{value:.decimals$}") } else { MISSING.to_owned() }
}

/// A share of 1 in percent, with so many decimals.
pub fn percent(share: f64, decimals: usize) -> String {
    if share.is_finite() { format!("{:.decimals$} %", share * 100.0) } else { MISSING.to_owned() }
}

/// A deviation as a share of 1, in percent with its sign.
pub fn signed_percent(share: f64) -> String {
    if share.is_finite() { format!("{:+.1} %", share * 100.0) } else { MISSING.to_owned() }
}

/// The least and the most of shares of 1, in whole percent.
pub fn percent_range(least: f64, most: f64) -> String {
    if least.is_finite() && most.is_finite() {
        format!("{:.0}-{:.0} %", least * 100.0, most * 100.0)
    } else {
        MISSING.to_owned()
    }
}

/// How many times `b` the value `a` is; `None` unless both are finite and positive.
pub fn times(a: f64, b: f64) -> Option<f64> {
    let is_there = |value: f64| value.is_finite() && value > 0.0;
    (is_there(a) && is_there(b)).then(|| a / b)
}

/// A time as people say it.
pub fn ms(value: f64) -> String {
    if !value.is_finite() {
        MISSING.to_owned()
    } else if value >= 1000.0 {
        format!("{:.2} s", value / 1000.0)
    } else {
        format!("{value:.0} ms")
    }
}

/// A time to three digits.
pub fn short_ms(value: f64) -> String {
    if !value.is_finite() {
        MISSING.to_owned()
    } else if value >= 1000.0 {
        format!("{:.2} s", value / 1000.0)
    } else if value >= 100.0 {
        format!("{value:.0} ms")
    } else if value >= 10.0 {
        format!("{value:.1} ms")
    } else {
        format!("{value:.2} ms")
    }
}

/// A number with a comma between thousands.
pub fn grouped(value: f64) -> String {
    if !value.is_finite() {
        return MISSING.to_owned();
    }
    let digits = format!("{:.0}", value.abs());
    let mut text = if value < -0.5 { "-".to_owned() } else { String::new() };
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things.
pub fn plural(count: f64, thing: &str) -> String {
    let s = if count == 1.0 { "" } else { "s" };
    format!("{} {thing}{s}", grouped(count))
}

/// A number as people write it: no more digits than tell something.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        MISSING.to_owned()
    } else if value == 0.0 || (value.fract() == 0.0 && value.abs() < 1e7) {
        format!("{value:.0}")
    } else if value.abs() >= 1e6 {
        format!("{:.2} M", value / 1e6)
    } else if value.abs() >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.3}")
    }
}

/// A factor to two digits or so.
pub fn factor(value: f64) -> String {
    if value >= 10.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

/// "a", "a and b", "a, b, and c".
pub fn listed(all: &[String]) -> String {
    match all {
        [] => String::new(),
        [only] => only.clone(),
        [first, second] => format!("{first} and {second}"),
        [first @ .., last] => format!("{}, and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{Swept, Unit};

    #[test]
    fn every_formatter_writes_a_dash_for_a_number_that_is_not_finite() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let mut written = vec![
                fixed(value, 2),
                percent(value, 1),
                signed_percent(value),
                percent_range(value, 0.5),
                percent_range(0.5, value),
                ms(value),
                short_ms(value),
                grouped(value),
                number(value),
                Swept::new(&["1 ms", "2 ms"]).0.label(value),
            ];
            let units = [Unit::Number, Unit::Count, Unit::Milliseconds, Unit::Bytes, Unit::Share];
            written.extend(units.map(|unit| unit.label(value)));
            written.extend(units.map(|unit| unit.written(value)));
            assert!(written.iter().all(|text| text == MISSING), "{written:?}");
        }
    }

    #[test]
    fn numbers_are_written_short() {
        let written = [0.0, 12.0, 1234.5, 2_500_000.5, 0.123_456].map(number);
        assert_eq!(written, ["0", "12", "1234", "2.50 M", "0.123"]);
    }

    #[test]
    fn there_is_no_ratio_unless_both_are_finite_and_positive() {
        assert_eq!(times(3.0, 2.0), Some(1.5));
        for (a, b) in
            [(f64::NAN, 1.0), (1.0, f64::NAN), (1.0, 0.0), (0.0, 1.0), (f64::INFINITY, 1.0), (-1.0, 1.0)]
        {
            assert_eq!(times(a, b), None, "{a} {b}");
        }
    }
}
