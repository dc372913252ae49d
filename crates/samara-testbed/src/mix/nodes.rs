//! The processes of a pool: their files, faults and processors.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use samara_engine::shape::ShapeSetting;
use samara_engine::units::Share;
use samara_lab::mix::{FaultWindow, ProcessorLook};
use samara_lab::network;
use samara_mix::Parameters;
use samara_node::config::Senders;
use samara_node::model::MixEvent;
use samara_spec::mix::Mix;
use samara_spec::{FaultKind, Scenario};
use serde_json::json;

use super::events::events_of;
use super::{Participants, spawn};
use crate::TestbedError;
use crate::process::NodeProcess;
use crate::quota::Quota;
use crate::rivals;
use crate::run::{Options, Stop, unix_ns};
use crate::wire::Wire;

/// Every host has its own address, so all can have the same ports.
const PORT: u16 = 7900;
const GATEWAY_PORT: u16 = 7901;
/// The file with certificate and key of a host.
const CERTIFICATE: &str = "mix.pem";

/// Rejects everything that only a simulation can do, instead of omitting it.
pub(crate) fn possible(scenario: &Scenario) -> Result<(), String> {
    let (mix, parameters): (&Mix, &Parameters) = (scenario.part(), scenario.part());
    let refused = [
        (
            parameters.shape == ShapeSetting::ByFormula,
            "protocol.shape: real nodes do not know the rates of links; set it to the name of a shape",
        ),
        (
            !mix.cpu.is_empty(),
            "mix.cpu: the testbed cannot set the computing time of real nodes; remove it for the testbed",
        ),
        (
            mix.interval.nanos() > 0,
            "mix.interval: the testbed's sender always has payloads; set mix.interval = \"0 s\"",
        ),
        (
            mix.mechanisms,
            "mix.mechanisms: the testbed cannot change the mechanisms of real networks; set mix.mechanisms = false",
        ),
    ];
    if let Some((_, why)) = refused.iter().find(|(is_refused, _)| *is_refused) {
        return Err((*why).to_owned());
    }
    rivals::possible(scenario)?;
    let is_real = |kind: FaultKind| kind == FaultKind::Crash || kind.is_rival();
    match scenario.faults.iter().position(|fault| !is_real(fault.kind)) {
        Some(index) => Err(format!(
            "fault.{index}.kind: the testbed has crashes, uploads and calls; other faults exist in the simulator only"
        )),
        None => Ok(()),
    }
}

pub(crate) fn directory(nodes: &Path, host: u32) -> PathBuf {
    nodes.join(format!("node-{host}"))
}

/// The address that the sender dials.
pub(super) fn gateway(address: Ipv4Addr) -> SocketAddr {
    (address, GATEWAY_PORT).into()
}

/// Writes the certificate and the configuration of a node, or of the scheduler.
pub(super) fn write(
    scenario: &Scenario,
    cast: &Participants,
    host: u32,
    wire: &Wire,
    nodes: &Path,
) -> io::Result<()> {
    let (mix, parameters): (&Mix, &Parameters) = (scenario.part(), scenario.part());
    let own = wire.own(host);
    let is_scheduler = host == cast.scheduler();
    let peer = |other: u32| {
        let address = SocketAddr::from((wire.dialled(host, other), PORT));
        json!({ "fingerprint": cast.fingerprint(other).to_string(), "address": address })
    };
    let mut section = json!({
        "role": if is_scheduler { "scheduler" } else { "node" },
        "identity": CERTIFICATE,
        "listen": SocketAddr::from((own, PORT)),
        "group": mix.group,
        // The emulated network is private, and its one sender fills all batches.
        "allow_model": true,
        "senders": Senders {
            senders_min: Some(1),
            sender_share: Some(Share::from_fraction(1.0)),
            window: Some(scenario.transport.http2_window.unwrap_or_default()),
            ..Senders::default()
        },
        "team": mix.team,
        "teams": mix.teams,
        "batch": mix.batch,
        "rounds": mix.rounds,
        "threads": mix.cores,
        // Zero stands for adaptive windows.
        "window": scenario.transport.http2_window.unwrap_or_default(),
        "live": live_directory(nodes)?,
        "nodes": (0..cast.nodes).map(peer).collect::<Vec<_>>(),
        "scheduler": peer(cast.scheduler()),
        "protocol": Parameters { rounds_max: parameters.rounds_max.max(mix.stock()), ..parameters.clone() },
    });
    if !is_scheduler {
        section["gateway"] = json!(gateway(own));
    }
    // No host has the seed 0.
    let file = json!({
        "identity": { "seed": host + 1 },
        "control": { "listen": SocketAddr::from(([127, 0, 0, 1], 0)) },
        "mix": section,
    });
    let directory = directory(nodes, host);
    std::fs::write(directory.join("node.toml"), toml::to_string(&file).map_err(io::Error::other)?)?;
    let pem = directory.join(CERTIFICATE);
    if pem.exists() {
        std::fs::remove_file(&pem)?;
    }
    cast.keys[host as usize].save(&pem).map_err(io::Error::other)
}

/// The directory of the results, which contains the live files and the directory of the nodes.
pub(super) fn live_directory(nodes: &Path) -> io::Result<PathBuf> {
    let nodes = nodes.canonicalize()?;
    let of_nodes = nodes.ancestors().find(|path| path.file_name().is_some_and(|name| name == "nodes"));
    Ok(of_nodes.and_then(Path::parent).unwrap_or(&nodes).to_owned())
}

struct Kill {
    host: u32,
    at: Duration,
    until: Option<Duration>,
    killed_unix_ns: Option<u64>,
    restarted_unix_ns: Option<u64>,
}

/// All faults of a run. Times count from the first payloads.
pub(super) struct FaultDriver<'a> {
    begun: Instant,
    kills: Vec<Kill>,
    /// The events of killed processes, up to their end.
    events: Vec<(u32, Vec<MixEvent>)>,
    options: Options<'a>,
}

impl<'a> FaultDriver<'a> {
    pub(super) fn new(scenario: &Scenario, seed: u64, options: Options<'a>, cast: &Participants) -> Self {
        let faults = scenario.faults.iter().enumerate();
        let faults = faults.filter(|(_, fault)| fault.kind == FaultKind::Crash);
        let kills = faults.flat_map(|(index, fault)| {
            let hosts = network::hit(scenario, index, seed).into_iter().filter(|host| *host < cast.nodes);
            hosts.map(move |host| Kill {
                host,
                at: fault.at.duration(),
                until: fault.until.map(|until| until.duration()),
                killed_unix_ns: None,
                restarted_unix_ns: None,
            })
        });
        Self { begun: Instant::now(), kills: kills.collect(), events: Vec::new(), options }
    }

    /// Whether a process is currently killed on purpose.
    pub(super) fn is_down(&self, host: u32) -> bool {
        let last = self.kills.iter().rfind(|kill| kill.host == host);
        last.is_some_and(|kill| kill.killed_unix_ns.is_some() && kill.restarted_unix_ns.is_none())
    }

    /// Applies the faults that are due. Returns the hosts whose processes were restarted.
    pub(super) fn apply(&mut self, processes: &mut [NodeProcess]) -> Result<Vec<u32>, TestbedError> {
        let now = self.begun.elapsed();
        let mut restarted = Vec::new();
        for kill in &mut self.kills {
            let process = &mut processes[kill.host as usize];
            if kill.killed_unix_ns.is_none() && now >= kill.at {
                let (events, _) = events_of(process)?;
                self.events.push((kill.host, events));
                process.kill();
                kill.killed_unix_ns = Some(unix_ns());
            }
            let is_due = kill.until.is_some_and(|until| now >= until);
            if is_due && kill.killed_unix_ns.is_some() && kill.restarted_unix_ns.is_none() {
                let directory = directory(self.options.nodes, kill.host);
                *process = spawn(kill.host, self.options.node, &directory)?;
                process.wait_ready(self.options.start_timeout(), &Stop(self.options.stop))?;
                kill.restarted_unix_ns = Some(unix_ns());
                restarted.push(kill.host);
            }
        }
        Ok(restarted)
    }

    pub(super) fn take_events(&mut self) -> Vec<(u32, Vec<MixEvent>)> {
        std::mem::take(&mut self.events)
    }

    /// Returns the faults that were applied, with times since `start`. As in the simulator, a fault
    /// lasts until others must have reached the process again, `pause` after its restart.
    pub(super) fn done(&self, start: u64, pause: Duration) -> Vec<FaultWindow> {
        let since = |at: u64| at.saturating_sub(start);
        let done = self.kills.iter().filter_map(|kill| {
            Some(FaultWindow {
                host: kill.host,
                kind: FaultKind::Crash,
                from: since(kill.killed_unix_ns?),
                until: kill.restarted_unix_ns.map_or(u64::MAX, |at| since(at) + pause.as_nanos() as u64),
            })
        });
        done.collect()
    }
}

/// The processors of the nodes of a pool.
pub(super) struct Processors {
    nodes: u32,
    quota: Option<Quota>,
    /// Processor time of each node's process at the last sample, in nanoseconds.
    last: Vec<u64>,
    /// Samples, with times since 1970.
    samples: Vec<ProcessorLook>,
}

impl Processors {
    pub(super) fn new(mix: &Mix, nodes: u32) -> Result<Self, String> {
        let part = mix.processor.fraction();
        let quota = (part < 1.0).then(|| Quota::new(part * f64::from(mix.cores))).transpose();
        let quota = quota.map_err(|error| refused(&error))?;
        Ok(Self { nodes, quota, last: vec![0; nodes as usize], samples: Vec::new() })
    }

    /// Limits those of these processes that are nodes to their part of a processor from now on.
    pub(super) fn limit(&mut self, processes: &[NodeProcess]) -> Result<(), String> {
        let Some(quota) = &mut self.quota else { return Ok(()) };
        for node in processes.iter().filter(|process| process.number < self.nodes) {
            quota.limit(&node.number.to_string(), node.id()).map_err(|error| refused(&error))?;
        }
        Ok(())
    }

    pub(super) fn sample(&mut self, processes: &[NodeProcess]) {
        let mut nanos =
            self.samples.last().map_or_else(|| vec![0; self.last.len()], |sample| sample.nanos.clone());
        for ((sum, last), process) in nanos.iter_mut().zip(&mut self.last).zip(processes) {
            let now = (process.usage.cpu_s * 1e9) as u64;
            // A restarted process counts from zero.
            *sum += now.checked_sub(*last).unwrap_or(now);
            *last = now;
        }
        self.samples.push(ProcessorLook { at: unix_ns(), nanos });
    }

    /// Returns all samples, with times since `start`.
    pub(super) fn done(self, start: u64) -> Vec<ProcessorLook> {
        let since = |sample: ProcessorLook| ProcessorLook { at: sample.at.saturating_sub(start), ..sample };
        self.samples.into_iter().map(since).collect()
    }
}

fn refused(error: &std::io::Error) -> String {
    format!(
        "mix.processor: cannot limit processes to a part of a processor: {error}; run as root, or set mix.processor = \"100 %\""
    )
}
