//! Blocks of columns, published by one node and kept by some.

use crate::scenario::Workload;
use samara_gossipsub::config::Parameters;
use std::sync::Arc;

use samara_engine::{Outbox, PeerId, Time};
use samara_gossipsub::config::ValidatorHook;
use samara_gossipsub::{Config, GossipSub};
use samara_sim::{HostStats, NodeFactory, Ranks, Record, hosts_of_rank, identity_of};

use super::codec::Codec;
use crate::columns::app::{Columns, ColumnsNode, Command, Told};
use crate::columns::measure::{Collector, CopyRow};
use crate::network::{self, Hosts};
use crate::run::{
    Net, Progress, QUIET_NANOS, RunError, RunOptions, SLICE_NANOS, Setup, Step, Stepped, simulate,
};
use crate::scenario::{Point, Scenario};
use crate::{bounds, topology};

/// What a run measured.
#[derive(Debug)]
pub struct ColumnsMeasured {
    /// What was run.
    pub point: Point,
    /// Deliveries and copies.
    pub collector: Collector,
    /// When each slot was published, in nanoseconds of the run.
    pub published: Vec<u64>,
    /// What each host did from the first publication on.
    pub traffic: Vec<HostStats>,
    /// Hosts, observers included.
    pub hosts: Hosts,
    /// From the first publication to the end of the measurement, in nanoseconds.
    pub measured_nanos: u64,
    /// The lower bound of the mean time to custody, in milliseconds.
    pub lower_bound_ms: f64,
    /// Copies that were withdrawn before they left, over all nodes.
    pub withdrawn: u64,
    /// The mean size of the meshes at the first publication.
    pub mesh_size: f64,
    /// The mean congestion window of the publisher's links at each publication, in packets.
    pub publisher_windows: Vec<f64>,
    /// The digest of every packet.
    pub digest: u64,
    /// Steps of the simulation.
    pub steps: u64,
    /// Whether a latency was raised to the floor of the simulator.
    pub latency_raised: bool,
}

/// Runs a point, in this process or in several, of which only the first gets a result.
pub(crate) fn run(
    point: &Point,
    options: RunOptions<'_>,
    mut ranks: Option<&mut dyn Ranks>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Option<ColumnsMeasured>, RunError> {
    let scenario = &point.scenario;
    let (graph, custody) =
        topology::graph(scenario, options.inputs, point.seed).map_err(RunError::Scenario)?;
    let nodes = Nodes::new(point, custody, &graph.edges, options)?;
    let own = ranks.as_ref().map(|ranks| hosts_of_rank(nodes.count(), ranks.rank(), ranks.count()));
    let others = ranks.take().map(|ranks| -> (_, Box<dyn crate::run::Codec<ColumnsNode>>) {
        (ranks, Box::new(Codec(Arc::clone(&nodes.shared))))
    });
    let mut net = nodes.setup.distributed(nodes.factory(), own.unwrap_or(0..nodes.count()), others)?;
    nodes.setup.set_protocol(&mut net);
    nodes.schedule_links(&mut net, &graph.edges);
    nodes.setup.schedule_faults(&mut net);
    drop(graph);
    let workload = scenario.part::<Workload>();
    let published: Vec<u64> = (0..workload.slots)
        .map(|slot| workload.warm_up.nanos() + u64::from(slot) * workload.slot_interval.nanos())
        .collect();
    for (slot, at) in (0..).zip(&published) {
        net.sim.command(Time::from_nanos(*at), workload.publisher, nodes.publish(slot));
    }
    let collector = Collector::new(
        workload.count,
        workload.slots,
        &nodes.custody,
        workload.publisher,
        scenario.network.nodes,
    );
    let run = Run {
        nodes,
        collector,
        published,
        before: Vec::new(),
        mesh_size: 0.0,
        publisher_windows: Vec::new(),
    };
    simulate(run, &mut net, options.stop, |_, done| progress(done))
}

/// Blocks of columns that are simulated.
struct Run<'a> {
    nodes: Nodes<'a>,
    collector: Collector,
    /// When each slot is published, in nanoseconds of the run.
    published: Vec<u64>,
    /// What the hosts of this process had done when the first slot was published.
    before: Vec<HostStats>,
    mesh_size: f64,
    /// By slot that was published.
    publisher_windows: Vec<f64>,
}

impl Run<'_> {
    /// The deadline of the last slot.
    fn end_at(&self) -> u64 {
        let deadline = self.nodes.setup.scenario().part::<Workload>().deadline.nanos();
        self.published.last().map_or(0, |last| last + deadline)
    }

    fn slots(&self) -> u32 {
        self.published.len() as u32
    }
}

impl Stepped for Run<'_> {
    type App = ColumnsNode;
    type Measured = ColumnsMeasured;

    fn step(&mut self, net: &mut Net<'_, ColumnsNode>) -> Result<Step, RunError> {
        let (now, end) = (net.now(), self.end_at());
        let slot = self.publisher_windows.len();
        let all_published = slot == self.published.len();
        let quiet = now > self.collector.last_copy_at() + QUIET_NANOS;
        let is_over = now >= end || all_published && quiet && self.collector.missing_until(self.slots()) == 0;
        if self.published.get(slot) == Some(&now) {
            if slot == 0 {
                self.before = net.stats();
                self.mesh_size = mesh_size(net)?;
            }
            self.publisher_windows.push(self.nodes.publisher_window(net)?);
        }
        let next_slot = self.published.get(self.publisher_windows.len()).copied().unwrap_or(end);
        let until = (now + SLICE_NANOS).min(next_slot).min(end);
        Ok(if is_over { Step::Over(until) } else { Step::Until(until) })
    }

    fn observe(&mut self, record: Record<Told>) {
        match record.event {
            Told::Copy { column, from, first } => {
                let (at, host) = (record.at.as_nanos(), record.host);
                self.collector.copy(CopyRow { at, host, from, column, first });
            }
            Told::Lost => self.collector.lost(),
        }
    }

    /// How far the run is, as the first process knows it.
    fn progress(&self, net: &Net<'_, ColumnsNode>) -> Progress {
        let expected = self.collector.deliveries().len();
        Progress {
            share: net.now() as f64 / self.end_at() as f64,
            virtual_nanos: Some(net.now()),
            deliveries: Some((expected - self.collector.missing()) as u64),
            deliveries_expected: Some(expected as u64),
            copies: Some(self.collector.copies().len() as u64),
            // The steps of other processes are known at the end only.
            steps: net.is_alone().then(|| net.sim.steps()),
        }
    }

    fn measured(self, net: &mut Net<'_, ColumnsNode>) -> Result<Option<ColumnsMeasured>, RunError> {
        let traffic = net.traffic_since(&self.before)?;
        let withdrawn = net.withdrawn()?;
        let (digest, steps) = net.digest_and_steps()?;
        if !net.is_first() {
            return Ok(None);
        }
        let Nodes { setup, custody, shared, .. } = self.nodes;
        Ok(Some(ColumnsMeasured {
            point: setup.point.clone(),
            measured_nanos: net.now() - self.published.first().copied().unwrap_or(0).min(net.now()),
            traffic,
            lower_bound_ms: columns_bound_ms(setup.scenario(), &custody, &setup.hosts, &shared),
            withdrawn,
            mesh_size: self.mesh_size,
            publisher_windows: self.publisher_windows,
            digest,
            steps,
            latency_raised: net.sim.latency_was_raised(),
            hosts: setup.hosts,
            collector: self.collector,
            published: self.published,
        }))
    }
}

/// What the hosts of a run are made from.
struct Nodes<'a> {
    setup: Setup<'a>,
    custody: Vec<Vec<u32>>,
    config: Arc<Config>,
    publisher_config: Arc<Config>,
    observer_config: Arc<Config>,
    shared: Arc<Columns>,
    observer: Option<u32>,
}

impl<'a> Nodes<'a> {
    fn new(
        point: &'a Point,
        mut custody: Vec<Vec<u32>>,
        edges: &[(u32, u32)],
        options: RunOptions<'a>,
    ) -> Result<Self, RunError> {
        let scenario = &point.scenario;
        let workload = scenario.part::<Workload>();
        let observer = workload.observer.then_some(scenario.network.nodes);
        let setup = Setup::new(point, options, scenario.network.nodes + u32::from(observer.is_some()))?;
        // The observer is the last that the publisher meets, so that its handle there is the number of other links.
        let publisher_links = edges.iter().filter(|(a, b)| [*a, *b].contains(&workload.publisher)).count();
        let handle = observer.map(|_| PeerId(publisher_links as u32));
        let mut config = scenario.part::<Parameters>().build(None);
        config.report_duplicates = true;
        if setup.hosts.validation.iter().any(|time| !time.is_zero()) {
            config.validator = Some(ValidatorHook::deferred());
        }
        let mut publisher_config = scenario.part::<Parameters>().build(handle);
        publisher_config.report_duplicates = true;
        publisher_config.validator.clone_from(&config.validator);
        publisher_config.message_id = config.message_id.clone();
        publisher_config.observers = observer.map(identity_of).into_iter().collect();
        let mut observer_config = config.clone();
        if observer.is_some() {
            observer_config.report_to = vec![identity_of(workload.publisher)];
            custody.push((0..workload.count).collect());
        }
        for config in [&config, &publisher_config] {
            config.validate().map_err(|error| RunError::Scenario(format!("gossipsub: {error}")))?;
        }
        Ok(Self {
            setup,
            custody,
            config: Arc::new(config),
            publisher_config: Arc::new(publisher_config),
            observer_config: Arc::new(observer_config),
            shared: Arc::new(Columns::new(
                workload.count,
                workload.slots,
                workload.column_bytes(),
                point.seed,
            )),
            observer,
        })
    }

    fn count(&self) -> u32 {
        self.setup.hosts.configs.len() as u32
    }

    fn factory(&self) -> NodeFactory<ColumnsNode> {
        let (publisher, observer) = (self.setup.scenario().part::<Workload>().publisher, self.observer);
        let configs = [&self.config, &self.publisher_config, &self.observer_config].map(Arc::clone);
        let (shared, custody, validation) =
            (Arc::clone(&self.shared), self.custody.clone(), self.setup.hosts.validation.clone());
        Arc::new(move |host: u32| {
            let kind = if host == publisher { 1 } else { 2 * usize::from(Some(host) == observer) };
            let config = Arc::clone(&configs[kind]);
            let outbox = Outbox::new(config.outbox_config());
            let gossip = match GossipSub::new(config, identity_of(host)) {
                Ok(gossip) => gossip,
                Err(error) => unreachable!("the configuration was checked: {error}"),
            };
            let joins = custody[host as usize].clone();
            (ColumnsNode::new(gossip, Arc::clone(&shared), joins, validation[host as usize]), outbox)
        })
    }

    fn schedule_links(&self, net: &mut Net<'_, ColumnsNode>, edges: &[(u32, u32)]) {
        let (scenario, mut rng) = (self.setup.scenario(), self.setup.links_rng());
        let publisher = scenario.part::<Workload>().publisher;
        let observed = self.observer.map(|observer| {
            // The observer knows a few hosts of its own, besides the publisher.
            let mut hosts: Vec<u32> = (0..scenario.network.nodes).filter(|host| *host != publisher).collect();
            rng.shuffle(&mut hosts);
            hosts.truncate(scenario.network.topology.degree.max(8) as usize);
            hosts.into_iter().chain([publisher]).map(move |host| (observer, host))
        });
        let edges = edges.iter().copied().chain(observed.into_iter().flatten());
        self.setup.schedule_links(net, &mut rng, edges);
    }

    fn publish(&self, slot: u32) -> Command {
        if self.setup.scenario().part::<Workload>().batch {
            Command::PublishBatch { slot, schedule: self.publisher_config.schedule_publish.clone() }
        } else {
            Command::PublishEach { slot }
        }
    }

    /// The mean congestion window of the publisher's links.
    fn publisher_window(&self, net: &mut Net<'_, ColumnsNode>) -> Result<f64, RunError> {
        let publisher = self.setup.scenario().part::<Workload>().publisher;
        let mut windows = Vec::new();
        if net.hosts().contains(&publisher) {
            windows = (0..self.count())
                .filter_map(|host| net.sim.handle_of(publisher, host))
                .map(|peer| net.sim.congestion_window(publisher, peer))
                .collect();
        }
        let windows = net.of_one(&windows)?;
        Ok(windows.iter().sum::<f64>() / windows.len().max(1) as f64)
    }
}

/// The mean size of the meshes of all hosts.
fn mesh_size(net: &mut Net<'_, ColumnsNode>) -> Result<f64, RunError> {
    let (mut total, mut meshes) = (0, 0);
    for host in net.hosts() {
        let gossip = net.sim.node(host).gossip();
        for topic in gossip.subscriptions() {
            total += gossip.mesh_peers(topic).len() as u64;
            meshes += 1;
        }
    }
    let [total, meshes] = net.sum([total, meshes])?;
    Ok(total as f64 / meshes.max(1) as f64)
}

/// A lower bound of the mean time to custody over all nodes. It depends on the network alone: not on
/// the deadline, nor on what a run reached.
pub fn columns_bound_ms(scenario: &Scenario, custody: &[Vec<u32>], hosts: &Hosts, columns: &Columns) -> f64 {
    let workload = scenario.part::<Workload>();
    let transport = network::transport(scenario);
    // A column's frame: its payload, its topic, and the tags and lengths of both and of the message.
    let frame = samara_gossipsub::rpc::RpcFrame::new(samara_gossipsub::rpc::Rpc {
        publish: [Arc::clone(&columns.messages[0])].into_iter().collect(),
        ..Default::default()
    });
    let publisher = workload.publisher as usize;
    let waiting: Vec<usize> =
        (0..scenario.network.nodes as usize).filter(|host| *host != publisher).collect();
    let rates = &hosts.configs;
    // Observers forward, too.
    let relays = rates.iter().enumerate().filter(|(host, _)| *host != publisher);
    let limits = bounds::Limits {
        custody: waiting.iter().map(|host| custody[*host].as_slice()).collect(),
        downlink_bps: waiting.iter().map(|host| rates[*host].downlink_bps).collect(),
        copy_bytes: transport.wire_bytes(samara_engine::Frame::encoded_len(&frame) as u32),
        publisher_uplink_bps: rates[publisher].uplink_bps,
        relay_uplink_bps: relays.map(|(_, host)| host.uplink_bps).max().unwrap_or(1),
        latency_nanos: network::least_latency_nanos(hosts),
        validation_nanos: hosts.validation.iter().map(|time| time.as_nanos() as u64).min().unwrap_or(0),
    };
    bounds::mean_custody_ms(&limits)
}
