//! The messages that each node must have.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The heartbeat of all nodes.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(1);
/// A node that was connected for this long has to have every message.
pub(super) const SETTLED: Duration = Duration::from_secs(2);
/// A message may take this long: nodes whose copies are lost learn of it by the gossip of three
/// heartbeats, and an IWANT without an answer is repeated after three seconds.
pub(super) const DELIVERY: Duration = Duration::from_secs(6);

struct Message {
    publisher: usize,
    at: Instant,
    /// The reason of the publisher for not publishing.
    refused: Option<String>,
    received: BTreeMap<usize, Instant>,
}

/// All messages, and the times at which nodes were connected.
pub(super) struct Ledger {
    start: Instant,
    messages: Vec<Message>,
    /// By node: the times at which it became connected, and at which it was disturbed. The last one
    /// may be open.
    connected: Vec<Vec<(Instant, Option<Instant>)>>,
}

impl Ledger {
    pub(super) fn new(nodes: usize, start: Instant) -> Self {
        Self { start, messages: Vec::new(), connected: vec![Vec::new(); nodes] }
    }

    /// Records a publication. Returns the number of the message, its payload.
    pub(super) fn publish(&mut self, publisher: usize, at: Instant) -> usize {
        self.messages.push(Message { publisher, at, refused: None, received: BTreeMap::new() });
        self.messages.len() - 1
    }

    pub(super) fn refused(&mut self, message: usize, error: String) {
        self.messages[message].refused = Some(error);
    }

    pub(super) fn received(&mut self, node: usize, message: usize, at: Instant) {
        self.messages[message].received.entry(node).or_insert(at);
    }

    pub(super) fn has(&self, node: usize, message: usize) -> bool {
        let message = &self.messages[message];
        message.publisher == node || message.received.contains_key(&node)
    }

    pub(super) fn connect(&mut self, node: usize, at: Instant) {
        self.connected[node].push((at, None));
    }

    pub(super) fn disturb(&mut self, node: usize, at: Instant) {
        if let Some((_, end @ None)) = self.connected[node].last_mut() {
            *end = Some(at);
        }
    }

    /// Returns true if a node was connected over the whole time.
    fn was_connected(&self, node: usize, from: Instant, until: Instant) -> bool {
        let covers =
            |(start, end): &(Instant, Option<Instant>)| *start <= from && end.is_none_or(|end| end >= until);
        self.connected[node].iter().any(covers)
    }

    /// Returns the number of deliveries that had to happen until now, and descriptions of those that
    /// did not.
    pub(super) fn check(&self, now: Instant, name: impl Fn(usize) -> String) -> (usize, Vec<String>) {
        let (mut due, mut missing) = (0, Vec::new());
        for (number, message) in self.messages.iter().enumerate() {
            let Message { publisher, at, .. } = *message;
            if at + DELIVERY > now || !self.was_connected(publisher, at - SETTLED, at + SETTLED) {
                continue;
            }
            let seconds = (at - self.start).as_secs_f64();
            if let Some(error) = &message.refused {
                missing.push(format!("{seconds:.1} s: {} refused to publish: {error}", name(publisher)));
            }
            for node in 0..self.connected.len() {
                if node == publisher || !self.was_connected(node, at - SETTLED, at + DELIVERY) {
                    continue;
                }
                due += 1;
                if !message.received.contains_key(&node) {
                    let others: Vec<String> = message.received.keys().map(|node| name(*node)).collect();
                    missing.push(format!(
                        "{seconds:.1} s: {} lacks message {number} of {}, which reached {others:?}",
                        name(node),
                        name(publisher)
                    ));
                }
            }
        }
        (due, missing)
    }

    pub(super) fn count(&self) -> usize {
        self.messages.len()
    }
}
