//! The section of a scenario with blocks of columns.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::family::{FamilySpec, Files, NO_CHANNELS, NO_UNSENT, PartType, ProtocolKind, Publisher};
use crate::{Checks, Scenario};
use samara_engine::units::{Rate, Size, Span};
use samara_engine::{NodeRng, Purpose};
use samara_gossipsub::config::Parameters;
use samara_scenario::Inputs;
use samara_scenario::table::read_pairs;

pub static FAMILY: FamilySpec = FamilySpec {
    section: "columns",
    title: "A publisher sends blocks of columns",
    content: PartType::of::<Columns>(),
    protocols: &[ProtocolKind::of::<Parameters>("gossipsub")],
    unused: &[NO_CHANNELS, NO_UNSENT],
    custody: Some(|scenario, inputs, seed| {
        let workload: &Columns = scenario.part();
        Ok((workload.count, workload.custody(scenario.network.nodes, inputs, seed)?))
    }),
    publisher: |scenario| {
        let workload: &Columns = scenario.part();
        let (uplink, downlink) = (workload.publisher_uplink, workload.publisher_downlink);
        Some(Publisher { host: workload.publisher, uplink, downlink })
    },
    extra_hosts: |scenario| u32::from(scenario.part::<Columns>().observer),
    files: Files {
        named: |scenario| {
            let file = scenario.part::<Columns>().custody_file.as_deref();
            file.map(|file| ("columns.custody_file", file)).into_iter().collect()
        },
        ..FamilySpec::BASE.files
    },
    check: |checks, scenario| checks.columns(scenario),
    ..FamilySpec::BASE
};

/// Blocks of columns, published by one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Columns {
    /// Number of blobs in a block.
    pub blobs: u32,
    /// Size of a blob. Erasure coding doubles it.
    pub blob_size: Size,
    /// Number of columns that the extended blobs are cut into. Each has a topic.
    pub count: u32,
    /// Number of columns that every node except the publisher keeps.
    pub custody: u32,
    /// File with the columns of each node: CSV with the columns `node` and `column`, with a path
    /// like that of the topology's file. Replaces `custody`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custody_file: Option<String>,
    /// Number of the publishing host.
    pub publisher: u32,
    /// The publisher's uplink; that of its class, or of the network, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publisher_uplink: Option<Rate>,
    /// The publisher's downlink; that of its class, or of the network, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publisher_downlink: Option<Rate>,
    /// Whether the publisher joins all topics. Otherwise it publishes to topics that it has not
    /// joined (fanout), and keeps `custody` columns like others.
    pub publisher_subscribes_all: bool,
    /// Time from the start of the run to the first publication.
    pub warm_up: Span,
    /// Number of published blocks.
    pub slots: u32,
    /// Time from one publication to the next.
    pub slot_interval: Span,
    /// Maximum time to wait for a block after its publication.
    pub deadline: Span,
    /// Whether the publisher publishes the columns as a batch (by `protocol.schedule_publish`) or
    /// one by one.
    pub batch: bool,
    /// Whether to add a hidden node that joins all topics and reports to the publisher what it has
    /// seen.
    pub observer: bool,
}

impl Default for Columns {
    fn default() -> Self {
        Self {
            blobs: 8,
            blob_size: Size::from_bytes(128 * 1024),
            count: 128,
            custody: 16,
            custody_file: None,
            publisher: 0,
            publisher_uplink: None,
            publisher_downlink: None,
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

impl Columns {
    /// Returns the columns that each node keeps; the publisher's entry lists those that it joins.
    ///
    /// # Errors
    /// The file cannot be read, or does not match the network.
    pub fn custody(&self, nodes: u32, inputs: &Inputs, seed: u64) -> Result<Vec<Vec<u32>>, String> {
        let mut kept = vec![Vec::new(); nodes as usize];
        if let Some(file) = &self.custody_file {
            let rows = read_pairs(file, inputs, ["node", "column"])?;
            for (line, (node, column)) in (2..).zip(rows) {
                if node >= nodes || column >= self.count {
                    let (last, last_column) = (nodes - 1, self.count - 1);
                    return Err(format!(
                        "{file}:{line}: node {node}, column {column}; nodes are 0 to {last}, columns 0 to {last_column}"
                    ));
                }
                kept[node as usize].push(column);
            }
            for columns in &mut kept {
                columns.sort_unstable();
                columns.dedup();
            }
            return Ok(kept);
        }
        for (node, columns) in kept.iter_mut().enumerate() {
            columns.extend(0..self.count);
            if node as u32 != self.publisher || !self.publisher_subscribes_all {
                NodeRng::new(seed, node as u64, Purpose::Workload).shuffle(columns);
                columns.truncate(self.custody as usize);
                columns.sort_unstable();
            }
        }
        Ok(kept)
    }

    /// Payload bytes of a column: the size of all blobs, doubled by erasure coding, divided by the
    /// number of columns.
    pub fn column_bytes(&self) -> u64 {
        u64::from(self.blobs) * 2 * self.blob_size.bytes() / u64::from(self.count.max(1))
    }
}

impl Checks<'_> {
    pub(crate) fn columns(&mut self, scenario: &Scenario) {
        let workload: &Columns = scenario.part();
        self.range("columns.count", workload.count, 1, 4096);
        self.range("columns.blobs", workload.blobs, 1, 100_000);
        self.range("columns.slots", workload.slots, 1, 10_000);
        if workload.custody_file.is_none() {
            self.range("columns.custody", workload.custody, 1, workload.count);
        }
        let (publisher, nodes) = (workload.publisher, scenario.network.nodes);
        if publisher >= nodes {
            let message = format!("is {publisher}; nodes are numbered 0 to {}", nodes - 1);
            self.wrong("columns.publisher", message);
        }
        let bytes = workload.column_bytes();
        if bytes == 0 {
            let message = "the columns have no bytes; blobs x 2 x blob_size / columns is 0";
            self.wrong("columns.blob_size", message);
        }
        let limit = scenario.part::<Parameters>().build(None).max_message_bytes as u64;
        if bytes > limit {
            let message = format!("a column has {bytes} bytes; the protocol's preset allows {limit}");
            self.wrong("columns.blob_size", message);
        }
        if workload.deadline.nanos() == 0 {
            self.wrong(
                "columns.deadline",
                "is 0; expected a positive time, since blocks need time to spread",
            );
        }
        if workload.slots > 1 && workload.slot_interval.nanos() == 0 {
            self.wrong("columns.slot_interval", "is 0 with several slots; expected a time such as \"12 s\"");
        }
        self.starts_after_links("columns.warm_up", workload.warm_up, scenario);
        self.gossipsub(scenario);
    }
}
