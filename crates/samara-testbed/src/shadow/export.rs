//! Writes the input of Shadow: `shadow.yaml`, in the terms of Shadow's [specification], and the
//! files of nodes.
//!
//! [specification]: https://shadow.github.io/docs/guide/shadow_config_spec.html

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use samara_emulation::EmulationConfig;
use samara_node::config::{MetricsAt, Plan};
use samara_scenario::Inputs;
use samara_sim::NicDiscipline;
use samara_spec::mix::Mix;
use samara_spec::pool::Transactions;
use samara_spec::{Point, Scenario, Stack, TransportKind};
use serde_json::{Map, Value, json};

use super::graph::{LATENCY_MIN, Places, places};
use super::{
    DATA, EPOCH_NS, METRICS_FILES, NODE_FILE, PUBLICATIONS_FILE, RUN_FILE, RunFile, SECOND_NS, TEMPLATE,
    TRACE_FILE, host, of_host,
};
use crate::TestbedError;
use crate::nodefile;
use crate::plan::{Wanted, patience, refuse};
use crate::wire::{emulation, multiaddr};

const START_S: u64 = 1;
/// Time from the last write of metrics to the end of the nodes.
const BEFORE_END_S: u64 = 1;
/// Maximum time for nodes to end: they drain for up to 5 s.
const ENDING_S: u64 = 10;
/// Time from the first write of metrics to the first publication.
const METRICS_BEFORE_NS: u64 = SECOND_NS / 2;

#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    pub inputs: &'a Inputs,
    /// The program of the nodes. Shadow starts it with `node --config node.toml`.
    pub program: &'a Path,
    /// Time for nodes to establish links and meshes, if it is longer than the scenario's warm-up.
    pub settle: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    pub nodes: u32,
    pub stop_s: u64,
    /// Deviations from the scenario, and other remarks.
    pub notes: Vec<String>,
}

/// Times of events, from the start of the simulation.
#[derive(Clone, Copy, Debug)]
struct Times {
    settle_s: u64,
    first_ns: u64,
    after_ns: u64,
    shutdown_s: u64,
    stop_s: u64,
}

impl Times {
    fn new(scenario: &Scenario, wanted: &Wanted, settle: Duration) -> Self {
        let warm_up = wanted.warm_up(scenario).div_ceil(SECOND_NS);
        let settle_s = settle.as_secs().max(warm_up).max(1);
        let first_ns = (START_S + settle_s) * SECOND_NS;
        let after_ns = first_ns + wanted.duration(scenario) + patience(scenario).nanos();
        let shutdown_s = after_ns.div_ceil(SECOND_NS) + BEFORE_END_S;
        Self { settle_s, first_ns, after_ns, shutdown_s, stop_s: shutdown_s + ENDING_S }
    }
}

/// Writes a run into a new or empty directory.
///
/// # Errors
/// The run is not possible with real nodes under Shadow, or files cannot be written.
pub fn export(point: &Point, options: Options<'_>, to: &Path) -> Result<Exported, TestbedError> {
    let scenario = &point.scenario;
    possible(scenario).map_err(TestbedError::Scenario)?;
    let wanted = Wanted::new(point, options.inputs).map_err(TestbedError::Scenario)?;
    let times = Times::new(scenario, &wanted, options.settle);
    let network = emulation(scenario, &wanted.hosts, point.seed);
    let places = places(&network).map_err(TestbedError::Scenario)?;
    let write = |path: PathBuf, text: &str| {
        fs::write(&path, text).map_err(TestbedError::io(path.display().to_string()))
    };
    empty(to)?;
    let nodes = scenario.network.nodes;
    let first_unix_ns = EPOCH_NS + times.first_ns;
    let publications = wanted.publications(scenario, first_unix_ns);
    for node in 0..nodes {
        let directory = of_host(&to.join(TEMPLATE), node);
        fs::create_dir_all(&directory).map_err(TestbedError::io(directory.display().to_string()))?;
        let own = &publications[node as usize];
        if !own.is_empty() {
            let body = json!({ "publications": own }).to_string();
            write(directory.join(PUBLICATIONS_FILE), &body)?;
        }
        let plan = plan(scenario, &wanted, node, times, !own.is_empty());
        let text = nodefile::text(scenario, &wanted, node, address(node), Path::new(TRACE_FILE), Some(plan));
        write(directory.join(NODE_FILE), &text.map_err(TestbedError::Scenario)?)?;
    }
    write(to.join("graph.gml"), &places.gml)?;
    let config = config(&network, &places, point.seed, times, options.program);
    let yaml = serde_saphyr::to_string(&config).map_err(|error| TestbedError::Scenario(error.to_string()))?;
    write(to.join("shadow.yaml"), &yaml)?;
    let run = run_file(point, options.program, first_unix_ns, times.settle_s)
        .and_then(|run| serde_json::to_string_pretty(&run).map_err(|error| error.to_string()));
    let json = run.map_err(TestbedError::Scenario)?;
    write(to.join(RUN_FILE), &(json + "\n"))?;
    Ok(Exported { nodes, stop_s: times.stop_s, notes: notes(scenario, &places) })
}

/// Rejects everything that only the testbed or the simulator supports.
fn possible(scenario: &Scenario) -> Result<(), String> {
    let refused = [
        (
            scenario.find::<Transactions>().is_some(),
            "pool: pools are not exported to Shadow; use samara testbed",
        ),
        (scenario.find::<Mix>().is_some(), "mix: teams are not exported to Shadow; use samara testbed"),
        (
            scenario.network.uplink_queue.is_behind(),
            "network.uplink_queue: Shadow has no queue between connections and the uplink; remove it",
        ),
        (
            scenario.transport.kind == TransportKind::Quic,
            "transport.kind: found \"quic\", which is not exported to Shadow; expected \"tcp\" \
             (--set transport.kind=tcp)",
        ),
        (
            scenario.network.latency_file.as_ref().is_some_and(|spec| spec.loss.is_some()),
            "network.latency_file.loss: the exported graph has one loss for all pairs; remove it, or set network.loss",
        ),
        (
            scenario.network.jitter.nanos() > 0,
            "network.jitter: Shadow has none (its key edge.jitter does nothing); \
             disable it with --set network.jitter=\"0 ms\"",
        ),
    ];
    refuse(&refused)
}

/// Rejects other directories, since a run in progress would mix its figures with those of another
/// one.
fn empty(to: &Path) -> Result<(), TestbedError> {
    let at = || TestbedError::io(to.display().to_string());
    fs::create_dir_all(to).map_err(at())?;
    if fs::read_dir(to).map_err(at())?.next().is_some() {
        return Err(TestbedError::Scenario(format!(
            "{}: the directory is not empty; expected a new or empty one",
            to.display()
        )));
    }
    Ok(())
}

/// Node 0 has the address 10.0.0.1.
fn address(node: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from(Ipv4Addr::new(10, 0, 0, 1)) + node)
}

/// Returns the addresses that a node dials, and its section `[plan]`.
fn plan(
    scenario: &Scenario,
    wanted: &Wanted,
    node: u32,
    times: Times,
    publishes: bool,
) -> (Vec<String>, Plan) {
    let dialled = wanted.graph.edges.iter().filter(|(dialler, _)| *dialler == node);
    let write_at = [times.first_ns - METRICS_BEFORE_NS, times.after_ns];
    let metrics = write_at.into_iter().zip(METRICS_FILES);
    let plan = Plan {
        publications: publishes.then(|| PUBLICATIONS_FILE.into()),
        metrics: metrics
            .map(|(at, file)| MetricsAt { at_unix_ns: EPOCH_NS + at, file: file.into() })
            .collect(),
    };
    let dial = dialled.map(|(_, listener)| multiaddr(address(*listener), scenario.transport.kind));
    (dial.collect(), plan)
}

fn config(network: &EmulationConfig, places: &Places, seed: u64, times: Times, program: &Path) -> Value {
    let seconds = |seconds: u64| format!("{seconds} sec");
    let process = json!({
        "path": program,
        "args": ["node", "--config", NODE_FILE],
        // One thread suffices for one host, whose processor takes no time.
        "environment": { "TOKIO_WORKER_THREADS": "1" },
        "start_time": seconds(START_S),
        "shutdown_time": seconds(times.shutdown_s),
        "shutdown_signal": "SIGTERM",
        "expected_final_state": { "exited": 0 },
    });
    // Sorted by name, in the order of their numbers.
    let hosts = places.of_host.iter().zip(0..).map(|(place, node)| {
        let config = json!({
            "network_node_id": place,
            "ip_addr": address(node),
            "processes": [process],
        });
        (host(node), config)
    });
    let qdisc = match network.nic {
        NicDiscipline::RoundRobin | NicDiscipline::FqCoDel(_) | NicDiscipline::DropTail(_) => "round-robin",
        NicDiscipline::Fifo => "fifo",
    };
    json!({
        "general": {
            "seed": seed & u64::from(u32::MAX),
            "stop_time": seconds(times.stop_s),
            "data_directory": DATA,
            "template_directory": TEMPLATE,
            // Nodes poll the clock just before they publish, so polling must let time pass.
            "model_unblocked_syscall_latency": true,
        },
        "network": {
            "graph": { "type": "gml", "file": { "path": "graph.gml" } },
            // The graph has an edge for each pair.
            "use_shortest_path": false,
        },
        "experimental": { "interface_qdisc": qdisc },
        "hosts": hosts.collect::<Map<_, _>>(),
    })
}

pub(super) fn run_file(
    point: &Point,
    program: &Path,
    first_unix_ns: u64,
    settle_s: u64,
) -> Result<RunFile, String> {
    let configuration = point.scenario.to_toml()?;
    Ok(RunFile {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        scenario: point.scenario.scenario.name.clone(),
        run: point.name(),
        seed: point.seed,
        configuration,
        first_unix_ns,
        settle_s,
        program: program.to_owned(),
    })
}

fn notes(scenario: &Scenario, places: &Places) -> Vec<String> {
    let mut notes = Vec::new();
    if places.raised {
        notes.push(format!(
            "latencies below {LATENCY_MIN:?} are raised to that: Shadow requires latencies above zero"
        ));
    }
    if scenario.transport.stack != Stack::Shadow {
        notes.push(
            "Shadow has its own TCP, which transport.stack = \"shadow\" simulates; keys of [transport] change \
             nothing there"
                .to_owned(),
        );
    }
    notes
}
