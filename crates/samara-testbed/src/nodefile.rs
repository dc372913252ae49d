//! The `node.toml` of each node.

use samara_gossipsub::config::Parameters;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use samara_engine::units::Span;
use samara_lab::scenario::Scenario;
use serde::Serialize;

use crate::addresses::{self, multiaddr};
use crate::plan::{Job, Wanted};
use crate::pools;

/// Events that a node may be behind with its trace: a testbed rather makes a node wait than lose any.
const TRACE_QUEUE: usize = 1 << 16;

/// Bytes that leave the outbox ahead of each stream: the least send buffer of the simulator's TCP. What is in buffers cannot be
/// withdrawn nor put in another order.
const IN_FLIGHT: &str = "16 KiB";
/// The same of a pool, what a node has by itself: its channels have queues behind the outbox in the simulator, too.
const POOL_IN_FLIGHT: &str = "64 KiB";

/// The chain that pools say they belong to.
const CHAIN: &str = "samara-testbed";

#[derive(Serialize)]
struct NodeFile<'a> {
    topics: &'a [String],
    identity: Identity,
    network: Network,
    gossipsub: toml::Value,
    messages: Messages,
    #[serde(skip_serializing_if = "Option::is_none")]
    control: Option<Control>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<Cat>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<Trace<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<&'a PlanFile>,
    log: Log,
}

/// What a node does by itself that nobody can ask.
pub(crate) struct Alone {
    /// Addresses that it dials.
    pub(crate) dial: Vec<String>,
    /// What it does when.
    pub(crate) plan: PlanFile,
}

/// The section `[plan]`.
#[derive(Serialize)]
pub(crate) struct PlanFile {
    /// The file with its publications, if it has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) publications: Option<&'static str>,
    /// When it writes what it has counted.
    pub(crate) metrics: Vec<MetricsAt>,
}

/// A look at what a node has counted.
#[derive(Serialize)]
pub(crate) struct MetricsAt {
    pub(crate) at_unix_ns: u64,
    pub(crate) file: &'static str,
}

/// A pool of transactions.
#[derive(Serialize)]
struct Cat {
    preset: samara_cat::Preset,
    network: &'static str,
    listen: SocketAddr,
    flush_throttle: Span,
    max_inbound: u32,
    max_inbound_per_ip: u32,
}

#[derive(Serialize)]
struct Identity {
    seed: u64,
}

#[derive(Serialize)]
struct Network {
    listen: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dial: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reuse_port: Option<bool>,
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

/// The file of a node that listens at `own` and writes its trace to `trace`. Nodes that are not alone are told by the control API
/// whom to dial and what to publish.
pub(crate) fn text(
    scenario: &Scenario,
    wanted: &Wanted,
    node: u32,
    own: Ipv4Addr,
    trace: &Path,
    alone: Option<&Alone>,
) -> Result<String, String> {
    let cat = cat(scenario, wanted, node, own);
    let is_pool = cat.is_some();
    let gossipsub = scenario.find::<Parameters>().cloned().unwrap_or_default();
    let signed = scenario.find::<samara_lab::scenario::Messages>().is_some_and(|messages| messages.signed);
    let file = NodeFile {
        topics: &wanted.topics[node as usize],
        // 0 is the seed of nobody.
        identity: Identity { seed: u64::from(node) + 1 },
        network: Network {
            // The pool has the port.
            listen: if is_pool { Vec::new() } else { vec![multiaddr(own, scenario.transport.kind)] },
            dial: alone.map(|alone| alone.dial.clone()).unwrap_or_default(),
            // Shadow does not let two sockets have one port.
            reuse_port: alone.map(|_| false),
            idle_timeout: "1 h",
            max_connections: scenario.network.nodes.max(16) * 2,
            in_flight: if is_pool { POOL_IN_FLIGHT } else { IN_FLIGHT },
        },
        gossipsub: toml::Value::try_from(gossipsub).map_err(|error| error.to_string())?,
        messages: Messages {
            authenticity: if signed { "signed" } else { "anonymous" },
            id: if signed { "from-seqno" } else { "ethereum" },
        },
        control: alone.is_none().then_some(Control { address: SocketAddr::from(([127, 0, 0, 1], 0)) }),
        cat,
        // Pools tell of arrivals on the control API.
        trace: (!is_pool).then_some(Trace { file: trace, queue: TRACE_QUEUE, when_full: "wait" }),
        plan: alone.map(|alone| &alone.plan),
        log: Log { filter: "info" },
    };
    toml::to_string(&file).map_err(|error| error.to_string())
}

/// The section of a node's pool, if the scenario has pools.
fn cat(scenario: &Scenario, wanted: &Wanted, node: u32, own: Ipv4Addr) -> Option<Cat> {
    let Job::Transactions { roles, .. } = &wanted.job else { return None };
    Some(Cat {
        preset: pools::preset(scenario, roles[node as usize]),
        network: CHAIN,
        listen: addresses::pool(own),
        flush_throttle: pools::flush_throttle(scenario),
        max_inbound: scenario.network.nodes,
        max_inbound_per_ip: scenario.network.nodes,
    })
}
