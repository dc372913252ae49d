//! A host's downlink: a rate, and a queue with controlled delay (RFC 8289), or one for each flow (RFC
//! 8290), for packets that arrive while it is busy.

use std::collections::VecDeque;

use crate::config::{DownlinkQueue, FqCoDel};
use crate::fq_codel::{Dropped, FqLine, Queued};
use crate::packet::Packet;
use crate::rewind;
use crate::stats::HostStats;

/// The downlink of a host. Times in nanoseconds.
///
/// A packet is received at `max(arrival, end of the packet before + its own serialisation)`. The
/// path delivers bits as they come, so that a packet that arrives at an idle downlink is not stored
/// a second time.
#[derive(Debug)]
pub(crate) struct Downlink<F> {
    /// The treatment of packets while the downlink is busy.
    discipline: DownlinkQueue,
    queue: VecDeque<Packet<F>>,
    queued_bytes: u64,
    /// The end of the last received packet.
    free_at: u64,
    nanos_per_byte: f64,
    codel: CoDel,
    /// With FQ-CoDel, which replaces `queue`.
    fair: Option<Box<Fair<F>>>,
}

/// The flow queues of a downlink.
#[derive(Debug)]
struct Fair<F> {
    line: FqLine<Packet<F>>,
    /// The selected packet, and the time at which it is received.
    ready: Option<(u64, Packet<F>)>,
    seed: u64,
}

impl<F> Queued for Packet<F> {
    fn len(&self) -> u32 {
        self.len
    }

    fn packets(&self) -> u32 {
        self.body.packets()
    }

    fn take_first(&mut self) -> Option<u32> {
        self.take_first_segment()
    }
}

impl<F> Fair<F> {
    /// Selects the next packet, unless one is selected.
    fn advance(&mut self, now: u64, stats: &mut HostStats) {
        if self.ready.is_none() && self.line.next_at() != u64::MAX {
            let selected = self.line.select(now, &mut |dropped| match dropped {
                Dropped::First(bytes) => stats.drops.downlink_codel.add(1, bytes),
                Dropped::All(packet) => stats.drops.downlink_codel.add(packet.packets(), packet.len),
            });
            self.ready = selected.map(|(packet, _, at)| (at, packet));
        }
    }

    fn arrive(&mut self, packet: Packet<F>, stats: &mut HostStats) -> Option<Packet<F>> {
        let now = packet.arrive;
        let hash = crate::fq_codel::hash_of(self.seed, packet.src, packet.heading.host());
        self.line.push(now, hash, packet);
        if self.ready.is_some() {
            return None;
        }
        self.advance(now, stats);
        self.ready.take_if(|(at, _)| *at == now).map(|(_, packet)| packet)
    }
}

impl<F> Downlink<F> {
    /// Creates an idle downlink. `seed` is that of the run.
    pub(crate) fn new(rate_bps: u64, discipline: DownlinkQueue, seed: u64) -> Self {
        let fair =
            |config: FqCoDel| Box::new(Fair { line: FqLine::new(rate_bps, config), ready: None, seed });
        Self {
            fair: match discipline {
                DownlinkQueue::FqCoDel(config) => Some(fair(config)),
                DownlinkQueue::DropTail { .. } | DownlinkQueue::CoDel { .. } => None,
            },
            discipline,
            queue: VecDeque::new(),
            queued_bytes: 0,
            free_at: 0,
            nanos_per_byte: nanos_per_byte(rate_bps),
            codel: CoDel::default(),
        }
    }

    pub(crate) fn set_rate(&mut self, rate_bps: u64) {
        self.nanos_per_byte = nanos_per_byte(rate_bps);
        if let Some(fair) = &mut self.fair {
            fair.line.set_rate(rate_bps);
        }
    }

    pub(crate) fn clear(&mut self) {
        if let Some(fair) = &mut self.fair {
            fair.line.clear();
            fair.ready = None;
        }
        self.queue.clear();
        self.queued_bytes = 0;
    }

    /// Returns the time at which the head of the queue is received; `u64::MAX` if the queue is
    /// empty.
    pub(crate) fn next_at(&self) -> u64 {
        if let Some(fair) = &self.fair {
            return fair.ready.as_ref().map_or(u64::MAX, |(at, _)| *at);
        }
        self.queue.front().map_or(u64::MAX, |packet| self.end_of(packet))
    }

    fn end_of(&self, packet: &Packet<F>) -> u64 {
        packet.arrive.max(self.free_at + self.serialisation(packet.len))
    }

    fn serialisation(&self, len: u32) -> u64 {
        (f64::from(len) * self.nanos_per_byte) as u64
    }

    /// Takes an arriving packet. Returns it if it is received at once.
    pub(crate) fn arrive(&mut self, packet: Packet<F>, stats: &mut HostStats) -> Option<Packet<F>> {
        if let Some(fair) = &mut self.fair {
            return fair.arrive(packet, stats);
        }
        if self.queue.is_empty() && self.end_of(&packet) == packet.arrive {
            self.free_at = packet.arrive;
            self.codel.drops(packet.arrive, 0, 0, &self.discipline);
            return Some(packet);
        }
        if let DownlinkQueue::DropTail { bytes } = self.discipline
            && self.queued_bytes + u64::from(packet.len) > bytes
        {
            stats.drops.downlink_full.add(packet.body.packets(), packet.len);
            return None;
        }
        self.queued_bytes += u64::from(packet.len);
        self.queue.push_back(packet);
        None
    }

    /// Receives the head of the queue at `now`, which must be [`next_at`](Self::next_at). Returns
    /// `None` if the packet is dropped.
    pub(crate) fn receive(&mut self, now: u64, stats: &mut HostStats) -> Option<Packet<F>> {
        if let Some(fair) = &mut self.fair {
            let (_, packet) = fair.ready.take()?;
            fair.advance(now, stats);
            stats.downlink_wait_nanos_max = stats.downlink_wait_nanos_max.max(now - packet.arrive);
            return Some(packet);
        }
        let mut packet = self.queue.pop_front()?;
        rewind(&mut self.queue);
        self.queued_bytes -= u64::from(packet.len);
        if self.codel.drops(now, now - packet.arrive, self.queued_bytes, &self.discipline) {
            // One segment at a time: if the packet holds several, only the first is dropped.
            if let Some(first) = packet.take_first_segment() {
                stats.drops.downlink_codel.add(1, first);
                self.queued_bytes += u64::from(packet.len);
                self.queue.push_front(packet);
            } else {
                stats.drops.downlink_codel.add(packet.body.packets(), packet.len);
            }
            return None;
        }
        stats.downlink_wait_nanos_max = stats.downlink_wait_nanos_max.max(now - packet.arrive);
        self.free_at = now;
        Some(packet)
    }
}

pub(crate) fn nanos_per_byte(rate_bps: u64) -> f64 {
    8e9 / rate_bps.max(1) as f64
}

/// RFC 8289 section 5.1: a backlog of one packet of the largest size is never a standing queue.
const MAX_PACKET: u64 = 1_500;

/// RFC 8289 section 5.4 (the pseudocode of `dequeue`): if dropping resumes within this many
/// intervals, it continues at the rate where it stopped.
const RECENT_INTERVALS: u64 = 16;

/// The control law of RFC 8289 for one queue. Times in nanoseconds.
#[derive(Debug, Default)]
pub struct CoDel {
    /// The time at which the delay will have exceeded the target for an interval; 0 while it does
    /// not exceed it.
    first_above: u64,
    dropping: bool,
    drop_next: u64,
    count: u32,
    last_count: u32,
}

impl CoDel {
    /// Returns whether to drop a packet that leaves the queue now, after `sojourn`, with `backlog`
    /// bytes behind it. Drops nothing if the queue is not controlled. The pseudocode loops over
    /// packets; here the caller asks again for the next one.
    pub fn drops(&mut self, now: u64, sojourn: u64, backlog: u64, queue: &DownlinkQueue) -> bool {
        let (target, interval) = match queue {
            DownlinkQueue::CoDel { target, interval } => (target, interval),
            DownlinkQueue::FqCoDel(FqCoDel { target, interval, .. }) => (target, interval),
            DownlinkQueue::DropTail { .. } => return false,
        };
        let (target, interval) = (target.as_nanos() as u64, interval.as_nanos() as u64);
        let is_above = self.above_for_an_interval(now, sojourn < target || backlog <= MAX_PACKET, interval);
        if self.dropping {
            self.dropping = is_above;
            if !is_above || now < self.drop_next {
                return false;
            }
            self.count += 1;
            self.drop_next += self.spacing(interval);
            return true;
        }
        if !is_above {
            return false;
        }
        self.dropping = true;
        let delta = self.count.saturating_sub(self.last_count);
        let recent = now.saturating_sub(self.drop_next) < RECENT_INTERVALS * interval;
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.last_count = self.count;
        self.drop_next = now + self.spacing(interval);
        true
    }

    fn above_for_an_interval(&mut self, now: u64, is_below: bool, interval: u64) -> bool {
        if is_below {
            self.first_above = 0;
            return false;
        }
        if self.first_above == 0 {
            self.first_above = now + interval;
            return false;
        }
        now >= self.first_above
    }

    fn spacing(&self, interval: u64) -> u64 {
        (interval as f64 / f64::from(self.count).sqrt()) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MS: u64 = 1_000_000;
    const QUEUE: DownlinkQueue =
        DownlinkQueue::CoDel { target: Duration::from_millis(5), interval: Duration::from_millis(100) };

    /// Returns the times of drops, for one packet in every millisecond with this delay.
    fn drop_times(millis: std::ops::Range<u64>, sojourn: u64, codel: &mut CoDel) -> Vec<u64> {
        millis.filter(|ms| codel.drops(ms * MS, sojourn, 100_000, &QUEUE)).collect()
    }

    #[test]
    fn delay_below_the_target_never_causes_drops() {
        let mut codel = CoDel::default();
        assert!(drop_times(0..10_000, 5 * MS - 1, &mut codel).is_empty());
    }

    #[test]
    fn drops_are_spaced_by_the_square_root_law() {
        let mut codel = CoDel::default();
        // The first drop comes after one interval, the next ones 100/sqrt(1), 100/sqrt(2),
        // 100/sqrt(3), ... later.
        let mut expected = vec![100.0];
        for n in 1..8 {
            expected.push(expected[n - 1] + 100.0 / (n as f64).sqrt());
        }
        let expected: Vec<u64> = expected.iter().map(|ms| ms.ceil() as u64).collect();
        assert_eq!(drop_times(0..expected[7] + 1, 6 * MS, &mut codel), expected);
    }

    #[test]
    fn last_packet_is_never_dropped() {
        let mut codel = CoDel::default();
        assert!((0..1000).all(|ms| !codel.drops(ms * MS, 50 * MS, MAX_PACKET, &QUEUE)));
    }

    #[test]
    fn dropping_resumes_at_its_last_rate() {
        let mut codel = CoDel::default();
        let first = drop_times(0..1_000, 6 * MS, &mut codel).len();
        assert!(!codel.drops(1_000 * MS, 0, 100_000, &QUEUE));
        let again = drop_times(1_001..1_301, 6 * MS, &mut codel);
        let fresh = drop_times(1_001..1_301, 6 * MS, &mut CoDel::default()).len();
        assert!(first > 8 && again.len() > fresh, "{again:?}, {fresh}");
    }
}
