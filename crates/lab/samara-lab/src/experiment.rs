//! The contract of an experiment: what runs on the hosts, the commands of the workload, and what is
//! measured. Samara's families implement it as any other crate does.
//!
//! A [`Family`](crate::family::Family) binds the section of a scenario to experiments, and a program
//! registers it with [`register`](crate::family::register).

use std::any::Any;
use std::sync::Arc;

use samara_document::Inputs;
use samara_document::topology::Graph;
pub use samara_engine::hostile::Forge;
use samara_engine::units::Size;
use samara_engine::{Engine, FrameCodec, NodeRng, Time};
pub use samara_hosts::{ProtocolOf, Worlds};
use samara_scenario::{Checks, Point, Scenario};
use samara_sim::{
    App, Arrivals, ConnectionStats, FRAME_BYTES_MAX, GateStats, Hop, HostStats, NodeFactory, Record,
};
use serde::Serialize;
use serde_json::Value;

use crate::explain::{self, ContentsOf, Delivered, MainTime};
use crate::hops::message_bounds_ms;
use crate::network::Hosts;
use crate::results::tables::{Table, traffic};
use crate::results::{ByClass, Data, Measured, Outcome};
use crate::run::{Progress, RunError};
use crate::torture::Broken;

/// The dotted key of an invalid value, and the reason.
pub type Problem = (String, String);

/// The encoding of the frames of an application.
pub type FramesCodec<A> = Arc<dyn FrameCodec<<A as Engine>::Frame>>;

/// A kind of experiment: a workload, the application on every host, and the measurements.
///
/// A run plans it, builds the hosts and their links, and then repeats three calls until
/// [`step`](Self::step) says that it is over: `step`, the simulation up to the time that it returned,
/// and [`observe`](Self::observe) for each event until then.
pub trait Experiment: Sized + 'static {
    /// The application of a host.
    type App: App;
    /// The complete measurements of a run: [`Measurements`], or a type of its own.
    type Measured: Measured + 'static;

    /// Plans a run.
    ///
    /// # Errors
    /// Returns the dotted key of an invalid value, and the reason.
    fn plan(plan: &Plan<'_>) -> Result<Self, Problem>;

    /// Returns the function that creates a host from its number. A restart of a host creates it
    /// again.
    fn hosts(&self) -> NodeFactory<Self::App>;

    /// Returns links beyond those of the topology, as pairs of dialler and listener.
    fn links(&self, _rng: &mut NodeRng) -> Vec<(u32, u32)> {
        Vec::new()
    }

    /// Returns the protocol of each pair of hosts; `None` if they do not negotiate any.
    fn protocols(&self) -> Option<ProtocolOf> {
        None
    }

    /// Returns what hostile hosts send in place of frames, where that depends on the protocol.
    fn forge(&self) -> Option<Forge<<Self::App as Engine>::Frame>> {
        None
    }

    /// Returns what a program of others must know to be a host, as `docs/guides/implementations.md`
    /// describes it for each family; the default is that no program can.
    ///
    /// # Errors
    /// Returns the dotted key of what programs of others cannot do, and the reason.
    fn brief(&self, _host: u32) -> Result<Value, Problem> {
        Err((String::new(), "this experiment has no briefing for programs of others".to_owned()))
    }

    /// Returns the number of processors that the process of a host may use from
    /// [`World::confine`] on; `None`, the default, for all of the machine.
    fn processors(&self, _host: u32) -> Option<f64> {
        None
    }

    /// Returns the encoding of frames between processes; `None` if runs take one process.
    /// [`Postcard`](samara_sim::Postcard) encodes all frames with serde.
    fn codec(&self) -> Option<FramesCodec<Self::App>> {
        None
    }

    /// Returns the simulation of hosts, and the sockets that carry their frames in real processes if
    /// there is a [`codec`](Self::codec).
    ///
    /// Generic code is compiled in the crate that uses it. A crate that is compiled at a lower
    /// optimisation level overrides this with a call into another one.
    fn worlds() -> Worlds<Self::App> {
        Worlds::framed()
    }

    /// Issues the commands that are known from the start.
    fn start(&mut self, _commands: &mut Commands<Self::App>) {}

    /// Looks at the world, issues commands, and returns the time up to which the run continues.
    ///
    /// By default, the run is over as soon as all of its [`progress`](Self::progress) is made.
    ///
    /// # Errors
    /// Returns an error if the world cannot continue.
    fn step(&mut self, world: &mut dyn World<Self::App>) -> Result<Step, RunError> {
        let now = world.now();
        let is_over = self.progress(now).share >= 1.0;
        Ok(if is_over { Step::Over } else { Step::Until(now.plus_nanos(world.slice_nanos())) })
    }

    /// Handles an event of a host.
    ///
    /// Events are ordered by time, then by host. They arrive in batches that cover the time of a
    /// step. A command for a time that has passed takes effect at once.
    fn observe(&mut self, event: Record<<Self::App as Engine>::Event>, commands: &mut Commands<Self::App>);

    /// Returns what is wrong with an event of a process, such as the number of an item or a host
    /// that does not exist: programs of others can send anything.
    fn wrong(&self, _event: &Record<<Self::App as Engine>::Event>) -> Option<String> {
        None
    }

    /// Returns the progress of the run. The run itself fills in time and steps.
    fn progress(&self, now: Time) -> Progress;

    /// Returns the state of a run for those who watch it, such as a page that shows it as it goes.
    fn state(&self) -> Option<&dyn Any> {
        None
    }

    /// Returns the function that finds the items in a frame, for `samara explain`. The numbers of
    /// items are the experiment's own. `None`, the default, explains nothing.
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

    /// Returns the deliveries to explain. Without any, `samara explain` says that there are none.
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

    /// Returns the time that the experiment's main metric measures.
    fn main_time(&self) -> MainTime {
        MainTime::default()
    }

    /// Returns the measurements of a run that is over.
    ///
    /// # Errors
    /// Returns an error if the world cannot tell what it counted.
    fn measured(self, world: &mut dyn World<Self::App>) -> Result<Self::Measured, RunError>;
}

/// The next step of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The run continues up to this time.
    Until(Time),
    /// The measurements are complete.
    Over,
}

/// Where the hosts of an experiment live.
///
/// A simulation, also in several processes, of which only the first has the experiment; or real
/// processes.
pub trait World<A: App> {
    /// Returns the time since the start of the run.
    fn now(&self) -> Time;

    /// Returns the point of the scenario, and the hosts of its network.
    fn setting(&self) -> (&Point, &Hosts);

    /// Returns the time in nanoseconds in which no host can reach another one, within limits: an
    /// experiment that answers events with commands need not look more often.
    fn slice_nanos(&self) -> u64;

    /// Returns how many nanoseconds before its time a command must be issued to be on time.
    fn lead_nanos(&self) -> u64 {
        0
    }

    /// Issues a command to a host for a time. If it has passed, the command takes effect at once.
    ///
    /// # Errors
    /// Returns an error if there is no such host.
    fn command(&mut self, at: Time, host: u32, command: A::Command) -> Result<(), RunError>;

    /// Returns a snapshot of the counters of each host.
    ///
    /// # Errors
    /// Returns an error if another process is gone.
    fn counters(&mut self) -> Result<Vec<A::Counters>, RunError>;

    /// Returns the traffic of each host so far.
    ///
    /// # Errors
    /// As [`counters`](Self::counters).
    fn traffic(&mut self) -> Result<Vec<HostStats>, RunError>;

    /// Limits the process of each host to the [processors](Experiment::processors) of the experiment from
    /// now on. In a simulation, applications know what their work takes.
    ///
    /// # Errors
    /// The system cannot limit them.
    fn confine(&mut self) -> Result<(), RunError> {
        Ok(())
    }

    /// Returns the processor time of the processes of each host so far, in nanoseconds; `None` in a
    /// simulation, where only the work of an application takes time.
    ///
    /// # Errors
    /// The system does not tell.
    fn processors(&mut self) -> Result<Option<Vec<u64>>, RunError> {
        Ok(None)
    }

    /// Returns the number of copies that the outboxes of all hosts withdrew.
    ///
    /// # Errors
    /// As [`counters`](Self::counters).
    fn withdrawn(&mut self) -> Result<u64, RunError>;

    /// Returns the congestion window of each link of a host, in packets.
    ///
    /// # Errors
    /// As [`counters`](Self::counters).
    fn windows(&mut self, host: u32) -> Result<Vec<f64>, RunError>;

    /// Returns what the connections of each host wrote so far; `None` without channels.
    fn connections(&self) -> Vec<Option<ConnectionStats>>;

    /// Returns the traffic of the gateway of each region so far, outbound and inbound; empty without
    /// gateways.
    ///
    /// # Errors
    /// As [`counters`](Self::counters).
    fn gateways(&mut self) -> Result<Vec<[GateStats; 2]>, RunError>;

    /// Returns the digest of all packets, and the number of steps of the simulation.
    ///
    /// # Errors
    /// As [`counters`](Self::counters).
    fn digest(&mut self) -> Result<(u64, u64), RunError>;
}

/// The input for planning an experiment.
#[derive(Debug)]
pub struct Plan<'a> {
    pub scenario: &'a Scenario,
    pub seed: u64,
    /// `None` while a scenario is loaded.
    pub network: Option<PlannedNetwork<'a>>,
}

/// The network of a run.
#[derive(Clone, Copy, Debug)]
pub struct PlannedNetwork<'a> {
    pub point: &'a Point,
    /// The source of the files that the scenario names.
    pub inputs: &'a Inputs,
    /// The links; none if the nodes of the family make their own ones.
    pub graph: &'a Graph,
    /// The columns that each node keeps, for families whose topology depends on them.
    pub custody: &'a [Vec<u32>],
    pub hosts: &'a Hosts,
    /// Whether the validation of messages can take time.
    pub validates: bool,
    /// Whether work takes no time, as `samara explain` asks what that changes.
    pub is_instant: bool,
    /// Whether hosts are processes, among them programs of others.
    pub in_processes: bool,
}

impl<'a> Plan<'a> {
    /// Returns the number of nodes in the network.
    pub fn nodes(&self) -> u32 {
        self.scenario.network.nodes
    }

    /// Returns the network.
    ///
    /// # Panics
    /// While a scenario is loaded.
    pub fn network(&self) -> &PlannedNetwork<'a> {
        self.network.as_ref().expect("a run has a network")
    }

    /// Returns the seed of random payloads; `None` if programs of others must be able to make them.
    pub fn payload_seed(&self) -> Option<u64> {
        Some(self.seed).filter(|_| !self.network().in_processes)
    }

    /// Returns the bytes of the value of `key`, if a simulation can carry them in one frame.
    ///
    /// # Errors
    /// Returns the key and the reason if they are too many.
    pub fn frame_bytes(key: &str, size: Size) -> Result<u32, Problem> {
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
        let Some(network) = &self.network else { return Vec::new() };
        message_bounds_ms(self.scenario, (network.graph, network.hosts), frame_bytes)
    }
}

/// Checks a scenario as planning its run would: the check of a family whose plans need no network.
pub fn check<E: Experiment>(checks: &mut Checks<'_>, scenario: &Scenario) {
    if let Err((key, message)) = E::plan(&Plan { scenario, seed: 0, network: None }) {
        checks.wrong(&key, message);
    }
}

/// Commands to hosts, each with its time.
#[derive(Debug)]
pub struct Commands<N: Engine>(pub Vec<(Time, u32, N::Command)>);

impl<N: Engine> Commands<N> {
    /// Issues a command to a host for this time.
    pub fn at(&mut self, at: Time, host: u32, command: N::Command) {
        self.0.push((at, host, command));
    }
}

/// Metrics and traffic: the measurements of an experiment without tables of its own.
#[derive(Debug)]
pub struct Measurements {
    point: Point,
    hosts: Hosts,
    /// Digest of all packets, and number of steps of the simulation.
    digest: (u64, u64),
    traffic: Vec<HostStats>,
    metrics: Value,
    broken: Vec<Broken>,
    by_class: ByClass,
}

impl Measurements {
    /// Returns the measurements of a run that is over, with the promises that it broke.
    ///
    /// # Errors
    /// Returns an error if the world cannot tell what it counted.
    pub fn new<A: App>(
        world: &mut dyn World<A>,
        metrics: &impl Serialize,
        broken: Vec<Broken>,
    ) -> Result<Self, RunError> {
        let (traffic, digest) = (world.traffic()?, world.digest()?);
        let (point, hosts) = world.setting();
        let metrics = serde_json::to_value(metrics).unwrap_or(Value::Null);
        let by_class = ByClass::of(point, hosts);
        Ok(Self { point: point.clone(), hosts: hosts.clone(), digest, traffic, metrics, broken, by_class })
    }

    /// Adds metrics by class of nodes, from the values of single nodes.
    ///
    /// The bytes of nodes need none: they follow if the experiment has the metrics of
    /// [`NodeBytes`](crate::metric::groups::NodeBytes).
    #[must_use]
    pub fn by_class(self, figures: impl FnOnce(ByClass) -> ByClass) -> Self {
        Self { by_class: figures(self.by_class), ..self }
    }
}

impl Measured for Measurements {
    fn setting(&self) -> (&Point, &Hosts) {
        (&self.point, &self.hosts)
    }

    fn outcome(&self) -> Outcome {
        let nodes = ("nodes", self.point.scenario.network.nodes.into());
        // A metric fails the result only if the scenario expects something of it.
        let own = self.by_class.clone();
        let has_bytes = self.metrics.get("bytes_up_per_node").is_some();
        let own = if has_bytes { own.bytes(&self.traffic, |_| true) } else { own };
        Outcome::new(&self.point, self.digest, nodes, OwnData(self.metrics.clone()), false).by_class(own)
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
    use crate::run::{RunOptions, Setup};

    #[test]
    fn metric_fails_nothing_without_an_expectation() {
        let loaded = crate::toy::loaded(&["batch"]);
        let (point, inputs) = (loaded.points[0].clone(), &loaded.inputs);
        let hosts = Setup::new(&point, RunOptions::new(1, inputs)).unwrap().hosts;
        let metrics = serde_json::json!({ "incomplete": 3 });
        let (broken, by_class) = (Vec::new(), ByClass::default());
        let measured =
            Measurements { point, hosts, digest: (0, 0), traffic: Vec::new(), metrics, broken, by_class };
        assert!(!measured.outcome().is_incomplete);
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
