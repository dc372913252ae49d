//! The lower bound of every completion time of a run with blocks of columns.

use crate::section::Columns;
use samara_bounds::{Curve, PayloadLimits, Pieces, Ways, payload};
use samara_scenario::Scenario;
use serde::Serialize;

use super::measure::Collector;
use samara_lab::network::{self, Hosts};

/// Maximum number of links whose latencies are looked up. Beyond that, the bound takes the least
/// latency everywhere.
const LINKS_MAX: usize = 2_000_000;

/// Returns the lower bound of every completion time in the network with these links. `copy_bytes` is
/// the least length of a copy of a segment on the wire.
pub(super) fn curve(
    scenario: &Scenario,
    collector: &Collector,
    hosts: &Hosts,
    copy_bytes: u64,
    links: &[(u32, u32)],
) -> Curve {
    let workload = scenario.part::<Columns>();
    let copy_bytes = copy_bytes.max(1);
    let (nodes, count) = (scenario.network.nodes, hosts.configs.len() as u32);
    // With repair, half of the columns yield all others.
    let most = workload.repair.as_ref().map_or(u32::MAX, |_| workload.half());
    let needed = workload.needed().unwrap_or(u32::MAX).min(most) as usize;
    let custody = collector.custody();
    let of_host = |(own, counts): (&Vec<u32>, &bool)| match counts {
        true => own.len().min(needed) as u64 * copy_bytes,
        false => 0,
    };
    let needed_bytes = custody.iter().zip(collector.counts()).map(of_host);
    let is_coded = workload.needed().is_some() || workload.repair.is_some();
    // Cells of a column travel on their own.
    let pieces = (!is_coded && workload.cells.is_none())
        .then(|| Pieces { bytes: copy_bytes, of: custody.iter().map(Vec::as_slice).collect() });
    // An observer has links of its own to some of the nodes; it may have them to all.
    let observed = (nodes..count).flat_map(|observer| (0..nodes).map(move |node| (observer, node)));
    let links: Vec<(u32, u32)> = links.iter().copied().chain(observed).collect();
    let (uplink_burst_bytes, downlink_burst_bytes) = network::bursts(scenario);
    payload(&PayloadLimits {
        publisher: workload.publisher,
        uplink_bps: hosts.configs.iter().map(|host| host.uplink_bps).collect(),
        downlink_bps: hosts.configs.iter().map(|host| host.downlink_bps).collect(),
        needed_bytes: needed_bytes.collect(),
        uplink_burst_bytes,
        downlink_burst_bytes,
        latency_nanos: &|from, to| network::latency_nanos(hosts, from, to),
        ways: if links.len() <= LINKS_MAX {
            Ways::Links(&links)
        } else {
            Ways::AtLeast(network::least_latency_nanos(hosts))
        },
        pieces,
    })
}

/// Returns the least bytes on the wire of a copy of a segment whose frame has this length, if at most
/// `together` segments are in one frame, and all frames share packets where the transport allows it.
pub(super) fn copy_bytes(scenario: &Scenario, frame_bytes: u32, together: u32) -> u64 {
    let transport = network::transport(scenario);
    let workload: &Columns = scenario.part();
    let segments = workload.segments();
    let each = |inside: u32| {
        let frames = (segments * workload.slots).div_ceil(inside);
        transport.wire_bytes_each(frame_bytes * inside, frames) / u64::from(inside)
    };
    (1..=together.clamp(1, segments)).map(each).min().unwrap_or(0)
}

/// Lower bounds of the mean and of percentiles, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CurveBound {
    pub mean: f64,
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub last: f64,
}

impl CurveBound {
    /// Returns the bounds of a curve; `None` if there is none. `mean_ms` is another bound of the mean.
    pub(super) fn of(curve: &Curve, mean_ms: f64) -> Option<Self> {
        let quantile = |q| curve.quantile(q);
        (!curve.is_empty()).then(|| Self {
            mean: curve.mean().max(mean_ms),
            p50: quantile(0.5),
            p95: quantile(0.95),
            p99: quantile(0.99),
            last: curve.last(),
        })
    }
}

/// Returns the quantile of completion times over all nodes, of which some may be incomplete; `None`
/// if it is that of an incomplete node.
pub(super) fn quantile(sorted: &[f64], nodes: usize, q: f64) -> Option<f64> {
    let at = (q * nodes as f64 - 1e-9).ceil().max(1.0) as usize;
    sorted.get(at - 1).copied()
}
