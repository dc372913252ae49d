//! The gateways of regions: one line out of each and one into it, which all its hosts share.

use samara_sim::{DownlinkQueue, GateStats, GatewayConfig, HostConfig};

use super::downlink::{Downlink, Left, Taken};
use super::{Packet, serialisation};

/// A packet on its way through gateways.
#[derive(Debug)]
pub(crate) struct Passing<P> {
    pub(crate) payload: P,
    pub(crate) flow: usize,
    /// Nanoseconds between the gateways of both regions.
    pub(crate) way: u64,
}

/// One direction of a gateway. Times are in nanoseconds.
#[derive(Debug)]
pub(crate) struct Gate<P> {
    rate_bps: u64,
    is_out: bool,
    line: Downlink<Passing<P>>,
    stats: GateStats,
}

/// The result of a step of a gate.
#[derive(Debug)]
pub(crate) enum Passed<P> {
    Through(Packet<Passing<P>>),
    /// Dropped, with the flow of the packet.
    Dropped {
        from: u32,
        flow: usize,
    },
    Queued,
}

impl<P> Gate<P> {
    fn new(rate_bps: u64, is_out: bool, queue: DownlinkQueue) -> Self {
        Self { rate_bps, is_out, line: Downlink::new(rate_bps, queue), stats: GateStats::default() }
    }

    pub(crate) fn stats(&self) -> GateStats {
        self.stats
    }

    /// Returns the time at which the head of the queue has passed, or `None` if no packet waits.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.line.next_at()
    }

    pub(crate) fn arrive(&mut self, now: u64, packet: Packet<Passing<P>>) -> Passed<P> {
        let (from, flow) = (packet.from, packet.payload.flow);
        // The network of a region is wider than the way out, so the gateway has the whole packet before
        // its first bit leaves.
        let stored = if self.is_out { serialisation(packet.bytes, self.rate_bps) } else { 0 };
        match self.line.arrive(now, now + stored, packet) {
            Taken::Received(packet) => self.through(packet, 0),
            Taken::Queued => Passed::Queued,
            Taken::Full { bytes } => {
                self.stats.dropped.add(1, bytes);
                Passed::Dropped { from, flow }
            }
        }
    }

    /// Passes or drops the head of the queue at `now`, which is [`next_at`](Self::next_at).
    pub(crate) fn pass(&mut self, now: u64) -> Passed<P> {
        match self.line.receive(now) {
            None => Passed::Queued,
            Some(Left::Received { packet, waited }) => self.through(packet, waited),
            Some(Left::Dropped(packet)) => {
                self.stats.dropped.add(1, packet.bytes);
                Passed::Dropped { from: packet.from, flow: packet.payload.flow }
            }
        }
    }

    fn through(&mut self, packet: Packet<Passing<P>>, waited: u64) -> Passed<P> {
        self.stats.passed.add(1, packet.bytes);
        self.stats.wait_nanos_max = self.stats.wait_nanos_max.max(waited);
        Passed::Through(packet)
    }
}

/// The gates of all regions: out of each region, and into it.
#[derive(Debug)]
pub(crate) struct Gates<P> {
    gates: Vec<[Gate<P>; 2]>,
    /// The region of each host.
    regions: Vec<u16>,
}

impl<P> Gates<P> {
    pub(crate) fn new(gateways: &[GatewayConfig], hosts: &[HostConfig]) -> Self {
        let gates = |gateway: &GatewayConfig| {
            let GatewayConfig { up_bps, down_bps, queue } = *gateway;
            [Gate::new(up_bps, true, queue), Gate::new(down_bps, false, queue)]
        };
        Self {
            gates: gateways.iter().map(gates).collect(),
            regions: hosts.iter().map(|host| host.region).collect(),
        }
    }

    /// Returns the first gate between two hosts. Those of one region have none, and neither have
    /// servers.
    pub(crate) fn between(&self, from: u32, to: u32) -> Option<GateId> {
        let region = |host: u32| self.regions.get(host as usize).copied();
        let (from, to) = (region(from)?, region(to)?);
        (!self.gates.is_empty() && from != to).then_some(GateId { region: from, is_out: true })
    }

    /// Returns the gate into the region of a host.
    pub(crate) fn towards(&self, host: u32) -> GateId {
        GateId { region: self.regions[host as usize], is_out: false }
    }

    pub(crate) fn get(&mut self, id: GateId) -> &mut Gate<P> {
        &mut self.gates[usize::from(id.region)][usize::from(!id.is_out)]
    }

    pub(crate) fn stats(&self) -> impl Iterator<Item = [GateStats; 2]> {
        self.gates.iter().map(|[out, into]| [out.stats(), into.stats()])
    }
}

/// The name of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GateId {
    region: u16,
    pub(crate) is_out: bool,
}
