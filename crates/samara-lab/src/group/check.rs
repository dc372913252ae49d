//! Values of group broadcast that cannot be.

use crate::group::app::HEADER_BYTES;
use crate::scenario::Checks;
use crate::scenario::{Group, RingPreset, RingSpec, Scenario, TransportKind};

/// Members of a group: every pair of them has a link, and heartbeats.
const MEMBERS_MAX: u32 = 1_024;
/// Deliveries of a run.
const DELIVERIES_MAX: f64 = 1e10;

impl Checks<'_> {
    pub(crate) fn group(&mut self, scenario: &Scenario) {
        let group: &Group = scenario.part();
        if scenario.transport.kind == TransportKind::Grpc {
            let message =
                "members of a group have frames of their own; use kind = \"tcp\", \"quic\" or \"ideal\"";
            self.wrong("transport.kind", message.to_owned());
        }
        let nodes = scenario.network.nodes;
        self.range("network.nodes", nodes, 2, MEMBERS_MAX);
        self.range("group.senders", group.senders(nodes), 1, nodes);
        self.amount(group, nodes);
        if group.warm_up.nanos() == 0 {
            self.wrong("group.warm_up", "is 0; a group needs time to form".to_owned());
        }
        if group.patience.nanos() == 0 {
            self.wrong("group.patience", "is 0; deliveries take time".to_owned());
        }
        self.ring(scenario, group);
    }

    fn amount(&mut self, group: &Group, nodes: u32) {
        if group.messages.is_some() && group.duration.is_some() {
            self.wrong("group.duration", "there is a number of messages too; keep one of them".to_owned());
        }
        if let Some(rate) = group.rate.filter(|rate| !(*rate > 0.0 && rate.is_finite())) {
            self.wrong("group.rate", format!("is {rate}; it must be above 0 messages a second"));
        }
        let count = group.count();
        if count == Some(0) {
            self.wrong("group.messages", "is 0; give each sender something to send".to_owned());
        }
        let deliveries = f64::from(count.unwrap_or(1)) * f64::from(group.senders(nodes)) * f64::from(nodes);
        if deliveries > DELIVERIES_MAX {
            self.wrong(
                "group.messages",
                format!("come to {deliveries} deliveries; allowed are {DELIVERIES_MAX}"),
            );
        }
    }

    fn ring(&mut self, scenario: &Scenario, group: &Group) {
        let ring: &RingSpec = scenario.part();
        if ring.preset == RingPreset::Daisychain {
            if ring.is_changed() {
                let message = "a plain daisy chain has no parameters; keep the preset alone";
                self.wrong("protocol", message.to_owned());
            }
            self.range("group.size", group.size.bytes(), HEADER_BYTES as u64, 1 << 20);
            return;
        }
        self.federation(scenario);
        if let Some(chunk) = ring.chunk {
            self.range("protocol.chunk", chunk.bytes(), HEADER_BYTES as u64, 1 << 20);
        }
        if let Some(error) = ring.error(group, &scenario.network) {
            let key =
                key_of(error.field).map_or_else(|| "protocol".to_owned(), |key| format!("protocol.{key}"));
            self.wrong(&key, format!("found {}, expected {} ({})", error.found, error.expected, error.field));
        } else if let Some(config) = ring.build(group, &scenario.network) {
            self.range(
                "group.size",
                group.size.bytes(),
                HEADER_BYTES as u64,
                config.message_bytes_max as u64,
            );
        }
    }

    fn federation(&mut self, scenario: &Scenario) {
        let ring: &RingSpec = scenario.part();
        let only =
            [("bridge_shape", ring.bridge_shape.is_some()), ("absent_after", ring.absent_after.is_some())];
        for (key, _) in only.into_iter().filter(|(_, given)| *given && !ring.federated) {
            self.wrong(
                &format!("protocol.{key}"),
                "belongs to federations; add protocol.federated = true".to_owned(),
            );
        }
        if !ring.federated {
            return;
        }
        let Some(regions) = &scenario.network.regions else {
            self.wrong(
                "protocol.federated",
                "regions are its sites, and there are no [network.regions]".to_owned(),
            );
            return;
        };
        if regions.names.len() < 2 {
            self.wrong("network.regions", "a federation has two sites or more".to_owned());
        }
        if ring.preset == RingPreset::RingTotal {
            self.wrong(
                "protocol.preset",
                "a federation orders by sender, not totally; use \"ring\"".to_owned(),
            );
        }
    }
}

/// What the scenario calls a value of the engine's configuration.
fn key_of(field: &str) -> Option<&'static str> {
    Some(match field {
        "shape" => "shape",
        "chunk_bytes" => "chunk",
        "batch_bytes" => "batch",
        "hop_window_bytes" => "hop_window",
        "window" => "window_min",
        "own_queue_bytes" => "own_queue",
        "detection" | "detection.heartbeat" => "heartbeat",
        _ => return None,
    })
}
