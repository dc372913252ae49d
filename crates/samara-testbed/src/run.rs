//! One run of a testbed, from the first process to the figures.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use samara_emulation::RelayReport;
use samara_lab::columns::{ColumnsMeasured, least_frame_bytes};
use samara_lab::messages::{MessagesMeasured, Plan};
use samara_lab::network::Hosts;
use samara_lab::results::{Measured, RealRun};
use samara_lab::run::{Progress, with_paths};
use samara_lab::statistics::Statistics;
use samara_lab::{network, processes};
use samara_node::model::{PlannedReport, Publication};
use samara_scenario::Inputs;
use samara_sim::{Arrivals, HostStats, RivalStats};
use samara_spec::Point;
use samara_spec::columns::Columns;
use samara_spec::mix::Mix;
use samara_trace::live::LiveWriter;
use serde_json::json;

use crate::client::{Client, Metrics};
use crate::collect::{self, Events};
use crate::fleet::{self, HostProgram};
use crate::plan::{Job, Wanted, needs_hosts, patience};
use crate::process::{NodeProcess, Usage};
use crate::rivals::{self, Rivals};
use crate::wire::{self, Wire, multiaddr};
use crate::{NodeProgram, TestbedError, live, mix, nodefile, pools, readiness};

#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The source of the files that the scenario names.
    pub inputs: &'a Inputs,
    /// The directory for configurations, logs and traces of nodes.
    pub nodes: &'a Path,
    /// The programs of the nodes. Nodes use them in turn: the first node the first program, and so
    /// on.
    pub programs: &'a [NodeProgram],
    /// The command line that starts a host of this run, for protocols without a node.
    pub host: &'a HostProgram,
    /// Maximum time until the network is ready. Also that of each process to listen, if it is less
    /// than 30 s.
    pub ready_timeout: Duration,
    /// Whether this process has its own network namespace, whose settings it may change.
    pub private_network: bool,
    /// Receives the counters of nodes while they run.
    pub live: &'a LiveWriter,
    pub stop: &'a AtomicBool,
}

impl Options<'_> {
    /// Maximum time for a process to listen.
    pub(crate) fn start_timeout(&self) -> Duration {
        self.ready_timeout.min(Duration::from_secs(30))
    }
}

pub(crate) struct Stop<'a>(pub(crate) &'a AtomicBool);

impl Stop<'_> {
    pub(crate) fn check(&self) -> Result<(), TestbedError> {
        if self.0.load(Ordering::Relaxed) { Err(TestbedError::Interrupted) } else { Ok(()) }
    }
}

/// Maximum time for a process to end after a request to stop.
pub(crate) const END_TIMEOUT: Duration = Duration::from_secs(30);
/// Least time from the hand-out of publications to the first of them, in which every node must receive
/// its own.
const LEAD: Duration = Duration::from_secs(2);
/// Nodes have this many times as long in addition as all of them took to report their metrics before,
/// which is long on a busy machine. A choice.
const LEAD_REPORTS: u32 = 10;
/// The interval between two samples of the deliveries.
pub(crate) const SAMPLE_EVERY: Duration = Duration::from_millis(500);
/// Time after the last delivery in which late copies are still counted.
pub(crate) const QUIET: Duration = Duration::from_secs(1);
/// The metric of withdrawn copies.
const WITHDRAWN: &str = "samara_withdrawn_copies_total";

/// What a run measured.
#[derive(Debug)]
pub struct Done {
    pub measured: Box<dyn Measured>,
    pub real: RealRun,
    /// What uploads and calls in the houses of nodes got.
    pub rivals: Vec<RivalStats>,
}

/// The name of this program's own node.
pub const SAMARA: &str = "samara";

/// Checks what can be checked before the first run takes its time.
///
/// # Errors
/// The scenario has something that exists in the simulator only.
pub fn check(point: &Point, inputs: &Inputs, programs: &[NodeProgram]) -> Result<(), TestbedError> {
    let checked = rivals::possible(&point.scenario).and_then(|()| {
        let needs = needs_hosts(&point.scenario, &hosts(point, inputs)?);
        if needs.is_some() || has_hosts(&point.scenario, programs) {
            processes::check(&point.scenario)?;
            if programs.iter().any(|program| program.name != SAMARA) {
                return Err(format!(
                    "--node: this run needs hosts, which only {SAMARA} has; remove the option, or use samara run"
                ));
            }
        }
        Ok(())
    });
    checked.map_err(TestbedError::Scenario)
}

/// Returns true if hosts have all that nodes of these programs have.
fn has_hosts(scenario: &samara_spec::Scenario, programs: &[NodeProgram]) -> bool {
    scenario.selected.protocol() == "gossipsub" && programs.iter().all(|program| program.name == SAMARA)
}

/// Returns the hosts of the network of a point.
fn hosts(point: &Point, inputs: &Inputs) -> Result<Hosts, String> {
    let scenario = &point.scenario;
    let count = scenario.network.nodes + (scenario.family().extra_hosts)(scenario);
    network::hosts(scenario, inputs, count, point.seed)
}

/// Runs a point on real nodes. Calls `progress` with the current activity and its progress.
///
/// # Errors
/// The scenario cannot run on real nodes, links cannot be emulated, a node ended, hung or
/// misbehaved, or the run was interrupted.
pub fn run(
    point: &Point,
    options: Options<'_>,
    progress: impl FnMut(&str, Progress),
) -> Result<Done, TestbedError> {
    let run = run_nodes(point, options, progress);
    // Ctrl-C also reaches the nodes, so that their end is not the error.
    run.map_err(|error| if options.stop.load(Ordering::Relaxed) { TestbedError::Interrupted } else { error })
}

fn run_nodes(
    point: &Point,
    options: Options<'_>,
    mut progress: impl FnMut(&str, Progress),
) -> Result<Done, TestbedError> {
    if point.scenario.find::<Mix>().is_some() {
        let mut share = |what: &str, share| progress(what, Progress { share, ..Progress::default() });
        return mix::run(point, options, &mut share);
    }
    let emulated = hosts(point, options.inputs).map_err(TestbedError::Scenario)?;
    if needs_hosts(&point.scenario, &emulated).is_some() || has_hosts(&point.scenario, options.programs) {
        return fleet::run(point, &emulated, options, progress);
    }
    let stop = Stop(options.stop);
    let mut doubts = wire::prepare(&point.scenario, options.private_network);
    let scenario = &point.scenario;
    let wanted = Wanted::new(point, options.inputs).map_err(TestbedError::Scenario)?;
    let mut wire = Wire::new(scenario, &wanted.hosts, point.seed)?;
    let mut rivals = Rivals::new(scenario, &wanted.hosts, point.seed, &wire)?;
    progress("starting nodes", live::at(0.0));
    let mut nodes = start(point, options, &wanted, &wire)?;
    dial(&mut nodes, point, &wanted, &wire, &stop)?;
    progress("waiting for links and meshes", live::at(0.0));
    let ready = readiness::wait(&mut nodes, scenario, &wanted, options.ready_timeout, &stop, options.nodes)?;
    let asked = Instant::now();
    let before = MetricsSnapshots::new(&mut nodes, &mut wire, |_| true)?;
    let lead = rivals.before(wanted.warm_up(scenario)).max(LEAD + LEAD_REPORTS * asked.elapsed());
    let times = (lead, &mut rivals);
    let (measured, late_ms, after, rivals) = if let Job::Transactions { .. } = &wanted.job {
        let mut driven = pools::drive(&mut nodes, point, times, (&stop, options.live), &mut progress)?;
        let rivals = rivals.end()?;
        progress("stopping nodes", live::at(1.0));
        let after = MetricsSnapshots::new(&mut nodes, &mut wire, |_| true)?;
        doubts.extend(end(&mut nodes)?);
        let measured = pools::measured(point, &wanted, &mut driven, (&before, &after));
        doubts.append(&mut driven.doubts);
        (measured, driven.late_ms, after, rivals)
    } else {
        let waited = waits(&mut nodes);
        let (first_unix_ns, planned, late_ms) =
            publish(&mut nodes, point, (&wanted, times), (&stop, options.live), &mut progress)?;
        let rivals = rivals.end()?;
        progress("stopping nodes", live::at(1.0));
        let after = MetricsSnapshots::new(&mut nodes, &mut wire, |_| true)?;
        let waited = waits(&mut nodes).saturating_sub(waited) / nodes.len().max(1) as u32;
        doubts.extend(end(&mut nodes)?);
        progress("reading traces", live::at(1.0));
        let traces: Vec<_> = nodes.iter().map(|node| node.trace.as_path()).collect();
        let events = collect::events(&traces)?;
        doubts.extend(missing(&events, &planned));
        doubts.extend(events.doubt());
        let last = events.received.iter().filter(|row| row.first).map(|row| row.at).max().unwrap_or(0);
        doubts.extend(starved(waited, last.saturating_sub(first_unix_ns)));
        let measured = of_traces(point, &wanted, &events, (&before, &after), first_unix_ns);
        (measured, late_ms, after, rivals)
    };
    doubts.extend(after.relay.as_ref().map(RelayReport::doubts).unwrap_or_default());
    let relay = after.relay.as_ref();
    let real =
        RealRun { publish_error_ms: Statistics::of(&late_ms), doubts, ..real(options, &nodes, ready, relay) };
    Ok(Done { measured, real, rivals })
}

/// Returns the time for which all nodes together were ready to run and had no processor.
fn waits(nodes: &mut [NodeProcess]) -> Duration {
    nodes.iter_mut().for_each(NodeProcess::sample);
    nodes.iter().map(|node| node.usage.waited).sum()
}

/// The share of the time of a run for which a node may wait for a processor.
const WAITED_SHARE: f64 = 0.05;

/// Doubts figures of nodes that waited for processors, each `waited` on average, until the last
/// arrival after `nanos`.
pub(crate) fn starved(waited: Duration, nanos: u64) -> Option<String> {
    let share = waited.as_secs_f64() * 1e9 / nanos.max(1) as f64;
    (share > WAITED_SHARE).then(|| {
        format!(
            "nodes waited {:.0} ms each for a processor, {:.0} % of the time until the last arrival; lower the number of \
             nodes or the rates, or stop other work",
            waited.as_secs_f64() * 1e3,
            share * 100.0
        )
    })
}

/// Describes these nodes and emulated links beside the figures.
pub(crate) fn real(
    options: Options<'_>,
    nodes: &[NodeProcess],
    ready: Duration,
    relay: Option<&RelayReport>,
) -> RealRun {
    let usage: Vec<Usage> = nodes.iter().map(|node| node.usage).collect();
    real_run(options.programs.iter().map(|program| program.name.clone()).collect(), &usage, ready, relay)
}

/// As [`real`], from the use of resources of each node.
pub(crate) fn real_run(
    programs: Vec<String>,
    nodes: &[Usage],
    ready: Duration,
    relay: Option<&RelayReport>,
) -> RealRun {
    let usage = |value: fn(&Usage) -> f64| Statistics::of(&nodes.iter().map(value).collect::<Vec<_>>());
    RealRun {
        programs,
        ready_s: ready.as_secs_f64(),
        node_cpu_s: usage(|node| node.cpu_s),
        node_cpu_share_max: usage(|node| node.cpu_share_max),
        node_cpu_share_mean: usage(|node| node.cpu_share_mean),
        node_io_bytes: usage(|node| node.io_bytes as f64),
        node_peak_rss_bytes: usage(|node| node.rss_bytes_max as f64),
        node_open_fds: usage(|node| node.fds_max as f64),
        relay_cpu_share: relay.map(RelayReport::cpu_share),
        relay_late_p99_ms: relay.map(|relay| relay.lateness.p99.as_secs_f64() * 1e3),
        ..RealRun::default()
    }
}

/// Makes nodes dial each other along the edges of the graph.
fn dial(
    nodes: &mut [NodeProcess],
    point: &Point,
    wanted: &Wanted,
    wire: &Wire,
    stop: &Stop<'_>,
) -> Result<(), TestbedError> {
    for (dialler, listener) in &wanted.graph.edges {
        stop.check()?;
        let address = wire.dialled(*dialler, *listener);
        let other = &nodes[*listener as usize];
        let (path, address) = match wanted.job {
            Job::Transactions { .. } => {
                ("/v1/pool/dial", format!("{}@{}", other.pool_id, wire::pool(address)))
            }
            _ => {
                let address = multiaddr(address, point.scenario.transport.kind);
                ("/v1/dial", format!("{address}/p2p/{}", other.peer_id))
            }
        };
        let body = json!({ "address": address });
        nodes[*dialler as usize].ask("set-up", |client| client.post(path, &body))?;
    }
    Ok(())
}

/// The planned time of the first publication, all publications by node, and their lateness in
/// milliseconds.
type Published = (u64, Vec<Vec<Publication>>, Vec<f64>);

/// Hands out all publications, the first of which is `lead` away, starts the rivals, and waits until the
/// publications have been delivered.
fn publish(
    nodes: &mut [NodeProcess],
    point: &Point,
    (wanted, (lead, rivals)): (&Wanted, (Duration, &mut Rivals)),
    (stop, live): (&Stop<'_>, &LiveWriter),
    progress: &mut impl FnMut(&str, Progress),
) -> Result<Published, TestbedError> {
    let first_unix_ns = unix_ns() + lead.as_nanos() as u64;
    let planned = wanted.publications(&point.scenario, first_unix_ns);
    for (node, publications) in nodes.iter_mut().zip(&planned) {
        if !publications.is_empty() {
            node.ask("hand-out of publications", |client| {
                client.post("/v1/schedule", &json!({ "publications": publications }))
            })?;
        }
    }
    rivals.begin(first_unix_ns - wanted.warm_up(&point.scenario))?;
    watch(nodes, point, wanted, first_unix_ns, (stop, live), progress)?;
    let mut late_ms = Vec::new();
    for (node, publications) in nodes.iter_mut().zip(&planned).filter(|(_, planned)| !planned.is_empty()) {
        let made: Vec<PlannedReport> = node.ask("collection", |client| client.get("/v1/schedule"))?;
        let missed = made.iter().filter(|made| made.actual_unix_ns.is_none()).count();
        if missed > 0 || made.len() != publications.len() {
            let all = publications.len();
            return Err(TestbedError::Scenario(format!(
                "{missed} of {all} publications of a node were not made in time; increase the duration of the scenario"
            )));
        }
        late_ms.extend(made.iter().filter_map(|made| made.late_ns).map(|late| late as f64 / 1e6));
    }
    Ok((first_unix_ns, planned, late_ms))
}

/// Turns traces of messages or blocks into the measurements of a simulation.
pub(crate) fn of_traces(
    point: &Point,
    wanted: &Wanted,
    events: &Events,
    snapshots: (&MetricsSnapshots, &MetricsSnapshots),
    first_unix_ns: u64,
) -> Box<dyn Measured> {
    match &wanted.job {
        Job::Messages { plan } => messages(point, wanted, plan, events, snapshots, first_unix_ns),
        _ => columns(point, wanted, events, snapshots, first_unix_ns),
    }
}

/// Returns the number of messages of a publication.
pub(crate) fn message_count(publication: &Publication) -> usize {
    let of_block = publication.block.as_ref().map_or(0, |block| block.topics.len());
    of_block + publication.batch.as_ref().map_or(0, Vec::len)
}

/// Compares the number of publications in the traces with the plan.
pub(crate) fn missing(events: &Events, planned: &[Vec<Publication>]) -> Option<String> {
    let expected: usize = planned.iter().flatten().map(message_count).sum();
    let found = events.published.len();
    (found != expected)
        .then(|| format!("the traces have {found} publications; expected {expected} as planned"))
}

/// Starts all processes and waits until they listen.
fn start(
    point: &Point,
    options: Options<'_>,
    wanted: &Wanted,
    wire: &Wire,
) -> Result<Vec<NodeProcess>, TestbedError> {
    // A second thread of a node that has less than a processor only takes work from the first, at the
    // cost of a wake-up for each.
    let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let workers = (point.scenario.network.nodes as usize > processors).then_some(1);
    let mut nodes = Vec::new();
    for node in 0..point.scenario.network.nodes {
        let directory = options.nodes.join(format!("node-{node}"));
        let at = |path: &Path| TestbedError::io(path.display().to_string());
        fs::create_dir_all(&directory).map_err(at(&directory))?;
        let directory = directory.canonicalize().map_err(at(&directory))?;
        let (config, trace): (PathBuf, PathBuf) = (directory.join("node.toml"), directory.join("trace.pb"));
        let text = nodefile::text(&point.scenario, wanted, node, wire.own(node), &trace, None)
            .map_err(TestbedError::Scenario)?;
        fs::write(&config, text).map_err(at(&config))?;
        let program = &options.programs[node as usize % options.programs.len()];
        nodes.push(NodeProcess::spawn(node, program, &directory, &config, trace, workers)?);
    }
    for node in &mut nodes {
        node.wait_ready(options.start_timeout(), &Stop(options.stop))?;
    }
    Ok(nodes)
}

/// Waits until all messages have been delivered, or their time is over.
fn watch(
    nodes: &mut [NodeProcess],
    point: &Point,
    wanted: &Wanted,
    first_unix_ns: u64,
    (stop, live): (&Stop<'_>, &LiveWriter),
    progress: &mut impl FnMut(&str, Progress),
) -> Result<(), TestbedError> {
    let scenario = &point.scenario;
    let expected = wanted.deliveries(scenario);
    let last = first_unix_ns + wanted.duration(scenario);
    let end = last + patience(scenario).nanos();
    let mut complete_since = None;
    loop {
        stop.check()?;
        std::thread::sleep(SAMPLE_EVERY);
        let (mut delivered, mut is_complete) = (0.0, true);
        for (number, node) in nodes.iter_mut().enumerate() {
            node.check("run")?;
            node.sample();
            let metrics = node.ask("run", Client::metrics)?;
            live::report(live, number, &metrics);
            let own = wanted.received(number, scenario, &metrics);
            delivered += own;
            is_complete &= own >= expected[number] as f64;
        }
        progress("publishing", live::delivered(delivered, expected.iter().sum()));
        let now = unix_ns();
        if now > last && is_complete {
            let since = *complete_since.get_or_insert_with(Instant::now);
            if since.elapsed() > QUIET {
                return Ok(());
            }
        }
        if now > end {
            return Ok(());
        }
    }
}

/// Ends all processes in an orderly way. Returns doubts about the copies and events that they left
/// or lost.
fn end(nodes: &mut [NodeProcess]) -> Result<Vec<String>, TestbedError> {
    nodes.iter_mut().for_each(NodeProcess::sample);
    nodes.iter().for_each(NodeProcess::terminate);
    let mut doubts = Vec::new();
    for (number, node) in nodes.iter_mut().enumerate() {
        let stopped = node.wait_stopped(END_TIMEOUT)?;
        let left = stopped.left_copies + stopped.pool.map_or(0, |pool| pool.left_copies);
        if left > 0 {
            doubts.push(format!("node {number} still owed {left} copies at the end"));
        }
        if let Some(trace) = stopped.trace.filter(|trace| trace.dropped + trace.failed > 0) {
            let error = trace.error.map(|error| format!(" ({error})")).unwrap_or_default();
            doubts.push(format!(
                "{} events are missing from the trace of node {number}{error}",
                trace.dropped + trace.failed
            ));
        }
    }
    Ok(doubts)
}

/// The counters of nodes and of the relay at one moment.
pub(crate) struct MetricsSnapshots {
    /// Metrics by node.
    pub(crate) metrics: Vec<Metrics>,
    pub(crate) relay: Option<RelayReport>,
}

impl MetricsSnapshots {
    /// Takes a snapshot. Processes that are not `alive`, which have ended on purpose, count
    /// nothing.
    pub(crate) fn new(
        nodes: &mut [NodeProcess],
        wire: &mut Wire,
        alive: impl Fn(&mut NodeProcess) -> bool,
    ) -> Result<Self, TestbedError> {
        let metrics = nodes.iter_mut().map(|node| {
            if alive(node) { node.ask("measurement", Client::metrics) } else { Ok(Metrics::default()) }
        });
        let metrics = metrics.collect::<Result<_, _>>()?;
        let relay = match wire {
            Wire::Loopback => None,
            Wire::Relay(relay) => Some(relay.report()?),
        };
        Ok(Self { metrics, relay })
    }

    /// The sum of a metric over all nodes, and over all labels that contain `label`.
    fn sum(&self, name: &str, label: &str) -> f64 {
        self.metrics.iter().map(|metrics| metrics.sum(name, label)).sum()
    }

    fn meshes(&self) -> f64 {
        self.sum("samara_mesh_size", "")
    }
}

/// The growth of a metric over all nodes between two snapshots.
pub(crate) fn growth(
    (before, after): (&MetricsSnapshots, &MetricsSnapshots),
    name: &str,
    label: &str,
) -> u64 {
    (after.sum(name, label) - before.sum(name, label)).max(0.0) as u64
}

/// Traffic of each node between two snapshots. `frames` fills in the nodes' own counts; its second
/// argument returns the growth of a metric with a label. Packets and their loss are known for
/// emulated links only.
pub(crate) fn traffic(
    (before, after): (&MetricsSnapshots, &MetricsSnapshots),
    frames: impl Fn(&mut HostStats, &dyn Fn(&str, &str) -> u64),
) -> Vec<HostStats> {
    (0..after.metrics.len())
        .map(|node| {
            let since = |name: &str, label: &str| {
                let value = |snapshots: &MetricsSnapshots| snapshots.metrics[node].sum(name, label);
                (value(after) - value(before)).max(0.0) as u64
            };
            let mut stats = HostStats::default();
            frames(&mut stats, &since);
            if let (Some(before), Some(after)) = (&before.relay, &after.relay) {
                emulated(&mut stats, &before.hosts[node], &after.hosts[node]);
            }
            stats
        })
        .collect()
}

/// Fills in the bytes of RPCs. On plain loopback there is nothing else to count.
fn rpcs(stats: &mut HostStats, since: &dyn Fn(&str, &str) -> u64) {
    stats.frames_sent.payload_bytes = since("samara_bytes_up_total", "payload");
    stats.frames_sent.control_bytes = since("samara_bytes_up_total", "control");
    stats.frames_received.payload_bytes = since("samara_bytes_down_total", "payload");
    stats.frames_received.control_bytes = since("samara_bytes_down_total", "control");
    stats.frames_received.frames = since("samara_rpcs_received_total", "");
    stats.sent.bytes = stats.frames_sent.payload_bytes + stats.frames_sent.control_bytes;
    stats.received.bytes = stats.frames_received.payload_bytes + stats.frames_received.control_bytes;
}

pub(crate) fn emulated(
    stats: &mut HostStats,
    before: &samara_emulation::HostCounters,
    after: &samara_emulation::HostCounters,
) {
    stats.sent = after.sent.since(&before.sent);
    stats.received = after.received.since(&before.received);
    stats.drops.uplink_full = after.drops.uplink_full.since(&before.drops.uplink_full);
    stats.drops.uplink_codel = after.drops.uplink_codel.since(&before.drops.uplink_codel);
    stats.drops.partition = after.drops.cut.since(&before.drops.cut);
    stats.drops.random = after.drops.random.since(&before.drops.random);
    stats.drops.downlink_full = after.drops.downlink_full.since(&before.drops.downlink_full);
    stats.drops.downlink_codel = after.drops.downlink_codel.since(&before.drops.downlink_codel);
}

fn messages(
    point: &Point,
    wanted: &Wanted,
    plan: &Plan,
    events: &Events,
    snapshots: (&MetricsSnapshots, &MetricsSnapshots),
    first: u64,
) -> Box<dyn Measured> {
    let start = first - wanted.warm_up(&point.scenario);
    // The bounds are those of the smallest message.
    let bounds = (plan.sizes.iter().min().copied().unwrap_or(0) as u32, Duration::ZERO);
    let mut measured = MessagesMeasured::new(point, &wanted.hosts, (&wanted.graph, plan), bounds);
    let MessagesMeasured { collector, counts, .. } = &mut measured;
    let numbers = events.numbers(&plan.publishers);
    for (message, number) in events.published.iter().zip(&numbers) {
        if let Some(number) = number {
            collector.published(*number, message.at.saturating_sub(start));
        }
    }
    let mut last = 0;
    for row in &events.received {
        last = row.at.saturating_sub(start);
        match numbers[row.message] {
            Some(number) if row.first => {
                collector.delivered(number, row.node, row.from, last);
            }
            Some(_) => counts[row.node as usize].duplicates += 1,
            // `missing` reports it as a doubt.
            None => {}
        }
    }
    for (counts, metrics) in counts.iter_mut().zip(&snapshots.1.metrics) {
        counts.answered = metrics.sum("samara_copies_owed_total", "answer") as u64;
    }
    events.dropped.iter().for_each(|(node, peer)| collector.lost(*node, *peer));
    let measured = MessagesMeasured {
        measured_nanos: last.saturating_sub(wanted.warm_up(&point.scenario)),
        withdrawn: growth(snapshots, WITHDRAWN, ""),
        mesh_size: snapshots.0.meshes() / f64::from(point.scenario.network.nodes),
        traffic: traffic(snapshots, rpcs),
        ..measured
    };
    let explained = measured.explained(arrivals(events, &numbers, wanted, start));
    with_paths(Box::new(measured), explained)
}

fn arrivals(events: &Events, numbers: &[Option<u32>], wanted: &Wanted, start: u64) -> Arrivals {
    let nodes = wanted.hosts.configs.len() as u32;
    events.arrivals((numbers, nodes), start, |from, to| network::latency_nanos(&wanted.hosts, from, to))
}

fn columns(
    point: &Point,
    wanted: &Wanted,
    events: &Events,
    snapshots: (&MetricsSnapshots, &MetricsSnapshots),
    first: u64,
) -> Box<dyn Measured> {
    let Job::Columns { custody, columns, cells } = &wanted.job else { unreachable!("the job is columns") };
    let start = first - wanted.warm_up(&point.scenario);
    let numbers = events.columns(&columns.topics);
    let frame_bytes = least_frame_bytes(point.scenario.part(), columns);
    let mut measured = ColumnsMeasured::new(point, &wanted.hosts, custody, frame_bytes);
    measured.published.fill(u64::MAX);
    for (message, column) in events.published.iter().zip(&numbers) {
        let slot = column.map(|column| (column / columns.count()) as usize);
        if let Some(at) = slot.and_then(|slot| measured.published.get_mut(slot)) {
            *at = (*at).min(message.at.saturating_sub(start));
        }
    }
    events.copies(&numbers, start).into_iter().for_each(|row| measured.collector.copy(row));
    measured.collector.queue_drops = events.dropped.len() as u64;
    let joined: usize = wanted.topics.iter().map(Vec::len).sum();
    measured.withdrawn = growth(snapshots, WITHDRAWN, "");
    measured.mesh_size = snapshots.0.meshes() / joined.max(1) as f64;
    measured.traffic = traffic(snapshots, rpcs);
    if cells.is_some() {
        for (message, node, at) in &events.completed {
            if let Some(column) = numbers[*message] {
                measured.collector.rebuilt(at.saturating_sub(start), *node, column);
            }
        }
        let publisher = point.scenario.part::<Columns>().publisher as usize;
        measured.cells = CELL_COUNTS.map(|(name, label)| {
            let of = |snapshot: &MetricsSnapshots| {
                let others = snapshot.metrics.iter().enumerate().filter(|(node, _)| *node != publisher);
                others.map(|(_, metrics)| metrics.sum(name, label)).sum::<f64>()
            };
            (of(snapshots.1) - of(snapshots.0)) as u64
        });
        // Traces do not tell the senders of cells.
        return Box::new(measured);
    }
    let explained = measured.explained(arrivals(events, &numbers, wanted, start));
    with_paths(Box::new(measured), explained)
}

/// The metrics of the counts in [`ColumnsMeasured::cells`].
const CELL_COUNTS: [(&str, &str); 5] = [
    ("samara_cells_missing_total", ""),
    ("samara_columns_local_total", ""),
    ("samara_partial_received_total", "parts"),
    ("samara_partial_received_total", "headers"),
    ("samara_partial_received_total", "metadata"),
];

pub(crate) fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_wait_for_processors_are_a_doubt() {
        let ms = Duration::from_millis;
        assert_eq!(starved(ms(49), 1_000_000_000), None);
        let doubt = starved(ms(300), 1_000_000_000).expect("a doubt");
        assert!(doubt.starts_with("nodes waited 300 ms each for a processor, 30 %"), "{doubt}");
        assert!(starved(ms(1), 0).is_some());
    }
}
