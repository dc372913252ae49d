//! The hosts that one thread simulates.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use samara_engine::Frame;

use crate::gateway::{Gate, gate_of};
use crate::host::Host;
use crate::packet::{Packet, Stop};
use crate::world::World;

/// So many hosts of a shard are simulated before it looks whether others have sent something.
const HOSTS_BETWEEN_MAIL: usize = 64;
/// Packets that are handed over together, so that locks are rare.
const BUNDLE: usize = 512;

/// What came for a shard and was not taken yet. The order in which packets are taken does not matter: a host sorts those of a window.
pub(crate) type Mailbox<F> = Mutex<Vec<Packet<F>>>;

pub(crate) struct Shard<F: Frame> {
    number: usize,
    first: u32,
    pub(crate) hosts: Vec<Host<F>>,
    /// When something happens next at each host.
    pub(crate) next_at: Vec<u64>,
    /// All hosts of a shard share these two buffers: each host would keep those of its busiest window.
    arrivals: Vec<Packet<F>>,
    outgoing: Vec<Packet<F>>,
    /// Every so many of the network's gates, as there are shards.
    pub(crate) gates: Vec<Gate<F>>,
    /// What its hosts have done so far.
    pub(crate) steps: u64,
    /// What was not handed over yet, by shard.
    waiting: Vec<Vec<Packet<F>>>,
    /// The memory of a mailbox that was emptied.
    taken: Vec<Packet<F>>,
    /// To hosts of other processes.
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
            gates: gates.map(|gate| Gate::new(gate, gateways)).collect(),
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

    /// The next time at which something happens in this shard.
    pub(crate) fn next(&self) -> u64 {
        let gates = self.gates.iter().map(Gate::next_at);
        self.next_at.iter().copied().chain(gates).min().unwrap_or(u64::MAX)
    }

    /// Simulates everything that happens before `end`. Packets go to the inboxes of this shard at once: none of them arrives in this window.
    pub(crate) fn run(&mut self, end: u64, world: &World<F>) {
        for index in 0..self.hosts.len() {
            if index % HOSTS_BETWEEN_MAIL == 0 {
                // What waits for the end of the window is twice in memory.
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

    /// Has a host work, and sends what leaves it.
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

    /// Sends what leaves this shard, and puts what stays into its inbox.
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

    /// Puts what other shards sent since the last time into its inbox.
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

/// The number of the gate that a packet comes to next.
fn next_gate<F: Frame>(packet: &Packet<F>, world: &World<F>) -> usize {
    let stop = packet.heading.stop();
    let host = if stop == Stop::Out { packet.src } else { packet.heading.host() };
    gate_of(world.hosts[host as usize].region, stop)
}

/// A thread that panics ends the whole simulation, so that what it left is never read.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
