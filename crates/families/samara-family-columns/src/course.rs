//! Blocks of columns: one node publishes them, and each node custodies some of them.

use std::sync::Arc;
use std::time::Duration;

use crate::application::Numbers;
use crate::application::{
    Blocks, CellPlan, CellSettings, Command, Counts, Event, Node, Repairing, Spreading, cell_format, contents,
};
use crate::section::{Columns, CustodyPattern};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use samara_baselines::{Common, ConfigError, Forest, PlumtreeFrame, PubSub};
use samara_document::Topology;
use samara_engine::outbox::{Dispatch, Schedule};
use samara_engine::{Frame, FrameCodec, NodeRng, Outbox, Time, Topic};
use samara_gossipsub::config::{Answers, Parameters, ValidatorHook, Withdraw};
use samara_gossipsub::message_id::MessageIdFn;
use samara_gossipsub::partial::ethereum::PART_BYTES;
use samara_gossipsub::partial::{Asking, Bits, FormatHook, PartialConfig};
use samara_gossipsub::rpc::{Message, RpcFrame};
use samara_gossipsub::{Config, GossipSub};
use samara_hosts::Worlds;
use samara_pubsub::frames::Wire;
use samara_pubsub::host::{self, Host, Processor, Stalls, gossipsub};
use samara_pubsub::parameters as baselines;
use samara_pubsub::parameters::PlumtreeParameters;
use samara_scenario::{Point, Scenario};
use samara_sim::{Arrivals, Cause, Hop, HostStats, NodeFactory, Origin, Postcard, Record, identity_of};
use serde_json::{Value, json};

use super::bound::{copy_bytes, curve};
use super::measure::{Collector, CopyRow, Delivery};
use samara_lab::brief::{no_such, refuse};
use samara_lab::experiment::{
    Commands, Experiment, Forge, FramesCodec, Plan, Problem, ProtocolOf, Step, World,
};
use samara_lab::explain::{ContentsOf, Delivered, MainTime};
use samara_lab::family::Runs;
use samara_lab::network::{self, Hosts};
use samara_lab::run::{Progress, QUIET_NANOS, RunError, SLICE_NANOS, since};
use samara_pubsub::brief;

#[derive(Debug)]
pub struct ColumnsMeasured {
    pub point: Point,
    pub collector: Collector,
    /// Publication time of each slot, in nanoseconds of the run.
    pub published: Vec<u64>,
    /// Traffic of each host from the first publication on.
    pub traffic: Vec<HostStats>,
    /// The hosts, including observers.
    pub hosts: Hosts,
    /// The lower bound of the mean time to custody, in milliseconds.
    pub lower_bound_ms: f64,
    /// The same bound with its parts.
    pub bound: samara_bounds::Bound,
    /// Lower bounds of all completion times; empty for real nodes.
    pub curve: samara_bounds::Curve,
    /// The least bytes of a copy of a segment on the wire; 0 if none has to travel.
    pub copy_bytes: u64,
    /// Whether each node may request parts of columns from the publisher.
    asking: Vec<bool>,
    /// Copies withdrawn before they left, over all nodes.
    pub withdrawn: u64,
    /// Mean size of the meshes at the first publication.
    pub mesh_size: f64,
    /// Counts of cells over all nodes that count, as [`Spreading::cell_counts`].
    pub cells: [u64; 5],
    /// Sums over all nodes of [`Spreading::offences`].
    pub offences: [u64; 2],
    /// Mean congestion window of the publisher's links at each publication, in packets; empty for
    /// real nodes.
    pub publisher_windows: Vec<f64>,
    /// Digest of all packets, and number of steps of the simulation; both zero for real nodes.
    pub digest: (u64, u64),
}

impl ColumnsMeasured {
    /// Creates empty measurements for hosts with this custody, with the planned publication times.
    ///
    /// `copy_bytes` is the least length of a copy of a segment on the wire.
    fn new(point: &Point, hosts: &Hosts, custody: &[Vec<u32>], copy_bytes: u64) -> Self {
        let (scenario, nodes) = (&point.scenario, point.scenario.network.nodes);
        let workload: &Columns = scenario.part();
        let Columns { slots, publisher, warm_up, slot_interval, .. } = *workload;
        let mut counts: Vec<bool> = (0..custody.len()).map(|host| host < nodes as usize).collect();
        network::hostile(scenario, point.seed).for_each(|host| counts[host as usize] = false);
        let mut collector = Collector::new(workload.segments(), slots, custody, publisher, counts);
        collector.needed = workload.needed();
        collector.ends_early = workload.pieces.is_some();
        // Until the links are known, anyone may ask.
        let asking = vec![workload.cells.is_some(); custody.len()];
        let bound = bound(scenario, &limits(scenario, &collector, hosts, copy_bytes, &asking));
        let at = |slot| warm_up.nanos() + u64::from(slot) * slot_interval.nanos();
        Self {
            point: point.clone(),
            collector,
            published: (0..slots).map(at).collect(),
            traffic: Vec::new(),
            hosts: hosts.clone(),
            lower_bound_ms: bound.total_ms,
            bound,
            curve: samara_bounds::Curve::default(),
            copy_bytes,
            asking,
            withdrawn: 0,
            mesh_size: 0.0,
            cells: [0; 5],
            offences: [0; 2],
            publisher_windows: Vec::new(),
            digest: (0, 0),
        }
    }

    /// Computes the bounds of all completion times over these links. Their mean is a bound of the mean
    /// as well.
    fn set_curve(&mut self, links: &[(u32, u32)]) {
        let workload: &Columns = self.point.scenario.part();
        // In a pattern, the custody of peers is also that of others. If mempools have all cells, none
        // has to leave the publisher, and copies without bytes would make the bound endless.
        let is_random = workload.custody_pattern == CustodyPattern::Random && workload.custody_file.is_none();
        if workload.cells.is_some() && is_random && self.copy_bytes > 0 {
            self.asking.fill(false);
            let peers = links.iter().filter_map(|(a, b)| match workload.publisher {
                publisher if publisher == *a => Some(*b),
                publisher if publisher == *b => Some(*a),
                _ => None,
            });
            peers.for_each(|peer| self.asking[peer as usize] = true);
            self.bound = bound(&self.point.scenario, &self.limits());
        }
        self.curve = curve(&self.point.scenario, &self.collector, &self.hosts, self.copy_bytes, links);
        self.bound.total_ms = self.bound.total_ms.max(self.curve.mean());
        self.lower_bound_ms = self.bound.total_ms;
    }

    fn workload(&self) -> &Columns {
        self.point.scenario.part()
    }

    fn limits(&self) -> samara_bounds::Limits<'_> {
        limits(&self.point.scenario, &self.collector, &self.hosts, self.copy_bytes, &self.asking)
    }

    fn bound_parts(&self) -> Vec<(Cause, f64)> {
        let scenario = &self.point.scenario;
        let limits = self.limits();
        let parts = self.bound.parts_ms(&limits, |limits| bound(scenario, limits));
        [Cause::SameBatch, Cause::Serialisation, Cause::Latency].into_iter().zip(parts).collect()
    }

    fn main_time(&self) -> MainTime {
        MainTime { name: "the time to custody", item: "segment", bound_ms: self.bound_parts() }
    }

    /// Returns all deliveries. Those that end the time to custody of a node are the last ones.
    fn delivered(&self) -> Vec<Delivered> {
        let (columns, host) = (self.workload().segments(), self.workload().publisher);
        let of_block = |block: &[Delivery]| {
            let origin = Origin { host, at: self.published[block[0].slot as usize] };
            let item = |delivery: &Delivery| u64::from(delivery.slot * columns + delivery.segment);
            let mut order: Vec<&Delivery> = block.iter().collect();
            order.sort_by_key(|delivery| delivery.at);
            let last = order[self.collector.needed_of(order.len()) - 1];
            let delivered = |(place, delivery): (usize, &&Delivery)| Delivered {
                node: delivery.host,
                item: item(delivery),
                from: Some(delivery.from),
                origin,
                at: delivery.at,
                made_of: (delivery.from == delivery.host)
                    .then(|| {
                        order[..place].iter().rev().find(|other| other.from != other.host).map(|of| item(of))
                    })
                    .flatten(),
                is_last: std::ptr::eq(*delivery, last),
                after: Cause::Processor,
            };
            let arrived = order.iter().enumerate().filter(|(_, delivery)| delivery.delivered());
            arrived.map(delivered).collect::<Vec<_>>()
        };
        self.collector.blocks().flat_map(of_block).collect()
    }

    fn end_at(&self) -> u64 {
        self.published.last().map_or(0, |last| last + self.workload().deadline.nanos())
    }
}

pub(crate) fn runs(scenario: &Scenario) -> Runs {
    if scenario.find::<PlumtreeParameters>().is_some() {
        Runs::of::<Publishing<Forest>>()
    } else if baselines::baseline_sending(scenario).is_some() {
        Runs::of::<Publishing<PubSub>>()
    } else {
        Runs::of::<Publishing<GossipSub>>()
    }
}

/// An engine over which segments spread, as a scenario configures it.
trait Planned: Spreading {
    fn plan(plan: &Plan<'_>) -> Planning<Self>;

    /// Returns the encoding of frames without the segments in them.
    fn codec() -> impl FrameCodec<Self::Frame> + 'static;
}

struct Planning<E: Spreading> {
    blocks: Arc<Blocks<E::Message>>,
    engine: NodeFactory<E>,
    /// The order of the copies of a batch.
    schedule: Schedule,
    /// The least bytes of a copy of a segment on the wire; 0 if none has to travel.
    copy_bytes: u64,
}

impl Planned for GossipSub {
    fn plan(plan: &Plan<'_>) -> Planning<Self> {
        let (scenario, workload) = (plan.scenario, plan.scenario.part::<Columns>());
        let software = Software::new(plan);
        let blocks = Arc::new(Blocks::<Message>::new(&workload.layout(), plan.payload_seed()));
        let schedule = software.current.publisher.schedule_publish.clone();
        let copy_bytes = least_copy_bytes(scenario, &blocks, &software.current);
        let publisher = workload.publisher;
        let hosts = plan.network().hosts.configs.len() as u32;
        let parameters = scenario.part::<Parameters>().clone();
        let nodes = scenario.network.nodes;
        let upgraded = upgraded(workload, nodes, plan.seed);
        let deployed = workload.cells.as_ref().map(|cells| cells.deployed(nodes, publisher, plan.seed));
        let faulty = workload.faulty(nodes, plan.seed);
        let mut withhold = (*software.current.node).clone();
        withhold.gossip.iwant_ids_max = 0;
        let withhold = Arc::new(withhold);
        // Without a verdict, a node forwards and announces nothing.
        let undecided = Arc::new(Config {
            validator: Some(ValidatorHook::deferred()),
            ..(*software.current.node).clone()
        });
        let duties = Duties::of(workload, nodes);
        let engine = move |host: u32| {
            let is = |hosts: &Vec<bool>| hosts.get(host as usize) == Some(&true);
            let configs = match (&upgraded, &deployed) {
                (Some(upgraded), _) if !is(upgraded) => &software.old,
                (_, Some(deployed)) if is(deployed) => &software.deployed,
                _ => &software.current,
            };
            let regular = configs.of(duties.duty(host));
            let config = if faulty.silent.contains(&host) {
                &undecided
            } else if faulty.withholding.contains(&host) {
                &withhold
            } else {
                regular
            };
            let (mut gossip, outbox) = gossipsub(config, host);
            if let Some(offset) = parameters.heartbeat_offset(host, hosts) {
                gossip.set_heartbeat_offset(offset);
            }
            (gossip, outbox)
        };
        Planning { blocks, engine: Arc::new(engine), schedule, copy_bytes }
    }

    fn codec() -> impl FrameCodec<RpcFrame> + 'static {
        Wire
    }
}

impl Planned for Forest {
    fn plan(plan: &Plan<'_>) -> Planning<Self> {
        let config = Arc::new(baselines::plumtree(plan.scenario.part(), true));
        let common = config.common.clone();
        baseline(plan, common, move |host| Self::new(Arc::clone(&config), identity_of(host)))
    }

    fn codec() -> impl FrameCodec<PlumtreeFrame> + 'static {
        Postcard
    }
}

impl Planned for PubSub {
    fn plan(plan: &Plan<'_>) -> Planning<Self> {
        let sending = baselines::baseline_sending(plan.scenario).unwrap_or_default();
        let config = Arc::new(baselines::pubsub(&sending, true));
        let common = config.common.clone();
        baseline(plan, common, move |host| Self::floodsub(Arc::clone(&config), identity_of(host)))
    }

    fn codec() -> impl FrameCodec<samara_baselines::RpcFrame> + 'static {
        Postcard
    }
}

/// Plans FloodSub or Plumtree. The bounds take the payload as the whole frame.
fn baseline<E: Spreading>(
    plan: &Plan<'_>,
    common: Common,
    engine: impl Fn(u32) -> Result<E, ConfigError> + Send + Sync + 'static,
) -> Planning<E> {
    let workload: &Columns = plan.scenario.part();
    let schedule = common.schedule_own.clone();
    let engine = move |host| match engine(host) {
        Ok(engine) => (engine, Outbox::new(common.outbox_config())),
        Err(error) => unreachable!("the configuration differs from a default in valid values only: {error}"),
    };
    Planning {
        blocks: Arc::new(Blocks::new(&workload.layout(), plan.payload_seed())),
        engine: Arc::new(engine),
        schedule,
        copy_bytes: {
            let frame_bytes = workload.segment_bytes().into_iter().min().unwrap_or(0) as u32;
            copy_bytes(plan.scenario, frame_bytes, 1)
        },
    }
}

/// Returns the least bytes on the wire of a copy of a segment: of a frame with its payload and topic,
/// with the tags and lengths of both and of the message, or of its share in a frame that answers an
/// IWANT; or the bytes of the parts of a column that must reach every node.
fn least_copy_bytes(scenario: &Scenario, blocks: &Blocks, software: &Configs) -> u64 {
    let workload: &Columns = scenario.part();
    if let Some(cells) = workload.cells.as_ref().filter(|cells| cells.upgraded.fraction() > 0.0) {
        // Only the cells that no mempool has. They share packets with those of other columns.
        return u64::from(cells.private_blobs(workload.blobs)) * PART_BYTES as u64;
    }
    let len = |message: &Arc<Message>| RpcFrame::message(message).encoded_len() as u32;
    // The segments of one slot stand for all.
    let least = blocks.messages.iter().take(blocks.count() as usize).map(len).min().unwrap_or(0);
    let together = [&software.node, &software.publisher, &software.observer].map(|config| {
        let Answers::OneFrame { bytes_max } = config.answers else { return 1 };
        bytes_max as u32 / least.max(1)
    });
    copy_bytes(scenario, least, together.into_iter().max().unwrap_or(1))
}

/// The role of a host in a run of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Duty {
    Node,
    Publisher,
    /// Keeps all columns, and counts for no metric.
    Observer,
}

/// The hosts that are not just nodes.
#[derive(Clone, Copy, Debug)]
struct Duties {
    publisher: u32,
    observer: Option<u32>,
}

impl Duties {
    /// Returns those of a network: the observer follows its nodes.
    fn of(workload: &Columns, nodes: u32) -> Self {
        Self { publisher: workload.publisher, observer: workload.observer.then_some(nodes) }
    }

    fn duty(self, host: u32) -> Duty {
        if host == self.publisher {
            Duty::Publisher
        } else if Some(host) == self.observer {
            Duty::Observer
        } else {
            Duty::Node
        }
    }
}

/// The configurations of hosts with the same software.
#[derive(Clone)]
struct Configs {
    node: Arc<Config>,
    publisher: Arc<Config>,
    observer: Arc<Config>,
}

impl Configs {
    const fn of(&self, duty: Duty) -> &Arc<Config> {
        match duty {
            Duty::Node => &self.node,
            Duty::Publisher => &self.publisher,
            Duty::Observer => &self.observer,
        }
    }

    fn with(&self, change: impl Fn(Config) -> Config) -> Self {
        let changed = |config: &Arc<Config>| Arc::new(change((**config).clone()));
        Self {
            node: changed(&self.node),
            publisher: changed(&self.publisher),
            observer: changed(&self.observer),
        }
    }
}

/// The configurations of all hosts. Without cells, they have the same software.
struct Software {
    /// Exchanges cells as the scenario says.
    current: Configs,
    /// Exchanges no cells.
    old: Configs,
    /// Exchanges cells as deployed clients do.
    deployed: Configs,
}

/// The time that a silent node takes to validate a piece: longer than any run.
const NEVER: Duration = Duration::from_secs(1 << 31);

/// Returns whether each host exchanges cells; `None` without cells.
pub(super) fn upgraded(workload: &Columns, nodes: u32, seed: u64) -> Option<Vec<bool>> {
    workload.cells.as_ref().map(|cells| cells.upgraded(nodes, workload.publisher, seed))
}

impl Software {
    fn new(plan: &Plan<'_>) -> Self {
        let (workload, parameters) = (plan.scenario.part::<Columns>(), plan.scenario.part::<Parameters>());
        let observer = workload.observer.then_some(plan.network().graph.nodes);
        let mut config = parameters.build();
        config.report_duplicates = true;
        if let Some(pieces) = &workload.pieces {
            config.message_id = MessageIdFn::Pieces { len: pieces.id_size.bytes() as u16 };
        }
        if plan.network().validates {
            config.validator = Some(ValidatorHook::deferred());
        }
        let observers = observer.map(identity_of).into_iter().collect();
        let publisher = Config { observers, ..config.clone() };
        let observer = Config { report_to: vec![identity_of(workload.publisher)], ..config.clone() };
        let old = Configs { node: config.into(), publisher: publisher.into(), observer: observer.into() };
        if workload.cells.is_none() {
            return Self { current: old.clone(), deployed: old.clone(), old };
        }
        let exchange = parameters.parts.clone();
        let partial = PartialConfig { exchange, ..PartialConfig::new(FormatHook::new(cell_format())) };
        let mut everyone = partial.clone();
        everyone.exchange.asking = Asking::Everyone;
        let everyone = Arc::new(everyone);
        let partial = Arc::new(partial);
        let current = old.with(|config| Config { partial: Some(Arc::clone(&partial)), ..config });
        let deployed = current.with(|config| {
            let mut config = Config {
                partial: Some(Arc::clone(&everyone)),
                withdraw: Withdraw::NEVER,
                schedule_forward: Schedule::default(),
                ..config
            };
            config.sending.dispatch = Dispatch::default();
            config
        });
        Self { current, old, deployed }
    }
}

/// Returns the links of the observer: a few hosts, and the publisher.
fn observed(scenario: &Scenario, observer: Option<u32>, rng: &mut NodeRng) -> Vec<(u32, u32)> {
    let Some(observer) = observer else { return Vec::new() };
    let publisher = scenario.part::<Columns>().publisher;
    let mut hosts: Vec<u32> = (0..scenario.network.nodes).filter(|host| *host != publisher).collect();
    rng.shuffle(&mut hosts);
    let degree = match scenario.network.topology {
        Topology::RandomRegular { degree, .. } => degree,
        _ => Topology::DEGREE,
    };
    hosts.truncate(degree.max(8) as usize);
    hosts.into_iter().chain([publisher]).map(|host| (observer, host)).collect()
}

/// Blocks of columns that one node publishes.
struct Publishing<E: Spreading> {
    nodes: NodeFactory<Host<Node<E>>>,
    protocol: Arc<str>,
    /// Traffic of the hosts up to the first publication.
    before: Vec<HostStats>,
    measured: ColumnsMeasured,
    blocks: Arc<Blocks<E::Message>>,
    cells: Option<Arc<CellPlan>>,
}

impl<E: Planned> Experiment for Publishing<E> {
    type App = Host<Node<E>>;
    type Measured = ColumnsMeasured;

    fn plan(plan: &Plan<'_>) -> Result<Self, Problem> {
        let (scenario, workload, seed) = (plan.scenario, plan.scenario.part::<Columns>(), plan.seed);
        let (network, nodes) = (*plan.network(), scenario.network.nodes);
        let duties = Duties::of(workload, nodes);
        let mut custody = network.custody.to_vec();
        custody.extend(duties.observer.map(|_| (0..workload.segments()).collect()));
        let Planning { blocks, engine, schedule, copy_bytes } = E::plan(plan);
        let mut measured = ColumnsMeasured::new(network.point, network.hosts, &custody, copy_bytes);
        measured.set_curve(&network.graph.edges);
        let repair = workload.repair.as_ref().map(|repair| {
            let time = repair.time_per_blob.duration() * workload.blobs;
            let publish = repair.publish.then(|| schedule.clone());
            Arc::new(Repairing { needed: workload.half(), columns: workload.count, time, publish })
        });
        let validation = network.hosts.validation.clone();
        let stalled = scenario.network.stalled_periods.fraction();
        let shared = Arc::clone(&blocks);
        let cells = workload.cell_settings().and_then(|cells| CellPlan::new(cells, seed)).map(Arc::new);
        let exchanging = cells.clone().zip(upgraded(workload, nodes, seed));
        let faulty = workload.faulty(nodes, seed);
        let node = move |host: u32| {
            let (engine, outbox) = engine(host);
            let joins = custody[host as usize].clone();
            let time = if faulty.silent.contains(&host) { NEVER } else { validation[host as usize] };
            let processor = Processor::new(time, Stalls::new(stalled, host, seed));
            let duty = duties.duty(host);
            let repair = repair.as_ref().filter(|_| duty == Duty::Node);
            let mut node = Node::new(engine, Arc::clone(&shared), joins, processor, repair);
            node.spoofs = faulty.spoofing.contains(&host);
            if duty == Duty::Publisher {
                node.schedule = schedule.clone();
            }
            if let (Some((plan, upgraded)), true) = (&exchanging, duty != Duty::Observer)
                && upgraded[host as usize]
            {
                E::exchange_cells(&mut node, plan, host);
            }
            (Host::new(node), outbox)
        };
        let (nodes, protocol) = (Arc::new(node), host::protocol(scenario));
        Ok(Self { nodes, protocol, before: Vec::new(), measured, blocks, cells })
    }

    fn hosts(&self) -> NodeFactory<Host<Node<E>>> {
        Arc::clone(&self.nodes)
    }

    fn links(&self, rng: &mut NodeRng) -> Vec<(u32, u32)> {
        let scenario = &self.measured.point.scenario;
        let observer = self.measured.workload().observer.then_some(scenario.network.nodes);
        observed(scenario, observer, rng)
    }

    fn protocols(&self) -> Option<ProtocolOf> {
        let protocol = Arc::clone(&self.protocol);
        Some(Box::new(move |_, _| Arc::clone(&protocol)))
    }

    fn forge(&self) -> Option<Forge<E::Frame>> {
        Some(Arc::new(E::forge))
    }

    fn brief(&self, host: u32) -> Result<Value, Problem> {
        let scenario = &self.measured.point.scenario;
        let workload = self.measured.workload();
        refuse(&[
            (workload.observer, "columns.observer"),
            (workload.pieces.is_some(), "columns.pieces"),
            (workload.repair.is_some(), "columns.repair"),
            (workload.rows > 0, "columns.rows"),
        ])?;
        brief::can_run(scenario, &self.measured.hosts, host)?;
        let topics: Vec<&str> = self.blocks.topics.iter().map(Topic::as_str).collect();
        let upgraded = upgraded(workload, scenario.network.nodes, self.measured.point.seed);
        let cells = self.cells.as_ref().filter(|_| upgraded.is_some_and(|upgraded| upgraded[host as usize]));
        let is_publisher = host == workload.publisher;
        Ok(json!({ "columns": {
            "topics": topics,
            "bytes": workload.segment_bytes(),
            "joins": self.measured.collector.custody()[host as usize],
            "slots": workload.slots,
            "protocol": brief::protocol(scenario)?,
            "cells": cells.map(|plan| brief_cells(plan, host, is_publisher)),
        } }))
    }

    fn codec(&self) -> Option<FramesCodec<Host<Node<E>>>> {
        Some(Arc::new(Numbers::new(Arc::clone(&self.blocks), E::codec())))
    }

    fn worlds() -> Worlds<Host<Node<E>>> {
        E::worlds()
    }

    fn start(&mut self, commands: &mut Commands<Host<Node<E>>>) {
        let workload = self.measured.workload();
        for (slot, at) in (0..).zip(&self.measured.published) {
            let command =
                if workload.batch { Command::PublishBatch { slot } } else { Command::PublishEach { slot } };
            commands.at(Time::from_nanos(*at), workload.publisher, command);
        }
    }

    fn step(&mut self, world: &mut dyn World<Host<Node<E>>>) -> Result<Step, RunError> {
        let measured = &mut self.measured;
        let (now, end, slot) = (world.now().as_nanos(), measured.end_at(), measured.publisher_windows.len());
        let all_published = slot == measured.published.len();
        let quiet = now > measured.collector.last_copy_at + QUIET_NANOS;
        let slots = measured.published.len() as u32;
        let is_over = now >= end || all_published && quiet && measured.collector.is_complete(slots);
        if measured.published.get(slot) == Some(&now) {
            if slot == 0 {
                self.before = world.traffic()?;
                measured.mesh_size = mesh_size(&world.counters()?);
            }
            let windows = world.windows(measured.workload().publisher)?;
            measured.publisher_windows.push(windows.iter().sum::<f64>() / windows.len().max(1) as f64);
        }
        let next_slot = measured.published.get(measured.publisher_windows.len()).copied().unwrap_or(end);
        let until = Time::from_nanos((now + SLICE_NANOS).min(next_slot).min(end));
        Ok(if is_over { Step::Over } else { Step::Until(until) })
    }

    fn wrong(&self, record: &Record<Event>) -> Option<String> {
        let (hosts, segments) = (self.measured.hosts.configs.len(), self.blocks.messages.len());
        match record.event {
            Event::Copy { segment, from, .. } => {
                no_such("segment", segment, segments).or_else(|| no_such("host", from, hosts))
            }
            Event::Rebuilt { segment } => no_such("segment", segment, segments),
            Event::Repaired { .. } | Event::Lost => None,
        }
    }

    fn observe(&mut self, record: Record<Event>, _: &mut Commands<Host<Node<E>>>) {
        match record.event {
            Event::Copy { segment, from, first } => {
                let (at, host) = (record.at.as_nanos(), record.host);
                self.measured.collector.copy(CopyRow { at, host, from, segment, first });
            }
            Event::Rebuilt { segment } => {
                self.measured.collector.rebuilt(record.at.as_nanos(), record.host, segment);
            }
            Event::Repaired { published } => {
                self.measured.collector.repairs += 1;
                self.measured.collector.republished += u64::from(published);
            }
            Event::Lost => self.measured.collector.queue_drops += 1,
        }
    }

    fn contents(&self) -> Option<ContentsOf<E::Frame>> {
        Some(Box::new(contents::<E>(Arc::clone(&self.blocks), self.cells.clone())))
    }

    fn delivered(&self) -> Vec<Delivered> {
        self.measured.delivered()
    }

    fn has_loops(&self) -> bool {
        self.cells.is_some()
    }

    fn sampled_by(item: u64) -> u64 {
        // Cells belong to their columns.
        u64::from(item as u32)
    }

    fn paths(&self, arrivals: &Arrivals, delivered: &[Delivered]) -> Vec<Option<Vec<Hop>>> {
        match &self.cells {
            None => samara_lab::explain::paths(arrivals, delivered),
            Some(plan) => super::paths::paths(arrivals, delivered, (plan, &self.blocks)),
        }
    }

    fn main_time(&self) -> MainTime {
        self.measured.main_time()
    }

    /// Returns the progress of the run, as the first process sees it.
    fn progress(&self, now: Time) -> Progress {
        let collector = &self.measured.collector;
        let expected = collector.deliveries().len();
        Progress {
            share: now.as_nanos() as f64 / self.measured.end_at() as f64,
            deliveries: Some((expected - collector.missing) as u64),
            deliveries_expected: Some(expected as u64),
            copies: Some(collector.copies.len() as u64),
            ..Progress::default()
        }
    }

    fn measured(self, world: &mut dyn World<Host<Node<E>>>) -> Result<ColumnsMeasured, RunError> {
        let traffic = since(&self.before, world.traffic()?);
        let (withdrawn, counts) = (world.withdrawn()?, world.counters()?);
        let digest = world.digest()?;
        let is_counted = self.measured.collector.counts();
        let counted = counts.iter().zip(is_counted).filter(|(_, is_counted)| **is_counted);
        let cells = sums(counted.map(|(counts, _)| counts.cells));
        let offences = sums(counts.iter().map(|counts| [counts.kept_unwanted_copies, counts.misbehaviours]));
        Ok(ColumnsMeasured { traffic, withdrawn, cells, offences, digest, ..self.measured })
    }
}

/// Returns what a program of others must know to exchange cells.
fn brief_cells(plan: &CellPlan, host: u32, is_publisher: bool) -> Value {
    let blocks = (0..).zip(plan.groups()).map(|(slot, group)| {
        let pushed = is_publisher.then(|| plan.pushed(slot));
        json!({
            "group": STANDARD.encode(group),
            "mempool": plan.mempool(host, slot).iter().collect::<Vec<_>>(),
            "push": pushed.iter().flat_map(Bits::iter).collect::<Vec<_>>(),
        })
    });
    let blocks: Vec<Value> = blocks.collect();
    let CellSettings { lookup_time, cell_time, .. } = plan.cells();
    json!({ "blobs": plan.blobs(), "lookup_time": lookup_time, "cell_time": cell_time, "blocks": blocks })
}

fn mesh_size(counts: &[Counts]) -> f64 {
    let [joined, targets] = sums(counts.iter().map(|counts| [counts.joined, counts.targets]));
    targets as f64 / joined.max(1) as f64
}

fn sums<const N: usize>(of: impl Iterator<Item = [u64; N]>) -> [u64; N] {
    of.fold([0; N], |mut sums, counts| {
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        sums
    })
}

fn limits<'a>(
    scenario: &Scenario,
    collector: &'a Collector,
    hosts: &Hosts,
    copy_bytes: u64,
    asking: &[bool],
) -> samara_bounds::Limits<'a> {
    let workload = scenario.part::<Columns>();
    let publisher = workload.publisher as usize;
    let (custody, counts) = (collector.custody(), collector.counts());
    let waiting: Vec<usize> = (0..counts.len()).filter(|host| counts[*host]).collect();
    let rates = &hosts.configs;
    let (uplink_burst, downlink_burst) = network::bursts(scenario);
    // Observers also forward.
    let relays = rates.iter().enumerate().filter(|(host, _)| *host != publisher);
    samara_bounds::Limits {
        custody: waiting.iter().map(|host| custody[*host].as_slice()).collect(),
        downlink_bps: waiting.iter().map(|host| rates[*host].downlink_bps).collect(),
        copy_bytes: copy_bytes.max(1),
        packet_bytes: downlink_burst,
        burst_bytes: uplink_burst,
        publisher_uplink_bps: rates[publisher].uplink_bps,
        relay_uplink_bps: relays.map(|(_, host)| host.uplink_bps).max().unwrap_or(1),
        latency_nanos: network::least_latency_nanos(hosts),
        validation_nanos: hosts.validation.iter().map(|time| time.as_nanos() as u64).min().unwrap_or(0),
        asking: waiting.iter().map(|host| asking.get(*host).is_some_and(|asks| *asks)).collect(),
    }
}

/// Returns a lower bound of the mean time to custody over all nodes, in a network with these limits.
///
/// It depends only on the network, not on the deadline or the outcome of a run.
fn bound(scenario: &Scenario, limits: &samara_bounds::Limits<'_>) -> samara_bounds::Bound {
    let workload = scenario.part::<Columns>();
    if workload.needed().is_some() || workload.repair.is_some() {
        let most = workload.repair.as_ref().map_or(u32::MAX, |_| workload.half());
        let needed = workload.needed().unwrap_or(u32::MAX).min(most);
        return samara_bounds::mean_any(limits, needed as usize);
    }
    samara_bounds::mean_custody(limits)
}
