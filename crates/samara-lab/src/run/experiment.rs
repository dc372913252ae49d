//! The contract between a family of experiments and the simulator, and the loop that drives all of
//! them.

use samara_gossipsub::config::Parameters;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use samara_apps::Simulated;
use samara_engine::{Engine, NodeRng, Purpose, Time};
use samara_sim::{NodeFactory, Record, SimConfig};
use samara_spec::{FaultKind, Point, Scenario};

use super::net::{Net, Next, Others};
use super::{Progress, RunError, RunOptions};
use crate::network::{self, Hosts};

/// An experiment on one network: what happens in it, and what is measured.
///
/// [`simulate`] calls [`step`](Self::step), simulates as far as it says, hands each event to
/// [`observe`](Self::observe), and repeats until the experiment is over.
pub(crate) trait Stepped: Sized {
    /// Engine and application of a host.
    type App: Engine;
    type Measured;

    /// Looks at the network, issues commands, and decides how far to simulate.
    fn step(&mut self, net: &mut Net<'_, Self::App>) -> Result<Step, RunError>;

    /// Takes an event of a host. Events come ordered by time and then by host.
    fn observe(&mut self, record: Record<<Self::App as Engine>::Event>);

    /// How far the run is, but for time and steps, which the loop fills in.
    fn progress(&self, net: &Net<'_, Self::App>) -> Progress;

    /// The measurements, in the process that gets them.
    fn measured(self, net: &mut Net<'_, Self::App>) -> Result<Option<Self::Measured>, RunError>;
}

/// What happens next in an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The network is simulated up to this time, in nanoseconds of the run.
    Until(u64),
    /// Everything has been measured. In several processes that is for the first of them to decide;
    /// the others go on to this time if it does not.
    Over(u64),
}

/// Simulates an experiment to its end. `watch` sees it after each step.
pub(crate) fn simulate<E: Stepped>(
    mut experiment: E,
    net: &mut Net<'_, E::App>,
    stop: &AtomicBool,
    mut watch: impl FnMut(&E, Progress),
) -> Result<Option<E::Measured>, RunError> {
    loop {
        let (until, next) = match experiment.step(net)? {
            Step::Until(until) => (until, Next::On),
            Step::Over(until) => (until, Next::Over),
        };
        let next = if stop.load(Ordering::Relaxed) { Next::Interrupted } else { next };
        match net.agree(next)? {
            Next::Interrupted => return Err(RunError::Interrupted),
            Next::Over => break,
            Next::On => net.run_until(until, |record| experiment.observe(record))?,
        }
        watch(&experiment, progress(&experiment, net));
    }
    watch(&experiment, Progress { share: 1.0, ..progress(&experiment, net) });
    experiment.measured(net)
}

/// The steps of other processes are known at the end only.
fn progress<E: Stepped>(experiment: &E, net: &Net<'_, E::App>) -> Progress {
    let (virtual_nanos, steps) = (Some(net.now()), net.is_alone().then(|| net.sim.steps()));
    Progress { virtual_nanos, steps, ..experiment.progress(net) }
}

/// What every experiment is made from: the point of a scenario and the hosts of its network.
pub(crate) struct Setup<'a> {
    pub(crate) point: &'a Point,
    pub(crate) options: RunOptions<'a>,
    pub(crate) hosts: Hosts,
}

impl<'a> Setup<'a> {
    /// The setup of a point with so many hosts.
    pub(crate) fn new(point: &'a Point, options: RunOptions<'a>, hosts: u32) -> Result<Self, RunError> {
        let hosts = network::hosts(&point.scenario, options.inputs, hosts, point.seed);
        Ok(Self { point, options, hosts: hosts.map_err(RunError::Scenario)? })
    }

    pub(crate) fn scenario(&self) -> &'a Scenario {
        &self.point.scenario
    }

    pub(crate) fn config(&self) -> SimConfig {
        let (scenario, seed) = (self.scenario(), self.point.seed);
        SimConfig {
            seed,
            threads: self.options.threads,
            network: network::network(scenario, &self.hosts, seed),
            transport: network::transport(scenario),
            nic: network::nic(scenario),
            downlink_queue: network::downlink_queue(scenario),
        }
    }

    pub(crate) fn network<N: Engine + Simulated>(
        &self,
        factory: NodeFactory<N>,
    ) -> Result<Net<'static, N>, RunError> {
        let all = 0..self.hosts.configs.len() as u32;
        self.distributed(factory, all, None)
    }

    /// The simulation of the hosts of this process.
    pub(crate) fn distributed<'o, N: Engine + Simulated>(
        &self,
        factory: NodeFactory<N>,
        local: std::ops::Range<u32>,
        others: Option<Others<'o, N>>,
    ) -> Result<Net<'o, N>, RunError> {
        let sim = N::simulation(self.config(), self.hosts.configs.clone(), factory, local)
            .map_err(|error| RunError::Scenario(error.to_string()))?;
        Ok(Net::new(sim, others))
    }

    /// Lets all pairs of hosts speak the protocol of the scenario's version of GossipSub.
    pub(crate) fn set_protocol<N: Engine>(&self, net: &mut Net<'_, N>) {
        let protocol: Arc<str> =
            self.scenario().find::<Parameters>().cloned().unwrap_or_default().version.protocol().into();
        net.sim.set_protocol(move |_, _| Arc::clone(&protocol));
    }

    /// The generator that draws when links are dialled.
    pub(crate) fn links_rng(&self) -> NodeRng {
        NodeRng::new(self.point.seed, 2, Purpose::Topology)
    }

    /// Dials, or simply makes, all links when the scenario says.
    pub(crate) fn schedule_links<N: Engine>(
        &self,
        net: &mut Net<'_, N>,
        rng: &mut NodeRng,
        edges: impl Iterator<Item = (u32, u32)>,
    ) {
        let links = &self.scenario().transport.links;
        let (from, until) = (links.from.nanos(), links.until.nanos());
        for (dialler, listener) in edges {
            if until > from {
                net.sim.dial(Time::from_nanos(from + rng.below(until - from)), dialler, listener);
            } else {
                net.sim.establish(Time::from_nanos(from), dialler, listener);
            }
        }
    }

    /// Schedules all faults but partitions, which are part of the network, and leaves, which are
    /// commands to the members of a group.
    pub(crate) fn schedule_faults<N: Engine>(&self, net: &mut Net<'_, N>) {
        let sim = &mut net.sim;
        for (index, fault) in self.scenario().faults.iter().enumerate() {
            let at = Time::from_nanos(fault.at.nanos());
            let until = fault.until.map(|until| Time::from_nanos(until.nanos()));
            for host in network::hit(self.scenario(), index, self.point.seed) {
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
                }
            }
        }
    }
}
