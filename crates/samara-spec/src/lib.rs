//! What a scenario file says: the network, the transport, the protocol, the workload, and the variants to compare.
//!
//! The file is TOML. [`load()`] layers it with `--set key=value`, checks it, and turns each compared run (and each point of
//! a sweep) into a [`Scenario`] of its own. `samara schema` prints the JSON Schema of [`Scenario`].

mod builtin;
mod check;
pub mod columns;
pub mod family;
pub mod group;
mod load;
pub mod messages;
pub mod mix;
pub mod pool;
mod resolve;
mod transport;

use std::collections::BTreeMap;

use indexmap::IndexMap;
use samara_engine::units::{Share, Span};
use samara_scenario::{Network, from_table, unknown_key};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use builtin::{Builtin, builtin, builtins};
pub use check::Checks;
pub use load::{Change, Loaded, Overrides, Point, load, load_source, load_with};
pub use resolve::latency;
pub use transport::{ConnectionSpec, FlushSpec, LinkStart, Stack, TransportKind, TransportSpec};

/// A scenario file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Scenario")]
pub struct Scenario {
    /// What it is about.
    pub scenario: About,
    /// Hosts, links between them, and the network in between.
    #[serde(default)]
    pub network: Network,
    /// How frames travel over a link.
    #[serde(default)]
    pub transport: TransportSpec,
    /// The experiment's section, and the protocol with its parameters.
    #[serde(skip)]
    #[schemars(skip)]
    pub selected: family::Selected,
    /// Faults.
    #[serde(default, rename = "fault", skip_serializing_if = "Vec::is_empty")]
    #[schemars(!skip_serializing_if)]
    pub faults: Vec<Fault>,
    /// The variants that are compared; without any, the scenario itself is the only run.
    #[serde(default, rename = "run", skip_serializing_if = "Vec::is_empty")]
    #[schemars(!skip_serializing_if)]
    pub runs: Vec<RunSpec>,
    /// Keys that are varied together with every run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if)]
    pub sweep: Option<Sweep>,
    /// Measurements of real networks to show beside each run: files of arrivals, by the name of the run; a path relative
    /// to the scenario file, or `builtin:` and the name of a data file of Samara.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(!skip_serializing_if)]
    pub reference: BTreeMap<String, Vec<String>>,
    /// Figures that others have published or measured, shown beside ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(!skip_serializing_if)]
    pub published: Vec<PublishedFigure>,
    /// What must hold of the results: a metric's path to a comparison, for example
    /// `"time_to_custody_ms.p95" = "< 4 s"`; with `run:` before it, for one run only. Several comparisons are separated by
    /// commas.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    #[schemars(!skip_serializing_if)]
    pub expect: IndexMap<String, String>,
}

/// The sections that scenarios of all families have.
const COMMON: [&str; 10] = [
    "scenario",
    "network",
    "transport",
    "protocol",
    "fault",
    "run",
    "sweep",
    "reference",
    "published",
    "expect",
];

impl Scenario {
    /// Reads a scenario.
    ///
    /// # Errors
    /// The dotted key (empty for the whole scenario), and what is wrong with it.
    pub(crate) fn from_table(table: &toml::Table) -> Result<Self, (String, String)> {
        let sections: Vec<&str> = family::all().iter().map(|family| family.section).collect();
        let known: Vec<&str> = COMMON.into_iter().chain(sections.iter().copied()).collect();
        if let Some(key) = table.keys().find(|key| !known.contains(&key.as_str())) {
            return Err((key.clone(), unknown_key(key, &known)));
        }
        let is_common = |key: &str| key != "protocol" && !sections.contains(&key);
        let common = table.iter().filter(|(key, _)| is_common(key));
        let common = common.map(|(key, value)| (key.clone(), value.clone())).collect();
        let mut scenario: Self = from_table(&common)?;
        scenario.selected = family::select(table)?;
        Ok(scenario)
    }

    /// The scenario as its file has it, with all defaults.
    ///
    /// # Errors
    /// A value that TOML cannot hold, such as a number above `i64::MAX`.
    pub fn to_toml(&self) -> Result<toml::Table, String> {
        let common = toml::Table::try_from(self).map_err(|error| error.to_string())?;
        let own = self.selected.sections().map_err(|error| error.to_string())?;
        let mut own = Some(own.map(|(section, table)| (section.to_owned(), table.into())));
        let mut written = toml::Table::new();
        for (section, value) in common {
            let is_last_before = section == "transport";
            written.insert(section, value);
            if is_last_before {
                written.extend(own.take().into_iter().flatten());
            }
        }
        Ok(written)
    }
}

/// The JSON Schema of scenario files of all families.
pub fn schema() -> serde_json::Value {
    let mut generator = schemars::SchemaGenerator::default();
    let mut schema = Scenario::json_schema(&mut generator);
    family::add_to_schema(&mut schema, &mut generator);
    let dialect = generator.settings().meta_schema.as_ref().map(|uri| uri.to_string());
    if let Some(dialect) = dialect {
        schema.insert("$schema".to_owned(), dialect.into());
    }
    schema.insert("$defs".to_owned(), generator.take_definitions(true).into());
    schema.to_value()
}

/// A value of a scenario as JSON.
pub fn json(value: &toml::Value) -> serde_json::Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// What a scenario is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// The name that results carry: letters, digits, `-` and `_`.
    pub name: String,
    /// One line for lists and headings.
    pub title: String,
    /// What is shown and where it comes from.
    #[serde(default)]
    pub description: String,
    /// The seeds of repeated runs; results are averaged over them.
    #[serde(default = "default_seeds")]
    pub seeds: Vec<u64>,
}

fn default_seeds() -> Vec<u64> {
    vec![1]
}

/// A variant: the scenario with some keys changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// The name that results carry.
    pub name: String,
    /// What reports call it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// What is different.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Runs of one series are drawn in one figure.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub series: String,
    /// Keys (dotted) and their values.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub set: toml::Table,
}

/// Keys that are varied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// The axes; all combinations are run.
    pub axis: Vec<Axis>,
}

/// An axis of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// The key (dotted).
    pub key: String,
    /// What reports call it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// Its values.
    #[schemars(with = "Vec<serde_json::Value>")]
    pub values: Vec<toml::Value>,
}

/// Something that goes wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What.
    pub kind: FaultKind,
    /// When.
    pub at: Span,
    /// When it is over (crash, leave: the host starts again; others: as before). Never, if absent. A crash at 0 s makes a host that
    /// comes later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Span>,
    /// The part of the hosts that it hits, drawn from the seed; the publisher is spared.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub share: Share,
    /// Instead of a share: the hosts that it hits, by number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<u32>>,
    /// The factor on both rates of a slow host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
}

fn is_nothing(share: &Share) -> bool {
    *share == Share::default()
}

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// Processes end; their peers are told.
    Crash,
    /// Hosts are gone without a word.
    Vanish,
    /// Members leave their group, as its protocol has it.
    Leave,
    /// Hosts cannot reach the others.
    Partition,
    /// Rates are multiplied by `factor`.
    Slow,
}

/// A figure that others have published or measured, shown beside ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishedFigure {
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
