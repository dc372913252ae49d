//! Gateways: links that the hosts of a region share on the way to and from other regions.
//!
//! A gateway is simulated like a host, alone through each window. It is as far from its hosts as
//! the lookahead. A packet that a host sends in one window therefore reaches the gateway in a later
//! one, and a packet that leaves the gateway reaches its next stop in a later one. The latency
//! between two hosts is the same as without gateways.

use samara_engine::Frame;

use crate::config::{GatewayConfig, LATENCY_FLOOR, Latency, Network};
use crate::downlink::Downlink;
use crate::error::{ConfigError, ensure};
use crate::packet::{Packet, Stop, take_arrivals};
use crate::stats::{Count, HostStats};
use crate::world::World;

/// Counters of the packets at a gateway in one direction, since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GateStats {
    /// Packets that passed the gateway.
    pub passed: Count,
    /// Packets that the queue discipline dropped.
    pub dropped: Count,
    /// The longest wait of a packet, in nanoseconds.
    pub wait_nanos_max: u64,
}

#[derive(Debug)]
pub(crate) struct Gate<F> {
    is_out: bool,
    /// Packets that arrive in this or a later window, unsorted.
    inbox: Vec<Packet<F>>,
    /// The packets of the current window, the next one last.
    arrivals: Vec<Packet<F>>,
    line: Downlink<F>,
    nanos_per_byte: f64,
    stats: HostStats,
}

/// Returns the number of the gate of a region and a direction.
pub(crate) fn gate_of(region: u16, stop: Stop) -> usize {
    2 * usize::from(region) + usize::from(matches!(stop, Stop::In))
}

impl<F: Frame> Gate<F> {
    /// Creates the gate with a number of [`gate_of`].
    pub(crate) fn new(number: usize, gateways: &[GatewayConfig], seed: u64) -> Self {
        let config = &gateways[number / 2];
        let is_out = number.is_multiple_of(2);
        let rate = if is_out { config.up_bps } else { config.down_bps };
        Self {
            is_out,
            inbox: Vec::new(),
            arrivals: Vec::new(),
            line: Downlink::new(rate, config.queue, seed),
            nanos_per_byte: crate::downlink::nanos_per_byte(rate),
            stats: HostStats::default(),
        }
    }

    pub(crate) fn post(&mut self, packet: Packet<F>) {
        self.inbox.push(packet);
    }

    pub(crate) fn stats(&self) -> GateStats {
        let HostStats { received, drops, downlink_wait_nanos_max, .. } = self.stats;
        let dropped = Count {
            packets: drops.downlink_full.packets + drops.downlink_codel.packets,
            bytes: drops.downlink_full.bytes + drops.downlink_codel.bytes,
        };
        GateStats { passed: received, dropped, wait_nanos_max: downlink_wait_nanos_max }
    }

    /// Returns the number of packets that passed or were dropped: the unit of work of the
    /// simulator.
    pub(crate) fn steps(&self) -> u64 {
        self.stats.steps
    }

    /// Returns the time of the next event at this gate.
    pub(crate) fn next_at(&self) -> u64 {
        let inbox = self.inbox.iter().map(|packet| packet.arrive).min().unwrap_or(u64::MAX);
        self.line.next_at().min(inbox)
    }

    pub(crate) fn run(&mut self, end: u64, world: &World<F>, outgoing: &mut Vec<Packet<F>>) {
        take_arrivals(&mut self.inbox, end, &mut self.arrivals);
        loop {
            let arrival = self.arrivals.last().map_or(u64::MAX, |packet| packet.arrive);
            let head = self.line.next_at();
            let now = arrival.min(head);
            if now >= end {
                return;
            }
            self.stats.steps += 1;
            let through = if head == now {
                self.line.receive(now, &mut self.stats).map(|packet| (now, packet))
            } else {
                self.arrivals
                    .pop()
                    .and_then(|packet| self.arrive(packet))
                    .map(|packet| (packet.arrive, packet))
            };
            if let Some((at, packet)) = through {
                outgoing.push(self.pass(at, packet, world));
            }
        }
    }

    fn arrive(&mut self, mut packet: Packet<F>) -> Option<Packet<F>> {
        if self.is_out {
            // The network of the region is wider than the way out: the gateway has the whole packet
            // before its first bit leaves.
            packet.arrive += (f64::from(packet.len) * self.nanos_per_byte) as u64;
        }
        self.line.arrive(packet, &mut self.stats)
    }

    /// Sends a packet that passed the gateway at a time to its next stop.
    fn pass(&mut self, at: u64, mut packet: Packet<F>, world: &World<F>) -> Packet<F> {
        self.stats.received.add(packet.body.packets(), packet.len);
        let way = if self.is_out {
            world.latency(packet.src, packet.heading.host()) - 2 * world.lookahead
        } else {
            world.lookahead
        };
        packet.arrive = at + way;
        packet.heading = packet.heading.passed();
        packet
    }
}

/// Checks that the gateways of a network are valid.
pub(crate) fn check(network: &Network) -> Result<(), ConfigError> {
    if network.gateways.is_empty() {
        return Ok(());
    }
    let matrix: &[_] = match &network.latency {
        Latency::Regions(matrix) => matrix,
        Latency::Constant(_) | Latency::Uniform { .. } | Latency::Pairs(_) => &[],
    };
    let (found, regions) = (network.gateways.len(), matrix.len());
    ensure!(
        found == regions,
        "there are {found} gateways for {regions} regions; every region needs one, or none has one"
    );
    for (region, gateway) in network.gateways.iter().enumerate() {
        for (direction, rate) in [("out", gateway.up_bps), ("in", gateway.down_bps)] {
            ensure!(
                rate > 0,
                "the gateway of region {region}: the rate {direction} is 0 bit/s; it must be positive"
            );
        }
    }
    let least = network.latency.least().max(LATENCY_FLOOR);
    for (from, row) in matrix.iter().enumerate() {
        for (to, latency) in row.iter().copied().enumerate() {
            ensure!(
                from == to || latency >= 3 * least,
                "from region {from} to region {to} the latency is {latency:?}; with gateways it must be at least three \
                 times the least latency of the network, {least:?}"
            );
        }
    }
    Ok(())
}
