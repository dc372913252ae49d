//! A shard: the hosts that one thread simulates.

use std::ops::Range;
use std::sync::Mutex;

use samara_engine::{Frame, lock};

use crate::gateway::{Gate, gate_of};
use crate::host::Host;
use crate::packet::{Packet, Stop};
use crate::world::World;

/// Number of hosts that a shard simulates between two checks of its mailbox.
const HOSTS_BETWEEN_MAIL: usize = 64;
/// Number of packets that are passed to another shard together, so that locks are rare.
const BUNDLE: usize = 512;

/// Packets for a shard that it has not taken yet. The order of taking them does not matter: a host
/// sorts the packets of a window.
pub(crate) type Mailbox<F> = Mutex<Vec<Packet<F>>>;

pub(crate) struct Shard<F: Frame> {
    number: usize,
    first: u32,
    pub(crate) hosts: Vec<Host<F>>,
    /// The time of the next event at each host.
    pub(crate) next_at: Vec<u64>,
    /// All hosts of a shard share these two buffers; otherwise each host would keep those of its
    /// busiest window.
    arrivals: Vec<Packet<F>>,
    outgoing: Vec<Packet<F>>,
    /// Every n-th gate of the network, where n is the number of shards.
    pub(crate) gates: Vec<Gate<F>>,
    /// The steps of its hosts so far.
    pub(crate) steps: u64,
    /// Packets that were not passed on yet, by shard.
    waiting: Vec<Vec<Packet<F>>>,
    /// The spare memory for the next swap of the mailbox.
    taken: Vec<Packet<F>>,
    /// Packets to hosts of other processes.
    pub(crate) remote: Vec<Packet<F>>,
}

impl<F: Frame> Shard<F> {
    pub(crate) fn new(number: usize, hosts: Range<u32>, world: &World<F>) -> Self {
        let (shards, gateways) = (world.boxes.len(), &world.config.network.gateways);
        let gates = (number..2 * gateways.len()).step_by(shards);
        Self {
            number,
            first: hosts.start,
            next_at: vec![u64::MAX; hosts.len()],
            hosts: hosts.map(|id| Host::new(id, world)).collect(),
            arrivals: Vec::new(),
            outgoing: Vec::new(),
            gates: gates.map(|gate| Gate::new(gate, gateways, world.config.seed)).collect(),
            steps: 0,
            waiting: (0..shards).map(|_| Vec::new()).collect(),
            taken: Vec::new(),
            remote: Vec::new(),
        }
    }

    pub(crate) fn start(&mut self, world: &World<F>) {
        for index in 0..self.hosts.len() {
            self.hosts[index].links.shrink_to_fit();
            self.work(index, world, |host| host.start(0, world));
        }
        self.flush(world);
    }

    /// Returns the time of the next event in this shard.
    pub(crate) fn next(&self) -> u64 {
        let gates = self.gates.iter().map(Gate::next_at);
        self.next_at.iter().copied().chain(gates).min().unwrap_or(u64::MAX)
    }

    /// Simulates everything that happens before `end`. Packets to hosts of this shard go to their
    /// inboxes at once: none of them arrives in this window.
    pub(crate) fn run(&mut self, end: u64, world: &World<F>) {
        for index in 0..self.hosts.len() {
            if index % HOSTS_BETWEEN_MAIL == 0 {
                // Packets that wait for the end of the window would occupy memory twice.
                self.take(world);
            }
            if self.next_at[index] < end {
                self.work(index, world, |host| host.run(end, world));
            }
        }
        for index in 0..self.gates.len() {
            self.gates[index].run(end, world, &mut self.outgoing);
            self.send(world);
        }
        self.flush(world);
    }

    /// Lets a host work, and sends the packets that leave it.
    fn work(&mut self, index: usize, world: &World<F>, act: impl FnOnce(&mut Host<F>)) {
        let host = &mut self.hosts[index];
        std::mem::swap(&mut host.outgoing, &mut self.outgoing);
        std::mem::swap(&mut host.arrivals, &mut self.arrivals);
        let before = host.stats.steps;
        act(host);
        self.steps += host.stats.steps - before;
        std::mem::swap(&mut host.arrivals, &mut self.arrivals);
        std::mem::swap(&mut host.outgoing, &mut self.outgoing);
        self.next_at[index] = host.next_at();
        self.send(world);
    }

    /// Sends packets to other shards, and puts local packets into inboxes.
    fn send(&mut self, world: &World<F>) {
        let mut outgoing = std::mem::take(&mut self.outgoing);
        for packet in outgoing.drain(..) {
            let to = match packet.heading.stop() {
                Stop::Host(host) => world.place(host).map(|(shard, _)| shard),
                Stop::Out | Stop::In => Some(next_gate(&packet, world) % world.boxes.len()),
            };
            match to {
                None => self.remote.push(packet),
                Some(own) if own == self.number => self.post(packet, world),
                Some(to) => {
                    self.waiting[to].push(packet);
                    if self.waiting[to].len() >= BUNDLE {
                        self.hand_over(to, world);
                    }
                }
            }
        }
        self.outgoing = outgoing;
    }

    fn flush(&mut self, world: &World<F>) {
        (0..self.waiting.len()).for_each(|to| self.hand_over(to, world));
    }

    fn hand_over(&mut self, to: usize, world: &World<F>) {
        if !self.waiting[to].is_empty() {
            lock(&world.boxes[to]).append(&mut self.waiting[to]);
        }
    }

    /// Moves the packets that other shards have sent since the last call into inboxes.
    pub(crate) fn take(&mut self, world: &World<F>) {
        let mut taken = std::mem::take(&mut self.taken);
        std::mem::swap(&mut *lock(&world.boxes[self.number]), &mut taken);
        taken.drain(..).for_each(|packet| self.post(packet, world));
        self.taken = taken;
    }

    /// Puts a packet into the inbox of its next stop.
    pub(crate) fn post(&mut self, packet: Packet<F>, world: &World<F>) {
        match packet.heading.stop() {
            Stop::Host(host) => {
                let index = (host - self.first) as usize;
                self.next_at[index] = self.next_at[index].min(packet.arrive);
                self.hosts[index].inbox.push(packet);
            }
            Stop::Out | Stop::In => self.gates[next_gate(&packet, world) / world.boxes.len()].post(packet),
        }
    }
}

/// Returns the number of the next gate of a packet.
fn next_gate<F: Frame>(packet: &Packet<F>, world: &World<F>) -> usize {
    let stop = packet.heading.stop();
    let host = if stop == Stop::Out { packet.src } else { packet.heading.host() };
    gate_of(world.hosts[host as usize].region, stop)
}
