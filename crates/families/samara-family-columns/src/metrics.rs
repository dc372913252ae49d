//! The metrics and tables of a run with blocks of columns. `docs/results.md` lists the metrics.

use std::collections::BTreeMap;

use crate::section::Columns;
use samara_gossipsub::partial::ethereum::PART_BYTES;
use samara_scenario::Point;
use samara_sim::HostStats;
use serde::Serialize;

use super::bound::{CurveBound, quantile};
use super::course::{ColumnsMeasured, upgraded};
use super::measure::{Collector, CopyRow, Delivery};
use super::torture;
use samara_lab::metric::groups::{Deliveries, Losses, NodeBytes, Shares};
use samara_lab::metrics;
use samara_lab::network::Hosts;
use samara_lab::results::columns::column;
use samara_lab::results::tables::{self, Table, traffic};
use samara_lab::results::{ByClass, Measured, Outcome, ratio};
use samara_lab::statistics::{Statistics, percentile};

metrics! {
    /// The figures of a run. Shares range from 0 to 1. Unless the name says otherwise, means are
    /// over all nodes except the publisher and hostile ones.
    pub struct ColumnMetrics of ColumnsData {
        /// Time from the publication until a node has its columns, over nodes and slots: all of them,
        /// or as many as `columns.custody_needed` demands. It
        /// excludes the publisher, its observer, hostile nodes, and incomplete nodes: with incomplete
        /// nodes, all five values are those of the fastest nodes only.
        pub time_to_custody_ms: Option<Statistics> = "ms", Less, ["mean", "p95", "max"];
        /// Time from the publication to the first copy of a column at a node.
        pub delivery_latency_ms: Option<Statistics> = "ms", Less, ["mean", "p50", "p95", "p99"];
        /// Time from the publication until the last node has its last column.
        pub dissemination_ms: Option<f64> = "ms", Less, ["", "mean", "p99"];
        /// Time between the first and the last node that had one of its columns (`k1`), two of them
        /// (`k2`), and so on; and the largest of these times before the last column
        /// (`before_last`). Columns count in the order in which a node receives them. Means over
        /// slots.
        pub custody_spread_ms: BTreeMap<String, f64> = "ms", Less, [];
        /// The same between the 1st and the 99th percentile of nodes.
        pub custody_spread_p1_p99_ms: BTreeMap<String, f64> = "ms", Less, [];
        /// Time until a node has `all` its columns, all but one (`all_but_1`), and all but two
        /// (`all_but_2`), over nodes and slots: the tail that a node cuts if it needs only so many.
        pub custody_tail_ms: CustodyTail = "ms", Less, [];
        /// Time from the first to the last first copy of a column, over columns and slots: how long a
        /// column spreads once it has left the publisher.
        pub column_spread_ms: Option<Statistics> = "ms", Less, [];
        /// Nodes, counted once per slot, that did not receive all their columns before the
        /// deadline.
        pub incomplete: u64 = "nodes", Less, [""];
        /// Nodes that had all their columns before the deadline, as a share of the nodes that
        /// waited, over all slots.
        pub share_by_deadline: f64 = "share", More, [];
        /// Bytes of pieces that a node received until the last node was done, over those of one copy
        /// of the payload; the mean over all nodes, with `columns.pieces`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub payload_copies: Option<f64> = "", Less, [""];
        /// Most hops of any first copy: the longest path (LDH as the program of the 2019 study computes it).
        pub last_delivery_hop: u32 = "hops", Less, ["", "mean"];
        /// A lower bound of the mean time to custody over all nodes; see bounds.md.
        pub lower_bound_ms: f64 = "ms", Neither, [];
        /// The lower bound as a share of the mean time to custody; 1 is optimal. No value if a node
        /// is incomplete.
        pub share_of_bound: Option<f64> = "share", More, [""];
        /// Lower bounds of the time to custody: of its mean, of percentiles over all nodes, and of the
        /// last node; see bounds.md.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub custody_bound_ms: Option<CurveBound> = "ms", Neither, [];
        /// The median of the time to custody over all nodes, as a multiple of its bound; 1 is optimal.
        /// No value if half of the nodes are incomplete.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub p50_over_bound: Option<f64> = "", Less, [];
        /// The same for the 99th percentile.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub p99_over_bound: Option<f64> = "", Less, [];
        /// The same for the last node.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub last_over_bound: Option<f64> = "", Less, [];
        /// Bytes that the publisher sent.
        pub publisher_bytes_up: u64 = "bytes", Less, [];
        /// Copies that other nodes sent back to the publisher.
        pub publisher_copies_returned: u64 = "copies", Less, [];
        /// Repairs of nodes, if `columns.repair` is set: `blocks` counts nodes once per slot,
        /// `columns` the columns and rows that they kept and lacked, `published` those that they
        /// published.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub repair: Option<Repairs> = "", Neither, [];
        /// The exchange of cells, if `columns.cells` is set.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub cells: Option<CellMetrics> = "", Neither, [];
        /// Copies that did not fit into a node's queues.
        pub queue_drops: u64 = "copies", Less, [""];
        /// Copies withdrawn before they left: because of IDONTWANT, because the peer has the
        /// message, or because its link has closed.
        pub withdrawn_copies: u64 = "copies", Neither, [];
        /// Frames that lacked a fragment at their receiver, with datagrams.
        pub frames_lost: u64 = "frames", Less, [""];
        /// Share of the time until the last first copy in which the publisher's uplink was busy.
        pub publisher_uplink_utilisation: f64 = "share", Neither, [];
        /// Share of the time until the last first copy in which an uplink was busy; the mean over
        /// nodes.
        pub uplink_utilisation: f64 = "share", Neither, [""];
        /// Payload of a node's columns over its time to custody; the mean over nodes and slots.
        pub throughput_mb_per_s: Option<f64> = "10^6 bytes/s", More, [""];
        /// The longest time that any node waited between two of its columns of a slot.
        pub longest_gap_ms: Option<f64> = "ms", Less, [""];
        /// The mean size of a mesh when the first block was published.
        pub mesh_size: f64 = "peers", Neither, [];
        /// Per slot: `time_to_custody_ms`, `incomplete`, and `publisher_window_packets`, the mean
        /// congestion window of the publisher's links at the publication.
        pub slots: Vec<Slot> = "", Neither, [];
    } with {
        pub deliveries: Deliveries,
        pub bytes: NodeBytes,
        pub shares: Shares,
        pub losses: Losses,
    }
}

/// The time until a node has all its columns, or all but a few.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CustodyTail {
    pub all: Option<Statistics>,
    pub all_but_1: Option<Statistics>,
    pub all_but_2: Option<Statistics>,
}

/// The exchange of cells.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellMetrics {
    /// Cells of its columns that a node lacked after it had looked up its mempool; the mean over nodes
    /// and slots.
    pub missing_per_node: f64,
    /// Columns that the mempools completed, as a share of all.
    pub local_share: f64,
    /// Cells received for each missing cell; 1 is optimal.
    pub copies_per_missing: f64,
    /// Headers received by a node; the mean over nodes and slots.
    pub headers_per_node: f64,
    /// Messages with metadata received by a node; the mean over nodes and slots.
    pub metadata_per_node: f64,
    /// The nodes that exchange cells.
    pub upgraded: CellNodes,
    /// The nodes that know only whole columns.
    pub old: CellNodes,
}

/// The nodes that exchange cells, or the others; without the publisher.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellNodes {
    /// Mean time to custody, in milliseconds.
    pub time_to_custody_ms: Option<f64>,
    /// Bytes on the wire that a node received; the mean.
    pub bytes_down_per_node: Option<f64>,
}

impl CellNodes {
    fn of(measured: &ColumnsMeasured, is_member: impl Fn(u32) -> bool) -> Self {
        let custody = (0..).zip(&measured.published);
        let custody = custody.flat_map(|(slot, published)| measured.collector.custody_ms(slot, *published));
        let times: Vec<f64> =
            custody.filter(|(host, _)| is_member(*host)).filter_map(|(_, time)| time).collect();
        let traffic = (0..).zip(&measured.traffic).zip(measured.collector.counts());
        let bytes: Vec<f64> = traffic
            .filter(|((host, _), counts)| **counts && is_member(*host))
            .map(|((_, stats), _)| stats.received.bytes as f64)
            .collect();
        let mean = |values: &[f64]| Statistics::of(values).map(|values| values.mean);
        Self { time_to_custody_ms: mean(&times), bytes_down_per_node: mean(&bytes) }
    }
}

impl CellMetrics {
    fn of(measured: &ColumnsMeasured, upgraded: &[bool]) -> Self {
        let of = |kind: bool| CellNodes::of(measured, |host| upgraded.get(host as usize) == Some(&kind));
        let [missing, local, received, headers, metadata] = measured.cells.map(|count| count as f64);
        let slots = measured.published.len() as f64;
        let counted = measured.collector.counts().iter().filter(|counts| **counts).count();
        let nodes = counted.max(1) as f64 * slots;
        Self {
            missing_per_node: missing / nodes,
            local_share: ratio(local, measured.collector.deliveries().len() as f64),
            copies_per_missing: ratio(received, missing),
            headers_per_node: headers / nodes,
            metadata_per_node: metadata / nodes,
            upgraded: of(true),
            old: of(false),
        }
    }
}

/// Counts of repairs by erasure coding.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Repairs {
    pub blocks: u64,
    pub columns: u64,
    pub published: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Slot {
    /// Time from the publication until a node has all its columns.
    pub time_to_custody_ms: Option<Statistics>,
    /// Number of nodes that did not receive all their columns.
    pub incomplete: u64,
    /// Mean congestion window of the publisher's links at the publication, in packets.
    pub publisher_window_packets: f64,
}

fn column_metrics(measured: &ColumnsMeasured) -> ColumnMetrics {
    let deliveries = measured.collector.deliveries();
    let since = |at: u64, slot: u32| (at - measured.published[slot as usize]) as f64 / 1e6;
    let latencies: Vec<f64> = deliveries
        .iter()
        .filter(|delivery| delivery.delivered())
        .map(|delivery| since(delivery.at, delivery.slot))
        .collect();
    let (mut custody, mut incomplete, mut slots) = (Vec::new(), 0, Vec::new());
    for (slot, published) in (0..).zip(&measured.published) {
        let times = measured.collector.custody_ms(slot, *published);
        let complete: Vec<f64> = times.iter().filter_map(|(_, time)| *time).collect();
        let missing = (times.len() - complete.len()) as u64;
        incomplete += missing;
        slots.push(Slot {
            time_to_custody_ms: Statistics::of(&complete),
            incomplete: missing,
            publisher_window_packets: measured.publisher_windows.get(slot as usize).copied().unwrap_or(0.0),
        });
        custody.extend(complete);
    }
    let time_to_custody = Statistics::of(&custody);
    custody.sort_unstable_by(f64::total_cmp);
    let over_bound = |q: f64| {
        let found = quantile(&custody, custody.len() + incomplete as usize, q)?;
        Some(found / measured.curve.quantile(q)).filter(|over| over.is_finite())
    };
    let delivered = latencies.len();
    let copies: u64 = deliveries.iter().map(|delivery| u64::from(delivery.copies)).sum();
    let dissemination = latencies.iter().copied().reduce(f64::max);
    let scenario = &measured.point.scenario;
    let workload = scenario.part::<Columns>();
    let publisher = workload.publisher as usize;
    let counted = measured.traffic.iter().zip(measured.collector.counts()).filter(|(_, counts)| **counts);
    let others: Vec<&HostStats> = counted.map(|(stats, _)| stats).collect();
    let count = others.len().max(1) as f64;
    let sum = |value: fn(&HostStats) -> u64| others.iter().map(|stats| value(stats) as f64).sum::<f64>();
    let down = sum(|stats| stats.received.bytes);
    let bytes = workload.segment_bytes();
    let arrived = deliveries.iter().filter(|delivery| delivery.copies > 0);
    let upgraded = upgraded(workload, scenario.network.nodes, measured.point.seed);
    let in_cells =
        |delivery: &Delivery| upgraded.as_ref().is_some_and(|upgraded| upgraded[delivery.host as usize]);
    let whole = arrived.filter(|delivery| !in_cells(delivery));
    let whole = whole.map(|delivery| bytes[delivery.segment as usize] as f64).sum::<f64>();
    // A node that exchanges cells needs those that it lacks. It may still receive whole columns.
    let all_payload = sum(|stats| stats.frames_received.payload_bytes);
    let payload = (whole + measured.cells[0] as f64 * PART_BYTES as f64).min(all_payload);
    let spreading = spreading_ms(measured);
    let (throughput, longest_gap) = flow(measured);
    let steps = Steps::of(measured);
    let Collector { repairs, rebuilt, republished, .. } = measured.collector;
    let repairs = Repairs { blocks: repairs, columns: rebuilt, published: republished };
    let busy = |stats: &HostStats| ratio(stats.uplink_busy_nanos as f64 / 1e6, spreading).min(1.0);
    ColumnMetrics {
        time_to_custody_ms: time_to_custody,
        delivery_latency_ms: Statistics::of(&latencies),
        dissemination_ms: dissemination,
        custody_spread_ms: steps.spread(0.0),
        custody_spread_p1_p99_ms: steps.spread(0.01),
        custody_tail_ms: steps.tail(),
        column_spread_ms: column_spread(measured),
        incomplete,
        share_by_deadline: ratio(custody.len() as f64, (custody.len() as u64 + incomplete) as f64),
        payload_copies: payload_copies(measured),
        last_delivery_hop: deliveries.iter().map(|delivery| u32::from(delivery.hops)).max().unwrap_or(0),
        lower_bound_ms: measured.lower_bound_ms,
        share_of_bound: time_to_custody
            .filter(|_| incomplete == 0)
            .map(|custody| ratio(measured.lower_bound_ms, custody.mean)),
        custody_bound_ms: CurveBound::of(&measured.curve, measured.lower_bound_ms),
        p50_over_bound: over_bound(0.5),
        p99_over_bound: over_bound(0.99),
        last_over_bound: over_bound(1.0),
        publisher_bytes_up: measured.traffic[publisher].sent.bytes,
        publisher_copies_returned: measured.collector.returned,
        repair: workload.repair.is_some().then_some(repairs),
        cells: upgraded.as_ref().map(|upgraded| CellMetrics::of(measured, upgraded)),
        queue_drops: measured.collector.queue_drops,
        withdrawn_copies: measured.withdrawn,
        frames_lost: measured.traffic.iter().map(|stats| stats.frames_lost).sum(),
        publisher_uplink_utilisation: busy(&measured.traffic[publisher]),
        uplink_utilisation: others.iter().map(|stats| busy(stats)).sum::<f64>() / count,
        throughput_mb_per_s: throughput,
        longest_gap_ms: longest_gap,
        mesh_size: measured.mesh_size,
        slots,
        deliveries: Deliveries::of(delivered as f64, deliveries.len() as f64, copies as f64),
        bytes: NodeBytes::of(others.iter().copied()),
        shares: Shares::of(payload, all_payload - payload, down),
        losses: Losses::of(&measured.traffic),
    }
}

/// Returns the time in which columns spread, summed over slots: utilisation is over this time.
fn spreading_ms(measured: &ColumnsMeasured) -> f64 {
    let deliveries = measured.collector.deliveries();
    let of_slot = |(slot, published): (u32, &u64)| {
        let of_slot = deliveries.iter().filter(|delivery| delivery.slot == slot && delivery.delivered());
        of_slot.map(|delivery| (delivery.at - published) as f64 / 1e6).fold(0.0, f64::max)
    };
    (0..).zip(&measured.published).map(of_slot).sum()
}

/// Computes the metrics that come from single nodes for each class of nodes.
fn by_class(measured: &ColumnsMeasured, custody_ms: &[Vec<(u32, Option<f64>)>]) -> ByClass {
    let waiting = || custody_ms.iter().flatten().copied();
    let deliveries = measured.collector.deliveries();
    let latency = |delivery: &Delivery| {
        let published = measured.published[delivery.slot as usize];
        delivery.delivered().then(|| (delivery.host, (delivery.at - published) as f64 / 1e6))
    };
    let latencies = || deliveries.iter().filter_map(latency);
    let of_deliveries = |value: fn(&Delivery) -> (f64, f64)| {
        deliveries.iter().map(move |delivery| (delivery.host, value(delivery).0, value(delivery).1))
    };
    let arrived = |delivery: &Delivery| f64::from(u8::from(delivery.delivered()));
    let counts = |node: u32| measured.collector.counts()[node as usize];
    ByClass::of(&measured.point, &measured.hosts)
        .distribution("time_to_custody_ms", waiting().filter_map(|(node, ms)| Some((node, ms?))))
        .distribution("delivery_latency_ms", latencies())
        .max("dissemination_ms", latencies())
        .sum("incomplete", waiting().map(|(node, ms)| (node, ms.is_none().into())))
        .mean("share_by_deadline", waiting().map(|(node, ms)| (node, f64::from(u8::from(ms.is_some())))))
        .mean("delivery_ratio", deliveries.iter().map(|delivery| (delivery.host, arrived(delivery))))
        .ratio(
            "duplication_factor",
            of_deliveries(|delivery| (delivery.copies.into(), f64::from(u8::from(delivery.delivered())))),
        )
        .bytes(&measured.traffic, counts)
        .uplinks(&measured.traffic, (spreading_ms(measured) * 1e6) as u64, counts)
}

/// Computes [`ColumnMetrics::column_spread_ms`].
fn column_spread(measured: &ColumnsMeasured) -> Option<Statistics> {
    let mut ends: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
    for delivery in measured.collector.deliveries().iter().filter(|delivery| delivery.delivered()) {
        let (first, last) = ends.entry((delivery.slot, delivery.segment)).or_insert((u64::MAX, 0));
        (*first, *last) = ((*first).min(delivery.at), (*last).max(delivery.at));
    }
    Statistics::of(&ends.values().map(|(first, last)| (last - first) as f64 / 1e6).collect::<Vec<f64>>())
}

/// For each slot and each number of columns from one on, the sorted times in milliseconds at which
/// nodes had so many of their columns. It ends with the custody of the node that keeps the fewest.
struct Steps(Vec<Vec<Vec<f64>>>);

impl Steps {
    fn of(measured: &ColumnsMeasured) -> Self {
        let slot = |(slot, published): (u32, &u64)| {
            let hosts: Vec<Vec<u64>> = measured.collector.arrivals(slot).map(|(_, times)| times).collect();
            let least = hosts.iter().map(Vec::len).min().unwrap_or(0);
            let step = |step: usize| {
                let arrived = hosts.iter().map(|times| times[step]).filter(|at| *at != u64::MAX);
                let mut times: Vec<f64> = arrived.map(|at| (at - published) as f64 / 1e6).collect();
                times.sort_unstable_by(f64::total_cmp);
                times
            };
            (0..least).map(step).collect()
        };
        Self((0..).zip(&measured.published).map(slot).collect())
    }

    fn count(&self) -> usize {
        self.0.first().map_or(0, Vec::len)
    }

    fn all(&self, step: usize) -> impl Iterator<Item = &Vec<f64>> {
        self.0.iter().map(move |slot| &slot[step]).filter(|times| !times.is_empty())
    }

    /// Returns the distance between two percentiles at each step, without a share of the nodes at
    /// either end.
    fn spread(&self, share: f64) -> BTreeMap<String, f64> {
        let width = |times: &Vec<f64>| percentile(times, 1.0 - share) - percentile(times, share);
        let mut spreads = BTreeMap::new();
        let mut before_last = None;
        for step in 0..self.count() {
            let widths: Vec<f64> = self.all(step).map(width).collect();
            if widths.is_empty() {
                break;
            }
            let mean = widths.iter().sum::<f64>() / widths.len() as f64;
            spreads.insert(format!("k{}", step + 1), mean);
            if step + 1 < self.count() {
                before_last = Some(before_last.map_or(mean, |most: f64| most.max(mean)));
            }
        }
        spreads.extend(before_last.map(|most| ("before_last".to_owned(), most)));
        spreads
    }

    fn tail(&self) -> CustodyTail {
        let but = |few: usize| {
            let step = self.count().checked_sub(few + 1)?;
            Statistics::of(&self.all(step).flatten().copied().collect::<Vec<f64>>())
        };
        CustodyTail { all: but(0), all_but_1: but(1), all_but_2: but(2) }
    }
}

/// Computes [`ColumnMetrics::payload_copies`].
fn payload_copies(measured: &ColumnsMeasured) -> Option<f64> {
    let workload: &Columns = measured.point.scenario.part();
    let payload = workload.payload_bytes()?;
    let (bytes, segments) = (workload.segment_bytes(), workload.segments());
    let mut last: Vec<u64> = measured.published.clone();
    for (slot, published) in (0..).zip(&measured.published) {
        let times = measured.collector.custody_ms(slot, *published);
        // Without an end, all copies count.
        let end = times.iter().map(|(_, time)| time.unwrap_or(f64::INFINITY)).fold(0.0, f64::max);
        last[slot as usize] = (*published as f64 + end * 1e6).ceil() as u64;
    }
    let counts = |row: &&CopyRow| row.at <= last[(row.segment / segments) as usize];
    let of = |row: &CopyRow| bytes[(row.segment % segments) as usize];
    let received: u64 = measured.collector.copies.iter().filter(counts).map(of).sum();
    let nodes = u64::from(measured.point.scenario.network.nodes) * measured.published.len() as u64;
    Some(ratio(received as f64, (nodes * payload) as f64))
}

/// Computes [`ColumnMetrics::throughput_mb_per_s`] and [`ColumnMetrics::longest_gap_ms`].
fn flow(measured: &ColumnsMeasured) -> (Option<f64>, Option<f64>) {
    let bytes = measured.point.scenario.part::<Columns>().segment_bytes();
    let (mut rates, mut longest) = (Vec::new(), None::<u64>);
    for block in measured.collector.blocks() {
        let mut times: Vec<u64> =
            block.iter().filter(|delivery| delivery.delivered()).map(|delivery| delivery.at).collect();
        times.sort_unstable();
        longest = longest.max(times.windows(2).map(|pair| pair[1] - pair[0]).max());
        if let Some(last) = times.last().filter(|_| times.len() == block.len()) {
            let nanos = (last - measured.published[block[0].slot as usize]).max(1) as f64;
            let bytes: u64 = block.iter().map(|delivery| bytes[delivery.segment as usize]).sum();
            rates.push(bytes as f64 / nanos * 1e3);
        }
    }
    let mean = (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64);
    (mean, longest.map(|nanos| nanos as f64 / 1e6))
}

/// The retained data of a run with blocks of columns.
#[derive(Clone, Debug)]
pub struct ColumnsData {
    pub metrics: ColumnMetrics,
    /// Publication time of each slot, in nanoseconds of the run.
    pub published: Vec<u64>,
    /// First copies, with the counts of later copies.
    pub deliveries: Vec<Delivery>,
    /// For each slot and host, the time to custody in milliseconds; `None` for incomplete hosts.
    pub custody_ms: Vec<Vec<(u32, Option<f64>)>>,
    /// Lower bounds of the sorted times to custody in milliseconds; empty for real nodes.
    pub bounds_ms: Vec<f64>,
    /// The names of regions, and the region of each host; both empty without regions.
    pub regions: (Vec<String>, Vec<u16>),
}

impl Measured for ColumnsMeasured {
    fn setting(&self) -> (&Point, &Hosts) {
        (&self.point, &self.hosts)
    }

    fn broken(&self) -> Vec<samara_lab::torture::Broken> {
        torture::broken(self)
    }

    fn outcome(&self) -> Outcome {
        let custody = |(slot, published): (u32, &u64)| self.collector.custody_ms(slot, *published);
        let data = ColumnsData {
            metrics: column_metrics(self),
            published: self.published.clone(),
            deliveries: self.collector.deliveries().to_vec(),
            custody_ms: (0..).zip(&self.published).map(custody).collect(),
            bounds_ms: self.curve.points().map(|(ms, _)| ms).collect(),
            regions: self.hosts.placed(),
        };
        let parameter = ("blobs", self.point.scenario.part::<Columns>().blobs.into());
        let is_incomplete = data.metrics.incomplete > 0;
        let by_class = by_class(self, &data.custody_ms);
        Outcome::new(&self.point, self.digest, parameter, data, is_incomplete).by_class(by_class)
    }

    fn tables<'a>(&'a self, outcome: &'a Outcome) -> Vec<Table<'a>> {
        let data: &ColumnsData = outcome.own();
        vec![
            Table::new("deliveries", data.deliveries.len(), || deliveries(data)),
            Table::new("copies", self.collector.copies.len(), || copies(self)),
            Table::new("traffic", self.traffic.len(), || {
                traffic(&self.traffic, &self.hosts, &self.point.scenario)
            }),
        ]
    }
}

fn deliveries(result: &ColumnsData) -> tables::Columns {
    let rows = &result.deliveries;
    let ms = |at: u64, slot: u32| (at - result.published[slot as usize]) as f64 / 1e6;
    let from = rows.iter().map(|row| row.delivered().then_some(row.from));
    vec![
        ("node", column(rows.iter().map(|row| row.host))),
        ("slot", column(rows.iter().map(|row| row.slot))),
        ("segment", column(rows.iter().map(|row| row.segment))),
        ("delivery_latency_ms", column(rows.iter().map(|row| row.delivered().then(|| ms(row.at, row.slot))))),
        ("from", column(from)),
        ("hops", column(rows.iter().map(|row| row.hops))),
        ("copies", column(rows.iter().map(|row| row.copies))),
        ("last_copy_ms", column(rows.iter().map(|row| row.delivered().then(|| ms(row.last_at, row.slot))))),
    ]
}

fn copies(measured: &ColumnsMeasured) -> tables::Columns {
    let (rows, segments) = (&measured.collector.copies, measured.point.scenario.part::<Columns>().segments());
    let slot = |row: &CopyRow| row.segment / segments;
    let ms = |row: &CopyRow| (row.at as f64 - measured.published[slot(row) as usize] as f64) / 1e6;
    vec![
        ("at_ms", column(rows.iter().map(ms))),
        ("node", column(rows.iter().map(|row| row.host))),
        ("from", column(rows.iter().map(|row| row.from))),
        ("slot", column(rows.iter().map(slot))),
        ("segment", column(rows.iter().map(|row| row.segment % segments))),
        ("first", column(rows.iter().map(|row| row.first))),
    ]
}
