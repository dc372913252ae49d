//! Turns the traces of nodes into the measurements of a simulation.

use std::path::Path;

use rustc_hash::FxHashMap;
use samara_lab::columns::measure::CopyRow;
use samara_trace::{Body, TraceReader};

use crate::TestbedError;

#[derive(Clone, Debug)]
pub(crate) struct Published {
    pub(crate) node: u32,
    pub(crate) topic: String,
    /// Time of the publication in nanoseconds since 1970.
    pub(crate) at: u64,
}

/// A copy of a message that a node received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    pub(crate) at: u64,
    pub(crate) node: u32,
    /// The sender, or `u32::MAX` if the trace does not name it.
    pub(crate) from: u32,
    /// An index into [`Events::published`].
    pub(crate) message: usize,
    pub(crate) first: bool,
}

/// The events in the traces of all nodes.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// Publications by node, in the order of publication.
    pub(crate) published: Vec<Published>,
    /// Receptions by time.
    pub(crate) received: Vec<Received>,
    /// RPCs with messages that a node (first) lost before they left for a peer (second).
    pub(crate) dropped: Vec<(u32, u32)>,
}

/// Reads the traces of all nodes, in the order of the nodes.
pub(crate) fn events(traces: &[&Path]) -> Result<Events, TestbedError> {
    let mut peers: FxHashMap<Vec<u8>, u32> = FxHashMap::default();
    let mut messages: FxHashMap<Vec<u8>, usize> = FxHashMap::default();
    let mut events = Events::default();
    for (trace, node) in traces.iter().zip(0..) {
        for event in TraceReader::open(trace)? {
            let event = event?;
            if let Some(peer) = &event.peer_id
                && !peers.contains_key(peer)
            {
                peers.insert(peer.clone(), node);
            }
            let at = event.timestamp.unwrap_or(0).max(0) as u64;
            if let Some(Body::PublishMessage(body)) = event.body() {
                messages.insert(body.message_id.unwrap_or_default(), events.published.len());
                events.published.push(Published { node, topic: body.topic.unwrap_or_default(), at });
            }
        }
    }
    let host = |peer: Option<Vec<u8>>| peer.and_then(|peer| peers.get(&peer).copied()).unwrap_or(u32::MAX);
    for (trace, node) in traces.iter().zip(0..) {
        for event in TraceReader::open(trace)? {
            let event = event?;
            let at = event.timestamp.unwrap_or(0).max(0) as u64;
            let (id, from, first) = match event.body() {
                Some(Body::DeliverMessage(body)) => (body.message_id, body.received_from, true),
                Some(Body::DuplicateMessage(body)) => (body.message_id, body.received_from, false),
                Some(Body::DropRpc(body)) => {
                    if body.meta.is_some_and(|meta| !meta.messages.is_empty()) {
                        events.dropped.push((node, host(body.send_to)));
                    }
                    continue;
                }
                _ => continue,
            };
            let from = host(from);
            let message = id.and_then(|id| messages.get(&id).copied());
            // A node also delivers its own messages to itself.
            if let Some(message) = message.filter(|_| from != node) {
                events.received.push(Received { at, node, from, message, first });
            }
        }
    }
    events.received.sort_by_key(|row| (row.at, row.node));
    Ok(events)
}

impl Events {
    /// The number in the plan of each published message. The order of a node's messages is that of
    /// the plan.
    pub(crate) fn numbers(&self, publishers: &[u32]) -> Vec<Option<u32>> {
        let mut planned: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        for (publisher, number) in publishers.iter().zip(0..) {
            planned.entry(*publisher).or_default().push(number);
        }
        let mut next: FxHashMap<u32, usize> = FxHashMap::default();
        self.published
            .iter()
            .map(|message| {
                let place = next.entry(message.node).or_default();
                *place += 1;
                planned.get(&message.node)?.get(*place - 1).copied()
            })
            .collect()
    }

    /// The column of each published message: slot times columns plus column. The slot of the n-th
    /// message on a topic is n.
    pub(crate) fn columns(&self, topics: &FxHashMap<&str, u32>) -> Vec<Option<u32>> {
        let mut slots = vec![0; topics.len()];
        self.published
            .iter()
            .map(|message| {
                let column = *topics.get(message.topic.as_str())?;
                let slot = &mut slots[column as usize];
                *slot += 1;
                Some((*slot - 1) * topics.len() as u32 + column)
            })
            .collect()
    }

    /// The copies of columns, with times from `start`.
    pub(crate) fn copies(&self, columns: &[Option<u32>], start: u64) -> Vec<CopyRow> {
        let row = |copy: &Received| {
            Some(CopyRow {
                at: copy.at.saturating_sub(start),
                host: copy.node,
                from: copy.from,
                column: columns[copy.message]?,
                first: copy.first,
            })
        };
        self.received.iter().filter_map(row).collect()
    }
}
