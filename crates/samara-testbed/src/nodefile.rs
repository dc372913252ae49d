//! The `node.toml` of each node.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use samara_lab::scenario::Scenario;
use serde::Serialize;

use crate::addresses::multiaddr;
use crate::plan::Wanted;

/// Events that a node may be behind with its trace: a testbed rather makes a node wait than lose any.
const TRACE_QUEUE: usize = 1 << 16;

/// Bytes that leave the outbox ahead of each stream: the least send buffer of the simulator's TCP. What is in buffers cannot be
/// withdrawn nor put in another order.
const IN_FLIGHT: &str = "16 KiB";

#[derive(Serialize)]
struct NodeFile<'a> {
    topics: &'a [String],
    identity: Identity,
    network: Network,
    gossipsub: toml::Value,
    messages: Messages,
    control: Control,
    trace: Trace<'a>,
    log: Log,
}

#[derive(Serialize)]
struct Identity {
    seed: u64,
}

#[derive(Serialize)]
struct Network {
    listen: Vec<String>,
    idle_timeout: &'static str,
    max_connections: u32,
    in_flight: &'static str,
}

#[derive(Serialize)]
struct Messages {
    authenticity: &'static str,
    id: &'static str,
}

#[derive(Serialize)]
struct Control {
    address: SocketAddr,
}

#[derive(Serialize)]
struct Trace<'a> {
    file: &'a Path,
    queue: usize,
    when_full: &'static str,
}

#[derive(Serialize)]
struct Log {
    filter: &'static str,
}

/// The file of a node that listens at `own` and writes its trace to `trace`.
pub(crate) fn text(
    scenario: &Scenario,
    wanted: &Wanted,
    node: u32,
    own: Ipv4Addr,
    trace: &Path,
) -> Result<String, String> {
    let signed = scenario.messages.as_ref().is_some_and(|messages| messages.signed);
    let file = NodeFile {
        topics: &wanted.topics[node as usize],
        // 0 is the seed of nobody.
        identity: Identity { seed: u64::from(node) + 1 },
        network: Network {
            listen: vec![multiaddr(own, scenario.transport.kind)],
            idle_timeout: "1 h",
            max_connections: scenario.network.nodes.max(16) * 2,
            in_flight: IN_FLIGHT,
        },
        gossipsub: toml::Value::try_from(&scenario.gossipsub).map_err(|error| error.to_string())?,
        messages: Messages {
            authenticity: if signed { "signed" } else { "anonymous" },
            id: if signed { "from-seqno" } else { "ethereum" },
        },
        control: Control { address: SocketAddr::from(([127, 0, 0, 1], 0)) },
        trace: Trace { file: trace, queue: TRACE_QUEUE, when_full: "wait" },
        log: Log { filter: "info" },
    };
    toml::to_string(&file).map_err(|error| error.to_string())
}
