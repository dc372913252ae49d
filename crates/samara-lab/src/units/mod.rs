//! Quantities as people write them: `"20 Mbit/s"`, `"50 ms"`, `"16 KiB"`, `"0.1 %"`.
//!
//! Prefixes are those of the SI (k, M, G: decimal) and IEC (Ki, Mi, Gi: binary). Rates are in bits per second, sizes in
//! bytes. A number without a unit is an error: only counts have none. Values are kept exactly, as integers of the smallest
//! unit, and what is displayed reads back to the same value.

mod decimal;
mod quantity;

use std::time::Duration;

pub use quantity::{UnitError, UnitKind};

use decimal::Unit;

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $kind:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u64);

        impl std::str::FromStr for $name {
            type Err = UnitError;

            fn from_str(text: &str) -> Result<Self, UnitError> {
                $kind.parse(text).map(Self)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.pad(&$kind.display(self.0))
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $kind.schema()
            }
        }
    };
}

quantity! {
    /// A data rate, in bits per second.
    Rate, UnitKind::Rate
}
quantity! {
    /// A length of time, or a time since the start of a run, in nanoseconds.
    Span, UnitKind::Span
}
quantity! {
    /// An amount of data, in bytes.
    Size, UnitKind::Size
}
quantity! {
    /// A share of a whole, exact to 10⁻¹².
    Share, UnitKind::Share
}

impl Rate {
    /// So many bits per second.
    pub const fn from_bits_per_second(rate: u64) -> Self {
        Self(rate)
    }

    /// So many millions of bits per second.
    pub const fn from_mbit_per_second(rate: u64) -> Self {
        Self(rate * 1_000_000)
    }

    /// Bits per second.
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }
}

impl Span {
    /// So many nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// So many milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// So many seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1_000_000_000)
    }

    /// Nanoseconds.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// As the standard library has it.
    pub const fn duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// Milliseconds, for display and comparison.
    pub fn millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        span.duration()
    }
}

impl Size {
    /// So many bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// So many KiB.
    pub const fn from_kib(kib: u64) -> Self {
        Self(kib * 1024)
    }

    /// Bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl Share {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// All of it.
    pub const WHOLE: Self = Self(1_000_000_000_000);

    /// So many percent.
    pub const fn from_percent(percent: u64) -> Self {
        Self(percent * 10_000_000_000)
    }

    /// As a number in `0..=1`.
    pub fn fraction(self) -> f64 {
        self.0 as f64 / Self::WHOLE.0 as f64
    }
}
