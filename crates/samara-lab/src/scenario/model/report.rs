//! `[report]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the report shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Report {
    /// The figures, in this order. By default those that fit the scenario.
    pub figures: Vec<Figure>,
    /// A metric ("time_to_custody_ms.mean") for comparisons and sweeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
}

/// A figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// The runs side by side, with their lower bound.
    Comparison,
    /// Share of subscribers reached over time, a curve per message.
    Propagation,
    /// Share of a node's columns that have arrived over time, a curve per node.
    Custody,
    /// Distribution over nodes, a curve per run.
    Distribution,
    /// The metric over the first axis of the sweep, a line per run and the lower bound.
    Sweep,
    /// One block after the other: what cold and warm connections make of it.
    Slots,
    /// By kind of host.
    Classes,
    /// Beside measured arrivals.
    Reference,
}
