//! A mix pool on real processes: the nodes of the pool, the scheduler, and a sender in this
//! process.

mod events;
mod nodes;
mod sender;
mod snapshots;

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use samara_apps::mix::Costs;
use samara_emulation::RelayReport;
use samara_lab::mix::MixMeasured;
use samara_lab::network::{self, Hosts};
use samara_lab::results::RealRun;
use samara_lab::run::with_paths;
use samara_mix::Parameters;
use samara_net::mix::{Fingerprint, Identity};
use samara_node::model::MixStatus;
use samara_spec::mix::Mix;
use samara_spec::{Point, Scenario};

use crate::process::NodeProcess;
use crate::rivals::Rivals;
use crate::run::{Done, Options, Stop, real_run, unix_ns};
use crate::wire::Wire;
use crate::{NodeProgram, TestbedError, wire};
use nodes::{FaultDriver, Processors};
use sender::{RoundOutcome, Sender};
use snapshots::{MetricsSnapshots, traffic};

pub(crate) use nodes::possible;

/// Maximum time for a process to end after a request to stop.
const END_TIMEOUT: Duration = Duration::from_secs(30);
/// The interval between two samples of the nodes.
const SAMPLE_EVERY: Duration = Duration::from_millis(100);
/// Time after the last delivery in which late frames are still counted.
const QUIET: Duration = Duration::from_secs(1);

/// All participants: nodes, then the scheduler, then the sender.
pub(crate) struct Participants {
    hosts: Hosts,
    keys: Vec<Identity>,
    nodes: u32,
}

impl Participants {
    fn scheduler(&self) -> u32 {
        self.nodes
    }

    fn sender(&self) -> u32 {
        self.nodes + 1
    }

    fn fingerprint(&self, host: u32) -> Fingerprint {
        self.keys[host as usize].fingerprint()
    }
}

pub(crate) fn run(
    point: &Point,
    options: Options<'_>,
    progress: &mut impl FnMut(&str, f64),
) -> Result<Done, TestbedError> {
    let stop = Stop(options.stop);
    let scenario = &point.scenario;
    let mix: &Mix = scenario.part();
    let mut doubts = wire::prepare_grpc(&scenario.transport, options.private_network);
    possible(scenario).map_err(TestbedError::Scenario)?;
    let nodes = scenario.network.nodes;
    let cast = Participants {
        hosts: network::hosts(scenario, options.inputs, nodes + 2, point.seed)
            .map_err(TestbedError::Scenario)?,
        keys: (0..nodes + 2)
            .map(|_| Identity::generate())
            .collect::<Result<_, _>>()
            .map_err(|error| TestbedError::Scenario(error.to_string()))?,
        nodes,
    };
    let mut wire = Wire::new(scenario, &cast.hosts, point.seed)?;
    let mut rivals = Rivals::new(scenario, &cast.hosts, point.seed, &wire)?;
    // Created before the processes, so that these end first.
    let mut processors = Processors::new(mix, nodes).map_err(TestbedError::Scenario)?;
    progress("starting nodes", 0.0);
    let mut processes = start(point, options, &cast, &wire)?;
    let mut client = Sender::start(scenario, &cast, &wire, options.nodes)?;
    progress("waiting for links", 0.0);
    let started = Instant::now();
    client.wait_ready(options.ready_timeout, &stop)?;
    let ready = started.elapsed();
    client.stock(mix.stock(), point.seed, &stop, &mut processes, progress)?;
    let before = MetricsSnapshots::new(&mut processes, &mut wire, |_| true)?;
    let cpu_before = seconds(&mut processes);
    processors.limit(&processes).map_err(TestbedError::Scenario)?;
    let (begun, clock) = (unix_ns(), Instant::now());
    client.begin();
    rivals.begin(begun)?;
    let mut harm = FaultDriver::new(scenario, point.seed, options, &cast);
    let watched = (&mut harm, &mut processors);
    let went = watch(&mut processes, &mut client, watched, scenario, &stop, progress)?;
    let rivals = rivals.end()?;
    let wall_s = clock.elapsed().as_secs_f64();
    let (busiest, machine) = busy(&cpu_before, &seconds(&mut processes), wall_s);
    progress("stopping nodes", 1.0);
    std::thread::sleep(QUIET);
    let after = MetricsSnapshots::new(&mut processes, &mut wire, |node| node.check("measurement").is_ok())?;
    let happened = events::collect(&mut processes, harm.take_events(), scenario, &went, begun)?;
    doubts.extend(happened.doubts);
    let errors: Vec<&String> = went.values().filter_map(|went| went.error.as_ref()).collect();
    if let Some(first) = errors.first() {
        doubts.push(format!(
            "{} batches were rejected or have no result; the first one: {first}",
            errors.len()
        ));
    }
    doubts.extend(client.doubt());
    doubts.extend(after.relay.as_ref().map(RelayReport::doubts).unwrap_or_default());
    end(&mut processes, &mut doubts)?;
    let usage: Vec<_> = processes[..nodes as usize].iter().map(|node| node.usage).collect();
    let real = RealRun {
        busiest_node_cpu_share: Some(busiest),
        machine_cpu_share: Some(machine),
        doubts,
        ..real_run(vec![options.node.name.clone()], &usage, ready, after.relay.as_ref())
    };
    let mut traffic = traffic((&before, &after), frames);
    traffic.truncate(nodes as usize);
    let measured = MixMeasured {
        point: point.clone(),
        config: scenario.mix_config(),
        costs: Costs::of(mix),
        deliveries: happened.collector.deliveries(),
        told: happened.collector,
        without_ms: Vec::new(),
        traffic,
        hosts: cast.hosts,
        begun: begun.saturating_sub(happened.start),
        over: happened.over,
        processors: processors.done(happened.start),
        harm: harm.done(happened.start, scenario.mix_config().reconnect.max),
        ignored: happened.ignored,
        resent_frames: happened.resent_frames,
        refused_frames: 0,
        held_bytes_max: 0,
        digest: (0, 0),
    };
    let explained = measured.explained();
    Ok(Done { measured: with_paths(Box::new(measured), explained), real, rivals })
}

/// Fills in the bytes of frames. Nodes do not count payload separately.
fn frames(stats: &mut samara_sim::HostStats, since: &dyn Fn(&str, &str) -> u64) {
    stats.frames_sent.payload_bytes = since("samara_mix_bytes_total", "up");
    stats.frames_received.payload_bytes = since("samara_mix_bytes_total", "down");
    stats.frames_received.frames = since("samara_mix_frames_total", "down");
    stats.sent.bytes = stats.frames_sent.payload_bytes;
    stats.received.bytes = stats.frames_received.payload_bytes;
}

/// Starts the process of a host: a node, or the scheduler.
pub(crate) fn spawn(
    host: u32,
    program: &NodeProgram,
    directory: &std::path::Path,
) -> Result<NodeProcess, TestbedError> {
    let config = directory.join("node.toml");
    NodeProcess::spawn(host, program, directory, &config)
}

fn start(
    point: &Point,
    options: Options<'_>,
    cast: &Participants,
    wire: &Wire,
) -> Result<Vec<NodeProcess>, TestbedError> {
    let mut processes = Vec::new();
    for host in 0..=cast.scheduler() {
        let directory = nodes::directory(options.nodes, host);
        let at = TestbedError::io(directory.display().to_string());
        fs::create_dir_all(&directory)
            .and_then(|()| nodes::write(&point.scenario, cast, host, wire, options.nodes))
            .map_err(at)?;
        processes.push(spawn(host, options.node, &directory)?);
    }
    for process in &mut processes {
        process.wait_ready(options.start_timeout(), &Stop(options.stop))?;
    }
    Ok(processes)
}

/// Watches all processes until all rounds are over.
fn watch(
    processes: &mut [NodeProcess],
    client: &mut Sender,
    (harm, processors): (&mut FaultDriver<'_>, &mut Processors),
    scenario: &Scenario,
    stop: &Stop<'_>,
    progress: &mut impl FnMut(&str, f64),
) -> Result<BTreeMap<u64, RoundOutcome>, TestbedError> {
    let parameters: &Parameters = scenario.part();
    let rounds = scenario.part::<Mix>().rounds;
    let patience = [
        parameters.precomputation_timeout,
        parameters.realtime_timeout,
        parameters.queue_timeout,
        parameters.reconnect_limit,
    ];
    let patience: Duration = patience.iter().map(|span| span.duration()).sum();
    let scheduler = processes.len() - 1;
    let (mut last, mut since) = (0, Instant::now());
    loop {
        stop.check()?;
        std::thread::sleep(SAMPLE_EVERY);
        for host in harm.apply(processes)? {
            processors
                .limit(std::slice::from_ref(&processes[host as usize]))
                .map_err(TestbedError::Scenario)?;
        }
        for (host, process) in (0..).zip(processes.iter_mut()) {
            if !harm.is_down(host) {
                process.check("run")?;
                process.sample();
            }
        }
        processors.sample(processes);
        let status: MixStatus = processes[scheduler].ask("run", |client| client.get("/v1/mix"))?;
        let over = status.completed + status.failed;
        progress("mixing", (over as f64 / f64::from(rounds)).min(1.0));
        if over != last {
            (last, since) = (over, Instant::now());
        }
        if over >= u64::from(rounds) || since.elapsed() > patience {
            return Ok(client.finish());
        }
    }
}

/// Processor seconds of each process so far. The last value is that of the sender and the emulated
/// links.
fn seconds(processes: &mut [NodeProcess]) -> Vec<f64> {
    let mut own = crate::process::Usage::default();
    own.sample(std::process::id());
    processes.iter_mut().for_each(NodeProcess::sample);
    processes.iter().map(|process| process.usage.cpu_s).chain([own.cpu_s]).collect()
}

/// Processor use: of the busiest node in processors, and of everything together as a share of all
/// processors.
fn busy(before: &[f64], after: &[f64], wall_s: f64) -> (f64, f64) {
    let spent: Vec<f64> = before.iter().zip(after).map(|(before, after)| (after - before).max(0.0)).collect();
    let nodes = spent.len().saturating_sub(2);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as f64;
    let busiest = spent[..nodes].iter().copied().fold(0.0, f64::max);
    (busiest / wall_s, spent.iter().sum::<f64>() / wall_s / cores)
}

/// Ends all processes in an orderly way.
fn end(processes: &mut [NodeProcess], doubts: &mut Vec<String>) -> Result<(), TestbedError> {
    processes.iter().for_each(NodeProcess::terminate);
    for (host, process) in processes.iter_mut().enumerate() {
        if let Err(error) = process.wait_stopped(END_TIMEOUT) {
            match error {
                // A killed process is expected to be gone.
                TestbedError::Ended { .. } => {
                    doubts.push(format!("process {host} was not running at the end"))
                }
                error => return Err(error),
            }
        }
    }
    Ok(())
}
