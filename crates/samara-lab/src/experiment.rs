//! Experiments of other crates: a protocol and its measurements, as a separate family.
//!
//! A program implements [`Experiment`] and registers it with [`Family::of`]. Scenarios can then use
//! its section.

use std::sync::Arc;

use samara_engine::outbox::{Outbox, OutboxConfig};
use samara_engine::units::Size;
use samara_engine::{Engine, Time};
use samara_sim::{FRAME_BYTES_MAX, HostStats, LATENCY_FLOOR, Record, Simulation};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::explain::{ContentsOf, Delivered};
use crate::family::{Family, boxed};
use crate::messages::run::message_bounds_ms;
use crate::metric::Metric;
use crate::network::{self, Hosts};
use crate::results::tables::{Table, traffic};
use crate::results::{Data, Measured, Outcome};
use crate::run::{Net, Progress, RunError, RunOptions, SLICE_NANOS, Setup, Step, Stepped, simulate};
use crate::torture::{Broken, Draw};
use samara_scenario::topology::Graph;
use samara_spec::family::{FamilySpec, NO_CHANNELS, NO_UNSENT, Part, PartType, ProtocolKind};
use samara_spec::{Point, Scenario};

/// A kind of experiment: a workload, the application on every host, and the metrics.
pub trait Experiment: Sized + Send + 'static {
    /// The section of a scenario that selects the experiment.
    const SECTION: &'static str;
    /// The name of the protocol in `protocol.kind`.
    const PROTOCOL: &'static str;
    /// All metrics that it can report: the constant that [`metrics!`](crate::metrics) declares.
    const METRICS: &'static [Metric];
    /// The content of the section.
    type Spec: Part + DeserializeOwned + JsonSchema;
    /// The parameters in `[protocol]`.
    type Parameters: Part + DeserializeOwned + JsonSchema;
    /// The engine and application of a host.
    type App: Engine;
    type Metrics: Serialize;

    /// Plans a run. Loading a scenario calls this too.
    ///
    /// # Errors
    /// Returns the dotted key of an invalid value, and the reason.
    fn plan(plan: &Plan<'_>) -> Result<Self, (String, String)>;

    /// Returns the function that creates a host from its number. A restart of a host creates it
    /// again.
    fn hosts(&self) -> impl Fn(u32) -> (Self::App, OutboxConfig) + Send + Sync + 'static;

    /// Issues the commands of the workload.
    fn start(&mut self, commands: &mut Commands<Self::App>);

    /// Handles an event of a host.
    ///
    /// Events are ordered by time, then by host. They arrive in batches that cover some
    /// milliseconds of virtual time. A command for a time that has passed takes effect at once.
    fn observe(&mut self, event: Record<<Self::App as Engine>::Event>, commands: &mut Commands<Self::App>);

    /// Returns the share of the run that is done; 1 ends the run.
    fn share_done(&self, now: Time) -> f64;

    /// Draws a small scenario for `samara torture`: the network, the own sections, and faults. Returns
    /// false if the experiment has none, which is the default.
    fn draw(_draw: &mut Draw) -> bool {
        false
    }

    /// Returns the promises that the run broke. `harmed` says of each node whether a fault other than
    /// slow links affects it.
    fn invariants(&self, _harmed: &[bool]) -> Vec<Broken> {
        Vec::new()
    }

    /// Returns the function that finds the items in a frame, for `samara explain`. The numbers of
    /// items are the experiment's own. `None`, the default, explains nothing.
    fn contents(&self) -> Option<ContentsOf<<Self::App as Engine>::Frame>> {
        None
    }

    /// Returns the deliveries to explain. Without any, `samara explain` says that there are none.
    fn delivered(&self) -> Vec<Delivered> {
        Vec::new()
    }

    /// Computes the metrics from the observed events and the traffic of the hosts.
    fn metrics(self, hosts: &[HostStats]) -> Self::Metrics;
}

/// The input for planning an experiment.
#[derive(Debug)]
pub struct Plan<'a> {
    pub scenario: &'a Scenario,
    pub seed: u64,
    /// The graph of links, and the hosts with their latencies; `None` while a scenario is loaded.
    pub network: Option<(&'a Graph, &'a Hosts)>,
}

impl Plan<'_> {
    /// Returns the number of hosts in the network.
    pub fn nodes(&self) -> u32 {
        self.scenario.network.nodes
    }

    /// Returns the bytes of the value of `key`, if a simulation can carry them in one frame.
    pub fn frame_bytes(key: &str, size: Size) -> Result<u32, (String, String)> {
        // Leaves room for what else is in the frame.
        let most = FRAME_BYTES_MAX / 2;
        let bytes = u32::try_from(size.bytes()).ok().filter(|bytes| *bytes <= most);
        bytes.ok_or_else(|| {
            let most = Size::from_bytes(most.into());
            (key.to_owned(), format!("is {size}; a simulation carries frames of at most {most}"))
        })
    }

    /// Returns, for each node, the least time in milliseconds in which a frame of this size can
    /// reach all others.
    ///
    /// It is empty while a scenario is loaded.
    pub fn lower_bounds_ms(&self, frame_bytes: u32) -> Vec<f64> {
        let Some(network) = self.network else { return Vec::new() };
        message_bounds_ms(self.scenario, network, frame_bytes, LATENCY_FLOOR)
    }
}

/// Commands to hosts, each with its time.
#[derive(Debug)]
pub struct Commands<N: Engine>(Vec<(Time, u32, N::Command)>);

impl<N: Engine> Commands<N> {
    /// Issues a command to a host for this time.
    pub fn at(&mut self, at: Time, host: u32, command: N::Command) {
        self.0.push((at, host, command));
    }
}

impl Family {
    /// Returns the family of an experiment, for [`register`](crate::family::register).
    pub const fn of<E: Experiment>() -> Self {
        Self {
            spec: const {
                &FamilySpec {
                    section: E::SECTION,
                    content: PartType::of::<E::Spec>(),
                    protocols: &[ProtocolKind::of::<E::Parameters>(E::PROTOCOL)],
                    unused: &[NO_CHANNELS, NO_UNSENT],
                    check: |checks, scenario| {
                        if let Err((key, message)) = E::plan(&Plan { scenario, seed: 0, network: None }) {
                            checks.wrong(&key, message);
                        }
                    },
                    ..FamilySpec::BASE
                }
            },
            metrics: E::METRICS,
            run: |point, options, watching| run::<E>(point, options, watching.progress).map(boxed),
            draw: E::draw,
            lacks: &[],
            ..Self::BASE
        }
    }
}

fn run<E: Experiment>(
    point: &Point,
    options: RunOptions<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Finished, RunError> {
    let scenario = &point.scenario;
    let (graph, _) = network::graph(scenario, options.inputs, point.seed).map_err(RunError::Failed)?;
    let setup = Setup::new(point, options, scenario.network.nodes)?;
    let plan = Plan { scenario, seed: point.seed, network: Some((&graph, &setup.hosts)) };
    let mut experiment =
        E::plan(&plan).map_err(|(key, message)| RunError::Failed(format!("{key}: {message}")))?;
    let host = experiment.hosts();
    let node = move |number| {
        let (app, outbox) = host(number);
        (app, Outbox::new(outbox))
    };
    let sim = Simulation::new(setup.config(), setup.host_configs(), Arc::new(node))
        .map_err(|error| RunError::Failed(error.to_string()))?;
    let mut net = Net::new(sim, None);
    setup.schedule_links(&mut net, &mut setup.links_rng(), graph.edges.iter().copied());
    setup.schedule_faults(&mut net);
    let mut commands = Commands(Vec::new());
    experiment.start(&mut commands);
    let slice = network::least_latency_nanos(&setup.hosts).clamp(1_000_000, SLICE_NANOS);
    let running = Running { experiment, commands, slice, setup: &setup };
    simulate(running, &mut net, options, |_, done| progress(done))
}

struct Running<'a, E: Experiment> {
    experiment: E,
    /// Commands issued since the last step.
    commands: Commands<E::App>,
    /// Length of a step in nanoseconds.
    slice: u64,
    setup: &'a Setup<'a>,
}

impl<E: Experiment> Stepped for Running<'_, E> {
    type App = E::App;
    type Measured = Finished;

    fn step(&mut self, net: &mut Net<'_, E::App>) -> Result<Step, RunError> {
        let now = net.now();
        let nodes = self.setup.hosts.configs.len();
        for (at, host, command) in self.commands.0.drain(..) {
            if host as usize >= nodes {
                let message = format!("a command goes to host {host}, but the hosts are 0 to {}", nodes - 1);
                return Err(RunError::Failed(message));
            }
            net.sim.command(at.max(Time::from_nanos(now)), host, command);
        }
        let is_over = self.experiment.share_done(Time::from_nanos(now)) >= 1.0;
        Ok(if is_over { Step::Over(now) } else { Step::Until(now + self.slice) })
    }

    fn observe(&mut self, record: Record<<E::App as Engine>::Event>) {
        self.experiment.observe(record, &mut self.commands);
    }

    fn contents(&self) -> Option<ContentsOf<<E::App as Engine>::Frame>> {
        self.experiment.contents()
    }

    fn delivered(&self) -> Vec<Delivered> {
        self.experiment.delivered()
    }

    fn progress(&self, net: &Net<'_, E::App>) -> Progress {
        Progress { share: self.experiment.share_done(Time::from_nanos(net.now())), ..Progress::default() }
    }

    fn measured(self, net: &mut Net<'_, E::App>) -> Result<Finished, RunError> {
        let traffic = net.stats();
        let harmed = network::harmed(&self.setup.point.scenario, self.setup.point.seed);
        Ok(Finished {
            broken: self.experiment.invariants(&harmed),
            point: self.setup.point.clone(),
            hosts: self.setup.hosts.clone(),
            digest: net.digest_and_steps()?,
            metrics: serde_json::to_value(self.experiment.metrics(&traffic)).unwrap_or(Value::Null),
            traffic,
        })
    }
}

#[derive(Debug)]
struct Finished {
    point: Point,
    hosts: Hosts,
    /// Digest of all packets, and number of steps of the simulation.
    digest: (u64, u64),
    traffic: Vec<HostStats>,
    metrics: Value,
    broken: Vec<Broken>,
}

impl Measured for Finished {
    fn setting(&self) -> (&Point, &Hosts) {
        (&self.point, &self.hosts)
    }

    fn outcome(&self) -> Outcome {
        let nodes = ("nodes", self.point.scenario.network.nodes.into());
        // A metric fails the result only if the scenario expects something of it.
        Outcome::new(&self.point, self.digest, nodes, OwnData(self.metrics.clone()), false)
    }

    fn tables<'a>(&'a self, _: &'a Outcome) -> Vec<Table<'a>> {
        let rows = || traffic(&self.traffic, &self.hosts, &self.point.scenario);
        vec![Table::new("traffic", self.traffic.len(), rows)]
    }

    fn broken(&self) -> Vec<Broken> {
        self.broken.clone()
    }
}

struct OwnData(Value);

impl Data for OwnData {
    type Metrics = Value;

    fn metrics(&self) -> &Value {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metric_fails_nothing_without_an_expectation() {
        let loaded = samara_spec::load("peerdas-small", &[], &["batch".to_owned()], Some(1)).unwrap();
        let (point, inputs) = (loaded.points[0].clone(), &loaded.inputs);
        let options = RunOptions::new(1, inputs);
        let hosts = Setup::new(&point, options, point.scenario.network.nodes).unwrap().hosts;
        let metrics = serde_json::json!({ "incomplete": 3 });
        let finished =
            Finished { point, hosts, digest: (0, 0), traffic: Vec::new(), metrics, broken: Vec::new() };
        assert!(!finished.outcome().is_incomplete);
    }

    #[test]
    fn frames_beyond_the_simulator_are_refused() {
        let most = Size::from_bytes(1 << 30);
        assert_eq!(Plan::frame_bytes("x.size", most), Ok(1 << 30));
        let (key, message) = Plan::frame_bytes("x.size", Size::from_bytes(8_000_000_000)).unwrap_err();
        assert_eq!(
            (key.as_str(), message.contains("is 8 GB; ") && message.contains("at most 1 GiB")),
            ("x.size", true)
        );
    }
}
