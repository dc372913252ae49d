//! The least times in which messages can reach nodes: by hops over the graph of links, each with the
//! least time of any, and by the shortest paths, on which each link has its own.

use std::time::Duration;

use samara_bounds::{Links, paths};
use samara_document::topology::{self, Graph};
use samara_scenario::Scenario;
use samara_sim::{Cause, HostConfig, LATENCY_FLOOR};

use crate::network::{self, Hosts};
use crate::results::ratio;

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
/// It is at least the least latency, the time of a frame on the fastest links, and a validation.
pub fn parts(scenario: &Scenario, hosts: &Hosts, frame_bytes: u32) -> [(Cause, f64); 3] {
    let latency = Duration::from_nanos(network::least_latency_nanos(hosts)).max(LATENCY_FLOOR);
    let fastest = |rate: fn(&HostConfig) -> u64| hosts.configs.iter().map(rate).max().unwrap_or(1);
    let validation = hosts.validation.iter().min().copied().unwrap_or_default();
    let (uplink, downlink) = (fastest(|host| host.uplink_bps), fastest(|host| host.downlink_bps));
    [
        (Cause::Processor, millis(validation)),
        (Cause::Serialisation, Frame::new(scenario, frame_bytes).ms(uplink, downlink)),
        (Cause::Latency, millis(latency)),
    ]
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The bits of a frame on the wire, and those that idle links pass in no time.
struct Frame {
    bits: f64,
    packet: f64,
    bursts: (f64, f64),
}

impl Frame {
    fn new(scenario: &Scenario, frame_bytes: u32) -> Self {
        let transport = network::transport(scenario);
        let bits = transport.wire_bytes(frame_bytes) as f64 * 8.0;
        let packet = bits.min(f64::from(transport.mss + transport.header) * 8.0);
        let (up, down) = network::bursts(scenario);
        Self { bits, packet, bursts: (up as f64 * 8.0, down as f64 * 8.0) }
    }

    /// Returns the least milliseconds of the frame on an uplink and a downlink of these rates.
    ///
    /// A downlink receives packets as they arrive: it adds time only if it is slower, and not for
    /// the first packet.
    fn ms(&self, uplink_bps: u64, downlink_bps: u64) -> f64 {
        let (uplink, downlink) = (uplink_bps as f64, downlink_bps as f64);
        let after = |bits: f64, burst: f64| (bits - burst).max(0.0);
        let (up, down) = self.bursts;
        let first = after(self.packet, up) / uplink;
        (after(self.bits, up) / uplink).max(first + after(self.bits, down) / downlink) * 1e3
    }
}

/// The links of a network with the least time of a frame on each. It has the latency and the rates of
/// the link's ends, and the validation of the receiver.
#[derive(Debug)]
pub struct Paths {
    links: Links,
}

impl Paths {
    pub fn new(scenario: &Scenario, (graph, hosts): (&Graph, &Hosts), frame_bytes: u32) -> Self {
        let frame = Frame::new(scenario, frame_bytes);
        let time = |from: u32, to: u32| {
            let latency = Duration::from_nanos(network::latency_nanos(hosts, from, to)).max(LATENCY_FLOOR);
            let rates = (hosts.configs[from as usize].uplink_bps, hosts.configs[to as usize].downlink_bps);
            millis(latency + hosts.validation[to as usize]) + frame.ms(rates.0, rates.1)
        };
        let link = |(from, peers): (u32, Vec<u32>)| {
            peers.into_iter().map(|to| (to, time(from, to))).collect::<Vec<_>>()
        };
        Self { links: (0..).zip(graph.neighbours()).map(link).collect() }
    }

    /// Returns the least time until a message of a node can be at each node, in milliseconds; infinite
    /// without a path.
    pub fn from(&self, node: u32) -> Vec<f64> {
        paths(&self.links, node)
    }

    /// Returns the least time of a message of a node to the farthest node, and the mean over the
    /// others, in milliseconds. Nodes without a path do not count.
    pub fn reach(&self, node: u32) -> (f64, f64) {
        let (mut farthest, mut sum, mut count) = (0.0, 0.0, 0.0);
        for ms in self.from(node).into_iter().filter(|ms| *ms > 0.0 && ms.is_finite()) {
            (farthest, sum, count) = (f64::max(farthest, ms), sum + ms, count + 1.0);
        }
        (farthest, ratio(sum, count))
    }
}
