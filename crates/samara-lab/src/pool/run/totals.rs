//! Sums of what nodes have counted.

use std::collections::BTreeMap;

use samara_cat::pool::Cause;
use samara_cat::{FrameKind, Ignored};
use samara_engine::outbox::Tally;

use crate::pool::app::Node;

/// What honest nodes have counted, all together. What a node counted before it went down is part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Bodies that came from peers, duplicates included.
    pub bodies_received: u64,
    /// Transactions of committed blocks, once for each node (`SuccessfulTxs`).
    pub successful_txs: u64,
    /// Bodies that were in the pool when they came (`AlreadySeenTxs`).
    pub already_seen_txs: u64,
    /// Bodies that were being checked, rejected or committed when they came.
    pub settled_duplicates: u64,
    /// Requests (`RequestedTxs`).
    pub requested_txs: u64,
    /// Requests after the first one (`RerequestedTxs`).
    pub rerequested_txs: u64,
    /// Requests that timed out.
    pub timeouts: u64,
    /// Those to peers that were within the response time that they had shown.
    pub early_timeouts: u64,
    /// Times that nobody was left to ask.
    pub lost_txs: u64,
    /// Requests for what was not there.
    pub failed_responses: u64,
    /// Keys that peers denied to have.
    pub not_found: u64,
    /// Keys that peers announced.
    pub heard_keys: u64,
    /// Transactions that left pools for others.
    pub evicted_txs: u64,
    /// Transactions that grew too old.
    pub expired_txs: u64,
    /// Transactions that applications rejected.
    pub rejected_txs: u64,
    /// Bodies that were taken back before they left.
    pub withdrawn: u64,
    /// Bodies that found a queue full.
    pub refused_bodies: u64,
    /// Other frames that found a queue full.
    pub refused_frames: u64,
    /// Transactions of compact blocks that were there.
    pub block_hits: u64,
    /// Transactions of compact blocks that were not.
    pub block_misses: u64,
    /// Bundles.
    pub bundles: u64,
    /// Frames received by kind.
    pub received: BTreeMap<FrameKind, Tally>,
    /// What was refused by pools, by cause.
    pub refused: BTreeMap<Cause, u64>,
    /// What was ignored, by cause.
    pub ignored: BTreeMap<Ignored, u64>,
}

impl Totals {
    /// Adds what a node has counted since it started; nothing if it is hostile.
    pub fn add(&mut self, node: &Node) {
        let Some(cat) = node.cat() else { return };
        let metrics = cat.metrics();
        for (sum, value) in [
            (&mut self.bodies_received, metrics.bodies_received),
            (&mut self.successful_txs, metrics.successful_txs),
            (&mut self.already_seen_txs, metrics.already_seen_txs),
            (&mut self.settled_duplicates, metrics.settled_duplicates),
            (&mut self.requested_txs, metrics.requested_txs),
            (&mut self.rerequested_txs, metrics.rerequested_txs),
            (&mut self.timeouts, metrics.timeouts),
            (&mut self.early_timeouts, metrics.early_timeouts),
            (&mut self.lost_txs, metrics.lost_txs),
            (&mut self.failed_responses, metrics.failed_responses),
            (&mut self.not_found, metrics.not_found),
            (&mut self.heard_keys, metrics.heard_keys),
            (&mut self.evicted_txs, metrics.evicted_txs),
            (&mut self.expired_txs, metrics.expired_txs),
            (&mut self.rejected_txs, metrics.rejected_txs),
            (&mut self.withdrawn, metrics.withdrawn),
            (&mut self.refused_bodies, metrics.refused_bodies),
            (&mut self.refused_frames, metrics.refused_frames),
            (&mut self.block_hits, metrics.block_hits),
            (&mut self.block_misses, metrics.block_misses),
            (&mut self.bundles, metrics.bundles),
        ] {
            *sum += value;
        }
        for kind in FrameKind::ALL {
            let (sum, more) = (self.received.entry(*kind).or_default(), metrics.received(*kind));
            sum.copies += more.copies;
            sum.bytes += more.bytes;
        }
        for cause in Cause::ALL {
            *self.refused.entry(*cause).or_default() += cat.pool().metrics().refused(*cause);
        }
        for (cause, count) in metrics.ignored_by_cause() {
            *self.ignored.entry(cause).or_default() += count;
        }
    }

    /// Bytes of received frames of these kinds.
    pub fn received_bytes(&self, kinds: &[FrameKind]) -> u64 {
        kinds.iter().filter_map(|kind| self.received.get(kind)).map(|tally| tally.bytes).sum()
    }
}
