//! A host's downlink: a rate, and a queue for packets that find it busy, with controlled delay (RFC 8289).

use std::collections::VecDeque;

use super::{Packet, nanos, serialisation};
use crate::config::DownlinkQueue;

/// The most bytes behind CoDel, which bounds the delay and not the queue: the memory limit of Linux's `fq_codel`
/// (`net/sched/sch_fq_codel.c`, `memory_limit`).
const CODEL_BYTES: u64 = 32 << 20;

/// RFC 8289 section 5.1: a backlog of one packet of the largest size is never a standing queue.
const MAX_PACKET: u64 = 1_500;

/// RFC 8289 section 5.4 (the pseudocode of `dequeue`): dropping that resumes within so many intervals goes on where it
/// had stopped.
const RECENT_INTERVALS: u64 = 16;

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

/// The control law for one queue. Times in nanoseconds.
#[derive(Debug)]
struct CoDel {
    target: u64,
    interval: u64,
    /// When the delay will have been above the target for an interval; `None` while it is below.
    first_above: Option<u64>,
    dropping: bool,
    drop_next: u64,
    count: u32,
    last_count: u32,
}

impl CoDel {
    fn new(target: u64, interval: u64) -> Self {
        Self { target, interval, first_above: None, dropping: false, drop_next: 0, count: 0, last_count: 0 }
    }

    /// Whether the packet that leaves the queue now, after `sojourn`, is dropped; `backlog` bytes stay behind. The
    /// pseudocode loops over packets; here the caller asks again for the next one.
    fn drops(&mut self, now: u64, sojourn: u64, backlog: u64) -> bool {
        let above = self.above_for_an_interval(now, sojourn, backlog);
        if self.dropping {
            self.dropping = above;
            if !above || now < self.drop_next {
                return false;
            }
            self.count += 1;
            self.drop_next += self.spacing();
            return true;
        }
        if !above {
            return false;
        }
        self.dropping = true;
        let delta = self.count.saturating_sub(self.last_count);
        let recent = now.saturating_sub(self.drop_next) < RECENT_INTERVALS * self.interval;
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.last_count = self.count;
        self.drop_next = now + self.spacing();
        true
    }

    fn above_for_an_interval(&mut self, now: u64, sojourn: u64, backlog: u64) -> bool {
        if sojourn < self.target || backlog <= MAX_PACKET {
            self.first_above = None;
            return false;
        }
        let since = *self.first_above.get_or_insert(now + self.interval);
        now >= since
    }

    fn spacing(&self) -> u64 {
        (self.interval as f64 / f64::from(self.count).sqrt()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The times at which packets are dropped, one packet a millisecond with this delay.
    fn drop_times(millis: std::ops::Range<u64>, sojourn: u64, codel: &mut CoDel) -> Vec<u64> {
        millis.filter(|ms| codel.drops(ms * MS, sojourn, 100_000)).collect()
    }

    #[test]
    fn a_delay_below_the_target_is_tolerated_for_ever() {
        let mut codel = CoDel::new(5 * MS, 100 * MS);
        assert!(drop_times(0..10_000, 5 * MS - 1, &mut codel).is_empty());
    }

    #[test]
    fn drops_are_spaced_by_the_square_root_law() {
        let mut codel = CoDel::new(5 * MS, 100 * MS);
        // First after one interval, then 100/sqrt(1), 100/sqrt(2), 100/sqrt(3), ... later.
        let mut expected = vec![100.0];
        for n in 1..8 {
            expected.push(expected[n - 1] + 100.0 / (n as f64).sqrt());
        }
        let expected: Vec<u64> = expected.iter().map(|ms| ms.ceil() as u64).collect();
        assert_eq!(drop_times(0..expected[7] + 1, 6 * MS, &mut codel), expected);
    }

    #[test]
    fn a_last_packet_is_never_dropped() {
        let mut codel = CoDel::new(5 * MS, 100 * MS);
        assert!((0..1000).all(|ms| !codel.drops(ms * MS, 50 * MS, MAX_PACKET)));
    }

    #[test]
    fn dropping_resumes_at_the_rate_that_had_worked() {
        let mut codel = CoDel::new(5 * MS, 100 * MS);
        let first = drop_times(0..1_000, 6 * MS, &mut codel).len();
        assert!(!codel.drops(1_000 * MS, 0, 100_000));
        let again = drop_times(1_001..1_301, 6 * MS, &mut codel);
        let fresh = drop_times(1_001..1_301, 6 * MS, &mut CoDel::new(5 * MS, 100 * MS)).len();
        assert!(first > 8 && again.len() > fresh, "{again:?}, {fresh}");
    }
}
