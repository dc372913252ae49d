//! The figures of broadcasts in a group, with the names that `docs/results.md` defines.

use std::collections::BTreeMap;

use crate::application::{Counts, Kind};
use crate::section::{Group, bridge_shape, config};
use samara_engine::Frame;
use samara_engine::shape::{Shape, Workload, estimate, formula, rounds};
use samara_ring::wire::{Data, Unit};
use samara_ring::{Parameters, Preset, RingFrame, ViewId};
use samara_sim::{GateStats, HostConfig};
use serde::Serialize;

use super::course::{GroupMeasured, Member};
use samara_lab::metric::groups::{Losses, Uplinks, busy};
use samara_lab::metrics;
use samara_lab::network;
use samara_lab::results::ratio;
use samara_lab::statistics::Statistics;

metrics! {
    /// The figures of a run. *Steady* members are members that no crash, leave or partition hits, and
    /// that the group does not remove as slow; means are over them.
    pub struct GroupMetrics of super::outcome::GroupData {
        /// Members of the group.
        pub members: u32 = "members", Neither, [];
        /// Members that broadcast.
        pub senders: u32 = "members", Neither, [];
        /// Shape over which messages travel; for a plain daisy chain, the ring.
        pub shape: &'static str = "", Neither, [];
        /// Messages that members broadcast.
        pub messages: u64 = "messages", Neither, [];
        /// Deliveries at all members, including own messages.
        pub deliveries: u64 = "deliveries", Neither, [];
        /// Payload that a member delivered, including its own, over the time from the first
        /// broadcast to the last delivery at any steady member. If deliveries stop while senders
        /// still have messages, over the time until `group.duration` ends or, without one, until
        /// the run gives up.
        pub throughput_mb_per_s: f64 = "10^6 bytes/s", More, [""];
        /// The throughput of the slowest steady member.
        pub throughput_min_mb_per_s: f64 = "10^6 bytes/s", More, [""];
        /// The throughput that no shape exceeds with this number of senders: a member receives at
        /// most the rate of its link, and all members together receive what all send. The rate of a
        /// link excludes the headers of full packets.
        pub upper_bound_mb_per_s: f64 = "10^6 bytes/s", Neither, [];
        /// The throughput as a share of the upper bound.
        pub share_of_bound: f64 = "share", More, [""];
        /// The throughput that this shape can reach, by formula.
        pub shape_bound_mb_per_s: f64 = "10^6 bytes/s", Neither, [];
        /// The throughput as a share of the bound of this shape.
        pub share_of_shape_bound: f64 = "share", More, [""];
        /// The throughput relative to that of the first run with the same number of senders, sweep
        /// values and seed.
        pub gain: Option<f64> = "", More, [""];
        /// The same ratio for the bounds of the shapes: (N-1)/S for a ring over direct sending with
        /// S < N senders, 1 with S = N.
        pub gain_bound: Option<f64> = "", Neither, [];
        /// With one sender: time until every member had everything, in units of the time that a
        /// message or chunk takes on a link.
        pub rounds: Option<f64> = "rounds", Neither, [];
        /// The number of rounds in the schedule of the shape.
        pub rounds_of_schedule: Option<u64> = "", Neither, [];
        /// Time from the broadcast of a message (with a rate: from its scheduled time) until
        /// another member delivers it.
        pub delivery_latency_ms: Option<Statistics> = "ms", Less, ["mean", "p50", "p95", "p99"];
        /// The longest time in which a steady member delivered nothing, between the first broadcast
        /// and its last delivery. For a member that still waits for messages, until senders stop or,
        /// if they cannot send, until `group.duration` ends or the run gives up.
        pub longest_gap_ms: f64 = "ms", Less, [""];
        /// Pairs of a message and a steady member that did not deliver it; the message is from a
        /// member that is steady or that left.
        pub lost: u64 = "pairs", Less, [""];
        /// Pairs of a message and a member that did not deliver it, over all members and messages:
        /// also those of members with a fault. What a member delivered before it restarted counts as
        /// delivered. Without faults and removed members, the lost ones.
        pub missed: u64 = "pairs", Less, [];
        /// Members that the group removed because they held it up, with
        /// `protocol.remove_slow_after`. Messages that they lack afterwards are not lost, and
        /// suspicions of and by them are not false.
        pub removed: u64 = "members", Neither, [];
        /// Members that a `leave` fault starts again before they have left: their processes end as
        /// in a crash.
        pub unfinished_leaves: u64 = "", Less, [];
        /// Repeated deliveries of a message at a member.
        pub duplicates: u64 = "deliveries", Less, [];
        /// Deliveries after later messages of the same origin. In total order, it also counts
        /// members whose order differs from the others.
        pub order_violations: u64 = "deliveries", Less, [];
        /// Messages of failed members that some steady members have and others lack, by pair.
        pub disagreements: u64 = "pairs", Less, [];
        /// Deliveries of contents that no member broadcast.
        pub garbled: u64 = "deliveries", Less, [];
        /// Number of times that a member suspected another of having failed.
        pub suspicions: u64 = "", Neither, [];
        /// Suspicions between two members without a fault.
        pub false_suspicions: u64 = "", Less, [];
        /// The largest number of views that a steady member installed.
        pub views: u64 = "views", Neither, [];
        /// The longest time in which view changes kept a steady member from sending new messages,
        /// summed over all changes.
        pub frozen_ms: f64 = "ms", Less, [];
        /// Messages or chunks forwarded, over all members.
        pub forwarded: u64 = "units", Neither, [];
        /// Messages or chunks that members retransmitted.
        pub repaired: u64 = "units", Neither, [];
        /// Ignored frames, by cause.
        pub ignored: BTreeMap<&'static str, u64> = "", Neither, [];
        /// Traffic of the gateways of regions: `copies` (bytes out of all gateways over bytes
        /// broadcast), `utilisation_max` of the busiest direction, `drops` in packets, and
        /// `wait_ms_max`. Only with `network.regions.gateway`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub gateways: Option<GatewayFigures> = "", Neither, [];
        /// Bytes received per delivered message of another member: `total`, `content`, `headers`,
        /// `credit`, `heartbeats`, `views`, `transport`.
        pub bytes: GroupBytes = "bytes", Less, [];
        /// Content of messages, as a share of the received bytes.
        pub payload_share: f64 = "share", More, [];
        /// Share of the time in which the least busy uplink was busy.
        pub uplink_utilisation_min: f64 = "share", Neither, [];
        /// Bytes per second that a member sent once the group was idle, from half a second after
        /// the end on.
        pub idle_bytes_per_s: f64 = "bytes/s", Less, [];
        /// Frames dropped because a queue was full.
        pub queue_drops: u64 = "copies", Less, [""];
    } with {
        pub uplinks: Uplinks,
        pub losses: Losses,
    }
}

/// Bytes that a member received for each message it delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct GroupBytes {
    pub content: f64,
    /// The remaining bytes of data frames.
    pub headers: f64,
    /// Frames that return credit or acknowledge.
    pub credit: f64,
    pub heartbeats: f64,
    /// Suspicions, view changes and repair.
    pub views: f64,
    /// Packet headers, acknowledgements and retransmissions of the transport.
    pub transport: f64,
    pub total: f64,
}

/// Maximum number of transfers in a schedule that is computed step by step; larger ones use the
/// formula.
const PLAYED_MAX: u64 = 1_000_000;

/// The bounds of a run, and the workload they depend on.
struct Bounds {
    workload: Workload,
    steady: Workload,
    shape: Shape,
    units: u64,
    /// Seconds that a unit takes on a link.
    round_s: f64,
    /// The content that the fastest uplink and the fastest downlink carry, in bytes per second.
    links: [f64; 2],
    /// Maximum bytes per second that all senders together offer.
    wanted: f64,
    behind: Option<Behind>,
    /// The shape between the leaders of regions, in a federation.
    bridge: Option<Shape>,
}

impl Bounds {
    fn of(measured: &GroupMeasured) -> Self {
        let scenario = &measured.point.scenario;
        let group = scenario.part::<Group>().clone();
        let config = config(scenario);
        let members = scenario.network.nodes as usize;
        let size = group.size.bytes();
        let chunk = config.as_ref().map_or(size, |config| config.chunk_bytes as u64).clamp(1, size);
        let transport = network::transport(scenario);
        // A packet always has headers besides content.
        let content = f64::from(transport.mss) / f64::from(transport.mss + transport.header);
        let rates = measured.hosts.configs.iter().map(|host| host.uplink_bps.min(host.downlink_bps));
        let bytes_per_s = rates.max().unwrap_or(0) as f64 / 8.0;
        let fastest = |rate: fn(&HostConfig) -> u64| {
            measured.hosts.configs.iter().map(rate).max().unwrap_or(0) as f64 / 8.0 * content
        };
        let senders = group.senders(scenario.network.nodes) as usize;
        let workload = Workload {
            chunk_bytes: chunk,
            link_bytes_per_s: bytes_per_s * content,
            ..group.workload(&scenario.network)
        };
        let unit = Unit {
            origin: 0,
            sequence: 1,
            hops: 1,
            stamp: 0,
            first: true,
            last: true,
            bytes: vec![0; chunk as usize].into(),
        };
        let data = Data::new(ViewId::default(), vec![unit], Vec::new());
        let frame = RingFrame::Data(data.into()).encoded_len() as u32;
        let is_steady = |host: &usize| measured.outcomes.is_steady(*host);
        let steady = Workload {
            members: (0..members).filter(is_steady).count().max(1),
            senders: (0..senders).filter(is_steady).count().max(1),
            ..workload
        };
        Self {
            workload,
            steady,
            shape: config.map_or(Shape::Ring, |config| config.shape.shape(members)),
            units: size.div_ceil(chunk),
            round_s: transport.wire_bytes(frame) as f64 / bytes_per_s,
            links: [fastest(|host| host.uplink_bps), fastest(|host| host.downlink_bps)],
            wanted: group.rate.map_or(f64::INFINITY, |rate| rate * size as f64 * senders as f64),
            behind: Behind::of(measured, senders, content),
            bridge: bridge_shape(scenario),
        }
    }

    /// Returns the throughput that no shape can exceed, in delivered bytes per second and member.
    ///
    /// It is the bound of all members, or of the steady members if that is higher.
    fn upper(&self) -> f64 {
        let of = |workload: &Workload| {
            let (members, senders) = (workload.members as u64, workload.senders as u64);
            let [uplink, downlink] = self.links;
            formula::delivered_rate(senders, formula::rate_max(members, senders, uplink, downlink))
        };
        let gateways = self.behind.as_ref().map_or(f64::INFINITY, Behind::upper);
        of(&self.workload).max(of(&self.steady)).min(self.wanted).min(gateways)
    }

    fn of_shape(&self) -> f64 {
        let of = |workload: &Workload| {
            formula::delivered_rate(workload.senders as u64, estimate(self.shape, workload).rate)
        };
        let Some(behind) = &self.behind else {
            return of(&self.workload).max(of(&self.steady)).min(self.wanted);
        };
        match (self.bridge, self.shape) {
            // Traffic within sites does not limit the traffic between them.
            (Some(bridge), _) => self.upper().min(behind.of_bridge(bridge)),
            (None, Shape::Direct) => self.upper().min(of(&self.workload)).min(behind.direct()),
            (None, _) => self.upper().min(of(&self.workload)),
        }
    }

    /// Returns the rounds of the schedule for `messages` messages of one sender.
    fn rounds(&self, messages: u64) -> Option<u64> {
        let (units, members) = (messages * self.units, self.workload.members as u64);
        if units * members <= PLAYED_MAX {
            return Some(rounds(self.shape, units, members as u16).len() as u64);
        }
        match self.shape {
            Shape::Ring => Some(formula::chain_rounds(units, members)),
            Shape::Direct => Some(formula::direct_rounds(units, members)),
            Shape::BinaryTree | Shape::DoubleTree => None,
        }
    }
}

/// Returns the steady members.
fn steady(measured: &GroupMeasured) -> Vec<usize> {
    (0..measured.members.len()).filter(|host| measured.outcomes.is_steady(*host)).collect()
}

/// Returns the time in nanoseconds until the last steady member had its last message or, if senders
/// still had messages, until the end of the workload.
fn longest(measured: &GroupMeasured) -> f64 {
    let begin = measured.point.scenario.part::<Group>().warm_up.nanos();
    let took = |host: usize| measured.members[host].last_at.saturating_sub(begin) as f64;
    let stalled = measured.stalled_until.map_or(0.0, |until| until.saturating_sub(begin) as f64);
    steady(measured).into_iter().map(took).fold(stalled, f64::max)
}

/// Returns the throughput of each steady member, in MB/s.
pub(super) fn rates(measured: &GroupMeasured) -> Vec<(u32, f64)> {
    let (members, group) = (&measured.members, measured.point.scenario.part::<Group>());
    // With a rate, each message stands for the time until the next one is due; the last one too.
    let most = members.iter().map(|member| member.totals.broadcast).max().unwrap_or(0) as f64;
    let due = group.rate.map_or(0.0, |rate| most / rate * 1e9);
    let took = longest(measured).max(due);
    let bytes_of = |host: usize| (members[host].delivered * group.size.bytes()) as f64;
    steady(measured).into_iter().map(|host| (host as u32, ratio(bytes_of(host), took) * 1e3)).collect()
}

pub(super) fn group_metrics(measured: &GroupMeasured) -> GroupMetrics {
    let bounds = Bounds::of(measured);
    let scenario = &measured.point.scenario;
    let group = scenario.part::<Group>().clone();
    let members = &measured.members;
    let (steady, longest, rates) = (steady(measured), longest(measured), rates(measured));
    let rate = |(_, rate): &(u32, f64)| *rate;
    let throughput = ratio(rates.iter().map(rate).sum(), rates.len() as f64);
    let count = |value: fn(&Member) -> u64| members.iter().map(value).sum::<u64>();
    let messages = count(|member| member.totals.broadcast);
    let senders = group.senders(scenario.network.nodes);
    let single = senders == 1 && group.rate.is_none();
    let (lost, disagreements) = missing(measured, &steady);
    let is_total = scenario.part::<Parameters>().preset == Preset::RingTotal;
    let other_orders =
        steady.iter().filter(|host| is_total && members[**host].order != members[steady[0]].order).count();
    let uplinks = measured.traffic.iter().map(|stats| busy(stats, measured.measured_nanos));
    let bytes = bytes(measured);
    let (upper, of_shape) = (bounds.upper() / 1e6, bounds.of_shape() / 1e6);
    let of_steady = |value: fn(&Counts) -> u64| {
        steady.iter().map(|host| value(&measured.counts[*host])).max().unwrap_or(0)
    };
    GroupMetrics {
        members: scenario.network.nodes,
        senders,
        shape: bounds.shape.name(),
        messages,
        deliveries: count(|member| member.delivered),
        throughput_mb_per_s: throughput,
        throughput_min_mb_per_s: rates.iter().map(rate).fold(f64::INFINITY, f64::min),
        upper_bound_mb_per_s: upper,
        share_of_bound: ratio(throughput, upper),
        shape_bound_mb_per_s: of_shape,
        share_of_shape_bound: ratio(throughput, of_shape),
        gain: None,
        gain_bound: None,
        rounds: single.then(|| longest / 1e9 / bounds.round_s),
        rounds_of_schedule: bounds.rounds(messages).filter(|_| single),
        delivery_latency_ms: Statistics::of_durations(&measured.latency),
        longest_gap_ms: steady.iter().map(|host| members[*host].longest_gap_ns).max().unwrap_or(0) as f64
            / 1e6,
        lost,
        missed: members.iter().map(|member| of_all(measured, member)).sum(),
        removed: measured.outcomes.removed.len() as u64,
        unfinished_leaves: measured.outcomes.unfinished_leaves,
        duplicates: count(|member| member.totals.duplicates),
        order_violations: count(|member| member.totals.out_of_order) + other_orders as u64,
        disagreements,
        garbled: count(|member| member.totals.garbled),
        suspicions: measured.suspicions.len() as u64,
        false_suspicions: measured.suspicions.iter().filter(|suspicion| suspicion.is_false).count() as u64,
        views: of_steady(|counts| counts.views),
        frozen_ms: of_steady(|counts| counts.frozen_ns) as f64 / 1e6,
        forwarded: measured.counts.iter().map(|counts| counts.forwarded).sum(),
        repaired: measured.counts.iter().map(|counts| counts.repaired).sum(),
        ignored: ignored(measured),
        payload_share: ratio(bytes.content, bytes.total),
        gateways: GatewayFigures::of(measured),
        bytes,
        uplink_utilisation_min: uplinks.fold(1.0, f64::min),
        idle_bytes_per_s: ratio(
            measured.idle_bytes.iter().sum::<u64>() as f64,
            measured.idle_bytes.len() as f64,
        ),
        queue_drops: measured.counts.iter().map(|counts| counts.queue_drops).sum(),
        uplinks: Uplinks::of(&measured.traffic, measured.measured_nanos),
        losses: Losses::of(&measured.traffic),
    }
}

/// Returns the numbers of lost messages and disagreements, as pairs of a message and a steady
/// member.
///
/// Every steady member must have the messages of steady and leaving origins. Of a failed origin, it
/// must have the messages that any other steady member has.
fn missing(measured: &GroupMeasured, steady: &[usize]) -> (u64, u64) {
    let (mut lost, mut disagreements) = (0, 0);
    let broadcast = measured.members.iter().map(|member| member.totals.broadcast).enumerate();
    for (origin, broadcast) in broadcast.filter(|(_, broadcast)| *broadcast > 0) {
        let received = || steady.iter().map(|host| measured.members[*host].received[origin]);
        if measured.outcomes.must_arrive(origin) {
            lost += received().map(|received| broadcast - received).sum::<u64>();
        } else {
            let most = received().max().unwrap_or(0);
            disagreements += received().map(|received| most - received).sum::<u64>();
        }
    }
    (lost, disagreements)
}

/// Returns the number of messages of all members that a member did not deliver.
fn of_all(measured: &GroupMeasured, member: &Member) -> u64 {
    let broadcast = measured.members.iter().map(|origin| origin.totals.broadcast).enumerate();
    broadcast.map(|(origin, broadcast)| broadcast.saturating_sub(member.ever_received(origin))).sum()
}

fn ignored(measured: &GroupMeasured) -> BTreeMap<&'static str, u64> {
    let mut all = BTreeMap::new();
    for (cause, count) in measured.counts.iter().flat_map(|counts| &counts.ignored) {
        if *count > 0 {
            *all.entry(cause.name()).or_default() += count;
        }
    }
    all
}

fn bytes(measured: &GroupMeasured) -> GroupBytes {
    // A member does not receive its own messages.
    let own: u64 = measured.members.iter().map(|member| member.totals.broadcast).sum();
    let delivered: u64 = measured.members.iter().map(|member| member.delivered).sum();
    let deliveries = delivered.saturating_sub(own) as f64;
    let of = |kind: Kind| {
        let sum: u64 = measured.members.iter().map(|member| member.totals.bytes_of[kind as usize]).sum();
        ratio(sum as f64, deliveries)
    };
    let wire: u64 = measured.traffic.iter().map(|stats| stats.received.bytes).sum();
    let total = ratio(wire as f64, deliveries);
    let [content, headers, credit, heartbeats, views] = Kind::ALL.map(of);
    let transport = (total - content - headers - credit - heartbeats - views).max(0.0);
    GroupBytes { content, headers, credit, heartbeats, views, transport, total }
}

impl GroupMetrics {
    /// Returns the number of events that must never happen, even if members fail.
    pub fn faults(&self) -> u64 {
        self.duplicates + self.order_violations + self.disagreements + self.garbled
    }
}

/// Traffic of gateways, in networks that have them.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct GatewayFigures {
    /// How often a message left a region: bytes out of all gateways over the bytes of all broadcast
    /// messages. A message to each of the other regions leaves as often as there are other regions.
    /// Packets have headers.
    pub copies: f64,
    /// Share of the time in which the busiest direction of any gateway was busy.
    pub utilisation_max: f64,
    pub drops: u64,
    /// The longest wait of a packet in a gateway, in milliseconds; it includes the time before the
    /// first message.
    pub wait_ms_max: f64,
}

impl GatewayFigures {
    fn of(measured: &GroupMeasured) -> Option<Self> {
        let rate = measured.point.scenario.network.regions.as_ref()?.gateway?;
        let group = measured.point.scenario.find::<Group>()?;
        let broadcast: u64 = measured.members.iter().map(|member| member.totals.broadcast).sum();
        let out: u64 = measured.gateways.iter().map(|[out, _]| out.passed.bytes).sum();
        let all = || measured.gateways.iter().flatten();
        let busy = |gate: &GateStats| gate.passed.bytes as f64 * 8e9 / rate.bps() as f64;
        Some(Self {
            copies: ratio(out as f64, (broadcast * group.size.bytes()) as f64),
            utilisation_max: ratio(all().map(busy).fold(0.0, f64::max), measured.measured_nanos as f64)
                .min(1.0),
            drops: all().map(|gate| gate.dropped.packets).sum(),
            wait_ms_max: all().map(|gate| gate.wait_nanos_max).max().unwrap_or(0) as f64 / 1e6,
        })
    }
}

/// The bounds of a group whose regions are behind gateways.
struct Behind {
    /// Bytes of content per second of a gateway, in each direction.
    rate: f64,
    /// The number of members in each region, and their share of all senders.
    regions: Vec<(f64, f64)>,
}

impl Behind {
    /// Returns the regions of a run with gateways. `content` is the share of content in packets.
    fn of(measured: &GroupMeasured, senders: usize, content: f64) -> Option<Self> {
        let spec = measured.point.scenario.network.regions.as_ref()?;
        let rate = spec.gateway?.bps() as f64 / 8.0 * content;
        let mut regions = vec![(0.0, 0.0); spec.names.len()];
        for (host, config) in measured.hosts.configs.iter().enumerate() {
            let (members, share) = &mut regions[usize::from(config.region)];
            *members += 1.0;
            *share += if host < senders { 1.0 / senders as f64 } else { 0.0 };
        }
        regions.retain(|(members, _)| *members > 0.0);
        Some(Self { rate, regions })
    }

    /// Returns the throughput that no protocol can exceed, in delivered bytes per second and
    /// member.
    ///
    /// The messages of other regions must enter a region once, its own messages must leave it once,
    /// and each message must enter every other region.
    fn upper(&self) -> f64 {
        let others = self.regions.len() as f64 - 1.0;
        let own = self.regions.iter().map(|(_, share)| self.rate / share.max(1.0 - share));
        own.fold(self.rate * self.regions.len() as f64 / others, f64::min)
    }

    /// Returns the bound with a shape among the leaders of regions. A ring has no lower bound than
    /// any protocol.
    fn of_bridge(&self, shape: Shape) -> f64 {
        let others = self.regions.len() as f64 - 1.0;
        match shape {
            // Each leader sends the messages of its region to each of the other leaders.
            Shape::Direct => {
                let out = self.regions.iter().map(|(_, share)| self.rate / (share * others));
                out.fold(self.upper(), f64::min)
            }
            Shape::Ring | Shape::BinaryTree | Shape::DoubleTree => self.upper(),
        }
    }

    /// Returns the bound if every sender sends to every member.
    fn direct(&self) -> f64 {
        let members: f64 = self.regions.iter().map(|(members, _)| members).sum();
        let each = self.regions.iter().map(|(own, share)| {
            let (out, into) = (share * (members - own), (1.0 - share) * own);
            self.rate / out.max(into)
        });
        each.fold(f64::INFINITY, f64::min)
    }
}
