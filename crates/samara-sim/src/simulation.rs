//! Hosts through windows of time, on one or more threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use samara_engine::{Engine, Time};

use crate::config::{HostConfig, SimConfig};
use crate::digest::Digest;
use crate::error::ConfigError;
use crate::gateway::{Gate, GateStats, gate_of};
use crate::host::{Action, Host};
use crate::mconn::ConnectionStats;
use crate::packet::{Packet, Stop};
use crate::stats::HostStats;
use crate::world::{NodeFactory, World};

/// Something that a node told its application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<E> {
    /// When.
    pub at: Time,
    /// At which host.
    pub host: u32,
    /// What.
    pub event: E,
}

/// A network of nodes in virtual time.
///
/// ```text
/// Simulation::new -> connect / command / crash ... -> run_until (as often as wanted) -> node, stats, digest
/// ```
pub struct Simulation<N: Engine> {
    world: World<N>,
    shards: Vec<Shard<N>>,
    /// Hosts in each shard but the last.
    shard_len: usize,
    started: bool,
    now: u64,
    windows: u64,
}

/// Packets from one thread to another.
type Mailbox<F> = Mutex<Vec<Packet<F>>>;

/// The hosts of one thread.
struct Shard<N: Engine> {
    first: u32,
    hosts: Vec<Host<N>>,
    /// When something happens next at each host.
    next_at: Vec<u64>,
    records: Vec<Record<N::Event>>,
    arrivals: Vec<Packet<N::Frame>>,
    /// Every so many of the network's gates, as there are shards.
    gates: Vec<Gate<N::Frame>>,
}

impl<N: Engine> Simulation<N> {
    /// A network of hosts without links. `factory` makes the node of each host, and a new one when a host restarts.
    ///
    /// # Errors
    /// A value of the configuration that cannot be simulated.
    pub fn new(
        config: SimConfig,
        hosts: Vec<HostConfig>,
        factory: NodeFactory<N>,
    ) -> Result<Self, ConfigError> {
        crate::error::check(&config, &hosts)?;
        let threads = config.threads.clamp(1, hosts.len());
        let shard_len = hosts.len().div_ceil(threads);
        let protocol: Arc<dyn Fn(u32, u32) -> Arc<str> + Send + Sync> = {
            let none: Arc<str> = "".into();
            Arc::new(move |_, _| none.clone())
        };
        let mut world = World { config, hosts, factory, protocol, access: 0 };
        world.access = world.lookahead();
        let numbers: Vec<u32> = (0..world.hosts.len() as u32).collect();
        let mut shards: Vec<Shard<N>> = numbers
            .chunks(shard_len)
            .map(|chunk| Shard {
                first: chunk[0],
                hosts: chunk.iter().map(|id| Host::new(*id, &world)).collect(),
                next_at: vec![u64::MAX; chunk.len()],
                records: Vec::new(),
                arrivals: Vec::new(),
                gates: Vec::new(),
            })
            .collect();
        let count = shards.len();
        let gateways = &world.config.network.gateways;
        for gate in 0..2 * gateways.len() {
            shards[gate % count].gates.push(Gate::new(gate, gateways));
        }
        if let Some(config) = world.config.transport.connection.channels() {
            for host in shards.iter().flat_map(|shard| &shard.hosts) {
                crate::mconn::check_outbox(config, host.outbox.config())?;
            }
        }
        Ok(Self { world, shards, shard_len, started: false, now: 0, windows: 0 })
    }

    /// Sets which protocol a pair of hosts agrees on: the first is the one that is told of the second.
    pub fn set_protocol(&mut self, protocol: impl Fn(u32, u32) -> Arc<str> + Send + Sync + 'static) {
        self.world.protocol = Arc::new(protocol);
    }

    /// Has `dialler` dial `listener` at a time; the handshake takes its round trips.
    pub fn dial(&mut self, at: Time, dialler: u32, listener: u32) {
        self.schedule(at, dialler, Action::Dial(listener));
    }

    /// Brings a link up at both ends at a time, without a handshake.
    pub fn establish(&mut self, at: Time, dialler: u32, listener: u32) {
        let mut slot_at = |host: u32, peer: u32| {
            let (shard, index) = (host as usize / self.shard_len, host as usize % self.shard_len);
            self.shards[shard].hosts[index].slot(peer, &self.world)
        };
        let here = slot_at(dialler, listener);
        let there = slot_at(listener, dialler);
        let end = |peer, slot, peer_slot, outbound| Action::Establish { peer, peer_slot, slot, outbound };
        self.schedule(at, dialler, end(listener, here, there, true));
        self.schedule(at, listener, end(dialler, there, here, false));
    }

    /// Gives a node a command at a time. It is lost if the node is down then.
    pub fn command(&mut self, at: Time, host: u32, command: N::Command) {
        self.schedule(at, host, Action::Command(command));
    }

    /// Ends the process of a host. Its peers are told at once, or, if the host itself dies (`silent`), find out after
    /// the time that the transport sets for dead peers.
    pub fn crash(&mut self, at: Time, host: u32, silent: bool) {
        self.schedule(at, host, Action::Crash { silent });
    }

    /// Starts a crashed host again with a new node, which dials all peers that the old one was given.
    pub fn restart(&mut self, at: Time, host: u32) {
        self.schedule(at, host, Action::Restart);
    }

    /// Changes the rates of a host.
    pub fn set_rates(&mut self, at: Time, host: u32, uplink_bps: u64, downlink_bps: u64) {
        self.schedule(at, host, Action::SetRates { uplink_bps, downlink_bps });
    }

    fn schedule(&mut self, at: Time, host: u32, action: Action<N::Command>) {
        let at = at.as_nanos().max(self.now);
        let (shard, index) = (host as usize / self.shard_len, host as usize % self.shard_len);
        let shard = &mut self.shards[shard];
        shard.hosts[index].schedule(at, action);
        shard.next_at[index] = shard.next_at[index].min(at);
    }

    /// Simulates everything before `until` and hands what nodes told their applications to `observer`, ordered by time
    /// and then by host.
    pub fn run_until(&mut self, until: Time, mut observer: impl FnMut(Record<N::Event>)) {
        let until = until.as_nanos();
        if !self.started {
            self.started = true;
            for shard in &mut self.shards {
                shard.start(&self.world);
            }
            self.exchange_outgoing();
            self.hand_over(&mut observer);
        }
        if self.shards.len() == 1 {
            self.run_alone(until, &mut observer);
        } else {
            self.run_threads(until, &mut observer);
        }
        self.now = self.now.max(until);
    }

    fn run_alone(&mut self, until: u64, observer: &mut impl FnMut(Record<N::Event>)) {
        let lookahead = self.world.lookahead();
        let mut mail = Vec::new();
        loop {
            let shard = &mut self.shards[0];
            let start = shard.next();
            if start >= until {
                return;
            }
            shard.run(start.saturating_add(lookahead).min(until), &self.world, &mut mail);
            for packet in mail.drain(..) {
                shard.post(packet, &self.world, 1);
            }
            self.windows += 1;
            self.hand_over(observer);
        }
    }

    /// The same on several threads: every thread runs its shard through the window, then takes its mail; the first
    /// thread hands over the records meanwhile.
    fn run_threads(&mut self, until: u64, observer: &mut impl FnMut(Record<N::Event>)) {
        let lookahead = self.world.lookahead();
        let count = self.shards.len();
        let shard_len = self.shard_len;
        let world = &self.world;
        let barrier = Barrier::new(count);
        let next: Vec<AtomicU64> = self.shards.iter().map(|shard| AtomicU64::new(shard.next())).collect();
        let mail: Vec<Vec<Mailbox<N::Frame>>> =
            (0..count).map(|_| (0..count).map(|_| Mutex::default()).collect()).collect();
        let records: Vec<Mutex<Vec<Record<N::Event>>>> = (0..count).map(|_| Mutex::default()).collect();
        let windows = AtomicU64::new(0);

        let work = |index: usize, shard: &mut Shard<N>, mut each_window: Box<dyn FnMut() + '_>| {
            let mut outgoing = Vec::new();
            let mut sorted: Vec<Vec<Packet<N::Frame>>> = (0..count).map(|_| Vec::new()).collect();
            loop {
                let start = next.iter().map(|next| next.load(Ordering::SeqCst)).min().unwrap_or(u64::MAX);
                if start >= until {
                    return;
                }
                shard.run(start.saturating_add(lookahead).min(until), world, &mut outgoing);
                for packet in outgoing.drain(..) {
                    sorted[shard_of(&packet, world, shard_len, count)].push(packet);
                }
                for (to, packets) in sorted.iter_mut().enumerate() {
                    std::mem::swap(&mut *lock(&mail[index][to]), packets);
                }
                lock(&records[index]).append(&mut shard.records);
                barrier.wait();
                for from in &mail {
                    for packet in lock(&from[index]).drain(..) {
                        shard.post(packet, world, count);
                    }
                }
                next[index].store(shard.next(), Ordering::SeqCst);
                each_window();
                barrier.wait();
            }
        };

        std::thread::scope(|scope| {
            let mut shards = self.shards.iter_mut().enumerate();
            let first = shards.next();
            for (index, shard) in shards {
                let work = &work;
                scope.spawn(move || work(index, shard, Box::new(|| {})));
            }
            if let Some((index, shard)) = first {
                let mut merged = Vec::new();
                let (records, windows) = (&records, &windows);
                work(
                    index,
                    shard,
                    Box::new(move || {
                        windows.fetch_add(1, Ordering::Relaxed);
                        for records in records {
                            merged.append(&mut lock(records));
                        }
                        in_order(&mut merged, observer);
                    }),
                );
            }
        });
        self.windows += windows.into_inner();
    }

    fn hand_over(&mut self, observer: &mut impl FnMut(Record<N::Event>)) {
        let mut merged = Vec::new();
        for shard in &mut self.shards {
            merged.append(&mut shard.records);
        }
        in_order(&mut merged, observer);
        // The allocation goes back to be used again.
        self.shards[0].records = merged;
    }

    fn exchange_outgoing(&mut self) {
        let mut mail = Vec::new();
        for shard in &mut self.shards {
            shard.take_outgoing(&mut mail);
        }
        let count = self.shards.len();
        for packet in mail {
            let shard = shard_of(&packet, &self.world, self.shard_len, count);
            self.shards[shard].post(packet, &self.world, count);
        }
    }

    /// The time up to which everything has been simulated.
    pub fn now(&self) -> Time {
        Time::from_nanos(self.now)
    }

    /// The node of a host.
    pub fn node(&self, host: u32) -> &N {
        &self.host(host).node
    }

    /// The outbox of a host.
    pub fn outbox(&self, host: u32) -> &samara_engine::Outbox<N::Frame> {
        &self.host(host).outbox
    }

    /// Whether the host's process runs.
    pub fn is_running(&self, host: u32) -> bool {
        self.host(host).running
    }

    /// The host behind a peer handle of another host.
    ///
    /// # Panics
    /// If the host never gave out that handle.
    pub fn peer_of(&self, host: u32, peer: samara_engine::PeerId) -> u32 {
        self.host(host).links[peer.index()].peer
    }

    /// The handle under which a host knows another one, if it ever met it.
    pub fn handle_of(&self, host: u32, peer: u32) -> Option<samara_engine::PeerId> {
        self.host(host).slot_of.get(&peer).map(|slot| samara_engine::PeerId(*slot))
    }

    /// The congestion window of a host's link in packets.
    ///
    /// # Panics
    /// If the host never gave out that handle.
    pub fn congestion_window(&self, host: u32, peer: samara_engine::PeerId) -> f64 {
        self.host(host).links[peer.index()].sender.cwnd()
    }

    /// What a host has done so far.
    pub fn stats(&self, host: u32) -> &HostStats {
        &self.host(host).stats
    }

    /// What a host's connections with channels wrote so far; `None` if there are no channels.
    pub fn connection_stats(&self, host: u32) -> Option<&ConnectionStats> {
        self.host(host).connection_stats.as_deref()
    }

    /// What passed the gateway of a region so far: out of it, and into it. `None` if there is no such gateway.
    pub fn gateway_stats(&self, region: u16) -> Option<[GateStats; 2]> {
        let gate = |stop| {
            let (number, count) = (gate_of(region, stop), self.shards.len());
            self.shards[number % count].gates.get(number / count).map(Gate::stats)
        };
        Some([gate(Stop::Out)?, gate(Stop::In)?])
    }

    /// Packets sent, received and passed on by gateways, and timers fired: the work done.
    pub fn steps(&self) -> u64 {
        let hosts = self.shards.iter().flat_map(|shard| &shard.hosts).map(|host| host.stats.steps);
        let gates = self.shards.iter().flat_map(|shard| &shard.gates).map(Gate::steps);
        hosts.chain(gates).sum()
    }

    /// Windows of time simulated so far.
    pub fn windows(&self) -> u64 {
        self.windows
    }

    /// A digest of every packet that every host received: two runs with the same digest were the same run.
    pub fn digest(&self) -> u64 {
        let mut all = Digest::new();
        for host in self.shards.iter().flat_map(|shard| &shard.hosts) {
            all.word(host.digest.value());
        }
        all.value()
    }

    /// Whether a latency was raised to [`LATENCY_FLOOR`](crate::LATENCY_FLOOR).
    pub fn latency_was_raised(&self) -> bool {
        crate::error::below_floor(&self.world.config.network.latency)
    }

    fn host(&self, host: u32) -> &Host<N> {
        &self.shards[host as usize / self.shard_len].hosts[host as usize % self.shard_len]
    }
}

impl<N: Engine> Shard<N> {
    fn start(&mut self, world: &World<N>) {
        for host in &mut self.hosts {
            host.links.shrink_to_fit();
            host.start(0, world);
        }
        self.collect_records();
        for (next_at, host) in self.next_at.iter_mut().zip(&self.hosts) {
            *next_at = host.next_at();
        }
    }

    /// The next time at which something happens in this shard.
    fn next(&self) -> u64 {
        let gates = self.gates.iter().map(Gate::next_at);
        self.next_at.iter().copied().chain(gates).min().unwrap_or(u64::MAX)
    }

    fn run(&mut self, end: u64, world: &World<N>, mail: &mut Vec<Packet<N::Frame>>) {
        for (index, (host, next_at)) in self.hosts.iter_mut().zip(&mut self.next_at).enumerate() {
            if *next_at >= end {
                continue;
            }
            // All hosts of a shard share these two buffers: each host would keep those of its busiest window.
            std::mem::swap(&mut host.outgoing, mail);
            std::mem::swap(&mut host.arrivals, &mut self.arrivals);
            host.run(end, world);
            std::mem::swap(&mut host.arrivals, &mut self.arrivals);
            std::mem::swap(&mut host.outgoing, mail);
            *next_at = host.next_at();
            let id = self.first + index as u32;
            self.records.extend(host.records.drain(..).map(|(at, event)| Record {
                at: Time::from_nanos(at),
                host: id,
                event,
            }));
        }
        for gate in &mut self.gates {
            gate.run(end, world, mail);
        }
    }

    fn collect_records(&mut self) {
        for host in &mut self.hosts {
            let id = host.id;
            self.records.extend(host.records.drain(..).map(|(at, event)| Record {
                at: Time::from_nanos(at),
                host: id,
                event,
            }));
        }
    }

    fn take_outgoing(&mut self, mail: &mut Vec<Packet<N::Frame>>) {
        for host in &mut self.hosts {
            mail.append(&mut host.outgoing);
        }
    }

    /// Puts a packet into the inbox of its next stop, in one of so many shards.
    fn post(&mut self, packet: Packet<N::Frame>, world: &World<N>, shards: usize) {
        match packet.heading.stop() {
            Stop::Host(host) => {
                let index = (host - self.first) as usize;
                self.next_at[index] = self.next_at[index].min(packet.arrive);
                self.hosts[index].inbox.push(packet);
            }
            Stop::Out | Stop::In => self.gates[next_gate(&packet, world) / shards].post(packet),
        }
    }
}

/// The shard in which a packet stops next.
fn shard_of<N: Engine>(
    packet: &Packet<N::Frame>,
    world: &World<N>,
    shard_len: usize,
    shards: usize,
) -> usize {
    match packet.heading.stop() {
        Stop::Host(host) => host as usize / shard_len,
        Stop::Out | Stop::In => next_gate(packet, world) % shards,
    }
}

/// The number of the gate that a packet comes to next.
fn next_gate<N: Engine>(packet: &Packet<N::Frame>, world: &World<N>) -> usize {
    let stop = packet.heading.stop();
    let host = if stop == Stop::Out { packet.src } else { packet.heading.host() };
    gate_of(world.hosts[host as usize].region, stop)
}

/// Hands records over by time, then host, then the order in which the host made them.
fn in_order<E>(records: &mut Vec<Record<E>>, observer: &mut impl FnMut(Record<E>)) {
    records.sort_by_key(|record| (record.at, record.host));
    for record in records.drain(..) {
        observer(record);
    }
}

/// A thread that panics ends the whole simulation, so that what it left is never read.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
