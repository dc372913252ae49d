//! The kinds of quantities: which units each has, how they are read, written and described.

use serde_json::json;

use super::Unit;
use super::decimal::{Decimal, Inexact, quotient};

/// What a written quantity measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitKind {
    /// Bits per second.
    Rate,
    /// Time.
    Span,
    /// Bytes.
    Size,
    /// Part of a whole.
    Share,
}

/// A text that is not a quantity of the kind that belongs there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is not a {}: {reason}; write {}", kind.name(), kind.allowed())]
pub struct UnitError {
    /// What belongs there.
    pub kind: UnitKind,
    /// What was written.
    pub found: String,
    /// What is wrong with it.
    pub reason: String,
}

const fn unit(name: &'static str, factor: u64) -> Unit {
    Unit { name, factor }
}

// Smallest unit first; aliases come last and are never written.
const RATES: &[Unit] = &[
    unit("bit/s", 1),
    unit("kbit/s", 1_000),
    unit("Mbit/s", 1_000_000),
    unit("Gbit/s", 1_000_000_000),
    unit("Tbit/s", 1_000_000_000_000),
];
const SPANS: &[Unit] = &[
    unit("ns", 1),
    unit("us", 1_000),
    unit("ms", 1_000_000),
    unit("s", 1_000_000_000),
    unit("min", 60_000_000_000),
    unit("h", 3_600_000_000_000),
    unit("µs", 1_000),
    unit("μs", 1_000),
];
const SIZES: &[Unit] = &[
    unit("B", 1),
    unit("kB", 1_000),
    unit("MB", 1_000_000),
    unit("GB", 1_000_000_000),
    unit("KiB", 1 << 10),
    unit("MiB", 1 << 20),
    unit("GiB", 1 << 30),
];
const SHARES: &[Unit] = &[unit("%", 10_000_000_000)];

/// What people write instead, and what they most likely mean.
const MEANT: &[(&str, &str)] = &[
    ("bps", "bit/s"),
    ("kbps", "kbit/s"),
    ("mbps", "Mbit/s"),
    ("gbps", "Gbit/s"),
    ("kbit", "kbit/s"),
    ("mbit", "Mbit/s"),
    ("gbit", "Gbit/s"),
    ("kb", "kB"),
    ("byte", "B"),
    ("bytes", "B"),
    ("sec", "s"),
    ("secs", "s"),
    ("second", "s"),
    ("seconds", "s"),
    ("msec", "ms"),
    ("usec", "us"),
    ("m", "min"),
    ("minute", "min"),
    ("minutes", "min"),
    ("hour", "h"),
    ("hours", "h"),
    ("percent", "%"),
];

impl UnitKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Rate, Self::Span, Self::Size, Self::Share];

    /// What a text of this kind is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rate => "data rate",
            Self::Span => "time",
            Self::Size => "size",
            Self::Share => "share",
        }
    }

    /// The kind with this name, as the schema states it (`x-unit`).
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    const fn units(self) -> &'static [Unit] {
        match self {
            Self::Rate => RATES,
            Self::Span => SPANS,
            Self::Size => SIZES,
            Self::Share => SHARES,
        }
    }

    const fn example(self) -> &'static str {
        match self {
            Self::Rate => "20 Mbit/s",
            Self::Span => "50 ms",
            Self::Size => "16 KiB",
            Self::Share => "0.1 %",
        }
    }

    /// What may be written, with an example.
    pub fn allowed(self) -> String {
        let names: Vec<&str> =
            self.units().iter().map(|unit| unit.name).filter(|name| name.is_ascii()).collect();
        let example = self.example();
        match self {
            Self::Share => format!("a number of percent from 0 % to 100 %, for example \"{example}\""),
            _ => format!("a number and a unit ({}), for example \"{example}\"", names.join(", ")),
        }
    }

    /// Reads a quantity into its smallest unit: bit/s, ns, bytes, or 10⁻¹² of the whole.
    ///
    /// # Errors
    /// A text without number or unit, with a foreign unit, or beyond what can be held exactly.
    pub fn parse(self, text: &str) -> Result<u64, UnitError> {
        let error = |reason: String| UnitError { kind: self, found: text.to_owned(), reason };
        let trimmed = text.trim();
        let end = trimmed.find(|c: char| !matches!(c, '0'..='9' | '.' | '_')).unwrap_or(trimmed.len());
        let (number, name) = (&trimmed[..end], trimmed[end..].trim_start());
        if trimmed.starts_with(['-', '+']) {
            return Err(error("it must not have a sign".to_owned()));
        }
        if number.is_empty() {
            return Err(error("it does not begin with a number".to_owned()));
        }
        let decimal =
            Decimal::parse(number).ok_or_else(|| error(format!("{number:?} is not a decimal number")))?;
        if name.is_empty() {
            return Err(error("it has no unit".to_owned()));
        }
        let unit = self.units().iter().find(|unit| unit.name == name);
        let unit = *unit.ok_or_else(|| error(self.foreign(number, name)))?;
        let value = decimal.times(unit).map_err(|inexact| match inexact {
            Inexact::TooFine => error(format!("it is finer than {}", self.finest())),
            Inexact::TooLarge => error("it is too large".to_owned()),
        })?;
        if self == Self::Share && value > super::Share::WHOLE.0 {
            return Err(error("it is more than the whole".to_owned()));
        }
        Ok(value)
    }

    /// What is wrong with a unit that this kind does not have.
    fn foreign(self, number: &str, name: &str) -> String {
        let lower = name.to_lowercase();
        let same = |unit: &&Unit| unit.name.to_lowercase() == lower;
        let meant = self.units().iter().find(same).map(|unit| unit.name);
        let meant = meant.or_else(|| {
            let (_, meant) = MEANT.iter().find(|(written, _)| *written == lower)?;
            self.units().iter().map(|unit| unit.name).find(|unit| unit == meant)
        });
        match meant {
            Some(meant) => format!("there is no unit {name:?}, did you mean \"{number} {meant}\"?"),
            None if self == Self::Rate && name.ends_with("B/s") => {
                format!("rates are in bits per second, not {name:?}")
            }
            None => format!("there is no unit {name:?} of it"),
        }
    }

    const fn finest(self) -> &'static str {
        match self {
            Self::Rate => "1 bit/s",
            Self::Span => "1 ns",
            Self::Size => "1 B",
            Self::Share => "0.0000000001 %",
        }
    }

    /// Writes a quantity in the unit that reads best; it reads back to the same value.
    pub fn display(self, value: u64) -> String {
        let unit = match self {
            Self::Share => SHARES[0],
            Self::Size => size_unit(value),
            Self::Rate => largest(RATES, value),
            // Minutes and hours only where they come out even, since a third of an hour has no end of decimals.
            Self::Span if value > 0 && value.is_multiple_of(SPANS[5].factor) => SPANS[5],
            Self::Span
                if value > 0 && value.is_multiple_of(SPANS[4].factor) && value >= 2 * SPANS[4].factor =>
            {
                SPANS[4]
            }
            Self::Span if value == 0 => SPANS[3],
            Self::Span => largest(&SPANS[..4], value),
        };
        match quotient(value, unit.factor) {
            Some(number) => format!("{number} {}", unit.name),
            None => format!("{value} {}", self.units()[0].name),
        }
    }

    /// The JSON Schema of a text of this kind.
    pub fn schema(self) -> schemars::Schema {
        let names: Vec<&str> = self.units().iter().map(|unit| unit.name).collect();
        let pattern = format!("^\\s*[0-9][0-9_]*(\\.[0-9_]+)?\\s*({})\\s*$", names.join("|"));
        let value = json!({
            "type": "string",
            "pattern": pattern,
            "examples": [self.example()],
            "x-unit": self.name(),
        });
        schemars::Schema::try_from(value).expect("an object is a schema")
    }
}

/// The largest unit that is not larger than the value.
fn largest(units: &[Unit], value: u64) -> Unit {
    *units.iter().rev().find(|unit| unit.factor <= value).unwrap_or(&units[0])
}

/// Decimal units for round decimal numbers, binary units for round binary numbers, plain bytes for all others.
fn size_unit(value: u64) -> Unit {
    let even = |units: &[Unit]| units.iter().rev().copied().find(|unit| value.is_multiple_of(unit.factor));
    if value == 0 {
        return SIZES[0];
    }
    even(&SIZES[1..4]).or_else(|| even(&SIZES[4..])).unwrap_or(SIZES[0])
}
