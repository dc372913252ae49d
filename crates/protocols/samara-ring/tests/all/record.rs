//! A record of the events of all applications, and checks of the guarantees.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use samara_engine::Time;
use samara_engine::testing::host_of;
use samara_ring::{Event, ViewId};

use crate::parse;

/// Messages as pairs of origin and number.
pub(crate) type Messages = Vec<(u32, u64)>;

/// The deliveries of one application between two views.
#[derive(Clone, Debug, Default)]
pub(crate) struct Epoch {
    pub(crate) view: Option<ViewId>,
    pub(crate) delivered: Messages,
}

/// The events of all hosts.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) epochs: BTreeMap<u32, Vec<Epoch>>,
    /// The deliveries of earlier incarnations.
    past: Vec<(u32, Vec<Epoch>)>,
    numbers: BTreeMap<u32, u64>,
    sent: BTreeMap<u32, BTreeSet<u64>>,
    pub(crate) crashed: BTreeSet<u32>,
    left: BTreeSet<u32>,
    last: BTreeMap<u32, Time>,
    /// The longest time between two deliveries of each host, and the time of the later one.
    pub(crate) gaps: BTreeMap<u32, (Duration, Time)>,
    /// Messages that arrived without a view.
    early: BTreeMap<u32, Messages>,
    pub(crate) suspected: Vec<(Time, u32, u32)>,
    pub(crate) slow: Vec<(Time, u32, u32)>,
    pub(crate) room: u64,
}

impl Record {
    pub(crate) fn next_number(&mut self, host: u32) -> u64 {
        self.numbers.get(&host).copied().unwrap_or(0) + 1
    }

    pub(crate) fn broadcast(&mut self, host: u32, number: u64) {
        self.numbers.insert(host, number);
        self.sent.entry(host).or_default().insert(number);
    }

    pub(crate) fn has_left(&self, host: u32) -> bool {
        self.left.contains(&host)
    }

    pub(crate) fn restarted(&mut self, host: u32) {
        if let Some(epochs) = self.epochs.remove(&host) {
            self.past.push((host, epochs));
        }
    }

    /// Measures gaps from now on.
    pub(crate) fn reset_gaps(&mut self, now: Time) {
        self.gaps.clear();
        self.last.values_mut().for_each(|last| *last = now);
    }

    pub(crate) fn longest_gap(&self) -> Duration {
        self.gaps
            .iter()
            .filter(|(host, _)| !self.crashed.contains(host))
            .map(|(_, gap)| gap.0)
            .max()
            .unwrap_or_default()
    }

    pub(crate) fn take(&mut self, now: Time, host: u32, event: Event) {
        let epochs = self.epochs.entry(host).or_insert_with(|| vec![Epoch::default()]);
        match event {
            Event::View(view) => {
                epochs.push(Epoch { view: Some(view.id), delivered: Vec::new() });
            }
            Event::Delivered { view: None, payload, .. } => {
                self.early.entry(host).or_default().push(parse(&payload.to_bytes()));
            }
            Event::Delivered { view, payload, .. } => {
                let epoch = epochs.last_mut().unwrap();
                assert_eq!(view, epoch.view, "host {host}: delivered in another view");
                epoch.delivered.push(parse(&payload.to_bytes()));
                let last = self.last.insert(host, now).unwrap_or(now);
                let gap = self.gaps.entry(host).or_default();
                *gap = (*gap).max((now.since(last), now));
            }
            Event::Suspected { member, .. } => {
                self.suspected.push((now, host, host_of(&member.identity)));
            }
            Event::Slow { member } => self.slow.push((now, host, host_of(&member.identity))),
            Event::Left => {
                self.left.insert(host);
            }
            Event::Room => self.room += 1,
            Event::Refused(_) => {}
        }
    }

    pub(crate) fn delivered(&self, host: u32) -> Messages {
        self.epochs.get(&host).into_iter().flatten().flat_map(|epoch| epoch.delivered.clone()).collect()
    }

    pub(crate) fn delivered_of(&self, host: u32, origin: u32) -> Vec<u64> {
        self.delivered(host).into_iter().filter(|(by, _)| *by == origin).map(|(_, number)| number).collect()
    }

    pub(crate) fn early_of(&self, host: u32, origin: u32) -> Vec<u64> {
        let early = self.early.get(&host).into_iter().flatten();
        early.filter(|(by, _)| *by == origin).map(|(_, number)| *number).collect()
    }

    fn all(&self) -> impl Iterator<Item = (u32, &Vec<Epoch>)> {
        let past = self.past.iter().map(|(host, epochs)| (*host, epochs));
        past.chain(self.epochs.iter().map(|(host, epochs)| (*host, epochs)))
    }

    /// Asserts that there are no duplicates, that order is kept, and that members with the same two
    /// views delivered the same between them.
    pub(crate) fn assert_promises(&self, is_total: bool, label: &str) {
        for (host, epochs) in self.all() {
            let mut last: BTreeMap<u32, u64> = BTreeMap::new();
            for (origin, number) in epochs.iter().flat_map(|epoch| &epoch.delivered) {
                let before = last.insert(*origin, *number).unwrap_or(0);
                assert!(before < *number, "{label}: host {host} got {number} of {origin} after {before}");
                assert!(self.sent[origin].contains(number), "{label}: {number} of {origin} was never sent");
            }
            for epoch in epochs {
                self.assert_no_hole(host, epoch, label);
            }
        }
        self.assert_synchrony(is_total, label);
    }

    /// Asserts that the messages of each sender within a view have no gaps.
    fn assert_no_hole(&self, host: u32, epoch: &Epoch, label: &str) {
        let mut last: BTreeMap<u32, u64> = BTreeMap::new();
        for (origin, number) in &epoch.delivered {
            if let Some(before) = last.insert(*origin, *number) {
                assert_eq!(before + 1, *number, "{label}: host {host} misses messages of {origin}");
            }
        }
    }

    /// Asserts that members that go from one view to the next together delivered the same messages.
    /// In total order, the order must be the same. If another member of the view failed, its
    /// deliveries must be a prefix of theirs.
    fn assert_synchrony(&self, is_total: bool, label: &str) {
        let mut steps: BTreeMap<(ViewId, ViewId), (u32, Messages)> = BTreeMap::new();
        let mut last: BTreeMap<ViewId, Vec<(u32, &Epoch)>> = BTreeMap::new();
        for (host, epochs) in self.all() {
            for (place, epoch) in epochs.iter().enumerate() {
                let Some(view) = epoch.view else { continue };
                let Some(next) = epochs.get(place + 1).and_then(|next| next.view) else {
                    last.entry(view).or_default().push((host, epoch));
                    continue;
                };
                let mut set = epoch.delivered.clone();
                if !is_total {
                    set.sort_unstable();
                }
                let (other, expected) = steps.entry((view, next)).or_insert_with(|| (host, set.clone()));
                let sizes = (set.len(), expected.len());
                assert!(*expected == set, "{label}: {host} and {other}, {view:?} to {next:?}: {sizes:?}");
            }
        }
        if !is_total {
            return;
        }
        for (view, ends) in &last {
            for (host, epoch) in ends {
                let begins = &epoch.delivered;
                for ((from, next), (other, set)) in &steps {
                    let holds = from != view || self.left.contains(host) || set.starts_with(begins);
                    assert!(holds, "{label}: {other} went from {view:?} to {next:?} unlike {host}");
                }
                for (other, epoch) in ends {
                    let common = begins.len().min(epoch.delivered.len());
                    let agree = begins[..common] == epoch.delivered[..common];
                    assert!(agree, "{label}: {host} and {other} disagree on the order in {view:?}");
                }
            }
        }
    }

    /// Asserts that each of `hosts` has all messages of each of `origins`.
    pub(crate) fn assert_complete(&self, hosts: &[u32], origins: &[u32], label: &str) {
        for origin in origins {
            let sent: Vec<u64> = self.sent.get(origin).into_iter().flatten().copied().collect();
            for host in hosts {
                let got = self.delivered_of(*host, *origin);
                assert!(got == sent, "{label}: host {host} has {} of {} of {origin}", got.len(), sent.len());
            }
        }
    }
}
