//! A stream of messages, each published by a random node.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::application::{
    BaselineMember, BaselineStream, Counts, Event, GossipMember, GossipStream, Member, Publish, TOPIC,
    gossip_worlds, plumtree_worlds, pubsub_worlds,
};
use samara_baselines::{Baseline, Common, ConfigError, Plumtree, PubSub, Topic};
use samara_engine::{Engine, Frame, NodeRng, Outbox, Purpose, Time};
use samara_gossipsub::GossipSub;
use samara_gossipsub::config::{Authenticity, Parameters, ValidatorHook};
use samara_gossipsub::message_id::MessageIdFn;
use samara_gossipsub::rpc::{Rpc, RpcFrame};
use samara_gossipsub::signature::SignaturePolicy;
use samara_hosts::Worlds;
use samara_pubsub::frames::Carries;
use samara_pubsub::frames::Wire;
use samara_pubsub::host::{self, Host, Stalls};
use samara_pubsub::parameters as baselines;
use samara_sim::{Cause, HostStats, NodeFactory, Origin, Postcard, Record, identity_of};

use super::measure::{MessageCollector, MessageRow};
use crate::section::Messages;
use samara_document::Inputs;
use samara_document::topology::Graph;
use samara_lab::brief::{no_such, refuse};
use samara_lab::experiment::{self, Commands, Experiment, FramesCodec, Problem, ProtocolOf, Step, World};
use samara_lab::explain::{ContentsOf, Delivered, MainTime};
use samara_lab::family::Runs;
use samara_lab::hops::{self, Paths};
use samara_lab::network::{self, Hosts};
use samara_lab::run::{Progress, QUIET_NANOS, RunError, SLICE_NANOS, since};
use samara_pubsub::brief;
use samara_pubsub::parameters::{FloodParameters, PlumtreeParameters, RANDOMSUB};
use samara_scenario::{Arrivals, Point, Scenario};
use serde_json::{Value, json};

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
    /// For each publisher, the least times of its messages by the shortest paths in milliseconds: to
    /// the farthest node, and the mean over the others.
    pub path_bounds_ms: BTreeMap<u32, (f64, f64)>,
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
    /// The bound is that of the mean delivery, if none is missing.
    fn main_time(&self) -> MainTime {
        let (parts, mean_hops) = &self.hops;
        let of = |row: &MessageRow| mean_hops[row.publisher as usize];
        let hops: f64 =
            self.collector.rows.iter().map(of).sum::<f64>() / self.collector.rows.len().max(1) as f64;
        // A path of several latencies has no parts by hops.
        let is_known = self.collector.missing == 0 && network::has_one_latency(&self.point.scenario.network);
        let bound_ms = parts.iter().filter(|_| is_known).map(|(cause, ms)| (*cause, ms * hops)).collect();
        MainTime { item: "message", bound_ms, ..MainTime::default() }
    }

    fn delivered(&self) -> Vec<Delivered> {
        let collector = &self.collector;
        collector.deliveries.delivered(|row| {
            let MessageRow { published, publisher, .. } = collector.rows[row.item as usize];
            Origin { host: publisher, at: published }
        })
    }

    /// Creates empty measurements for a plan. Bounds assume frames of `frame_bytes`.
    fn new(point: &Point, hosts: &Hosts, (graph, plan): (&Graph, &Plan), frame_bytes: u32) -> Self {
        let hop = hops::parts(&point.scenario, hosts, frame_bytes);
        let (lower_bound_ms, mean_hops) = hops::bounds(graph, &hop);
        let paths = Paths::new(&point.scenario, (graph, hosts), frame_bytes);
        let publishers: BTreeSet<u32> = plan.publishers.iter().copied().collect();
        Self {
            point: point.clone(),
            collector: MessageCollector::new(&plan.publishers, graph.nodes),
            counts: vec![Counts::default(); graph.nodes as usize],
            traffic: Vec::new(),
            sizes: plan.sizes.clone(),
            hosts: hosts.clone(),
            measured_nanos: 0,
            lower_bound_ms,
            path_bounds_ms: publishers.into_iter().map(|node| (node, paths.reach(node))).collect(),
            hops: (hop, mean_hops),
            withdrawn: 0,
            degrees: graph.neighbours().iter().map(|peers| peers.len() as u32).collect(),
            mesh_size: 0.0,
            digest: (0, 0),
        }
    }
}

/// The publishers and times of messages, drawn from the seed.
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

pub(crate) fn runs(scenario: &Scenario) -> Runs {
    if scenario.find::<Parameters>().is_some() {
        Runs::of::<Streaming<GossipMember>>()
    } else if scenario.find::<PlumtreeParameters>().is_some() {
        Runs::of::<Streaming<BaselineMember<Plumtree>>>()
    } else {
        Runs::of::<Streaming<BaselineMember<PubSub>>>()
    }
}

/// A protocol of the members of a stream.
trait Planned: Member {
    /// Returns the members, and the least bytes of a message's frame.
    fn plan(plan: &experiment::Plan<'_>, messages: &Plan) -> (Members<Self>, u32);

    fn codec() -> FramesCodec<Self::Engine>;

    /// Returns the worlds of the hosts.
    fn worlds() -> Worlds<Host<Self>>;
}

type Members<M> = NodeFactory<Host<M>>;

impl Planned for GossipMember {
    fn plan(plan: &experiment::Plan<'_>, messages: &Plan) -> (Members<Self>, u32) {
        let (scenario, network) = (plan.scenario, plan.network());
        let signed = scenario.part::<Messages>().signed;
        let stream = Arc::new(GossipStream::new(&messages.publishers, &messages.sizes, signed));
        let parameters = scenario.part::<Parameters>().clone();
        let mut config = parameters.build();
        if network.validates {
            config.validator = Some(ValidatorHook::deferred());
        }
        if signed {
            // Messages carry signatures, but no node checks them.
            config.authenticity =
                Authenticity { policy: SignaturePolicy::StrictSign, ..Authenticity::unsigned() };
            config.message_id = MessageIdFn::FromSeqno;
        }
        // The bounds assume the smallest message.
        let smallest = stream.messages.iter().min_by_key(|message| message.data.len());
        let frame = RpcFrame::new(Rpc { publish: smallest.cloned().into_iter().collect(), ..Rpc::default() });
        let (config, validation) = (Arc::new(config), network.hosts.validation.clone());
        let (nodes, seed) = (plan.nodes(), plan.seed);
        let stalled = scenario.network.stalled_periods.fraction();
        let members = move |host: u32| {
            let (mut gossip, outbox) = host::gossipsub(&config, host);
            if let Some(offset) = parameters.heartbeat_offset(host, nodes) {
                gossip.set_heartbeat_offset(offset);
            }
            let (validation, stalls) = (validation[host as usize], Stalls::new(stalled, host, seed));
            (Host::new(GossipMember::new(gossip, Arc::clone(&stream), validation, stalls)), outbox)
        };
        (Arc::new(members), frame.encoded_len() as u32)
    }

    fn codec() -> FramesCodec<GossipSub> {
        Arc::new(Wire)
    }

    fn worlds() -> Worlds<Host<Self>> {
        gossip_worlds()
    }
}

impl Planned for BaselineMember<Plumtree> {
    fn plan(plan: &experiment::Plan<'_>, messages: &Plan) -> (Members<Self>, u32) {
        let config = Arc::new(baselines::plumtree(plan.scenario.part(), false));
        let sending = config.common.clone();
        baseline(messages, &sending, move |host, topic| {
            Plumtree::new(Arc::clone(&config), identity_of(host), topic)
        })
    }

    fn codec() -> FramesCodec<Plumtree> {
        Arc::new(Postcard)
    }

    fn worlds() -> Worlds<Host<Self>> {
        plumtree_worlds()
    }
}

impl Planned for BaselineMember<PubSub> {
    fn plan(plan: &experiment::Plan<'_>, messages: &Plan) -> (Members<Self>, u32) {
        let sending = plan.scenario.find::<FloodParameters>().cloned().unwrap_or_default();
        let config = Arc::new(baselines::pubsub(&sending, false));
        let is_random = plan.scenario.selected.protocol() == RANDOMSUB;
        let size = is_random.then_some(plan.nodes() as usize);
        let sending = config.common.clone();
        baseline(messages, &sending, move |host, _| match size {
            Some(size) => PubSub::randomsub(Arc::clone(&config), identity_of(host), size),
            None => PubSub::floodsub(Arc::clone(&config), identity_of(host)),
        })
    }

    fn codec() -> FramesCodec<PubSub> {
        Arc::new(Postcard)
    }

    fn worlds() -> Worlds<Host<Self>> {
        pubsub_worlds()
    }
}

/// Returns the members of a baseline. Its bounds take the payload as the whole frame.
fn baseline<B: Baseline<Frame: Carries<samara_baselines::Message>> + 'static>(
    messages: &Plan,
    sending: &Common,
    engine: impl Fn(u32, Topic) -> Result<B, ConfigError> + Send + Sync + 'static,
) -> (Members<BaselineMember<B>>, u32) {
    let bytes = messages.sizes.iter().min().copied().unwrap_or(0);
    let stream = Arc::new(BaselineStream::new(&messages.publishers, &messages.sizes));
    let sending = sending.clone();
    let members = move |host: u32| {
        let engine = engine(host, stream.topic.clone());
        let engine = engine.expect("the configuration differs from a default in valid values only");
        (Host::new(BaselineMember::new(engine, Arc::clone(&stream))), Outbox::new(sending.outbox_config()))
    };
    (Arc::new(members), bytes as u32)
}

/// A stream of messages among members of one kind.
pub(crate) struct Streaming<M: Member> {
    members: Members<M>,
    protocol: Arc<str>,
    /// Nanoseconds of the run at which messages are published, with their publishers.
    publications: Vec<(u64, u32)>,
    first_at: u64,
    /// Time of the last publication; `end_at` is the end of the wait for deliveries.
    last_at: u64,
    end_at: u64,
    /// Traffic of the hosts before the first publication.
    before: Vec<HostStats>,
    measured: MessagesMeasured,
}

impl<M: Planned> Experiment for Streaming<M> {
    type App = Host<M>;
    type Measured = MessagesMeasured;

    fn plan(plan: &experiment::Plan<'_>) -> Result<Self, Problem> {
        let (scenario, network) = (plan.scenario, plan.network());
        let messages =
            Plan::of(scenario, network.inputs, plan.seed).map_err(|error| ("messages".to_owned(), error))?;
        let (members, frame_bytes) = M::plan(plan, &messages);
        let measured =
            MessagesMeasured::new(network.point, network.hosts, (network.graph, &messages), frame_bytes);
        let Messages { warm_up, cool_down, .. } = scenario.part();
        let first_at = warm_up.nanos();
        let last_at = messages.times.last().copied().unwrap_or(first_at);
        Ok(Self {
            members,
            protocol: host::protocol(scenario),
            publications: messages.times.into_iter().zip(messages.publishers).collect(),
            first_at,
            last_at,
            end_at: last_at + cool_down.nanos(),
            before: Vec::new(),
            measured,
        })
    }

    fn hosts(&self) -> Members<M> {
        Arc::clone(&self.members)
    }

    fn protocols(&self) -> Option<ProtocolOf> {
        let protocol = Arc::clone(&self.protocol);
        Some(Box::new(move |_, _| Arc::clone(&protocol)))
    }

    fn brief(&self, host: u32) -> Result<Value, Problem> {
        let scenario = &self.measured.point.scenario;
        let workload = scenario.part::<Messages>();
        let is_signed = workload.signed && scenario.find::<Parameters>().is_some();
        refuse(&[(is_signed, "messages.signed")])?;
        brief::can_run(scenario, &self.measured.hosts, host)?;
        let (bytes, protocol) = (&self.measured.sizes, brief::protocol(scenario)?);
        Ok(json!({ "messages": { "topic": TOPIC, "bytes": bytes, "protocol": protocol } }))
    }

    fn codec(&self) -> Option<FramesCodec<Host<M>>> {
        Some(M::codec())
    }

    fn worlds() -> Worlds<Host<M>> {
        M::worlds()
    }

    fn start(&mut self, commands: &mut Commands<Host<M>>) {
        for ((at, publisher), number) in self.publications.drain(..).zip(0..) {
            commands.at(Time::from_nanos(at), publisher, Publish(number));
            self.measured.collector.published(number, at);
        }
    }

    fn step(&mut self, world: &mut dyn World<Host<M>>) -> Result<Step, RunError> {
        let (now, collector) = (world.now().as_nanos(), &self.measured.collector);
        let quiet = now > collector.latest.max(self.last_at) + QUIET_NANOS;
        if now >= self.end_at || quiet && collector.missing == 0 {
            return Ok(Step::Over);
        }
        if now == self.first_at {
            self.before = world.traffic()?;
            let counts = world.counters()?;
            let meshes: usize = counts.iter().map(|counts| counts.mesh).sum();
            self.measured.mesh_size = meshes as f64 / counts.len() as f64;
        }
        let next = if now < self.first_at { self.first_at } else { self.end_at };
        Ok(Step::Until(Time::from_nanos((now + SLICE_NANOS).min(next))))
    }

    fn wrong(&self, record: &Record<Event>) -> Option<String> {
        let (hosts, messages) = (self.measured.hosts.configs.len(), self.measured.sizes.len());
        match record.event {
            Event::Delivered { from, .. } if from == record.host => {
                Some(format!("it tells of a message from host {from}, which is itself"))
            }
            Event::Delivered { message, from } => {
                no_such("message", message, messages).or_else(|| no_such("host", from, hosts))
            }
            Event::Lost { to } => no_such("host", to, hosts),
        }
    }

    fn observe(&mut self, record: Record<Event>, _: &mut Commands<Host<M>>) {
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

    fn progress(&self, now: Time) -> Progress {
        let collector = &self.measured.collector;
        let expected = collector.expected();
        Progress {
            share: now.as_nanos() as f64 / self.end_at as f64,
            deliveries: Some(expected - collector.missing),
            deliveries_expected: Some(expected),
            ..Progress::default()
        }
    }

    fn measured(self, world: &mut dyn World<Host<M>>) -> Result<MessagesMeasured, RunError> {
        Ok(MessagesMeasured {
            counts: world.counters()?,
            traffic: since(&self.before, world.traffic()?),
            measured_nanos: world.now().as_nanos().saturating_sub(self.first_at),
            withdrawn: world.withdrawn()?,
            digest: world.digest()?,
            ..self.measured
        })
    }
}
