//! Writing what Shadow reads.

use samara_lab::scenario::Columns;
use samara_lab::scenario::Messages;
use samara_lab::scenario::Mix;
use samara_lab::scenario::Transactions;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use samara_lab::scenario::{Point, Scenario, TransportKind};
use samara_scenario::Inputs;

use super::config::{
    Config, Experimental, FinalState, General, Graph, GraphFile, Host, Network, Process, bits, qdisc, seconds,
};
use super::graph::{LATENCY_MIN, Places, places};
use super::{
    DATA, EPOCH_NS, METRICS_FILES, NODE_FILE, PUBLICATIONS_FILE, RUN_FILE, RunFile, SECOND_NS, TEMPLATE,
    TRACE_FILE, host, of_host,
};
use crate::TestbedError;
use crate::addresses::{emulation, multiaddr};
use crate::client::Publication;
use crate::nodefile::{self, Alone, MetricsAt, PlanFile};
use crate::plan::Wanted;

/// When nodes start.
const START_S: u64 = 1;
/// From the last look at metrics to the end of the nodes.
const BEFORE_END_S: u64 = 1;
/// How long nodes may take to end: they drain for 5 s at most.
const ENDING_S: u64 = 10;
/// From the first look at metrics to the first publication.
const LOOK_BEFORE_NS: u64 = SECOND_NS / 2;

/// How to export a run.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The files that the scenario names.
    pub inputs: &'a Inputs,
    /// The program that nodes are: it is started with `node --config node.toml`.
    pub program: &'a Path,
    /// How long nodes have for links and meshes; at least the scenario's time to warm up is taken.
    pub settle: Duration,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// The hosts.
    pub nodes: u32,
    /// How long Shadow simulates, in seconds.
    pub stop_s: u64,
    /// What is not as in the scenario, or what else is to be known.
    pub notes: Vec<String>,
}

/// When things happen, from the start of the simulation.
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
        let patience = match scenario.find::<Messages>() {
            Some(messages) => messages.cool_down,
            None => scenario
                .find::<Columns>()
                .map_or(samara_engine::units::Span::default(), |workload| workload.deadline),
        };
        let after_ns = first_ns + wanted.duration(scenario) + patience.nanos();
        let shutdown_s = after_ns.div_ceil(SECOND_NS) + BEFORE_END_S;
        Self { settle_s, first_ns, after_ns, shutdown_s, stop_s: shutdown_s + ENDING_S }
    }
}

/// Writes a run into a directory that is not there, or is empty.
///
/// # Errors
/// The run is none for real nodes under Shadow, or files cannot be written.
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
            write(directory.join(PUBLICATIONS_FILE), &body(own))?;
        }
        let alone = alone(scenario, &wanted, node, times, !own.is_empty());
        let text =
            nodefile::text(scenario, &wanted, node, address(node), Path::new(TRACE_FILE), Some(&alone));
        write(directory.join(NODE_FILE), &text.map_err(TestbedError::Scenario)?)?;
    }
    write(to.join("graph.gml"), &places.gml)?;
    let config = config(&network, &places, point.seed, times, options.program);
    let yaml = serde_saphyr::to_string(&config).map_err(|error| TestbedError::Scenario(error.to_string()))?;
    write(to.join("shadow.yaml"), &yaml)?;
    let run =
        run_file(point, options.program, first_unix_ns, times.settle_s).map_err(TestbedError::Scenario)?;
    let json =
        serde_json::to_string_pretty(&run).map_err(|error| TestbedError::Scenario(error.to_string()))?;
    write(to.join(RUN_FILE), &(json + "\n"))?;
    Ok(Exported { nodes, stop_s: times.stop_s, notes: notes(scenario, &places) })
}

/// What only the testbed or the simulator has is refused, never left out.
fn possible(scenario: &Scenario) -> Result<(), String> {
    let refuse = |key: &str, what: &str| Err(format!("{key}: {what}"));
    if scenario.find::<Transactions>().is_some() {
        return refuse("pool", "pools are not exported to Shadow; use samara testbed");
    }
    if scenario.find::<Mix>().is_some() {
        return refuse("mix", "teams are not exported to Shadow; use samara testbed");
    }
    if scenario.transport.kind == TransportKind::Quic {
        return refuse(
            "transport.kind",
            "found \"quic\", which is not exported to Shadow; expected \"tcp\" (--set transport.kind=tcp)",
        );
    }
    if scenario.network.jitter.nanos() > 0 {
        return refuse(
            "network.jitter",
            "Shadow has none (its key edge.jitter does nothing); take it away with --set network.jitter=\"0 ms\"",
        );
    }
    Ok(())
}

/// The figures of a run that is under way would be mixed with those of another.
fn empty(to: &Path) -> Result<(), TestbedError> {
    let at = || TestbedError::io(to.display().to_string());
    fs::create_dir_all(to).map_err(at())?;
    if fs::read_dir(to).map_err(at())?.next().is_some() {
        return Err(TestbedError::Scenario(format!(
            "{}: found a directory with something in it; expected a new or empty one",
            to.display()
        )));
    }
    Ok(())
}

/// Node 0 is at 10.0.0.1.
fn address(node: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from(Ipv4Addr::new(10, 0, 0, 1)) + node)
}

fn body(publications: &[Publication]) -> String {
    serde_json::json!({ "publications": publications }).to_string()
}

fn alone(scenario: &Scenario, wanted: &Wanted, node: u32, times: Times, publishes: bool) -> Alone {
    let dialled = wanted.graph.edges.iter().filter(|(dialler, _)| *dialler == node);
    let looks = [times.first_ns - LOOK_BEFORE_NS, times.after_ns];
    let metrics = looks.into_iter().zip(METRICS_FILES);
    Alone {
        dial: dialled.map(|(_, listener)| multiaddr(address(*listener), scenario.transport.kind)).collect(),
        plan: PlanFile {
            publications: publishes.then_some(PUBLICATIONS_FILE),
            metrics: metrics.map(|(at, file)| MetricsAt { at_unix_ns: EPOCH_NS + at, file }).collect(),
        },
    }
}

fn config(
    network: &samara_emulation::EmulationConfig,
    places: &Places,
    seed: u64,
    times: Times,
    program: &Path,
) -> Config {
    let process = || Process {
        path: program.to_owned(),
        args: vec!["node", "--config", NODE_FILE],
        // One thread is enough for one host, whose processor takes no time.
        environment: [("TOKIO_WORKER_THREADS", "1")].into(),
        start_time: seconds(START_S),
        shutdown_time: seconds(times.shutdown_s),
        shutdown_signal: "SIGTERM",
        expected_final_state: FinalState { exited: 0 },
    };
    let hosts = network.hosts.iter().zip(0..).map(|(rates, node)| {
        let host_config = Host {
            network_node_id: places.of_host[node as usize],
            ip_addr: address(node),
            bandwidth_down: bits(rates.downlink_bps),
            bandwidth_up: bits(rates.uplink_bps),
            processes: vec![process()],
        };
        (host(node), host_config)
    });
    Config {
        general: General {
            seed: seed & u64::from(u32::MAX),
            stop_time: seconds(times.stop_s),
            data_directory: DATA,
            template_directory: TEMPLATE,
            model_unblocked_syscall_latency: true,
        },
        network: Network {
            graph: Graph { kind: "gml", file: GraphFile { path: "graph.gml" } },
            use_shortest_path: false,
        },
        experimental: Experimental { interface_qdisc: qdisc(network.nic) },
        hosts: hosts.collect(),
    }
}

pub(super) fn run_file(
    point: &Point,
    program: &Path,
    first_unix_ns: u64,
    settle_s: u64,
) -> Result<RunFile, String> {
    let configuration = toml::Table::try_from(&point.scenario).map_err(|error| error.to_string())?;
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
            "latencies below {LATENCY_MIN:?} are raised to that: Shadow wants more than nothing"
        ));
    }
    if scenario.transport.stack != samara_lab::scenario::Stack::Shadow {
        notes.push(
            "Shadow has a TCP of its own, which transport.stack = \"shadow\" simulates; keys of [transport] change \
             nothing there"
                .to_owned(),
        );
    }
    notes
}
