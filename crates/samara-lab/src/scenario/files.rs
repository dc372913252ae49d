//! Files that take the place of keys: what a scenario says of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use samara_engine::units::Span;

/// A table of latencies in a file (`docs/guides/networks.md` has the formats).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LatencyFile {
    /// The file: a path relative to the scenario file, plain or compressed with zstd.
    pub file: String,
    /// Whether its values are one way, or there and back; of round trips the half is taken.
    pub kind: LatencyKind,
    /// The unit of values that are plain numbers; values such as "12 ms" have their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<LatencyUnit>,
    /// Whether it has a row for each host or for each region; regions if hosts have regions, unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<LatencyOf>,
    /// The format of the file; guessed from its text, unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<LatencyFormat>,
    /// The column that has the latency (pairs), where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
    /// What the numbers stand for that its rows are called by: a CSV file with the columns `id` and `name`, and others that are not
    /// looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<String>,
    /// One-way latency within a region, instead of what the file has for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Span>,
    /// One-way latency of pairs that the file has no latency for; without it, these are an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<Span>,
}

/// What the latencies of a file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LatencyKind {
    /// From one host to the other.
    OneWay,
    /// There and back, as ping shows it.
    RoundTrip,
}

/// Units of plain numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LatencyUnit {
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Milliseconds,
    /// Microseconds.
    #[serde(rename = "us")]
    Microseconds,
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
}

impl LatencyUnit {
    /// Nanoseconds of one.
    pub const fn nanos(self) -> f64 {
        match self {
            Self::Seconds => 1e9,
            Self::Milliseconds => 1e6,
            Self::Microseconds => 1e3,
            Self::Nanoseconds => 1.0,
        }
    }
}

/// What the rows of a file of latencies are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LatencyOf {
    /// Hosts.
    Hosts,
    /// Regions.
    Regions,
}

/// The format of a file of latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LatencyFormat {
    /// A row and a column for each host or region, with or without their names.
    Matrix,
    /// A line for each pair.
    Pairs,
    /// The edges of a GraphML file.
    Graph,
}
