//! The emulated network as a state machine: its input is packets and the time, its output is
//! packets and the times at which they are due.

mod downlink;
mod gate;
#[cfg(test)]
mod tests;
mod uplink;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use rustc_hash::FxHashMap;
use samara_engine::{NodeRng, Purpose, Time};
use samara_sim::{ConfigError, Count, GateStats, HostConfig, Latency};
use slab::Slab;

use crate::config::EmulationConfig;
use downlink::{Downlink, Left, Taken};
use gate::{GateId, Gates, Passed, Passing};
use uplink::{Departure, Offered, Uplink};

/// The rate of a server: 10,000 times that of a home, so that a packet takes no time there.
const SERVER_BPS: u64 = 100_000_000_000;

/// A packet that a host sends. `P` is its content; the emulator only needs its length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet<P> {
    pub from: u32,
    pub to: u32,
    /// Bytes, IP header included.
    pub bytes: u32,
    pub payload: P,
}

/// A packet that has reached its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery<P> {
    /// The time at which its last bit is received. If the caller is later, the difference is its
    /// own lateness.
    pub due: Time,
    pub packet: Packet<P>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// At the sender: the queue of its uplink was full.
    pub uplink_full: Count,
    /// At the sender: dropped by controlled delay.
    pub uplink_codel: Count,
    /// At the sender: random loss in the network.
    pub random: Count,
    /// At the sender: the way to the receiver was cut.
    pub cut: Count,
    /// At the receiver: the queue of its downlink was full.
    pub downlink_full: Count,
    /// At the receiver: dropped by controlled delay.
    pub downlink_codel: Count,
}

impl Drops {
    pub fn total(&self) -> Count {
        let mut total = self.uplink_full;
        total += self.uplink_codel;
        total += self.random;
        total += self.cut;
        total += self.downlink_full;
        total += self.downlink_codel;
        total
    }
}

/// Counters of a host; of a server, those of the packets that hosts send to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCounters {
    /// Packets that the host handed to its uplink, including those lost later.
    pub sent: Count,
    /// Packets that left its uplink.
    pub left: Count,
    pub received: Count,
    pub drops: Drops,
    /// The longest wait of a packet for the uplink.
    pub uplink_wait_max: Duration,
    /// The longest wait of a packet for the downlink.
    pub downlink_wait_max: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A host's uplink is free and a packet waits for it.
    Uplink { host: u32 },
    /// A packet reaches a gateway, or the receiver's downlink.
    Arrival { index: usize },
    /// The head of the queue of a gateway has passed it.
    Gate { gate: GateId },
    /// The head of a host's downlink queue is received.
    Downlink { host: u32 },
}

/// A waiting packet, and the time since which it waits.
#[derive(Debug)]
struct Waiting<P> {
    packet: Packet<P>,
    since: u64,
}

#[derive(Debug)]
struct Host<P> {
    uplink: Uplink<P>,
    downlink: Downlink<P>,
    counters: HostCounters,
}

#[derive(Debug)]
enum Travelling<P> {
    ToHost { packet: Packet<P>, flow: usize },
    ToGate { gate: GateId, packet: Packet<Passing<P>> },
}

/// An emulated network. It reads no clock and draws from seeded streams only: the same calls give
/// the same deliveries.
///
/// A packet is serialised at the rate of the sender's uplink, travels for the latency (and jitter)
/// of the path unless it is lost, and is serialised again at the rate of the receiver's downlink as
/// far as that is busy. Between regions with gateways it passes one at each end of the path.
#[derive(Debug)]
pub struct Emulator<P> {
    now: u64,
    /// The hosts, then the servers.
    hosts: Vec<Host<P>>,
    /// Number of the first server.
    servers: u32,
    paths: Paths,
    gates: Gates<P>,
    /// Ways on which all packets are lost, each with the number of cuts.
    cuts: FxHashMap<(u32, u32), u32>,
    travelling: Slab<Travelling<P>>,
    /// Events by time, then by order of scheduling.
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    scheduled: u64,
    ready: VecDeque<Delivery<P>>,
}

impl<P> Emulator<P> {
    /// Creates an idle network at time zero.
    ///
    /// # Errors
    /// [`EmulationConfig::check`] finds a fault.
    pub fn new(config: &EmulationConfig) -> Result<Self, ConfigError> {
        config.check()?;
        let server = HostConfig { uplink_bps: SERVER_BPS, downlink_bps: SERVER_BPS, region: 0 };
        let servers = std::iter::repeat_n(&server, config.servers.count as usize);
        let hosts = config.hosts.iter().chain(servers).map(|host| Host {
            uplink: Uplink::new(host.uplink_bps, config.nic, config.uplink_queue, config.seed),
            downlink: Downlink::new(host.downlink_bps, config.downlink_queue),
            counters: HostCounters::default(),
        });
        Ok(Self {
            now: 0,
            hosts: hosts.collect(),
            servers: config.hosts.len() as u32,
            paths: Paths::new(config),
            gates: Gates::new(&config.gateways, &config.hosts),
            cuts: FxHashMap::default(),
            travelling: Slab::new(),
            events: BinaryHeap::new(),
            scheduled: 0,
            ready: VecDeque::new(),
        })
    }

    /// Sends a packet from a host now. Packets with the same `flow` key from the same host are one
    /// flow. A time before that of an earlier call counts as that time.
    ///
    /// # Panics
    /// `from` or `to` is not the number of a host.
    pub fn push(&mut self, now: Time, flow: u64, packet: Packet<P>) {
        assert!((packet.to as usize) < self.hosts.len(), "host {} is not in the network", packet.to);
        self.advance(now);
        let (from, to, bytes) = (packet.from, packet.to, packet.bytes);
        self.count(from, to, |counters| counters.sent.add(1, bytes));
        let host = &mut self.hosts[from as usize];
        let waited = host.uplink.next_at().is_some();
        match host.uplink.offer(self.now, flow, packet) {
            Offered::Leaves(departure) => self.travel(from, departure),
            Offered::Full => self.count(from, to, |counters| counters.drops.uplink_full.add(1, bytes)),
            Offered::Queued if waited => (),
            Offered::Queued => {
                let at = host.uplink.next_at().unwrap_or(self.now);
                self.schedule(at, Event::Uplink { host: from });
            }
        }
    }

    /// Cuts ways from one host to another, or ends a cut of each. Packets that have left travel on.
    pub fn cut(&mut self, now: Time, ways: &[(u32, u32)], is_cut: bool) {
        self.advance(now);
        for way in ways {
            let cuts = self.cuts.entry(*way).or_default();
            *cuts = if is_cut { *cuts + 1 } else { cuts.saturating_sub(1) };
            if *cuts == 0 {
                self.cuts.remove(way);
            }
        }
    }

    /// Changes the rates of a host. Packets that are being sent or received are not affected.
    ///
    /// # Panics
    /// There is no such host.
    pub fn set_rates(&mut self, now: Time, host: u32, uplink_bps: u64, downlink_bps: u64) {
        self.advance(now);
        let state = &mut self.hosts[host as usize];
        state.uplink.set_rate(uplink_bps.max(1));
        state.downlink.set_rate(downlink_bps.max(1));
    }

    /// Returns the next packet received at `now` or before, or `None`. Call it until it returns
    /// `None`.
    pub fn poll(&mut self, now: Time) -> Option<Delivery<P>> {
        self.advance(now);
        self.ready.pop_front()
    }

    /// Returns the time of the next event, which need not be a delivery, or `None` if the network
    /// is empty.
    pub fn next_at(&self) -> Option<Time> {
        if !self.ready.is_empty() {
            return Some(Time::from_nanos(self.now));
        }
        self.events.peek().map(|Reverse((at, _, _))| Time::from_nanos(*at))
    }

    /// Returns the counters of each host so far.
    pub fn counters(&self) -> impl Iterator<Item = &HostCounters> {
        self.hosts.iter().map(|host| &host.counters)
    }

    /// Returns the counters of the gateway of each region so far: out of it, and into it.
    pub fn gateways(&self) -> impl Iterator<Item = [GateStats; 2]> {
        self.gates.stats()
    }

    /// Counts a packet from a host to another, or to a server. Those of servers do not count.
    fn count(&mut self, from: u32, to: u32, count: impl FnOnce(&mut HostCounters)) {
        let at = if to >= self.servers { to } else { from };
        if from < self.servers {
            count(&mut self.hosts[at as usize].counters);
        }
    }

    fn schedule(&mut self, at: u64, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse((at.max(self.now), self.scheduled, event)));
    }

    fn advance(&mut self, now: Time) {
        while let Some(Reverse((at, _, event))) = self.events.peek().copied()
            && at <= now.as_nanos()
        {
            self.events.pop();
            self.now = at;
            match event {
                Event::Uplink { host } => self.send(host),
                Event::Arrival { index } => self.arrive(index),
                Event::Gate { gate } => self.pass(gate),
                Event::Downlink { host } => self.receive(host),
            }
        }
        self.now = self.now.max(now.as_nanos());
    }

    fn send(&mut self, host: u32) {
        let mut dropped = Vec::new();
        let uplink = &mut self.hosts[host as usize].uplink;
        let departure = uplink.send(self.now, &mut dropped);
        let next_at = uplink.next_at().filter(|_| departure.is_some());
        for (to, bytes) in dropped {
            self.count(host, to, |counters| counters.drops.uplink_codel.add(1, bytes));
        }
        if let Some(at) = next_at {
            self.schedule(at, Event::Uplink { host });
        }
        if let Some(departure) = departure {
            self.travel(host, departure);
        }
    }

    fn travel(&mut self, from: u32, departure: Departure<P>) {
        let Departure { packet, flow, end, waited } = departure;
        let is_cut = self.cuts.contains_key(&(from, packet.to));
        let duration = if is_cut { None } else { self.paths.travel(from, packet.to) };
        self.count(from, packet.to, |counters| {
            counters.left.add(1, packet.bytes);
            counters.uplink_wait_max = counters.uplink_wait_max.max(Duration::from_nanos(waited));
        });
        let host = &mut self.hosts[from as usize];
        let Some(duration) = duration else {
            let drops = &mut host.counters.drops;
            if is_cut { &mut drops.cut } else { &mut drops.random }.add(1, packet.bytes);
            host.uplink.arrived(flow);
            return;
        };
        let Some(gate) = self.gates.between(from, packet.to) else {
            let arrival = host.uplink.in_order(flow, end + duration);
            return self.send_on(arrival, Travelling::ToHost { packet, flow });
        };
        let Packet { from, to, bytes, payload } = packet;
        let packet = Packet { from, to, bytes, payload: Passing { payload, flow, way: duration } };
        self.send_on(end, Travelling::ToGate { gate, packet });
    }

    fn send_on(&mut self, arrival: u64, travelling: Travelling<P>) {
        let index = self.travelling.insert(travelling);
        self.schedule(arrival, Event::Arrival { index });
    }

    fn arrive(&mut self, index: usize) {
        match self.travelling.remove(index) {
            Travelling::ToHost { packet, flow } => self.reach(packet, flow),
            Travelling::ToGate { gate, packet } => {
                let waited = self.gates.get(gate).next_at().is_some();
                let passed = self.gates.get(gate).arrive(self.now, packet);
                if !waited {
                    self.schedule_gate(gate);
                }
                self.go_on(gate, passed);
            }
        }
    }

    fn pass(&mut self, gate: GateId) {
        let passed = self.gates.get(gate).pass(self.now);
        self.schedule_gate(gate);
        self.go_on(gate, passed);
    }

    fn schedule_gate(&mut self, gate: GateId) {
        if let Some(at) = self.gates.get(gate).next_at() {
            self.schedule(at, Event::Gate { gate });
        }
    }

    /// Sends a packet that has passed a gateway to the next one, or to its host.
    fn go_on(&mut self, gate: GateId, passed: Passed<P>) {
        match passed {
            Passed::Through(packet) if gate.is_out => {
                let Passing { flow, way, .. } = packet.payload;
                let uplink = &mut self.hosts[packet.from as usize].uplink;
                let arrival = uplink.in_order(flow, self.now + way);
                let gate = self.gates.towards(packet.to);
                self.send_on(arrival, Travelling::ToGate { gate, packet });
            }
            Passed::Through(Packet { from, to, bytes, payload: Passing { payload, flow, .. } }) => {
                self.reach(Packet { from, to, bytes, payload }, flow);
            }
            Passed::Dropped { from, flow } => self.hosts[from as usize].uplink.arrived(flow),
            Passed::Queued => (),
        }
    }

    /// Hands a packet to the downlink of its receiver.
    fn reach(&mut self, packet: Packet<P>, flow: usize) {
        self.hosts[packet.from as usize].uplink.arrived(flow);
        let to = packet.to;
        let host = &mut self.hosts[to as usize];
        let waited = host.downlink.next_at().is_some();
        match host.downlink.arrive(self.now, self.now, packet) {
            Taken::Received(packet) => self.deliver(packet),
            Taken::Full { bytes } => host.counters.drops.downlink_full.add(1, bytes),
            Taken::Queued if waited => (),
            Taken::Queued => self.schedule_downlink(to),
        }
    }

    fn receive(&mut self, to: u32) {
        let host = &mut self.hosts[to as usize];
        // The rate may have fallen since.
        if host.downlink.next_at().is_some_and(|at| at > self.now) {
            return self.schedule_downlink(to);
        }
        match host.downlink.receive(self.now) {
            Some(Left::Received { packet, waited }) => {
                let longest = &mut host.counters.downlink_wait_max;
                *longest = (*longest).max(Duration::from_nanos(waited));
                self.deliver(packet);
            }
            Some(Left::Dropped(packet)) => host.counters.drops.downlink_codel.add(1, packet.bytes),
            None => (),
        }
        self.schedule_downlink(to);
    }

    fn schedule_downlink(&mut self, host: u32) {
        if let Some(at) = self.hosts[host as usize].downlink.next_at() {
            self.schedule(at, Event::Downlink { host });
        }
    }

    fn deliver(&mut self, packet: Packet<P>) {
        if packet.from < self.servers {
            self.hosts[packet.to as usize].counters.received.add(1, packet.bytes);
        }
        self.ready.push_back(Delivery { due: Time::from_nanos(self.now), packet });
    }
}

/// One direction between two hosts.
#[derive(Debug)]
struct Path {
    latency: u64,
    /// Each direction has its own stream, so its losses do not depend on other traffic.
    rng: NodeRng,
}

/// All paths used so far.
#[derive(Debug)]
struct Paths {
    seed: u64,
    latency: Latency,
    hosts: Vec<HostConfig>,
    jitter: u64,
    loss: f64,
    /// Latency to and from servers, whose numbers are beyond those of the hosts.
    server_latency: u64,
    paths: FxHashMap<(u32, u32), Path>,
}

impl Paths {
    fn new(config: &EmulationConfig) -> Self {
        Self {
            seed: config.seed,
            latency: config.latency.clone(),
            hosts: config.hosts.clone(),
            jitter: nanos(config.jitter),
            loss: config.loss,
            server_latency: nanos(config.servers.latency),
            paths: FxHashMap::default(),
        }
    }

    /// Returns the time in nanoseconds that the next packet travels, or `None` if it is lost.
    fn travel(&mut self, from: u32, to: u32) -> Option<u64> {
        if from.max(to) as usize >= self.hosts.len() {
            return Some(self.server_latency);
        }
        let path = self.paths.entry((from, to)).or_insert_with(|| {
            let direction = u64::from(from) << 32 | u64::from(to);
            let rng = NodeRng::new(self.seed, direction, Purpose::Transport);
            Path { latency: self.latency.nanos(self.seed, &self.hosts, from, to), rng }
        });
        if self.loss > 0.0 && path.rng.chance(self.loss) {
            return None;
        }
        let jitter = if self.jitter > 0 { path.rng.below(self.jitter + 1) } else { 0 };
        Some(path.latency + jitter)
    }
}

/// Returns the time of `bytes` bytes at a rate in nanoseconds, rounded up so that the rate is never
/// exceeded.
fn serialisation(bytes: u32, rate_bps: u64) -> u64 {
    u64::from(bytes).saturating_mul(8_000_000_000).div_ceil(rate_bps)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
