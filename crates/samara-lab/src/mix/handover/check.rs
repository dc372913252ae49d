//! Values of batches that are handed over that cannot be.

use crate::scenario::Checks;
use crate::scenario::{
    Cat, Handover, LinkStart, Protocol, RingSpec, Scenario, Topology, TransportKind, Workload,
};

/// Payloads of a batch: what is on the way is kept in memory.
const PAYLOADS_MAX: u32 = 1_000_000;
/// The longest message (the length before a message has 32 bits, and windows 31).
const MESSAGE_MAX: u64 = 1 << 30;

impl Checks<'_> {
    pub(crate) fn handover(&mut self, scenario: &Scenario, handover: &Handover) {
        let others = [
            ("workload", scenario.workload != Workload::default(), "there are blocks (workload)"),
            ("messages", scenario.messages.is_some(), "there are messages for a topic"),
            ("transactions", scenario.transactions.is_some(), "there are transactions"),
            ("group", scenario.group.is_some(), "there is a group"),
            ("ring", scenario.ring != RingSpec::default(), "there are parameters of a group"),
            ("protocol", scenario.protocol != Protocol::default(), "there is a protocol for messages"),
            ("gossipsub", scenario.gossipsub != Default::default(), "there are parameters of GossipSub"),
            ("cat", scenario.cat != Cat::default(), "there are parameters of pools"),
            ("transport.connection", scenario.transport.connection.is_some(), "there are channels of pools"),
            ("fault", !scenario.faults.is_empty(), "there are faults"),
        ];
        for (key, _, what) in others.into_iter().filter(|(_, given, _)| *given) {
            self.wrong(key, format!("{what} and batches (handover) in one scenario; keep one of them"));
        }
        if scenario.network.topology != Topology::default() {
            self.wrong("network.topology", "batches need one link; remove it".to_owned());
        }
        if scenario.transport.links != LinkStart::default() {
            self.wrong("transport.links", "the link is there from the start; remove it".to_owned());
        }
        if scenario.transport.kind != TransportKind::Grpc {
            self.wrong("transport.kind", "batches are handed over with kind = \"grpc\"".to_owned());
        }
        self.range("network.nodes", scenario.network.nodes, 2, 2);
        self.range("handover.payloads", handover.payloads, 1, PAYLOADS_MAX);
        self.range("handover.size", handover.size.bytes(), 1, MESSAGE_MAX);
        self.range("handover.batches", handover.batches, 2, 1_000);
        if handover.bytes() > MESSAGE_MAX {
            let most = MESSAGE_MAX / handover.size.bytes().max(1);
            self.wrong(
                "handover.payloads",
                format!("a batch has {} bytes; at this size allowed are {most}", handover.bytes()),
            );
        }
    }
}
