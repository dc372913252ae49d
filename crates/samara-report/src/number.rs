//! Numbers for people. Between a number and its unit is a space at which lines are not broken.

/// A number with this many digits after the point and commas between thousands; an en dash if it is not finite.
pub fn fixed(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let text = format!("{value:.digits$}");
    let (sign, text) = match text.strip_prefix('-') {
        // A negative number that rounds to 0 is 0.
        Some(rest) if rest.bytes().all(|byte| byte == b'0' || byte == b'.') => ("", rest),
        Some(rest) => ("−", rest),
        None => ("", text.as_str()),
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut out = String::from(sign);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// A number with as many digits as a reader needs: three that count, no more than `most` after the point.
pub fn short(value: f64) -> String {
    let size = value.abs();
    let digits = match size {
        _ if size == 0.0 || size >= 100.0 => 0,
        _ if size >= 10.0 => 1,
        _ if size >= 1.0 => 2,
        _ => 3,
    };
    trimmed(fixed(value, digits))
}

/// A number as the name of a tick: no digit too many.
pub(crate) fn tick(value: f64) -> String {
    trimmed(fixed(value, 6))
}

fn trimmed(text: String) -> String {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A number of milliseconds, as ms or s.
pub fn millis(value: f64) -> String {
    match value {
        _ if !value.is_finite() => "–".to_owned(),
        _ if value.abs() < 9.95 => format!("{}\u{a0}ms", trimmed(fixed(value, 1))),
        _ if value.abs() < 9_999.5 => format!("{}\u{a0}ms", fixed(value, 0)),
        _ => format!("{}\u{a0}s", fixed(value / 1e3, 1)),
    }
}

/// A number of bytes with a decimal prefix.
pub fn bytes(value: f64) -> String {
    const PREFIXES: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let mut scaled = value;
    let mut prefix = 0;
    while scaled.abs() >= 999.5 && prefix < PREFIXES.len() - 1 {
        scaled /= 1e3;
        prefix += 1;
    }
    format!("{}\u{a0}{}", short(scaled), PREFIXES[prefix])
}

/// A share of 1 in percent.
pub fn percent(value: f64) -> String {
    let digits = if value > 0.0 && value < 1.0 && !(0.01..0.995).contains(&value) { 2 } else { 0 };
    format!("{}\u{a0}%", trimmed(fixed(value * 100.0, digits)))
}
