//! The metrics of transactions and their pools. `docs/results.md` lists them.

use std::collections::BTreeMap;

use crate::application::Header;
use crate::section::Transactions;
use samara_cat::pool::Cause;
use samara_cat::{CatFrame, FrameKind, Ignored};
use samara_engine::Frame;
use samara_sim::{ConnectionStats, Count, HostStats, SEALED_FRAME};
use serde::Serialize;

use crate::TransactionsMeasured;
use samara_lab::metric::groups::{Losses, NodeBytes, Uplinks};
use samara_lab::metrics;
use samara_lab::results::{packet_drops, ratio};
use samara_lab::statistics::Statistics;

metrics! {
    /// The figures of a run. Means and sums are over honest nodes. Figures per node and transaction
    /// are divided by both numbers, including origins, as in the measurements of the real pools.
    pub struct TransactionMetrics of super::outcome::PoolData {
        /// Transactions that were submitted.
        pub transactions: u64 = "transactions", Neither, [];
        /// Pairs of a valid transaction and an honest node that the transaction reached, as a share
        /// of the required pairs: nodes that run from its submission to its block.
        pub delivered_share: f64 = "share", More, [""];
        /// Share of these pairs in which a block brought the transaction before the pool had it.
        pub by_block_share: f64 = "share", Neither, [];
        /// Valid transactions that are in no block and did not reach every such node.
        pub incomplete: u64 = "transactions", Less, [""];
        /// Transactions that were lost because the only node that had them went down.
        pub lost_with_origin: u64 = "", Less, [];
        /// Time from the submission of a transaction until another node has it in its pool. It includes
        /// nodes that were down or joined in between, with the time in which they were down; see
        /// `node_down` of `samara explain`.
        pub delivery_latency_ms: Option<Statistics> = "ms", Less, ["mean", "p50", "p95", "p99"];
        /// Time from the submission of a transaction until the last node has it, over the `disseminated`
        /// transactions. Like the delivery latency, it includes the time in which nodes were down.
        pub dissemination_ms: Option<Statistics> = "ms", Less, ["mean", "p99"];
        /// Transactions that reached the pools of all honest nodes. A block or a fault can keep a
        /// transaction from a pool.
        pub disseminated: u64 = "transactions", More, [];
        /// These transactions, as a share of the valid ones.
        pub disseminated_share: f64 = "share", More, [""];
        /// Bodies received per node and transaction.
        pub duplication_factor: f64 = "", Less, [""];
        /// The least duplication factor of flooding on this graph: every link carries a transaction
        /// once (d/2).
        pub flood_least: f64 = "", Neither, [];
        /// The largest duplication factor of flooding on this graph: every link twice, except for a
        /// tree (d - 1 + 1/N).
        pub flood_most: f64 = "", Neither, [];
        /// The least possible duplication factor: every node except the origin receives a
        /// transaction once.
        pub ideal: f64 = "", Neither, [];
        /// `SuccessfulTxs`: transactions of committed blocks, over all nodes.
        pub successful_txs: u64 = "transactions", More, [];
        /// Bodies that their receiver had not requested from the sending peer.
        pub unrequested_bodies: u64 = "bodies", Neither, [];
        /// `AlreadySeenTxs`: bodies that were in the pool when they arrived.
        pub already_seen_txs: u64 = "transactions", Less, [];
        /// Bodies that were being checked, rejected or committed when they arrived;
        /// `already_seen_txs` does not count them.
        pub settled_duplicates: u64 = "bodies", Less, [];
        /// `RequestedTxs` of the ADR: first requests of a node for a transaction. The counter of
        /// celestia-core with that name includes the further ones.
        pub requested_txs: u64 = "requests", Neither, [];
        /// `RerequestedTxs`: requests of a node for a transaction after its first.
        pub rerequested_txs: u64 = "requests", Less, [];
        /// Requests that timed out.
        pub timeouts: u64 = "requests", Less, [];
        /// Requests that timed out before the usual response time of the peer.
        pub early_timeouts: u64 = "requests", Less, [];
        /// Announcements whose hint made their receiver wait for a push, per node and transaction.
        pub awaited_pushes: f64 = "keys", Neither, [];
        /// Waits for a push that ended without the transaction, per node and transaction.
        pub overdue_pushes: f64 = "keys", Less, [];
        /// Keys announced to a node, per transaction.
        pub seen_tx: f64 = "keys", Less, [""];
        /// Keys that a node requested, per transaction.
        pub want_tx: f64 = "keys", Less, [""];
        /// Rates on the wire from the first submission to the end of the run, both directions
        /// together: `mean`, standard deviation `sd`, `min` and `max` over nodes, and `cv`, the
        /// deviation relative to the mean.
        pub bandwidth_mb_per_s: NodeRates = "MB/s", Neither, [];
        /// The same of what nodes send.
        pub sent_mb_per_s: NodeRates = "MB/s", Neither, [];
        /// The same of what nodes receive.
        pub received_mb_per_s: NodeRates = "MB/s", Neither, [];
        /// Bytes received per node and transaction: `total`, first copies (`bodies`), further ones
        /// (`duplicates`), `announcements`, `requests`, `blocks`, `framing` and `sealing` of
        /// channels, and `headers` (including acknowledgements and retransmissions). Among hostile
        /// nodes, `framing` is an estimate and `sealing` is the remainder.
        pub bytes: TransactionBytes = "bytes", Less, [];
        /// Bytes on the wire over those of flooding: `bytes.total` over the bodies alone that flooding brings on
        /// this graph (`flood_most` times the bytes of a body). Above 1 for flooding itself, since the
        /// headers of its bodies do not count there.
        pub wire_over_flooding: Option<f64> = "", Less, [""];
        /// Bytes that connections carried per node and transaction: messages and the framing of
        /// their packets, as the real pools count them.
        pub connection_bytes: f64 = "bytes", Less, [""];
        /// Connection bytes of the scenario's first run, with equal sweep values and seed, relative
        /// to those of this run.
        pub bytes_saved_factor: Option<f64> = "", More, [""];
        /// Bodies received in the scenario's first run, with equal sweep values and seed, relative to
        /// those of this run.
        pub copies_saved_factor: Option<f64> = "", More, [];
        /// Flushes per node and transaction.
        pub flushes: f64 = "", Less, [];
        /// Blocks that were committed.
        pub blocks: u64 = "blocks", Neither, [];
        /// Transactions per block.
        pub block_txs: Option<Statistics> = "transactions", Neither, [];
        /// Bytes of transactions in blocks per second, from the first submission until clients stop.
        pub finalised_mb_per_s: Option<f64> = "MB/s", More, [];
        /// Bytes of transactions in these blocks, relative to their maximum size.
        pub block_fill: Option<f64> = "share", Neither, [];
        /// Time from the submission of a transaction to the commit of its block.
        pub time_to_inclusion_ms: Option<Statistics> = "ms", Less, ["mean"];
        /// Share of the transactions of compact blocks that nodes already had.
        pub compact_block_hit_rate: Option<f64> = "share", More, [];
        /// Time from the proposal of a compact block until a node has all its transactions.
        pub compact_block_ms: Option<Statistics> = "ms", Less, [];
        /// Compact blocks whose transactions did not reach a node in time.
        pub compact_blocks_given_up: u64 = "", Less, [];
        /// Transactions that pools evicted to make room for others.
        pub evicted_txs: u64 = "transactions", Less, [];
        /// Transactions that pools removed because of their age.
        pub expired_txs: u64 = "transactions", Less, [];
        /// Transactions that applications rejected.
        pub failed_txs: u64 = "transactions", Neither, [];
        /// Transactions that applications refused because an earlier one of their signer was missing,
        /// with `pool.signers`.
        pub out_of_order: u64 = "transactions", Less, [];
        /// Transactions that pools refused, by cause.
        pub refused: BTreeMap<&'static str, u64> = "", Neither, [];
        /// Frames and entries that were ignored, by cause.
        pub ignored: BTreeMap<&'static str, u64> = "", Neither, [];
        /// Violations of the protocol by peers, by kind.
        pub misbehaviour: BTreeMap<&'static str, u64> = "", Less, [];
        /// Number of times that a node had no peer left to request a transaction from.
        pub lost_txs: u64 = "transactions", Less, [];
        /// Requests for transactions that the requested node did not have.
        pub failed_responses: u64 = "", Less, [];
        /// Requested keys that peers reported as missing.
        pub not_found: u64 = "keys", Less, [];
        /// Bodies withdrawn before they left.
        pub withdrawn_bodies: u64 = "bodies", Neither, [];
        /// Frames dropped because a queue was full.
        pub queue_drops: u64 = "copies", Less, [""];
        /// The largest number of keys that an honest node remembered, sampled before each block.
        pub keys_max: u64 = "keys", Less, [];
        /// The largest number of requests that an honest node remembered, sampled before each
        /// block.
        pub requests_max: u64 = "requests", Less, [];
        /// The largest number of transactions in the pool of an honest node, sampled before each
        /// block.
        pub pool_txs_max: u64 = "", Neither, [];
    } with {
        pub node_bytes: NodeBytes,
        pub losses: Losses,
        pub uplinks: Uplinks,
    }
}

/// A rate of each node, in MB/s.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct NodeRates {
    pub mean: f64,
    /// The standard deviation over the nodes, which are the whole population.
    pub sd: f64,
    /// The standard deviation relative to the mean.
    pub cv: f64,
    pub min: f64,
    pub max: f64,
}

impl NodeRates {
    /// Computes the figures of bytes that each node transferred within `seconds`.
    fn of(bytes: impl Iterator<Item = u64>, seconds: f64) -> Self {
        let rates: Vec<f64> = bytes.map(|bytes| ratio(bytes as f64 / 1e6, seconds)).collect();
        let count = rates.len() as f64;
        let mean = ratio(rates.iter().sum::<f64>(), count);
        let squares: f64 = rates.iter().map(|rate| (rate - mean).powi(2)).sum();
        let sd = ratio(squares, count).sqrt();
        Self {
            mean,
            sd,
            cv: ratio(sd, mean),
            min: rates.iter().copied().reduce(f64::min).unwrap_or_default(),
            max: rates.iter().copied().fold(0.0, f64::max),
        }
    }
}

/// Bytes that a node received for each transaction, by purpose. They add up to the total.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TransactionBytes {
    /// All bytes, including headers.
    pub total: f64,
    /// First copies of transactions.
    pub bodies: f64,
    /// Further copies.
    pub duplicates: f64,
    pub announcements: f64,
    /// Requests, and reports of missing transactions.
    pub requests: f64,
    pub blocks: f64,
    /// Framing of packets in channels.
    pub framing: f64,
    /// Sealing, pings, and padding of sealed frames.
    pub sealing: f64,
    /// Headers, acknowledgements, and retransmissions.
    pub headers: f64,
}

pub fn transaction_metrics(measured: &TransactionsMeasured) -> TransactionMetrics {
    let (collector, totals) = (&measured.collector, &measured.totals);
    let rows = &collector.rows;
    let honest: Vec<usize> =
        (0..measured.uptime.honest.len()).filter(|node| measured.uptime.honest[*node]).collect();
    let count = honest.len() as f64;
    let pairs = count * rows.len() as f64;
    let reach = collector.reach(&measured.uptime, measured.end_nanos);
    let all = measured.uptime.honest_count();
    let valid = rows.iter().filter(|row| row.is_spread()).count() as f64;
    let complete = rows.iter().filter(|row| row.pools == all).map(|row| row.dissemination_ms());
    let complete: Vec<f64> = complete.collect();
    let traffic: Vec<HostStats> = honest.iter().map(|node| measured.traffic[*node]).collect();
    let received = traffic.iter().map(|stats| stats.received).fold(Count::default(), |sum, count| Count {
        packets: sum.packets + count.packets,
        bytes: sum.bytes + count.bytes,
    });
    let bytes = bytes(measured, received, pairs);
    let nodes = measured.degrees.len() as f64;
    let links = measured.degrees.iter().map(|degree| f64::from(*degree)).sum::<f64>() / 2.0;
    let flood_most = (2.0 * links - (nodes - 1.0)) / nodes;
    let flooded = flood_most * body_bytes(measured) * ratio(valid, rows.len() as f64);
    let connections = Connections::of(measured, |node| measured.uptime.honest[node]);
    let found = (totals.engine.block_hits + totals.engine.block_misses) as f64;
    let block_txs: Vec<f64> = measured.blocks.iter().map(|block| f64::from(block.txs)).collect();
    let refused = Cause::ALL.iter().map(|cause| (cause.name(), totals.pool.refused(*cause)));
    let seconds = measured.measured_nanos as f64 / 1e9;
    let rates = |bytes: fn(&HostStats) -> u64| NodeRates::of(traffic.iter().map(bytes), seconds);
    let workload: &Transactions = measured.point.scenario.part();
    // Later blocks take what is left.
    let until_stop = measured.blocks.iter().filter(|block| block.at <= workload.end_nanos());
    let block_bytes: Vec<f64> = until_stop.map(|block| block.bytes as f64).collect();
    // Without blocks, these figures do not exist.
    let per_block = |most: f64| {
        let count = block_bytes.len() as f64;
        (count > 0.0).then(|| ratio(block_bytes.iter().sum::<f64>(), count * most))
    };
    let ignored = Ignored::ALL.iter().map(|cause| (cause.name(), totals.engine.ignored(*cause)));
    let named = |(name, count): (&'static str, u64)| (count > 0).then_some((name, count));
    TransactionMetrics {
        transactions: rows.len() as u64,
        delivered_share: ratio((reach.by_pool + reach.by_block) as f64, reach.pairs as f64),
        by_block_share: ratio(reach.by_block as f64, reach.pairs as f64),
        incomplete: reach.incomplete,
        lost_with_origin: reach.lost_with_origin,
        delivery_latency_ms: Statistics::of_durations(&collector.latency),
        dissemination_ms: Statistics::of(&complete),
        disseminated: complete.len() as u64,
        disseminated_share: ratio(complete.len() as f64, valid),
        duplication_factor: ratio(totals.engine.bodies_received as f64, pairs),
        flood_least: links / nodes,
        flood_most,
        ideal: (nodes - 1.0) / nodes,
        successful_txs: totals.pool.successful_txs,
        unrequested_bodies: totals.engine.unrequested_bodies,
        already_seen_txs: totals.engine.already_seen_txs,
        settled_duplicates: totals.engine.settled_duplicates,
        requested_txs: totals.engine.requested_txs,
        rerequested_txs: totals.engine.rerequested_txs,
        timeouts: totals.engine.timeouts,
        early_timeouts: totals.engine.early_timeouts,
        awaited_pushes: ratio(totals.engine.awaited_pushes as f64, pairs),
        overdue_pushes: ratio(totals.engine.overdue_pushes as f64, pairs),
        seen_tx: ratio(totals.engine.heard_keys as f64, pairs),
        want_tx: ratio(totals.engine.requests() as f64, pairs),
        bandwidth_mb_per_s: rates(|stats| stats.sent.bytes + stats.received.bytes),
        sent_mb_per_s: rates(|stats| stats.sent.bytes),
        received_mb_per_s: rates(|stats| stats.received.bytes),
        bytes,
        wire_over_flooding: (flooded > 0.0).then(|| bytes.total / flooded),
        connection_bytes: ratio(connections.messages + connections.framing, pairs),
        bytes_saved_factor: None,
        copies_saved_factor: None,
        flushes: ratio(connections.flushes, pairs),
        blocks: measured.blocks.len() as u64,
        block_txs: Statistics::of(&block_txs),
        finalised_mb_per_s: per_block(workload.block_interval.millis_f64() * 1e3),
        block_fill: per_block(workload.block_size.bytes() as f64),
        time_to_inclusion_ms: Statistics::of_durations(&collector.inclusion),
        compact_block_hit_rate: (found > 0.0).then(|| ratio(totals.engine.block_hits as f64, found)),
        compact_block_ms: Statistics::of_durations(&measured.block_complete),
        compact_blocks_given_up: measured.blocks_given_up,
        evicted_txs: totals.pool.evicted_txs,
        expired_txs: totals.pool.expired_txs,
        failed_txs: totals.pool.failed_txs,
        out_of_order: totals.out_of_order,
        refused: refused.filter_map(named).collect(),
        ignored: ignored.filter_map(named).collect(),
        misbehaviour: measured.misbehaved.iter().map(|(why, count)| (why.name(), *count)).collect(),
        lost_txs: totals.engine.lost_txs,
        failed_responses: totals.engine.failed_responses,
        not_found: totals.engine.not_found,
        withdrawn_bodies: totals.engine.withdrawn_bodies,
        queue_drops: totals.engine.refused_bodies + totals.engine.refused_frames,
        keys_max: measured.keys_max,
        requests_max: measured.requests_max,
        pool_txs_max: measured.pool_txs_max,
        node_bytes: NodeBytes::of(traffic.iter()),
        losses: Losses { packet_drops: packet_drops(&measured.traffic), ..Losses::of(&traffic) },
        uplinks: Uplinks::of(&traffic, measured.measured_nanos),
    }
}

/// Bytes written by the connections of some nodes. Without channels, they are the bytes of frames.
struct Connections {
    messages: f64,
    framing: f64,
    sealing: f64,
    flushes: f64,
}

impl Connections {
    fn of(measured: &TransactionsMeasured, counts: impl Fn(usize) -> bool) -> Self {
        let chosen = |(node, _): &(usize, &ConnectionStats)| counts(*node);
        let all = || measured.connections.iter().enumerate().filter(chosen).map(|(_, stats)| stats);
        let sum = |value: fn(&ConnectionStats) -> u64| all().map(value).sum::<u64>() as f64;
        if measured.connections.is_empty() {
            let frames = (0..).zip(&measured.traffic).filter(|(node, _): &(usize, _)| counts(*node));
            let sent =
                frames.map(|(_, stats)| stats.frames_sent.payload_bytes + stats.frames_sent.control_bytes);
            return Self { messages: sent.sum::<u64>() as f64, framing: 0.0, sealing: 0.0, flushes: 0.0 };
        }
        let messages = sum(|stats| stats.channels.iter().map(|channel| channel.message_bytes).sum());
        let framing = sum(|stats| stats.channels.iter().map(|channel| channel.framing_bytes).sum());
        // Sealed frames contain messages, their framing, pings, and padding.
        let sealed = sum(|stats| stats.sealed_frames) * f64::from(SEALED_FRAME);
        Self {
            messages,
            framing,
            sealing: (sealed - messages - framing).max(0.0),
            flushes: sum(|stats| stats.flushes),
        }
    }
}

/// Returns the bytes of a frame with a transaction.
fn body_bytes(measured: &TransactionsMeasured) -> f64 {
    let size = measured.point.scenario.part::<Transactions>().size.bytes();
    let header = Header { valid: true, number: 0, signer: 0, sequence: 0, priority: 0, gas: 0 };
    CatFrame::tx(header.transaction(size)).encoded_len() as f64
}

/// Splits the bytes received by honest nodes.
///
/// The sender counts the bytes that connections add, and the network as a whole receives as many.
/// Among hostile nodes, the honest ones are assumed to receive the same share of the framing as of
/// the messages. Their headers follow from the number of packets.
fn bytes(measured: &TransactionsMeasured, received: Count, pairs: f64) -> TransactionBytes {
    let (total, received_packets) = (received.bytes as f64, received.packets);
    let received = |kinds: &[FrameKind]| {
        kinds.iter().map(|kind| measured.totals.engine.received(*kind).bytes).sum::<u64>() as f64
    };
    let copies = received(&[FrameKind::Txs, FrameKind::Bundle]);
    let bodies = (measured.collector.deliveries.count() as f64 * body_bytes(measured)).min(copies);
    let announcements = received(&[FrameKind::SeenTx, FrameKind::SeenKeys]);
    let requests = received(&[FrameKind::WantTx, FrameKind::WantKeys, FrameKind::NotFound]);
    let blocks = received(&[FrameKind::CompactBlock]);
    let messages = copies + announcements + requests + blocks;
    let network = Connections::of(measured, |_| true);
    let all_honest = measured.uptime.honest.iter().all(|honest| *honest);
    let (framing, sealing) = if all_honest {
        (network.framing, network.sealing)
    } else {
        let framing = network.framing * ratio(messages, network.messages);
        let header = f64::from(samara_lab::network::transport(&measured.point.scenario).header);
        let headers = header * received_packets as f64;
        // Without channels there is no sealing.
        let sealing = if network.sealing > 0.0 { total - messages - framing - headers } else { 0.0 };
        (framing, sealing.max(0.0))
    };
    let known = messages + framing + sealing;
    let share = |bytes: f64| ratio(bytes, pairs);
    TransactionBytes {
        total: share(total),
        bodies: share(bodies),
        duplicates: share(copies - bodies),
        announcements: share(announcements),
        requests: share(requests),
        blocks: share(blocks),
        framing: share(framing),
        sealing: share(sealing),
        // A frame that is complete after the first submission can have arrived in part before it.
        headers: share((total - known).max(0.0)),
    }
}
