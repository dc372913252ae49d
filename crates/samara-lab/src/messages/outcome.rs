//! What is kept of a run with a stream of messages, and its tables.

use crate::scenario::Messages;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, UInt32Array, UInt64Array};
use serde_json::Value;

use std::collections::BTreeMap;

use super::measure::MessageRow;
use super::metrics::{MessageMetrics, message_metrics};
use super::run::MessagesMeasured;
use crate::network::Hosts;
use crate::results::tables::{Columns, Table, distribution, numbers, traffic};
use crate::results::{Data, Measured, Outcome, value};
use crate::scenario::Point;

/// What is kept of a run with a stream of messages.
#[derive(Clone, Debug)]
pub struct MessagesData {
    /// The figures.
    pub metrics: MessageMetrics,
    /// Message by message.
    pub messages: Vec<MessageRow>,
    /// Nodes that a message is to reach: all but its publisher.
    pub others: u32,
    /// Milliseconds from publication to delivery, and the share of deliveries that took at most so long.
    pub latency: Vec<(f64, f64)>,
    /// Milliseconds between two deliveries at a node, and the share that were at most so far apart.
    pub inter_arrival: Vec<(f64, f64)>,
    /// Copies that did not fit into the queue of a node (first) for a peer (second).
    pub lost: BTreeMap<(u32, u32), u64>,
    /// Links of each node.
    pub degrees: Vec<u32>,
}

impl Data for MessagesData {
    fn metrics(&self) -> Value {
        value(&self.metrics)
    }

    fn is_incomplete(&self) -> bool {
        self.metrics.incomplete > 0
    }
}

impl MessagesData {
    fn of(measured: &MessagesMeasured) -> Self {
        Self {
            metrics: message_metrics(measured),
            messages: measured.collector.rows().to_vec(),
            others: measured.point.scenario.network.nodes - 1,
            latency: measured.collector.latency().distribution_ms(),
            inter_arrival: measured.collector.inter_arrival().distribution_ms(),
            lost: measured.lost.clone(),
            degrees: measured.degrees.clone(),
        }
    }
}

impl Measured for MessagesMeasured {
    fn point(&self) -> &Point {
        &self.point
    }

    fn hosts(&self) -> Option<&Hosts> {
        Some(&self.hosts)
    }

    fn outcome(&self) -> Outcome {
        let data = MessagesData::of(self);
        let rate = self.point.scenario.find::<Messages>().map_or(0.0, |messages| messages.rate);
        let parameter = ("messages_per_s", rate.into());
        Outcome::new(&self.point, (self.digest, self.steps), parameter, data).erased()
    }

    fn tables<'a>(&'a self, outcome: &'a Outcome) -> Vec<Table<'a>> {
        let Some(data) = outcome.data::<MessagesData>() else { panic!("the outcome of another family") };
        messages(self, data)
    }
}

/// Of a run with a stream of messages.
fn messages<'a>(measured: &'a MessagesMeasured, result: &'a MessagesData) -> Vec<Table<'a>> {
    vec![
        Table::new("messages", result.messages.len(), || message_rows(result)),
        distribution("delivery_latency", "delivery_latency_ms", &result.latency),
        distribution("inter_arrival", "inter_arrival_ms", &result.inter_arrival),
        Table::new("queue_drops", result.lost.len(), || {
            vec![
                ("node", numbers(result.lost.keys().map(|(node, _)| *node))),
                ("peer", numbers(result.lost.keys().map(|(_, peer)| *peer))),
                ("copies", Arc::new(UInt64Array::from_iter_values(result.lost.values().copied()))),
            ]
        }),
        Table::new("traffic", measured.traffic.len(), || message_traffic(measured)),
    ]
}

fn message_traffic(measured: &MessagesMeasured) -> Columns {
    let counts = &measured.counts;
    let mut nodes = traffic(&measured.traffic, &measured.hosts, &measured.point.scenario);
    nodes.extend([
        ("links", numbers(measured.degrees.iter().copied())),
        (
            "delivered",
            Arc::new(UInt64Array::from_iter_values(measured.collector.delivered_by_node().iter().copied()))
                as ArrayRef,
        ),
        ("duplicates", Arc::new(UInt64Array::from_iter_values(counts.iter().map(|node| node.duplicates)))),
        ("answered_copies", Arc::new(UInt64Array::from_iter_values(counts.iter().map(|node| node.answered)))),
    ]);
    nodes
}

/// A row for each message.
fn message_rows(result: &MessagesData) -> Columns {
    let rows = &result.messages;
    let first = rows.iter().map(|row| row.published).min().unwrap_or(0);
    let published = rows.iter().map(|row| row.published.saturating_sub(first) as f64 / 1e6);
    let complete = |row: &&MessageRow| row.delivered == result.others;
    let times = rows.iter().map(|row| Some(row).filter(complete).map(|row| row.dissemination_ms()));
    let hops = rows.iter().map(|row| Some(row).filter(complete).map(|row| u32::from(row.last_hop)));
    vec![
        ("message", numbers(0..rows.len() as u32)),
        ("publisher", numbers(rows.iter().map(|row| row.publisher))),
        ("published_ms", Arc::new(Float64Array::from_iter_values(published))),
        ("delivered", numbers(rows.iter().map(|row| row.delivered))),
        ("dissemination_ms", Arc::new(Float64Array::from_iter(times))),
        ("last_delivery_hop", Arc::new(UInt32Array::from_iter(hops))),
    ]
}
