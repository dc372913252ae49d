//! A stream of messages, each published by a random node.

#[cfg(test)]
mod tests;

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use samara_apps::Simulated;
use samara_apps::host::{self, Host, Stalls};
use samara_apps::messages::{
    BaselineMember, BaselineStream, Carries, Counts, Event, GossipMember, GossipStream, Member, Publish,
};
use samara_baselines::{Baseline, Common, ConfigError, Plumtree, PubSub, Topic};
use samara_engine::{Engine, Frame, NodeRng, Outbox, Purpose, Time};
use samara_gossipsub::config::{Authenticity, Parameters, ValidatorHook};
use samara_gossipsub::message_id::MessageIdFn;
use samara_gossipsub::rpc::{Rpc, RpcFrame};
use samara_gossipsub::signature::SignaturePolicy;
use samara_sim::{Cause, HostConfig, HostStats, LATENCY_FLOOR, NodeFactory, Origin, Record, identity_of};

use super::measure::{MessageCollector, MessageRow};
use crate::explain::{ContentsOf, Delivered, Explained, MainTime};
use crate::network::{self, Hosts};
use crate::run::{
    Net, Progress, QUIET_NANOS, RunError, RunOptions, SLICE_NANOS, Setup, Step, Stepped, baselines, simulate,
};
use samara_scenario::Inputs;
use samara_scenario::topology::{self, Graph};
use samara_spec::messages::{Arrivals, FloodParameters, Messages, PlumtreeParameters, RANDOMSUB};
use samara_spec::{Point, Scenario};

#[derive(Debug)]
pub struct MessagesMeasured {
    pub point: Point,
    pub collector: MessageCollector,
    /// Counters of each node.
    pub counts: Vec<Counts>,
    /// Traffic of each host from the first publication on.
    pub traffic: Vec<HostStats>,
    /// Payload bytes of each message, by number.
    pub sizes: Vec<u64>,
    pub hosts: Hosts,
    /// Time from the first publication to the end of the measurement, in nanoseconds.
    pub measured_nanos: u64,
    /// For each node, the least time in which its messages can reach all other nodes, in
    /// milliseconds.
    pub lower_bound_ms: Vec<f64>,
    /// The least time of a hop by cause in milliseconds, and the mean hops from each node to the
    /// others.
    pub hops: ([(Cause, f64); 3], Vec<f64>),
    /// Copies withdrawn before they left, over all nodes.
    pub withdrawn: u64,
    /// Number of links of each node.
    pub degrees: Vec<u32>,
    /// Mean size of the meshes at the first publication.
    pub mesh_size: f64,
    /// Digest of all packets, and number of steps of the simulation; both zero for real nodes.
    pub digest: (u64, u64),
}

impl MessagesMeasured {
    /// Explains the deliveries of a real run by the arrivals in its traces. An item is the number of a
    /// message.
    pub fn explained(&self, arrivals: samara_sim::Arrivals) -> Explained {
        Explained::of_traces(arrivals, self.delivered(), self.main_time())
    }

    /// The bound is that of the mean delivery, if none is missing.
    fn main_time(&self) -> MainTime {
        let (parts, mean_hops) = &self.hops;
        let of = |row: &MessageRow| mean_hops[row.publisher as usize];
        let hops: f64 =
            self.collector.rows.iter().map(of).sum::<f64>() / self.collector.rows.len().max(1) as f64;
        let is_complete = self.collector.missing == 0;
        let bound_ms = parts.iter().filter(|_| is_complete).map(|(cause, ms)| (*cause, ms * hops)).collect();
        MainTime { bound_ms, ..MainTime::default() }
    }

    fn delivered(&self) -> Vec<Delivered> {
        let collector = &self.collector;
        collector.deliveries.delivered(|row| {
            let MessageRow { published, publisher, .. } = collector.rows[row.item as usize];
            Origin { host: publisher, at: published }
        })
    }

    /// Creates empty measurements for a plan.
    ///
    /// Bounds assume frames of `frame_bytes` and links with a latency of at least `floor`.
    pub fn new(
        point: &Point,
        hosts: &Hosts,
        (graph, plan): (&Graph, &Plan),
        (frame_bytes, floor): (u32, Duration),
    ) -> Self {
        let hop = hop_parts(&point.scenario, hosts, frame_bytes, floor);
        let (lower_bound_ms, mean_hops) = bounds(graph, &hop);
        Self {
            point: point.clone(),
            collector: MessageCollector::new(&plan.publishers, graph.nodes),
            counts: vec![Counts::default(); graph.nodes as usize],
            traffic: Vec::new(),
            sizes: plan.sizes.clone(),
            hosts: hosts.clone(),
            measured_nanos: 0,
            lower_bound_ms,
            hops: (hop, mean_hops),
            withdrawn: 0,
            degrees: graph.neighbours().iter().map(|peers| peers.len() as u32).collect(),
            mesh_size: 0.0,
            digest: (0, 0),
        }
    }
}

/// The publishers and times of messages, drawn from the seed: a testbed uses the same ones as a
/// simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub publishers: Vec<u32>,
    /// Nanoseconds from the start of the run, by message number, in ascending order.
    pub times: Vec<u64>,
    /// Payload bytes of each message, by number.
    pub sizes: Vec<u64>,
}

impl Plan {
    /// Returns the plan of a scenario's messages: from its file, with missing parts drawn at
    /// random.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or does not fit the scenario. Loading a scenario
    /// checks this too.
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

    /// Returns a random plan for a network of `nodes` nodes.
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

pub(crate) fn run(
    point: &Point,
    options: RunOptions<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<MessagesMeasured, RunError> {
    let scenario = &point.scenario;
    let (graph, _) = network::graph(scenario, options.inputs, point.seed).map_err(RunError::Failed)?;
    let plan = Plan::of(scenario, options.inputs, point.seed).map_err(RunError::Failed)?;
    let world = World { setup: Setup::new(point, options, scenario.network.nodes)?, graph, plan };
    if scenario.find::<Parameters>().is_some() {
        return gossipsub(world, progress);
    }
    if let Some(parameters) = scenario.find::<PlumtreeParameters>() {
        let config = Arc::new(baselines::plumtree(parameters, false));
        let sending = config.common.clone();
        return baseline(world, sending, progress, move |host, topic| {
            Plumtree::new(Arc::clone(&config), identity_of(host), topic)
        });
    }
    let sending = scenario.find::<FloodParameters>().cloned().unwrap_or_default();
    let config = Arc::new(baselines::pubsub(&sending, false));
    let size = (scenario.selected.protocol() == RANDOMSUB).then_some(scenario.network.nodes as usize);
    baseline(world, config.common.clone(), progress, move |host, _| match size {
        Some(size) => PubSub::randomsub(Arc::clone(&config), identity_of(host), size),
        None => PubSub::floodsub(Arc::clone(&config), identity_of(host)),
    })
}

fn gossipsub(world: World<'_>, progress: &mut dyn FnMut(Progress)) -> Result<MessagesMeasured, RunError> {
    let World { plan, setup, .. } = &world;
    let signed = setup.scenario().part::<Messages>().signed;
    let stream = Arc::new(GossipStream::new(&plan.publishers, &plan.sizes, signed, setup.point.seed));
    let parameters = setup.scenario().part::<Parameters>().clone();
    let mut config = parameters.build(None);
    if setup.validates() {
        config.validator = Some(ValidatorHook::deferred());
    }
    if signed {
        // Messages carry signatures, but no node checks them.
        config.authenticity =
            Authenticity { policy: SignaturePolicy::StrictSign, ..Authenticity::unsigned() };
        config.message_id = MessageIdFn::FromSeqno;
    }
    config.validate().map_err(|error| RunError::Failed(format!("gossipsub: {error}")))?;
    // The bounds assume the smallest message.
    let smallest = stream.messages.iter().min_by_key(|message| message.data.len());
    let frame = RpcFrame::new(Rpc { publish: smallest.cloned().into_iter().collect(), ..Rpc::default() });
    let (config, validation) = (Arc::new(config), setup.hosts.validation.clone());
    let network = &setup.scenario().network;
    let (nodes, stalled, seed) = (network.nodes, network.stalled_periods.fraction(), setup.point.seed);
    let node = move |host: u32| {
        let (mut gossip, outbox) = host::gossipsub(&config, host);
        if let Some(offset) = parameters.heartbeat_offset(&config, host, nodes) {
            gossip.set_heartbeat_offset(offset);
        }
        let (validation, stalls) = (validation[host as usize], Stalls::new(stalled, host, seed));
        (Host::new(GossipMember::new(gossip, Arc::clone(&stream), validation, stalls)), outbox)
    };
    world.run(Arc::new(node), frame.encoded_len() as u32, progress)
}

/// Runs a baseline. Its bounds take the payload as the whole frame.
fn baseline<B: Baseline<Frame: Carries<samara_baselines::Message>> + 'static>(
    world: World<'_>,
    sending: Common,
    progress: &mut dyn FnMut(Progress),
    engine: impl Fn(u32, Topic) -> Result<B, ConfigError> + Send + Sync + 'static,
) -> Result<MessagesMeasured, RunError>
where
    Host<BaselineMember<B>>: Simulated,
{
    let World { plan, setup, .. } = &world;
    let bytes = plan.sizes.iter().min().copied().unwrap_or(0);
    let stream = Arc::new(BaselineStream::new(&plan.publishers, &plan.sizes, setup.point.seed));
    let node = move |host: u32| {
        let engine = engine(host, stream.topic.clone());
        let engine = engine.expect("the configuration differs from a default in valid values only");
        (Host::new(BaselineMember::new(engine, Arc::clone(&stream))), Outbox::new(sending.outbox_config()))
    };
    world.run(Arc::new(node), bytes as u32, progress)
}

/// The protocol-independent parts of a run.
struct World<'a> {
    setup: Setup<'a>,
    graph: Graph,
    plan: Plan,
}

impl World<'_> {
    fn run<M: Member>(
        self,
        factory: NodeFactory<Host<M>>,
        frame_bytes: u32,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<MessagesMeasured, RunError>
    where
        Host<M>: Simulated,
    {
        let Self { setup, graph, plan } = self;
        let mut net = setup.network(factory)?;
        setup.set_protocol(&mut net);
        setup.schedule_links(&mut net, &mut setup.links_rng(), graph.edges.iter().copied());
        setup.schedule_faults(&mut net);
        let bounds = (frame_bytes, LATENCY_FLOOR);
        let mut measured = MessagesMeasured::new(setup.point, &setup.hosts, (&graph, &plan), bounds);
        for ((publisher, at), number) in plan.publishers.iter().zip(&plan.times).zip(0..) {
            net.sim.command(Time::from_nanos(*at), *publisher, Publish(number));
            measured.collector.published(number, *at);
        }
        let Messages { warm_up, cool_down, .. } = setup.scenario().part();
        let (first_at, options) = (warm_up.nanos(), setup.options);
        let last_at = plan.times.last().copied().unwrap_or(first_at);
        let end_at = last_at + cool_down.nanos();
        drop((setup, graph, plan));
        let run = Run { first_at, last_at, end_at, before: Vec::new(), measured, members: PhantomData };
        simulate(run, &mut net, options, |_, done| progress(done))
    }
}

struct Run<M> {
    first_at: u64,
    /// Time of the last publication; `end_at` is the end of the wait for deliveries.
    last_at: u64,
    end_at: u64,
    /// Traffic of the hosts before the first publication.
    before: Vec<HostStats>,
    measured: MessagesMeasured,
    members: PhantomData<fn() -> M>,
}

impl<M: Member> Stepped for Run<M> {
    type App = Host<M>;
    type Measured = MessagesMeasured;

    fn step(&mut self, net: &mut Net<'_, Host<M>>) -> Result<Step, RunError> {
        let (now, collector) = (net.now(), &self.measured.collector);
        let quiet = now > collector.latest.max(self.last_at) + QUIET_NANOS;
        if now >= self.end_at || quiet && collector.missing == 0 {
            return Ok(Step::Over(self.end_at));
        }
        if now == self.first_at {
            self.before = net.stats();
            let meshes: usize = net.hosts().map(|host| net.sim.node(host).app.counts().mesh).sum();
            self.measured.mesh_size = meshes as f64 / net.hosts().len() as f64;
        }
        let next = if now < self.first_at { self.first_at } else { self.end_at };
        Ok(Step::Until((now + SLICE_NANOS).min(next)))
    }

    fn observe(&mut self, record: Record<Event>) {
        let collector = &mut self.measured.collector;
        match record.event {
            Event::Delivered { message, from } => {
                collector.delivered(message, record.host, from, record.at.as_nanos());
            }
            Event::Lost { to } => collector.lost(record.host, to),
        }
    }

    fn contents(&self) -> Option<ContentsOf<<M::Engine as Engine>::Frame>> {
        Some(Box::new(M::contents))
    }

    fn delivered(&self) -> Vec<Delivered> {
        self.measured.delivered()
    }

    fn main_time(&self) -> MainTime {
        self.measured.main_time()
    }

    fn progress(&self, net: &Net<'_, Host<M>>) -> Progress {
        let collector = &self.measured.collector;
        let expected = collector.expected();
        Progress {
            share: net.now() as f64 / self.end_at as f64,
            deliveries: Some(expected - collector.missing),
            deliveries_expected: Some(expected),
            ..Progress::default()
        }
    }

    fn measured(self, net: &mut Net<'_, Host<M>>) -> Result<MessagesMeasured, RunError> {
        Ok(MessagesMeasured {
            counts: net.hosts().map(|host| net.sim.node(host).app.counts()).collect(),
            traffic: net.traffic_since(&self.before)?,
            measured_nanos: net.now().saturating_sub(self.first_at),
            withdrawn: net.withdrawn()?,
            digest: net.digest_and_steps()?,
            ..self.measured
        })
    }
}

/// Returns, for each node, the least time in which its messages can reach all other nodes, in
/// milliseconds.
///
/// It is the hops to the farthest node.
pub(crate) fn message_bounds_ms(
    scenario: &Scenario,
    (graph, hosts): (&Graph, &Hosts),
    frame_bytes: u32,
    floor: Duration,
) -> Vec<f64> {
    bounds(graph, &hop_parts(scenario, hosts, frame_bytes, floor)).0
}

/// Returns for each node the least time to the farthest node in milliseconds, and the mean hops to
/// the others.
fn bounds(graph: &Graph, hop: &[(Cause, f64); 3]) -> (Vec<f64>, Vec<f64>) {
    let hop: f64 = hop.iter().map(|(_, ms)| ms).sum();
    let neighbours = graph.neighbours();
    let distances = (0..graph.nodes).map(|node| topology::distances(&neighbours, node));
    distances.map(|(farthest, mean)| (f64::from(farthest) * hop, mean)).unzip()
}

/// Returns the least time of a hop by cause.
///
/// It is at least the least latency (and `floor`), the time of a frame on the fastest uplink, and a
/// validation. A downlink receives packets as they arrive: it adds time only if it is slower, and
/// not for the first packet.
fn hop_parts(scenario: &Scenario, hosts: &Hosts, frame_bytes: u32, floor: Duration) -> [(Cause, f64); 3] {
    let latency = Duration::from_nanos(network::least_latency_nanos(hosts)).max(floor);
    let fastest = |rate: fn(&HostConfig) -> u64| hosts.configs.iter().map(rate).max().unwrap_or(1) as f64;
    let transport = network::transport(scenario);
    let bits = transport.wire_bytes(frame_bytes) as f64 * 8.0;
    let validation = hosts.validation.iter().min().map_or(0.0, |time| time.as_secs_f64() * 1e3);
    let packet = bits.min(f64::from(transport.mss + transport.header) * 8.0);
    let (up, down) = network::bursts(scenario);
    let after = |bits: f64, burst: u64| (bits - burst as f64 * 8.0).max(0.0);
    let (uplink, downlink) = (fastest(|host| host.uplink_bps), fastest(|host| host.downlink_bps));
    let rates = (after(bits, up) / uplink).max(after(packet, up) / uplink + after(bits, down) / downlink);
    [
        (Cause::Processor, validation),
        (Cause::Serialisation, rates * 1e3),
        (Cause::Latency, latency.as_secs_f64() * 1e3),
    ]
}
