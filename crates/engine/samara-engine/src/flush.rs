//! When a connection sends what was written.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::units::{Span, deserialize_text};

/// When a connection with channels sends what was written, in a file.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(into = "String")]
#[schemars(with = "String")]
pub enum FlushSpec {
    /// After this time from the first written packet.
    Throttle(Span),
    /// As soon as no more packets are waiting.
    WhenIdle,
}

impl<'de> Deserialize<'de> for FlushSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a time with its unit, such as \"10 ms\", or \"when-idle\"";
        deserialize_text(deserializer, expected, |text| match text {
            "when-idle" => Ok(Self::WhenIdle),
            _ => Span::parse(text).map(Self::Throttle).map_err(|error| format!("{error}, or \"when-idle\"")),
        })
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
