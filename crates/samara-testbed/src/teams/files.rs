//! Certificates and configurations of nodes.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use samara_engine::shape::ShapeSetting;
use samara_engine::units::{Size, Span};
use samara_lab::scenario::{FaultKind, Scenario};
use samara_mix::Transfer;
use samara_net::relay::{Fingerprint, Identity};
use serde::Serialize;

use super::{Participants, relay_of};
use crate::addresses::Wire;

/// Every host has an address of its own, and so all can have the same ports.
const PORT: u16 = 7900;
const GATEWAY_PORT: u16 = 7901;

/// What only a simulation can do is refused, never left out.
pub(crate) fn possible(scenario: &Scenario) -> Result<(), String> {
    let relay = relay_of(scenario);
    if relay.shape == ShapeSetting::ByFormula {
        return Err(
            "relay.shape: real nodes do not know the rates of links; give the name of a shape".to_owned()
        );
    }
    if !relay.cpu.is_empty() {
        return Err(
            "relay.cpu: real nodes take the time that they take; remove it for the testbed".to_owned()
        );
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
    relay: RelayFile,
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
struct RelayFile {
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
    let relay = relay_of(scenario);
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
        relay: RelayFile {
            role: if is_scheduler { "scheduler" } else { "node" },
            identity: "relay.pem",
            listen: (own, PORT).into(),
            gateway: (!is_scheduler).then(|| gateway(own)),
            group: relay.group.group().name(),
            realtime_max: relay.realtime_max,
            threads: relay.cores,
            // Zero stands for windows that adapt.
            window: scenario.transport.http2_window.unwrap_or_default(),
            live: live_directory(nodes)?,
            nodes: (0..cast.nodes).map(peer).collect(),
            scheduler: peer(cast.scheduler()),
            rounds: Rounds {
                team: relay.team,
                teams: relay.teams,
                batch: relay.batch,
                call: relay.call,
                shape: relay.shape,
                precomputation_slots: relay.precomputation_slots,
                realtime_slots: relay.realtime_slots,
                precomputing_max: relay.precomputing_max,
                rounds_max: relay.rounds_max.max(relay.stock()),
                rounds_per_draw: relay.rounds_per_draw,
                count: relay.rounds,
            },
            limits: Limits {
                reconnect: relay.reconnect_limit,
                precomputation: relay.precomputation_timeout,
                realtime: relay.realtime_timeout,
                queue: relay.queue_timeout,
            },
        },
    };
    let text = toml::to_string(&file).map_err(io::Error::other)?;
    std::fs::write(directory.join("node.toml"), text)?;
    let pem = directory.join("relay.pem");
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
