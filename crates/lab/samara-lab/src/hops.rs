//! The least times in which messages can reach all nodes: hops over the graph of links.

use std::time::Duration;

use samara_document::topology::{self, Graph};
use samara_scenario::Scenario;
use samara_sim::{Cause, HostConfig, LATENCY_FLOOR};

use crate::network::{self, Hosts};

/// Returns, for each node, the least time in which its messages can reach all other nodes, in
/// milliseconds.
///
/// It is the hops to the farthest node.
pub(crate) fn message_bounds_ms(
    scenario: &Scenario,
    (graph, hosts): (&Graph, &Hosts),
    frame_bytes: u32,
) -> Vec<f64> {
    bounds(graph, &parts(scenario, hosts, frame_bytes)).0
}

/// Returns for each node the least time to the farthest node in milliseconds, and the mean hops to
/// the others.
pub fn bounds(graph: &Graph, hop: &[(Cause, f64); 3]) -> (Vec<f64>, Vec<f64>) {
    let hop: f64 = hop.iter().map(|(_, ms)| ms).sum();
    let neighbours = graph.neighbours();
    let distances = (0..graph.nodes).map(|node| topology::distances(&neighbours, node));
    distances.map(|(farthest, mean)| (f64::from(farthest) * hop, mean)).unzip()
}

/// Returns the least time of a hop by cause.
///
/// It is at least the least latency, the time of a frame on the fastest uplink, and a
/// validation. A downlink receives packets as they arrive: it adds time only if it is slower, and
/// not for the first packet.
pub fn parts(scenario: &Scenario, hosts: &Hosts, frame_bytes: u32) -> [(Cause, f64); 3] {
    let latency = Duration::from_nanos(network::least_latency_nanos(hosts)).max(LATENCY_FLOOR);
    let fastest = |rate: fn(&HostConfig) -> u64| hosts.configs.iter().map(rate).max().unwrap_or(1) as f64;
    let transport = network::transport(scenario);
    let bits = transport.wire_bytes(frame_bytes) as f64 * 8.0;
    let validation = hosts.validation.iter().min().map_or(0.0, |time| time.as_secs_f64() * 1e3);
    let packet = bits.min(f64::from(transport.mss + transport.header) * 8.0);
    let (up, down) = network::bursts(scenario);
    let after = |bits: f64, burst: u64| (bits - burst as f64 * 8.0).max(0.0);
    let (uplink, downlink) = (fastest(|host| host.uplink_bps), fastest(|host| host.downlink_bps));
    let rates = (after(bits, up) / uplink).max(after(packet, up) / uplink + after(bits, down) / downlink);
    [
        (Cause::Processor, validation),
        (Cause::Serialisation, rates * 1e3),
        (Cause::Latency, latency.as_secs_f64() * 1e3),
    ]
}
