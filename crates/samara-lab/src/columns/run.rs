//! Blocks of columns, published by one node and kept by some.

use std::sync::Arc;

use samara_engine::{Frame, NodeRng, PeerId, Time};
use samara_gossipsub::Config;
use samara_gossipsub::config::{Parameters, ValidatorHook};
use samara_gossipsub::rpc::RpcFrame;
use samara_sim::{HostStats, NodeFactory, Ranks, Record, hosts_of_rank, identity_of};

use super::app::{Blocks, Codec, Command, Event, Node};
use super::measure::{Collector, CopyRow};
use crate::bounds;
use crate::host::{Host, gossipsub};
use crate::network::{self, Hosts};
use crate::run::{
    Net, Progress, QUIET_NANOS, RunError, RunOptions, SLICE_NANOS, Setup, Step, Stepped, simulate,
};
use crate::scenario::{Columns, Point, Scenario};

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
        network::graph(scenario, options.inputs, point.seed).map_err(RunError::Scenario)?;
    let run = Run::new(point, custody, &graph.edges, options)?;
    let own = ranks.as_ref().map(|ranks| hosts_of_rank(run.hosts(), ranks.rank(), ranks.count()));
    let others = ranks.take().map(|ranks| -> (_, Box<dyn crate::run::Codec<Host<Node>>>) {
        (ranks, Box::new(Codec(Arc::clone(&run.blocks))))
    });
    let mut net = run.setup.distributed(run.factory(), own.unwrap_or(0..run.hosts()), others)?;
    run.setup.set_protocol(&mut net);
    let mut rng = run.setup.links_rng();
    let observed = run.observed(&mut rng);
    let edges = graph.edges.iter().copied().chain(observed);
    run.setup.schedule_links(&mut net, &mut rng, edges);
    run.setup.schedule_faults(&mut net);
    drop(graph);
    for (slot, at) in (0..).zip(&run.published) {
        let command = if run.workload().batch {
            Command::PublishBatch { slot, schedule: run.configs[PUBLISHER].schedule_publish.clone() }
        } else {
            Command::PublishEach { slot }
        };
        net.sim.command(Time::from_nanos(*at), run.workload().publisher, command);
    }
    simulate(run, &mut net, options.stop, |_, done| progress(done))
}

/// Blocks of columns that are simulated.
struct Run<'a> {
    setup: Setup<'a>,
    custody: Vec<Vec<u32>>,
    /// Of the nodes, the publisher and the observer.
    configs: [Arc<Config>; 3],
    blocks: Arc<Blocks>,
    observer: Option<u32>,
    collector: Collector,
    /// When each slot is published, in nanoseconds of the run.
    published: Vec<u64>,
    /// What the hosts of this process had done when the first slot was published.
    before: Vec<HostStats>,
    mesh_size: f64,
    /// By slot that was published.
    publisher_windows: Vec<f64>,
}

/// The place of the publisher's configuration.
const PUBLISHER: usize = 1;

impl<'a> Run<'a> {
    fn new(
        point: &'a Point,
        mut custody: Vec<Vec<u32>>,
        edges: &[(u32, u32)],
        options: RunOptions<'a>,
    ) -> Result<Self, RunError> {
        let scenario = &point.scenario;
        let (workload, nodes) = (scenario.part::<Columns>(), scenario.network.nodes);
        let observer = workload.observer.then_some(nodes);
        let setup = Setup::new(point, options, nodes + u32::from(observer.is_some()))?;
        // The observer is the last that the publisher meets, so that its handle there is the number of other links.
        let publisher_links = edges.iter().filter(|(a, b)| [*a, *b].contains(&workload.publisher)).count();
        let handle = observer.map(|_| PeerId(publisher_links as u32));
        let mut config = scenario.part::<Parameters>().build(None);
        config.report_duplicates = true;
        if setup.hosts.validation.iter().any(|time| !time.is_zero()) {
            config.validator = Some(ValidatorHook::deferred());
        }
        let publisher_config = Config {
            report_duplicates: true,
            validator: config.validator.clone(),
            message_id: config.message_id.clone(),
            observers: observer.map(identity_of).into_iter().collect(),
            ..scenario.part::<Parameters>().build(handle)
        };
        let mut observer_config = config.clone();
        if observer.is_some() {
            observer_config.report_to = vec![identity_of(workload.publisher)];
            custody.push((0..workload.count).collect());
        }
        for config in [&config, &publisher_config] {
            config.validate().map_err(|error| RunError::Scenario(format!("gossipsub: {error}")))?;
        }
        let Columns { count, slots, publisher, .. } = *workload;
        let published = (0..slots)
            .map(|slot| workload.warm_up.nanos() + u64::from(slot) * workload.slot_interval.nanos())
            .collect();
        Ok(Self {
            setup,
            collector: Collector::new(count, slots, &custody, publisher, nodes),
            custody,
            configs: [config, publisher_config, observer_config].map(Arc::new),
            blocks: Arc::new(Blocks::new(count, slots, workload.column_bytes(), point.seed)),
            observer,
            published,
            before: Vec::new(),
            mesh_size: 0.0,
            publisher_windows: Vec::new(),
        })
    }

    fn workload(&self) -> &'a Columns {
        self.setup.scenario().part()
    }

    fn hosts(&self) -> u32 {
        self.setup.hosts.configs.len() as u32
    }

    fn factory(&self) -> NodeFactory<Host<Node>> {
        let (publisher, observer, configs) = (self.workload().publisher, self.observer, self.configs.clone());
        let (blocks, custody, validation) =
            (Arc::clone(&self.blocks), self.custody.clone(), self.setup.hosts.validation.clone());
        Arc::new(move |host: u32| {
            let kind = if host == publisher { PUBLISHER } else { 2 * usize::from(Some(host) == observer) };
            let (gossip, outbox) = gossipsub(&configs[kind], host);
            let joins = custody[host as usize].clone();
            (Host::new(Node::new(gossip, Arc::clone(&blocks), joins, validation[host as usize])), outbox)
        })
    }

    /// The links of the observer, which knows a few hosts of its own, besides the publisher.
    fn observed(&self, rng: &mut NodeRng) -> Vec<(u32, u32)> {
        let Some(observer) = self.observer else { return Vec::new() };
        let (network, publisher) = (&self.setup.scenario().network, self.workload().publisher);
        let mut hosts: Vec<u32> = (0..network.nodes).filter(|host| *host != publisher).collect();
        rng.shuffle(&mut hosts);
        hosts.truncate(network.topology.degree.max(8) as usize);
        hosts.into_iter().chain([publisher]).map(|host| (observer, host)).collect()
    }

    /// The deadline of the last slot.
    fn end_at(&self) -> u64 {
        self.published.last().map_or(0, |last| last + self.workload().deadline.nanos())
    }

    /// The mean congestion window of the publisher's links.
    fn publisher_window(&self, net: &mut Net<'_, Host<Node>>) -> Result<f64, RunError> {
        let publisher = self.workload().publisher;
        let mut windows = Vec::new();
        if net.hosts().contains(&publisher) {
            windows = (0..self.hosts())
                .filter_map(|host| net.sim.handle_of(publisher, host))
                .map(|peer| net.sim.congestion_window(publisher, peer))
                .collect();
        }
        let windows = net.of_one(&windows)?;
        Ok(windows.iter().sum::<f64>() / windows.len().max(1) as f64)
    }
}

impl Stepped for Run<'_> {
    type App = Host<Node>;
    type Measured = ColumnsMeasured;

    fn step(&mut self, net: &mut Net<'_, Host<Node>>) -> Result<Step, RunError> {
        let (now, end) = (net.now(), self.end_at());
        let slot = self.publisher_windows.len();
        let all_published = slot == self.published.len();
        let quiet = now > self.collector.last_copy_at() + QUIET_NANOS;
        let slots = self.published.len() as u32;
        let is_over = now >= end || all_published && quiet && self.collector.missing_until(slots) == 0;
        if self.published.get(slot) == Some(&now) {
            if slot == 0 {
                self.before = net.stats();
                self.mesh_size = mesh_size(net)?;
            }
            self.publisher_windows.push(self.publisher_window(net)?);
        }
        let next_slot = self.published.get(self.publisher_windows.len()).copied().unwrap_or(end);
        let until = (now + SLICE_NANOS).min(next_slot).min(end);
        Ok(if is_over { Step::Over(until) } else { Step::Until(until) })
    }

    fn observe(&mut self, record: Record<Event>) {
        match record.event {
            Event::Copy { column, from, first } => {
                let (at, host) = (record.at.as_nanos(), record.host);
                self.collector.copy(CopyRow { at, host, from, column, first });
            }
            Event::Lost => self.collector.lost(),
        }
    }

    /// How far the run is, as the first process knows it.
    fn progress(&self, net: &Net<'_, Host<Node>>) -> Progress {
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

    fn measured(self, net: &mut Net<'_, Host<Node>>) -> Result<Option<ColumnsMeasured>, RunError> {
        let traffic = net.traffic_since(&self.before)?;
        let withdrawn = net.withdrawn()?;
        let (digest, steps) = net.digest_and_steps()?;
        let setup = self.setup;
        Ok(net.is_first().then(|| ColumnsMeasured {
            point: setup.point.clone(),
            traffic,
            lower_bound_ms: columns_bound_ms(setup.scenario(), &self.custody, &setup.hosts, &self.blocks),
            withdrawn,
            mesh_size: self.mesh_size,
            publisher_windows: self.publisher_windows,
            digest,
            steps,
            hosts: setup.hosts,
            collector: self.collector,
            published: self.published,
        }))
    }
}

/// The mean size of the meshes of all hosts.
fn mesh_size(net: &mut Net<'_, Host<Node>>) -> Result<f64, RunError> {
    let (mut total, mut meshes) = (0, 0);
    for host in net.hosts() {
        let gossip = &net.sim.node(host).app.gossip;
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
pub fn columns_bound_ms(scenario: &Scenario, custody: &[Vec<u32>], hosts: &Hosts, blocks: &Blocks) -> f64 {
    let workload = scenario.part::<Columns>();
    let transport = network::transport(scenario);
    // A column's frame: its payload, its topic, and the tags and lengths of both and of the message.
    let frame = RpcFrame::message(&blocks.messages[0]);
    let publisher = workload.publisher as usize;
    let waiting: Vec<usize> =
        (0..scenario.network.nodes as usize).filter(|host| *host != publisher).collect();
    let rates = &hosts.configs;
    // Observers forward, too.
    let relays = rates.iter().enumerate().filter(|(host, _)| *host != publisher);
    let limits = bounds::Limits {
        custody: waiting.iter().map(|host| custody[*host].as_slice()).collect(),
        downlink_bps: waiting.iter().map(|host| rates[*host].downlink_bps).collect(),
        copy_bytes: transport.wire_bytes(frame.encoded_len() as u32),
        publisher_uplink_bps: rates[publisher].uplink_bps,
        relay_uplink_bps: relays.map(|(_, host)| host.uplink_bps).max().unwrap_or(1),
        latency_nanos: network::least_latency_nanos(hosts),
        validation_nanos: hosts.validation.iter().map(|time| time.as_nanos() as u64).min().unwrap_or(0),
    };
    bounds::mean_custody_ms(&limits)
}
