//! Collects copies of segments and derives the deliveries.

#[cfg(test)]
mod tests;

/// One received copy of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyRow {
    /// Time of arrival, in nanoseconds of the run.
    pub at: u64,
    pub host: u32,
    pub from: u32,
    /// The slot times the number of segments of a block, plus the segment.
    pub segment: u32,
    pub first: bool,
}

/// The delivery of a segment at a node that waits for it: the first copy and the later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub host: u32,
    pub slot: u32,
    pub segment: u32,
    /// Arrival of the first copy, in nanoseconds of the run; `u64::MAX` if none arrived.
    pub at: u64,
    pub from: u32,
    pub hops: u16,
    /// Number of copies received, including the first.
    pub copies: u16,
    pub last_at: u64,
}

impl Delivery {
    pub fn delivered(&self) -> bool {
        self.at != u64::MAX
    }
}

#[derive(Debug, Default)]
pub struct Collector {
    /// The number of segments of a block.
    segments: u32,
    /// The sorted custody segments of each host.
    custody: Vec<Vec<u32>>,
    publisher: u32,
    /// The nodes whose times count: all but the publisher, observers and hostile nodes.
    counts: Vec<bool>,
    /// The index of each host's first delivery.
    base: Vec<usize>,
    /// First those of the nodes that count, by host, then those of all others.
    deliveries: Vec<Delivery>,
    /// Number of deliveries to nodes that count.
    counted: usize,
    /// All copies in order of arrival.
    pub copies: Vec<CopyRow>,
    /// Copies that other nodes sent back to the publisher.
    pub returned: u64,
    /// Number of deliveries still missing.
    pub missing: usize,
    /// Copies that did not fit into queues.
    pub queue_drops: u64,
    /// Arrival of the last copy, in nanoseconds.
    pub last_copy_at: u64,
    /// Blocks that nodes rebuilt.
    pub repairs: u64,
    /// Segments that nodes rebuilt and keep.
    pub rebuilt: u64,
    /// Rebuilt segments that nodes published.
    pub republished: u64,
    /// Number of its segments with which a node is done; `None` for all.
    pub(super) needed: Option<u32>,
    /// Whether a run is complete when all nodes are done, instead of when all segments have arrived.
    pub(super) ends_early: bool,
}

impl Collector {
    /// Creates a collector for the custody segments of hosts over `slots` blocks.
    ///
    /// It counts copies at the publisher separately. No metric includes the times of other hosts that do
    /// not count, though they receive and forward.
    pub fn new(
        segments: u32,
        slots: u32,
        custody: &[Vec<u32>],
        publisher: u32,
        mut counts: Vec<bool>,
    ) -> Self {
        counts[publisher as usize] = false;
        let mut base = vec![0; custody.len()];
        let mut deliveries = Vec::new();
        let mut counted = 0;
        for of_counted in [true, false] {
            for (host, kept) in (0..).zip(custody) {
                if counts[host as usize] != of_counted {
                    continue;
                }
                base[host as usize] = deliveries.len();
                for slot in 0..if host == publisher { 0 } else { slots } {
                    deliveries.extend(kept.iter().map(|segment| Delivery {
                        host,
                        slot,
                        segment: *segment,
                        at: u64::MAX,
                        from: u32::MAX,
                        hops: 0,
                        copies: 0,
                        last_at: 0,
                    }));
                }
            }
            counted = if of_counted { deliveries.len() } else { counted };
        }
        Self {
            segments,
            custody: custody.to_vec(),
            publisher,
            counts,
            base,
            deliveries,
            counted,
            missing: counted,
            ..Self::default()
        }
    }

    fn index(&self, host: u32, number: u32) -> Option<usize> {
        let (slot, segment) = (number / self.segments, number % self.segments);
        let kept = &self.custody[host as usize];
        let place = kept.binary_search(&segment).ok()?;
        Some(self.base[host as usize] + slot as usize * kept.len() + place)
    }

    pub fn copy(&mut self, row: CopyRow) {
        self.copies.push(row);
        self.last_copy_at = row.at;
        if row.host == self.publisher {
            self.returned += 1;
            return;
        }
        let Some(index) = self.index(row.host, row.segment) else { return };
        let hops = if row.from == self.publisher {
            1
        } else {
            self.index(row.from, row.segment).map_or(0, |index| self.deliveries[index].hops.saturating_add(1))
        };
        let delivery = &mut self.deliveries[index];
        delivery.copies = delivery.copies.saturating_add(1);
        delivery.last_at = row.at;
        self.deliver(index, row.at, row.from, hops);
    }

    /// Records a segment that a host has rebuilt. Its path is the longest one of the host's other
    /// segments.
    pub fn rebuilt(&mut self, at: u64, host: u32, number: u32) {
        self.rebuilt += 1;
        self.last_copy_at = at;
        let Some(index) = self.index(host, number) else { return };
        let kept = self.custody[host as usize].len();
        let start = self.base[host as usize] + (number / self.segments) as usize * kept;
        let hops = self.deliveries[start..start + kept].iter().map(|delivery| delivery.hops).max();
        self.deliver(index, at, host, hops.unwrap_or(0));
    }

    fn deliver(&mut self, index: usize, at: u64, from: u32, hops: u16) {
        let delivery = &mut self.deliveries[index];
        if !delivery.delivered() {
            delivery.at = at;
            delivery.from = from;
            delivery.hops = hops;
            delivery.last_at = delivery.last_at.max(at);
            self.missing -= usize::from(index < self.counted);
        }
    }

    /// Returns the number of missing deliveries of slots up to this one.
    pub fn missing_until(&self, slot: u32) -> usize {
        if self.missing == 0 {
            return 0;
        }
        self.deliveries().iter().filter(|delivery| delivery.slot <= slot && !delivery.delivered()).count()
    }

    /// Returns true if nothing is missing in slots up to this one.
    pub(super) fn is_complete(&self, slot: u32) -> bool {
        if !self.ends_early || self.missing == 0 {
            return self.missing_until(slot) == 0;
        }
        self.blocks().all(|block| {
            let arrived = block.iter().filter(|delivery| delivery.delivered()).count();
            block[0].slot > slot || arrived >= self.needed_of(block.len())
        })
    }

    /// Returns the deliveries to nodes that count, by host, slot and segment.
    pub fn deliveries(&self) -> &[Delivery] {
        &self.deliveries[..self.counted]
    }

    /// Returns the deliveries of each node in each slot.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &[Delivery]> {
        self.deliveries().chunk_by(|a, b| (a.host, a.slot) == (b.host, b.slot))
    }

    /// Returns, for each host, whether its times count.
    pub fn counts(&self) -> &[bool] {
        &self.counts
    }

    pub(crate) fn custody(&self) -> &[Vec<u32>] {
        &self.custody
    }

    /// Returns the number of segments that a node which keeps this many needs.
    pub(crate) fn needed_of(&self, kept: usize) -> usize {
        self.needed.map_or(kept, |needed| kept.min(needed as usize))
    }

    /// Returns the time to custody of each node that counts and waits for segments, in milliseconds after
    /// `published`.
    ///
    /// It is `None` for a host that did not receive the columns of the slot that it needs.
    pub fn custody_ms(&self, slot: u32, published: u64) -> Vec<(u32, Option<f64>)> {
        let time = |(host, times): (u32, Vec<u64>)| {
            let last = times[self.needed_of(times.len()) - 1];
            (host, (last != u64::MAX).then(|| (last - published) as f64 / 1e6))
        };
        self.arrivals(slot).map(time).collect()
    }

    /// Returns the nodes that count and wait for segments of a slot, each with the sorted times at which
    /// it had them.
    pub fn arrivals(&self, slot: u32) -> impl Iterator<Item = (u32, Vec<u64>)> {
        self.blocks().filter(move |block| block[0].slot == slot).map(|block| {
            let mut times: Vec<u64> = block.iter().map(|delivery| delivery.at).collect();
            times.sort_unstable();
            (block[0].host, times)
        })
    }
}
