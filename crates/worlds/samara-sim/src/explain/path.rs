//! Paths: how an item came from its origin to a host, hop by hop.

use rustc_hash::FxHashMap;

use super::{Arrival, Cause, Compact, Parts, Trigger};

/// The first arrivals of items at all hosts, and the times in which hosts were down.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    hosts: Vec<FxHashMap<u64, Arrival>>,
    down: Vec<Vec<(u64, u64)>>,
}

/// The host where an item comes from, and the time since which it has it, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The publisher.
    pub host: u32,
    /// The time of the publication.
    pub at: u64,
}

/// One hop of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The sender.
    pub from: u32,
    /// The receiver.
    pub to: u32,
    /// The time since which the sender has the item, in nanoseconds.
    pub since: u64,
    /// The time of the arrival at the receiver, in nanoseconds.
    pub at: u64,
    /// The time from `since` to `at`, by cause.
    pub parts: Parts,
}

impl Arrivals {
    /// Creates the arrivals from those of each host, by item.
    pub fn new(hosts: impl IntoIterator<Item = FxHashMap<u64, Arrival>>) -> Self {
        Self { hosts: hosts.into_iter().collect(), down: Vec::new() }
    }

    /// Sets the ranges of time in which each host was down, in nanoseconds: in order, and without
    /// overlaps.
    #[must_use]
    pub fn with_down(self, down: Vec<Vec<(u64, u64)>>) -> Self {
        Self { down, ..self }
    }

    /// Returns the nanoseconds of a range of time in which any of some hosts was down.
    fn down_nanos(&self, hosts: &[u32], (from, until): (u64, u64)) -> u64 {
        let ranges = hosts.iter().filter_map(|host| self.down.get(*host as usize)).flatten();
        let inside = ranges.map(|(start, end)| ((*start).max(from), (*end).min(until)));
        let mut inside: Vec<(u64, u64)> = inside.filter(|(start, end)| start < end).collect();
        inside.sort_unstable();
        let (mut nanos, mut counted) = (0, from);
        for (start, end) in inside {
            nanos += end.saturating_sub(start.max(counted));
            counted = counted.max(end);
        }
        nanos
    }

    /// Adds a range of time to the parts of some hosts: while any of them was down, that is the cause.
    pub fn add(&self, parts: &mut Parts, hosts: &[u32], cause: Cause, (from, until): (u64, u64)) {
        let down = self.down_nanos(hosts, (from, until));
        parts.add(Cause::NodeDown, down);
        parts.add(cause, until.saturating_sub(from) - down);
    }

    /// Returns the number of hosts.
    pub fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// Returns the first arrival of an item at a host.
    pub fn get(&self, host: u32, item: u64) -> Option<&Arrival> {
        self.hosts.get(host as usize)?.get(&item)
    }

    /// Returns all arrivals of a host with their items, by time and then by item.
    pub fn at(&self, host: u32) -> Vec<(u64, &Arrival)> {
        let of_host = self.hosts.get(host as usize).into_iter().flatten();
        let mut all: Vec<_> = of_host.map(|(item, arrival)| (*item, arrival)).collect();
        all.sort_unstable_by_key(|(item, arrival)| (arrival.at, *item));
        all
    }

    /// Records an item that a host did not receive, but has made out of another one. Its path up to
    /// then is that of the other item, whose arrival must be recorded.
    pub fn make(&mut self, host: u32, item: u64, of: u64, at: u64) {
        let Some(arrivals) = self.hosts.get_mut(host as usize) else { return };
        let Some(last) = arrivals.get(&of).filter(|last| last.at <= at) else { return };
        let mut parts = Parts::default();
        parts += &last.parts;
        parts.add(Cause::Processor, at - last.at);
        let made = Arrival { at, parts: Compact::from(&parts), ..last.clone() };
        arrivals.insert(item, made);
    }

    /// Returns the path of an item to a host; `None` if it has not arrived there, or if a node had it
    /// before its publication, because a hostile node invented it, or if senders name each other in a
    /// circle, as programs of others can. The hops follow each other without
    /// gaps, from `origin.at` to the arrival. If a sender's own arrival is not recorded, the cause of
    /// the time before is unknown.
    pub fn path(&self, host: u32, item: u64, origin: Origin) -> Option<Vec<Hop>> {
        let mut arrival = self.get(host, item)?;
        let mut item = arrival.item;
        let (mut to, mut hops) = (host, Vec::new());
        loop {
            if arrival.at < origin.at || hops.len() > self.hosts() {
                return None;
            }
            let before = if arrival.from == origin.host { None } else { self.get(arrival.from, item) };
            let before = before.filter(|before| before.at <= arrival.owed_at);
            let since = before.map_or(origin.at, |before| before.at);
            hops.push(self.hop(arrival, to, since, before.is_some() || arrival.from == origin.host));
            let Some(before) = before else { break };
            (to, arrival, item) = (arrival.from, before, before.item);
        }
        hops.reverse();
        Some(hops)
    }

    /// Returns the hop of an arrival to `to`, from the moment `since` which the sender has the item. If the record
    /// does not know how the sender got it, `is_known` is false, and the cause of the time until the
    /// sender owed the copy is unknown. While an end of the hop was down, that is the cause.
    pub fn hop(&self, arrival: &Arrival, to: u32, since: u64, is_known: bool) -> Hop {
        let Arrival { from, at, owed_at, trigger, .. } = *arrival;
        let ends = [from, to];
        let mut parts = Parts::default();
        if since <= owed_at {
            let mut waited_from = since;
            if let Some(asked) = arrival.asked.as_deref().filter(|_| is_known && trigger == Trigger::Frame) {
                for (cause, until) in [Cause::Announcement, Cause::Withheld].into_iter().zip(asked) {
                    let until = (*until).clamp(waited_from, owed_at);
                    self.add(&mut parts, &ends, cause, (waited_from, until));
                    waited_from = until;
                }
            }
            let cause = if is_known { trigger.cause() } else { Cause::Unknown };
            self.add(&mut parts, &ends, cause, (waited_from, owed_at));
            let mut of_copy = Parts::default();
            of_copy += &arrival.parts;
            // The parts of a copy have no times. It waits for its link while an end is down.
            let down = self.down_nanos(&ends, (owed_at, at));
            let left = of_copy.give([Cause::Handshake, Cause::Timer, Cause::Loss], Cause::NodeDown, down);
            of_copy.give(Cause::ALL, Cause::NodeDown, left);
            parts += &Compact::from(&of_copy);
        } else {
            self.add(&mut parts, &ends, Cause::Unknown, (since, at.max(since)));
        }
        Hop { from, to, since, at, parts }
    }
}

/// Returns the parts of a whole path.
pub fn parts_of(path: &[Hop]) -> Parts {
    let mut all = Parts::default();
    path.iter().flat_map(|hop| hop.parts.iter()).for_each(|(cause, nanos)| all.add(cause, nanos));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs of others can name each other as senders at the same moment.
    #[test]
    fn senders_in_a_circle_have_no_path() {
        let arrival = |from| Arrival {
            item: 7,
            from,
            at: 10,
            owed_at: 10,
            trigger: Trigger::Frame,
            asked: None,
            parts: Compact::default(),
        };
        let hosts = [None, Some(2), Some(1)];
        let of = |from: Option<u32>| from.map(|from| (7, arrival(from))).into_iter().collect();
        let arrivals = Arrivals::new(hosts.map(of));
        let origin = Origin { host: 0, at: 0 };
        assert_eq!(arrivals.path(1, 7, origin), None);
    }
}
