//! The retained data of a run with a group, and its tables.

use crate::application::FOLLOWED_MAX;
use crate::section::Group;
use samara_scenario::Point;
use samara_sim::HostStats;

use super::course::{GroupMeasured, Member};
use super::metrics::{GroupMetrics, group_metrics, rates};
use super::torture;
use samara_lab::network::Hosts;
use samara_lab::results::columns::column;
use samara_lab::results::deliveries::{DELIVERIES, Spread, senders};
use samara_lab::results::tables::{Columns, Table, distribution, traffic};
use samara_lab::results::{ByClass, Measured, Outcome, ratio};

/// The retained data of a run with a group.
#[derive(Clone, Debug)]
pub struct GroupData {
    pub metrics: GroupMetrics,
    pub members: Vec<MemberRow>,
    /// Bytes of frames on each link: by sender, then by receiver.
    pub links: Vec<Vec<u64>>,
    /// Milliseconds from handing in a message to its delivery at another member, with the
    /// cumulative share of deliveries.
    pub latency: Vec<(f64, f64)>,
    /// Duration of the stream in milliseconds.
    pub took_ms: f64,
    /// The way of some messages. Their numbers count over all origins: the first message of each
    /// comes before the second ones.
    pub(crate) spread: Spread,
    /// The names of regions, and the region of each host; both empty without regions.
    pub regions: (Vec<String>, Vec<u16>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemberRow {
    /// Whether it was a member all the time.
    pub is_steady: bool,
    pub broadcast: u64,
    pub delivered: u64,
    /// Payload delivered until its last delivery.
    pub throughput_mb_per_s: f64,
    /// Share of the time in which its uplink was busy.
    pub uplink_utilisation: f64,
    /// The longest time without a delivery.
    pub longest_gap_ms: f64,
    /// The end of that gap, in milliseconds after the first message.
    pub longest_gap_until_ms: f64,
    /// Bytes sent in the idle second after the end of the run.
    pub idle_bytes: u64,
}

/// Returns the outcome with its gain over the first run with equal parameters.
pub(super) fn related(outcome: &Outcome, others: &[&Outcome], _first: &str) -> Option<Outcome> {
    let base = &others.first()?.data::<GroupData>()?.metrics;
    let over = |own: f64, base: f64| (base > 0.0).then(|| own / base);
    let mut related = outcome.data::<GroupData>()?.clone();
    let own = &mut related.metrics;
    own.gain = over(own.throughput_mb_per_s, base.throughput_mb_per_s);
    own.gain_bound = over(own.shape_bound_mb_per_s, base.shape_bound_mb_per_s);
    Some(outcome.with(related))
}

impl GroupData {
    fn of(measured: &GroupMeasured) -> Self {
        let group = measured.point.scenario.part::<Group>();
        let begin = group.warm_up.nanos();
        let after = |at: u64| at.saturating_sub(begin) as f64;
        let busy = |stats: &HostStats| ratio(stats.uplink_busy_nanos as f64, measured.measured_nanos as f64);
        let row = |(host, member): (usize, &Member)| MemberRow {
            is_steady: measured.outcomes.is_steady(host),
            broadcast: member.totals.broadcast,
            delivered: member.delivered,
            throughput_mb_per_s: ratio((member.delivered * group.size.bytes()) as f64, after(member.last_at))
                * 1e3,
            uplink_utilisation: busy(&measured.traffic[host]),
            longest_gap_ms: member.longest_gap_ns as f64 / 1e6,
            longest_gap_until_ms: after(member.longest_gap_at) / 1e6,
            idle_bytes: measured.idle_bytes[host],
        };
        let members = &measured.members;
        let to = |from: usize| members.iter().map(|member| member.totals.bytes_from[from]).collect();
        Self {
            metrics: group_metrics(measured),
            members: members.iter().enumerate().map(row).collect(),
            links: (0..members.len()).map(to).collect(),
            latency: measured.latency.distribution_ms(),
            took_ms: measured.measured_nanos as f64 / 1e6,
            spread: measured.spread(),
            regions: measured.hosts.placed(),
        }
    }
}

impl GroupMeasured {
    /// Computes the metrics that come from single members for each class of nodes.
    fn by_class(&self, members: &[MemberRow]) -> ByClass {
        let gaps = (0..).zip(members).filter(|(_, member)| member.is_steady);
        ByClass::of(&self.point, &self.hosts)
            .deliveries("delivery_latency_ms", &self.deliveries, |row| {
                row.detail != row.node && self.outcomes.is_steady(row.node as usize)
            })
            .sum("deliveries", (0..).zip(members).map(|(node, member)| (node, member.delivered)))
            .mean("throughput_mb_per_s", rates(self))
            .max("longest_gap_ms", gaps.map(|(node, member)| (node, member.longest_gap_ms)))
            .uplinks(&self.traffic, self.measured_nanos, |_| true)
    }

    /// Returns the numbers of faults that began after the last delivery. The run waits for them.
    fn late_faults(&self, metrics: &GroupMetrics) -> Vec<usize> {
        let last = self.members.iter().map(|member| member.last_at).max().unwrap_or(0);
        // A fault may be the reason that nothing more arrives.
        let is_complete = last > 0 && metrics.lost + metrics.missed == 0;
        let faults = self.point.scenario.faults.iter().enumerate().filter(|_| is_complete);
        faults.filter(|(_, fault)| fault.at.nanos() > last).map(|(index, _)| index).collect()
    }

    /// Returns the way of some messages to the steady members.
    fn spread(&self) -> Spread {
        let group = self.point.scenario.part::<Group>();
        let senders = group.senders(self.point.scenario.network.nodes);
        // Messages count from 1.
        let item = |origin: u32, number: u32| {
            number.saturating_sub(1).saturating_mul(senders).saturating_add(origin)
        };
        let of_number = |number| (0..senders).map(move |origin| (origin, number));
        let followed = (1..=FOLLOWED_MAX / senders.max(1)).flat_map(of_number);
        let was_sent = |(origin, number): &(u32, u32)| {
            self.members[*origin as usize].totals.broadcast >= u64::from(*number)
        };
        let items = followed.filter(was_sent).map(|(origin, number)| (item(origin, number), origin));
        let is_steady = |node: u32| self.outcomes.is_steady(node as usize);
        self.deliveries.spread(&self.point, items, |row| item(row.detail, row.item), is_steady)
    }
}

impl Measured for GroupMeasured {
    fn setting(&self) -> (&Point, &Hosts) {
        (&self.point, &self.hosts)
    }

    fn broken(&self) -> Vec<samara_lab::torture::Broken> {
        torture::broken(self)
    }

    fn outcome(&self) -> Outcome {
        let group = self.point.scenario.part::<Group>();
        let senders = group.senders(self.point.scenario.network.nodes);
        let remedy = match group.count() {
            Some(_) => "group.messages or network.nodes",
            None => "group.duration or network.nodes",
        };
        let data = GroupData::of(self);
        let is_incomplete = data.metrics.lost + data.metrics.faults() > 0;
        let by_class = self.by_class(&data.members);
        let late_faults = self.late_faults(&data.metrics);
        let mut outcome =
            Outcome::new(&self.point, self.digest, ("senders", senders.into()), data, is_incomplete)
                .by_class(by_class)
                .without(DELIVERIES, self.deliveries.absence(remedy));
        outcome.run.late_faults = late_faults;
        outcome
    }

    fn tables<'a>(&'a self, outcome: &'a Outcome) -> Vec<Table<'a>> {
        let data: &GroupData = outcome.own();
        let mut tables = vec![
            distribution("delivery_latency", "delivery_latency_ms", &data.latency),
            Table::new("links", data.links.iter().map(Vec::len).sum(), || link_rows(data)),
            Table::new("suspicions", self.suspicions.len(), || suspicion_rows(self)),
            Table::new("traffic", self.traffic.len(), || group_traffic(self, data)),
        ];
        tables.extend(self.deliveries.table(|rows| {
            let origin = ("origin", column(rows.iter().map(|row| row.detail)));
            let number = ("number", column(rows.iter().map(|row| u64::from(row.item))));
            [vec![origin, number], vec![senders(rows)]]
        }));
        tables
    }
}

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

fn suspicion_rows(measured: &GroupMeasured) -> Columns {
    let suspicions = || measured.suspicions.iter();
    vec![
        ("at_ms", column(suspicions().map(|suspicion| suspicion.at as f64 / 1e6))),
        ("by", column(suspicions().map(|suspicion| suspicion.by))),
        ("node", column(suspicions().map(|suspicion| suspicion.host))),
        ("false", column(suspicions().map(|suspicion| suspicion.is_false))),
    ]
}

fn group_traffic(measured: &GroupMeasured, result: &GroupData) -> Columns {
    let rows = || result.members.iter();
    let mut nodes = traffic(&measured.traffic, &measured.hosts, &measured.point.scenario);
    nodes.extend([
        ("steady", column(rows().map(|row| row.is_steady))),
        ("broadcast", column(rows().map(|row| row.broadcast))),
        ("delivered", column(rows().map(|row| row.delivered))),
        ("throughput_mb_per_s", column(rows().map(|row| row.throughput_mb_per_s))),
        ("uplink_utilisation", column(rows().map(|row| row.uplink_utilisation))),
        ("longest_gap_ms", column(rows().map(|row| row.longest_gap_ms))),
        ("longest_gap_until_ms", column(rows().map(|row| row.longest_gap_until_ms))),
        ("idle_bytes_per_s", column(rows().map(|row| row.idle_bytes))),
    ]);
    nodes
}
