//! A host's downlink: a rate, and a queue for packets that find it busy, with controlled delay (RFC
//! 8289).

use std::collections::VecDeque;

use samara_sim::{CoDel, DownlinkQueue};

use super::{Packet, Waiting, serialisation};

/// Maximum bytes behind CoDel, which bounds the delay and not the queue: the memory limit of
/// Linux's `fq_codel` (`net/sched/sch_fq_codel.c`, `memory_limit`).
const CODEL_BYTES: u64 = 32 << 20;

/// The downlink of a host. Times are in nanoseconds.
///
/// A packet is received at `max(arrival, end of the previous packet + its own serialisation)`, as
/// in the simulator: the path delivers bits as they come, so a packet that finds the downlink idle
/// is not stored a second time.
#[derive(Debug)]
pub(crate) struct Downlink<P> {
    rate_bps: u64,
    queue: VecDeque<Waiting<P>>,
    queued_bytes: u64,
    discipline: DownlinkQueue,
    /// End of the last packet received.
    free_at: u64,
    codel: CoDel,
}

/// The treatment of an arriving packet.
#[derive(Debug)]
pub(crate) enum Taken<P> {
    Received(Packet<P>),
    Queued,
    Full { bytes: u32 },
}

/// The treatment of the packet at the head of the queue.
#[derive(Debug)]
pub(crate) enum Left<P> {
    Received { packet: Packet<P>, waited: u64 },
    Dropped(Packet<P>),
}

impl<P> Downlink<P> {
    pub(crate) fn new(rate_bps: u64, queue: DownlinkQueue) -> Self {
        let codel = CoDel::default();
        Self { rate_bps, queue: VecDeque::new(), queued_bytes: 0, discipline: queue, free_at: 0, codel }
    }

    /// Changes the rate for the packets that are received from now on.
    pub(crate) fn set_rate(&mut self, rate_bps: u64) {
        self.rate_bps = rate_bps;
    }

    /// Returns the time at which the head of the queue is received, or `None` if no packet waits.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.queue.front().map(|head| self.end_of(head.packet.bytes, head.since))
    }

    fn end_of(&self, bytes: u32, arrival: u64) -> u64 {
        arrival.max(self.free_at + serialisation(bytes, self.rate_bps))
    }

    /// Takes a packet of which the last bit is there at `complete`, which is `now` or later.
    pub(crate) fn arrive(&mut self, now: u64, complete: u64, packet: Packet<P>) -> Taken<P> {
        if self.queue.is_empty() && self.end_of(packet.bytes, complete) == now {
            self.free_at = now;
            self.codel.drops(now, 0, 0, &self.discipline);
            return Taken::Received(packet);
        }
        let bytes = u64::from(packet.bytes);
        let most = match self.discipline {
            DownlinkQueue::DropTail { bytes } => bytes,
            DownlinkQueue::CoDel { .. } | DownlinkQueue::FqCoDel(_) => CODEL_BYTES,
        };
        if self.queued_bytes + bytes > most {
            return Taken::Full { bytes: packet.bytes };
        }
        self.queued_bytes += bytes;
        self.queue.push_back(Waiting { packet, since: complete });
        Taken::Queued
    }

    /// Receives the head of the queue at `now`, which is [`next_at`](Self::next_at) or later.
    pub(crate) fn receive(&mut self, now: u64) -> Option<Left<P>> {
        let Waiting { packet, since } = self.queue.pop_front()?;
        self.queued_bytes -= u64::from(packet.bytes);
        let waited = now - since;
        if self.codel.drops(now, waited, self.queued_bytes, &self.discipline) {
            return Some(Left::Dropped(packet));
        }
        self.free_at = now;
        Some(Left::Received { packet, waited })
    }
}
