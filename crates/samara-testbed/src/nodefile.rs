//! Writes the `node.toml` of each node.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use samara_engine::units::{Size, Span};
use samara_gossipsub::config::Parameters;
use samara_node::config::{AuthenticityKind, Cat, IdKind, Identity, Network, Plan, Server, Trace, WhenFull};
use samara_node::{NodeConfig, config};
use samara_spec::Scenario;
use samara_spec::columns::Columns;
use samara_spec::messages::Messages;
use toml::{Table, Value};

use crate::plan::{Job, Wanted};
use crate::pools;
use crate::wire::{self, multiaddr};

/// Events that may wait for the trace of a node. The testbed prefers a waiting node to lost events.
const TRACE_QUEUE: usize = 1 << 16;

const CHAIN: &str = "samara-testbed";

/// The sections that the testbed writes, with the required keys only: all other keys have their
/// defaults.
const DEFAULTS: &str = r#"
identity.seed = 0
control.listen = "0.0.0.0:0"
trace.file = ""
cat.network = ""
"#;

/// Returns the file of a node that listens at `own` and writes its trace to `trace`. A node with a
/// `plan`, and the addresses that it dials, has no control API.
pub(crate) fn text(
    scenario: &Scenario,
    wanted: &Wanted,
    node: u32,
    own: Ipv4Addr,
    trace: &Path,
    plan: Option<(Vec<String>, Plan)>,
) -> Result<String, String> {
    let cat = cat(scenario, wanted, node, own)?;
    let is_pool = cat.is_some();
    let is_planned = plan.is_some();
    let (dial, plan) = plan.unwrap_or_default();
    let signed = scenario.find::<Messages>().is_some_and(|messages| messages.signed);
    let in_pieces = scenario.find::<Columns>().is_some_and(|workload| workload.pieces.is_some());
    let id = match (signed, in_pieces) {
        (true, _) => IdKind::FromSeqno,
        (false, true) => IdKind::Pieces,
        (false, false) => IdKind::Ethereum,
    };
    let defaults: NodeConfig = toml::from_str(DEFAULTS).map_err(|error| error.to_string())?;
    let file = NodeConfig {
        topics: wanted.topics[node as usize].clone(),
        // No node has the seed 0.
        identity: Identity {
            seed: Some(u64::from(node) + 1),
            allow_seed: !own.is_loopback(),
            key_file: None,
        },
        network: Network {
            // The pool has the port.
            listen: if is_pool { Vec::new() } else { vec![multiaddr(own, scenario.transport.kind)] },
            dial,
            // Shadow does not let two sockets share one port.
            reuse_port: !is_planned,
            idle_timeout: Span::from_millis(3_600_000),
            max_connections: scenario.network.nodes.max(16) * 2,
            // Before the host's own interface, a real node has nothing else to know its uplink by.
            limit: scenario.transport.node_limit.unwrap_or(true),
            ..Network::default()
        },
        // Other implementations know the values of presets, not which of them follow a key.
        gossipsub: scenario.find::<Parameters>().map(Parameters::settled).unwrap_or_default(),
        messages: config::Messages {
            authenticity: Some(if signed { AuthenticityKind::Signed } else { AuthenticityKind::Anonymous }),
            id: Some(id),
            max_size: None,
        },
        control: (!is_planned).then(|| Server {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            allow_remote: false,
            token_file: None,
        }),
        cells: cells(scenario, wanted, node),
        cat,
        // Pools report arrivals on the control API.
        trace: (!is_pool).then(|| Trace {
            file: trace.to_owned(),
            format: config::TraceFormat::default(),
            queue: TRACE_QUEUE,
            when_full: WhenFull::Wait,
            // A run whose trace is full fails, as one whose trace lacks events.
            file_max: Size::from_bytes(samara_trace::FILE_BYTES_DEFAULT),
        }),
        plan,
        ..defaults.clone()
    };
    let table = |config: &NodeConfig| Table::try_from(config).map_err(|error| error.to_string());
    let (mut file, mut defaults) = (table(&file)?, table(&defaults)?);
    // A scenario that leaves the preset at its default must not look like one that names it.
    defaults.remove("gossipsub");
    remove_defaults(&mut file, &defaults);
    toml::to_string(&file).map_err(|error| error.to_string())
}

/// Removes keys with their default values, which other implementations need not know.
fn remove_defaults(file: &mut Table, defaults: &Table) {
    file.retain(|key, value| match (value, defaults.get(key)) {
        (Value::Table(section), Some(Value::Table(defaults))) => {
            remove_defaults(section, defaults);
            !section.is_empty()
        }
        (value, default) => Some(&*value) != default,
    });
}

/// Returns the section of a node's blocks, if the scenario has cells.
fn cells(scenario: &Scenario, wanted: &Wanted, node: u32) -> Option<config::Cells> {
    let Job::Columns { cells: Some(plan), .. } = &wanted.job else { return None };
    let keys = scenario.find::<Columns>()?.cells.as_ref()?;
    let block = |(slot, group)| config::Block {
        group: STANDARD.encode(group),
        blobs: plan.blobs(),
        mempool: plan.mempool(node, slot).iter().collect(),
    };
    Some(config::Cells {
        lookup_time: keys.lookup_time,
        cell_time: keys.cell_time,
        blocks: (0..).zip(plan.groups()).map(block).collect(),
    })
}

/// Returns the section of a node's pool, if the scenario has pools.
fn cat(scenario: &Scenario, wanted: &Wanted, node: u32, own: Ipv4Addr) -> Result<Option<Cat>, String> {
    let Job::Transactions { roles, .. } = &wanted.job else { return Ok(None) };
    let preset = pools::preset(scenario, roles[node as usize]);
    Ok(Some(Cat {
        preset,
        network: CHAIN.to_owned(),
        listen: Some(wire::pool(own)),
        peers: Vec::new(),
        moniker: "samara".to_owned(),
        flush_throttle: pools::flush_throttle(scenario),
        max_inbound: scenario.network.nodes,
        max_inbound_per_ip: scenario.network.nodes,
    }))
}

#[cfg(test)]
mod tests {
    use samara_scenario::Inputs;
    use samara_spec::{Overrides, load_source};

    use super::*;

    fn network_of(network: &str, transport: &str) -> Table {
        let text = format!(
            "[scenario]\nname = \"x\"\ntitle = \"x\"\n[columns]\n[network]\nnodes = 40\n{network}\n\
             [transport]\n{transport}\n[protocol]\ndispatch = \"node\"\n"
        );
        let loaded = load_source("x", &text, Inputs::default(), &Overrides::default()).expect("a scenario");
        let point = &loaded.points[0];
        let wanted = Wanted::new(point, &loaded.inputs).expect("a plan");
        let own = Ipv4Addr::new(10, 78, 254, 1);
        let file =
            super::text(&point.scenario, &wanted, 0, own, Path::new("trace.pb"), None).expect("a file");
        let file: Table = toml::from_str(&file).expect("TOML");
        file["network"].as_table().expect("a section").clone()
    }

    /// Before the own interface, real nodes limit themselves without a key of the scenario: they know
    /// nothing else about their uplink. Buffers are those of any node.
    #[test]
    fn nodes_have_their_own_buffers_and_the_limit_of_the_scenario() {
        let fair = "uplink_queue = { kind = \"fair\" }";
        for (network, transport, limit) in [
            ("", "", None),
            (fair, "node_limit = true", None),
            (fair, "node_limit = false", Some(&Value::Boolean(false))),
        ] {
            let file = network_of(network, transport);
            assert_eq!(file.get("limit"), limit, "{network} {transport}");
            assert!(!file.contains_key("in_flight"), "{file:?}");
        }
    }
}
