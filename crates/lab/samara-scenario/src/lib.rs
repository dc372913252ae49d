//! The content of a scenario file: the network, the transport, the protocol, the workload, and the
//! variants to compare.
//!
//! The file is TOML. [`load()`] applies `--set key=value`, checks it, and turns each compared run
//! (and each point of a sweep) into a separate [`Scenario`]. `samara schema` prints the JSON Schema
//! of [`Scenario`].

mod builtin;
mod check;
pub mod family;
mod follow;
mod hints;
mod layers;
mod load;
mod published;
mod resolve;
mod schema;
mod transport;

use std::collections::BTreeMap;

use indexmap::IndexMap;
use samara_document::{Mismatch, Network, from_table};
use samara_engine::hostile::Misconduct;
use samara_engine::units::{Share, Span};
use samara_sim::RivalKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use builtin::{Builtin, builtin, builtins};
pub use check::{Checks, OTHER_NODES, keep_one};
pub use follow::FileNames;
pub use load::{
    Change, Loaded, Origin, Overrides, POINTS_MAX, Point, TEXT_BYTES_MAX, check_text, load, load_source,
    load_with,
};
pub use published::{
    Claim, Explains, PublishedFigure, Relation, SOURCE_RESULTS, Source, Tolerance, Verdict, sources,
};
pub use resolve::{latency, losses};
pub use samara_engine::FlushSpec;
pub use schema::schema;
pub use transport::{ConnectionSpec, LinkStart, Stack, TcpSpec, TransportKind, TransportSpec};

/// A scenario file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Scenario")]
pub struct Scenario {
    /// Name, title and description of the scenario.
    #[serde(default)]
    pub scenario: About,
    /// Hosts, links between them, and the network in between.
    #[serde(default)]
    pub network: Network,
    /// Transport of frames over links.
    #[serde(default)]
    pub transport: TransportSpec,
    /// The experiment's section, and the protocol with its parameters.
    #[serde(skip)]
    #[schemars(skip)]
    pub selected: family::Selected,
    /// Faults of hosts during the run.
    #[serde(default, rename = "fault", skip_serializing_if = "Vec::is_empty")]
    #[schemars(!skip_serializing_if)]
    pub faults: Vec<Fault>,
    /// The compared variants. Without any, the scenario itself is the only run.
    #[serde(default, rename = "run", skip_serializing_if = "Vec::is_empty")]
    #[schemars(!skip_serializing_if)]
    pub runs: Vec<RunSpec>,
    /// Keys that vary, combined with every run.
    pub sweep: Option<Sweep>,
    /// Measurements of real networks, shown beside each run: files of arrivals, by the name of the
    /// run. A path relative to the scenario file, or `builtin:` and the name of a data file of
    /// Samara.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(!skip_serializing_if)]
    pub reference: BTreeMap<String, Vec<String>>,
    /// Values that others have published or measured, shown beside the results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(!skip_serializing_if)]
    pub published: Vec<PublishedFigure>,
    /// Expectations of the results: the path of a metric and a comparison, for example
    /// `"time_to_custody_ms.p95" = "< 4 s"`. A run before the metric, as in `run:`, restricts it to
    /// this run. Commas separate several comparisons.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    #[schemars(!skip_serializing_if)]
    pub expect: IndexMap<String, String>,
}

/// The sections that all families share.
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
    /// Reads a scenario. Both rates replace `network.bandwidth`.
    ///
    /// # Errors
    /// The dotted key (empty for the whole scenario), and the problem with a remedy.
    pub(crate) fn from_table(table: &toml::Table) -> Result<Self, Mismatch> {
        let read = || {
            let sections: Vec<&str> = family::all().iter().map(|family| family.section).collect();
            let known: Vec<&str> = COMMON.into_iter().chain(sections.iter().copied()).collect();
            if let Some(key) = table.keys().find(|key| !known.contains(&key.as_str())) {
                return Err(Mismatch::of_key(key, &known).below(key));
            }
            let is_common = |key: &str| key != "protocol" && !sections.contains(&key);
            let common = table.iter().filter(|(key, _)| is_common(key));
            let common = common.map(|(key, value)| (key.clone(), value.clone())).collect();
            let mut scenario: Self = from_table(&common)?;
            if let Some(rate) = scenario.network.bandwidth.take() {
                (scenario.network.uplink, scenario.network.downlink) = (rate, rate);
            }
            Ok(Self { selected: family::select(table)?, ..scenario })
        };
        read().map_err(|error| hints::with_remedy(error, table))
    }

    /// The scenario in the form of its file, with all defaults.
    ///
    /// # Errors
    /// A value is outside of the range of TOML, such as a number above `i64::MAX`.
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

/// Converts a value of a scenario to JSON.
pub fn json(value: &toml::Value) -> serde_json::Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// Name, title and description of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct About {
    /// Name in results: letters, digits, `-` and `_`. Default: the name of the file without its
    /// extension.
    pub name: String,
    /// One line for lists and headings. Default: the name.
    pub title: String,
    /// Contents and sources of the scenario.
    pub description: String,
    /// Seeds of repeated runs. Results are means over them.
    pub seeds: Vec<u64>,
    /// Sentences about the runs, for pages and the terminal. `{RUN:METRIC}` stands for a figure, the
    /// mean over the seeds, and `{RUN:METRIC / RUN:METRIC}` for the ratio of two. A sentence is left out
    /// if one of its runs has no results or incomplete ones, or if a ratio is below 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(!skip_serializing_if)]
    pub findings: Vec<String>,
    /// Two runs, the slower one first, whose difference the report states by cause. Default: the
    /// slowest and the fastest one; for pools the first and the fastest one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explained: Option<[String; 2]>,
}

impl Default for About {
    fn default() -> Self {
        Self {
            name: String::new(),
            title: String::new(),
            description: String::new(),
            seeds: vec![1],
            findings: Vec::new(),
            explained: None,
        }
    }
}

/// A variant: the scenario with changed values of some keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// Name in results.
    pub name: String,
    /// Name in reports.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// Differences of this run from others.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Series of the run. Figures combine the runs of a series.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub series: String,
    /// Dotted keys with their values.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub set: toml::Table,
}

/// Keys that vary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// Axes of the sweep. All combinations run.
    pub axis: Vec<Axis>,
}

/// An axis of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// Dotted key of the axis.
    pub key: String,
    /// Name of the axis in reports.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// Values of the key.
    #[schemars(with = "Vec<serde_json::Value>")]
    pub values: Vec<toml::Value>,
}

samara_engine::kinds! {
    /// A fault of nodes or of the network.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Fault {
        /// Time at which the fault begins.
        pub at: Span,
        /// Time at which the fault ends. After a crash or leave, the node starts again; after others,
        /// the state is as before. Default: never. A crash at 0 s makes a node that joins later.
        pub until: Option<Span>,
        /// Share of the affected nodes, drawn from the seed. The publisher is never affected.
        #[serde(default, skip_serializing_if = "Share::is_zero")]
        pub share: Share,
        /// Numbers of the affected nodes, in place of a share.
        pub nodes: Option<Vec<u32>>,
    }

    /// Kinds of faults.
    #[derive(Clone, Debug, PartialEq)]
    pub enum FaultKind {
        /// Processes end, and their peers notice closed connections.
        Crash = "crash" {},
        /// Hosts disappear without closing connections.
        Vanish = "vanish" {},
        /// Members leave their group in the way of its protocol.
        Leave = "leave" {},
        /// The affected nodes cannot reach the others.
        Partition = "partition" {},
        /// Links of the affected nodes lose all packets, in one direction or both.
        Cut = "cut" {
            /// The other ends of the affected links. Default: all nodes.
            peers: Option<Vec<u32>>,
            /// The packets that are lost. Default: those of both directions.
            direction: Option<Direction>,
        },
        /// Connections of the affected nodes are reset. The nodes connect again at once.
        Reset = "reset" {
            /// The other ends of the affected links. Default: all nodes.
            peers: Option<Vec<u32>>,
        },
        /// The affected nodes lose connections and connect again at once, while their peers keep the old
        /// connections until the new ones come.
        Reconnect = "reconnect" {
            /// The other ends of the affected links. Default: all nodes.
            peers: Option<Vec<u32>>,
        },
        /// Rates are multiplied by `factor`.
        Slow = "slow" {
            /// Factor on both rates, above 0 and at most 1.
            factor: f64,
        },
        /// Nodes do not send what they claim to have sent.
        Withhold = "withhold" {
            /// Share of the frames that a node withholds. Default: all.
            factor: Option<f64>,
        },
        /// Nodes send earlier frames, of their own or of others, in place of new ones.
        Replay = "replay" {
            /// Share of the frames that a node replays. Default: all.
            factor: Option<f64>,
        },
        /// Nodes send frames with changed bytes: with other content, or such that no receiver can
        /// decode them and the link closes.
        Alter = "alter" {
            /// Share of the frames that a node alters. Default: all.
            factor: Option<f64>,
        },
        /// Nodes answer each frame with earlier or altered frames to random peers.
        Flood = "flood" {
            /// Number of frames for each received frame, 1 to 100. Default: 1.
            factor: Option<f64>,
        },
        /// Nodes that exchange cells claim to have all of them, and send none.
        Claim = "claim" {
            /// Share of the frames that a node changes into claims. Default: all.
            factor: Option<f64>,
        },
        /// Nodes that exchange cells answer each frame with announcements of blocks that do not exist.
        Invent = "invent" {
            /// Number of announcements for each received frame, 1 to 100. Default: 1.
            factor: Option<f64>,
        },
        /// Somebody in the same house as an affected node, behind the same router, uploads over `factor`
        /// connections of TCP CUBIC.
        Upload = "upload" {
            /// Number of connections, 1 to 100. Default: 1.
            factor: Option<f64>,
        },
        /// Somebody in the same house as an affected node, behind the same router, makes a call: 50
        /// packets a second of 200 bytes of UDP payload.
        Call = "call" {},
        /// A second node in the same house as an affected one, behind the same router, always has blocks
        /// to send over `factor` links of TCP, with one order and one limit over all of them.
        Node = "node" {
            /// Number of links, 1 to 100. Default: 20.
            factor: Option<f64>,
        },
    }
}

/// Distributions of the times at which a workload acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// At equal intervals.
    Even,
    /// At exponentially distributed intervals.
    Poisson,
}

/// Returns true for the default, which a written section leaves out.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A direction of links, seen from the affected nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// The uplink of the affected nodes.
    Out,
    /// Their downlink.
    In,
}

impl FaultKind {
    /// Returns the factor, if this kind has one and it is set.
    pub fn factor(&self) -> Option<f64> {
        match self {
            Self::Slow { factor } => Some(*factor),
            Self::Withhold { factor }
            | Self::Replay { factor }
            | Self::Alter { factor }
            | Self::Flood { factor }
            | Self::Claim { factor }
            | Self::Invent { factor }
            | Self::Upload { factor }
            | Self::Node { factor } => *factor,
            _ => None,
        }
    }

    /// Returns the other ends of the affected links, if they are set.
    pub fn peers(&self) -> Option<&[u32]> {
        match self {
            Self::Cut { peers, .. } | Self::Reset { peers } | Self::Reconnect { peers } => peers.as_deref(),
            _ => None,
        }
    }

    /// Returns how an affected node breaks the rules of the protocol, and with which strength.
    pub fn misconduct(&self) -> Option<(Misconduct, f64)> {
        let what = match self {
            Self::Withhold { .. } => Misconduct::Withhold,
            Self::Replay { .. } => Misconduct::Replay,
            Self::Alter { .. } => Misconduct::Alter,
            Self::Flood { .. } => Misconduct::Flood,
            Self::Claim { .. } => Misconduct::Claim,
            Self::Invent { .. } => Misconduct::Invent,
            _ => return None,
        };
        Some((what, self.factor().unwrap_or(1.0)))
    }

    /// Returns true if an affected node breaks the rules of the protocol.
    pub fn is_hostile(&self) -> bool {
        self.misconduct().is_some()
    }

    /// Returns who else sends through the uplink queue of an affected node.
    pub fn rival(&self) -> Option<RivalKind> {
        Some(match self {
            Self::Upload { factor } => RivalKind::Upload { connections: factor.unwrap_or(1.0) as u32 },
            Self::Call {} => RivalKind::Call,
            Self::Node { factor } => RivalKind::Node { links: factor.unwrap_or(20.0) as u32 },
            _ => return None,
        })
    }

    /// Returns true if an affected node works as before, with less of its links.
    pub fn only_slows(&self) -> bool {
        matches!(self, Self::Slow { .. }) || self.rival().is_some()
    }

    /// Returns true if an affected node makes up content.
    pub fn forges(&self) -> bool {
        matches!(self, Self::Alter { .. } | Self::Flood { .. })
    }
}
