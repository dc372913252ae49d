//! A host's downlink: a rate, and a queue for packets that find it busy.

use std::collections::VecDeque;

use crate::config::DownlinkQueue;
use crate::packet::Packet;
use crate::rewind;
use crate::stats::HostStats;

/// The downlink of a host. Times in nanoseconds.
///
/// A packet is received at `max(arrival, end of the packet before + its own serialisation)`: the path delivers bits as
/// they come, so that a packet which finds the downlink idle is not stored a second time.
#[derive(Debug)]
pub(crate) struct Downlink<F> {
    queue: VecDeque<Packet<F>>,
    queued_bytes: u64,
    /// End of the last packet received.
    free_at: u64,
    nanos_per_byte: f64,
    codel: CoDel,
}

impl<F> Downlink<F> {
    pub(crate) fn new(rate_bps: u64) -> Self {
        Self {
            queue: VecDeque::new(),
            queued_bytes: 0,
            free_at: 0,
            nanos_per_byte: nanos_per_byte(rate_bps),
            codel: CoDel::default(),
        }
    }

    pub(crate) fn set_rate(&mut self, rate_bps: u64) {
        self.nanos_per_byte = nanos_per_byte(rate_bps);
    }

    /// Forgets what waits.
    pub(crate) fn clear(&mut self) {
        self.queue.clear();
        self.queued_bytes = 0;
    }

    /// When the packet at the head of the queue is received; `u64::MAX` if none waits.
    pub(crate) fn next_at(&self) -> u64 {
        self.queue.front().map_or(u64::MAX, |packet| self.end_of(packet))
    }

    fn end_of(&self, packet: &Packet<F>) -> u64 {
        packet.arrive.max(self.free_at + self.serialisation(packet.len))
    }

    fn serialisation(&self, len: u32) -> u64 {
        (f64::from(len) * self.nanos_per_byte) as u64
    }

    /// A packet arrives. Returns it if it is received at once.
    pub(crate) fn arrive(
        &mut self,
        packet: Packet<F>,
        queue: &DownlinkQueue,
        stats: &mut HostStats,
    ) -> Option<Packet<F>> {
        if self.queue.is_empty() && self.end_of(&packet) == packet.arrive {
            self.free_at = packet.arrive;
            if let DownlinkQueue::CoDel { target, interval } = queue {
                self.codel.drops(packet.arrive, 0, 0, target.as_nanos() as u64, interval.as_nanos() as u64);
            }
            return Some(packet);
        }
        if let DownlinkQueue::DropTail { bytes } = queue
            && self.queued_bytes + u64::from(packet.len) > *bytes
        {
            stats.drops.downlink_full.add(packet.body.packets(), packet.len);
            return None;
        }
        self.queued_bytes += u64::from(packet.len);
        self.queue.push_back(packet);
        None
    }

    /// Receives the head of the queue at `now`, which is [`next_at`](Self::next_at); `None` if it is dropped.
    pub(crate) fn receive(
        &mut self,
        now: u64,
        queue: &DownlinkQueue,
        stats: &mut HostStats,
    ) -> Option<Packet<F>> {
        let mut packet = self.queue.pop_front()?;
        rewind(&mut self.queue);
        self.queued_bytes -= u64::from(packet.len);
        if let DownlinkQueue::CoDel { target, interval } = queue {
            let sojourn = now - packet.arrive;
            let drops = self.codel.drops(
                now,
                sojourn,
                self.queued_bytes,
                target.as_nanos() as u64,
                interval.as_nanos() as u64,
            );
            if drops {
                // One packet at a time: of several segments the first.
                if let Some(first) = packet.behead() {
                    stats.drops.downlink_codel.add(1, first);
                    self.queued_bytes += u64::from(packet.len);
                    self.queue.push_front(packet);
                } else {
                    stats.drops.downlink_codel.add(packet.body.packets(), packet.len);
                }
                return None;
            }
        }
        stats.downlink_wait_nanos_max = stats.downlink_wait_nanos_max.max(now - packet.arrive);
        self.free_at = now;
        Some(packet)
    }
}

pub(crate) fn nanos_per_byte(rate_bps: u64) -> f64 {
    8e9 / rate_bps.max(1) as f64
}

/// The control law of RFC 8289.
#[derive(Debug, Default)]
struct CoDel {
    /// When the delay will have been above the target for an interval; 0 if it is not above.
    first_above: u64,
    dropping: bool,
    drop_next: u64,
    count: u32,
    last_count: u32,
}

impl CoDel {
    /// Whether the packet that leaves the queue now is dropped (the pseudocode of RFC 8289 section 5, one packet at a
    /// time).
    fn drops(&mut self, now: u64, sojourn: u64, backlog: u64, target: u64, interval: u64) -> bool {
        let mtu = 1500;
        let mut ok_to_drop = false;
        if sojourn < target || backlog <= mtu {
            self.first_above = 0;
        } else if self.first_above == 0 {
            self.first_above = now + interval;
        } else {
            ok_to_drop = now >= self.first_above;
        }
        if self.dropping {
            if !ok_to_drop {
                self.dropping = false;
                return false;
            }
            if now < self.drop_next {
                return false;
            }
            self.count += 1;
            self.drop_next += control_law(interval, self.count);
            return true;
        }
        if !ok_to_drop {
            return false;
        }
        self.dropping = true;
        let delta = self.count.saturating_sub(self.last_count);
        let recent = now.saturating_sub(self.drop_next) < 16 * interval;
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.last_count = self.count;
        self.drop_next = now + control_law(interval, self.count);
        true
    }
}

fn control_law(interval: u64, count: u32) -> u64 {
    (interval as f64 / f64::from(count).sqrt()) as u64
}
