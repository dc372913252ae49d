//! A host's uplink: a rate, and the queues of its flows.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use samara_sim::{NicDiscipline, QueueSize};
use slab::Slab;

use super::{Packet, Waiting, serialisation};
use crate::config::UplinkQueue;

/// One flow of a host. It exists while any packet of it waits or is in flight.
#[derive(Debug)]
struct Flow<P> {
    key: u64,
    queue: VecDeque<Waiting<P>>,
    bytes: u64,
    /// The latest arrival so far, which keeps packets in order under jitter.
    last_arrival: u64,
    on_the_way: u32,
}

/// The uplink of a host. Times are in nanoseconds.
#[derive(Debug)]
pub(crate) struct Uplink<P> {
    rate_bps: u64,
    discipline: NicDiscipline,
    limits: UplinkQueue,
    flows: Slab<Flow<P>>,
    by_key: FxHashMap<u64, usize>,
    /// Round-robin: each waiting flow once. Fifo: the flow of every waiting packet.
    turn: VecDeque<usize>,
    queued_bytes: u64,
    /// End of the last packet sent.
    free_at: u64,
}

/// A packet that has begun to leave.
#[derive(Debug)]
pub(crate) struct Departure<P> {
    pub(crate) packet: Packet<P>,
    pub(crate) flow: usize,
    /// The time at which its last bit leaves.
    pub(crate) end: u64,
    pub(crate) waited: u64,
}

#[derive(Debug)]
pub(crate) enum Offered<P> {
    Leaves(Departure<P>),
    Queued,
    Full,
}

impl<P> Uplink<P> {
    pub(crate) fn new(rate_bps: u64, discipline: NicDiscipline, limits: UplinkQueue) -> Self {
        Self {
            rate_bps,
            discipline,
            limits,
            flows: Slab::new(),
            by_key: FxHashMap::default(),
            turn: VecDeque::new(),
            queued_bytes: 0,
            free_at: 0,
        }
    }

    /// Returns the time at which the next packet begins to leave, or `None` if no packet waits.
    pub(crate) fn next_at(&self) -> Option<u64> {
        if self.turn.is_empty() { None } else { Some(self.free_at) }
    }

    pub(crate) fn offer(&mut self, now: u64, key: u64, packet: Packet<P>) -> Offered<P> {
        if self.turn.is_empty() && self.free_at <= now {
            let flow = self.flow(key);
            return Offered::Leaves(self.depart(now, flow, Waiting { packet, since: now }));
        }
        let bytes = u64::from(packet.bytes);
        let index = self.flow(key);
        let has_room = self.takes(self.queued_bytes + bytes);
        let flow = &mut self.flows[index];
        let flow_full =
            self.discipline == NicDiscipline::RoundRobin && flow.bytes + bytes > self.limits.flow_bytes;
        if flow_full || !has_room {
            self.forget_if_idle(index);
            return Offered::Full;
        }
        if self.discipline != NicDiscipline::RoundRobin || flow.queue.is_empty() {
            self.turn.push_back(index);
        }
        flow.queue.push_back(Waiting { packet, since: now });
        flow.bytes += bytes;
        self.queued_bytes += bytes;
        Offered::Queued
    }

    /// Returns true if so many bytes may wait.
    fn takes(&self, bytes: u64) -> bool {
        let fits = match self.discipline {
            NicDiscipline::DropTail(QueueSize::Bytes(most)) => bytes <= most,
            NicDiscipline::DropTail(QueueSize::Time(most)) => {
                bytes as f64 * 8.0 <= most.as_secs_f64() * self.rate_bps as f64
            }
            NicDiscipline::RoundRobin | NicDiscipline::Fifo | NicDiscipline::FqCoDel(_) => true,
        };
        fits && bytes <= self.limits.total_bytes
    }

    /// Begins to send the next packet at `now`, which is [`next_at`](Self::next_at).
    pub(crate) fn send(&mut self, now: u64) -> Option<Departure<P>> {
        let index = self.turn.pop_front()?;
        let flow = &mut self.flows[index];
        let waiting = flow.queue.pop_front()?;
        flow.bytes -= u64::from(waiting.packet.bytes);
        self.queued_bytes -= u64::from(waiting.packet.bytes);
        if self.discipline == NicDiscipline::RoundRobin && !flow.queue.is_empty() {
            self.turn.push_back(index);
        }
        Some(self.depart(now, index, waiting))
    }

    fn depart(&mut self, now: u64, flow: usize, waiting: Waiting<P>) -> Departure<P> {
        self.flows[flow].on_the_way += 1;
        self.free_at = now + serialisation(waiting.packet.bytes, self.rate_bps);
        Departure { packet: waiting.packet, flow, end: self.free_at, waited: now - waiting.since }
    }

    /// Returns the arrival time of a packet of the flow that keeps it in order: `arrival` or later.
    pub(crate) fn in_order(&mut self, flow: usize, arrival: u64) -> u64 {
        let last = &mut self.flows[flow].last_arrival;
        *last = arrival.max(*last);
        *last
    }

    /// Notes that a packet of the flow has arrived.
    pub(crate) fn arrived(&mut self, flow: usize) {
        self.flows[flow].on_the_way -= 1;
        self.forget_if_idle(flow);
    }

    fn flow(&mut self, key: u64) -> usize {
        *self.by_key.entry(key).or_insert_with(|| {
            self.flows.insert(Flow { key, queue: VecDeque::new(), bytes: 0, last_arrival: 0, on_the_way: 0 })
        })
    }

    fn forget_if_idle(&mut self, index: usize) {
        let flow = &self.flows[index];
        if flow.queue.is_empty() && flow.on_the_way == 0 {
            self.by_key.remove(&flow.key);
            self.flows.remove(index);
        }
    }

    #[cfg(test)]
    pub(crate) fn flows(&self) -> usize {
        self.flows.len()
    }
}
