//! The section of a scenario with group broadcast.

use samara_engine::PeerIdentity;
use samara_engine::settings::Form;
use samara_engine::shape::{Shape, Workload};
use samara_engine::units::{Size, Span};
use samara_ring::{
    Config, Federation, FederationConfig, FileConfig, Order, Parameters, Preset, Ring, ShapeChoice, Slow,
    key_of,
};
use samara_sim::{Control, Framing, SendBuffer, Transport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use samara_document::Network;

use crate::application::HEADER_BYTES;
use samara_scenario::family::{FamilySpec, NO_CHANNELS, PartType, ProtocolKind};
use samara_scenario::keep_one;
use samara_scenario::{Checks, Scenario, TransportKind};

pub static FAMILY: FamilySpec = FamilySpec {
    section: "group",
    title: "Members broadcast to each other",
    docs: "protocols/ring.md",
    content: PartType::of::<Group>(),
    nodes_max: MEMBERS_MAX,
    protocols: &[ProtocolKind {
        in_effect: |scenario| {
            // The plain daisy chain has no parameters.
            scenario.find::<Parameters>()?.preset.config()?;
            (ProtocolKind::of_settings::<FileConfig>("ring").in_effect)(scenario)
        },
        ..ProtocolKind::of_settings::<FileConfig>("ring")
    }],
    unused: &[
        NO_CHANNELS,
        ("network.topology", "members of a group have links to all others"),
        ("network.validation_time", "members of a group validate nothing"),
        ("network.stalled_periods", "members of a group validate nothing"),
        ("transport.links", "members of a group dial each other"),
    ],
    transport: framed,
    can_leave: true,
    least_timeout: |scenario| config(scenario).map(|config| config.detection.timeout_min),
    check,
    notes,
    scenarios: samara_scenario::scenarios! {
        "ring" "2 s",
        "ring-rounds" "< 1 s",
        "ring-churn" "3 s",
        "ring-latency" "5 s",
        "ring-senders" "5 s",
        "ring-members" "12 s",
        "ring-size" "3 s",
        "ring-switch" "7 s",
        "ring-hour" "69 s",
        "ring-federation" "5 s",
        "ring-federation-churn" "4 s",
    },
    ..FamilySpec::BASE
};

/// Messages that members of a group broadcast to each other. All nodes are members.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Group {
    /// Number of members that broadcast, the first ones. Default: all members.
    pub senders: Option<u32>,
    /// Size of a message.
    pub size: Size,
    /// Number of messages that each sender broadcasts. Default: 10,000, unless there is a
    /// `duration`.
    pub messages: Option<u32>,
    /// Time for which senders broadcast, in place of a number of messages.
    pub duration: Option<Span>,
    /// Messages per second of each sender. Default: as fast as the group accepts them.
    pub rate: Option<f64>,
    /// Time from the start of the run to the first message, in which links come up and the group
    /// forms.
    pub warm_up: Span,
    /// Maximum time without a delivery. Then an incomplete run ends.
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

/// Default number of messages of a sender.
const MESSAGES: u32 = 10_000;

impl Group {
    pub fn senders(&self, members: u32) -> u32 {
        self.senders.unwrap_or(members)
    }

    /// Number of messages that each sender broadcasts. `None` if a duration ends the run.
    pub fn count(&self) -> Option<u32> {
        match (self.messages, self.duration) {
            (None, Some(_)) => None,
            (messages, _) => Some(messages.unwrap_or(MESSAGES)),
        }
    }

    /// Time at which senders stop, in nanoseconds of the run. `None` without a duration.
    pub fn end_nanos(&self) -> Option<u64> {
        self.duration.map(|duration| self.warm_up.nanos().saturating_add(duration.nanos()))
    }

    /// The load on the members of a group, for formulas that choose a shape.
    pub fn workload(&self, network: &Network) -> Workload {
        Workload {
            members: network.nodes as usize,
            senders: self.senders(network.nodes) as usize,
            message_bytes: self.size.bytes(),
            // The parameters of the protocol set the size of chunks.
            chunk_bytes: self.size.bytes(),
            link_bytes_per_s: network.uplink.bps().min(network.downlink.bps()) as f64 / 8.0,
            hop_s: network.latency.duration().as_secs_f64(),
        }
    }

    /// The load on the leaders of a federation, whose links are those between regions.
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

/// The configuration of a member of a federation: of this site, with these other sites and this
/// configuration of its ring.
pub fn federated(
    scenario: &Scenario,
    site: u16,
    sites: Vec<(u16, Vec<PeerIdentity>)>,
    local: Config,
) -> FederationConfig {
    let workload = scenario.part::<Group>().bridge_workload(&scenario.network);
    scenario.part::<Parameters>().federate(site, sites, local, workload)
}

/// The shape of sending between the leaders of sites in a federation.
pub fn bridge_shape(scenario: &Scenario) -> Option<Shape> {
    let sites = scenario.network.regions.as_ref()?.names.len();
    let others = (1..sites as u16).map(|site| (site, Vec::new())).collect();
    let local = config(scenario).filter(|_| scenario.part::<Parameters>().federated)?;
    Some(federated(scenario, 0, others, local).bridge.shape.shape(sites))
}

/// Configures frames behind their length, which members of a group send over plain TCP. A rate
/// limit counts them on Ethernet in packets of 1,514 bytes (14 of Ethernet, 20 of IPv4, 32 of TCP
/// with timestamps). A link needs one round trip to come up.
fn framed(scenario: &Scenario, transport: &mut Transport) {
    transport.framing = Framing { small_overhead: 4, large_overhead: 4, lead: 0 };
    if !matches!(transport.control, Control::Quic(_)) {
        (transport.mss, transport.header) = (1_448, 66);
        transport.handshake_round_trips = 1;
    }
    if let Control::Tcp(tcp) = &mut transport.control {
        tcp.send_buffer = SendBuffer::Unsent { bytes: scenario.transport.kind.unsent_bytes() };
    }
}

/// Maximum number of members. Every pair of members has a link with heartbeats.
const MEMBERS_MAX: u32 = 1_024;
/// Maximum number of deliveries in a run.
const DELIVERIES_MAX: f64 = 1e10;

fn check(checks: &mut Checks<'_>, scenario: &Scenario) {
    let group: &Group = scenario.part();
    let trait_of_members = match scenario.transport.kind {
        TransportKind::Grpc { .. } => Some("use separate frames"),
        TransportKind::Datagram { .. } => Some("do not send lost frames again"),
        TransportKind::Ideal { .. } | TransportKind::Tcp { .. } | TransportKind::Quic { .. } => None,
    };
    if let Some(text) = trait_of_members {
        let remedy = "use kind = \"tcp\", \"quic\" or \"ideal\"";
        checks.wrong("transport.kind", format!("members of a group {text}; {remedy}"));
    }
    let nodes = scenario.network.nodes;
    checks.range("group.senders", group.senders(nodes), 1, nodes);
    check_amount(checks, group, nodes);
    if group.warm_up.nanos() == 0 {
        checks.wrong("group.warm_up", "is 0; expected a positive time, since a group needs time to form");
    }
    if group.patience.nanos() == 0 {
        checks.wrong("group.patience", "is 0; expected a positive time, since deliveries take time");
    }
    checks.lasts("group.duration", &[group.warm_up, group.duration.unwrap_or_default(), group.patience]);
    check_ring(checks, scenario, group);
}

fn check_amount(checks: &mut Checks<'_>, group: &Group, nodes: u32) {
    if group.messages.is_some() && group.duration.is_some() {
        let remedy = keep_one("group.duration", "group.messages");
        checks.wrong("group.duration", format!("is set with a number of messages; {remedy}"));
    }
    if let Some(rate) = group.rate.filter(|rate| !(*rate > 0.0 && rate.is_finite())) {
        checks.wrong("group.rate", format!("is {rate}; it must be above 0 messages a second"));
    }
    let count = group.count();
    if count == Some(0) {
        checks.wrong("group.messages", "is 0; expected at least one message per sender");
    }
    if group.duration.is_some_and(|duration| duration.nanos() == 0) {
        checks.wrong("group.duration", "is 0 s; expected a positive time, such as \"60 s\"");
    }
    let deliveries = f64::from(count.unwrap_or(1)) * f64::from(group.senders(nodes)) * f64::from(nodes);
    if deliveries > DELIVERIES_MAX {
        let message = format!("need {deliveries} deliveries; allowed are {DELIVERIES_MAX}");
        checks.wrong("group.messages", message);
    }
}

fn check_ring(checks: &mut Checks<'_>, scenario: &Scenario, group: &Group) {
    let ring: &Parameters = scenario.part();
    let Some(config) = config(scenario) else {
        let keys = ring.given().keys().filter(|key| *key != "preset");
        if keys.into_iter().any(|key| key != "federated" || ring.federated) {
            checks.wrong("protocol", "a plain daisy chain has no parameters; keep only the preset");
        }
        checks.sizes("group.size", group.size, HEADER_BYTES as u64, 1 << 20);
        return;
    };
    check_federation(checks, scenario);
    checks.period("protocol.heartbeat", Span::of(&config.detection.heartbeat));
    checks.sizes("protocol.chunk", Size::of(&config.chunk_bytes), HEADER_BYTES as u64, 1 << 20);
    let (longest, me) = (config.message_bytes_max as u64, samara_sim::identity_of(0));
    let possible = if ring.federated {
        Federation::new(federated(scenario, 0, Vec::new(), config), me).map(drop)
    } else {
        Ring::new(config, me).map(drop)
    };
    match possible {
        Ok(()) => checks.sizes("group.size", group.size, HEADER_BYTES as u64, longest),
        Err(error) => checks.engine(&error, key_of(&error.field).as_deref()),
    }
}

/// Returns the rate of the slowest link of any host without a fault, in bytes per second.
fn slowest_bytes_per_s(network: &Network) -> f64 {
    let of_class = network.classes.iter().flat_map(|class| [class.uplink, class.downlink]).flatten();
    let all = of_class.chain([network.uplink, network.downlink]).map(samara_engine::units::Rate::bps);
    all.min().unwrap_or(1).max(1) as f64 / 8.0
}

fn notes(scenario: &Scenario) -> Vec<String> {
    let Some(config) = config(scenario) else { return Vec::new() };
    let found = [slow_note(scenario, &config), frames_note(scenario, &config)];
    found.into_iter().flatten().collect()
}

/// Returns a note on a ring whose hops hold too few frames. Each member receives a whole frame before
/// it forwards it, on two laps, and windows grow only while these laps take no longer than they may.
fn frames_note(scenario: &Scenario, config: &Config) -> Option<String> {
    let group = scenario.part::<Group>();
    let is_ring = config.shape == ShapeChoice::Fixed(Shape::Ring) && config.order == Order::Fifo;
    if !is_ring || scenario.part::<Parameters>().federated || group.rate.is_some() {
        return None;
    }
    let (members, rate) = (scenario.network.nodes, slowest_bytes_per_s(&scenario.network));
    let window = &config.window;
    let hop = (2.0 * config.batch_bytes as f64 / rate).min(window.slack_per_member.as_secs_f64());
    let in_time = rate * (window.slack.as_secs_f64() + f64::from(members) * hop);
    let room = in_time.max((u64::from(group.senders(members)) * window.min_bytes) as f64);
    let frames = 2.0 * f64::from(members);
    let unit = group.size.bytes().min(config.chunk_bytes as u64);
    // The estimate is rough.
    if frames * unit as f64 <= 2.0 * room {
        return None;
    }
    let fitting = Size::from_bytes(1 << ((room / frames).max(1_024.0).log2() as u32));
    let unit = Size::from_bytes(unit);
    Some(format!(
        "messages or chunks of {unit} are long for {members} members on links of {} bit/s, so the ring does not fill them; \
         protocol.chunk and protocol.batch of {fitting} do",
        (rate * 8.0) as u64
    ))
}

/// Returns a note on a time of removal that does not find slow members.
fn slow_note(scenario: &Scenario, config: &Config) -> Option<String> {
    let unit = scenario.part::<Group>().size.bytes().min(config.chunk_bytes as u64);
    let rate = slowest_bytes_per_s(&scenario.network);
    let span = |seconds: f64| Span::from_millis((seconds * 1e3).ceil() as u64);
    let Slow::Remove { after } = config.slow else { return None };
    let (key, unit_time) = ("protocol.remove_slow_after", unit as f64 / rate);
    let least = span(2.0 * config.detection.heartbeat.as_secs_f64() + unit_time);
    let window = config.window_max(scenario.network.nodes as usize);
    let longest = span(window as f64 / rate);
    let after = Span::of(&after);
    if after < least {
        let beat = Span::of(&config.detection.heartbeat);
        Some(format!(
            "{key} of {after} removes healthy members: they report every {beat} what they have, and a message or chunk takes \
             {} on the slowest link; expected at least {least}",
            span(unit_time)
        ))
    } else if after > longest {
        Some(format!(
            "{key} of {after} removes only members that take nothing at all: the slowest link carries a whole window in {longest}"
        ))
    } else {
        None
    }
}

fn check_federation(checks: &mut Checks<'_>, scenario: &Scenario) {
    let ring: &Parameters = scenario.part();
    if !ring.federated {
        let only =
            [("bridge_shape", ring.bridge_shape.is_some()), ("absent_after", ring.absent_after.is_some())];
        return checks.refuse("protocol", only, "belongs to federations; add protocol.federated = true");
    }
    match &scenario.network.regions {
        None => {
            let message = "its sites are regions; add [network.regions]";
            return checks.wrong("protocol.federated", message);
        }
        Some(regions) if regions.names.len() < 2 => {
            checks.wrong("network.regions", "a federation needs at least two sites");
        }
        Some(_) => {}
    }
    if ring.preset == Preset::RingTotal {
        let message = "a federation orders by sender, not totally; use \"ring\"";
        checks.wrong("protocol.preset", message);
    }
}
