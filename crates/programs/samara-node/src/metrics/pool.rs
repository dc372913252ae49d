//! The metrics of a pool, under the names of celestia-core (`mempool/metrics.go`) where it has one.

use std::collections::BTreeMap;

use samara_cat::pool::{Cause, PoolMetrics};
use samara_cat::{FrameKind, Ignored, Metrics};
use samara_engine::outbox::Counters;
use samara_net::mconn::Status;

use super::metrics;

/// The counters of a pool at one moment.
#[derive(Clone, Debug)]
pub(crate) struct PoolSnapshot {
    pub(crate) engine: Metrics,
    pub(crate) pool: PoolMetrics,
    pub(crate) height: u64,
    pub(crate) txs: usize,
    pub(crate) bytes: u64,
    /// Keys about which the pool keeps any state.
    pub(crate) known_keys: usize,
    /// Requests that the pool remembers.
    pub(crate) known_requests: usize,
    pub(crate) lanes: Vec<(&'static str, Counters)>,
    pub(crate) status: Status,
}

/// The counters that engine and pool declare: name, meaning and value.
pub(super) fn counters(
    engine: &Metrics,
    pool: &PoolMetrics,
) -> impl Iterator<Item = (String, &'static str, u64)> {
    let counters = engine.counters().chain(pool.counters());
    counters.map(|(name, meaning, count)| (format!("mempool_{name}"), meaning, count))
}

metrics! { METRICS |pool: PoolSnapshot, rows|
    /// Transactions in the pool
    mempool_size: Gauge = pool.txs as u64;
    /// Bytes of transactions in the pool
    mempool_size_bytes: Gauge = pool.bytes;
    /// Keys about which the pool keeps any state
    mempool_known_keys: Gauge = pool.known_keys as u64;
    /// Transactions that the pool rejected
    mempool_rejected_txs[cause]: Counter
        => rows.each(Cause::ALL.iter().map(|cause| (cause.name(), pool.pool.refused(*cause))));
    /// Requests whose answers the pool would still accept
    mempool_known_requests: Gauge = pool.known_requests as u64;
    /// Input of peers without effect
    mempool_ignored[cause]: Counter
        => rows.each(Ignored::ALL.iter().map(|cause| (cause.name(), pool.engine.ignored(*cause))));
    /// Frames owed, and frames received
    mempool_frames[kind, direction]: Counter => for kind in FrameKind::ALL {
        rows.add([kind.name(), "sent"], pool.engine.sent(kind).copies);
        rows.add([kind.name(), "received"], pool.engine.received(kind).copies);
    };
    /// Bytes of frames owed, and of frames received
    mempool_frame_bytes[kind, direction]: Counter => for kind in FrameKind::ALL {
        rows.add([kind.name(), "sent"], pool.engine.sent(kind).bytes);
        rows.add([kind.name(), "received"], pool.engine.received(kind).bytes);
    };
    /// Frames handed to connections
    mempool_frames_sent[lane]: Counter
        => rows.each(pool.lanes.iter().map(|(lane, counters)| (*lane, counters.sent.copies)));
    /// Frames that were withdrawn before they left
    mempool_frames_withdrawn[lane]: Counter
        => rows.each(pool.lanes.iter().map(|(lane, counters)| (*lane, counters.withdrawn.copies)));
    /// Bodies and frames refused because a queue was full
    mempool_queue_refusals[kind]: Counter
        => rows.each([("bodies", pool.engine.refused_bodies), ("frames", pool.engine.refused_frames)]);
    /// Peers of the pool by protocol
    mempool_peers[protocol]: Gauge => {
        let mut protocols: BTreeMap<&str, u64> = BTreeMap::new();
        for peer in &pool.status.peers {
            *protocols.entry(&*peer.protocol).or_default() += 1;
        }
        rows.each(protocols);
    };
    /// Peers that this node dialled
    mempool_active_outbound_connections: Gauge
        = pool.status.peers.iter().filter(|peer| peer.outbound).count() as u64;
    /// Owed frames
    mempool_owed_copies: Gauge = pool.status.owed_copies as u64;
    /// Bytes being written to sockets
    mempool_in_flight_bytes: Gauge = pool.status.in_flight_bytes;
    /// Connections that ended or were not established
    mempool_closed_links[cause]: Counter
        => rows.each(pool.status.counters.closed.iter().map(|(cause, count)| (*cause, *count)));
    /// Bytes of frames, and on the wire (sealed)
    mempool_bytes[kind, direction]: Counter => {
        let counters = &pool.status.counters;
        for (kind, up, down) in [
            ("payload", counters.payload_up, counters.payload_down),
            ("control", counters.control_up, counters.control_down),
            ("wire", counters.bytes_up, counters.bytes_down),
        ] {
            rows.add([kind, "up"], up);
            rows.add([kind, "down"], down);
        }
    };
    /// Events that were not read in time
    mempool_events_lost: Counter = pool.status.counters.events_lost;
}
