//! The figures of a stream of messages, with the names that `docs/results.md` defines.

use samara_sim::HostStats;
use serde::Serialize;

use crate::results::{PacketDrops, packet_drops, ratio};
use crate::run::MessagesMeasured;
use crate::statistics::Statistics;

/// The figures of a run. Shares are of 1; means are over all nodes unless the name says otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MessageMetrics {
    /// Messages that were published.
    pub messages: u64,
    /// From the publication of a message to its last delivery ("TotalNanoTime"), over those that reached everybody.
    pub dissemination_ms: Option<Statistics>,
    /// From the publication of a message to its delivery at a node.
    pub delivery_latency_ms: Option<Statistics>,
    /// Messages that did not reach everybody.
    pub incomplete: u64,
    /// The part of messages that reached everybody (MDR, as the study counts it).
    pub message_delivery_ratio: f64,
    /// Deliveries, of those that were to happen: each message at each other node.
    pub delivery_ratio: f64,
    /// The hops of a message's last delivery (LDH), over messages that reached everybody.
    pub last_delivery_hop: Option<Statistics>,
    /// Copies received for each delivery, the first included.
    pub duplication_factor: f64,
    /// Copies received more than were needed, for each that was needed (RMR).
    pub relative_redundancy: f64,
    /// Copies sent because somebody had asked for them: deliveries that gossip saved, or copies too many.
    pub answered_copies: u64,
    /// The mean over messages of the least time in which they can reach everybody: hops to the farthest node.
    pub lower_bound_ms: f64,
    /// The lower bound, as a share of the mean dissemination time: 1 is optimal.
    pub share_of_bound: Option<f64>,
    /// Bytes on the wire that a node sent, headers included.
    pub bytes_up_per_node: f64,
    /// Bytes on the wire that a node received.
    pub bytes_down_per_node: f64,
    /// The part of the received bytes that was needed: payload of first copies.
    pub payload_share: f64,
    /// The part of the received bytes that was payload of further copies.
    pub duplicate_share: f64,
    /// The rest: control messages, framing, headers, acknowledgements.
    pub control_share: f64,
    /// Payload that a node received and needed, in 10^6 bytes a second of the measurement.
    pub throughput_mb_per_s: f64,
    /// Copies that did not fit into a node's queues.
    pub queue_drops: u64,
    /// Copies that were taken back before they left.
    pub withdrawn_copies: u64,
    /// Packets lost, by cause, over all hosts.
    pub packet_drops: PacketDrops,
    /// Packets sent again by the transport.
    pub retransmissions: u64,
    /// Between two publications, of all nodes together.
    pub publish_interval_ms: Option<Statistics>,
    /// Between two deliveries at a node.
    pub inter_arrival_ms: Option<Statistics>,
    /// The part of the time in which a node's uplink was busy.
    pub uplink_utilisation: f64,
    /// The same, of the node whose uplink was busiest.
    pub uplink_utilisation_max: f64,
    /// The mean size of a mesh when the first message was published.
    pub mesh_size: f64,
}

/// Computes the figures of a run.
pub fn message_metrics(measured: &MessagesMeasured) -> MessageMetrics {
    let collector = &measured.collector;
    let others = measured.point.scenario.network.nodes - 1;
    let rows = collector.rows();
    let complete = || rows.iter().filter(|row| row.delivered == others);
    let times: Vec<f64> = complete().map(|row| row.dissemination_ms()).collect();
    let hops: Vec<f64> = complete().map(|row| f64::from(row.last_hop)).collect();
    // One that failed to be published is incomplete, and has no time.
    let published: Vec<u64> = rows.iter().map(|row| row.published).filter(|at| *at != u64::MAX).collect();
    let intervals: Vec<f64> =
        published.windows(2).map(|pair| pair[1].saturating_sub(pair[0]) as f64 / 1e6).collect();
    let bounds = rows.iter().map(|row| measured.lower_bound_ms[row.publisher as usize]);
    let lower_bound_ms = ratio(bounds.sum(), rows.len() as f64);
    let delivered: u64 = rows.iter().map(|row| u64::from(row.delivered)).sum();
    let duplicates: u64 = measured.counts.iter().map(|counts| counts.duplicates).sum();
    let nodes = measured.traffic.len() as f64;
    let sum = |value: fn(&HostStats) -> u64| measured.traffic.iter().map(value).sum::<u64>() as f64;
    let down = sum(|stats| stats.received.bytes);
    let payloads = rows.iter().zip(&measured.sizes).map(|(row, size)| u64::from(row.delivered) * size);
    let payload = payloads.sum::<u64>() as f64;
    let duplicate_payload = (sum(|stats| stats.frames_received.payload_bytes) - payload).max(0.0);
    let busy =
        |stats: &HostStats| ratio(stats.uplink_busy_nanos as f64, measured.measured_nanos as f64).min(1.0);
    let dissemination = Statistics::of(&times);
    MessageMetrics {
        messages: rows.len() as u64,
        dissemination_ms: dissemination,
        delivery_latency_ms: collector.latency().statistics_ms(),
        incomplete: (rows.len() - times.len()) as u64,
        message_delivery_ratio: ratio(times.len() as f64, rows.len() as f64),
        delivery_ratio: ratio(delivered as f64, rows.len() as f64 * f64::from(others)),
        last_delivery_hop: Statistics::of(&hops),
        duplication_factor: ratio((delivered + duplicates) as f64, delivered as f64),
        relative_redundancy: ratio(duplicates as f64, delivered as f64),
        answered_copies: measured.counts.iter().map(|counts| counts.answered).sum(),
        lower_bound_ms,
        share_of_bound: dissemination.map(|times| ratio(lower_bound_ms, times.mean)),
        bytes_up_per_node: sum(|stats| stats.sent.bytes) / nodes,
        bytes_down_per_node: down / nodes,
        payload_share: ratio(payload, down),
        duplicate_share: ratio(duplicate_payload, down),
        control_share: (1.0 - ratio(payload + duplicate_payload, down)).max(0.0),
        throughput_mb_per_s: ratio(payload / nodes, measured.measured_nanos as f64) * 1e3,
        queue_drops: measured.lost.values().sum(),
        withdrawn_copies: measured.withdrawn,
        packet_drops: packet_drops(&measured.traffic),
        retransmissions: sum(|stats| stats.retransmitted.packets) as u64,
        publish_interval_ms: Statistics::of(&intervals),
        inter_arrival_ms: collector.inter_arrival().statistics_ms(),
        uplink_utilisation: measured.traffic.iter().map(busy).sum::<f64>() / nodes,
        uplink_utilisation_max: measured.traffic.iter().map(busy).fold(0.0, f64::max),
        mesh_size: measured.mesh_size,
    }
}
