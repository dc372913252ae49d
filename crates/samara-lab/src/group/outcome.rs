//! What is kept of a run with a group, and its tables.

use crate::scenario::Group;
use std::sync::Arc;

use serde_json::Value;

use super::app::Ledger;
use super::metrics::{GroupMetrics, group_metrics};
use super::run::GroupMeasured;
use crate::network::Hosts;
use crate::results::columns::column;
use crate::results::tables::{Columns, Table, distribution, traffic};
use crate::results::{Data, Measured, Outcome, ratio, value};
use crate::scenario::Point;
use crate::statistics::Durations;

/// What is kept of a run with a group.
#[derive(Clone, Debug)]
pub struct GroupData {
    /// The figures.
    pub metrics: GroupMetrics,
    pub members: Vec<MemberRow>,
    /// Bytes of frames on each link: by sender, and then by receiver.
    pub links: Vec<Vec<u64>>,
    /// Milliseconds from handing in a message until another member delivers it, and the share of deliveries that took at most so long.
    pub latency: Vec<(f64, f64)>,
    /// How long the stream took, in milliseconds.
    pub took_ms: f64,
}

/// What is known of a member.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemberRow {
    /// Whether it was a member all the time.
    pub is_steady: bool,
    /// Messages that it broadcast.
    pub broadcast: u64,
    /// Messages that it delivered.
    pub delivered: u64,
    /// Payload that it delivered until its last delivery.
    pub throughput_mb_per_s: f64,
    /// The part of the time in which its uplink was busy.
    pub uplink_utilisation: f64,
    /// The longest time that it delivered nothing.
    pub longest_gap_ms: f64,
    /// When that was over, in milliseconds after the first message.
    pub longest_gap_until_ms: f64,
    /// Bytes that it sent in a second after all was over.
    pub idle_bytes: u64,
}

impl Data for GroupData {
    fn metrics(&self) -> Value {
        value(&self.metrics)
    }

    fn is_incomplete(&self) -> bool {
        self.metrics.lost + self.metrics.faults() > 0
    }

    fn related(&self, _own: &Outcome, others: &[&Outcome], _first: &str) -> Option<Arc<dyn Data>> {
        let base = &others.first()?.data::<Self>()?.metrics;
        let over = |own: f64, base: f64| (base > 0.0).then(|| own / base);
        let mut related = self.clone();
        let own = &mut related.metrics;
        own.gain = over(own.throughput_mb_per_s, base.throughput_mb_per_s);
        own.gain_bound = over(own.shape_bound_mb_per_s, base.shape_bound_mb_per_s);
        Some(Arc::new(related))
    }
}

impl GroupData {
    fn of(measured: &GroupMeasured) -> Self {
        let group = measured.point.scenario.part::<Group>().clone();
        let begin = group.warm_up.nanos();
        let after = |at: u64| at.saturating_sub(begin) as f64;
        let member = |(host, ledger): (usize, &Ledger)| MemberRow {
            is_steady: measured.fates.is_steady(host),
            broadcast: ledger.broadcast,
            delivered: ledger.delivered,
            throughput_mb_per_s: ratio(ledger.delivered_bytes as f64, after(ledger.last_at.as_nanos())) * 1e3,
            uplink_utilisation: ratio(
                measured.traffic[host].uplink_busy_nanos as f64,
                measured.measured_nanos as f64,
            ),
            longest_gap_ms: ledger.longest_gap_ns as f64 / 1e6,
            longest_gap_until_ms: after(ledger.longest_gap_at.as_nanos()) / 1e6,
            idle_bytes: measured.idle_bytes[host],
        };
        let hosts = 0..measured.ledgers.len();
        let to = |from: usize| measured.ledgers.iter().map(|ledger| ledger.bytes_from[from]).collect();
        let mut latency = Durations::default();
        let steady = hosts.clone().filter(|host| measured.fates.is_steady(*host));
        steady.for_each(|host| latency.join(&measured.ledgers[host].latency));
        Self {
            metrics: group_metrics(measured),
            members: measured.ledgers.iter().enumerate().map(member).collect(),
            links: hosts.map(to).collect(),
            latency: latency.distribution_ms(),
            took_ms: measured.measured_nanos as f64 / 1e6,
        }
    }
}

impl Measured for GroupMeasured {
    fn point(&self) -> &Point {
        &self.point
    }

    fn hosts(&self) -> Option<&Hosts> {
        Some(&self.hosts)
    }

    fn outcome(&self) -> Outcome {
        let data = GroupData::of(self);
        let group = self.point.scenario.find::<Group>();
        let senders = group.map_or(0, |group| group.senders(self.point.scenario.network.nodes));
        let parameter = ("senders", senders.into());
        Outcome::new(&self.point, (self.digest, self.steps), parameter, data).erased()
    }

    fn tables<'a>(&'a self, outcome: &'a Outcome) -> Vec<Table<'a>> {
        let Some(data) = outcome.data::<GroupData>() else { panic!("the outcome of another family") };
        vec![
            distribution("delivery_latency", "delivery_latency_ms", &data.latency),
            Table::new("links", data.links.iter().map(Vec::len).sum(), || link_rows(data)),
            Table::new("suspicions", self.suspicions.len(), || suspicion_rows(self)),
            Table::new("traffic", self.traffic.len(), || group_traffic(self, data)),
        ]
    }
}

/// A row for each pair of members.
fn link_rows(result: &GroupData) -> Columns {
    let rows = || (0u32..).zip(&result.links);
    let pairs =
        || rows().flat_map(|(from, row)| (0u32..).zip(row).map(move |(to, bytes)| (from, to, *bytes)));
    vec![
        ("from", column(pairs().map(|(from, ..)| from))),
        ("to", column(pairs().map(|(_, to, _)| to))),
        ("frame_bytes", column(pairs().map(|(.., bytes)| bytes))),
    ]
}

/// A row for each time that a member suspected another.
fn suspicion_rows(measured: &GroupMeasured) -> Columns {
    let suspicions = &measured.suspicions;
    let at = suspicions.iter().map(|suspicion| suspicion.at as f64 / 1e6);
    vec![
        ("at_ms", column(at)),
        ("by", column(suspicions.iter().map(|s| s.by))),
        ("node", column(suspicions.iter().map(|s| s.host))),
        ("false", column(suspicions.iter().map(|s| s.is_false))),
    ]
}

fn group_traffic(measured: &GroupMeasured, result: &GroupData) -> Columns {
    let rows = &result.members;
    let float = |value: fn(&MemberRow) -> f64| column(rows.iter().map(value));
    let count = |value: fn(&MemberRow) -> u64| column(rows.iter().map(value));
    let mut nodes = traffic(&measured.traffic, &measured.hosts, &measured.point.scenario);
    nodes.extend([
        ("steady", column(rows.iter().map(|row| row.is_steady))),
        ("broadcast", count(|row| row.broadcast)),
        ("delivered", count(|row| row.delivered)),
        ("throughput_mb_per_s", float(|row| row.throughput_mb_per_s)),
        ("uplink_utilisation", float(|row| row.uplink_utilisation)),
        ("longest_gap_ms", float(|row| row.longest_gap_ms)),
        ("longest_gap_until_ms", float(|row| row.longest_gap_until_ms)),
        ("idle_bytes_per_s", count(|row| row.idle_bytes)),
    ]);
    nodes
}
