//! Values of batches that are handed over that cannot be.

use crate::scenario::{Checks, Handover, Scenario, TransportKind};

/// Payloads of a batch: what is on the way is kept in memory.
const PAYLOADS_MAX: u32 = 1_000_000;
/// The longest message (the length before a message has 32 bits, and windows 31).
const MESSAGE_MAX: u64 = 1 << 30;

impl Checks<'_> {
    pub(crate) fn handover(&mut self, scenario: &Scenario) {
        let handover: &Handover = scenario.part();
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
