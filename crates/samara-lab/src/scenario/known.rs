//! Figures that others have published or measured.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A figure that others have published or measured, shown beside ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KnownFigure {
    /// The run that it is about.
    pub run: String,
    /// The path of the metric, as in `expect`.
    pub metric: String,
    /// The figure, in the unit of the metric.
    pub value: f64,
    /// Who says so.
    pub source: String,
    /// The values of the sweep's keys that it belongs to; of all others nothing is shown.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub at: BTreeMap<String, toml::Value>,
}
