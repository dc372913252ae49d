//! Group broadcast as a scenario states it.

use samara_engine::PeerIdentity;
use samara_engine::shape::{Shape, Workload};
use samara_engine::units::{Size, Span};
use samara_ring::{Config, Federation, FederationConfig, Parameters, Preset, Ring};
use samara_sim::{Control, Framing, SendBuffer, Transport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use samara_scenario::Network;

use crate::family::{FamilySpec, NO_CHANNELS, PartType, ProtocolKind};
use crate::{Checks, Scenario, TransportKind};

/// Bytes of a message that say which one it is: the least size.
pub const HEADER_BYTES: usize = 20;

pub static FAMILY: FamilySpec = FamilySpec {
    section: "group",
    content: PartType::of::<Group>(),
    protocols: &[ProtocolKind::of::<Parameters>("ring")],
    unused: &[
        NO_CHANNELS,
        ("network.topology", "members of a group have links to all others"),
        ("network.validation_time", "members of a group validate nothing"),
        ("transport.links", "members of a group dial each other"),
    ],
    transport: framed,
    can_leave: true,
    check: |checks, scenario| checks.group(scenario),
    ..FamilySpec::BASE
};

/// Messages that members of a group broadcast to each other; all nodes are members. Takes the place of the blocks of `workload`; `ring` has
/// the parameters of the protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Group {
    /// How many members broadcast, the first ones; all of them, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub senders: Option<u32>,
    /// The size of a message.
    pub size: Size,
    /// How many messages each sender broadcasts (10,000, unless there is a `duration`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<u32>,
    /// Instead of a number of messages: how long senders broadcast.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
    /// Messages per second of each sender; as fast as they are taken, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// From the start of the run to the first message: links come up, and the group forms.
    pub warm_up: Span,
    /// After so long without a delivery a run that is not complete is over.
    pub patience: Span,
}

impl Default for Group {
    fn default() -> Self {
        Self {
            senders: None,
            size: Size::from_bytes(8_192),
            messages: None,
            duration: None,
            rate: None,
            warm_up: Span::from_millis(3_000),
            patience: Span::from_millis(70_000),
        }
    }
}

/// Messages of a sender, unless told otherwise.
const MESSAGES: u32 = 10_000;

impl Group {
    /// How many members broadcast in a group of so many.
    pub fn senders(&self, members: u32) -> u32 {
        self.senders.unwrap_or(members)
    }

    /// How many messages each sender broadcasts; `None` where a duration says when it ends.
    pub fn count(&self) -> Option<u32> {
        match (self.messages, self.duration) {
            (None, Some(_)) => None,
            (messages, _) => Some(messages.unwrap_or(MESSAGES)),
        }
    }

    /// When senders end, in nanoseconds of the run, if a duration says so.
    pub fn end_nanos(&self) -> Option<u64> {
        self.duration.map(|duration| self.warm_up.nanos() + duration.nanos())
    }

    /// What members of a group have to do, for formulas that choose a shape.
    pub fn workload(&self, network: &Network) -> Workload {
        Workload {
            members: network.nodes as usize,
            senders: self.senders(network.nodes) as usize,
            message_bytes: self.size.bytes(),
            // Chunks are as the protocol's parameters say.
            chunk_bytes: self.size.bytes(),
            link_bytes_per_s: network.uplink.bps().min(network.downlink.bps()) as f64 / 8.0,
            hop_s: network.latency.duration().as_secs_f64(),
        }
    }

    /// The same for leaders of a federation, whose links are those between regions.
    fn bridge_workload(&self, network: &Network) -> Workload {
        let regions = network.regions.as_ref();
        let gateway = regions.and_then(|regions| regions.gateway).unwrap_or(network.uplink);
        let latencies = regions.into_iter().flat_map(|regions| regions.latency.iter().flatten());
        let far = latencies.map(|latency| latency.duration()).max();
        Workload {
            link_bytes_per_s: gateway.bps().min(network.uplink.bps()) as f64 / 8.0,
            hop_s: far.unwrap_or(network.latency.duration()).as_secs_f64(),
            ..self.workload(network)
        }
    }
}

/// The configuration of a member, without seeds; `None` for the plain daisy chain.
pub fn config(scenario: &Scenario) -> Option<Config> {
    let group: &Group = scenario.part();
    scenario.part::<Parameters>().build(group.workload(&scenario.network))
}

/// The configuration of a member of a federation: of this site, with these other sites and this configuration of its ring.
pub fn federated(
    scenario: &Scenario,
    site: u16,
    sites: Vec<(u16, Vec<PeerIdentity>)>,
    local: Config,
) -> FederationConfig {
    let workload = scenario.part::<Group>().bridge_workload(&scenario.network);
    scenario.part::<Parameters>().federate(site, sites, local, workload)
}

/// How leaders of sites send to each other, in a federation.
pub fn bridge_shape(scenario: &Scenario) -> Option<Shape> {
    let sites = scenario.network.regions.as_ref()?.names.len();
    let others = (1..sites as u16).map(|site| (site, Vec::new())).collect();
    let local = config(scenario).filter(|_| scenario.part::<Parameters>().federated)?;
    Some(federated(scenario, 0, others, local).bridge.shape.shape(sites))
}

/// Bytes that a member of a group lets wait in the kernel, unsent (`TCP_NOTSENT_LOWAT`): a frame, so that links never run dry while
/// heartbeats and acknowledgements wait for little.
const UNSENT_BYTES: u64 = 64 << 10;

/// Frames with their length in front, as members of a group send them over plain TCP, on Ethernet as a rate limit counts it: packets of
/// 1,514 bytes (14 of Ethernet, 20 of IPv4, 32 of TCP with timestamps), and one round trip until a link is up.
fn framed(scenario: &Scenario, transport: &mut Transport) {
    transport.framing = Framing { small_overhead: 4, large_overhead: 4, lead: 0 };
    if !matches!(transport.control, Control::Quic(_)) {
        (transport.mss, transport.header) = (1_448, 66);
        transport.handshake_round_trips = 1;
    }
    if let Control::Tcp(tcp) = &mut transport.control {
        tcp.send_buffer =
            SendBuffer::Unsent { bytes: scenario.transport.unsent.map_or(UNSENT_BYTES, Size::bytes) };
    }
}

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
            self.wrong("transport.kind", message);
        }
        let nodes = scenario.network.nodes;
        self.range("network.nodes", nodes, 2, MEMBERS_MAX);
        self.range("group.senders", group.senders(nodes), 1, nodes);
        self.amount(group, nodes);
        if group.warm_up.nanos() == 0 {
            self.wrong("group.warm_up", "is 0; a group needs time to form");
        }
        if group.patience.nanos() == 0 {
            self.wrong("group.patience", "is 0; deliveries take time");
        }
        self.ring(scenario, group);
    }

    fn amount(&mut self, group: &Group, nodes: u32) {
        if group.messages.is_some() && group.duration.is_some() {
            self.wrong("group.duration", "there is a number of messages too; keep one of them");
        }
        if let Some(rate) = group.rate.filter(|rate| !(*rate > 0.0 && rate.is_finite())) {
            self.wrong("group.rate", format!("is {rate}; it must be above 0 messages a second"));
        }
        let count = group.count();
        if count == Some(0) {
            self.wrong("group.messages", "is 0; give each sender something to send");
        }
        let deliveries = f64::from(count.unwrap_or(1)) * f64::from(group.senders(nodes)) * f64::from(nodes);
        if deliveries > DELIVERIES_MAX {
            let message = format!("come to {deliveries} deliveries; allowed are {DELIVERIES_MAX}");
            self.wrong("group.messages", message);
        }
    }

    fn ring(&mut self, scenario: &Scenario, group: &Group) {
        let ring: &Parameters = scenario.part();
        let Some(config) = config(scenario) else {
            if ring.is_changed() {
                let message = "a plain daisy chain has no parameters; keep the preset alone";
                self.wrong("protocol", message);
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
            self.wrong(&format!("protocol.{key}"), "belongs to federations; add protocol.federated = true");
        }
        if !ring.federated {
            return;
        }
        match &scenario.network.regions {
            None => {
                let message = "regions are its sites, and there are no [network.regions]";
                return self.wrong("protocol.federated", message);
            }
            Some(regions) if regions.names.len() < 2 => {
                self.wrong("network.regions", "a federation has two sites or more");
            }
            Some(_) => {}
        }
        if ring.preset == Preset::RingTotal {
            let message = "a federation orders by sender, not totally; use \"ring\"";
            self.wrong("protocol.preset", message);
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
