//! Values of group broadcast that cannot be.

use samara_ring::{Federation, Parameters, Preset, Ring};

use super::app::HEADER_BYTES;
use super::spec::{config, federated};
use crate::scenario::{Checks, Group, Scenario, TransportKind};

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
        let ring: &Parameters = scenario.part();
        let Some(config) = config(scenario) else {
            if ring.is_changed() {
                let message = "a plain daisy chain has no parameters; keep the preset alone";
                self.wrong("protocol", message.to_owned());
            }
            self.range("group.size", group.size.bytes(), HEADER_BYTES as u64, 1 << 20);
            return;
        };
        self.federation(scenario);
        if let Some(chunk) = ring.chunk {
            self.range("protocol.chunk", chunk.bytes(), HEADER_BYTES as u64, 1 << 20);
        }
        let (longest, me) = (config.message_bytes_max as u64, samara_sim::identity_of(0));
        let possible = if ring.federated {
            Federation::new(federated(scenario, 0, Vec::new(), config), me).map(drop)
        } else {
            Ring::new(config, me).map(drop)
        };
        match possible {
            Ok(()) => self.range("group.size", group.size.bytes(), HEADER_BYTES as u64, longest),
            Err(error) => {
                let key = key_of(&error.field).map(|key| format!("protocol.{key}"));
                let message = format!("found {}, expected {} ({})", error.found, error.expected, error.field);
                self.wrong(key.as_deref().unwrap_or("protocol"), message);
            }
        }
    }

    fn federation(&mut self, scenario: &Scenario) {
        let ring: &Parameters = scenario.part();
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
        match &scenario.network.regions {
            None => {
                let message = "regions are its sites, and there are no [network.regions]";
                return self.wrong("protocol.federated", message.to_owned());
            }
            Some(regions) if regions.names.len() < 2 => {
                self.wrong("network.regions", "a federation has two sites or more".to_owned());
            }
            Some(_) => {}
        }
        if ring.preset == Preset::RingTotal {
            let message = "a federation orders by sender, not totally; use \"ring\"";
            self.wrong("protocol.preset", message.to_owned());
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
