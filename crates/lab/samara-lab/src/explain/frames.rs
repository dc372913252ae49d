//! Paths from the frames that real hosts have seen: their senders and receivers, and no causes within
//! the transport.

use rustc_hash::FxHashMap;
use samara_sim::{Arrival, Arrivals, Cause, Compact, Parts, Trigger};

use super::Delivered;
use crate::processes::Moved;

/// An item, with the name by which requests ask for it if they do.
#[derive(Clone, Copy, Debug)]
struct First {
    at: u64,
    from: u32,
    name: Option<u64>,
}

/// The frames of a run that carry items, or ask for them.
#[derive(Debug, Default)]
pub struct Frames {
    /// The first arrival of each item at each host.
    received: FxHashMap<(u32, u64), First>,
    /// The times at which a host wrote an item to another one.
    sent: FxHashMap<(u32, u32, u64), Vec<u64>>,
    /// The time at which the second host learnt that the first one wants an item.
    requested: FxHashMap<(u32, u32, u64), u64>,
    /// The hosts that a host asked for an item, with the times.
    asked: FxHashMap<(u32, u64), Vec<(u32, u64)>>,
}

impl Frames {
    /// Notes a frame that a host has sent or received.
    pub fn moved(&mut self, host: u32, moved: &Moved) {
        let Moved { at_ns: at, peer, is_sent, .. } = *moved;
        for name in &moved.asked {
            if is_sent {
                self.asked.entry((host, *name)).or_default().push((peer, at));
            } else {
                self.requested.entry((peer, host, *name)).or_insert(at);
            }
        }
        for (index, item) in moved.items.iter().enumerate() {
            if is_sent {
                self.sent.entry((host, peer, *item)).or_default().push(at);
            } else {
                let name = moved.names.get(index).copied();
                self.received.entry((host, *item)).or_insert(First { at, from: peer, name });
            }
        }
    }

    /// Returns the arrivals. From the moment at which the sender had the item: an announcement, requests
    /// to others, the request, the wait in the outbox until the copy is written, the latency of the
    /// link, and the rest of the transport. Without any frame, deliveries are the arrivals.
    pub fn arrivals(mut self, delivered: &[Delivered], latency: impl Fn(u32, u32) -> u64) -> Arrivals {
        if self.received.is_empty() {
            for Delivered { node, item, from, at, .. } in delivered.iter().copied() {
                if let Some(from) = from.filter(|from| *from != node) {
                    self.received.insert((node, item), First { at, from, name: None });
                }
            }
        }
        let mut published: FxHashMap<u32, Vec<u64>> = FxHashMap::default();
        delivered.iter().for_each(|it| published.entry(it.origin.host).or_default().push(it.origin.at));
        published.values_mut().for_each(|times| times.sort_unstable());
        let nodes = self.received.keys().map(|(host, _)| host + 1).max().unwrap_or(0);
        let mut arrivals = vec![FxHashMap::default(); nodes as usize];
        for ((node, item), First { at, from, name }) in &self.received {
            let (node, item, at, from) = (*node, *item, *at, *from);
            let sent = self.sent.get(&(from, node, item));
            let sent = sent.and_then(|times| times.iter().rfind(|time| **time <= at).copied());
            let until = sent.unwrap_or(at);
            let own = || published.get(&from)?.iter().rfind(|time| **time <= until).copied();
            let has = self.received.get(&(from, item)).map(|first| first.at).or_else(own);
            let Some(has) = has.filter(|has| *has <= at) else { continue };
            let sent = sent.map_or(has, |sent| sent.max(has));
            let requested = name.and_then(|name| self.requested.get(&(node, from, name)).copied());
            let requested = requested.filter(|requested| (has..=sent).contains(requested));
            let owed_at = requested.unwrap_or(has);
            let on_link = latency(from, node).min(at - sent);
            let asked = name.and_then(|name| self.asked.get(&(node, name))).and_then(|asked| {
                let (_, sender) = asked.iter().find(|(peer, _)| *peer == from)?;
                Some(Box::new([asked[0].1, *sender]))
            });
            let mut parts = Parts::default();
            parts.add(Cause::Outbox, sent - owed_at);
            parts.add(Cause::Latency, on_link);
            parts.add(Cause::Transport, at - sent - on_link);
            let trigger = if requested.is_some() { Trigger::Frame } else { Trigger::Command };
            let parts = Compact::from(&parts);
            arrivals[node as usize].insert(item, Arrival { item, from, at, owed_at, trigger, asked, parts });
        }
        Arrivals::new(arrivals)
    }
}
