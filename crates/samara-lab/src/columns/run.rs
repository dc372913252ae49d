//! Blocks of columns, published by one node and kept by some.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use samara_engine::{NodeRng, Outbox, PeerId, Purpose, Time};
use samara_gossipsub::config::ValidatorHook;
use samara_gossipsub::{Config, GossipSub};
use samara_sim::{HostStats, Ranks, SimConfig, Simulation, identity_of, part_of};

use super::parts::{Next, Parts};
use crate::columns::app::{Columns, ColumnsNode, Command, Told};
use crate::columns::measure::{Collector, CopyRow};
use crate::network::{self, Hosts};
use crate::run::{
    Progress, QUIET_NANOS, RunError, RunOptions, SLICE_NANOS, schedule_faults, schedule_links, since,
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

/// Runs a point, in this process or together with others; of these only the first gets a result.
pub(crate) fn run(
    point: &Point,
    options: RunOptions<'_>,
    mut ranks: Option<&mut dyn Ranks>,
    mut progress: impl FnMut(Progress),
) -> Result<Option<ColumnsMeasured>, RunError> {
    let scenario = &point.scenario;
    let custody = topology::custody(scenario, options.inputs, point.seed).map_err(RunError::Scenario)?;
    let graph =
        topology::build(scenario, &custody, options.inputs, point.seed).map_err(RunError::Scenario)?;
    let setup = Setup::new(point, custody, &graph.edges, options)?;
    let own = ranks.as_ref().map(|ranks| part_of(setup.count(), ranks.rank(), ranks.count()));
    let mut sim = setup.simulation(own.unwrap_or(0..setup.count()))?;
    setup.schedule_links(&mut sim, &graph.edges);
    schedule_faults(&mut sim, scenario, point.seed, &setup.hosts);
    let workload = &scenario.workload;
    let published: Vec<u64> = (0..workload.slots)
        .map(|slot| workload.warm_up.nanos() + u64::from(slot) * workload.slot_interval.nanos())
        .collect();
    for (slot, at) in (0..).zip(&published) {
        sim.command(Time::from_nanos(*at), workload.publisher, setup.publish(slot));
    }
    drop(graph);
    let mut parts = Parts::new(sim, ranks.take(), &setup.shared);
    let watched = watch(&setup, &mut parts, &published, options.stop, &mut progress)?;
    progress(how_far(1.0, &parts, &watched.collector));
    measured(point, setup, &mut parts, watched, published)
}

/// What was seen while a simulation ran.
struct Watched {
    collector: Collector,
    /// What the hosts of this process had done when the first slot was published.
    before: Vec<HostStats>,
    mesh_size: f64,
    publisher_windows: Vec<f64>,
    end: u64,
}

/// Simulates until everything has arrived, or the deadline of the last slot is over.
fn watch(
    setup: &Setup<'_>,
    parts: &mut Parts<'_>,
    published: &[u64],
    stop: &AtomicBool,
    progress: &mut impl FnMut(Progress),
) -> Result<Watched, RunError> {
    let workload = &setup.scenario.workload;
    let nodes = setup.scenario.network.nodes;
    let mut collector =
        Collector::new(workload.columns, workload.slots, &setup.custody, workload.publisher, nodes);
    let end = published.last().map_or(0, |last| last + workload.deadline.nanos());
    let (mut now, mut before, mut mesh_size) = (0, Vec::new(), 0.0);
    let mut publisher_windows = Vec::new();
    while now < end {
        let slot = publisher_windows.len();
        if published.get(slot) == Some(&now) {
            if slot == 0 {
                before = parts.hosts().map(|host| *parts.sim.stats(host)).collect();
                mesh_size = setup.mesh_size(parts)?;
            }
            publisher_windows.push(setup.publisher_window(parts)?);
        }
        let next_slot = published.get(publisher_windows.len()).copied().unwrap_or(end);
        let until = (now + SLICE_NANOS).min(next_slot).min(end);
        parts.run_until(until, |at, host, told| match told {
            Told::Copy { column, from, first } => {
                collector.copy(CopyRow { at, host, from, column, first });
            }
            Told::Lost => collector.lost(),
        })?;
        now = until;
        progress(how_far(now as f64 / end as f64, parts, &collector));
        let all_published = publisher_windows.len() == published.len();
        let quiet = now > collector.last_copy_at() + QUIET_NANOS;
        let is_over = all_published && quiet && collector.missing_until(workload.slots) == 0;
        let own = match stop.load(Ordering::Relaxed) {
            true => Next::Interrupted,
            false if is_over => Next::Over,
            false => Next::On,
        };
        match parts.next(own)? {
            Next::Interrupted => return Err(RunError::Interrupted),
            Next::Over => break,
            Next::On => {}
        }
    }
    Ok(Watched { collector, before, mesh_size, publisher_windows, end: now })
}

/// What all processes measured, at the first.
fn measured(
    point: &Point,
    setup: Setup<'_>,
    parts: &mut Parts<'_>,
    watched: Watched,
    published: Vec<u64>,
) -> Result<Option<ColumnsMeasured>, RunError> {
    let Watched { collector, before, mesh_size, publisher_windows, end } = watched;
    let hosts = parts.hosts();
    let own: Vec<HostStats> =
        hosts.clone().zip(0..).map(|(host, at)| since(parts.sim.stats(host), before.get(at))).collect();
    let traffic = parts.traffic(&own)?;
    let [withdrawn, steps] = parts.sum([setup.withdrawn(parts), parts.sim.steps()])?;
    let digest = parts.digest()?;
    if !parts.is_first() {
        return Ok(None);
    }
    let everything = collector.missing_until(point.scenario.workload.slots) == 0;
    let (custody, shared) = (&setup.custody, &setup.shared);
    Ok(Some(ColumnsMeasured {
        point: point.clone(),
        measured_nanos: end - published.first().copied().unwrap_or(0).min(end),
        traffic,
        lower_bound_ms: columns_bound_ms(setup.scenario, custody, &setup.hosts, shared, everything),
        withdrawn,
        mesh_size,
        publisher_windows,
        digest,
        steps,
        latency_raised: parts.sim.latency_was_raised(),
        hosts: setup.hosts,
        collector,
        published,
    }))
}

/// What a run is made of.
struct Setup<'a> {
    scenario: &'a Scenario,
    seed: u64,
    threads: usize,
    custody: Vec<Vec<u32>>,
    hosts: Hosts,
    config: Arc<Config>,
    publisher_config: Arc<Config>,
    observer_config: Arc<Config>,
    shared: Arc<Columns>,
    observer: Option<u32>,
}

impl<'a> Setup<'a> {
    fn new(
        point: &'a Point,
        mut custody: Vec<Vec<u32>>,
        edges: &[(u32, u32)],
        options: RunOptions<'_>,
    ) -> Result<Self, RunError> {
        let scenario = &point.scenario;
        let workload = &scenario.workload;
        let observer = workload.observer.then_some(scenario.network.nodes);
        let count = scenario.network.nodes + u32::from(observer.is_some());
        // The observer is the last that the publisher meets, so that its handle there is the number of other links.
        let publisher_links = edges.iter().filter(|(a, b)| [*a, *b].contains(&workload.publisher)).count();
        let handle = observer.map(|_| PeerId(publisher_links as u32));
        let hosts =
            network::hosts(scenario, options.inputs, count, point.seed).map_err(RunError::Scenario)?;
        let mut config = scenario.gossipsub.build(None);
        config.report_duplicates = true;
        if hosts.validation.iter().any(|time| !time.is_zero()) {
            config.validator = Some(ValidatorHook::deferred());
        }
        let mut publisher_config = scenario.gossipsub.build(handle);
        publisher_config.report_duplicates = true;
        publisher_config.validator.clone_from(&config.validator);
        publisher_config.message_id = config.message_id.clone();
        publisher_config.observers = observer.map(identity_of).into_iter().collect();
        let mut observer_config = config.clone();
        if observer.is_some() {
            observer_config.report_to = vec![identity_of(workload.publisher)];
            custody.push((0..workload.columns).collect());
        }
        for config in [&config, &publisher_config] {
            config.validate().map_err(|error| RunError::Scenario(format!("gossipsub: {error}")))?;
        }
        Ok(Self {
            scenario,
            seed: point.seed,
            threads: options.threads,
            custody,
            hosts,
            config: Arc::new(config),
            publisher_config: Arc::new(publisher_config),
            observer_config: Arc::new(observer_config),
            shared: Arc::new(Columns::new(
                workload.columns,
                workload.slots,
                workload.column_bytes(),
                point.seed,
            )),
            observer,
        })
    }

    fn count(&self) -> u32 {
        self.hosts.configs.len() as u32
    }

    /// The simulation of some of the hosts.
    fn simulation(&self, part: Range<u32>) -> Result<Simulation<ColumnsNode>, RunError> {
        let config = SimConfig {
            seed: self.seed,
            threads: self.threads,
            network: network::network(self.scenario, &self.hosts, self.seed),
            transport: network::transport(self.scenario),
            nic: network::nic(self.scenario),
            downlink_queue: network::downlink_queue(self.scenario),
        };
        let (publisher, observer) = (self.scenario.workload.publisher, self.observer);
        let configs = [&self.config, &self.publisher_config, &self.observer_config].map(Arc::clone);
        let (shared, custody, validation) =
            (Arc::clone(&self.shared), self.custody.clone(), self.hosts.validation.clone());
        let factory = move |host: u32| {
            let kind = if host == publisher { 1 } else { 2 * usize::from(Some(host) == observer) };
            let config = Arc::clone(&configs[kind]);
            let outbox = Outbox::new(config.outbox_config());
            let gossip = match GossipSub::new(config, identity_of(host)) {
                Ok(gossip) => gossip,
                Err(error) => unreachable!("the configuration was checked: {error}"),
            };
            let joins = custody[host as usize].clone();
            (ColumnsNode::new(gossip, Arc::clone(&shared), joins, validation[host as usize]), outbox)
        };
        let mut sim =
            Simulation::part_of_network(config, self.hosts.configs.clone(), Arc::new(factory), part)
                .map_err(|error| RunError::Scenario(error.to_string()))?;
        let protocol: Arc<str> = self.scenario.gossipsub.version.protocol().into();
        sim.set_protocol(move |_, _| Arc::clone(&protocol));
        Ok(sim)
    }

    fn schedule_links(&self, sim: &mut Simulation<ColumnsNode>, edges: &[(u32, u32)]) {
        let mut rng = NodeRng::new(self.seed, 2, Purpose::Topology);
        let publisher = self.scenario.workload.publisher;
        let observed = self.observer.map(|observer| {
            // The observer knows a few hosts of its own, besides the publisher.
            let mut hosts: Vec<u32> =
                (0..self.scenario.network.nodes).filter(|host| *host != publisher).collect();
            rng.shuffle(&mut hosts);
            hosts.truncate(self.scenario.network.topology.degree.max(8) as usize);
            hosts.into_iter().chain([publisher]).map(move |host| (observer, host))
        });
        let edges = edges.iter().copied().chain(observed.into_iter().flatten());
        schedule_links(sim, self.scenario, &mut rng, edges);
    }

    fn publish(&self, slot: u32) -> Command {
        if self.scenario.workload.batch {
            Command::PublishBatch { slot, schedule: self.publisher_config.schedule_publish.clone() }
        } else {
            Command::PublishEach { slot }
        }
    }

    /// The mean size of meshes, at the first process.
    fn mesh_size(&self, parts: &mut Parts<'_>) -> Result<f64, RunError> {
        let (mut total, mut meshes) = (0, 0);
        for host in parts.hosts() {
            let gossip = parts.sim.node(host).gossip();
            for topic in gossip.subscriptions() {
                total += gossip.mesh_peers(topic).len() as u64;
                meshes += 1;
            }
        }
        let [total, meshes] = parts.sum([total, meshes])?;
        Ok(total as f64 / meshes.max(1) as f64)
    }

    /// The mean congestion window of the publisher's links, at the first process.
    fn publisher_window(&self, parts: &mut Parts<'_>) -> Result<f64, RunError> {
        let publisher = self.scenario.workload.publisher;
        let mut windows = Vec::new();
        if parts.hosts().contains(&publisher) {
            windows = (0..self.count())
                .filter_map(|host| parts.sim.handle_of(publisher, host))
                .map(|peer| parts.sim.congestion_window(publisher, peer))
                .collect();
        }
        let windows = parts.of_one(&windows)?;
        Ok(windows.iter().sum::<f64>() / windows.len().max(1) as f64)
    }

    /// Copies that the hosts of this process withdrew.
    fn withdrawn(&self, parts: &Parts<'_>) -> u64 {
        let lanes = self.config.outbox_config().lanes.len() as u8;
        let of_host = |host| (0..lanes).map(move |lane| (host, samara_engine::outbox::Lane(lane)));
        let copies = |(host, lane)| parts.sim.outbox(host).counters(lane).withdrawn.copies;
        parts.hosts().flat_map(of_host).map(copies).sum()
    }
}

/// How far the run is, as the first process knows it.
fn how_far(share: f64, parts: &Parts<'_>, collector: &Collector) -> Progress {
    let expected = collector.deliveries().len();
    Progress {
        share,
        virtual_nanos: Some(parts.sim.now().as_nanos()),
        deliveries: Some((expected - collector.missing()) as u64),
        deliveries_expected: Some(expected as u64),
        copies: Some(collector.copies().len() as u64),
        // Those of other processes are told at the end only.
        steps: parts.is_alone().then(|| parts.sim.steps()),
    }
}

/// A lower bound of the mean time to custody: over all nodes if everything arrived, otherwise over whichever nodes were
/// done, since slow ones that are cut off make that mean as small as chance will have it.
pub fn columns_bound_ms(
    scenario: &Scenario,
    custody: &[Vec<u32>],
    hosts: &Hosts,
    columns: &Columns,
    everything_arrived: bool,
) -> f64 {
    let workload = &scenario.workload;
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
    if everything_arrived { bounds::mean_custody_ms(&limits) } else { bounds::any_node_ms(&limits) }
}
