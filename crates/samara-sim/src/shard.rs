//! The hosts that one thread simulates.

use std::sync::{Mutex, MutexGuard, PoisonError};

use samara_engine::{Engine, Time};

use crate::gateway::{Gate, gate_of};
use crate::host::Host;
use crate::packet::{Packet, Stop};
use crate::simulation::Record;
use crate::world::World;

/// The hosts of one thread.
pub(crate) struct Shard<N: Engine> {
    pub(crate) first: u32,
    pub(crate) hosts: Vec<Host<N>>,
    /// When something happens next at each host.
    pub(crate) next_at: Vec<u64>,
    pub(crate) records: Vec<Record<N::Event>>,
    /// All hosts of a shard share these two buffers: each host would keep those of its busiest window.
    pub(crate) arrivals: Vec<Packet<N::Frame>>,
    pub(crate) outgoing: Vec<Packet<N::Frame>>,
    /// Every so many of the network's gates, as there are shards.
    pub(crate) gates: Vec<Gate<N::Frame>>,
    /// What its hosts have done so far.
    pub(crate) steps: u64,
}

/// So many hosts of a shard are simulated before it looks whether others have sent something.
const HOSTS_BETWEEN_MAIL: usize = 64;

impl<N: Engine> Shard<N> {
    pub(crate) fn start(&mut self, world: &World<N>) {
        for host in &mut self.hosts {
            host.links.shrink_to_fit();
            host.start(0, world);
            collect_records(host, &mut self.records);
        }
        for (next_at, host) in self.next_at.iter_mut().zip(&self.hosts) {
            *next_at = host.next_at();
        }
    }

    /// The next time at which something happens in this shard.
    pub(crate) fn next(&self) -> u64 {
        let gates = self.gates.iter().map(Gate::next_at);
        self.next_at.iter().copied().chain(gates).min().unwrap_or(u64::MAX)
    }

    /// Simulates everything that happens before `end`. Packets go to the inboxes of this shard at once: none of them arrives in this window.
    pub(crate) fn run(
        &mut self,
        end: u64,
        world: &World<N>,
        shard_len: usize,
        mail: &mut Mail<'_, N::Frame>,
    ) {
        for index in 0..self.hosts.len() {
            if index % HOSTS_BETWEEN_MAIL == 0 {
                // What waits for the end of the window is twice in memory.
                self.take(mail, world);
            }
            if self.next_at[index] >= end {
                continue;
            }
            let host = &mut self.hosts[index];
            std::mem::swap(&mut host.outgoing, &mut self.outgoing);
            std::mem::swap(&mut host.arrivals, &mut self.arrivals);
            let before = host.stats.steps;
            host.run(end, world);
            self.steps += host.stats.steps - before;
            std::mem::swap(&mut host.arrivals, &mut self.arrivals);
            std::mem::swap(&mut host.outgoing, &mut self.outgoing);
            self.next_at[index] = host.next_at();
            collect_records(host, &mut self.records);
            self.send(world, shard_len, mail);
        }
        for index in 0..self.gates.len() {
            self.gates[index].run(end, world, &mut self.outgoing);
            self.send(world, shard_len, mail);
        }
    }

    /// Sends what leaves this shard, and puts what stays into its inbox.
    fn send(&mut self, world: &World<N>, shard_len: usize, mail: &mut Mail<'_, N::Frame>) {
        let mut outgoing = std::mem::take(&mut self.outgoing);
        for packet in outgoing.drain(..) {
            if !world.local.contains(&packet.heading.host()) {
                mail.remote.push(packet);
                continue;
            }
            match shard_of(&packet, world, shard_len, mail.shards()) {
                shard if shard == mail.own() => self.post(packet, world, mail.shards()),
                shard => mail.send(shard, packet),
            }
        }
        self.outgoing = outgoing;
    }

    /// Puts what other shards sent into its inbox.
    pub(crate) fn take(&mut self, mail: &mut Mail<'_, N::Frame>, world: &World<N>) {
        let shards = mail.shards();
        for packet in mail.take() {
            self.post(packet, world, shards);
        }
    }

    pub(crate) fn take_outgoing(&mut self, mail: &mut Vec<Packet<N::Frame>>) {
        for host in &mut self.hosts {
            mail.append(&mut host.outgoing);
        }
    }

    /// Puts a packet into the inbox of its next stop, in one of so many shards.
    pub(crate) fn post(&mut self, packet: Packet<N::Frame>, world: &World<N>, shards: usize) {
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

fn collect_records<N: Engine>(host: &mut Host<N>, records: &mut Vec<Record<N::Event>>) {
    let id = host.id;
    let events = host.records.drain(..);
    records.extend(events.map(|(at, event)| Record { at: Time::from_nanos(at), host: id, event }));
}

/// The shard in which a packet stops next.
pub(crate) fn shard_of<N: Engine>(
    packet: &Packet<N::Frame>,
    world: &World<N>,
    shard_len: usize,
    shards: usize,
) -> usize {
    match packet.heading.stop() {
        Stop::Host(host) => (host - world.local.start) as usize / shard_len,
        Stop::Out | Stop::In => next_gate(packet, world) % shards,
    }
}

/// The number of the gate that a packet comes to next.
fn next_gate<N: Engine>(packet: &Packet<N::Frame>, world: &World<N>) -> usize {
    let stop = packet.heading.stop();
    let host = if stop == Stop::Out { packet.src } else { packet.heading.host() };
    gate_of(world.hosts[host as usize].region, stop)
}

/// Packets that are handed over together, so that locks are rare.
const BUNDLE: usize = 512;

/// What came for a shard and was not taken yet.
pub(crate) type Mailbox<F> = Mutex<Vec<Packet<F>>>;

/// What a shard sends to others, and what they sent to it. The order in which packets are taken does not matter: a host sorts those of a
/// window.
pub(crate) struct Mail<'a, F> {
    own: usize,
    /// By shard.
    boxes: &'a [Mailbox<F>],
    waiting: Vec<Vec<Packet<F>>>,
    taken: Vec<Packet<F>>,
    /// To hosts of other processes.
    pub(crate) remote: Vec<Packet<F>>,
}

impl<'a, F> Mail<'a, F> {
    /// That of the shard with a number.
    pub(crate) fn new(own: usize, boxes: &'a [Mailbox<F>]) -> Self {
        Self {
            own,
            boxes,
            waiting: boxes.iter().map(|_| Vec::new()).collect(),
            taken: Vec::new(),
            remote: Vec::new(),
        }
    }

    /// The number of the shard.
    pub(crate) const fn own(&self) -> usize {
        self.own
    }

    /// How many shards there are.
    pub(crate) const fn shards(&self) -> usize {
        self.boxes.len()
    }

    /// Sends a packet to another shard, sooner or later.
    pub(crate) fn send(&mut self, to: usize, packet: Packet<F>) {
        self.waiting[to].push(packet);
        if self.waiting[to].len() >= BUNDLE {
            self.hand_over(to);
        }
    }

    /// Sends what waits.
    pub(crate) fn flush(&mut self) {
        (0..self.waiting.len()).for_each(|to| self.hand_over(to));
    }

    fn hand_over(&mut self, to: usize) {
        if !self.waiting[to].is_empty() {
            lock(&self.boxes[to]).append(&mut self.waiting[to]);
        }
    }

    /// What came since the last time.
    pub(crate) fn take(&mut self) -> std::vec::Drain<'_, Packet<F>> {
        std::mem::swap(&mut *lock(&self.boxes[self.own]), &mut self.taken);
        self.taken.drain(..)
    }
}

/// A thread that panics ends the whole simulation, so that what it left is never read.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
