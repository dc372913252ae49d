//! Figures in words. All of these functions write [`MISSING`] for a number that is not finite.

/// A value that does not exist, such as the mean of nothing.
pub(crate) const MISSING: &str = "–";

/// A number with so many decimals.
pub(crate) fn fixed(value: f64, decimals: usize) -> String {
    if value.is_finite() { format!("{value:.decimals$}") } else { MISSING.to_owned() }
}

/// A share of 1 in percent, with so many decimals.
pub(crate) fn percent(share: f64, decimals: usize) -> String {
    if share.is_finite() { format!("{:.decimals$} %", share * 100.0) } else { MISSING.to_owned() }
}

/// A deviation as a share of 1, in percent with its sign.
pub(crate) fn signed_percent(share: f64) -> String {
    if share.is_finite() { format!("{:+.1} %", share * 100.0) } else { MISSING.to_owned() }
}

/// The least and the most of shares of 1, in whole percent.
pub(crate) fn percent_range(least: f64, most: f64) -> String {
    if least.is_finite() && most.is_finite() {
        format!("{:.0}-{:.0} %", least * 100.0, most * 100.0)
    } else {
        MISSING.to_owned()
    }
}

/// How many times `b` the value `a` is; `None` unless both are finite and positive.
pub(crate) fn times(a: f64, b: f64) -> Option<f64> {
    let is_there = |value: f64| value.is_finite() && value > 0.0;
    (is_there(a) && is_there(b)).then(|| a / b)
}

/// A time as people say it.
pub(crate) fn ms(value: f64) -> String {
    if !value.is_finite() {
        MISSING.to_owned()
    } else if value >= 1000.0 {
        format!("{:.2} s", value / 1000.0)
    } else {
        format!("{value:.0} ms")
    }
}

/// A time to three digits.
pub(crate) fn short_ms(value: f64) -> String {
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
pub(crate) fn grouped(value: f64) -> String {
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
pub(crate) fn plural(count: f64, thing: &str) -> String {
    let s = if count == 1.0 { "" } else { "s" };
    format!("{} {thing}{s}", grouped(count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{Swept, Unit};
    use crate::sweep::shown;
    use crate::terminal::number;

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
            written.extend(["x", "x_ms", "x_bytes", "x_share"].map(|metric| shown(metric, value)));
            assert!(written.iter().all(|text| text == MISSING), "{written:?}");
        }
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
