//! What a pool counts, under the names of celestia-core (`mempool/metrics.go`) where it has one.

use std::fmt::Error;

use samara_cat::pool::{Cause, PoolMetrics};
use samara_cat::{FrameKind, Ignored, Metrics};
use samara_engine::outbox::Counters;
use samara_net::mconn::Status;

use super::Out;

/// What a pool has counted at one moment.
#[derive(Clone, Debug)]
pub(crate) struct PoolSnapshot {
    pub(crate) engine: Metrics,
    pub(crate) pool: PoolMetrics,
    pub(crate) txs: usize,
    pub(crate) bytes: u64,
    /// Keys about which anything is remembered.
    pub(crate) known_keys: usize,
    /// Requests that are remembered.
    pub(crate) known_requests: usize,
    pub(crate) lanes: Vec<(&'static str, Counters)>,
    pub(crate) status: Status,
}

impl PoolSnapshot {
    pub(super) fn encode(&self, out: &mut Out<'_>) -> Result<(), Error> {
        self.transactions(out)?;
        self.requests(out)?;
        self.frames(out)?;
        self.links(out)
    }

    fn transactions(&self, out: &mut Out<'_>) -> Result<(), Error> {
        let Self { engine, pool, txs, bytes, .. } = self;
        out.gauge("mempool_size", "Transactions in the pool", *txs as f64)?;
        out.gauge("mempool_size_bytes", "Bytes of transactions in the pool", *bytes as f64)?;
        out.gauge("mempool_known_keys", "Keys about which anything is remembered", self.known_keys as f64)?;
        for (name, help, count) in engine.counters().chain(pool.counters()) {
            out.counter(&format!("mempool_{name}"), help, count)?;
        }
        let refused = Cause::ALL.iter().map(|cause| ([("cause", cause.name())], pool.refused(*cause)));
        out.counters("mempool_rejected_txs", "Transactions that were not taken", refused)
    }

    fn requests(&self, out: &mut Out<'_>) -> Result<(), Error> {
        let engine = &self.engine;
        let known = self.known_requests as f64;
        out.gauge("mempool_known_requests", "Requests whose answers would count", known)?;
        let ignored = Ignored::ALL.iter().map(|cause| ([("cause", cause.name())], engine.ignored(*cause)));
        out.counters("mempool_ignored", "What came from peers and had no effect", ignored)
    }

    fn frames(&self, out: &mut Out<'_>) -> Result<(), Error> {
        let kinds = FrameKind::ALL.iter().flat_map(|kind| {
            let (sent, received) = (self.engine.sent(*kind), self.engine.received(*kind));
            [
                ([("kind", kind.name()), ("direction", "sent")], sent),
                ([("kind", kind.name()), ("direction", "received")], received),
            ]
        });
        let kinds: Vec<_> = kinds.collect();
        let frames = kinds.iter().map(|(labels, tally)| (*labels, tally.copies));
        out.counters("mempool_frames", "Frames that were owed, and that came", frames)?;
        let bytes = kinds.iter().map(|(labels, tally)| (*labels, tally.bytes));
        out.counters("mempool_frame_bytes", "Their bytes", bytes)?;
        let sent = self.lanes.iter().map(|(lane, counters)| ([("lane", *lane)], counters.sent.copies));
        out.counters("mempool_frames_sent", "Frames handed to connections", sent)?;
        let withdrawn =
            self.lanes.iter().map(|(lane, counters)| ([("lane", *lane)], counters.withdrawn.copies));
        out.counters("mempool_frames_withdrawn", "Frames taken back before they left", withdrawn)?;
        let refused = [("bodies", self.engine.refused_bodies), ("frames", self.engine.refused_frames)];
        let refused = refused.map(|(kind, count)| ([("kind", kind)], count));
        out.counters("mempool_queue_refusals", "What found a queue full", refused)
    }

    fn links(&self, out: &mut Out<'_>) -> Result<(), Error> {
        let Status { peers, owed_copies, in_flight_bytes, counters } = &self.status;
        let mut protocols = std::collections::BTreeMap::new();
        for peer in peers {
            *protocols.entry(&*peer.protocol).or_insert(0.0) += 1.0;
        }
        let protocols = protocols.into_iter().map(|(name, count)| ([("protocol", name)], count));
        out.gauges("mempool_peers", "Peers of the pool by what is spoken", protocols)?;
        let outbound = peers.iter().filter(|peer| peer.outbound).count();
        out.gauge("mempool_active_outbound_connections", "Peers that this node dialled", outbound as f64)?;
        out.gauge("mempool_owed_copies", "Frames that are owed", *owed_copies as f64)?;
        out.gauge("mempool_in_flight_bytes", "Bytes on their way into sockets", *in_flight_bytes as f64)?;
        let closed = counters.closed.iter().map(|(cause, count)| ([("cause", *cause)], *count));
        out.counters("mempool_closed_links", "Connections that ended or came to nothing", closed)?;
        let bytes = [
            ("payload", "up", counters.payload_up),
            ("control", "up", counters.control_up),
            ("wire", "up", counters.bytes_up),
            ("payload", "down", counters.payload_down),
            ("control", "down", counters.control_down),
            ("wire", "down", counters.bytes_down),
        ];
        let bytes = bytes.map(|(kind, direction, bytes)| ([("kind", kind), ("direction", direction)], bytes));
        out.counters("mempool_bytes", "Bytes of frames, and on the wire (sealed)", bytes)?;
        out.counter("mempool_events_lost", "Events that were not read in time", counters.events_lost)
    }
}
