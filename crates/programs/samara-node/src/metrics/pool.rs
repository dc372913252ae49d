//! The metrics of a pool, under the names of celestia-core (`mempool/metrics.go`) where it has one.

use std::collections::BTreeMap;

use samara_cat::Metrics;
use samara_cat::pool::PoolMetrics;
use samara_engine::Gauge;
use samara_engine::outbox::ByLane;
use samara_net::mconn::Status;

use super::Table;

/// The counters of a pool at one moment.
#[derive(Clone, Debug)]
pub(crate) struct PoolSnapshot {
    pub(crate) engine: Metrics,
    pub(crate) pool: PoolMetrics,
    pub(crate) height: u64,
    pub(crate) state: PoolState,
    pub(crate) lanes: ByLane,
    pub(crate) status: Status,
}

samara_engine::counters! {
    pub(crate) struct PoolState {
        /// Transactions in the pool.
        pub(crate) size: usize,
        /// Bytes of transactions in the pool.
        pub(crate) size_bytes: Gauge,
        /// Keys about which the pool keeps any state.
        pub(crate) known_keys: usize,
        /// Requests whose answers the pool would still accept.
        pub(crate) known_requests: usize,
    }
}

samara_engine::counters! {
    struct Peers {
        /// Peers of the pool by protocol.
        peers[protocol]: BTreeMap<String, usize>,
        /// Peers that this node dialled.
        active_outbound_connections: usize,
        /// Owed frames.
        owed_copies: usize,
        /// Bytes being written to sockets.
        in_flight_bytes: Gauge,
    }
}

impl From<&Status> for Peers {
    fn from(status: &Status) -> Self {
        let mut peers = BTreeMap::new();
        for peer in &status.peers {
            *peers.entry(peer.protocol.to_string()).or_default() += 1;
        }
        Self {
            peers,
            active_outbound_connections: status.peers.iter().filter(|peer| peer.outbound).count(),
            owed_copies: status.owed_copies,
            in_flight_bytes: Gauge(status.in_flight_bytes),
        }
    }
}

pub(super) fn add(pool: Option<&PoolSnapshot>, table: &mut impl Table) {
    table.add("mempool_", pool.map(|pool| &pool.state));
    table.add("mempool_", pool.map(|pool| &pool.pool));
    table.add("mempool_", pool.map(|pool| &pool.engine));
    table.add("mempool_", pool.map(|pool| Peers::from(&pool.status)).as_ref());
    table.add("mempool_", pool.map(|pool| &pool.status.counters));
    table.add("mempool_outbox_", pool.map(|pool| &pool.lanes));
}
