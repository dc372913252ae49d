//! A run of teams that mix batches.

use std::any::Any;
use std::sync::Arc;

use crate::application::codec::Wire;
use crate::application::{self, Act, Costs, Host, RoundEvent, Shared};
use crate::section::{self, Mix};
use samara_engine::Time;
use samara_hosts::Worlds;
use samara_mix::{Config, Ignored, MixFrame, Parameters};
use samara_scenario::{FaultKind, Point, Scenario};
use samara_sim::{
    Arrivals, Connection, Control, Hop, HostConfig, HostStats, Http2Config, NodeFactory, Record, Transport,
    Window,
};

use super::measure::Collector;
use super::metrics::first_hop_ms;
use super::paths::{self, Pieces};
use samara_lab::experiment::{Commands, Experiment, FramesCodec, Plan, Problem, Step, World};
use samara_lab::explain::{ContentsOf, Delivered, MainTime};
use samara_lab::network::{self, Hosts};
use samara_lab::results::{Deliveries, Measured};
use samara_lab::run::{Course, Progress, RunError, RunOptions, SLICE_NANOS, WatchSteps, run_alone, since};

/// Time that a run continues after the last round, so that the last frames arrive.
const DRAIN_NANOS: u64 = 2_000_000_000;
/// With `mix.interval`, the time between two checks while a batch waits for a round.
const WAIT_NANOS: u64 = 5_000_000;
/// Windows and rates that never limit: in packets, bytes, and bits per second.
const WIDE_PACKETS: u32 = 1 << 28;
const WIDE_BYTES: u32 = i32::MAX as u32;
const WIDE_BPS: u64 = 1 << 50;

#[derive(Debug)]
pub struct MixMeasured {
    pub point: Point,
    pub config: Config,
    pub costs: Costs,
    pub collector: Collector,
    /// The deliveries of rounds at nodes.
    pub deliveries: Deliveries,
    /// The first hop in milliseconds without one [`Mechanism`] after the other; empty unless the
    /// scenario requests it.
    pub without_ms: Vec<f64>,
    /// Traffic of each node of the pool from the first payloads to the end of the last round.
    pub traffic: Vec<HostStats>,
    /// The nodes of the pool, then the scheduler.
    pub hosts: Hosts,
    /// Start of handing in batches, in nanoseconds of the run.
    pub begun: u64,
    /// End of the last round, in nanoseconds of the run.
    pub over: u64,
    /// The faults of nodes, with their durations.
    pub harm: Vec<FaultWindow>,
    /// Samples of the processor time of real nodes; empty in simulations, where only work takes
    /// time.
    pub processors: Vec<ProcessorLook>,
    /// Number of frames that engines ignored, by cause.
    pub ignored: Vec<(&'static str, u64)>,
    /// Frames of slots that were retransmitted because a link had broken.
    pub resent_frames: u64,
    pub queue_drops: u64,
    /// The largest number of bytes of slots that a node held at a time.
    pub held_bytes_max: u64,
    /// Digest of all packets, and number of steps of the simulation; both zero for real nodes.
    pub digest: (u64, u64),
}

fn main_time() -> MainTime {
    MainTime { name: "the latency of a batch", item: "round", ..MainTime::default() }
}

/// A sample of the processor time of each node of the pool.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessorLook {
    /// Time of the sample, in nanoseconds of the run.
    pub at: u64,
    /// Processor nanoseconds of each node's current and earlier processes.
    pub nanos: Vec<u64>,
}

/// A fault that hits a node, and its duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultWindow {
    /// The number of the fault in the scenario.
    pub fault: usize,
    pub host: u32,
    pub is_partition: bool,
    /// Start of the fault, in nanoseconds of the run.
    pub from: u64,
    /// End of the effects on others: the end of the fault plus the longest pause between two
    /// connection attempts.
    ///
    /// `u64::MAX` if the fault never ends.
    pub until: u64,
}

/// A cause of slow transfers, in the order of removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// The congestion window shrinks while the link is idle.
    IdleRestart,
    /// The receiver's window of HTTP/2 limits the bytes in transit.
    Window,
    /// The congestion window starts small and doubles with every round trip.
    SlowStart,
    /// The link needs time for each byte.
    Serialisation,
}

impl Mechanism {
    /// All mechanisms, in the order of removal.
    pub const ALL: [Self; 4] = [Self::IdleRestart, Self::Window, Self::SlowStart, Self::Serialisation];

    fn remove(self, transport: &mut Transport, hosts: &mut [HostConfig]) {
        match (self, &mut transport.control) {
            (Self::IdleRestart, Control::Tcp(tcp)) => tcp.idle_restart = false,
            (Self::SlowStart, Control::Tcp(tcp)) => {
                (tcp.initial_window, tcp.receive_window) = (WIDE_PACKETS, WIDE_PACKETS);
            }
            (Self::Window, _) => {
                transport.connection =
                    Connection::Http2(Http2Config { window: Window::Fixed { bytes: WIDE_BYTES } });
            }
            (Self::Serialisation, _) => {
                hosts.iter_mut().for_each(|host| (host.uplink_bps, host.downlink_bps) = (WIDE_BPS, WIDE_BPS));
            }
            (Self::IdleRestart | Self::SlowStart, Control::Ideal | Control::Quic(_) | Control::Datagram) => {}
        }
    }
}

/// Runs a point, and again without one mechanism after the other if the scenario requests it.
pub(crate) fn run(
    point: &Point,
    options: RunOptions<'_>,
    watch: WatchSteps<'_>,
) -> Result<Box<dyn Measured>, RunError> {
    let has_mechanisms = point.scenario.part::<Mix>().mechanisms && options.explain.without.is_none();
    let mechanisms = if has_mechanisms { &Mechanism::ALL[..] } else { &[] };
    let runs = 1.0 + mechanisms.len() as f64;
    let of_all =
        |number: usize, done: Progress| Progress { share: (number as f64 + done.share) / runs, ..done };
    let mut measured = run_alone::<Teams>(point, options, &mut |done, state| watch(of_all(0, done), state))?;
    for number in 1..=mechanisms.len() {
        let mut course = Course::<Teams>::plan(point, options)?;
        for mechanism in &mechanisms[..number] {
            let (transport, hosts) = course.network_mut();
            mechanism.remove(transport, hosts);
        }
        let without = course.run(None, &mut |done, _| watch(of_all(number, done), None))?;
        measured.without_ms.extend(without.map(|without| first_hop_ms(&without.collector)));
    }
    Ok(Box::new(measured))
}

/// Teams of a pool that mix batches.
pub(crate) struct Teams {
    point: Point,
    mix: Mix,
    hosts: Hosts,
    /// Whether hosts are processes.
    is_real: bool,
    shared: Arc<Shared>,
    collector: Collector,
    /// Traffic of the hosts when the sender began.
    before: Option<Vec<HostStats>>,
    begun: u64,
    /// The numbers of ready and completed rounds, and the time of their last change.
    last: ((usize, usize), u64),
    /// Samples of the processor time of real nodes.
    processors: Vec<ProcessorLook>,
    /// With `mix.interval`, the earliest time of the next batch, in nanoseconds of the run.
    next_batch: u64,
    /// The end of the drain time, and the traffic up to the end of the last round.
    drained: Option<(u64, Vec<HostStats>)>,
}

impl Teams {
    pub(super) fn new(plan: &Plan<'_>, shared: Arc<Shared>) -> Self {
        Self {
            point: plan.network().point.clone(),
            mix: plan.scenario.part::<Mix>().clone(),
            hosts: plan.network().hosts.clone(),
            is_real: plan.network().in_processes,
            shared,
            collector: Collector::default(),
            before: None,
            begun: 0,
            last: ((0, 0), 0),
            processors: Vec::new(),
            next_batch: u64::MAX,
            drained: None,
        }
    }

    fn nodes(&self) -> u32 {
        self.point.scenario.network.nodes
    }

    fn path_of_marks(&self, to: &Delivered) -> Option<Vec<Hop>> {
        let of_round = (self.collector.rounds.get(&to.item)?, &self.collector.phases);
        paths::path_of_marks(of_round, to, |from, node| network::latency_nanos(&self.hosts, from, node))
    }

    /// Returns the sum of all timeouts. The run gives up if no round makes progress for longer.
    fn patience(&self) -> u64 {
        let config = &self.point.scenario.part::<Parameters>().config;
        let times = [
            config.precomputation_timeout,
            config.realtime_timeout,
            config.queue_timeout,
            config.reconnect.limit,
            config.reconnect.limit,
            self.mix.pause.duration(),
            self.mix.interval.duration(),
        ];
        times.iter().map(|time| time.as_nanos() as u64).sum()
    }

    /// With `mix.interval`, hands in a batch if one is due and a round is ready. Returns the time of
    /// the next step.
    fn submit(&mut self, now: u64, world: &mut dyn World<Host>) -> Result<u64, RunError> {
        let interval = self.mix.interval.nanos();
        if interval == 0 || self.next_batch == u64::MAX {
            return Ok(now + SLICE_NANOS);
        }
        if now >= self.next_batch
            && let Some(round) = self.collector.open.pop_front()
        {
            let first = self.collector.rounds[&round].nodes[0];
            world.command(Time::from_nanos(now), first, Act::Submit(round))?;
            self.next_batch = now + interval;
        }
        Ok(self.next_batch.max(now + WAIT_NANOS))
    }
}

impl Experiment for Teams {
    type App = Host;
    type Measured = MixMeasured;

    fn plan(plan: &Plan<'_>) -> Result<Self, Problem> {
        let network = plan.network();
        let mix = plan.scenario.part::<Mix>();
        let wrong = |key: &str, why: &str| Err((key.to_owned(), why.to_owned()));
        if network.in_processes && !mix.cpu.is_empty() {
            return wrong(
                "mix.cpu",
                "the processors of real hosts take what they take; remove it, or use samara run",
            );
        }
        if network.in_processes && mix.mechanisms {
            return wrong(
                "mix.mechanisms",
                "real networks have all mechanisms; set it to false, or use samara run",
            );
        }
        let mut shared = section::shared(network.point, network.in_processes);
        if network.is_instant {
            shared.costs = Costs::default();
        }
        Ok(Self::new(plan, Arc::new(shared)))
    }

    fn hosts(&self) -> NodeFactory<Host> {
        let shared = Arc::clone(&self.shared);
        Arc::new(move |host| Host::new(host, &shared))
    }

    fn processors(&self, host: u32) -> Option<f64> {
        let share = self.mix.processor.fraction();
        (share < 1.0 && host < self.nodes()).then(|| share * f64::from(self.mix.cores))
    }

    fn codec(&self) -> Option<FramesCodec<Host>> {
        Some(Arc::new(Wire))
    }

    fn worlds() -> Worlds<Host> {
        application::worlds()
    }

    fn step(&mut self, world: &mut dyn World<Host>) -> Result<Step, RunError> {
        let now = world.now().as_nanos();
        if self.drained.is_some() {
            return Ok(Step::Over);
        }
        let looked = self.processors.last().map_or(0, |look| look.at);
        if self.is_real
            && now >= looked + SLICE_NANOS
            && let Some(mut nanos) = world.processors()?
        {
            nanos.truncate(self.nodes() as usize);
            self.processors.push(ProcessorLook { at: now, nanos });
        }
        let reached = (self.collector.ready, self.collector.ended);
        if reached != self.last.0 {
            self.last = (reached, now);
        }
        if self.collector.ended >= self.mix.rounds as usize || now > self.last.1 + self.patience() {
            let mut traffic = since(self.before.as_deref().unwrap_or_default(), world.traffic()?);
            traffic.truncate(self.nodes() as usize);
            self.drained = Some((now + DRAIN_NANOS, traffic));
            return Ok(Step::Until(Time::from_nanos(now + DRAIN_NANOS)));
        }
        if self.before.is_none() && self.collector.ready >= self.mix.stock() as usize {
            // Precomputation before the first payloads has the whole machine.
            world.confine()?;
            self.before = Some(world.traffic()?);
            self.begun = now;
            for host in 0..self.nodes() {
                world.command(Time::from_nanos(now), host, Act::Begin)?;
            }
            self.next_batch = now;
        }
        Ok(Step::Until(Time::from_nanos(self.submit(now, world)?)))
    }

    fn observe(&mut self, record: Record<RoundEvent>, commands: &mut Commands<Host>) {
        if record.event == RoundEvent::Restarted && self.before.is_some() {
            commands.at(record.at, record.host, Act::Begin);
        }
        self.collector.take(record);
    }

    fn wrong(&self, record: &Record<RoundEvent>) -> Option<String> {
        let (nodes, cores) = (self.nodes(), self.shared.config.jobs_max);
        match &record.event {
            RoundEvent::Made(team, plan) if *team >= self.shared.config.teams => {
                Some(format!("it reports a round {} of team {team}, which does not exist", plan.round))
            }
            RoundEvent::Made(_, plan) => {
                let stranger = plan.team.iter().find(|node| **node >= nodes)?;
                Some(format!("it reports a team with node {stranger}, which does not exist"))
            }
            RoundEvent::Work(span) if span.host != record.host || usize::from(span.core) >= cores => {
                Some(format!("it reports work at core {} of host {}", span.core, span.host))
            }
            RoundEvent::Work(span) if span.from > span.to => {
                Some("it reports work that ended before it began".to_owned())
            }
            _ => None,
        }
    }

    fn state(&self) -> Option<&dyn Any> {
        Some(&self.collector)
    }

    fn contents(&self) -> Option<ContentsOf<MixFrame>> {
        Some(paths::contents(self.shared.config.group))
    }

    fn deliveries_max(&self, _nodes: u32) -> Option<u64> {
        Some(u64::from(self.mix.rounds) * u64::from(self.mix.team))
    }

    fn has_loops(&self) -> bool {
        true
    }

    fn sampled_by(item: u64) -> u64 {
        paths::round_of(item)
    }

    fn delivered(&self) -> Vec<Delivered> {
        paths::delivered(self.collector.rounds.values())
    }

    fn paths(&self, arrivals: &Arrivals, delivered: &[Delivered]) -> Vec<Option<Vec<Hop>>> {
        if self.is_real {
            // Links of gRPC do not tell of frames, but marks tell when slots leave and arrive.
            return delivered.iter().map(|to| self.path_of_marks(to)).collect();
        }
        let pieces = Pieces::new(arrivals, self.nodes(), self.shared.config.transfer);
        delivered.iter().map(|delivery| pieces.path(delivery)).collect()
    }

    fn main_time(&self) -> MainTime {
        main_time()
    }

    fn progress(&self, _: Time) -> Progress {
        let (ready, ended, rounds) = (self.collector.ready, self.collector.ended, self.mix.rounds);
        Progress {
            share: (ready + ended) as f64 / (2 * rounds) as f64,
            // A failed round delivers nothing.
            deliveries: Some(self.collector.completed as u64),
            deliveries_expected: Some(rounds.into()),
            ..Progress::default()
        }
    }

    fn measured(self, world: &mut dyn World<Host>) -> Result<MixMeasured, RunError> {
        let (digest, metrics) = (world.digest()?, world.counters()?);
        let metrics = || metrics.iter();
        let ignored = |cause: Ignored| metrics().map(|metrics| metrics.ignored(cause)).sum::<u64>();
        let (until, traffic) = self.drained.unwrap_or_default();
        let ends = self.collector.rounds.values().filter_map(|row| row.ended);
        Ok(MixMeasured {
            traffic,
            begun: self.begun,
            over: ends.max().unwrap_or(until.saturating_sub(DRAIN_NANOS)),
            harm: harm(&self.point.scenario, self.point.seed, &self.shared.config),
            processors: self.processors,
            ignored: Ignored::ALL.into_iter().map(|cause| (cause.name(), ignored(cause))).collect(),
            resent_frames: metrics().map(|metrics| metrics.resent_frames).sum(),
            queue_drops: metrics().map(|metrics| metrics.queue_drops).sum(),
            held_bytes_max: metrics().map(|metrics| *metrics.held_bytes_max).max().unwrap_or(0),
            digest,
            deliveries: self.collector.deliveries(),
            collector: self.collector,
            without_ms: Vec::new(),
            point: self.point,
            config: (*self.shared.config).clone(),
            costs: self.shared.costs,
            hosts: self.hosts,
        })
    }
}

fn harm(scenario: &Scenario, seed: u64, config: &Config) -> Vec<FaultWindow> {
    let pause = config.reconnect.max.as_nanos() as u64;
    let faults = scenario.faults.iter().enumerate();
    let faults = faults.filter(|(_, fault)| !network::is_momentary(fault, scenario));
    let of = faults.flat_map(|(index, fault)| {
        let until = fault.until.map_or(u64::MAX, |until| until.nanos() + pause);
        let is_partition = fault.kind == (FaultKind::Partition {});
        let hosts = network::hit(scenario, index, seed).into_iter();
        hosts.map(move |host| FaultWindow { fault: index, host, is_partition, from: fault.at.nanos(), until })
    });
    of.collect()
}

#[cfg(test)]
mod tests;
