//! Formats numbers as text. All functions here return [`MISSING`] for a number that is not finite.

/// Text for a value that does not exist, such as the mean of no values.
pub const MISSING: &str = "–";

/// Formats a finite number with `text`.
pub(crate) fn shown(value: f64, text: impl FnOnce() -> String) -> String {
    if value.is_finite() { text() } else { MISSING.to_owned() }
}

pub fn fixed(value: f64, decimals: usize) -> String {
    shown(value, || format!("{value:.decimals$}"))
}

/// Formats a share of 1 in percent with this number of decimals. A share below 1 that would read as 100 %
/// has more.
pub fn percent(share: f64, decimals: usize) -> String {
    shown(share, || in_percent(share, decimals) + " %")
}

/// Most decimals of a share: a difference to 1 that needs more is a rounding error.
const SHARE_DECIMALS_MAX: usize = 7;

fn in_percent(share: f64, decimals: usize) -> String {
    let written = |decimals: usize| format!("{:.decimals$}", share * 100.0);
    let is_all = |text: &String| text.parse() == Ok(100.0);
    let further = (decimals..=SHARE_DECIMALS_MAX).map(written).find(|text| share >= 1.0 || !is_all(text));
    further.unwrap_or_else(|| written(decimals))
}

/// Formats a deviation, given as a share of 1, in percent with its sign.
pub fn signed_percent(share: f64) -> String {
    shown(share, || format!("{:+.1} %", share * 100.0))
}

/// Formats the minimum and maximum of shares of 1 in whole percent.
pub fn percent_range(least: f64, most: f64) -> String {
    shown(least + most, || format!("{}-{} %", in_percent(least, 0), in_percent(most, 0)))
}

/// The ratio of `a` to `b`. `None` unless both are finite and positive.
pub fn times(a: f64, b: f64) -> Option<f64> {
    let is_there = |value: f64| value.is_finite() && value > 0.0;
    (is_there(a) && is_there(b)).then(|| a / b)
}

/// Formats a time in milliseconds with a suitable unit.
pub fn ms(value: f64) -> String {
    shown(value, || match value {
        1000.0.. => format!("{:.2} s", value / 1000.0),
        _ => millis(value) + " ms",
    })
}

/// Formats whole milliseconds, with two decimals below 10: times in a local network differ there.
pub fn millis(value: f64) -> String {
    fixed(value, if value > 0.0 && value < 9.995 { 2 } else { 0 })
}

pub(crate) fn three_digits(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Formats a time in milliseconds with three digits and a suitable unit.
pub fn short_ms(value: f64) -> String {
    shown(value, || match value {
        1000.0.. => format!("{:.2} s", value / 1000.0),
        _ => format!("{} ms", three_digits(value)),
    })
}

/// Formats a number with commas between thousands.
pub fn grouped(value: f64) -> String {
    shown(value, || {
        let digits = format!("{:.0}", value.abs());
        let mut text = if value < -0.5 { "-".to_owned() } else { String::new() };
        for (i, digit) in digits.chars().enumerate() {
            if i > 0 && (digits.len() - i).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        text
    })
}

/// Formats a number of things, such as "2 runs".
pub fn plural(count: f64, thing: &str) -> String {
    let s = if count == 1.0 { "" } else { "s" };
    format!("{} {thing}{s}", grouped(count))
}

/// Formats a number with as many digits as are significant for a reader.
pub fn number(value: f64) -> String {
    shown(value, || match value.abs() {
        size if value.fract() == 0.0 && size < 1e7 => grouped(value),
        1e6.. => format!("{:.2} M", value / 1e6),
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    })
}

/// Formats a factor with about two digits.
pub fn factor(value: f64) -> String {
    if value >= 10.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

/// Returns a text with a capital first letter.
pub fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Joins texts as in "a", "a and b", "a, b, and c".
pub fn listed(all: &[String]) -> String {
    match all {
        [] => String::new(),
        [only] => only.clone(),
        [first, second] => format!("{first} and {second}"),
        [first @ .., last] => format!("{}, and {last}", first.join(", ")),
    }
}
