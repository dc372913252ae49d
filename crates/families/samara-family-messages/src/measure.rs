//! Collects deliveries of single messages and derives figures of each message and node.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use samara_lab::statistics::Durations;
use samara_pubsub::frames::MessageNumber;
use samara_scenario::Point;

use samara_lab::results::{Deliveries, DeliveryRow, Spread};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageRow {
    /// Publication time in nanoseconds of the run; `u64::MAX` if the message was not published.
    pub published: u64,
    pub publisher: u32,
    /// Number of other nodes that received it.
    pub delivered: u32,
    pub last_at: u64,
    /// Hops of the last delivery (LDH); `u8::MAX` stands for that many or more.
    pub last_hop: u8,
}

impl MessageRow {
    /// Returns the milliseconds from the publication to the last delivery.
    pub fn dissemination_ms(&self) -> f64 {
        self.last_at.saturating_sub(self.published) as f64 / 1e6
    }
}

/// Collects publications and deliveries, in order of time.
#[derive(Debug, Default)]
pub struct MessageCollector {
    nodes: u32,
    /// The figures of each message, by number.
    pub rows: Vec<MessageRow>,
    /// For each message and node: hops of the delivery plus one; 0 before the delivery.
    hops: Vec<u8>,
    /// A row for each delivery; its detail is the number of hops.
    pub deliveries: Deliveries,
    /// Times from publication to delivery.
    pub latency: Durations,
    /// Times from a delivery to the next one at the same node.
    pub inter_arrival: Durations,
    /// The last delivery of each node; `u64::MAX` before the first.
    last_at: Vec<u64>,
    pub delivered: Vec<u64>,
    /// Number of deliveries of each node that were not its first of a published message.
    pub repeated: Vec<u64>,
    /// Number of deliveries still missing.
    pub missing: u64,
    /// Time of the latest delivery.
    pub latest: u64,
    /// Number of copies that did not fit into a queue, by node and peer.
    pub lost: BTreeMap<(u32, u32), u64>,
}

impl MessageCollector {
    /// Creates a collector for messages of these publishers. Each message must reach all other
    /// nodes.
    pub fn new(publishers: &[u32], nodes: u32) -> Self {
        let rows = publishers.iter().map(|publisher| MessageRow {
            published: u64::MAX,
            publisher: *publisher,
            delivered: 0,
            last_at: 0,
            last_hop: 0,
        });
        Self {
            nodes,
            rows: rows.collect(),
            hops: vec![0; publishers.len() * nodes as usize],
            last_at: vec![u64::MAX; nodes as usize],
            delivered: vec![0; nodes as usize],
            repeated: vec![0; nodes as usize],
            missing: publishers.len() as u64 * u64::from(nodes - 1),
            ..Self::default()
        }
    }

    pub fn published(&mut self, message: MessageNumber, at: u64) {
        let row = &mut self.rows[message as usize];
        row.published = at;
        let place = message as usize * self.nodes as usize + row.publisher as usize;
        self.hops[place] = 1;
    }

    /// Records the delivery of a message. Returns false for a repeated delivery or an unpublished
    /// message.
    pub fn delivered(&mut self, message: MessageNumber, host: u32, from: u32, at: u64) -> bool {
        let start = message as usize * self.nodes as usize;
        let published = self.rows.get_mut(message as usize).filter(|row| row.published != u64::MAX);
        let is_first =
            host < self.nodes && self.hops.get(start + host as usize).is_none_or(|hops| *hops == 0);
        let Some(row) = published.filter(|_| is_first) else {
            if let Some(repeated) = self.repeated.get_mut(host as usize) {
                *repeated += 1;
            }
            return false;
        };
        // The sender had the message, so its own delivery comes first unless clocks differ.
        let sender = if from < self.nodes { self.hops[start + from as usize].max(1) } else { 1 };
        self.hops[start + host as usize] = sender.saturating_add(1);
        row.delivered += 1;
        row.last_at = row.last_at.max(at);
        row.last_hop = sender;
        let nanos = at.saturating_sub(row.published);
        self.latency.add(nanos);
        self.deliveries.add(DeliveryRow {
            item: message,
            nanos,
            node: host,
            from,
            detail: u32::from(sender),
        });
        let last = &mut self.last_at[host as usize];
        if *last != u64::MAX {
            self.inter_arrival.add(at.saturating_sub(*last));
        }
        *last = at;
        self.delivered[host as usize] += 1;
        self.missing -= 1;
        self.latest = self.latest.max(at);
        true
    }

    /// Returns true if a node has a message, or published it.
    pub fn has(&self, message: MessageNumber, node: u32) -> bool {
        self.hops[message as usize * self.nodes as usize + node as usize] != 0
    }

    /// Returns the way of some messages that were published.
    pub(crate) fn spread(&self, point: &Point) -> Spread {
        let published = (0..).zip(&self.rows).filter(|(_, row)| row.published != u64::MAX);
        let messages = published.map(|(message, row)| (message, row.publisher));
        self.deliveries.spread(point, messages, |row| row.item, |_| true)
    }

    pub fn expected(&self) -> u64 {
        self.rows.len() as u64 * u64::from(self.nodes - 1)
    }

    /// Records that a copy did not fit into the queue of a node for a peer.
    pub fn lost(&mut self, node: u32, peer: u32) {
        *self.lost.entry((node, peer)).or_default() += 1;
    }
}
