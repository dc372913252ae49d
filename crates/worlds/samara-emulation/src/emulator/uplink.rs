//! A host's uplink: a rate, and the queues of its flows, or those behind its sockets that the
//! simulator has, too.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use samara_sim::{Dropped, FqLine, NicDiscipline, Queued, hash_of};
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
    /// Packets that wait or are in flight.
    packets: u32,
}

/// A packet in the queues behind the sockets, and its flow.
#[derive(Debug)]
struct Routed<P> {
    packet: Packet<P>,
    flow: usize,
}

impl<P> Queued for Routed<P> {
    fn len(&self) -> u32 {
        self.packet.bytes
    }
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
    /// The queues behind the sockets, which replace those of the flows.
    line: Option<FqLine<Routed<P>>>,
    /// Decides which flows share a bucket of the line.
    seed: u64,
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
    /// Creates an idle uplink. `seed` is that of the run.
    pub(crate) fn new(rate_bps: u64, discipline: NicDiscipline, limits: UplinkQueue, seed: u64) -> Self {
        let line = match discipline {
            NicDiscipline::RoundRobin | NicDiscipline::Fifo => None,
            NicDiscipline::FqCoDel(fair) => Some(FqLine::new(rate_bps, fair)),
            NicDiscipline::DropTail(size) => Some(FqLine::drop_tail(rate_bps, size)),
        };
        Self {
            rate_bps,
            discipline,
            limits,
            flows: Slab::new(),
            by_key: FxHashMap::default(),
            turn: VecDeque::new(),
            line,
            seed,
            queued_bytes: 0,
            free_at: 0,
        }
    }

    /// Changes the rate for the packets that leave from now on.
    pub(crate) fn set_rate(&mut self, rate_bps: u64) {
        self.rate_bps = rate_bps;
        if let Some(line) = &mut self.line {
            line.set_rate(rate_bps);
        }
    }

    /// Returns the time at which the next packet begins to leave, or `None` if no packet waits.
    pub(crate) fn next_at(&self) -> Option<u64> {
        if let Some(line) = &self.line {
            return Some(line.next_at()).filter(|at| *at != u64::MAX);
        }
        if self.turn.is_empty() { None } else { Some(self.free_at) }
    }

    pub(crate) fn offer(&mut self, now: u64, key: u64, packet: Packet<P>) -> Offered<P> {
        let index = self.flow(key);
        let bytes = u64::from(packet.bytes);
        let flow = &mut self.flows[index];
        if self.line.is_none() && self.turn.is_empty() && self.free_at <= now {
            flow.packets += 1;
            return Offered::Leaves(self.depart(now, index, Waiting { packet, since: now }));
        }
        let is_flow_full =
            self.discipline == NicDiscipline::RoundRobin && flow.bytes + bytes > self.limits.flow_bytes;
        let is_line_full = self.line.as_ref().is_some_and(|line| !line.has_room(packet.bytes));
        if is_flow_full || is_line_full || self.queued_bytes + bytes > self.limits.total_bytes {
            self.forget_if_idle(index);
            return Offered::Full;
        }
        flow.packets += 1;
        self.queued_bytes += bytes;
        if let Some(line) = &mut self.line {
            let hash = hash_of(self.seed, (key >> 32) as u32, key as u32);
            line.push(now, hash, Routed { packet, flow: index });
            return Offered::Queued;
        }
        if self.discipline != NicDiscipline::RoundRobin || flow.queue.is_empty() {
            self.turn.push_back(index);
        }
        flow.queue.push_back(Waiting { packet, since: now });
        flow.bytes += bytes;
        Offered::Queued
    }

    /// Begins to send the next packet at `now`, which is [`next_at`](Self::next_at) or later. Adds the
    /// receiver and the bytes of each packet that CoDel drops before it.
    pub(crate) fn send(&mut self, now: u64, dropped: &mut Vec<(u32, u32)>) -> Option<Departure<P>> {
        if self.line.is_some() {
            return self.send_from_line(now, dropped);
        }
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

    fn send_from_line(&mut self, now: u64, dropped: &mut Vec<(u32, u32)>) -> Option<Departure<P>> {
        let line = self.line.as_mut()?;
        let mut idle = Vec::new();
        let mut lost = 0;
        let selected = line.select(now, &mut |drop| {
            // Each entry is one packet.
            if let Dropped::All(routed) = drop {
                dropped.push((routed.packet.to, routed.packet.bytes));
                lost += u64::from(routed.packet.bytes);
                idle.push(routed.flow);
            }
        });
        self.queued_bytes -= lost;
        idle.into_iter().for_each(|flow| self.arrived(flow));
        let (Routed { packet, flow }, since, end) = selected?;
        self.queued_bytes -= u64::from(packet.bytes);
        Some(Departure { packet, flow, end, waited: now - since })
    }

    fn depart(&mut self, now: u64, flow: usize, waiting: Waiting<P>) -> Departure<P> {
        self.free_at = now + serialisation(waiting.packet.bytes, self.rate_bps);
        Departure { packet: waiting.packet, flow, end: self.free_at, waited: now - waiting.since }
    }

    /// Returns the arrival time of a packet of the flow that keeps it in order: `arrival` or later.
    pub(crate) fn in_order(&mut self, flow: usize, arrival: u64) -> u64 {
        let last = &mut self.flows[flow].last_arrival;
        *last = arrival.max(*last);
        *last
    }

    /// Notes that a packet of the flow has arrived, or is lost.
    pub(crate) fn arrived(&mut self, flow: usize) {
        self.flows[flow].packets -= 1;
        self.forget_if_idle(flow);
    }

    fn flow(&mut self, key: u64) -> usize {
        *self.by_key.entry(key).or_insert_with(|| {
            self.flows.insert(Flow { key, queue: VecDeque::new(), bytes: 0, last_arrival: 0, packets: 0 })
        })
    }

    fn forget_if_idle(&mut self, index: usize) {
        let flow = &self.flows[index];
        if flow.packets == 0 {
            self.by_key.remove(&flow.key);
            self.flows.remove(index);
        }
    }

    #[cfg(test)]
    pub(crate) fn flows(&self) -> usize {
        self.flows.len()
    }
}
