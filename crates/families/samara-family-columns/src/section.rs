//! The section of a scenario with blocks of columns.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::application::{CellSettings, Layout, PieceTopics, PushedCells};
use samara_document::Inputs;
use samara_document::study::withholding;
use samara_document::table::read_pairs;
use samara_engine::units::{Rate, Share, Size, Span};
use samara_engine::{NodeRng, Purpose, derive_seed};
use samara_gossipsub::Piece;
use samara_gossipsub::config::Parameters;
use samara_lab::network::class_of_nodes;
use samara_pubsub::parameters::{self, FLOODSUB_KIND, GOSSIPSUB, PLUMTREE, PLUMTREE_KIND};
use samara_scenario::family::{FamilySpec, Files, NO_CHANNELS, NO_UNSENT, PartType, Publisher};
use samara_scenario::keep_one;
use samara_scenario::{Checks, FaultKind, Scenario, is_default};

pub static FAMILY: FamilySpec = FamilySpec {
    section: "columns",
    title: "A publisher sends blocks of columns",
    docs: "protocols/gossipsub.md",
    content: PartType::of::<Columns>(),
    protocols: &[GOSSIPSUB, FLOODSUB_KIND, PLUMTREE_KIND],
    unused: &[NO_CHANNELS, NO_UNSENT],
    custody: Some(|scenario, inputs, seed| {
        let workload: &Columns = scenario.part();
        Ok((workload.segments(), workload.custody(scenario, inputs, seed)?))
    }),
    publisher: |scenario| {
        let workload: &Columns = scenario.part();
        let (uplink, downlink) = (workload.publisher_uplink, workload.publisher_downlink);
        let class = workload.publisher_class.as_deref();
        Some(Publisher { host: workload.publisher, class, uplink, downlink })
    },
    extra_hosts: |scenario| u32::from(scenario.part::<Columns>().observer),
    files: Files {
        named: |scenario| {
            let file = scenario.part::<Columns>().custody_file.as_deref();
            file.map(|file| ("columns.custody_file", file)).into_iter().collect()
        },
        resolve: |scenario, inputs, _| {
            let workload = scenario.part::<Columns>();
            if workload.custody_file.is_none() {
                return Ok(());
            }
            let custody = workload.custody(scenario, inputs, 0);
            custody.map(drop).map_err(|message| ("columns.custody_file".to_owned(), message))
        },
        ..FamilySpec::BASE.files
    },
    end: |scenario| Some(scenario.part::<Columns>().end()),
    topics: |scenario| u64::from(scenario.part::<Columns>().kept_max(scenario)),
    wrong_fault: |scenario, kind| {
        let has_cells = scenario.part::<Columns>().cells.is_some();
        (matches!(kind, FaultKind::Claim { .. } | FaultKind::Invent { .. }) && !has_cells).then_some(
            "is about cells, which only nodes with [columns.cells] exchange; use \"withhold\" or \"flood\"",
        )
    },
    check,
    scenarios: samara_scenario::scenarios! {
        "peerdas" "21 s",
        "peerdas-bandwidth" "375 s",
        "peerdas-blobs" "860 s",
        "peerdas-links" "2300 s",
        "peerdas-sockets" "900 s",
        "peerdas-methods" "52 s",
        "peerdas-10k" "100 s",
        "peerdas-100k" "270 s",
        "peerdas-mixed" "100 s",
        "peerdas-cells" "31 s",
        "peerdas-cells-upgrade" "61 s",
        "peerdas-cells-adversary" "68 s",
        "peerdas-cells-real" "8 s",
        "payload" "90 s",
        "payload-size" "130 s",
        "payload-uplink" "200 s",
        "payload-networks" "200 s",
        "payload-nodes" "635 s",
        "payload-faults" "370 s",
        "payload-geography" "740 s",
        "payload-real" "3 s",
        "rivals" "15 s",
        "peerdas-reference" "7 s",
        "peerdas-small" "< 1 s",
    },
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
    /// Number of columns that every node except the publisher keeps, unless its class has a `custody`.
    pub custody: u32,
    /// The choice of these columns.
    #[serde(skip_serializing_if = "is_default")]
    pub custody_pattern: CustodyPattern,
    /// Number of its columns with which a node is done; all of them if absent. The slowest columns
    /// then delay no node, as in LossyDAS.
    pub custody_needed: Option<u32>,
    /// Number of rows of the extended matrix, each with a topic of its own beside those of the
    /// columns, as in FullDAS: `blobs`, or more if the matrix is also extended downwards. 0 for
    /// columns only.
    #[serde(skip_serializing_if = "is_default")]
    pub rows: u32,
    /// Number of rows that every node except the publisher keeps.
    #[serde(skip_serializing_if = "is_default")]
    pub row_custody: u32,
    /// Nodes that rebuild the block when they have half of its columns.
    pub repair: Option<Repair>,
    /// Nodes that exchange cells instead of whole columns, because they have most of the blobs from the
    /// mempool.
    pub cells: Option<Cells>,
    /// A payload in pieces, in place of columns of blobs: `count` is the number of pieces that hold it,
    /// and `custody` and `blobs` have no effect.
    pub pieces: Option<Pieces>,
    /// File with the columns of each node: CSV with the columns `node` and `column`, with a path
    /// like that of the topology's file. Replaces `custody`.
    pub custody_file: Option<String>,
    /// Number of the publishing host.
    pub publisher: u32,
    /// The class of the publishing host, which it takes from another host. Default: its class is drawn
    /// like that of the others.
    pub publisher_class: Option<String>,
    /// The publisher's uplink; that of its class, or of the network, if absent.
    pub publisher_uplink: Option<Rate>,
    /// The publisher's downlink; that of its class, or of the network, if absent.
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
    /// Whether the publisher publishes the columns as a batch or one by one. Either way,
    /// `protocol.schedule_publish` orders the copies that wait: unless it is "sequential", copies of
    /// later columns may leave before those of earlier ones.
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
            custody_pattern: CustodyPattern::Random,
            custody_needed: None,
            rows: 0,
            row_custody: 0,
            repair: None,
            cells: None,
            pieces: None,
            custody_file: None,
            publisher: 0,
            publisher_class: None,
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

/// A payload that every node needs, in pieces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Pieces {
    /// Bytes of the message of a piece that holds a part of the payload.
    pub size: Size,
    /// Number of further pieces that an erasure code computes. With any, a node is done when it has as
    /// many pieces as hold the payload.
    #[serde(skip_serializing_if = "is_default")]
    pub parity: u32,
    /// Bytes of the message of such a piece; `size` if absent. Parity cannot be compressed.
    pub parity_size: Option<Size>,
    /// Whether all pieces share one topic, or each has its own.
    pub topics: PieceTopics,
    /// Number of pieces whose topics a node joins, drawn at random, with a topic for each piece and
    /// parity; all if absent.
    pub joined: Option<u32>,
    /// Share of the nodes that announce and push pieces, but answer no request. They are done like the
    /// others.
    #[serde(skip_serializing_if = "Share::is_zero")]
    pub withholding: Share,
    /// Share of the nodes that forward and announce nothing.
    #[serde(skip_serializing_if = "Share::is_zero")]
    pub silent: Share,
    /// Share of the nodes that request nothing, and answer every IHAVE with an IDONTWANT of its pieces
    /// to all mesh peers. They push and announce what they receive. The draw is independent of that of
    /// `withholding`.
    #[serde(skip_serializing_if = "Share::is_zero")]
    pub spoofing: Share,
    /// Number of pieces that the publisher never sends: the last ones. If fewer than `columns.count`
    /// remain, no node can be done.
    #[serde(skip_serializing_if = "is_default")]
    pub omitted: u32,
    /// Bytes of one copy of the payload, for the count of copies; those of all its pieces if absent.
    pub payload: Option<Size>,
    /// Bytes of the id of a message, which announcements and requests repeat.
    pub id_size: Size,
}

impl Default for Pieces {
    fn default() -> Self {
        Self {
            size: Size::from_bytes(32 * 1024),
            parity: 0,
            parity_size: None,
            topics: PieceTopics::default(),
            joined: None,
            withholding: Share::default(),
            silent: Share::default(),
            spoofing: Share::default(),
            omitted: 0,
            payload: None,
            id_size: Size::from_bytes(Piece::ID_BYTES.into()),
        }
    }
}

/// The nodes with a fault of [`Pieces`], by fault. A node can have several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultyNodes {
    pub withholding: Vec<u32>,
    pub silent: Vec<u32>,
    pub spoofing: Vec<u32>,
}

/// Bytes of the header of a piece (`samara_gossipsub::Piece`).
const PIECE_HEADER: u64 = samara_gossipsub::Piece::HEADER_BYTES as u64;

/// Nodes that exchange cells: partial messages of GossipSub, in the format of Ethereum's partial columns
/// (consensus-specs `fulu/partial-columns/p2p-interface.md`). Columns then have their full size, with
/// proofs and commitments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Cells {
    /// Share of the nodes that exchange cells, drawn at random; the publisher is one of them unless
    /// there are none. The others exchange whole columns.
    pub upgraded: Share,
    /// Share of the nodes that exchange cells but work as deployed clients do: they ask every peer for what
    /// they lack, withdraw nothing, and send to each peer in the order in which they came to owe. The
    /// publisher is none of them.
    pub deployed: Share,
    /// Mean share of a block's blobs that a node has in its mempool. Default: "82 %" (Xatu, main net,
    /// March 2025: 81.9 % of the blob transactions in blocks).
    pub hits: Share,
    /// Share of the missing blobs that all nodes lack, because they were never in the public mempool.
    /// Every node misses the others independently. Default: "80 %", of the same measurement (14.8 of
    /// 18.1 % of the transactions were private).
    pub private: Share,
    /// The cells that the publisher sends without being asked.
    pub push: PushedCells,
    /// Time from a header to the blobs of the node's mempool (`engine_getBlobs`). Default: "10 ms", an
    /// assumption.
    pub lookup_time: Span,
    /// Time to verify the proof of a cell, one cell after the other. Default: "0.12 ms" (rust-eth-kzg: 12
    /// ms for 128 cells; c-kzg: 19.6 ms).
    pub cell_time: Span,
}

impl Default for Cells {
    fn default() -> Self {
        Self {
            upgraded: Share::from_fraction(1.0),
            deployed: Share::from_fraction(0.0),
            hits: Share::from_fraction(0.82),
            private: Share::from_fraction(0.8),
            push: PushedCells::default(),
            lookup_time: Span::from_millis(10),
            cell_time: Span::from_nanos(120_000),
        }
    }
}

impl Cells {
    /// Returns the number of blobs that no mempool has.
    pub fn private_blobs(&self, blobs: u32) -> u32 {
        (f64::from(blobs) * (1.0 - self.hits.fraction()) * self.private.fraction()).round() as u32
    }

    /// Returns the chance that a node lacks a blob that some mempools have.
    pub fn chance_of_miss(&self, blobs: u32) -> f64 {
        let private = f64::from(self.private_blobs(blobs));
        let missing = f64::from(blobs) * (1.0 - self.hits.fraction()) - private;
        (missing / (f64::from(blobs) - private).max(1.0)).clamp(0.0, 1.0)
    }

    /// Returns whether each host exchanges cells.
    pub fn upgraded(&self, nodes: u32, publisher: u32, seed: u64) -> Vec<bool> {
        marked(nodes, &self.drawn(nodes, publisher, seed))
    }

    /// Returns whether each host exchanges cells as deployed clients do.
    pub fn deployed(&self, nodes: u32, publisher: u32, seed: u64) -> Vec<bool> {
        let drawn = self.drawn(nodes, publisher, seed);
        let count = (self.deployed.fraction() * drawn.len() as f64).round() as usize;
        let others = drawn.get(1..).unwrap_or_default();
        marked(nodes, &others[others.len().saturating_sub(count)..])
    }

    /// Returns the hosts that exchange cells, the publisher first.
    fn drawn(&self, nodes: u32, publisher: u32, seed: u64) -> Vec<u32> {
        let count = (self.upgraded.fraction() * f64::from(nodes)).round() as usize;
        let mut hosts: Vec<u32> = (0..nodes).filter(|host| *host != publisher).collect();
        NodeRng::new(seed, u64::MAX - 2, Purpose::Workload).shuffle(&mut hosts);
        [publisher].into_iter().chain(hosts).take(count).collect()
    }
}

fn marked(nodes: u32, hosts: &[u32]) -> Vec<bool> {
    let mut marked = vec![false; nodes as usize];
    hosts.iter().for_each(|host| marked[*host as usize] = true);
    marked
}

/// Bytes of a cell of Ethereum, the only size that its format of partial columns allows.
const CELL_BYTES: u64 = 2_048;

/// Choices of the columns that nodes keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CustodyPattern {
    /// Random columns for each node, as in Ethereum.
    #[default]
    Random,
    /// Columns at equal distances, from the node's number on: all nodes then wait for early and late
    /// columns alike.
    Strided,
}

/// Nodes that rebuild a block: every node except the publisher that keeps at least half of the
/// columns. With half of the columns, erasure coding yields all others (consensus-specs
/// `fulu/das-core.md`, "Reconstruction and cross-seeding").
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Repair {
    /// Share of the nodes that keep `columns` instead of `columns.custody`, drawn at random.
    pub nodes: Share,
    /// Number of columns that they keep, at least half of all; all if absent.
    pub columns: Option<u32>,
    /// Time to rebuild the row of one blob, with its proofs; rows follow one after the other.
    /// Default: "100 ms", an assumption. Clients share the rows among cores.
    pub time_per_blob: Span,
    /// Whether a node publishes the rebuilt columns on the topics that it has joined.
    pub publish: bool,
}

impl Default for Repair {
    fn default() -> Self {
        Self { nodes: Share::default(), columns: None, time_per_blob: Span::from_millis(100), publish: true }
    }
}

impl Columns {
    /// Returns what the blocks consist of.
    pub fn layout(&self) -> Layout {
        Layout {
            columns: self.count,
            rows: self.rows,
            pieces: self.pieces.as_ref().map(|pieces| pieces.topics),
            segment_bytes: self.segment_bytes(),
            sent: self.sent(),
            slots: self.slots,
        }
    }

    /// Returns how nodes exchange cells; `None` if they do not.
    pub fn cell_settings(&self) -> Option<CellSettings> {
        let cells = self.cells.as_ref()?;
        Some(CellSettings {
            blobs: self.blobs,
            slots: self.slots,
            private_blobs: cells.private_blobs(self.blobs),
            chance_of_miss: cells.chance_of_miss(self.blobs),
            push: cells.push,
            lookup_time: cells.lookup_time,
            cell_time: cells.cell_time,
        })
    }

    /// Returns the deadline of the last block, as a time of the run.
    fn end(&self) -> Span {
        let Self { warm_up, slots, slot_interval, deadline, .. } = self;
        let before = u64::from(slots.saturating_sub(1)).saturating_mul(slot_interval.nanos());
        Span::from_nanos(before.saturating_add(warm_up.nanos()).saturating_add(deadline.nanos()))
    }

    /// Returns the number of columns and rows of a block. Segments are numbered from 0, columns
    /// first.
    pub fn segments(&self) -> u32 {
        let parity = self.pieces.as_ref().map_or(0, |pieces| pieces.parity);
        self.count.saturating_add(self.rows).saturating_add(parity)
    }

    /// Returns the number of segments that a node keeps at most, apart from the publisher.
    pub(crate) fn kept_max(&self, scenario: &Scenario) -> u32 {
        let is_custody = self.pieces.is_none() && self.custody_file.is_none() && self.repair.is_none();
        let custody = self.custody_max(scenario).saturating_add(self.row_custody);
        if is_custody { custody.min(self.segments()) } else { self.segments() }
    }

    /// Returns the largest number of columns that nodes keep, by their classes.
    fn custody_max(&self, scenario: &Scenario) -> u32 {
        let of_classes = scenario.network.classes.iter().filter_map(|class| class.custody);
        of_classes.chain([self.custody]).max().unwrap_or(self.custody)
    }

    /// Returns the number of its segments with which a node is done; `None` for all.
    pub fn needed(&self) -> Option<u32> {
        let coded = self.pieces.as_ref().is_some_and(|pieces| pieces.parity > 0);
        if coded { Some(self.count) } else { self.custody_needed }
    }

    /// Returns the faulty nodes of a network.
    pub fn faulty(&self, nodes: u32, seed: u64) -> FaultyNodes {
        let Some(pieces) = &self.pieces else { return FaultyNodes::default() };
        let draw = |share: Share, seed: u64| {
            if share.is_zero() {
                return Vec::new();
            }
            let percent = (share.fraction() * 100.0).round() as u32;
            withholding(nodes, percent, seed)
        };
        FaultyNodes {
            withholding: draw(pieces.withholding, seed),
            silent: draw(pieces.silent, seed),
            spoofing: draw(pieces.spoofing, derive_seed(seed, 0, Purpose::Hostile)),
        }
    }

    /// Returns the number of the first segments of a block, which the publisher sends.
    pub fn sent(&self) -> u32 {
        self.segments().saturating_sub(self.pieces.as_ref().map_or(0, |pieces| pieces.omitted))
    }

    /// Returns the bytes of one copy of the pieces' payload.
    pub fn payload_bytes(&self) -> Option<u64> {
        let pieces = self.pieces.as_ref()?;
        let all = pieces.size.bytes().saturating_mul(self.count.into());
        Some(pieces.payload.map_or(all, Size::bytes))
    }

    /// Returns the payload bytes of each segment.
    pub fn segment_bytes(&self) -> Vec<u64> {
        let (columns, rows) = (self.count as usize, self.rows as usize);
        if let Some(pieces) = &self.pieces {
            let parity = pieces.parity_size.unwrap_or(pieces.size).bytes();
            return [vec![pieces.size.bytes(); columns], vec![parity; pieces.parity as usize]].concat();
        }
        [vec![self.column_bytes(); columns], vec![self.row_bytes(); rows]].concat()
    }

    /// Payload bytes of a row: a blob, doubled by erasure coding.
    fn row_bytes(&self) -> u64 {
        self.blob_size.bytes().saturating_mul(2)
    }

    /// Returns the number of columns from which all others can be rebuilt.
    pub fn half(&self) -> u32 {
        self.count.div_ceil(2)
    }

    /// Returns whether each host keeps the columns of [`Repair::columns`].
    fn repairing(&self, nodes: u32, seed: u64) -> Vec<bool> {
        let share = self.repair.as_ref().map_or(0.0, |repair| repair.nodes.fraction());
        let mut hosts: Vec<u32> = (0..nodes).filter(|host| *host != self.publisher).collect();
        NodeRng::new(seed, u64::MAX - 1, Purpose::Workload).shuffle(&mut hosts);
        let mut repairing = vec![false; nodes as usize];
        let count = (share * f64::from(nodes)).round() as usize;
        hosts.iter().take(count).for_each(|host| repairing[*host as usize] = true);
        repairing
    }

    /// Returns the segments that each node keeps; the publisher's entry lists those that it joins.
    pub fn custody(&self, scenario: &Scenario, inputs: &Inputs, seed: u64) -> Result<Vec<Vec<u32>>, String> {
        let nodes = scenario.network.nodes;
        let mut kept = vec![Vec::new(); nodes as usize];
        if let Some(file) = &self.custody_file {
            read_pairs(file, inputs, &["node", "column"], |[node, column]| {
                if node >= nodes || column >= self.count {
                    return Err(format!(
                        "node {node}, column {column}; expected nodes below {nodes} and columns below {}",
                        self.count
                    ));
                }
                kept[node as usize].push(column);
                Ok(())
            })?;
            for columns in &mut kept {
                columns.sort_unstable();
                columns.dedup();
            }
            return Ok(kept);
        }
        if let Some(pieces) = &self.pieces {
            for (node, segments) in kept.iter_mut().enumerate() {
                segments.extend(0..self.segments());
                if let Some(joined) = pieces.joined.filter(|_| node as u32 != self.publisher) {
                    NodeRng::new(seed, node as u64, Purpose::Workload).shuffle(segments);
                    segments.truncate(joined as usize);
                    segments.sort_unstable();
                }
            }
            return Ok(kept);
        }
        let repairing = self.repairing(nodes, seed);
        let class = class_of_nodes(scenario, inputs, seed)?;
        let of_class = |node: usize| class[node].and_then(|class| scenario.network.classes[class].custody);
        let many = self.repair.as_ref().and_then(|repair| repair.columns).unwrap_or(self.count);
        for (node, segments) in kept.iter_mut().enumerate() {
            segments.extend(0..self.count);
            let mut rows: Vec<u32> = (self.count..self.segments()).collect();
            if node as u32 != self.publisher || !self.publisher_subscribes_all {
                let custody = if repairing[node] { many } else { of_class(node).unwrap_or(self.custody) };
                let mut rng = NodeRng::new(seed, node as u64, Purpose::Workload);
                match self.custody_pattern {
                    CustodyPattern::Random => {
                        rng.shuffle(segments);
                        segments.truncate(custody as usize);
                    }
                    CustodyPattern::Strided => {
                        let at = |step: u32| u64::from(step) * u64::from(self.count) / u64::from(custody);
                        let column = |step| ((node as u64 + at(step)) % u64::from(self.count)) as u32;
                        *segments = (0..custody).map(column).collect();
                    }
                }
                segments.sort_unstable();
                rng.shuffle(&mut rows);
                rows.truncate(self.row_custody as usize);
                rows.sort_unstable();
            }
            segments.extend(rows);
        }
        Ok(kept)
    }

    /// Payload bytes of a column: the size of all rows of the matrix, divided by the number of
    /// columns. There is a row for each blob, twice its size by erasure coding, unless `rows` has
    /// more.
    pub fn column_bytes(&self) -> u64 {
        if let Some(pieces) = &self.pieces {
            return pieces.size.bytes();
        }
        let rows = u64::from(self.blobs.max(self.rows));
        if self.cells.is_some() {
            // A data column sidecar of Fulu: cells, proofs and commitments of all blobs, the signed header
            // of the block, and offsets.
            return 356 + rows * (CELL_BYTES + 2 * 48);
        }
        rows.saturating_mul(self.row_bytes()) / u64::from(self.count.max(1))
    }
}

/// Maximum payload of a message of the baselines: a frame of 1 MiB less its topic and author.
const BASELINE_MESSAGE_MAX: u64 = (1 << 20) - 256;

/// Maximum number of columns, rows and pieces that all nodes keep of a block, and of their deliveries
/// in a run, whose state is in memory.
const KEPT_MAX: u64 = 1 << 28;
const DELIVERIES_MAX: u64 = 1 << 30;
/// Maximum time of all slots, in nanoseconds: a year.
const SLOTS_NANOS_MAX: u64 = 8_760 * 3_600_000_000_000;

fn check(checks: &mut Checks<'_>, scenario: &Scenario) {
    let workload: &Columns = scenario.part();
    let problems = checks.count();
    checks.range("columns.count", workload.count, 1, 4096);
    checks.range("columns.blobs", workload.blobs, 1, 100_000);
    checks.range("columns.slots", workload.slots, 1, 10_000);
    if workload.custody_file.is_none() && workload.pieces.is_none() {
        checks.range("columns.custody", workload.custody, 1, workload.count);
    }
    if let Some(needed) = workload.custody_needed {
        let most = workload.custody_max(scenario).saturating_add(workload.row_custody);
        checks.range("columns.custody_needed", needed, 1, most);
    }
    if workload.rows > 0 {
        checks.range("columns.rows", workload.rows, workload.blobs, 4096);
        if workload.custody_file.is_some() {
            let remedy = keep_one("columns.rows", "columns.custody_file");
            let message = format!("has no effect on a custody_file, which lists columns only; {remedy}");
            checks.wrong("columns.rows", message);
        }
    }
    checks.range("columns.row_custody", workload.row_custody, 0, workload.rows);
    check_classes(checks, scenario, workload);
    if let Some(repair) = &workload.repair {
        check_repair(checks, repair, (workload, workload.custody_max(scenario)));
    }
    if let Some(cells) = &workload.cells {
        check_cells(checks, cells, workload);
    }
    if let Some(pieces) = &workload.pieces {
        check_pieces(checks, pieces, workload);
    }
    if scenario.find::<Parameters>().is_none() {
        check_baseline(checks, scenario, workload);
    }
    // It computes with all of these numbers.
    if checks.count() == problems {
        check_kept(checks, scenario, workload);
    }
    let (publisher, nodes) = (workload.publisher, scenario.network.nodes);
    if nodes > 0 && publisher >= nodes {
        let message = format!("is {publisher}; nodes are numbered 0 to {}", nodes - 1);
        checks.wrong("columns.publisher", message);
    }
    let rates = [("uplink", workload.publisher_uplink), ("downlink", workload.publisher_downlink)];
    for (link, _) in rates.iter().filter(|(_, rate)| rate.is_some_and(|rate| rate.bps() == 0)) {
        checks.wrong(&format!("columns.publisher_{link}"), "is 0 bit/s; it must be positive");
    }
    let bytes = workload.column_bytes();
    if bytes == 0 && workload.blobs > 0 && workload.count > 0 {
        let message = "the columns have no bytes; blobs x 2 x blob_size / columns is 0";
        checks.wrong("columns.blob_size", message);
    }
    let limit = match scenario.find::<Parameters>() {
        Some(parameters) => parameters.config.max_message_bytes as u64,
        None => BASELINE_MESSAGE_MAX,
    };
    let parity = workload.pieces.as_ref().filter(|pieces| pieces.parity > 0);
    let parity = parity.map_or(0, |pieces| pieces.parity_size.unwrap_or(pieces.size).bytes());
    let row = if workload.rows > 0 && workload.pieces.is_none() { workload.row_bytes() } else { 0 };
    let largest = bytes.max(parity).max(row);
    if let Some(pieces) = workload.pieces.as_ref().filter(|_| largest > limit) {
        let key = if bytes > limit { "size" } else { "parity_size" };
        let size = if bytes > limit { pieces.size } else { Size::from_bytes(largest) };
        let message = format!(
            "is {size}; a message of the protocol has at most {}; use more pieces, or a larger protocol.message_max",
            Size::from_bytes(limit)
        );
        checks.wrong(&format!("columns.pieces.{key}"), message);
    } else if bytes > limit {
        let most = limit.saturating_mul(workload.count.into()) / workload.row_bytes().max(1);
        let message = format!(
            "is {}, so a column has {}; a message of the protocol has at most {}, which allows {most} blobs of {}",
            workload.blobs.max(workload.rows),
            Size::from_bytes(bytes),
            Size::from_bytes(limit),
            workload.blob_size
        );
        checks.wrong(if workload.rows > workload.blobs { "columns.rows" } else { "columns.blobs" }, message);
    } else if largest > limit {
        let (row, limit) = (Size::from_bytes(largest), Size::from_bytes(limit));
        let message = format!(
            "is {}, so a row has {row}; a message of the protocol has at most {limit}",
            workload.blob_size
        );
        checks.wrong("columns.blob_size", message);
    }
    if workload.deadline.nanos() == 0 {
        checks.wrong("columns.deadline", "is 0; expected a positive time, since blocks need time to spread");
    }
    let slots = u64::from(workload.slots);
    if workload.slot_interval > Span::from_nanos(SLOTS_NANOS_MAX / slots.max(1)) {
        let most = Span::from_nanos(SLOTS_NANOS_MAX);
        let message = format!("is {}, with {slots} slots; together at most {most}", workload.slot_interval);
        checks.wrong("columns.slot_interval", message);
    }
    if workload.slots > 1 && workload.slot_interval.nanos() == 0 {
        checks.wrong("columns.slot_interval", "is 0 with several slots; expected a time such as \"12 s\"");
    }
    checks.period("columns.slot_interval", workload.slot_interval);
    checks.lasts("columns.deadline", &[workload.end()]);
    checks.starts_after_links("columns.warm_up", workload.warm_up, scenario);
    parameters::check(checks, scenario, workload.observer);
}

/// Checks the number of columns that all nodes keep, and of their deliveries.
fn check_kept(checks: &mut Checks<'_>, scenario: &Scenario, workload: &Columns) {
    let (nodes, segments) = (u64::from(scenario.network.nodes), workload.segments());
    // Each node draws its columns from all.
    let drawn = nodes * u64::from(segments);
    if drawn > KEPT_MAX {
        let message = format!(
            "has {segments} columns, rows and pieces for {nodes} nodes, {drawn} in all; allowed are at most {KEPT_MAX}"
        );
        checks.wrong("columns.count", message);
    }
    let deliveries = nodes * u64::from(workload.slots) * u64::from(workload.kept_max(scenario));
    if deliveries > DELIVERIES_MAX {
        let message = format!(
            "is {}, with up to {deliveries} deliveries; allowed are at most {DELIVERIES_MAX}",
            workload.slots
        );
        checks.wrong("columns.slots", message);
    }
}

fn check_shares(
    checks: &mut Checks<'_>,
    section: &str,
    shares: impl IntoIterator<Item = (&'static str, Share)>,
) {
    for (key, share) in shares.into_iter().filter(|(_, share)| share.fraction() > 1.0) {
        checks.wrong(&format!("{section}.{key}"), format!("is {share}; at most 100 %"));
    }
}

/// Checks the custody of classes, and the class of the publisher.
fn check_classes(checks: &mut Checks<'_>, scenario: &Scenario, workload: &Columns) {
    let replaced = [("custody_file", workload.custody_file.is_some()), ("pieces", workload.pieces.is_some())];
    let classes = &scenario.network.classes;
    for (i, custody) in (0..).zip(classes).filter_map(|(i, class)| Some((i, class.custody?))) {
        let key = format!("network.class.{i}.custody");
        checks.range(&key, custody, 1, workload.count);
        for (other, _) in replaced.iter().filter(|(_, is_set)| *is_set) {
            let remedy = keep_one(&key, &format!("columns.{other}"));
            checks.wrong(&key, format!("is replaced by columns.{other}; {remedy}"));
        }
    }
    let Some(name) = &workload.publisher_class else { return };
    let key = "columns.publisher_class";
    if !classes.iter().any(|class| class.name == *name) {
        let names: Vec<&str> = classes.iter().map(|class| class.name.as_str()).collect();
        let known = match names.as_slice() {
            [] => "add a [[network.class]]".to_owned(),
            names => format!("expected one of {}", names.join(", ")),
        };
        checks.wrong(key, format!("is \"{name}\", which is no class of nodes; {known}"));
    } else if scenario.network.classes_from.is_some() {
        let message =
            "network.classes_from gives classes consecutive hosts; set columns.publisher to one of them";
        checks.wrong(key, message);
    } else if classes.iter().any(|class| class.share.is_none()) {
        checks.wrong(key, "network.nodes_file gives classes to nodes; set columns.publisher to one of them");
    }
}

fn check_repair(checks: &mut Checks<'_>, repair: &Repair, (workload, custody_max): (&Columns, u32)) {
    if let Some(columns) = repair.columns {
        checks.range("columns.repair.columns", columns, workload.half(), workload.count);
    }
    let share = repair.nodes.fraction();
    if share > 1.0 {
        checks.wrong("columns.repair.nodes", format!("is {}; allowed is up to 100 %", repair.nodes));
    }
    if workload.custody_file.is_some() && (share > 0.0 || repair.columns.is_some()) {
        let message = "the file decides which nodes keep half of the columns; remove nodes and columns";
        checks.wrong("columns.repair", message);
    }
    if workload.custody_file.is_none() && share == 0.0 && custody_max < workload.half() {
        let message = format!(
            "no node keeps half of the columns; set nodes, for example \"5 %\", or columns.custody of at least {}",
            workload.half()
        );
        checks.wrong("columns.repair", message);
    }
}

fn check_cells(checks: &mut Checks<'_>, cells: &Cells, workload: &Columns) {
    let Cells { upgraded, deployed, hits, private, .. } = *cells;
    let shares = [("upgraded", upgraded), ("deployed", deployed), ("hits", hits), ("private", private)];
    check_shares(checks, "columns.cells", shares);
    checks.range("columns.blobs", workload.blobs, 1, 4_096);
    let bytes = workload.row_bytes() / u64::from(workload.count.max(1));
    if bytes != CELL_BYTES {
        let key = if workload.count == Columns::default().count { "blob_size" } else { "count" };
        let message = format!(
            "a cell has {bytes} bytes (2 x blob_size / count), and {CELL_BYTES} in the format of cells; use 128 columns of blobs of 128 KiB, or remove columns.cells"
        );
        checks.wrong(&format!("columns.{key}"), message);
    }
    let others = [("rows", workload.rows > 0), ("repair", workload.repair.is_some())];
    checks.exclude("columns.cells", others, "comes without cells");
}

fn check_pieces(checks: &mut Checks<'_>, pieces: &Pieces, workload: &Columns) {
    checks.range("columns.pieces.parity", pieces.parity, 0, 4_096 - workload.count.min(4_096));
    let sizes = [("size", Some(pieces.size)), ("parity_size", pieces.parity_size)];
    for (key, size) in sizes.into_iter().filter_map(|(key, size)| Some((key, size?))) {
        if size.bytes() < PIECE_HEADER {
            let message = format!("is {size}; a piece has at least its header of {PIECE_HEADER} bytes");
            checks.wrong(&format!("columns.pieces.{key}"), message);
        }
    }
    if let Some(joined) = pieces.joined {
        if pieces.topics != PieceTopics::Each || pieces.parity == 0 {
            let message = "needs topics = \"each\" and parity; otherwise every node needs all pieces";
            checks.wrong("columns.pieces.joined", message);
        }
        checks.range("columns.pieces.joined", joined, workload.count, workload.segments());
    }
    let shares =
        [("withholding", pieces.withholding), ("silent", pieces.silent), ("spoofing", pieces.spoofing)];
    check_shares(checks, "columns.pieces", shares);
    if pieces.omitted > 0 && pieces.omitted >= workload.segments() {
        let (omitted, segments) = (pieces.omitted, workload.segments());
        let message = format!("is {omitted} of {segments} pieces; expected fewer, so that one is sent");
        checks.wrong("columns.pieces.omitted", message);
    }
    let least = u64::from(Piece::ID_BYTES);
    if !(least..=1024).contains(&pieces.id_size.bytes()) {
        let message = format!("is {}; expected {least} B to 1 KiB", pieces.id_size);
        checks.wrong("columns.pieces.id_size", message);
    }
    if pieces.payload.is_some_and(|payload| payload.bytes() == 0) {
        checks.wrong("columns.pieces.payload", "is 0 B; expected the bytes of one copy");
    }
    let others = [
        ("rows", workload.rows > 0),
        ("repair", workload.repair.is_some()),
        ("cells", workload.cells.is_some()),
        ("custody_file", workload.custody_file.is_some()),
        ("custody_needed", workload.custody_needed.is_some()),
    ];
    checks.exclude("columns.pieces", others, "comes without pieces");
}

/// Rejects what only GossipSub can do.
fn check_baseline(checks: &mut Checks<'_>, scenario: &Scenario, workload: &Columns) {
    if scenario.network.validation_time.nanos() > 0 {
        let message = "baselines have no validation; remove it, or use protocol.kind = \"gossipsub\"";
        checks.wrong("network.validation_time", message);
    }
    for (key, is_set, what) in [
        ("pieces", workload.pieces.is_some(), "pieces are messages of GossipSub"),
        ("cells", workload.cells.is_some(), "cells are partial messages of GossipSub"),
        ("observer", workload.observer, "an observer reports by GossipSub"),
    ] {
        if is_set {
            checks.wrong(&format!("columns.{key}"), format!("{what}; use protocol.kind = \"gossipsub\""));
        }
    }
    if scenario.selected.protocol() == PLUMTREE && !workload.publisher_subscribes_all {
        let message = "a publisher is a member of Plumtree's trees; set it to true";
        checks.wrong("columns.publisher_subscribes_all", message);
    }
}
