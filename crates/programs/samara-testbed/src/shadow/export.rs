//! Writes the input of Shadow: `shadow.yaml`, in the terms of Shadow's [specification], and the
//! files of nodes.
//!
//! [specification]: https://shadow.github.io/docs/guide/shadow_config_spec.html

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use samara_document::Inputs;
use samara_emulation::EmulationConfig;
use samara_engine::Time;
use samara_lab::processes::{self, Listen, Order, Script};
use samara_lab::run::{RunOptions, script};
use samara_scenario::{Point, Scenario, Stack, TransportKind};
use samara_sim::NicDiscipline;
use serde_json::{Map, Value, json};

use super::graph::{LATENCY_MIN, Places, places};
use super::{DATA, LOOKS_NS, ORDERS_FILE, RUN_FILE, RunFile, SCENARIO_FILE, TEMPLATE, host, of_host};
use crate::TestbedError;
use crate::run::hosts;
use crate::wire::{PORT, emulation};

/// Shadow's clock begins on 1 January 2000 (`EMULATED_TIME_OFFSET`), in seconds since 1970.
const EPOCH_S: u64 = 946_684_800;
const SECOND_NS: u64 = 1_000_000_000;
/// Time at which processes start, and at which the run begins: all listen then.
const START_S: u64 = 1;
const BEGIN_S: u64 = 2;
/// Maximum time for hosts to end.
const ENDING_S: u64 = 10;

#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    pub inputs: &'a Inputs,
    /// The text of the scenario.
    pub text: &'a str,
    /// The program of the hosts.
    pub program: &'a Path,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    pub nodes: u32,
    pub stop_s: u64,
    /// Deviations from the scenario, and other remarks.
    pub notes: Vec<String>,
}

/// Writes a run into a new or empty directory.
///
/// # Errors
/// The run is not possible with real hosts under Shadow, or files cannot be written.
pub fn export(point: &Point, options: Options<'_>, to: &Path) -> Result<Exported, TestbedError> {
    let scenario = &point.scenario;
    possible(scenario).map_err(TestbedError::Scenario)?;
    let script = script(point, RunOptions::new(1, options.inputs));
    let script = script.map_err(|error| TestbedError::Scenario(error.to_string()))?;
    let members = hosts(point, options.inputs).map_err(TestbedError::Scenario)?;
    let network = emulation(scenario, &members, point.seed);
    let places = places(&network).map_err(TestbedError::Scenario)?;
    let write = |path: PathBuf, text: &str| {
        fs::write(&path, text).map_err(TestbedError::io(path.display().to_string()))
    };
    empty(to)?;
    let nodes = members.configs.len() as u32;
    for node in 0..nodes {
        let directory = of_host(&to.join(TEMPLATE), node);
        fs::create_dir_all(&directory).map_err(TestbedError::io(directory.display().to_string()))?;
        let orders = orders(node, nodes, &script);
        write(
            directory.join(ORDERS_FILE),
            &orders.map_err(|error| TestbedError::Scenario(error.to_string()))?,
        )?;
    }
    write(to.join("graph.gml"), &places.gml)?;
    write(to.join(SCENARIO_FILE), options.text)?;
    let stop_s = BEGIN_S + script.end.as_nanos().div_ceil(SECOND_NS) + ENDING_S;
    let config = config(&network, &places, point, stop_s, options.program);
    let yaml = serde_saphyr::to_string(&config).map_err(|error| TestbedError::Scenario(error.to_string()))?;
    write(to.join("shadow.yaml"), &yaml)?;
    let run = run_file(point, options.program)
        .and_then(|run| serde_json::to_string_pretty(&run).map_err(|error| error.to_string()));
    let json = run.map_err(TestbedError::Scenario)?;
    write(to.join(RUN_FILE), &(json + "\n"))?;
    Ok(Exported { nodes, stop_s, notes: notes(scenario, &places) })
}

/// Returns the lines of a host's orders.
fn orders(node: u32, nodes: u32, script: &Script) -> Result<String, serde_json::Error> {
    let at = |node| SocketAddr::from((address(node), PORT));
    let listen = Listen {
        host: node,
        address: at(node),
        peers: (0..nodes).map(at).collect(),
        // Nobody else is in the network.
        token: "00".repeat(16),
        restart: false,
        brief: None,
    };
    let begin = Order::Begin { at_unix_ns: (EPOCH_S + BEGIN_S) * SECOND_NS };
    let mut lines = vec![serde_json::to_string(&Order::<()>::Listen(listen))?];
    lines.push(serde_json::to_string::<Order<()>>(&begin)?);
    lines.extend_from_slice(&script.commands[node as usize]);
    let (mut look_at, every) = LOOKS_NS;
    while Time::from_nanos(look_at) < script.end {
        lines.push(serde_json::to_string(&Order::<()>::Wait { at_ns: look_at })?);
        lines.push(serde_json::to_string(&Order::<()>::Look)?);
        look_at += every;
    }
    lines.push(serde_json::to_string(&Order::<()>::Wait { at_ns: script.end.as_nanos() })?);
    lines.push(serde_json::to_string(&Order::<()>::Look)?);
    lines.push(serde_json::to_string(&Order::<()>::Stop)?);
    Ok(lines.join("\n") + "\n")
}

/// Rejects everything that only the testbed or the simulator supports.
fn possible(scenario: &Scenario) -> Result<(), String> {
    processes::check(scenario)?;
    let refused = [
        (!scenario.faults.is_empty(), "fault: faults are not exported to Shadow; use samara testbed"),
        (
            scenario.network.uplink_queue.is_behind(),
            "network.uplink_queue: Shadow has no queue between connections and the uplink; remove it",
        ),
        (
            scenario.network.regions.as_ref().is_some_and(|regions| regions.gateway.is_some()),
            "network.regions.gateway: Shadow has no rates between regions; remove it, or use samara testbed",
        ),
        (
            matches!(scenario.transport.kind, TransportKind::Quic { .. }),
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
    let first = refused.iter().find(|(is_refused, _)| *is_refused);
    first.map_or(Ok(()), |(_, error)| Err((*error).to_owned()))
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

fn config(network: &EmulationConfig, places: &Places, point: &Point, stop_s: u64, program: &Path) -> Value {
    let seconds = |seconds: u64| format!("{seconds} sec");
    // Processes run in the directories of their hosts.
    let scenario = format!("../../../{SCENARIO_FILE}");
    let process = |node: u32| {
        json!({
            "path": program,
            "args": [
                "host", "--run", point.name(), "--seed", point.seed.to_string(), "--orders", ORDERS_FILE, scenario,
                node.to_string(),
            ],
            "start_time": seconds(START_S),
            "expected_final_state": { "exited": 0 },
        })
    };
    // Sorted by name, in the order of their numbers.
    let hosts = places.of_host.iter().zip(0..).map(|(place, node)| {
        let config = json!({
            "network_node_id": place,
            "ip_addr": address(node),
            "processes": [process(node)],
        });
        (host(node), config)
    });
    let qdisc = match network.nic {
        NicDiscipline::RoundRobin | NicDiscipline::FqCoDel(_) | NicDiscipline::DropTail(_) => "round-robin",
        NicDiscipline::Fifo => "fifo",
    };
    json!({
        "general": {
            "seed": point.seed & u64::from(u32::MAX),
            "stop_time": seconds(stop_s),
            "data_directory": DATA,
            "template_directory": TEMPLATE,
            // A host that polls its clock must let time pass.
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

pub(super) fn run_file(point: &Point, program: &Path) -> Result<RunFile, String> {
    let configuration = point.scenario.to_toml()?;
    Ok(RunFile {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        scenario: point.scenario.scenario.name.clone(),
        run: point.name(),
        seed: point.seed,
        configuration,
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
