//! Connections with channels as a scenario states them.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use samara_engine::units::{Rate, Span};

/// The connection of CometBFT and celestia-core below the pools: channels over a secret connection. The pool's preset says which channels
/// there are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ConnectionSpec {
    /// How long written packets are collected before they leave (100 ms there), or "when-idle": as soon as nothing more is to be
    /// written. As the pool's preset says, if not given: "when-idle" for `cat`, "100 ms" for all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flush: Option<FlushSpec>,
    /// The most that is sent over a link (5.12 MB/s); 0 for no limit.
    pub send_rate: Rate,
    /// The most that is read from a link (5.12 MB/s); 0 for no limit.
    pub receive_rate: Rate,
    /// How often each side pings; 0 for never.
    pub ping: Span,
}

impl Default for ConnectionSpec {
    fn default() -> Self {
        Self {
            flush: None,
            send_rate: Rate::from_bps(40_960_000),
            receive_rate: Rate::from_bps(40_960_000),
            ping: Span::from_millis(60_000),
        }
    }
}

/// When packets that were written leave.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum FlushSpec {
    /// So long after the first of them.
    Throttle(Span),
    /// As soon as nothing more is to be written.
    WhenIdle,
}

impl TryFrom<String> for FlushSpec {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == "when-idle" {
            return Ok(Self::WhenIdle);
        }
        Span::parse(&text).map(Self::Throttle).map_err(|error| format!("{error}, or \"when-idle\""))
    }
}

impl From<FlushSpec> for String {
    fn from(flush: FlushSpec) -> Self {
        flush.to_string()
    }
}

impl fmt::Display for FlushSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Throttle(span) => span.fmt(f),
            Self::WhenIdle => f.write_str("when-idle"),
        }
    }
}
