//! Regions of hosts as a scenario states them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Queue;
use samara_engine::units::{Rate, Span};

/// Regions and the latency between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Regions {
    /// Their names; those of the files, if not given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// How many of the hosts are in each, as weights; not with a file of hosts that says it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weights: Vec<f64>,
    /// Names and weights from a file instead: CSV with the columns `region` and `weight`. A path relative to the scenario file, plain or
    /// compressed with zstd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights_file: Option<String>,
    /// Which hosts these are.
    #[serde(default)]
    pub placed: Placed,
    /// One-way latency from region (row) to region (column); not with `network.latency_file`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latency: Vec<Vec<Span>>,
    /// The rate that all hosts of a region share on the way to other regions, and on the way from them; as wide as they need, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<Rate>,
    /// What happens to packets that find a gateway busy.
    #[serde(default)]
    pub gateway_queue: Queue,
}

/// Which hosts are in a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Placed {
    /// For each host one is drawn by the weights.
    #[default]
    Drawn,
    /// The first hosts are in the first region, and so on, as many as their share of the weights, rounded.
    InOrder,
}
