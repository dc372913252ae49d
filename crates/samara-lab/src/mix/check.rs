//! Values of relays that cannot be.

use crate::scenario::Checks;
use crate::scenario::{
    Cat, FaultKind, LinkStart, Protocol, Relay, RingSpec, Scenario, Topology, TransportKind, Workload,
};

/// Nodes of a pool: all have links to all others.
const POOL_MAX: u32 = 128;
/// Slots of a run: payloads are moved through all nodes of a team, and those of a stock are kept.
const SLOTS_MAX: u64 = 100_000_000;
/// Slots of a round, so that those of a phase in one message stay below 2^30 bytes.
const BATCH_MAX: u32 = 500_000;
/// Cores of a node.
const CORES_MAX: u32 = 256;
/// The least part of a core: what the kernel can keep a process to (1 ms of a period of 100 ms).
const PROCESSOR_MIN: f64 = 0.01;

impl Checks<'_> {
    pub(crate) fn relay(&mut self, scenario: &Scenario, relay: &Relay) {
        let others = [
            ("workload", scenario.workload != Workload::default(), "there are blocks (workload)"),
            ("messages", scenario.messages.is_some(), "there are messages for a topic"),
            ("transactions", scenario.transactions.is_some(), "there are transactions"),
            ("group", scenario.group.is_some(), "there is a group"),
            ("ring", scenario.ring != RingSpec::default(), "there are parameters of a group"),
            ("handover", scenario.handover.is_some(), "there are batches between two nodes"),
            ("protocol", scenario.protocol != Protocol::default(), "there is a protocol for messages"),
            ("gossipsub", scenario.gossipsub != Default::default(), "there are parameters of GossipSub"),
            ("cat", scenario.cat != Cat::default(), "there are parameters of pools"),
            ("transport.connection", scenario.transport.connection.is_some(), "there are channels of pools"),
        ];
        for (key, _, what) in others.into_iter().filter(|(_, given, _)| *given) {
            self.wrong(key, format!("{what} and teams that mix (relay) in one scenario; keep one of them"));
        }
        if scenario.network.topology != Topology::default() {
            self.wrong("network.topology", "nodes of a pool have links to all others; remove it".to_owned());
        }
        if scenario.transport.links != LinkStart::default() {
            self.wrong("transport.links", "nodes of a pool dial each other; remove it".to_owned());
        }
        if scenario.transport.kind != TransportKind::Grpc {
            self.wrong("transport.kind", "teams mix over kind = \"grpc\"".to_owned());
        }
        if scenario.network.validation_time.nanos() > 0 {
            self.wrong("network.validation_time", "what work takes is in relay.cpu; remove it".to_owned());
        }
        for (index, fault) in scenario.faults.iter().enumerate() {
            if fault.kind == FaultKind::Leave {
                self.wrong(&format!("fault.{index}"), "leave belongs to groups; use crash".to_owned());
            }
        }
        self.amounts(scenario, relay);
    }

    fn amounts(&mut self, scenario: &Scenario, relay: &Relay) {
        let problems = self.problems.len();
        self.range("network.nodes", scenario.network.nodes, 2, POOL_MAX);
        self.range("relay.batch", relay.batch, 1, BATCH_MAX);
        self.range("relay.rounds", relay.rounds, 1, 100_000);
        self.range("relay.cores", relay.cores, 1, CORES_MAX);
        self.range("relay.stock", relay.stock(), 0, relay.rounds);
        let processor = relay.processor.fraction();
        if !(PROCESSOR_MIN..=1.0).contains(&processor) {
            self.wrong("relay.processor", format!("found \"{}\", expected 1 % to 100 %", relay.processor));
        }
        if self.problems.len() > problems {
            return;
        }
        let slots = u64::from(relay.batch) * u64::from(relay.rounds);
        if slots > SLOTS_MAX {
            let most = SLOTS_MAX / u64::from(relay.batch);
            self.wrong("relay.rounds", format!("has {slots} slots in all; with this batch at most {most}"));
        }
        if let Some(error) = relay.error(&scenario.network) {
            let key = match error.field {
                "pool" => "network.nodes".to_owned(),
                "reconnect" => "relay.reconnect_limit".to_owned(),
                field => format!("relay.{}", field.split(',').next().unwrap_or(field)),
            };
            self.wrong(&key, format!("found {}, expected {}", error.found, error.expected));
        }
    }
}
