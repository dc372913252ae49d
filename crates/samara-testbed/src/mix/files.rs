//! Certificates and configurations of nodes.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use samara_engine::shape::ShapeSetting;
use samara_engine::units::{Size, Span};
use samara_lab::scenario::{FaultKind, Mix, Scenario};
use samara_mix::{Parameters, Transfer};
use samara_net::mix::{Fingerprint, Identity};
use serde::Serialize;

use super::Participants;
use crate::addresses::Wire;

/// Every host has an address of its own, and so all can have the same ports.
const PORT: u16 = 7900;
const GATEWAY_PORT: u16 = 7901;

/// What only a simulation can do is refused, never left out.
pub(crate) fn possible(scenario: &Scenario) -> Result<(), String> {
    let (mix, parameters): (&Mix, &Parameters) = (scenario.part(), scenario.part());
    if parameters.shape == ShapeSetting::ByFormula {
        return Err(
            "protocol.shape: real nodes do not know the rates of links; give the name of a shape".to_owned()
        );
    }
    if !mix.cpu.is_empty() {
        return Err("mix.cpu: real nodes take the time that they take; remove it for the testbed".to_owned());
    }
    match scenario.faults.iter().position(|fault| fault.kind != FaultKind::Crash) {
        Some(index) => Err(format!(
            "fault.{index}.kind: real processes can crash; other faults exist in the simulator only"
        )),
        None => Ok(()),
    }
}

/// The certificates of everybody.
pub(crate) struct Keys(Vec<Identity>);

impl Keys {
    pub(super) fn new(hosts: u32) -> Result<Self, String> {
        (0..hosts)
            .map(|_| Identity::generate())
            .collect::<Result<_, _>>()
            .map(Self)
            .map_err(|error| error.to_string())
    }

    pub(super) fn of(&self, host: u32) -> &Identity {
        &self.0[host as usize]
    }

    pub(super) fn fingerprint(&self, host: u32) -> Fingerprint {
        self.of(host).fingerprint()
    }
}

/// Where a host has its files.
pub(crate) fn directory(nodes: &Path, host: u32) -> PathBuf {
    nodes.join(format!("node-{host}"))
}

/// The address for senders, as the sender reaches it.
pub(super) fn gateway(address: Ipv4Addr) -> SocketAddr {
    (address, GATEWAY_PORT).into()
}

#[derive(Serialize)]
struct NodeFile {
    identity: Seed,
    control: Control,
    mix: MixFile,
}

#[derive(Serialize)]
struct Seed {
    seed: u64,
}

#[derive(Serialize)]
struct Control {
    address: SocketAddr,
}

#[derive(Serialize)]
struct MixFile {
    role: &'static str,
    identity: &'static str,
    listen: SocketAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway: Option<SocketAddr>,
    group: &'static str,
    realtime_max: u32,
    threads: u32,
    window: Size,
    live: PathBuf,
    nodes: Vec<Peer>,
    scheduler: Peer,
    rounds: Rounds,
    limits: Limits,
}

#[derive(Serialize)]
struct Peer {
    fingerprint: String,
    address: SocketAddr,
}

#[derive(Serialize)]
struct Rounds {
    team: u32,
    teams: u32,
    batch: u32,
    call: Transfer,
    shape: ShapeSetting,
    precomputation_slots: u32,
    realtime_slots: u32,
    precomputing_max: u32,
    rounds_max: u32,
    rounds_per_draw: u32,
    count: u32,
}

#[derive(Serialize)]
struct Limits {
    reconnect: Span,
    precomputation: Span,
    realtime: Span,
    queue: Span,
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
    let peer = |other: u32| Peer {
        fingerprint: cast.keys.fingerprint(other).to_string(),
        address: (wire.dialled(host, other), PORT).into(),
    };
    let directory = directory(nodes, host);
    let file = NodeFile {
        // 0 is the seed of nobody.
        identity: Seed { seed: u64::from(host) + 1 },
        control: Control { address: SocketAddr::from(([127, 0, 0, 1], 0)) },
        mix: MixFile {
            role: if is_scheduler { "scheduler" } else { "node" },
            identity: "mix.pem",
            listen: (own, PORT).into(),
            gateway: (!is_scheduler).then(|| gateway(own)),
            group: mix.group.name(),
            realtime_max: parameters.realtime_max,
            threads: mix.cores,
            // Zero stands for windows that adapt.
            window: scenario.transport.http2_window.unwrap_or_default(),
            live: live_directory(nodes)?,
            nodes: (0..cast.nodes).map(peer).collect(),
            scheduler: peer(cast.scheduler()),
            rounds: Rounds {
                team: mix.team,
                teams: mix.teams,
                batch: mix.batch,
                call: parameters.call,
                shape: parameters.shape,
                precomputation_slots: parameters.precomputation_slots,
                realtime_slots: parameters.realtime_slots,
                precomputing_max: parameters.precomputing_max,
                rounds_max: parameters.rounds_max.max(mix.stock()),
                rounds_per_draw: parameters.rounds_per_draw,
                count: mix.rounds,
            },
            limits: Limits {
                reconnect: parameters.reconnect_limit,
                precomputation: parameters.precomputation_timeout,
                realtime: parameters.realtime_timeout,
                queue: parameters.queue_timeout,
            },
        },
    };
    let text = toml::to_string(&file).map_err(io::Error::other)?;
    std::fs::write(directory.join("node.toml"), text)?;
    let pem = directory.join("mix.pem");
    if pem.exists() {
        std::fs::remove_file(&pem)?;
    }
    cast.keys.of(host).save(&pem).map_err(io::Error::other)
}

/// The directory of the results, in which live files are: that above those of nodes.
pub(super) fn live_directory(nodes: &Path) -> io::Result<PathBuf> {
    let nodes = nodes.canonicalize()?;
    let of_nodes = nodes.ancestors().find(|path| path.file_name().is_some_and(|name| name == "nodes"));
    Ok(of_nodes.and_then(Path::parent).unwrap_or(&nodes).to_owned())
}
