//! The timeline of an uplink: when it was busy, and with whose data.

use rustc_hash::FxHashMap;

/// Busy periods in order of time, so that the busy time up to any moment can be computed.
#[derive(Debug, Default)]
pub(super) struct Busy {
    /// Start, end, and the busy time before the start, in nanoseconds.
    periods: Vec<(u64, u64, u64)>,
    total: u64,
}

impl Busy {
    /// Adds a period that does not begin before the end of the last one.
    pub(super) fn add(&mut self, start: u64, end: u64) {
        debug_assert!(self.periods.last().is_none_or(|last| last.1 <= start), "periods overlap");
        match self.periods.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => self.periods.push((start, end, self.total)),
        }
        self.total += end - start;
    }

    /// Returns the busy time before `at`. Moments before the first remembered period count as idle.
    pub(super) fn until(&self, at: u64) -> u64 {
        if let Some((_, end, _)) = self.periods.last()
            && *end <= at
        {
            return self.total;
        }
        let after = self.periods.partition_point(|(start, ..)| *start < at);
        match after.checked_sub(1).map(|index| self.periods[index]) {
            Some((start, end, before)) => before + end.min(at) - start,
            None => self.periods.first().map_or(self.total, |first| first.2),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.periods.len()
    }

    /// Forgets the periods that end before `at`. Returns true if none is left.
    pub(super) fn forget(&mut self, at: u64) -> bool {
        let old = self.periods.partition_point(|(_, end, _)| *end < at);
        self.periods.drain(..old);
        self.periods.is_empty()
    }
}

/// The busy times of an uplink and a link at a moment, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) uplink: u64,
    /// The uplink's time with packets of the link.
    pub(super) link: u64,
    /// The part of `link` with retransmissions.
    pub(super) again: u64,
    /// The part of `link` with first transmissions of a batch.
    pub(super) batch: u64,
}

/// The last packet that an uplink took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Packet {
    /// The link whose [`LinkTime`] counts the packet. An acknowledgement counts for none.
    pub(super) slot: Option<u32>,
    pub(super) batch: Option<u64>,
    pub(super) again: bool,
    pub(super) start: u64,
    pub(super) end: u64,
}

/// The packets of an uplink.
#[derive(Debug, Default)]
pub(super) struct Uplink {
    pub(super) busy: Busy,
    pub(super) batches: FxHashMap<u64, Busy>,
    last: Packet,
}

/// The busy time of a link since the start.
#[derive(Debug, Default)]
pub(super) struct LinkTime {
    link: u64,
    again: u64,
    /// The time of each batch. Few batches share a link at a time; the last one is looked up most.
    batches: Vec<(u64, u64)>,
}

impl LinkTime {
    /// Forgets batches except these, for which nobody waits any more.
    pub(super) fn keep(&mut self, is_awaited: impl Fn(u64) -> bool) {
        self.batches.retain(|(batch, _)| is_awaited(*batch));
    }

    pub(super) fn batches(&self) -> usize {
        self.batches.len()
    }

    /// Returns the counters of the link and a batch now. A packet that is still leaving counts up to
    /// now.
    pub(super) fn counters(&self, uplink: &Uplink, now: u64, slot: u32, batch: Option<u64>) -> Counters {
        let last = &uplink.last;
        let ahead = last.end.saturating_sub(last.start.max(now));
        let of_link = if last.slot == Some(slot) { ahead } else { 0 };
        let known = batch.and_then(|batch| self.batches.iter().rev().find(|(known, _)| *known == batch));
        let sent = known.map_or(0, |(_, busy)| *busy);
        let is_batch = batch.is_some() && last.batch == batch && !last.again;
        Counters {
            uplink: uplink.busy.until(now),
            link: self.link - of_link,
            again: self.again - if last.again { of_link } else { 0 },
            batch: sent - if is_batch { of_link.min(sent) } else { 0 },
        }
    }
}

impl Uplink {
    /// Takes a packet; `link` is the time of its link, if anybody needs it. A packet that takes no time
    /// may have been dropped before the uplink, while the last one still leaves.
    pub(super) fn send(&mut self, packet: Packet, link: Option<&mut LinkTime>) {
        let Packet { batch, again, start, end, .. } = packet;
        if start == end {
            return;
        }
        self.busy.add(start, end);
        self.last = packet;
        let Some(link) = link else { return };
        link.link += end - start;
        if again {
            link.again += end - start;
        } else if let Some(batch) = batch {
            self.batches.entry(batch).or_default().add(start, end);
            match link.batches.iter_mut().rev().find(|(known, _)| *known == batch) {
                Some((_, busy)) => *busy += end - start,
                None => link.batches.push((batch, end - start)),
            }
        }
    }

    /// Returns the batch of the last packet.
    pub(super) const fn last_batch(&self) -> Option<u64> {
        self.last.batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_time_counts_parts_of_periods() {
        let mut busy = Busy::default();
        busy.add(10, 20);
        busy.add(20, 25);
        busy.add(40, 50);
        assert_eq!(busy.len(), 2);
        let at = |at| busy.until(at);
        assert_eq!([at(0), at(10), at(15), at(25), at(30), at(45), at(99)], [0, 0, 5, 15, 15, 20, 25]);
        assert!(!busy.forget(30));
        assert_eq!([busy.until(30), busy.until(45)], [15, 20], "the total outlives forgotten periods");
        assert!(busy.forget(60));
        assert_eq!(busy.until(60), 25);
    }

    #[test]
    fn acknowledgements_and_dropped_packets_are_no_time_of_their_link() {
        let (mut uplink, mut link) = (Uplink::default(), LinkTime::default());
        let packet = |slot, start, end| Packet { slot, batch: Some(9), again: false, start, end };
        let of_link = |uplink: &Uplink, link: &LinkTime, now| link.counters(uplink, now, 3, Some(9)).link;
        uplink.send(packet(Some(3), 10, 20), Some(&mut link));
        assert_eq!(of_link(&uplink, &link, 14), 4, "a packet that leaves counts up to now");
        uplink.send(packet(Some(3), 15, 15), Some(&mut link));
        assert_eq!(of_link(&uplink, &link, 16), 6, "a packet that was dropped changes nothing");
        uplink.send(packet(None, 20, 30), None);
        assert_eq!([of_link(&uplink, &link, 25), of_link(&uplink, &link, 40)], [10, 10]);
    }
}
