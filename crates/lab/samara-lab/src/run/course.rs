//! The course of a run: plan, network, steps, measurements.

use std::any::Any;

use samara_scenario::Point;
use samara_sim::{Arrivals, HostConfig, Ranks, SimConfig, Transport, hosts_of_rank};

use super::net::Net;
use super::{Progress, RunError, RunOptions, Setup, lock};
use crate::experiment::{Commands, Experiment, Plan, PlannedNetwork, Step, World};
use crate::explain::{Delivered, Explain, Explained, Without, is_sampled};
use crate::network;
use samara_document::topology::Graph;

/// Receives the progress of a run after each step, and the state of the experiment if it has one.
pub type WatchSteps<'a> = &'a mut dyn FnMut(Progress, Option<&dyn Any>);

/// Runs a point in this process.
pub fn run_alone<E: Experiment>(
    point: &Point,
    options: RunOptions<'_>,
    watch: WatchSteps<'_>,
) -> Result<E::Measured, RunError> {
    let measured = Course::<E>::plan(point, options)?.run(None, watch)?;
    Ok(measured.expect("a single process is the first"))
}

/// Runs a point in several processes, of which this is one. Only the first one returns measurements.
pub(crate) fn run_as_one_of<E: Experiment>(
    point: &Point,
    options: RunOptions<'_>,
    ranks: &mut dyn Ranks,
    watch: WatchSteps<'_>,
) -> Result<Option<E::Measured>, RunError> {
    Course::<E>::plan(point, options)?.run(Some(ranks), watch)
}

/// An experiment that is planned, with its network.
pub struct Course<'a, E> {
    pub experiment: E,
    pub(crate) setup: Setup<'a>,
    pub(crate) config: SimConfig,
    pub(crate) graph: Graph,
}

impl<'a, E: Experiment> Course<'a, E> {
    pub fn plan(point: &'a Point, options: RunOptions<'a>) -> Result<Self, RunError> {
        Self::planned(point, options, E::plan)
    }

    /// Returns the transport and the hosts, for a run without some of their properties.
    pub fn network_mut(&mut self) -> (&mut Transport, &mut [HostConfig]) {
        (&mut self.config.transport, &mut self.setup.hosts.configs)
    }

    /// Plans a run whose hosts are processes.
    pub fn in_processes(point: &'a Point, options: RunOptions<'a>) -> Result<Self, RunError> {
        Self::plan(point, RunOptions { in_processes: true, ..options })
    }

    /// Plans with a function in place of [`Experiment::plan`].
    pub fn planned(
        point: &'a Point,
        options: RunOptions<'a>,
        plan: impl FnOnce(&Plan<'_>) -> Result<E, (String, String)>,
    ) -> Result<Self, RunError> {
        let scenario = &*point.scenario;
        let (graph, custody) = if scenario.family().has_topology() {
            network::graph(scenario, options.inputs, point.seed).map_err(RunError::Failed)?
        } else {
            (Graph { nodes: scenario.network.nodes, edges: Vec::new() }, Vec::new())
        };
        let setup = Setup::new(point, options)?;
        let network = PlannedNetwork {
            point,
            inputs: options.inputs,
            graph: &graph,
            custody: &custody,
            hosts: &setup.hosts,
            validates: setup.validates(),
            is_instant: options.explain.without == Some(Without::Processing),
            in_processes: options.in_processes,
        };
        let experiment = plan(&Plan { scenario, seed: point.seed, network: Some(network) })
            .map_err(|(key, message)| RunError::Failed(format!("{key}: {message}")))?;
        let config = setup.config();
        Ok(Self { experiment, setup, config, graph })
    }

    /// Runs the experiment. `None` in all of several processes but the first.
    pub fn run(
        self,
        ranks: Option<&mut dyn Ranks>,
        watch: WatchSteps<'_>,
    ) -> Result<Option<E::Measured>, RunError> {
        let Self { mut experiment, setup, config, graph } = self;
        let all = setup.hosts.configs.len() as u32;
        let own = ranks.as_ref().map_or(0..all, |ranks| hosts_of_rank(all, ranks.rank(), ranks.count()));
        let others = match ranks {
            None => None,
            Some(ranks) => {
                let ranks: &mut dyn Ranks = ranks;
                let codec = experiment.codec().ok_or_else(|| {
                    RunError::Failed(
                        "this protocol cannot run in several processes; run this scenario in one process"
                            .to_owned(),
                    )
                })?;
                Some((ranks, codec))
            }
        };
        let sim = (E::worlds().simulation)(config, setup.host_configs(), experiment.hosts(), own)
            .map_err(|error| RunError::Failed(error.to_string()))?;
        let options = setup.options;
        let mut net = Net::new(sim, others, &setup);
        if let Some(protocols) = experiment.protocols() {
            net.sim.set_protocol(protocols);
        }
        let mut rng = setup.links_rng();
        let more = experiment.links(&mut rng);
        setup.schedule_links(&mut net, &mut rng, graph.edges.iter().copied().chain(more));
        setup.schedule_faults(&mut net);
        drop(graph);
        if let Some(forge) = experiment.forge() {
            net.sim.set_forge(forge);
        }
        if options.check_invariants {
            net.sim.check_invariants();
        }
        let mut commands = Commands(Vec::new());
        experiment.start(&mut commands);
        simulate(experiment, commands, &mut net, options, watch)
    }
}

/// Simulates an experiment to its end.
fn simulate<E: Experiment>(
    mut experiment: E,
    mut commands: Commands<E::App>,
    net: &mut Net<'_, E::App>,
    options: RunOptions<'_>,
    watch: WatchSteps<'_>,
) -> Result<Option<E::Measured>, RunError> {
    if !net.is_first() {
        net.follow(options.stop)?;
        return Ok(None);
    }
    let every = record(&experiment, net, options.explain);
    loop {
        net.issue(&mut commands)?;
        let Step::Until(until) = experiment.step(net)? else { break };
        net.run_until(until, options.stop, |record| experiment.observe(record, &mut commands))?;
        watch(progress(&experiment, net), experiment.state());
    }
    let done = Progress { share: 1.0, audit: net.audit(), ..progress(&experiment, net) };
    watch(done, experiment.state());
    if let Some(every) = every {
        let (point, _) = net.setting();
        let down = network::down(&point.scenario, point.seed);
        let arrivals = net.sim.take_arrivals().with_down(down);
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
    let measured = experiment.measured(net)?;
    net.end()?;
    Ok(Some(measured))
}

/// Lets the simulation record where time goes, if that is wanted and possible. Returns the sampling
/// interval of items.
fn record<E: Experiment>(experiment: &E, net: &mut Net<'_, E::App>, explain: &Explain) -> Option<u64> {
    let nodes = net.hosts().len() as u32;
    let expected =
        experiment.deliveries_max(nodes).or(experiment.progress(net.sim.now()).deliveries_expected);
    let every = explain.every(nodes, expected).filter(|_| net.is_alone())?;
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
fn progress<E: Experiment>(experiment: &E, net: &Net<'_, E::App>) -> Progress {
    let now = net.sim.now();
    let steps = net.is_alone().then(|| net.sim.steps());
    Progress { virtual_nanos: Some(now.as_nanos()), steps, ..experiment.progress(now) }
}
