//! A host's downlink: a rate, and a queue for packets that find it busy.

use std::collections::VecDeque;

use super::codel::CoDel;
use super::{Packet, nanos, serialisation};
use crate::config::DownlinkQueue;

/// The most bytes behind CoDel, which bounds the delay and not the queue: the memory limit of Linux's `fq_codel`
/// (`net/sched/sch_fq_codel.c`, `memory_limit`).
const CODEL_BYTES: u64 = 32 << 20;

/// The downlink of a host. Times in nanoseconds.
///
/// A packet is received at `max(arrival, end of the packet before + its own serialisation)`, as in the simulator: the
/// path delivers bits as they come, so that a packet which finds the downlink idle is not stored a second time.
#[derive(Debug)]
pub(crate) struct Downlink<P> {
    rate_bps: u64,
    queue: VecDeque<Arrived<P>>,
    queued_bytes: u64,
    most_bytes: u64,
    /// End of the last packet received.
    free_at: u64,
    codel: Option<CoDel>,
}

#[derive(Debug)]
struct Arrived<P> {
    packet: Packet<P>,
    at: u64,
}

/// What became of a packet that arrived.
#[derive(Debug)]
pub(crate) enum Taken<P> {
    /// It is received at once.
    Received(Packet<P>),
    /// It waits.
    Queued,
    /// The queue is full.
    Full { bytes: u32 },
}

/// What became of the packet at the head of the queue.
#[derive(Debug)]
pub(crate) enum Left<P> {
    /// It is received, after it waited.
    Received { packet: Packet<P>, waited: u64 },
    /// Controlled delay dropped it.
    Dropped { bytes: u32 },
}

impl<P> Downlink<P> {
    pub(crate) fn new(rate_bps: u64, queue: DownlinkQueue) -> Self {
        let (most_bytes, codel) = match queue {
            DownlinkQueue::DropTail { bytes } => (bytes, None),
            DownlinkQueue::CoDel { target, interval } => {
                (CODEL_BYTES, Some(CoDel::new(nanos(target), nanos(interval))))
            }
        };
        Self { rate_bps, queue: VecDeque::new(), queued_bytes: 0, most_bytes, free_at: 0, codel }
    }

    /// When the packet at the head of the queue is received; `None` if none waits.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.queue.front().map(|head| self.end_of(head.packet.bytes, head.at))
    }

    fn end_of(&self, bytes: u32, arrival: u64) -> u64 {
        arrival.max(self.free_at + serialisation(bytes, self.rate_bps))
    }

    /// A packet arrives.
    pub(crate) fn arrive(&mut self, now: u64, packet: Packet<P>) -> Taken<P> {
        if self.queue.is_empty() && self.end_of(packet.bytes, now) == now {
            self.free_at = now;
            if let Some(codel) = &mut self.codel {
                codel.drops(now, 0, 0);
            }
            return Taken::Received(packet);
        }
        let bytes = u64::from(packet.bytes);
        if self.queued_bytes + bytes > self.most_bytes {
            return Taken::Full { bytes: packet.bytes };
        }
        self.queued_bytes += bytes;
        self.queue.push_back(Arrived { packet, at: now });
        Taken::Queued
    }

    /// Receives the head of the queue at `now`, which is [`next_at`](Self::next_at) or later.
    pub(crate) fn receive(&mut self, now: u64) -> Option<Left<P>> {
        let Arrived { packet, at } = self.queue.pop_front()?;
        self.queued_bytes -= u64::from(packet.bytes);
        let waited = now - at;
        let dropped = self.codel.as_mut().is_some_and(|codel| codel.drops(now, waited, self.queued_bytes));
        if dropped {
            return Some(Left::Dropped { bytes: packet.bytes });
        }
        self.free_at = now;
        Some(Left::Received { packet, waited })
    }
}
