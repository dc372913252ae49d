//! The contract between a family of experiments and the simulator, and the main loop.

use samara_gossipsub::config::Parameters;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use samara_apps::Simulated;
use samara_engine::{Engine, NodeRng, Purpose, Time};
use samara_sim::{Arrivals, Hop, HostConfig, Misconduct, NodeFactory, Record, RivalKind, SimConfig};
use samara_spec::{Direction, FaultKind, Point, Scenario};

use super::net::{Net, Next, Others};
use super::{Progress, RunError, RunOptions, lock};
use crate::explain::{self, ContentsOf, Delivered, Explain, Explained, MainTime, Without, is_sampled};
use crate::network::{self, Hosts};

/// An experiment on one network: its course and its measurements.
///
/// [`simulate`] calls [`step`](Self::step), simulates up to the time it returns, passes each event
/// to [`observe`](Self::observe), and repeats until the experiment is over.
pub(crate) trait Stepped: Sized {
    type App: Engine;
    type Measured;

    /// Inspects the network, issues commands, and returns the time up to which to simulate.
    fn step(&mut self, net: &mut Net<'_, Self::App>) -> Result<Step, RunError>;

    /// Handles an event of a host. Events are ordered by time, then by host.
    fn observe(&mut self, record: Record<<Self::App as Engine>::Event>);

    /// Returns the function that finds the items in frames; `None` if their deliveries cannot be
    /// explained.
    fn contents(&self) -> Option<ContentsOf<<Self::App as Engine>::Frame>> {
        None
    }

    /// Returns an upper bound of the number of deliveries; `None` if the run's progress has it, or if
    /// nobody knows.
    fn deliveries_max(&self, _nodes: u32) -> Option<u64> {
        None
    }

    /// Returns the number by which an item is in the sample or not: its own, unless several items
    /// belong together.
    fn sampled_by(item: u64) -> u64 {
        item
    }

    fn delivered(&self) -> Vec<Delivered> {
        Vec::new()
    }

    /// Returns true if a path to a node can pass nodes before their own deliveries, or twice.
    fn has_loops(&self) -> bool {
        false
    }

    /// Returns the path of each delivery; `None` if the record does not have it.
    fn paths(&self, arrivals: &Arrivals, delivered: &[Delivered]) -> Vec<Option<Vec<Hop>>> {
        explain::paths(arrivals, delivered)
    }

    /// Returns the time that the family's main metric measures.
    fn main_time(&self) -> MainTime {
        MainTime::default()
    }

    /// Returns the progress of the run. The main loop fills in time and steps.
    fn progress(&self, net: &Net<'_, Self::App>) -> Progress;

    fn measured(self, net: &mut Net<'_, Self::App>) -> Result<Self::Measured, RunError>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Simulate up to this time, in nanoseconds of the run.
    Until(u64),
    /// The measurements are complete.
    ///
    /// Only the first of several processes decides that. If it does not, the others simulate up to
    /// this time.
    Over(u64),
}

/// Simulates an experiment to its end. `watch` runs after each step.
pub(crate) fn simulate<E: Stepped>(
    mut experiment: E,
    net: &mut Net<'_, E::App>,
    options: RunOptions<'_>,
    mut watch: impl FnMut(&E, Progress),
) -> Result<E::Measured, RunError> {
    let every = record(&experiment, net, options.explain);
    loop {
        let (until, next) = match experiment.step(net)? {
            Step::Until(until) => (until, Next::On),
            Step::Over(until) => (until, Next::Over),
        };
        let next = if options.stop.load(Ordering::Relaxed) { Next::Interrupted } else { next };
        match net.agree(next)? {
            Next::Interrupted => return Err(RunError::Interrupted),
            Next::Over => break,
            Next::On => net.run_until(until, |record| experiment.observe(record))?,
        }
        watch(&experiment, progress(&experiment, net));
    }
    watch(&experiment, Progress { share: 1.0, audit: net.audit(), ..progress(&experiment, net) });
    if let Some(every) = every {
        let arrivals = net.sim.take_arrivals();
        let paths = |arrivals: &Arrivals, delivered: &[Delivered]| experiment.paths(arrivals, delivered);
        let main = experiment.main_time();
        let has_loops = experiment.has_loops();
        let explained = Explained::of(arrivals, experiment.delivered(), paths, has_loops, (every, main));
        if !explained.rows.is_empty() {
            options.explain.put(explained);
        }
    }
    let rivals = net.hosts().flat_map(|host| net.sim.rivals(host));
    lock(options.rivals).extend(rivals);
    experiment.measured(net)
}

/// Lets the simulation record where time goes, if that is wanted and possible. Returns the sampling
/// interval of items.
fn record<E: Stepped>(experiment: &E, net: &mut Net<'_, E::App>, explain: &Explain) -> Option<u64> {
    let nodes = net.hosts().len() as u32;
    let expected = experiment.deliveries_max(nodes).or(experiment.progress(net).deliveries_expected);
    let every = explain.every(expected).filter(|_| net.is_alone())?;
    let contents = experiment.contents()?;
    net.sim.explain(move |frame, key| {
        let mut contents = contents(frame, key);
        if every > 1 {
            let mut sampled = contents.items.iter().map(|item| is_sampled(E::sampled_by(*item), every));
            contents.names.retain(|_| sampled.next().unwrap_or(false));
            contents.items.retain(|item| is_sampled(E::sampled_by(*item), every));
        }
        contents
    });
    Some(every)
}

/// Returns the progress. The total number of steps of several processes is known only at the end.
fn progress<E: Stepped>(experiment: &E, net: &Net<'_, E::App>) -> Progress {
    let (virtual_nanos, steps) = (Some(net.now()), net.is_alone().then(|| net.sim.steps()));
    Progress { virtual_nanos, steps, ..experiment.progress(net) }
}

/// The input of every experiment: the point of a scenario and the hosts of its network.
pub(crate) struct Setup<'a> {
    pub(crate) point: &'a Point,
    pub(crate) options: RunOptions<'a>,
    pub(crate) hosts: Hosts,
}

impl<'a> Setup<'a> {
    pub(crate) fn new(point: &'a Point, options: RunOptions<'a>, hosts: u32) -> Result<Self, RunError> {
        let hosts = network::hosts(&point.scenario, options.inputs, hosts, point.seed);
        let mut hosts = hosts.map_err(RunError::Failed)?;
        if options.explain.without == Some(Without::Processing) {
            hosts.validation.iter_mut().for_each(|time| *time = Duration::ZERO);
        }
        Ok(Self { point, options, hosts })
    }

    /// Returns true if the validation of messages can take time.
    pub(crate) fn validates(&self) -> bool {
        let stalls = self.scenario().network.stalled_periods.fraction() > 0.0;
        stalls || self.hosts.validation.iter().any(|time| !time.is_zero())
    }

    pub(crate) fn scenario(&self) -> &'a Scenario {
        &self.point.scenario
    }

    pub(crate) fn host_configs(&self) -> Vec<HostConfig> {
        let mut configs = self.hosts.configs.clone();
        if let Some(without) = &self.options.explain.without {
            without.change_rates(&mut configs);
        }
        configs
    }

    pub(crate) fn config(&self) -> SimConfig {
        let (scenario, seed) = (self.scenario(), self.point.seed);
        let mut config = SimConfig {
            seed,
            threads: self.options.threads,
            network: network::network(scenario, &self.hosts, seed),
            transport: network::transport(scenario),
            nic: network::nic(scenario),
            downlink_queue: network::downlink_queue(scenario),
        };
        if let Some(without) = &self.options.explain.without {
            without.change(&mut config);
        }
        config
    }

    pub(crate) fn network<N: Engine + Simulated>(
        &self,
        factory: NodeFactory<N>,
    ) -> Result<Net<'static, N>, RunError> {
        let all = 0..self.hosts.configs.len() as u32;
        self.distributed(factory, all, None)
    }

    pub(crate) fn distributed<'o, N: Engine + Simulated>(
        &self,
        factory: NodeFactory<N>,
        local: std::ops::Range<u32>,
        others: Option<Others<'o, N>>,
    ) -> Result<Net<'o, N>, RunError> {
        let sim = N::simulation(self.config(), self.host_configs(), factory, local)
            .map_err(|error| RunError::Failed(error.to_string()))?;
        Ok(Net::new(sim, others))
    }

    /// Sets the protocol of all pairs of hosts to the scenario's version of GossipSub.
    pub(crate) fn set_protocol<N: Engine>(&self, net: &mut Net<'_, N>) {
        let protocol: Arc<str> =
            self.scenario().find::<Parameters>().cloned().unwrap_or_default().version.protocol().into();
        net.sim.set_protocol(move |_, _| Arc::clone(&protocol));
    }

    /// Returns the random stream for the times at which links are dialled.
    pub(crate) fn links_rng(&self) -> NodeRng {
        NodeRng::new(self.point.seed, 2, Purpose::Topology)
    }

    /// Schedules all links: random dials within the scenario's time range or, if it is empty,
    /// established links.
    pub(crate) fn schedule_links<N: Engine>(
        &self,
        net: &mut Net<'_, N>,
        rng: &mut NodeRng,
        edges: impl Iterator<Item = (u32, u32)>,
    ) {
        let links = &self.scenario().transport.links;
        let (from, until) = (links.from.nanos(), links.until.nanos());
        for (dialler, listener) in edges {
            if until > from && self.options.explain.without != Some(Without::Handshakes) {
                net.sim.dial(Time::from_nanos(from + rng.below(until - from)), dialler, listener);
            } else {
                net.sim.establish(Time::from_nanos(from), dialler, listener);
            }
        }
    }

    /// Schedules all faults except partitions, which are part of the network, and leaves, which are
    /// commands to the members of a group.
    pub(crate) fn schedule_faults<N: Engine>(&self, net: &mut Net<'_, N>) {
        let (sim, all) = (&mut net.sim, self.hosts.configs.len() as u32);
        for (index, fault) in self.scenario().faults.iter().enumerate() {
            let at = Time::from_nanos(fault.at.nanos());
            let until = fault.until.map(|until| Time::from_nanos(until.nanos()));
            for host in network::hit(self.scenario(), index, self.point.seed) {
                let mut misbehave = |what| {
                    sim.misbehave(at, host, what, fault.factor.unwrap_or(1.0));
                    if let Some(until) = until {
                        sim.misbehave(until, host, what, 0.0);
                    }
                };
                match fault.kind {
                    FaultKind::Crash | FaultKind::Vanish => {
                        sim.crash(at, host, fault.kind == FaultKind::Vanish);
                        if let Some(until) = until {
                            sim.restart(until, host);
                        }
                    }
                    FaultKind::Slow => {
                        let rates = &self.hosts.configs[host as usize];
                        let factor = fault.factor.unwrap_or(1.0);
                        let slow = |rate: u64| ((rate as f64 * factor) as u64).max(1);
                        sim.set_rates(at, host, slow(rates.uplink_bps), slow(rates.downlink_bps));
                        if let Some(until) = until {
                            sim.set_rates(until, host, rates.uplink_bps, rates.downlink_bps);
                        }
                    }
                    FaultKind::Partition | FaultKind::Leave => {}
                    FaultKind::Upload | FaultKind::Call => {
                        let connections = fault.factor.unwrap_or(1.0) as u32;
                        let kind = match fault.kind {
                            FaultKind::Upload => RivalKind::Upload { connections },
                            _ => RivalKind::Call,
                        };
                        let latency = Duration::from_nanos(self.scenario().network.latency.nanos());
                        sim.add_rival(at, until.unwrap_or(Time::MAX), host, kind, latency);
                    }
                    FaultKind::Cut => {
                        let until = until.unwrap_or(Time::MAX);
                        for peer in network::other_ends(fault, host, all) {
                            if fault.direction != Some(Direction::In) {
                                sim.cut(at, until, host, peer);
                            }
                            if fault.direction != Some(Direction::Out) {
                                sim.cut(at, until, peer, host);
                            }
                        }
                    }
                    FaultKind::Reset | FaultKind::Reconnect => {
                        for peer in network::other_ends(fault, host, all) {
                            sim.reconnect(at, host, peer, fault.kind == FaultKind::Reconnect);
                        }
                    }
                    FaultKind::Withhold => misbehave(Misconduct::Withhold),
                    FaultKind::Replay => misbehave(Misconduct::Replay),
                    FaultKind::Alter => misbehave(Misconduct::Alter),
                    FaultKind::Flood => misbehave(Misconduct::Flood),
                    FaultKind::Claim => misbehave(Misconduct::Claim),
                    FaultKind::Invent => misbehave(Misconduct::Invent),
                }
            }
        }
    }
}
