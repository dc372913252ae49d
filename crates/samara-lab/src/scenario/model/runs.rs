//! `[[run]]` and `[[sweep]]`

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One of the variants that are compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// What it is called in results and by `--only`: letters, digits, "-", "_" and ".".
    #[schemars(regex(pattern = "^[A-Za-z0-9][A-Za-z0-9_.-]*$"))]
    pub name: String,
    /// What figures call it; by default its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// What is special about it.
    #[serde(default)]
    pub description: String,
    /// Keys of the scenario with their values in this run: `{ "gossipsub.dispatch" = "node" }`. A table replaces the whole
    /// table.
    #[serde(default)]
    #[schemars(with = "std::collections::BTreeMap<String, Value>")]
    pub set: IndexMap<String, Value>,
    /// Data sets of measured arrivals ("builtin:reference/arrivals_n100_bw20_seq_s1.csv") that the results are shown beside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reference: Vec<String>,
}

impl Run {
    /// What figures call it.
    pub fn label(&self) -> &str {
        self.label.as_deref().unwrap_or(&self.name)
    }
}

/// An axis of a sweep: a key, or several that change together, and its values. A run's own `set` goes before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// The key that is varied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Keys that are varied together: each of `values` is then a list with a value for each of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// Its values.
    #[schemars(length(min = 1))]
    pub values: Vec<Value>,
    /// What figures call it; by default the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

impl Axis {
    /// All keys that the axis sets.
    pub fn all_keys(&self) -> Vec<&str> {
        self.key.iter().chain(&self.keys).map(String::as_str).collect()
    }

    /// What figures call it.
    pub fn label(&self) -> String {
        self.label.clone().unwrap_or_else(|| self.all_keys().join(", "))
    }
}
