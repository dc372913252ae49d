//! Gateways: links that the hosts of a region share on the way to and from other regions.
//!
//! A gateway is simulated as hosts are, alone through each window: what hosts send in a window is at their gateway in a later one, since
//! it is as far away as the lookahead, and so is what leaves a gateway at the next stop. The latency between two hosts is the same as without gateways.

use std::cmp::Reverse;

use samara_engine::Frame;

use crate::config::{GatewayConfig, LATENCY_FLOOR, Latency, Network};
use crate::downlink::Downlink;
use crate::error::{ConfigError, ensure};
use crate::packet::{Packet, Stop};
use crate::stats::{Count, HostStats};
use crate::world::World;

/// What passed a gateway in one direction, since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GateStats {
    /// What came through.
    pub passed: Count,
    /// What was dropped, by whatever its queue drops by.
    pub dropped: Count,
    /// The longest that a packet waited, in nanoseconds.
    pub wait_nanos_max: u64,
}

#[derive(Debug)]
pub(crate) struct Gate<F> {
    is_out: bool,
    /// Packets that arrive in this or a later window, in no order.
    inbox: Vec<Packet<F>>,
    /// The packets of the current window, the next one last.
    arrivals: Vec<Packet<F>>,
    line: Downlink<F>,
    nanos_per_byte: f64,
    stats: HostStats,
}

/// How many gates a network has, and which is that of a region and direction.
pub(crate) fn gate_of(region: u16, stop: Stop) -> usize {
    2 * usize::from(region) + usize::from(matches!(stop, Stop::In))
}

impl<F: Frame> Gate<F> {
    /// The gate with a number of [`gate_of`].
    pub(crate) fn new(number: usize, gateways: &[GatewayConfig]) -> Self {
        let config = &gateways[number / 2];
        let is_out = number.is_multiple_of(2);
        let rate = if is_out { config.up_bps } else { config.down_bps };
        Self {
            is_out,
            inbox: Vec::new(),
            arrivals: Vec::new(),
            line: Downlink::new(rate, config.queue),
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

    /// Packets that came through or were dropped: the unit of work of the simulator.
    pub(crate) fn steps(&self) -> u64 {
        self.stats.steps
    }

    /// The next time at which something happens here.
    pub(crate) fn next_at(&self) -> u64 {
        let inbox = self.inbox.iter().map(|packet| packet.arrive).min().unwrap_or(u64::MAX);
        self.line.next_at().min(inbox)
    }

    pub(crate) fn run(&mut self, end: u64, world: &World<F>, outgoing: &mut Vec<Packet<F>>) {
        self.arrivals.extend(self.inbox.extract_if(.., |packet| packet.arrive < end));
        self.arrivals.sort_unstable_by_key(|packet| Reverse((packet.arrive, packet.src, packet.order)));
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
            // The network of the region is wider than the way out: a packet has come as a whole before its first bit leaves.
            packet.arrive += (f64::from(packet.len) * self.nanos_per_byte) as u64;
        }
        self.line.arrive(packet, &mut self.stats)
    }

    /// Sends a packet that came through at a time to its next stop.
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

/// Checks that gateways are possible in a network.
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
