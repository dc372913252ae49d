//! A stream of messages, each published by a node drawn at random.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use samara_baselines::{Baseline, ConfigError, Plumtree, PlumtreeConfig, PubSub, PubSubConfig, Topic};
use samara_engine::{Frame, NodeRng, Outbox, Purpose, Time};
use samara_gossipsub::config::{Authenticity, Parameters, ValidatorHook};
use samara_gossipsub::message_id::MessageIdFn;
use samara_gossipsub::rpc::{Rpc, RpcFrame};
use samara_gossipsub::signature::SignaturePolicy;
use samara_sim::{HostStats, LATENCY_FLOOR, NodeFactory, Record, identity_of};

use super::RANDOMSUB;
use super::app::{
    BaselineMember, BaselineStream, Counts, Event, GossipMember, GossipStream, Member, Publish,
};
use super::measure::MessageCollector;
use crate::host::{self, Host};
use crate::network::{self, Hosts};
use crate::run::{
    Net, Progress, QUIET_NANOS, RunError, RunOptions, SLICE_NANOS, Setup, Step, Stepped, simulate,
};
use crate::scenario::{Arrivals, Messages, PlumtreeParameters, Point, Scenario};
use samara_scenario::Inputs;
use samara_scenario::topology::{self, Graph};

/// What a stream of messages measured.
#[derive(Debug)]
pub struct MessagesMeasured {
    /// What was run.
    pub point: Point,
    /// Publications and deliveries.
    pub collector: MessageCollector,
    /// Copies that did not fit into the queue of a node (first) for a peer (second).
    pub lost: BTreeMap<(u32, u32), u64>,
    /// By node.
    pub counts: Vec<Counts>,
    /// What each host did from the first publication on.
    pub traffic: Vec<HostStats>,
    /// Payload bytes of each message, by number.
    pub sizes: Vec<u64>,
    pub hosts: Hosts,
    /// From the first publication to the end of the measurement, in nanoseconds.
    pub measured_nanos: u64,
    /// For each node, the least time in which a message of its own can reach everybody, in milliseconds.
    pub lower_bound_ms: Vec<f64>,
    /// Copies that were withdrawn before they left, over all nodes.
    pub withdrawn: u64,
    /// Links of each node.
    pub degrees: Vec<u32>,
    /// The mean size of the meshes at the first publication.
    pub mesh_size: f64,
    /// The digest of every packet.
    pub digest: u64,
    /// Steps of the simulation.
    pub steps: u64,
}

/// Who publishes the messages and when: drawn from the seed, so that a testbed does the same as a simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// By message number.
    pub publishers: Vec<u32>,
    /// Nanoseconds from the start of the run, by message number; never decreasing.
    pub times: Vec<u64>,
    /// Payload bytes, by message number.
    pub sizes: Vec<u64>,
}

impl Plan {
    /// The plan of a scenario's messages: as its file says, and drawn where there is none, or it does not say.
    ///
    /// # Errors
    /// The file cannot be read, or does not fit; loading a scenario checks it, too.
    pub fn of(scenario: &Scenario, inputs: &Inputs, seed: u64) -> Result<Self, String> {
        let messages = scenario.part::<Messages>().clone();
        let nodes = scenario.network.nodes;
        if messages.file.is_none() {
            return Ok(Self::new(&messages, nodes, seed));
        }
        let table = messages.table(scenario, inputs)?;
        let mut rng = NodeRng::new(seed, 3, Purpose::Workload);
        let warm_up = messages.warm_up.nanos();
        Ok(Self {
            publishers: match &table.publishers {
                Some(publishers) => publishers.clone(),
                None => table.at.iter().map(|_| rng.below(u64::from(nodes)) as u32).collect(),
            },
            times: table.at.iter().map(|at| warm_up.saturating_add(*at)).collect(),
            sizes: match &table.sizes {
                Some(sizes) => sizes.clone(),
                None => vec![messages.size.bytes(); table.at.len()],
            },
        })
    }

    /// The plan of a stream that is drawn, in a network of so many nodes.
    pub fn new(messages: &Messages, nodes: u32, seed: u64) -> Self {
        let mut rng = NodeRng::new(seed, 3, Purpose::Workload);
        let interval = 1e9 / messages.rate;
        let mut at = messages.warm_up.nanos() as f64;
        let (mut publishers, mut times) = (Vec::new(), Vec::new());
        for number in 0..messages.count() {
            publishers.push(rng.below(u64::from(nodes)) as u32);
            times.push(match messages.arrivals {
                Arrivals::Even => messages.warm_up.nanos() + (f64::from(number) * interval).round() as u64,
                Arrivals::Poisson => at as u64,
            });
            at += rng.exponential(interval);
        }
        let sizes = vec![messages.size.bytes(); times.len()];
        Self { publishers, times, sizes }
    }
}

/// Runs a point.
pub(crate) fn run(
    point: &Point,
    options: RunOptions<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<MessagesMeasured, RunError> {
    let scenario = &point.scenario;
    let (graph, _) = network::graph(scenario, options.inputs, point.seed).map_err(RunError::Scenario)?;
    let plan = Plan::of(scenario, options.inputs, point.seed).map_err(RunError::Scenario)?;
    let setup = Setup::new(point, options, scenario.network.nodes)?;
    let world = World { setup, graph, plan, messages: scenario.part::<Messages>().clone() };
    if scenario.find::<Parameters>().is_some() {
        return gossipsub(world, progress);
    }
    if let Some(parameters) = scenario.find::<PlumtreeParameters>() {
        let mut config = PlumtreeConfig::default();
        if let Some(hops) = parameters.optimization_threshold {
            config.optimization_threshold = (hops > 0).then_some(hops);
        }
        if let Some(timeout) = parameters.graft_timeout {
            config.graft_timeout = timeout.duration();
        }
        let config = Arc::new(config);
        return baseline(world, progress, move |host, topic| {
            Plumtree::new(Arc::clone(&config), identity_of(host), topic)
        });
    }
    let config = Arc::new(PubSubConfig::default());
    if scenario.selected.protocol() == RANDOMSUB {
        let size = scenario.network.nodes as usize;
        return baseline(world, progress, move |host, _| {
            PubSub::randomsub(Arc::clone(&config), identity_of(host), size)
        });
    }
    baseline(world, progress, move |host, _| PubSub::floodsub(Arc::clone(&config), identity_of(host)))
}

fn gossipsub(world: World<'_>, progress: &mut dyn FnMut(Progress)) -> Result<MessagesMeasured, RunError> {
    let World { messages, plan, setup, .. } = &world;
    let stream =
        Arc::new(GossipStream::new(&plan.publishers, &plan.sizes, messages.signed, setup.point.seed));
    let mut config = setup.scenario().part::<Parameters>().build(None);
    if setup.hosts.validation.iter().any(|time| !time.is_zero()) {
        config.validator = Some(ValidatorHook::deferred());
    }
    if messages.signed {
        // Signatures are there, but nobody checks them.
        config.authenticity =
            Authenticity { policy: SignaturePolicy::StrictSign, ..Authenticity::unsigned() };
        config.message_id = MessageIdFn::FromSeqno;
    }
    config.validate().map_err(|error| RunError::Scenario(format!("gossipsub: {error}")))?;
    // The bounds are those of the smallest message.
    let smallest = stream.messages.iter().min_by_key(|message| message.data.len());
    let frame = RpcFrame::new(Rpc { publish: smallest.cloned().into_iter().collect(), ..Rpc::default() });
    let (config, validation) = (Arc::new(config), setup.hosts.validation.clone());
    let node = move |host: u32| {
        let (gossip, outbox) = host::gossipsub(&config, host);
        (Host::new(GossipMember::new(gossip, Arc::clone(&stream), validation[host as usize])), outbox)
    };
    world.run(Arc::new(node), frame.encoded_len() as u32, progress)
}

/// A baseline with default parameters. Bounds take the payload as the whole frame.
fn baseline<B: Baseline + 'static>(
    world: World<'_>,
    progress: &mut dyn FnMut(Progress),
    engine: impl Fn(u32, Topic) -> Result<B, ConfigError> + Send + Sync + 'static,
) -> Result<MessagesMeasured, RunError> {
    let World { plan, setup, .. } = &world;
    let bytes = plan.sizes.iter().min().copied().unwrap_or(0);
    let stream = Arc::new(BaselineStream::new(&plan.publishers, &plan.sizes, setup.point.seed));
    let sending = samara_baselines::Common::default();
    let node = move |host: u32| match engine(host, stream.topic.clone()) {
        Ok(engine) => (
            Host::new(BaselineMember::new(engine, Arc::clone(&stream))),
            Outbox::new(sending.outbox_config()),
        ),
        Err(error) => unreachable!("the configuration is a default: {error}"),
    };
    world.run(Arc::new(node), bytes as u32, progress)
}

/// Everything of a run but the protocol.
struct World<'a> {
    setup: Setup<'a>,
    graph: Graph,
    plan: Plan,
    messages: Messages,
}

impl World<'_> {
    fn run<M: Member + 'static>(
        self,
        factory: NodeFactory<Host<M>>,
        frame_bytes: u32,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<MessagesMeasured, RunError> {
        let (setup, stop) = (&self.setup, self.setup.options.stop);
        let mut net = setup.network(factory)?;
        setup.set_protocol(&mut net);
        setup.schedule_links(&mut net, &mut setup.links_rng(), self.graph.edges.iter().copied());
        setup.schedule_faults(&mut net);
        for ((publisher, at), number) in self.plan.publishers.iter().zip(&self.plan.times).zip(0..) {
            net.sim.command(Time::from_nanos(*at), *publisher, Publish(number));
        }
        let run = Run::new(self, frame_bytes);
        match simulate(run, &mut net, stop, |_, done| progress(done))? {
            Some(measured) => Ok(measured),
            None => unreachable!("one process has all measurements"),
        }
    }
}

struct Run<'a, M> {
    world: World<'a>,
    lower_bound_ms: Vec<f64>,
    collector: MessageCollector,
    lost: BTreeMap<(u32, u32), u64>,
    /// What hosts had done before the first publication.
    before: Vec<HostStats>,
    mesh_size: f64,
    members: PhantomData<fn() -> M>,
}

impl<'a, M> Run<'a, M> {
    fn new(world: World<'a>, frame_bytes: u32) -> Self {
        let World { setup, graph, plan, .. } = &world;
        let latency = Duration::from_nanos(network::least_latency_nanos(&setup.hosts));
        let wire_bytes = network::transport(setup.scenario()).wire_bytes(frame_bytes);
        let mut collector = MessageCollector::new(&plan.publishers, graph.nodes);
        for (at, number) in plan.times.iter().zip(0..) {
            collector.published(number, *at);
        }
        Self {
            lower_bound_ms: message_bounds_ms(graph, &setup.hosts, wire_bytes, latency.max(LATENCY_FLOOR)),
            collector,
            lost: BTreeMap::new(),
            before: Vec::new(),
            mesh_size: 0.0,
            members: PhantomData,
            world,
        }
    }

    fn first_at(&self) -> u64 {
        self.world.messages.warm_up.nanos()
    }

    fn last_at(&self) -> u64 {
        self.world.plan.times.last().copied().unwrap_or(self.first_at())
    }

    fn end_at(&self) -> u64 {
        self.last_at() + self.world.messages.cool_down.nanos()
    }
}

impl<M: Member + 'static> Stepped for Run<'_, M> {
    type App = Host<M>;
    type Measured = MessagesMeasured;

    fn step(&mut self, net: &mut Net<'_, Host<M>>) -> Result<Step, RunError> {
        let (now, first, end) = (net.now(), self.first_at(), self.end_at());
        let quiet = now > self.collector.latest().max(self.last_at()) + QUIET_NANOS;
        if now >= end || quiet && self.collector.missing() == 0 {
            return Ok(Step::Over(end));
        }
        if now == first {
            self.before = net.stats();
            let meshes: usize = net.hosts().map(|host| net.sim.node(host).app.counts().mesh).sum();
            self.mesh_size = meshes as f64 / f64::from(self.world.graph.nodes);
        }
        Ok(Step::Until((now + SLICE_NANOS).min(if now < first { first } else { end })))
    }

    fn observe(&mut self, record: Record<Event>) {
        match record.event {
            Event::Delivered { message, from } => {
                self.collector.delivered(message, record.host, from, record.at.as_nanos());
            }
            Event::Lost { to } => *self.lost.entry((record.host, to)).or_default() += 1,
        }
    }

    fn progress(&self, net: &Net<'_, Host<M>>) -> Progress {
        let expected = self.world.plan.publishers.len() as u64 * u64::from(self.world.graph.nodes - 1);
        Progress {
            share: net.now() as f64 / self.end_at() as f64,
            virtual_nanos: Some(net.now()),
            deliveries: Some(expected - self.collector.missing()),
            deliveries_expected: Some(expected),
            copies: None,
            steps: Some(net.sim.steps()),
        }
    }

    fn measured(self, net: &mut Net<'_, Host<M>>) -> Result<Option<MessagesMeasured>, RunError> {
        let (digest, steps) = net.digest_and_steps()?;
        let World { setup, graph, plan, messages } = self.world;
        Ok(Some(MessagesMeasured {
            point: setup.point.clone(),
            counts: net.hosts().map(|host| net.sim.node(host).app.counts()).collect(),
            traffic: net.traffic_since(&self.before)?,
            measured_nanos: net.now() - messages.warm_up.nanos().min(net.now()),
            lower_bound_ms: self.lower_bound_ms,
            withdrawn: net.withdrawn()?,
            degrees: graph.neighbours().iter().map(|peers| peers.len() as u32).collect(),
            mesh_size: self.mesh_size,
            digest,
            steps,
            collector: self.collector,
            lost: self.lost,
            sizes: plan.sizes,
            hosts: setup.hosts,
        }))
    }
}

/// For each node, the least time in which a message of its own can reach everybody, in milliseconds: hops to the farthest
/// other node, each of which takes at least the least latency, the time of a frame on the fastest interfaces, and a
/// validation.
pub fn message_bounds_ms(graph: &Graph, hosts: &Hosts, wire_bytes: u64, latency: Duration) -> Vec<f64> {
    let fastest =
        |rate: fn(&samara_sim::HostConfig) -> u64| hosts.configs.iter().map(rate).max().unwrap_or(1) as f64;
    let bits = wire_bytes as f64 * 8.0;
    let validation = hosts.validation.iter().min().map_or(0.0, |time| time.as_secs_f64() * 1e3);
    let hop = latency.as_secs_f64() * 1e3
        + validation
        + bits / fastest(|host| host.uplink_bps) * 1e3
        + bits / fastest(|host| host.downlink_bps) * 1e3;
    let neighbours = graph.neighbours();
    (0..graph.nodes).map(|node| f64::from(topology::eccentricity(&neighbours, node)) * hop).collect()
}
