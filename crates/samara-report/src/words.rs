//! Figures in words.

/// A time as people say it.
pub(crate) fn ms(value: f64) -> String {
    if !value.is_finite() {
        "no time".to_owned()
    } else if value >= 1000.0 {
        format!("{:.2} s", value / 1000.0)
    } else {
        format!("{value:.0} ms")
    }
}

/// A time to three digits.
pub(crate) fn short_ms(value: f64) -> String {
    if !value.is_finite() {
        "-".to_owned()
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
