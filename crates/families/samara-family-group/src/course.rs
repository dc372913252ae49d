//! A group of members that broadcast to each other: its run and measurements.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::application::codec::Wire;
use crate::application::{
    Act, Broadcasts, Counters, Counts, Delivery, GroupMember, Ledger, MemberEvent, Received, SentAt, Source,
    Totals, contents, item_of,
};
use crate::section::{Group, config, federated};
use samara_engine::outbox::OutboxConfig;
use samara_engine::{Outbox, PeerIdentity, Time};
use samara_hosts::Worlds;
use samara_lab::statistics::Durations;
use samara_ring::daisychain::{DaisyConfig, Daisychain};
use samara_ring::{Config, Federation, FederationConfig, Parameters, Ring};
use samara_scenario::{FaultKind, Point, Scenario};
use samara_sim::{Cause, GateStats, HostStats, NodeFactory, Origin, Postcard, Record, identity_of};

use samara_lab::experiment::{Commands, Experiment, FramesCodec, Plan, Problem, Step, World};
use samara_lab::explain::{ContentsOf, Delivered, MainTime};
use samara_lab::family::Runs;
use samara_lab::network::{self, Hosts};
use samara_lab::results::{Deliveries, DeliveryRow, NOBODY};
use samara_lab::run::{Progress, RunError, since};

const SLICE_NANOS: u64 = 10_000_000;
/// Time after the last delivery in which frames on the way arrive; then comes the time for
/// measuring the idle group.
const DRAIN_NANOS: u64 = 500_000_000;
const IDLE_NANOS: u64 = 1_000_000_000;
/// Minimum time that a run continues after the last fault, so that returning members can rejoin.
const AFTERMATH_NANOS: u64 = 3_000_000_000;

#[derive(Debug)]
pub struct GroupMeasured {
    pub point: Point,
    /// The record of each host's member.
    pub members: Vec<Member>,
    /// Counters of the engine of each host's last process.
    pub counts: Vec<Counts>,
    /// Traffic of each host from the first message to the last delivery.
    pub traffic: Vec<HostStats>,
    /// For each region, the traffic of its gateway in that time, outbound and inbound; empty
    /// without gateways.
    pub gateways: Vec<[GateStats; 2]>,
    pub hosts: Hosts,
    pub outcomes: MemberOutcomes,
    /// Duration of `traffic` in nanoseconds.
    pub measured_nanos: u64,
    /// Bytes that each host sent in one second after the end.
    pub idle_bytes: Vec<u64>,
    /// A row for each delivery, including own messages; its detail is the origin.
    pub deliveries: Deliveries,
    /// Times from handing in a message to its delivery at a steady member, without own messages.
    pub latency: Durations,
    /// Suspicions in order of time.
    pub suspicions: Vec<Suspicion>,
    /// The end of a workload that stalled, in nanoseconds: senders still had messages. `None` if
    /// all senders that had to finish have finished.
    pub stalled_until: Option<u64>,
    /// Digest of all packets, and number of steps of the simulation.
    pub digest: (u64, u64),
}

/// The record of a host's member over all processes of the host, from its events and counters.
#[derive(Clone, Debug)]
pub struct Member {
    /// The number of its messages, once it has finished broadcasting.
    done: Option<u64>,
    /// The time at which it finished, in nanoseconds.
    done_at: u64,
    /// Number of messages of each origin that the last process delivered.
    pub received: Vec<u64>,
    /// Messages of each origin that any process delivered; empty for members whose process does not
    /// end, since `received` counts the same.
    ever: Vec<Received>,
    /// Number of deliveries, including own messages.
    pub delivered: u64,
    /// Time of the last delivery in nanoseconds; the start of the stream before the first one.
    pub last_at: u64,
    /// The longest time without a delivery since the stream began, in nanoseconds.
    pub longest_gap_ns: u64,
    /// The time at which the longest gap ended, in nanoseconds.
    pub longest_gap_at: u64,
    /// A digest of all deliveries in their order.
    pub order: u64,
    /// The counters of all processes that have ended, or of all at the end of the run.
    pub totals: Totals,
    /// The last look at the counters of the current process.
    current: Totals,
}

impl Member {
    fn new(members: u32, begin: u64) -> Self {
        Self {
            done: None,
            done_at: 0,
            received: vec![0; members as usize],
            ever: Vec::new(),
            delivered: 0,
            last_at: begin,
            longest_gap_ns: 0,
            longest_gap_at: begin,
            order: 0xcbf2_9ce4_8422_2325,
            totals: Totals::default(),
            current: Totals::default(),
        }
    }

    fn process_ended(&mut self) {
        self.totals.add(&std::mem::take(&mut self.current));
        self.received.fill(0);
    }

    /// Returns the number of messages of an origin that any process of the host delivered.
    pub fn ever_received(&self, origin: usize) -> u64 {
        self.ever.get(origin).map_or_else(|| self.received[origin], Received::count)
    }

    fn delivered(&mut self, delivery: &Delivery, at: u64) {
        let Delivery { origin, number, .. } = *delivery;
        self.received[origin as usize] += 1;
        if let Some(ever) = self.ever.get_mut(origin as usize) {
            ever.insert(number);
        }
        self.delivered += 1;
        for word in [u64::from(origin), number] {
            self.order = (self.order ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        }
        self.waited_until(at);
        self.last_at = at;
    }

    /// Records that nothing was delivered between the last delivery and this time.
    fn waited_until(&mut self, at: u64) {
        let gap = at.saturating_sub(self.last_at);
        if gap > self.longest_gap_ns {
            (self.longest_gap_ns, self.longest_gap_at) = (gap, at);
        }
    }
}

/// A member suspected another of having failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspicion {
    /// Time of the suspicion, in nanoseconds of the run.
    pub at: u64,
    pub by: u32,
    pub host: u32,
    /// Whether neither of the two members had a fault.
    pub is_false: bool,
}

/// The effects of the faults of a scenario on each host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberOutcomes {
    /// Start of the first fault of each host in nanoseconds; `u64::MAX` for steady members.
    pub wrong_from: Vec<u64>,
    /// Whether a host only leaves: its messages must still reach all staying members.
    pub leaves: Vec<bool>,
    /// Number of hosts that were to leave, and had not when their processes ended: they fail.
    pub unfinished_leaves: u64,
    /// Hosts that the group removed because they held it up, as the scenario asks.
    pub removed: BTreeSet<u32>,
    /// Start of the time in which a partition separates the host's whole site, in nanoseconds;
    /// `u64::MAX` for none.
    ///
    /// The other sites of the federation wait for the site.
    pub cut_from: Vec<u64>,
    /// Start or end of the last fault, in nanoseconds.
    pub last_at: u64,
}

impl MemberOutcomes {
    /// Computes the effects of a scenario's faults.
    pub fn new(scenario: &Scenario, hosts: &Hosts, seed: u64) -> Self {
        let nodes = scenario.network.nodes as usize;
        let mut outcomes = Self {
            wrong_from: vec![u64::MAX; nodes],
            leaves: vec![false; nodes],
            unfinished_leaves: 0,
            removed: BTreeSet::new(),
            cut_from: vec![u64::MAX; nodes],
            last_at: 0,
        };
        let mut fails = vec![false; nodes];
        for (index, fault) in scenario.faults.iter().enumerate() {
            outcomes.last_at = outcomes.last_at.max(fault.until.unwrap_or(fault.at).nanos());
            let hit = network::hit(scenario, index, seed);
            if fault.kind == (FaultKind::Partition {})
                && scenario.part::<Parameters>().federated
                && are_sites(hosts, &hit)
            {
                hit.iter().for_each(|host| outcomes.cut_from[*host as usize] = fault.at.nanos());
                continue;
            }
            if network::is_momentary(fault, scenario) {
                continue;
            }
            for host in hit.into_iter().map(|host| host as usize) {
                let at = fault.at.nanos();
                match &fault.kind {
                    kind if kind.only_slows() => continue,
                    FaultKind::Leave {} => outcomes.leaves[host] = true,
                    _ => fails[host] = true,
                }
                outcomes.wrong_from[host] = outcomes.wrong_from[host].min(at);
            }
        }
        outcomes.leaves.iter_mut().zip(fails).for_each(|(leaves, fails)| *leaves &= !fails);
        outcomes
    }

    /// Records that the group removes a host because it holds the group up. From then on, the group
    /// owes it nothing.
    fn remove(&mut self, host: u32, at: u64) {
        let Some(wrong_from) = self.wrong_from.get_mut(host as usize) else { return };
        *wrong_from = at.min(*wrong_from);
        self.leaves[host as usize] = false;
        self.removed.insert(host);
    }

    /// Returns true if a host has no fault at or before this time, and is not removed.
    fn is_well(&self, host: u32, at: u64) -> bool {
        let before = |from: &[u64]| from.get(host as usize).is_some_and(|from| at < *from);
        before(&self.wrong_from) && before(&self.cut_from)
    }

    /// Returns true if a host is a member all the time.
    ///
    /// It can always reach all other such members, except while its whole site is separated.
    pub fn is_steady(&self, host: usize) -> bool {
        self.wrong_from[host] == u64::MAX
    }

    /// Returns true if every steady member must deliver all messages of a host.
    pub fn must_arrive(&self, host: usize) -> bool {
        self.is_steady(host) || self.leaves[host]
    }
}

/// Returns true if the hosts are exactly those of one or more regions.
fn are_sites(hosts: &Hosts, hit: &[u32]) -> bool {
    let region = |host: &u32| hosts.configs[*host as usize].region;
    let hit_regions: Vec<u16> = hit.iter().map(region).collect();
    let others = (0..hosts.configs.len() as u32).filter(|host| !hit.contains(host));
    others.map(|host| region(&host)).all(|other| !hit_regions.contains(&other))
}

pub(crate) fn runs(scenario: &Scenario) -> Runs {
    match config(scenario) {
        Some(_) if scenario.part::<Parameters>().federated => Runs::of::<Broadcasting<Federation>>(),
        Some(_) => Runs::of::<Broadcasting<Ring>>(),
        None => Runs::of::<Broadcasting<Daisychain>>(),
    }
}

/// An engine of a group, as a scenario configures it.
trait Planned: Broadcasts + Sized + 'static {
    fn plan(plan: &Plan<'_>) -> Engines<Self>;

    fn codec() -> FramesCodec<Self>;
}

type Engines<B> = Box<dyn Fn(u32) -> (B, OutboxConfig) + Send + Sync>;

impl Planned for Federation {
    fn plan(plan: &Plan<'_>) -> Engines<Self> {
        let (configs, sites) = sites(plan, &config(plan.scenario).expect(CHECKED));
        Box::new(move |host| {
            let config = Arc::clone(&configs[&sites[host as usize]]);
            let outbox = config.outbox();
            (Self::new(config, identity_of(host)).expect(CHECKED), outbox)
        })
    }

    fn codec() -> FramesCodec<Self> {
        Arc::new(Wire)
    }
}

impl Planned for Ring {
    fn plan(plan: &Plan<'_>) -> Engines<Self> {
        let seeds = (0..plan.nodes()).map(identity_of).collect();
        let config = Arc::new(Config { seeds, ..config(plan.scenario).expect(CHECKED) });
        Box::new(move |host| {
            (Self::new(Arc::clone(&config), identity_of(host)).expect(CHECKED), config.outbox())
        })
    }

    fn codec() -> FramesCodec<Self> {
        Arc::new(Wire)
    }
}

impl Planned for Daisychain {
    fn plan(plan: &Plan<'_>) -> Engines<Self> {
        let config = Arc::new(DaisyConfig::new((0..plan.nodes()).map(identity_of).collect()));
        Box::new(move |host| {
            (Self::new(Arc::clone(&config), &identity_of(host)).expect(CHECKED), config.outbox())
        })
    }

    fn codec() -> FramesCodec<Self> {
        Arc::new(Postcard)
    }
}

/// Why every engine can be created.
const CHECKED: &str = "the configuration was checked, and every host is a member";

/// Returns the configurations of the members of each site, and the site of each host.
///
/// Each region is a site. Leaders ask all members of other sites for the leaders there.
fn sites(plan: &Plan<'_>, config: &Config) -> (BTreeMap<u16, Arc<FederationConfig>>, Vec<u16>) {
    let of_host: Vec<u16> = plan.network().hosts.configs.iter().map(|host| host.region).collect();
    let mut sites: BTreeMap<u16, Vec<PeerIdentity>> = BTreeMap::new();
    for (host, region) in (0..).zip(&of_host) {
        sites.entry(*region).or_default().push(identity_of(host));
    }
    let of_site = |site: &u16| {
        let others = sites.iter().filter(|(other, _)| *other != site);
        let others = others.map(|(other, hosts)| (*other, hosts.clone())).collect();
        let local = Config { seeds: sites[site].clone(), ..config.clone() };
        (*site, Arc::new(federated(plan.scenario, *site, others, local)))
    };
    (sites.keys().map(of_site).collect(), of_host)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Waits for the first message.
    WarmUp,
    /// Waits for the last delivery.
    Stream,
    /// Waits until this time for all frames on the way.
    Drain(u64),
    /// Measures the idle group until this time.
    Idle(u64),
}

/// Members of a group that broadcast to each other.
pub(crate) struct Broadcasting<B: Broadcasts> {
    members: NodeFactory<GroupMember<B>>,
    phase: Phase,
    /// Future ends of processes, the last one first. The run looks at a member's counters before.
    ends: Vec<(u64, u32)>,
    /// Traffic of the hosts at the start of the stream or of the idle time.
    before: Vec<HostStats>,
    measured: GroupMeasured,
    /// Empty unless deliveries are explained.
    sent_at: SentAt,
}

impl<B: Broadcasts> Broadcasting<B> {
    fn group(&self) -> &Group {
        self.measured.point.scenario.part()
    }

    fn begin_at(&self) -> u64 {
        self.group().warm_up.nanos()
    }

    fn senders(&self) -> u32 {
        self.group().senders(self.measured.members.len() as u32)
    }

    fn steady(&self) -> impl Iterator<Item = &Member> {
        let members = self.measured.members.iter().enumerate();
        members.filter(|(host, _)| self.measured.outcomes.is_steady(*host)).map(|(_, member)| member)
    }

    /// Looks at the counters of processes that are about to end, since the end discards them.
    fn note_ends(&mut self, now: u64, world: &mut dyn World<GroupMember<B>>) -> Result<(), RunError> {
        if self.ends.last().is_some_and(|(at, _)| *at <= now) {
            let mut counters = world.counters()?;
            while let Some((_, host)) = self.ends.pop_if(|(at, _)| *at <= now) {
                let Counters { engine, totals } = &mut counters[host as usize];
                self.measured.members[host as usize].current = std::mem::take(totals);
                let leaves = &mut self.measured.outcomes.leaves[host as usize];
                if *leaves && !engine.has_left {
                    *leaves = false;
                    self.measured.outcomes.unfinished_leaves += 1;
                }
            }
        }
        Ok(())
    }

    /// Returns true if senders are done and steady members have all messages they must have.
    fn is_complete(&self) -> bool {
        let origins =
            (0..self.senders() as usize).filter(|origin| self.measured.outcomes.must_arrive(*origin));
        let done = |origin: usize| Some((origin, self.measured.members[origin].done?));
        let Some(wanted) = origins.map(done).collect::<Option<Vec<_>>>() else { return false };
        self.steady().all(|member| wanted.iter().all(|(origin, count)| member.received[*origin] >= *count))
    }

    /// Records the silence of members that wait for messages at the end of the stream, and whether
    /// senders still had some.
    fn note_silence(&mut self, now: u64) {
        let end = self.group().end_nanos();
        let origins: Vec<usize> = (0..self.senders() as usize)
            .filter(|origin| self.measured.outcomes.must_arrive(*origin))
            .collect();
        let GroupMeasured { members, outcomes, stalled_until, .. } = &mut self.measured;
        let of_origin = |origin: &usize| (*origin, members[*origin].done, members[*origin].done_at);
        let senders: Vec<(usize, Option<u64>, u64)> = origins.iter().map(of_origin).collect();
        let is_stalled = senders.iter().any(|(_, done, _)| done.is_none());
        let last = senders.iter().map(|(.., at)| *at).max().unwrap_or(0);
        let until = end.unwrap_or(if is_stalled { now } else { last });
        *stalled_until = is_stalled.then_some(until);
        for (_, member) in members.iter_mut().enumerate().filter(|(host, _)| outcomes.is_steady(*host)) {
            let lacks = |(origin, done, _): &(usize, Option<u64>, u64)| {
                done.is_none_or(|count| member.received[*origin] < count)
            };
            if senders.iter().any(lacks) {
                member.waited_until(until);
            }
        }
    }

    /// Returns true if the run is complete, or no message has arrived for too long.
    fn is_over(&self, now: u64) -> bool {
        let least = match self.measured.outcomes.last_at {
            0 => self.begin_at(),
            last => last.max(self.begin_at()) + AFTERMATH_NANOS,
        };
        let last = self.steady().map(|member| member.last_at).max().unwrap_or(0);
        let is_given_up = now > last.max(least) + self.group().patience.nanos();
        is_given_up || now >= least && self.is_complete()
    }

    fn share_done(&self, now: u64) -> f64 {
        if let Some(end) = self.group().end_nanos() {
            return (now as f64 / (end.max(self.measured.outcomes.last_at) + 1) as f64).min(0.99);
        }
        let all = f64::from(self.senders()) * self.group().count().map_or(1.0, f64::from);
        let least = self.steady().map(|member| member.delivered).min().unwrap_or(0);
        (least as f64 / all).min(0.99)
    }
}

impl<B: Planned> Experiment for Broadcasting<B> {
    type App = GroupMember<B>;
    type Measured = GroupMeasured;

    fn plan(plan: &Plan<'_>) -> Result<Self, Problem> {
        let (scenario, seed, nodes) = (plan.scenario, plan.seed, plan.nodes());
        let (group, hosts) = (scenario.part::<Group>(), plan.network().hosts);
        let begin = Time::from_nanos(group.warm_up.nanos());
        let fastest = hosts.configs.iter().map(|host| host.uplink_bps).max().unwrap_or(1);
        let source = Source {
            pace: Duration::from_secs_f64(group.size.bytes() as f64 * 8.0 / fastest as f64),
            size: group.size.bytes() as usize,
            count: group.count().map_or(u64::MAX, u64::from),
            until: group.end_nanos().map_or(Time::MAX, Time::from_nanos),
            interval: group.rate.map(|rate| Duration::from_nanos((1e9 / rate).ceil() as u64)),
        };
        let senders = group.senders(nodes);
        let engine = B::plan(plan);
        let member = move |host: u32| {
            let (engine, outbox) = engine(host);
            let ledger = Ledger::new(nodes, senders, source.size, begin);
            (GroupMember::new(engine, host, source, ledger), Outbox::new(outbox))
        };
        let mut ends = Vec::new();
        let mut all = vec![Member::new(nodes, begin.as_nanos()); nodes as usize];
        for (index, fault) in scenario.faults.iter().enumerate() {
            let end = match fault.kind {
                FaultKind::Crash {} | FaultKind::Vanish {} => Some(fault.at),
                // The process that has left ends before another one starts.
                FaultKind::Leave {} => fault.until,
                _ => None,
            };
            if let Some(end) = end {
                ends.extend(network::hit(scenario, index, seed).into_iter().map(|host| (end.nanos(), host)));
            }
        }
        ends.sort_unstable_by(|a, b| b.cmp(a));
        ends.iter()
            .for_each(|(_, host)| all[*host as usize].ever = vec![Received::default(); nodes as usize]);
        let measured = GroupMeasured {
            point: plan.network().point.clone(),
            members: all,
            counts: Vec::new(),
            traffic: Vec::new(),
            gateways: Vec::new(),
            hosts: hosts.clone(),
            outcomes: MemberOutcomes::new(scenario, hosts, seed),
            measured_nanos: 0,
            idle_bytes: Vec::new(),
            deliveries: Deliveries::default(),
            latency: Durations::default(),
            suspicions: Vec::new(),
            stalled_until: None,
            digest: (0, 0),
        };
        let (members, before, sent_at) = (Arc::new(member), Vec::new(), SentAt::default());
        Ok(Self { members, phase: Phase::WarmUp, ends, before, measured, sent_at })
    }

    fn main_time(&self) -> MainTime {
        MainTime { item: "message", ..MainTime::default() }
    }

    fn hosts(&self) -> NodeFactory<GroupMember<B>> {
        self.members.clone()
    }

    fn codec(&self) -> Option<FramesCodec<GroupMember<B>>> {
        Some(B::codec())
    }

    fn worlds() -> Worlds<GroupMember<B>> {
        B::worlds()
    }

    fn start(&mut self, commands: &mut Commands<GroupMember<B>>) {
        for host in 0..self.senders() {
            commands.at(Time::from_nanos(self.begin_at()), host, Act::Begin);
        }
        let Point { scenario, seed, .. } = &self.measured.point;
        let faults = scenario.faults.iter().enumerate();
        for (index, fault) in faults.filter(|(_, fault)| fault.kind == (FaultKind::Leave {})) {
            for host in network::hit(scenario, index, *seed) {
                commands.at(Time::from_nanos(fault.at.nanos()), host, Act::Leave);
            }
        }
    }

    fn step(&mut self, world: &mut dyn World<GroupMember<B>>) -> Result<Step, RunError> {
        let now = world.now().as_nanos();
        self.note_ends(now, world)?;
        // Ends of processes do not shift the other checks.
        let begin = self.begin_at();
        let slice = SLICE_NANOS - now.checked_sub(begin).unwrap_or(now) % SLICE_NANOS;
        let end = self.ends.last().map_or(u64::MAX, |(at, _)| *at);
        let next = (now + slice).min(end);
        match self.phase {
            Phase::WarmUp if now < begin => return Ok(Step::Until(Time::from_nanos(next.min(begin)))),
            Phase::WarmUp => {
                self.before = world.traffic()?;
                self.measured.gateways = world.gateways()?;
                self.phase = Phase::Stream;
            }
            Phase::Stream if self.is_over(now) => {
                self.note_silence(now);
                self.measured.measured_nanos = now - begin;
                self.measured.traffic = since(&self.before, world.traffic()?);
                for host in 0..self.measured.members.len() as u32 {
                    world.command(Time::from_nanos(now), host, Act::End)?;
                }
                for (passed, over) in self.measured.gateways.iter_mut().zip(world.gateways()?) {
                    *passed = [over[0].since(&passed[0]), over[1].since(&passed[1])];
                }
                self.phase = Phase::Drain(now + DRAIN_NANOS);
            }
            Phase::Drain(until) if now >= until => {
                self.before = world.traffic()?;
                self.phase = Phase::Idle(now + IDLE_NANOS);
            }
            Phase::Idle(until) if now >= until => return Ok(Step::Over),
            Phase::Stream | Phase::Drain(_) | Phase::Idle(_) => {}
        }
        Ok(Step::Until(Time::from_nanos(next)))
    }

    fn observe(&mut self, record: Record<MemberEvent>, _: &mut Commands<GroupMember<B>>) {
        let (at, host) = (record.at.as_nanos(), record.host);
        let GroupMeasured { members, deliveries, latency, suspicions, outcomes, .. } = &mut self.measured;
        let member = &mut members[host as usize];
        match record.event {
            MemberEvent::Started => member.process_ended(),
            MemberEvent::Delivered(delivery) => {
                member.delivered(&delivery, at);
                let Delivery { origin, number, nanos, from } = delivery;
                if origin != host && outcomes.is_steady(host as usize) {
                    latency.add(nanos);
                }
                // A run that keeps its rows has fewer than 2^32 messages of a member.
                let (item, from) = (number as u32, from.unwrap_or(NOBODY));
                deliveries.add(DeliveryRow { item, nanos, node: host, from, detail: origin });
            }
            MemberEvent::Done { broadcast } => {
                *member.done.get_or_insert(0) += broadcast;
                member.done_at = at;
            }
            MemberEvent::Suspected { host: suspect, is_slow } => {
                if is_slow {
                    outcomes.remove(suspect, at);
                }
                let is_false = outcomes.is_well(suspect, at) && outcomes.is_well(host, at);
                suspicions.push(Suspicion { at, by: host, host: suspect, is_false });
            }
        }
    }

    fn contents(&self) -> Option<ContentsOf<B::Frame>> {
        Some(Box::new(contents::<B>(Arc::clone(&self.sent_at))))
    }

    fn deliveries_max(&self, nodes: u32) -> Option<u64> {
        let (group, hosts) = (self.group(), &self.measured.hosts.configs);
        let fastest = hosts.iter().map(|host| host.uplink_bps).max().unwrap_or(1) as f64;
        let seconds = group.end_nanos().map_or(0.0, |end| (end - self.begin_at()) as f64 / 1e9);
        let paced = group.rate.unwrap_or(fastest / (group.size.bytes() as f64 * 8.0)) * seconds;
        let messages = group.count().map_or(paced, f64::from);
        Some((messages * f64::from(self.senders()) * f64::from(nodes)) as u64)
    }

    fn delivered(&self) -> Vec<Delivered> {
        let sent_at = self.sent_at.lock().unwrap_or_else(PoisonError::into_inner);
        self.measured.deliveries.delivered_of(|row| {
            let item = item_of(row.detail, u64::from(row.item));
            let at = *sent_at.get(&item)?;
            let origin = Origin { host: row.detail, at };
            let is_last = row.node != row.detail;
            is_last.then_some(Delivered {
                node: row.node,
                item,
                from: (row.from != NOBODY).then_some(row.from),
                origin,
                at: at + row.nanos,
                made_of: None,
                is_last,
                after: Cause::Order,
            })
        })
    }

    fn progress(&self, now: Time) -> Progress {
        let all = u64::from(self.senders()) * self.steady().count() as u64;
        Progress {
            share: self.share_done(now.as_nanos()),
            deliveries: Some(self.steady().map(|member| member.delivered).sum()),
            deliveries_expected: self.group().count().map(|count| u64::from(count) * all),
            ..Progress::default()
        }
    }

    fn measured(mut self, world: &mut dyn World<GroupMember<B>>) -> Result<GroupMeasured, RunError> {
        let idle = since(&self.before, world.traffic()?);
        for (counters, member) in world.counters()?.into_iter().zip(&mut self.measured.members) {
            let Counters { engine, totals } = counters;
            self.measured.counts.push(engine);
            member.totals.add(&totals);
        }
        Ok(GroupMeasured {
            idle_bytes: idle.iter().map(|stats| stats.sent.bytes).collect(),
            digest: world.digest()?,
            ..self.measured
        })
    }
}

#[cfg(test)]
mod tests;
