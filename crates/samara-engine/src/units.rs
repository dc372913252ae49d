//! Quantities with units, as in scenario files: `"20 Mbit/s"`, `"50 ms"`, `"16 KiB"`, `"0.1 %"`.
//!
//! SI prefixes are decimal (1 kB = 1,000 bytes), Ki and Mi are binary (1 KiB = 1,024 bytes). Rates
//! are in bits.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

type Unit = (&'static str, f64);

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
    units: &'static [Unit],
    /// The unit of the value zero.
    zero: &'static str,
    /// The largest value, in the unit whose factor is 1, and how it is written. Sums of such values
    /// stay within 64 bits.
    most: (f64, &'static str),
}

const RATE: Kind = Kind {
    name: "a rate",
    example: "\"20 Mbit/s\"",
    units: &[("bit/s", 1.0), ("kbit/s", 1e3), ("Mbit/s", 1e6), ("Gbit/s", 1e9)],
    zero: "bit/s",
    most: (1e15, "1000000 Gbit/s"),
};
const SPAN: Kind = Kind {
    name: "a time",
    example: "\"50 ms\"",
    units: &[("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9), ("h", 3600e9)],
    zero: "s",
    most: (87_600.0 * 3600e9, "87600 h"),
};
const SIZE: Kind = Kind {
    name: "a size",
    example: "\"128 KiB\"",
    units: &[
        ("B", 1.0),
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
    ],
    zero: "B",
    most: (1e15, "1000000 GB"),
};
const SHARE: Kind =
    Kind { name: "a share", example: "\"0.1 %\"", units: &[("%", 0.01)], zero: "%", most: (f64::MAX, "") };

impl Kind {
    /// Parses a number and a unit. Returns the value in the unit whose factor is 1.
    fn parse(&self, text: &str) -> Result<f64, String> {
        let split = text.find(|c: char| !(c.is_ascii_digit() || ".+-eE_".contains(c))).unwrap_or(text.len());
        let (number, unit) = (text[..split].replace('_', ""), text[split..].trim());
        let wrong = |problem: &str| {
            let units: Vec<&str> = self.units.iter().map(|(unit, _)| *unit).collect();
            format!("{problem}; expected {} such as {}, in {}", self.name, self.example, units.join(", "))
        };
        let Ok(number) = number.parse::<f64>() else {
            return Err(wrong(&format!("\"{text}\" does not start with a number")));
        };
        if unit.is_empty() {
            return Err(wrong(&format!("\"{text}\" has no unit")));
        }
        let Some((_, factor)) = self.units.iter().find(|(name, _)| *name == unit) else {
            let meant = self.meant(unit).map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
            return Err(wrong(&format!("unknown unit \"{unit}\"")) + &meant);
        };
        if number < 0.0 {
            return Err(wrong(&format!("\"{text}\" is negative")));
        }
        if !number.is_finite() {
            return Err(wrong(&format!("\"{text}\" is not finite")));
        }
        let value = number * factor;
        if value > self.most.0 {
            return Err(format!(
                "\"{text}\" is too large; expected {} of at most {}",
                self.name, self.most.1
            ));
        }
        Ok(value)
    }

    /// Returns the unit that an unknown one stands for: the same in another case, or another spelling.
    fn meant(&self, unit: &str) -> Option<&'static str> {
        let lower = unit.to_lowercase();
        let spelt = SPELLINGS.iter().find(|(other, _)| *other == lower).map(|(_, name)| *name);
        let names = || self.units.iter().map(|(name, _)| *name);
        names().find(|name| name.to_lowercase() == lower || spelt == Some(name))
    }

    /// Writes a value as a person would: short, and not as a fraction of a unit if there is a
    /// smaller one.
    fn write(&self, value: f64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if value == 0.0 {
            return write!(f, "0 {}", self.zero);
        }
        let mut best: Option<(usize, String)> = None;
        for (unit, factor) in self.units {
            let number = value / factor;
            let is_fraction = number < 1.0 && *factor > self.units[0].1;
            let text = format!("{number} {unit}");
            // Only exact texts: parsing the text must return the same value.
            if !is_fraction
                && self.parse(&text) == Ok(value)
                && best.as_ref().is_none_or(|(len, _)| text.chars().count() <= *len)
            {
                best = Some((text.chars().count(), text));
            }
        }
        f.write_str(&best.map_or_else(|| format!("{value} {}", self.units[0].0), |(_, text)| text))
    }
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
    ($(#[$doc:meta])* $name:ident($inner:ty), $kind:ident, $pattern:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Default)]
        pub struct $name($inner);

        impl $name {
            /// Parses a number and a unit.
            ///
            /// # Errors
            /// Returns a text that says what was found and what is allowed.
            pub fn parse(text: &str) -> Result<Self, String> {
                $kind.parse(text).map(|value| Self(value as $inner))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $kind.write(self.0 as f64, f)
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
    RATE,
    r"^[0-9][0-9._eE+-]* ?(bit/s|kbit/s|Mbit/s|Gbit/s)$"
);
quantity!(
    /// A length of time in nanoseconds.
    Span(u64),
    SPAN,
    r"^[0-9][0-9._eE+-]* ?(ns|us|µs|ms|s|min|h)$"
);
quantity!(
    /// A size in bytes.
    Size(u64),
    SIZE,
    r"^[0-9][0-9._eE+-]* ?(B|kB|MB|GB|KiB|MiB|GiB)$"
);
quantity!(
    /// A part of a whole: 0.1 % is 0.001.
    Share(f64),
    SHARE,
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
