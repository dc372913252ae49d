//! The metrics and tables of a stream of messages. `docs/results.md` lists the metrics.

use std::collections::BTreeMap;

use crate::section::Messages;
use samara_document::Inputs;
use samara_scenario::Point;
use samara_sim::HostStats;
use serde::Serialize;

use super::course::MessagesMeasured;
use super::measure::MessageRow;
use super::torture;
use samara_lab::metric::groups::{Deliveries, Losses, NodeBytes, Shares, Uplinks};
use samara_lab::metrics;
use samara_lab::network::{self, Hosts};
use samara_lab::results::columns::column;
use samara_lab::results::deliveries::{DELIVERIES, senders};
use samara_lab::results::tables::{Columns, Table, distribution, traffic};
use samara_lab::results::{ByClass, Measured, Outcome, Spread, ratio};
use samara_lab::statistics::Statistics;

metrics! {
    /// The figures of a run. Shares range from 0 to 1. Unless the name says otherwise, means are
    /// over all nodes.
    pub struct MessageMetrics of MessagesData {
        /// Messages that were published.
        pub messages: u64 = "messages", Neither, [];
        /// Time from the publication of a message to its last delivery, over messages that reached
        /// every node ("TotalNanoTime").
        pub dissemination_ms: Option<Statistics> = "ms", Less, ["mean", "p99"];
        /// Positions of the first local maxima in the histogram of these times, in bins of 5 ms: the
        /// highest bin within 40 ms on either side, with a thousandth of the messages or more. Absent with
        /// fewer than 1,000 messages.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub dissemination_peaks_ms: Option<Peaks<f64>> = "ms", Neither, [];
        /// Messages in the bins of these maxima.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub dissemination_peaks: Option<Peaks<usize>> = "messages", Neither, [];
        /// Time from the publication of a message to its delivery at a node; percentiles to three
        /// digits.
        pub delivery_latency_ms: Option<Statistics> = "ms", Less, ["mean", "p50", "p95", "p99"];
        /// Messages that did not reach every node.
        pub incomplete: u64 = "messages", Less, [""];
        /// Messages that reached every node, as a share (MDR in the 2019 study).
        pub message_delivery_ratio: f64 = "share", More, [""];
        /// Hops of the delivery of a message that came last, over messages that reached every node (LDH as the
        /// 2019 study describes it).
        pub last_delivery_hop: Option<Statistics> = "hops", Less, ["mean"];
        /// Copies sent in answer to a request.
        pub answered_copies: u64 = "copies", Neither, [];
        /// Bytes of frames besides payloads that a node sent: control messages (IHAVE, IWANT, IDONTWANT,
        /// GRAFT, PRUNE) and the fields of messages, without headers of packets; the mean over nodes.
        pub control_bytes_up_per_node: f64 = "bytes", Less, [];
        /// Mean over messages of the hops to the farthest node, each with the least latency and the
        /// time of one frame.
        pub lower_bound_ms: f64 = "ms", Neither, [];
        /// Mean over messages of the least time to the farthest node: the shortest path over the links of
        /// the network, each with its own latency and rates; see bounds.md.
        pub dissemination_bound_ms: f64 = "ms", Neither, [];
        /// The same to a node, the mean over all others: a bound of the mean of `delivery_latency_ms` if
        /// all deliveries happen.
        pub delivery_bound_ms: f64 = "ms", Neither, [];
        /// The bound `dissemination_bound_ms`, as a share of the mean dissemination time, both over
        /// messages that reached every node: 1 is optimal.
        pub share_of_bound: Option<f64> = "share", More, [""];
        /// Payload of first copies that a node received, in 10^6 bytes per second of the
        /// measurement.
        pub throughput_mb_per_s: f64 = "10^6 bytes/s", More, [""];
        /// Copies that did not fit into a node's queues.
        pub queue_drops: u64 = "copies", Less, [""];
        /// Copies withdrawn before they left.
        pub withdrawn_copies: u64 = "copies", Neither, [];
        /// Time between two successive publications in the network.
        pub publish_interval_ms: Option<Statistics> = "ms", Neither, [];
        /// Time between two deliveries at a node.
        pub inter_arrival_ms: Option<Statistics> = "ms", Neither, [];
        /// Mean size of a mesh at the first publication.
        pub mesh_size: f64 = "peers", Neither, [];
    } with {
        pub deliveries: Deliveries,
        pub bytes: NodeBytes,
        pub shares: Shares,
        pub losses: Losses,
        pub uplinks: Uplinks,
    }
}

fn message_metrics(measured: &MessagesMeasured) -> MessageMetrics {
    let collector = &measured.collector;
    let others = measured.point.scenario.network.nodes - 1;
    let rows = &collector.rows;
    let complete = || rows.iter().filter(|row| row.delivered == others);
    let times: Vec<f64> = complete().map(|row| row.dissemination_ms()).collect();
    let hops: Vec<f64> = complete().map(|row| f64::from(row.last_hop)).collect();
    // An unpublished message is incomplete and has no time.
    let published: Vec<u64> = rows.iter().map(|row| row.published).filter(|at| *at != u64::MAX).collect();
    let intervals: Vec<f64> =
        published.windows(2).map(|pair| pair[1].saturating_sub(pair[0]) as f64 / 1e6).collect();
    let bound_of = |row: &MessageRow| measured.lower_bound_ms[row.publisher as usize];
    let lower_bound_ms = ratio(rows.iter().map(bound_of).sum(), rows.len() as f64);
    let path_of = |row: &MessageRow| measured.path_bounds_ms[&row.publisher];
    let path_mean = |value: fn((f64, f64)) -> f64| {
        ratio(rows.iter().map(|row| value(path_of(row))).sum(), rows.len() as f64)
    };
    let complete_bound_ms = ratio(complete().map(|row| path_of(row).0).sum(), times.len() as f64);
    let delivered: u64 = rows.iter().map(|row| u64::from(row.delivered)).sum();
    let duplicates: u64 = measured.counts.iter().map(|counts| counts.duplicates_received).sum();
    let nodes = measured.traffic.len() as f64;
    let sum = |value: fn(&HostStats) -> u64| measured.traffic.iter().map(value).sum::<u64>() as f64;
    let down = sum(|stats| stats.received.bytes);
    let payloads = rows.iter().zip(&measured.sizes).map(|(row, size)| u64::from(row.delivered) * size);
    let payload = payloads.sum::<u64>() as f64;
    let duplicate_payload = (sum(|stats| stats.frames_received.payload_bytes) - payload).max(0.0);
    let dissemination = Statistics::of(&times);
    let peaks = (times.len() >= 1000).then(|| peaks(&times));
    MessageMetrics {
        messages: rows.len() as u64,
        dissemination_ms: dissemination,
        dissemination_peaks_ms: peaks.as_ref().map(|peaks| Peaks::of(peaks, |(ms, _)| *ms)),
        dissemination_peaks: peaks.as_ref().map(|peaks| Peaks::of(peaks, |(_, messages)| *messages)),
        delivery_latency_ms: Statistics::of_durations(&collector.latency),
        incomplete: (rows.len() - times.len()) as u64,
        message_delivery_ratio: ratio(times.len() as f64, rows.len() as f64),
        last_delivery_hop: Statistics::of(&hops),
        answered_copies: measured.counts.iter().map(|counts| counts.answered_copies).sum(),
        control_bytes_up_per_node: sum(|stats| stats.frames_sent.control_bytes) / nodes,
        lower_bound_ms,
        dissemination_bound_ms: path_mean(|(farthest, _)| farthest),
        delivery_bound_ms: path_mean(|(_, mean)| mean),
        share_of_bound: dissemination.map(|times| ratio(complete_bound_ms, times.mean)),
        throughput_mb_per_s: ratio(payload / nodes, measured.measured_nanos as f64) * 1e3,
        queue_drops: collector.lost.values().sum(),
        withdrawn_copies: measured.withdrawn,
        publish_interval_ms: Statistics::of(&intervals),
        inter_arrival_ms: Statistics::of_durations(&collector.inter_arrival),
        mesh_size: measured.mesh_size,
        deliveries: Deliveries::of(
            delivered as f64,
            rows.len() as f64 * f64::from(others),
            (delivered + duplicates) as f64,
        ),
        bytes: NodeBytes::of(measured.traffic.iter()),
        shares: Shares::of(payload, duplicate_payload, down),
        losses: Losses::of(&measured.traffic),
        uplinks: Uplinks::of(&measured.traffic, measured.measured_nanos),
    }
}

/// Computes the metrics that come from single nodes for each class of nodes.
fn by_class(measured: &MessagesMeasured) -> ByClass {
    let (collector, all) = (&measured.collector, measured.collector.rows.len() as f64);
    let mut expected = vec![all; collector.delivered.len()];
    collector.rows.iter().for_each(|row| expected[row.publisher as usize] -= 1.0);
    let delivered = || (0..).zip(collector.delivered.iter().map(|count| *count as f64));
    let copies = delivered()
        .zip(&measured.counts)
        .map(|((node, delivered), counts)| (node, delivered + counts.duplicates_received as f64, delivered));
    ByClass::of(&measured.point, &measured.hosts)
        .deliveries("delivery_latency_ms", &collector.deliveries, |_| true)
        .ratio("delivery_ratio", delivered().zip(expected).map(|((node, had), all)| (node, had, all)))
        .ratio("duplication_factor", copies)
        .sum("queue_drops", collector.lost.iter().map(|((node, _), copies)| (*node, *copies)))
        .bytes(&measured.traffic, |_| true)
        .uplinks(&measured.traffic, measured.measured_nanos, |_| true)
}

/// Values of the first four local maxima of a histogram, in order of time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Peaks<T> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub second: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub third: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fourth: Option<T>,
}

impl<T> Peaks<T> {
    fn of(peaks: &[(f64, usize)], value: impl Fn(&(f64, usize)) -> T) -> Self {
        let [first, second, third, fourth] = [0, 1, 2, 3].map(|at| peaks.get(at).map(&value));
        Self { first, second, third, fourth }
    }
}

/// Width of a bin. Those of the study's figures are chosen by NumPy ("auto") and are as wide.
const BIN_MS: f64 = 5.0;
/// A maximum is the highest bin among this many on either side. Lobes are further apart.
const BINS_AROUND: usize = 8;

/// Returns the local maxima of the histogram of these times: the mean time in the bin, and the number
/// of messages.
fn peaks(times: &[f64]) -> Vec<(f64, usize)> {
    // Times beyond the last bin are in the tail, where nobody looks for maxima.
    const BINS: usize = 2000;
    let mut bins = vec![(0.0, 0); BINS];
    for ms in times {
        if let Some((sum, messages)) = bins.get_mut((ms / BIN_MS) as usize) {
            (*sum, *messages) = (*sum + ms, *messages + 1);
        }
    }
    let is_peak = |at: &usize| {
        let around = at.saturating_sub(BINS_AROUND)..(at + BINS_AROUND + 1).min(BINS);
        // Of equal bins, the first one is the maximum.
        let higher =
            |other: usize| bins[other].1 > bins[*at].1 || (bins[other].1 == bins[*at].1 && other < *at);
        bins[*at].1 * 1000 >= times.len() && !around.into_iter().any(higher)
    };
    (0..BINS).filter(is_peak).map(|at| (bins[at].0 / bins[at].1 as f64, bins[at].1)).collect()
}

/// The retained data of a run with a stream of messages.
#[derive(Clone, Debug)]
pub struct MessagesData {
    pub metrics: MessageMetrics,
    pub messages: Vec<MessageRow>,
    /// Number of nodes that a message must reach: all except its publisher.
    pub others: u32,
    /// Milliseconds from publication to delivery, with the cumulative share of deliveries.
    pub latency: Vec<(f64, f64)>,
    /// Milliseconds between two deliveries at a node, with the cumulative share.
    pub inter_arrival: Vec<(f64, f64)>,
    /// Number of copies that did not fit into a queue, by node and peer.
    pub lost: BTreeMap<(u32, u32), u64>,
    /// Number of links of each node.
    pub degrees: Vec<u32>,
    /// The way of some messages.
    pub(crate) spread: Spread,
    /// The names of regions, and the region of each host; both empty without regions.
    pub regions: (Vec<String>, Vec<u16>),
}

impl Measured for MessagesMeasured {
    fn setting(&self) -> (&Point, &Hosts) {
        (&self.point, &self.hosts)
    }

    fn broken(&self) -> Vec<samara_lab::torture::Broken> {
        let Point { scenario, seed, .. } = &self.point;
        // A graph in a file is not at hand; nothing is promised then.
        let graph = network::graph(scenario, &Inputs::default(), *seed).ok();
        torture::broken(self, graph.as_ref().map(|(graph, _)| graph))
    }

    fn outcome(&self) -> Outcome {
        let data = MessagesData {
            metrics: message_metrics(self),
            messages: self.collector.rows.clone(),
            others: self.point.scenario.network.nodes - 1,
            latency: self.collector.latency.distribution_ms(),
            inter_arrival: self.collector.inter_arrival.distribution_ms(),
            lost: self.collector.lost.clone(),
            degrees: self.degrees.clone(),
            spread: self.collector.spread(&self.point),
            regions: self.hosts.placed(),
        };
        let messages = self.point.scenario.part::<Messages>();
        let parameter = ("messages_per_s", messages.rate.into());
        let remedy = match messages.file {
            Some(_) => "the messages of messages.file or network.nodes",
            None => "messages.duration or network.nodes",
        };
        let is_incomplete = data.metrics.incomplete > 0;
        Outcome::new(&self.point, self.digest, parameter, data, is_incomplete)
            .by_class(by_class(self))
            .without(DELIVERIES, self.collector.deliveries.absence(remedy))
    }

    fn tables<'a>(&'a self, outcome: &'a Outcome) -> Vec<Table<'a>> {
        let data: &MessagesData = outcome.own();
        let mut tables = vec![
            Table::new("messages", data.messages.len(), || message_rows(data)),
            distribution("delivery_latency", "delivery_latency_ms", &data.latency),
            distribution("inter_arrival", "inter_arrival_ms", &data.inter_arrival),
            Table::new("queue_drops", data.lost.len(), || {
                vec![
                    ("node", column(data.lost.keys().map(|(node, _)| *node))),
                    ("peer", column(data.lost.keys().map(|(_, peer)| *peer))),
                    ("copies", column(data.lost.values().copied())),
                ]
            }),
            Table::new("traffic", self.traffic.len(), || message_traffic(self)),
        ];
        tables.extend(self.collector.deliveries.table(|rows| {
            let message = ("message", column(rows.iter().map(|row| row.item)));
            let hops = ("hops", column(rows.iter().map(|row| row.detail as u16)));
            [vec![message], vec![senders(rows), hops]]
        }));
        tables
    }
}

fn message_traffic(measured: &MessagesMeasured) -> Columns {
    let nodes = || measured.counts.iter();
    let mut columns = traffic(&measured.traffic, &measured.hosts, &measured.point.scenario);
    columns.extend([
        ("links", column(measured.degrees.iter().copied())),
        ("delivered", column(measured.collector.delivered.iter().copied())),
        ("duplicates", column(nodes().map(|node| node.duplicates_received))),
        ("answered_copies", column(nodes().map(|node| node.answered_copies))),
    ]);
    columns
}

fn message_rows(result: &MessagesData) -> Columns {
    let rows = &result.messages;
    let first = rows.iter().map(|row| row.published).min().unwrap_or(0);
    let published = rows.iter().map(|row| row.published.saturating_sub(first) as f64 / 1e6);
    let complete = || rows.iter().map(|row| Some(row).filter(|row| row.delivered == result.others));
    let hops = complete().map(|row| row.map(|row| u32::from(row.last_hop)));
    vec![
        ("message", column(0..rows.len() as u32)),
        ("publisher", column(rows.iter().map(|row| row.publisher))),
        ("published_ms", column(published)),
        ("delivered", column(rows.iter().map(|row| row.delivered))),
        ("dissemination_ms", column(complete().map(|row| row.map(MessageRow::dissemination_ms)))),
        ("last_delivery_hop", column(hops)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_are_the_highest_bins_of_spikes_and_lobes() {
        let mut times = vec![6.0; 1000];
        // A triangular lobe with its maximum between 75 and 80 ms, and single messages later.
        for bin in 0..10_u32 {
            times.extend(vec![52.0 + 5.0 * f64::from(bin); 10 * (bin.min(10 - bin) as usize + 1)]);
        }
        times.extend([900.0]);
        let found = peaks(&times);
        assert_eq!(found, [(6.0, 1000), (77.0, 60)]);
        let ms = Peaks::of(&found, |(ms, _)| *ms);
        assert_eq!((ms.first, ms.second, ms.third), (Some(6.0), Some(77.0), None));
    }
}
