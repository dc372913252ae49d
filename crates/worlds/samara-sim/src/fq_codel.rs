//! Fair queueing with controlled delay (RFC 8290), and the token bucket behind it: one direction of a
//! link that all connections of a host share. The emulation has the same queues for real packets.

use std::collections::VecDeque;

use crate::config::{DownlinkQueue, FqCoDel, QueueSize};
use crate::downlink::{CoDel, nanos_per_byte};
use crate::rewind;

/// CoDel exempts no last packet of a queue here. RFC 8290 leaves that to implementations: Linux
/// exempts the last packet of all queues together, and the link model of Kiraly's study of segmented
/// payloads (<https://ethresear.ch/t/25913>) exempts none.
const BACKLOG: u64 = u64::MAX;

/// An entry of the queues: one packet, or several segments of one connection.
#[expect(clippy::len_without_is_empty, reason = "no packet is empty")]
pub trait Queued {
    /// Returns the number of bytes on the wire.
    fn len(&self) -> u32;

    /// Returns the number of packets.
    fn packets(&self) -> u32 {
        1
    }

    /// Removes the first of several segments. Returns its bytes, or `None` for a single packet.
    fn take_first(&mut self) -> Option<u32> {
        None
    }

    /// Returns true if the packet must not be dropped.
    fn is_kept(&self) -> bool {
        false
    }
}

/// One direction of a link: flow queues and a rate. Times in nanoseconds.
#[derive(Debug)]
pub struct FqLine<T> {
    config: FqCoDel,
    /// The flow of each bucket, or `NONE`. Empty until the first packet.
    flow_of: Vec<u16>,
    flows: Vec<Flow<T>>,
    /// Flows without a bucket, for reuse.
    spare: Vec<u16>,
    /// Flows that have not used up a quantum since they became busy.
    new: VecDeque<u16>,
    old: VecDeque<u16>,
    /// Number of packets in all queues, and their bytes.
    waiting: usize,
    bytes: u64,
    /// The bytes that may wait; `None` without a limit.
    size: Option<QueueSize>,
    nanos_per_byte: f64,
    /// The time at which the token bucket is full again.
    full_at: u64,
    /// The departure of the last selected packet. Until then, no other is selected.
    busy_until: u64,
}

const NONE: u16 = u16::MAX;

#[derive(Debug)]
struct Flow<T> {
    bucket: u16,
    /// Bytes that the flow may still send in its turn.
    credits: i64,
    codel: CoDel,
    /// Packets with the times of their arrivals.
    queue: VecDeque<(u64, T)>,
}

impl<T: Queued> FqLine<T> {
    /// Creates an idle line.
    pub fn new(rate_bps: u64, config: FqCoDel) -> Self {
        Self {
            config,
            flow_of: Vec::new(),
            flows: Vec::new(),
            spare: Vec::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            waiting: 0,
            bytes: 0,
            size: None,
            nanos_per_byte: nanos_per_byte(rate_bps),
            full_at: 0,
            busy_until: 0,
        }
    }

    /// Creates one queue for all flows, which drops what it has no room for.
    pub fn drop_tail(rate_bps: u64, size: QueueSize) -> Self {
        let one = FqCoDel { buckets: 1, ..FqCoDel::without_drops() };
        Self { size: Some(size), ..Self::new(rate_bps, one) }
    }

    /// Returns the rate in bits per second.
    pub(crate) fn rate_bps(&self) -> u64 {
        (8e9 / self.nanos_per_byte).round() as u64
    }

    /// Changes the rate in bits per second.
    pub fn set_rate(&mut self, rate_bps: u64) {
        self.nanos_per_byte = nanos_per_byte(rate_bps);
    }

    /// Returns the packets that wait, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.flows.iter().flat_map(|flow| &flow.queue).map(|(_, packet)| packet)
    }

    /// Drops everything that waits, uncounted.
    pub(crate) fn clear(&mut self) {
        let Self { full_at, busy_until, nanos_per_byte, size, config, .. } = *self;
        *self = Self { nanos_per_byte, full_at, busy_until, size, ..Self::new(1, config) };
    }

    /// Returns the time at which the next packet is selected; `u64::MAX` if none waits.
    pub fn next_at(&self) -> u64 {
        if self.waiting > 0 { self.busy_until } else { u64::MAX }
    }

    pub(crate) fn serialisation(&self, len: u32) -> u64 {
        (f64::from(len) * self.nanos_per_byte) as u64
    }

    /// Returns true if the queue has room for a packet.
    pub fn has_room(&self, len: u32) -> bool {
        match self.size {
            None => true,
            Some(QueueSize::Bytes(most)) => self.bytes + u64::from(len) <= most,
            Some(QueueSize::Time(most)) => {
                (self.bytes + u64::from(len)) as f64 * self.nanos_per_byte <= most.as_nanos() as f64
            }
        }
    }

    /// Queues a packet of the flow with this hash.
    pub fn push(&mut self, now: u64, hash: u64, packet: T) {
        self.bytes += u64::from(packet.len());
        let buckets = self.config.buckets.clamp(1, FqCoDel::BUCKETS_MAX);
        if self.flow_of.is_empty() {
            self.flow_of = vec![NONE; buckets as usize];
        }
        let bucket = (hash % u64::from(buckets)) as u16;
        let mut flow = self.flow_of[usize::from(bucket)];
        if flow == NONE {
            flow = self.spare.pop().unwrap_or_else(|| {
                self.flows.push(Flow { bucket, credits: 0, codel: CoDel::default(), queue: VecDeque::new() });
                self.flows.len() as u16 - 1
            });
            let fresh = &mut self.flows[usize::from(flow)];
            (fresh.bucket, fresh.credits) = (bucket, i64::from(self.config.quantum));
            self.flow_of[usize::from(bucket)] = flow;
            self.new.push_back(flow);
        }
        self.flows[usize::from(flow)].queue.push_back((now, packet));
        self.waiting += 1;
    }

    /// Selects the next packet at `now`, not before [`next_at`](Self::next_at). Returns the packet,
    /// the time of its arrival, and the time at which it has left: as soon as the bucket has tokens
    /// for it. `dropped` gets the packets that CoDel drops before, with their number and bytes.
    pub fn select(&mut self, now: u64, dropped: &mut dyn FnMut(Dropped<T>)) -> Option<(T, u64, u64)> {
        let mut lost = 0;
        let taken = self.pop(now, &mut |packet| {
            lost += match &packet {
                Dropped::First(bytes) => u64::from(*bytes),
                Dropped::All(packet) => u64::from(packet.len()),
            };
            dropped(packet);
        });
        self.bytes -= lost;
        let (since, packet) = taken?;
        let len = packet.len();
        self.bytes -= u64::from(len);
        let tokens_at =
            (self.full_at + self.serialisation(len)).saturating_sub(self.serialisation(FqCoDel::BURST_BYTES));
        let at = tokens_at.max(now);
        self.full_at = self.full_at.max(at) + self.serialisation(len);
        self.busy_until = at;
        Some((packet, since, at))
    }

    fn pop(&mut self, now: u64, dropped: &mut dyn FnMut(Dropped<T>)) -> Option<(u64, T)> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let Some(number) = list.front().copied() else {
                // Every queue is empty.
                rewind(&mut self.old);
                return None;
            };
            let flow = &mut self.flows[usize::from(number)];
            if flow.credits < 0 {
                flow.credits += i64::from(self.config.quantum);
                list.pop_front();
                self.old.push_back(number);
                continue;
            }
            let before = flow.queue.len();
            let taken = flow.pop(now, &self.config, dropped);
            self.waiting -= before - flow.queue.len();
            if taken.is_some() {
                return taken;
            }
            list.pop_front();
            if is_new {
                // An empty flow first passes through the old ones, so that a flow cannot become new
                // again and again before they have had their turn.
                self.old.push_back(number);
            } else {
                // The state of CoDel ends with the flow, as in the model of the study.
                flow.codel = CoDel::default();
                self.flow_of[usize::from(flow.bucket)] = NONE;
                self.spare.push(number);
            }
        }
    }
}

/// A packet that CoDel has dropped.
#[derive(Debug)]
pub enum Dropped<T> {
    /// The whole entry.
    All(T),
    /// The first segment of an entry with several, of this many bytes.
    First(u32),
}

impl<T: Queued> Flow<T> {
    fn pop(&mut self, now: u64, config: &FqCoDel, dropped: &mut dyn FnMut(Dropped<T>)) -> Option<(u64, T)> {
        while let Some((since, mut packet)) = self.queue.pop_front() {
            rewind(&mut self.queue);
            let drops = self.codel.drops(now, now - since, BACKLOG, &DownlinkQueue::FqCoDel(*config));
            if !drops || packet.is_kept() {
                self.credits -= i64::from(packet.len());
                return Some((since, packet));
            }
            match packet.take_first() {
                Some(first) => {
                    dropped(Dropped::First(first));
                    self.queue.push_front((since, packet));
                }
                None => dropped(Dropped::All(packet)),
            }
        }
        None
    }
}

/// Returns the hash of the packets from one host to another. The run's seed is part of it, so that
/// other flows share a bucket in another run.
pub const fn hash_of(seed: u64, from: u32, to: u32) -> u64 {
    let mut x = seed ^ ((from as u64) << 32 | to as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // The finalizer of SplitMix64 (Steele, Lea and Flood 2014).
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MS: u64 = 1_000_000;

    /// A packet: flow and bytes.
    #[derive(Debug, PartialEq)]
    struct Plain(u64, u32);

    impl Queued for Plain {
        fn len(&self) -> u32 {
            self.1
        }
    }

    /// A line of 10 Mbit/s: 1,250 bytes take 1 ms.
    fn line() -> FqLine<Plain> {
        FqLine::new(10_000_000, FqCoDel::default())
    }

    /// Lets the line run until it is empty. Returns flows with departures in microseconds, and the
    /// number of dropped packets.
    fn drain(line: &mut FqLine<Plain>, mut now: u64) -> (Vec<(u64, u64)>, usize) {
        let (mut left, mut drops) = (Vec::new(), 0);
        while line.next_at() != u64::MAX {
            now = now.max(line.next_at());
            if let Some((packet, _, at)) = line.select(now, &mut |_| drops += 1) {
                left.push((packet.0, at / 1000));
            }
        }
        (left, drops)
    }

    #[test]
    fn idle_line_passes_one_mtu_in_no_time() {
        let mut line = line();
        for _ in 0..3 {
            line.push(0, 1, Plain(1, 1250));
        }
        // The bucket has 250 bytes left for the second packet.
        assert_eq!(drain(&mut line, 0).0, [(1, 0), (1, 800), (1, 1800)]);
        line.push(10 * MS, 1, Plain(1, 1500));
        assert_eq!(drain(&mut line, 10 * MS).0, [(1, 10_000)], "the bucket is full again");
    }

    #[test]
    fn flows_share_the_rate_by_bytes_and_new_flows_go_first() {
        let mut line = line();
        (0..4).for_each(|_| line.push(0, 1, Plain(1, 1500)));
        (0..8).for_each(|_| line.push(0, 2, Plain(2, 750)));
        let order: Vec<u64> = drain(&mut line, 0).0.into_iter().map(|(flow, _)| flow).collect();
        let bytes = |flow: u64, of: &[u64]| {
            of.iter().filter(|found| **found == flow).count() * if flow == 1 { 1500 } else { 750 }
        };
        for end in 0..order.len() {
            let ahead = bytes(1, &order[..end]).abs_diff(bytes(2, &order[..end]));
            assert!(ahead <= 2 * 1500, "{order:?}");
        }
        // A flow that becomes busy while another one has a backlog is served at the next turn.
        (0..10).for_each(|_| line.push(0, 1, Plain(1, 1500)));
        let mut now = 0;
        for _ in 0..4 {
            now = line.select(now.max(line.next_at()), &mut |_| ()).expect("a packet").2;
        }
        line.push(now, 2, Plain(2, 1500));
        assert_eq!(line.select(now, &mut |_| ()).expect("a packet").0.0, 2);
    }

    #[test]
    fn flows_in_one_bucket_share_its_turn() {
        let mut line = FqLine::new(10_000_000, FqCoDel { buckets: 2, ..FqCoDel::default() });
        for _ in 0..4 {
            [0, 1, 2].into_iter().for_each(|flow| line.push(0, flow, Plain(flow, 1500)));
        }
        let order: Vec<u64> = drain(&mut line, 0).0.into_iter().map(|(flow, _)| flow).collect();
        let first_six = order[..6].iter().filter(|flow| **flow == 1).count();
        assert!((2..=4).contains(&first_six), "flows 0 and 2 have one turn together: {order:?}");
    }

    #[test]
    fn only_flows_with_a_standing_delay_lose_packets() {
        let mut line = line();
        // Flow 1 sends twice the rate for a second; flow 2 sends one packet in 10 ms.
        let mut drops = Vec::new();
        let mut lost = |dropped: Dropped<Plain>| {
            if let Dropped::All(packet) = dropped {
                drops.push(packet.0);
            }
        };
        for tick in 0..2_000_u64 {
            let now = tick * MS / 2;
            line.push(now, 1, Plain(1, 1250));
            if tick.is_multiple_of(20) {
                line.push(now, 2, Plain(2, 1250));
            }
            while line.next_at() <= now {
                line.select(now, &mut lost);
            }
        }
        assert!(drops.len() > 5, "{}", drops.len());
        assert!(drops.iter().all(|flow| *flow == 1));
    }

    #[test]
    fn short_bursts_lose_nothing() {
        let mut line = line();
        // A burst of 80 ms is gone before the interval of 100 ms has passed.
        (0..80).for_each(|_| line.push(0, 1, Plain(1, 1250)));
        let (left, drops) = drain(&mut line, 0);
        assert_eq!((left.len(), drops), (80, 0));
        (0..400).for_each(|_| line.push(200 * MS, 1, Plain(1, 1250)));
        assert!(drain(&mut line, 200 * MS).1 > 0);
    }

    #[test]
    fn hashes_spread_flows_over_buckets_and_depend_on_the_seed() {
        let used = |seed| {
            let mut buckets: Vec<u64> = (1..=70).map(|to| hash_of(seed, 0, to) % 128).collect();
            buckets.sort_unstable();
            buckets.dedup();
            buckets
        };
        // 128 x (1 - (1 - 1/128)^70) = 54 of 128 buckets are expected.
        assert!((45..=63).contains(&used(7).len()), "{}", used(7).len());
        assert_ne!(used(7), used(8));
        assert_eq!(FqCoDel::default().target, Duration::from_millis(5));
    }
}
