//! `[workload]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::about::yes;
use crate::units::{Size, Span};

/// What is published, when and by whom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Workload {
    /// Data availability sampling with columns (PeerDAS): blobs are erasure coded to twice their size and cut into columns;
    /// each column is a message on a topic of its own, and each node subscribes to some of them.
    Columns(Columns),
}

/// Blobs, erasure coded to twice their size and cut into columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Columns {
    /// Blobs of a block.
    #[serde(default = "default_blobs")]
    #[schemars(range(min = 1))]
    pub blobs: u32,
    /// Size of a blob before it is coded.
    #[serde(default = "default_blob_size")]
    pub blob_size: Size,
    /// Columns, each with a topic of its own.
    #[serde(default = "default_columns")]
    #[schemars(range(min = 1, max = 65_536))]
    pub columns: u32,
    /// Columns that each node subscribes to, drawn at random.
    #[serde(default = "default_custody")]
    #[schemars(range(min = 1))]
    pub custody: u32,
    /// A CSV file with the columns `node,column` that says who subscribes to what, instead of `custody`. Relative to the
    /// scenario file, or "builtin:" and the name of a data set that comes along ("builtin:reference/custody_n100.csv").
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custody_file: Option<String>,
    /// Who publishes: the number of a node, "random", or "class:" and the name of a kind of host, of which one is drawn.
    #[serde(default)]
    pub publisher: Publisher,
    /// Whether the publisher subscribes to all columns. If not, it sends those that it does not subscribe to by fanout.
    #[serde(default = "yes")]
    pub publisher_subscribes_all: bool,
    /// A node that subscribes to all columns and is linked to the publisher, but gets nothing from it: it tells how far
    /// messages have spread (for `source = "observer"`). It is left out of the results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observer: Option<u32>,
    /// From the start to the first publication: time for meshes to form.
    #[serde(default = "default_warm_up")]
    pub warm_up: Span,
    /// Blocks that are published before, and not measured: they warm connections up.
    #[serde(default)]
    #[schemars(range(max = 10_000))]
    pub warm_up_slots: u32,
    /// How many blocks are published and measured. Without `warm_up_slots` the first finds cold connections, later ones find
    /// warm ones.
    #[serde(default = "default_slots")]
    #[schemars(range(min = 1, max = 10_000))]
    pub slots: u32,
    /// From one block to the next.
    #[serde(default = "default_slot_interval")]
    pub slot_interval: Span,
    /// How long after its publication a block is followed. A node that has not got all of its columns by then counts as
    /// incomplete.
    #[serde(default = "default_deadline")]
    pub deadline: Span,
}

impl Columns {
    /// Payload bytes of one column: each holds its part of all blobs, coded to twice their size (rounded up).
    pub fn column_bytes(&self) -> u64 {
        let coded = 2 * u128::from(self.blobs) * u128::from(self.blob_size.bytes());
        u64::try_from(coded.div_ceil(u128::from(self.columns.max(1)))).unwrap_or(u64::MAX)
    }
}

impl Columns {
    /// When each block is published, since the start; those that only warm up come first.
    pub fn publications(&self) -> impl Iterator<Item = Span> {
        let (first, interval) = (self.warm_up.nanos(), self.slot_interval.nanos());
        (0..u64::from(self.warm_up_slots) + u64::from(self.slots))
            .map(move |slot| Span::from_nanos(first + slot * interval))
    }
}

impl Default for Columns {
    fn default() -> Self {
        Self {
            blobs: default_blobs(),
            blob_size: default_blob_size(),
            columns: default_columns(),
            custody: default_custody(),
            custody_file: None,
            publisher: Publisher::default(),
            publisher_subscribes_all: true,
            observer: None,
            warm_up: default_warm_up(),
            warm_up_slots: 0,
            slots: default_slots(),
            slot_interval: default_slot_interval(),
            deadline: default_deadline(),
        }
    }
}

/// Who publishes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Publisher {
    /// This node.
    Node(u32),
    /// A node drawn from the seed.
    Random,
    /// A node of this class, drawn from the seed.
    Class(String),
}

impl Default for Publisher {
    fn default() -> Self {
        Self::Node(0)
    }
}

impl Serialize for Publisher {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Node(node) => serializer.serialize_u32(*node),
            Self::Random => serializer.serialize_str("random"),
            Self::Class(name) => serializer.collect_str(&format_args!("class:{name}")),
        }
    }
}

impl<'de> Deserialize<'de> for Publisher {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "the number of a node, \"random\" or \"class:NAME\"")]
        enum Written {
            Node(u32),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Node(node) => Ok(Self::Node(node)),
            Written::Text(text) if text == "random" => Ok(Self::Random),
            Written::Text(text) => match text.strip_prefix("class:") {
                Some(name) => Ok(Self::Class(name.to_owned())),
                None => Err(serde::de::Error::custom("\"random\" or \"class:NAME\" is allowed")),
            },
        }
    }
}

impl JsonSchema for Publisher {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Publisher".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "anyOf": [
                { "type": "integer", "minimum": 0, "maximum": u32::MAX },
                { "type": "string", "pattern": "^(random|class:.+)$" },
            ],
        })
    }
}

fn default_blobs() -> u32 {
    8
}

fn default_blob_size() -> Size {
    Size::from_kib(128)
}

fn default_columns() -> u32 {
    128
}

fn default_custody() -> u32 {
    16
}

fn default_warm_up() -> Span {
    Span::from_secs(20)
}

fn default_slots() -> u32 {
    1
}

fn default_slot_interval() -> Span {
    Span::from_secs(12)
}

fn default_deadline() -> Span {
    Span::from_secs(60)
}
