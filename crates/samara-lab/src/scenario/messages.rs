//! A stream of messages as a scenario states it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::{Size, Span};

/// Messages on one topic that all nodes join, each published by a node drawn at random. Takes the place of the blocks of
/// `workload`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Messages {
    /// Messages per second, of all nodes together.
    pub rate: f64,
    /// The payload of a message.
    pub size: Size,
    /// From the start of the run to the first publication.
    pub warm_up: Span,
    /// How long messages are published.
    pub duration: Span,
    /// How long after the last publication deliveries are waited for, where some are missing.
    pub cool_down: Span,
    /// When messages are published.
    pub arrivals: Arrivals,
    /// Whether messages carry author, sequence number and signature, as libp2p's default is; the bytes are there, nobody
    /// computes signatures in a simulation.
    pub signed: bool,
}

impl Default for Messages {
    fn default() -> Self {
        Self {
            rate: 200.0,
            size: Size::from_bytes(1000),
            warm_up: Span::from_millis(10_000),
            duration: Span::from_millis(180_000),
            cool_down: Span::from_millis(60_000),
            arrivals: Arrivals::Even,
            signed: true,
        }
    }
}

impl Messages {
    /// How many messages are published.
    pub fn count(&self) -> u32 {
        (self.rate * self.duration.millis_f64() / 1e3).round() as u32
    }
}

/// When messages are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// At equal intervals.
    Even,
    /// At intervals that are exponentially distributed.
    Poisson,
}
