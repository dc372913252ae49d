//! Blocks of columns, published by one node and kept by some.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use samara_engine::{NodeRng, Outbox, PeerId, Purpose, Time};
use samara_gossipsub::config::ValidatorHook;
use samara_gossipsub::{Config, GossipSub};
use samara_sim::{HostStats, SimConfig, Simulation, identity_of};

use super::{Progress, QUIET_NANOS, RunError, RunOptions, SLICE_NANOS, since};
use crate::jobs::columns::{Columns, ColumnsNode, Command, Told};
use crate::measure::{Collector, CopyRow};
use crate::network::{self, Hosts};
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

/// Runs a point.
pub(super) fn run(
    point: &Point,
    options: RunOptions<'_>,
    mut progress: impl FnMut(Progress),
) -> Result<ColumnsMeasured, RunError> {
    let scenario = &point.scenario;
    let custody = topology::custody(scenario, options.directory, point.seed).map_err(RunError::Scenario)?;
    let graph =
        topology::build(scenario, &custody, options.directory, point.seed).map_err(RunError::Scenario)?;
    let setup = Setup::new(point, custody, &graph.edges, options.threads)?;
    let mut sim = setup.simulation()?;
    setup.schedule_links(&mut sim, &graph.edges);
    super::schedule_faults(&mut sim, scenario, point.seed, &setup.hosts);
    let workload = &scenario.workload;
    let published: Vec<u64> = (0..workload.slots)
        .map(|slot| workload.warm_up.nanos() + u64::from(slot) * workload.slot_interval.nanos())
        .collect();
    for (slot, at) in (0..).zip(&published) {
        sim.command(Time::from_nanos(*at), workload.publisher, setup.publish(slot));
    }
    let nodes = scenario.network.nodes;
    let mut collector =
        Collector::new(workload.columns, workload.slots, &setup.custody, workload.publisher, nodes);
    let end = published.last().map_or(0, |last| last + workload.deadline.nanos());
    let mut now = 0;
    let mut before = Vec::new();
    let mut mesh_size = 0.0;
    let mut publisher_windows = Vec::new();
    while now < end {
        if options.stop.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted);
        }
        let slot = publisher_windows.len();
        if published.get(slot) == Some(&now) {
            if slot == 0 {
                before = (0..setup.count()).map(|host| *sim.stats(host)).collect();
                mesh_size = setup.mesh_size(&sim);
            }
            publisher_windows.push(setup.publisher_window(&sim));
        }
        let next_slot = published.get(publisher_windows.len()).copied().unwrap_or(end);
        let until = (now + SLICE_NANOS).min(next_slot).min(end);
        sim.run_until(Time::from_nanos(until), |record| match record.event {
            Told::Copy { column, from, first } => {
                collector.copy(CopyRow { at: record.at.as_nanos(), host: record.host, from, column, first });
            }
            Told::Lost => collector.lost(),
        });
        now = until;
        progress(how_far(now as f64 / end as f64, &sim, &collector));
        let all_published = publisher_windows.len() == published.len();
        let quiet = now > collector.last_copy_at() + QUIET_NANOS;
        if all_published && quiet && collector.missing_until(workload.slots) == 0 {
            break;
        }
    }
    progress(how_far(1.0, &sim, &collector));
    let traffic = (0..setup.count()).map(|host| since(sim.stats(host), before.get(host as usize))).collect();
    Ok(ColumnsMeasured {
        point: point.clone(),
        measured_nanos: now - published.first().copied().unwrap_or(0).min(now),
        traffic,
        lower_bound_ms: columns_bound_ms(
            scenario,
            &setup.custody,
            &setup.hosts,
            &setup.shared,
            collector.missing_until(workload.slots) == 0,
        ),
        withdrawn: setup.withdrawn(&sim),
        mesh_size,
        publisher_windows,
        digest: sim.digest(),
        steps: sim.steps(),
        latency_raised: sim.latency_was_raised(),
        hosts: setup.hosts,
        collector,
        published,
    })
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
        threads: usize,
    ) -> Result<Self, RunError> {
        let scenario = &point.scenario;
        let workload = &scenario.workload;
        let observer = workload.observer.then_some(scenario.network.nodes);
        let count = scenario.network.nodes + u32::from(observer.is_some());
        // The observer is the last that the publisher meets, so that its handle there is the number of other links.
        let publisher_links = edges.iter().filter(|(a, b)| [*a, *b].contains(&workload.publisher)).count();
        let handle = observer.map(|_| PeerId(publisher_links as u32));
        let hosts = network::hosts(scenario, count, point.seed);
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
            threads,
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

    fn simulation(&self) -> Result<Simulation<ColumnsNode>, RunError> {
        let config = SimConfig {
            seed: self.seed,
            threads: self.threads,
            network: network::network(self.scenario, self.count(), self.seed),
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
        let mut sim = Simulation::new(config, self.hosts.configs.clone(), Arc::new(factory))
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
        super::schedule_links(sim, self.scenario, &mut rng, edges);
    }

    fn publish(&self, slot: u32) -> Command {
        if self.scenario.workload.batch {
            Command::PublishBatch { slot, schedule: self.publisher_config.schedule_publish.clone() }
        } else {
            Command::PublishEach { slot }
        }
    }

    fn mesh_size(&self, sim: &Simulation<ColumnsNode>) -> f64 {
        let (mut total, mut meshes) = (0, 0);
        for host in 0..self.count() {
            let gossip = sim.node(host).gossip();
            for topic in gossip.subscriptions() {
                total += gossip.mesh_peers(topic).len();
                meshes += 1;
            }
        }
        f64::from(total as u32) / f64::from(meshes.max(1))
    }

    fn publisher_window(&self, sim: &Simulation<ColumnsNode>) -> f64 {
        let publisher = self.scenario.workload.publisher;
        let windows: Vec<f64> = (0..self.count())
            .filter_map(|host| sim.handle_of(publisher, host))
            .map(|peer| sim.congestion_window(publisher, peer))
            .collect();
        windows.iter().sum::<f64>() / windows.len().max(1) as f64
    }

    fn withdrawn(&self, sim: &Simulation<ColumnsNode>) -> u64 {
        let lanes = self.config.outbox_config().lanes.len() as u8;
        (0..self.count())
            .flat_map(|host| (0..lanes).map(move |lane| (host, samara_engine::outbox::Lane(lane))))
            .map(|(host, lane)| sim.outbox(host).counters(lane).withdrawn.copies)
            .sum()
    }
}

fn how_far(share: f64, sim: &Simulation<ColumnsNode>, collector: &Collector) -> Progress {
    let expected = collector.deliveries().len();
    Progress {
        share,
        virtual_nanos: Some(sim.now().as_nanos()),
        deliveries: Some((expected - collector.missing()) as u64),
        deliveries_expected: Some(expected as u64),
        copies: Some(collector.copies().len() as u64),
        steps: Some(sim.steps()),
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
        latency_nanos: network::least_latency_nanos(scenario),
        validation_nanos: hosts.validation.iter().map(|time| time.as_nanos() as u64).min().unwrap_or(0),
    };
    if everything_arrived { bounds::mean_custody_ms(&limits) } else { bounds::any_node_ms(&limits) }
}
