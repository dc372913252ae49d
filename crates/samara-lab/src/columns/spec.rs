//! Blocks of columns as a scenario states them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use samara_engine::units::{Size, Span};

/// Blocks that are published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Workload {
    /// Blobs in a block.
    pub blobs: u32,
    /// The size of a blob; erasure coding doubles it.
    pub blob_size: Size,
    /// Columns that the extended blobs are cut into; each has a topic.
    pub columns: u32,
    /// Columns that every node but the publisher keeps.
    pub custody: u32,
    /// Who keeps what: CSV with the columns `node` and `column`; as for the topology's file. Replaces `custody`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custody_file: Option<String>,
    /// The publishing host.
    pub publisher: u32,
    /// Whether the publisher joins all topics; otherwise it publishes to topics that it has not joined (fanout), and
    /// keeps `custody` columns like others.
    pub publisher_subscribes_all: bool,
    /// From the start of the run to the first publication.
    pub warm_up: Span,
    /// How many blocks are published.
    pub slots: u32,
    /// From one publication to the next.
    pub slot_interval: Span,
    /// How long after its publication a block is waited for.
    pub deadline: Span,
    /// Whether the columns are published as a batch (by `gossipsub.schedule_publish`) or one by one.
    pub batch: bool,
    /// Adds a hidden node that joins all topics and tells the publisher what it has seen.
    pub observer: bool,
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            blobs: 8,
            blob_size: Size::from_bytes(128 * 1024),
            columns: 128,
            custody: 16,
            custody_file: None,
            publisher: 0,
            publisher_subscribes_all: true,
            warm_up: Span::from_millis(10_000),
            slots: 1,
            slot_interval: Span::from_millis(12_000),
            deadline: Span::from_millis(60_000),
            batch: true,
            observer: false,
        }
    }
}

impl Workload {
    /// Payload bytes of a column: the blobs, doubled by erasure coding, over the columns.
    pub fn column_bytes(&self) -> u64 {
        u64::from(self.blobs) * 2 * self.blob_size.bytes() / u64::from(self.columns.max(1))
    }
}
