//! Quantities with units, as in scenario files: `"20 Mbit/s"`, `"50 ms"`, `"16 KiB"`, `"0.1 %"`.
//!
//! SI prefixes are decimal (1 kB = 1,000 bytes), Ki and Mi are binary (1 KiB = 1,024 bytes). Rates
//! are in bits.
//!
//! A value that is written and read again is the same value: numbers are decimal in both directions,
//! and no step computes with binary fractions.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[cfg(test)]
mod tests;

/// A unit and its factor to the unit in which values are kept.
type Unit = (&'static str, u64);

/// Other spellings of units, in lower case.
const SPELLINGS: [(&str, &str); 19] = [
    ("bps", "bit/s"),
    ("kbps", "kbit/s"),
    ("mbps", "Mbit/s"),
    ("gbps", "Gbit/s"),
    ("usec", "us"),
    ("msec", "ms"),
    ("sec", "s"),
    ("secs", "s"),
    ("second", "s"),
    ("seconds", "s"),
    ("m", "min"),
    ("mins", "min"),
    ("minute", "min"),
    ("minutes", "min"),
    ("hour", "h"),
    ("hours", "h"),
    ("byte", "B"),
    ("bytes", "B"),
    ("percent", "%"),
];

/// The syntax of a kind of quantity: its name, an example, and its units.
struct Kind {
    name: &'static str,
    example: &'static str,
    /// The units, from one with the factor 1.
    units: &'static [Unit],
    /// The unit of the value zero.
    zero: &'static str,
    /// The largest value, and how it is written. Sums of such values stay within 64 bits.
    most: (u64, &'static str),
}

const RATE: Kind = Kind {
    name: "a rate",
    example: "\"20 Mbit/s\"",
    units: &[("bit/s", 1), ("kbit/s", 1_000), ("Mbit/s", 1_000_000), ("Gbit/s", 1_000_000_000)],
    zero: "bit/s",
    most: (1_000_000_000_000_000, "1000000 Gbit/s"),
};
const SPAN: Kind = Kind {
    name: "a time",
    example: "\"50 ms\"",
    units: &[
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("min", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ],
    zero: "s",
    most: (87_600 * 3_600_000_000_000, "87600 h"),
};
const SIZE: Kind = Kind {
    name: "a size",
    example: "\"128 KiB\"",
    units: &[
        ("B", 1),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
    ],
    zero: "B",
    most: (1_000_000_000_000_000, "1000000 GB"),
};
/// A share is a fraction of 1, so the factor of its unit is not used.
const SHARE: Kind =
    Kind { name: "a share", example: "\"0.1 %\"", units: &[("%", 1)], zero: "%", most: (u64::MAX, "") };

/// A number in decimal notation: its digits as a whole number, and the exponent of the last one.
struct Decimal {
    digits: u128,
    exponent: i64,
}

impl Decimal {
    /// Significant digits that are read. The product of such a number and a factor fits into 128 bits.
    const DIGITS_MAX: usize = 25;

    /// Reads a number that `f64` can read and that is finite.
    fn read(number: &str) -> Self {
        let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
        let beyond = if exponent.starts_with('-') { i64::MIN / 2 } else { i64::MAX / 2 };
        let exponent = exponent.parse::<i64>().unwrap_or(beyond).clamp(i64::MIN / 2, i64::MAX / 2);
        let mut decimal = Self { digits: 0, exponent };
        let (mut count, mut is_fraction) = (0, false);
        for c in mantissa.chars() {
            let Some(digit) = c.to_digit(10) else {
                is_fraction |= c == '.';
                continue;
            };
            let is_read = count < Self::DIGITS_MAX;
            if is_read {
                decimal.digits = decimal.digits * 10 + u128::from(digit);
                count += usize::from(decimal.digits > 0);
            }
            // A digit that is left out moves the point if it is before it.
            decimal.exponent += i64::from(!is_read) - i64::from(is_fraction);
        }
        decimal
    }

    /// Returns the nearest whole number to the product with a factor; `None` above 128 bits.
    fn times(&self, factor: u64) -> Option<u128> {
        let product = self.digits.checked_mul(u128::from(factor))?;
        if product == 0 {
            return Some(0);
        }
        let power = u32::try_from(self.exponent.unsigned_abs()).ok().and_then(|e| 10_u128.checked_pow(e));
        match (self.exponent >= 0, power) {
            (true, Some(power)) => product.checked_mul(power),
            (true, None) => None,
            (false, Some(power)) => Some(product / power + u128::from(product % power >= power.div_ceil(2))),
            (false, None) => Some(0),
        }
    }
}

impl Kind {
    /// Returns what is wrong with a text, and what is expected.
    fn wrong(&self, problem: &str) -> String {
        let units: Vec<&str> = self.units.iter().map(|(unit, _)| *unit).collect();
        format!("{problem}; expected {} such as {}, in {}", self.name, self.example, units.join(", "))
    }

    /// Splits a text into its number, which is finite and not negative, and the factor of its unit.
    fn split(&self, text: &str) -> Result<(String, u64), String> {
        let split = text.find(|c: char| !(c.is_ascii_digit() || ".+-eE_".contains(c))).unwrap_or(text.len());
        let (number, unit) = (text[..split].replace('_', ""), text[split..].trim());
        let Ok(value) = number.parse::<f64>() else {
            return Err(self.wrong(&format!("\"{text}\" does not start with a number")));
        };
        if unit.is_empty() {
            return Err(self.wrong(&format!("\"{text}\" has no unit")));
        }
        let Some((_, factor)) = self.units.iter().find(|(name, _)| *name == unit) else {
            let meant = self.meant(unit).map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
            return Err(self.wrong(&format!("unknown unit \"{unit}\"")) + &meant);
        };
        if value < 0.0 {
            return Err(self.wrong(&format!("\"{text}\" is negative")));
        }
        if !value.is_finite() {
            return Err(self.wrong(&format!("\"{text}\" is not finite")));
        }
        Ok((number, *factor))
    }

    /// Parses a number and a unit. Returns the nearest value in the unit whose factor is 1.
    fn parse(&self, text: &str) -> Result<u64, String> {
        let (number, factor) = self.split(text)?;
        let decimal = Decimal::read(&number);
        let (most, written) = self.most;
        let value = decimal.times(factor).and_then(|value| u64::try_from(value).ok());
        let Some(value) = value.filter(|value| *value <= most) else {
            return Err(format!("\"{text}\" is too large; expected {} of at most {written}", self.name));
        };
        if value == 0 && decimal.digits > 0 {
            let unit = self.units[0].0;
            return Err(format!(
                "\"{text}\" is too small; expected 0, or {} of at least 1 {unit}",
                self.name
            ));
        }
        Ok(value)
    }

    /// Parses a number and a unit. Returns the fraction that the number is of 100.
    fn parse_fraction(&self, text: &str) -> Result<f64, String> {
        let (number, _) = self.split(text)?;
        let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((&number, "0"));
        // The parser of the exponent saturates as `f64` does.
        let exponent = exponent.parse::<i64>().map_or_else(|_| exponent.to_owned(), |e| (e - 2).to_string());
        Ok(format!("{mantissa}e{exponent}").parse().unwrap_or(0.0))
    }

    /// Returns the unit that an unknown one stands for: the same in another case, or another spelling.
    fn meant(&self, unit: &str) -> Option<&'static str> {
        let lower = unit.to_lowercase();
        let spelt = SPELLINGS.iter().find(|(other, _)| *other == lower).map(|(_, name)| *name);
        let names = || self.units.iter().map(|(name, _)| *name);
        names().find(|name| name.to_lowercase() == lower || spelt == Some(name))
    }

    /// Writes a value as a person would: in the unit with the shortest text, and not as a fraction of
    /// a unit if there is a smaller one.
    fn write(&self, value: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if value == 0 {
            return write!(f, "0 {}", self.zero);
        }
        let units = self.units.iter().filter(|(_, factor)| *factor <= value);
        let texts = units.filter_map(|(unit, factor)| Some(format!("{} {unit}", quotient(value, *factor)?)));
        // `min_by_key` returns the first minimum; the larger unit of two equals is wanted.
        f.write_str(&texts.rev().min_by_key(|text| text.chars().count()).unwrap_or_default())
    }

    /// Writes a fraction of 1 in its unit.
    #[allow(clippy::unused_self, reason = "as `write`, for the macro")]
    fn write_fraction(&self, value: f64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{value:e}");
        // The shortest digits that read as this value, with the point two places further right.
        let Some((mantissa, Ok(exponent))) = text.split_once('e').map(|(m, e)| (m, e.parse::<i64>())) else {
            return write!(f, "{value} %");
        };
        let digits = mantissa.replace('.', "");
        let before = exponent + 3;
        let number = match usize::try_from(before) {
            _ if value == 0.0 => "0".to_owned(),
            Ok(before) if before >= digits.len() && before <= 16 => format!("{digits:0<before$}"),
            Ok(before) if before > 0 && before < digits.len() => {
                format!("{}.{}", &digits[..before], &digits[before..])
            }
            _ if (-6..=0).contains(&before) => {
                let zeros = before.unsigned_abs() as usize;
                format!("0.{}{digits}", "0".repeat(zeros))
            }
            _ => format!("{mantissa}e{}", exponent + 2),
        };
        write!(f, "{number} %")
    }
}

/// Returns the decimal text of a quotient; `None` if it has no end, or more digits than a text needs
/// that is the shortest.
fn quotient(value: u64, factor: u64) -> Option<String> {
    const FRACTION_MAX: usize = 20;
    let mut text = (value / factor).to_string();
    let mut rest = u128::from(value % factor);
    if rest > 0 {
        text.push('.');
    }
    let whole = text.len();
    while rest > 0 {
        if text.len() == whole + FRACTION_MAX {
            return None;
        }
        rest *= 10;
        text += &(rest / u128::from(factor)).to_string();
        rest %= u128::from(factor);
    }
    Some(text)
}

/// Deserializes a text with a parser. Errors about values that are no text say what is `expected`.
///
/// # Errors
/// Returns the error of the deserializer, or that of the parser.
pub fn deserialize_text<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    expected: &str,
    parse: fn(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    struct Visitor<'e, T>(&'e str, fn(&str) -> Result<T, String>);

    impl<T> serde::de::Visitor<'_> for Visitor<'_, T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
            self.1(text).map_err(E::custom)
        }
    }
    deserializer.deserialize_any(Visitor(expected, parse))
}

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident($inner:ty), $kind:ident.$parse:ident.$write:ident, $pattern:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Default)]
        pub struct $name($inner);

        impl $name {
            /// Parses a number and a unit.
            ///
            /// # Errors
            /// Returns a text that says what was found and what is allowed.
            pub fn parse(text: &str) -> Result<Self, String> {
                $kind.$parse(text).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $kind.$write(self.0, f)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let expected = format!("{} with its unit, such as {}", $kind.name, $kind.example);
                deserialize_text(deserializer, &expected, $name::parse)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": "string",
                    "pattern": $pattern,
                    "description": concat!("A quantity with its unit, for example ", $pattern),
                    "examples": [$kind.example.trim_matches('"')],
                })
            }
        }
    };
}

quantity!(
    /// A rate in bits per second.
    Rate(u64),
    RATE.parse.write,
    r"^[0-9][0-9._eE+-]* ?(bit/s|kbit/s|Mbit/s|Gbit/s)$"
);
quantity!(
    /// A length of time in nanoseconds.
    Span(u64),
    SPAN.parse.write,
    r"^[0-9][0-9._eE+-]* ?(ns|us|µs|ms|s|min|h)$"
);
quantity!(
    /// A size in bytes.
    Size(u64),
    SIZE.parse.write,
    r"^[0-9][0-9._eE+-]* ?(B|kB|MB|GB|KiB|MiB|GiB)$"
);
quantity!(
    /// A part of a whole: 0.1 % is 0.001.
    Share(f64),
    SHARE.parse_fraction.write_fraction,
    r"^[0-9][0-9._eE+-]* ?%$"
);

impl Rate {
    /// Creates a rate from bits per second.
    pub const fn from_bps(bps: u64) -> Self {
        Self(bps)
    }

    /// Returns the rate in bits per second.
    pub const fn bps(self) -> u64 {
        self.0
    }
}

impl Span {
    /// Creates a time from milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// Creates a time from nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the time in nanoseconds.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Returns the time in milliseconds, with fraction.
    pub fn millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Returns the time as a standard duration.
    pub const fn duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

impl Size {
    /// Creates a size from bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Returns the size in bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl Share {
    /// Creates a share from a fraction of 1.
    pub const fn from_fraction(fraction: f64) -> Self {
        Self(fraction)
    }

    /// Returns the share as a fraction of 1.
    pub const fn fraction(self) -> f64 {
        self.0
    }

    /// Returns true for a share of nothing.
    pub fn is_zero(&self) -> bool {
        self.0 == 0.0
    }
}
