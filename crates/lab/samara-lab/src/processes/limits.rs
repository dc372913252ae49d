//! The limits of the world of processes, in one place.

use samara_document::Queue;
use samara_hosts::{Layer, Transport};
use samara_scenario::{ConnectionSpec, FaultKind, Point, Scenario, TransportKind};
use samara_sim::Recovery;

use crate::{family, network};

/// A part of scenarios that exists in the simulator only: its key, whether a scenario has it, and what
/// to do.
type Lack = (&'static str, fn(&Scenario, Layer) -> bool, &'static str);

/// Scenarios that hosts in processes cannot run. `docs/guides/testbed.md` has the same list.
const LACKS: [Lack; 7] = [
    (
        "transport.kind",
        |scenario, layer| !matches!(layer, Layer::Libp2p | Layer::Grpc) && !has_transport(scenario, layer),
        "hosts of this protocol have \"tcp\" only; set it to \"tcp\"",
    ),
    (
        "transport.kind",
        |scenario, layer| layer == Layer::Grpc && !has_transport(scenario, layer),
        "hosts of this protocol have \"tcp\" and \"grpc\"; set it to one of them",
    ),
    (
        "transport.kind",
        |scenario, layer| layer == Layer::Libp2p && !has_transport(scenario, layer),
        "hosts of this protocol have \"tcp\" and \"quic\"; set it to one of them",
    ),
    (
        "transport.recovery",
        |scenario, _| {
            let recovery = scenario.transport.kind.tcp().and_then(|tcp| tcp.recovery);
            recovery.is_some_and(|recovery| recovery != Recovery::Linux)
        },
        "hosts have that of the kernel and of quinn; remove it",
    ),
    (
        "fault",
        |scenario, _| scenario.faults.iter().any(|fault| matches!(fault.kind, FaultKind::Node { .. })),
        "second nodes (\"node\") exist in the simulator only; remove them",
    ),
    (
        "network.regions.gateway_queue.kind",
        |scenario, _| {
            let regions = scenario.network.regions.as_ref().filter(|regions| regions.gateway.is_some());
            regions.is_some_and(|regions| matches!(regions.gateway_queue, Queue::FqCodel { .. }))
        },
        "\"fq-codel\" exists in the simulator only; expected \"codel\" or \"drop-tail\"",
    ),
    (
        "network.downlink_queue.kind",
        |scenario, _| matches!(scenario.network.downlink_queue, Queue::FqCodel { .. }),
        "\"fq-codel\" exists in the simulator only; expected \"codel\" or \"drop-tail\"",
    ),
];

/// Parts of scenarios that differ for hosts in processes, so that their figures are doubtful.
const DIFFERS: [Lack; 1] = [(
    "transport.connection.send_rate",
    |scenario, _| has_rates(scenario),
    "the connections of hosts have no limit of their rate; set it and receive_rate to \"0 bit/s\" for the same in the \
     simulator",
)];

fn has_rates(scenario: &Scenario) -> bool {
    let rates = |connection: &ConnectionSpec| [connection.send_rate, connection.receive_rate];
    scenario.transport.connection.as_ref().is_some_and(|spec| rates(spec).iter().any(|rate| rate.bps() > 0))
}

fn has_transport(scenario: &Scenario, layer: Layer) -> bool {
    transport(&scenario.transport.kind, layer).is_some()
}

/// Returns the transport below a link layer, if the layer has one of this kind.
pub(super) fn transport(kind: &TransportKind, layer: Layer) -> Option<Transport> {
    let transport = match kind {
        TransportKind::Tcp { .. } => Transport::Tcp,
        TransportKind::Grpc { .. } if layer == Layer::Grpc => Transport::Tcp,
        TransportKind::Quic { .. } => Transport::Quic,
        TransportKind::Ideal { .. } | TransportKind::Grpc { .. } | TransportKind::Datagram { .. } => {
            return None;
        }
    };
    Some(transport).filter(|transport| layer.transports().contains(transport))
}

/// Checks that hosts in processes have everything of a scenario.
///
/// # Errors
/// Names the key that exists in the simulator only, and the way out.
pub fn check(scenario: &Scenario) -> Result<(), String> {
    let layer = family::runs(scenario).layer;
    let lack = LACKS.iter().find(|(_, is_wanted, _)| is_wanted(scenario, layer));
    lack.map_or(Ok(()), |(key, _, what)| Err(format!("{key}: {what}, or use samara run")))
}

/// Checks that no program of others has to break the rules of its protocol.
///
/// # Errors
/// Names the first such host, and the way out.
pub fn check_foreign(point: &Point, is_foreign: impl Fn(u32) -> bool) -> Result<(), String> {
    let host = network::hostile(&point.scenario, point.seed).find(|host| is_foreign(*host));
    host.map_or(Ok(()), |host| {
        Err(format!(
            "fault: host {host} is to break the rules of its protocol, but programs of others keep them; choose hosts \
             of Samara's in fault.nodes"
        ))
    })
}

/// Returns what differs between a scenario and its run on hosts in processes.
pub fn ignored(scenario: &Scenario) -> Vec<String> {
    let runs = family::runs(scenario);
    let differs = DIFFERS.iter().filter(|(_, is_wanted, _)| is_wanted(scenario, runs.layer));
    differs.map(|(key, _, what)| format!("{key}: {what}")).collect()
}
