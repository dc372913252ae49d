//! Group broadcast as a scenario states it.

use samara_engine::PeerIdentity;
use samara_engine::shape::{ShapeSetting, Workload};
use samara_ring::{Config, ConfigError, FederationConfig, Preset, ShapeChoice, Slow};
use samara_sim::{Control, Framing, SendBuffer, Transport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::scenario::{Network, Scenario};
use samara_engine::units::{Size, Span};

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
}

/// The parameters of group broadcast: a preset and what differs from it.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RingSpec {
    /// The values that are not given below.
    pub preset: RingPreset,
    /// How messages travel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<ShapeSetting>,
    /// Each region of the network is a site with a group of its own, and the first members of these groups are one, too: a federation.
    pub federated: bool,
    /// How messages travel between sites.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bridge_shape: Option<ShapeSetting>,
    /// So long after its leader is gone, others keep messages for a site.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absent_after: Option<Span>,
    /// Longer messages travel in chunks of this size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk: Option<Size>,
    /// Units are put together in frames of about this size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<Size>,
    /// The most that is on the way to one successor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hop_window: Option<Size>,
    /// The least of its own that a member may have on the way to the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_min: Option<Size>,
    /// The most of its own that a member may have on the way to the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_max: Option<Size>,
    /// What all members together may have on the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Size>,
    /// The most that waits to be broadcast: beyond, the application has to wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_queue: Option<Size>,
    /// How long acknowledgements wait for a frame to travel with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_delay: Option<Span>,
    /// How often a member tells everybody that it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<Span>,
    /// The least silence after which a member is suspected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspect_after: Option<Span>,
    /// A member that takes nothing for so long while others do is removed; the group waits for it, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remove_slow_after: Option<Span>,
}

/// Configurations with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RingPreset {
    /// The ring, FIFO for each sender.
    #[default]
    Ring,
    /// The ring in uniform total order.
    RingTotal,
    /// Each message to everybody by its origin, N-1 times.
    Direct,
    /// A plain daisy chain, without membership and recovery.
    Daisychain,
}

impl RingPreset {
    /// The preset of the engine; `None` for the plain daisy chain, which is an engine of its own.
    pub const fn preset(self) -> Option<Preset> {
        match self {
            Self::Ring => Some(Preset::Fifo),
            Self::RingTotal => Some(Preset::Total),
            Self::Direct => Some(Preset::Direct),
            Self::Daisychain => None,
        }
    }
}

impl RingSpec {
    /// Whether anything but a preset is given.
    pub(crate) fn is_changed(&self) -> bool {
        *self != Self { preset: self.preset, ..Self::default() }
    }

    /// The engine's configuration; `None` for the plain daisy chain. Seeds are not set.
    pub fn build(&self, group: &Group, network: &Network) -> Option<Config> {
        let mut config = self.preset.preset()?.config();
        let bytes = |size: Option<Size>| size.map(Size::bytes);
        let length = |size: Option<Size>| size.map(|size| size.bytes() as usize);
        set(&mut config.chunk_bytes, length(self.chunk));
        set(&mut config.batch_bytes, length(self.batch));
        set(&mut config.hop_window_bytes, bytes(self.hop_window));
        set(&mut config.window.min_bytes, bytes(self.window_min));
        set(&mut config.window.max_bytes, bytes(self.window_max));
        set(&mut config.memory_bytes, bytes(self.memory));
        set(&mut config.own_queue_bytes, length(self.own_queue));
        set(&mut config.ack_delay, self.ack_delay.map(Span::duration));
        set(&mut config.detection.heartbeat, self.heartbeat.map(Span::duration));
        set(&mut config.detection.timeout_min, self.suspect_after.map(Span::duration));
        set(&mut config.slow, self.remove_slow_after.map(|span| Slow::Remove { after: span.duration() }));
        config.members_max = config.members_max.max(network.nodes as usize);
        let workload = Workload {
            members: network.nodes as usize,
            senders: group.senders(network.nodes) as usize,
            message_bytes: group.size.bytes(),
            chunk_bytes: config.chunk_bytes as u64,
            link_bytes_per_s: network.uplink.bps().min(network.downlink.bps()) as f64 / 8.0,
            hop_s: network.latency.duration().as_secs_f64(),
        };
        set(&mut config.shape, self.shape.map(|shape| choice(shape, workload)));
        Some(config)
    }

    /// The configuration of a member of a federation with so many sites, as this site has it; `local` is that of its ring, with seeds. The
    /// other sites come with whom a leader can ask who leads there.
    pub fn federate(
        &self,
        site: u16,
        sites: Vec<(u16, Vec<PeerIdentity>)>,
        local: Config,
        (group, network): (&Group, &Network),
    ) -> FederationConfig {
        let mut config = FederationConfig { local, ..FederationConfig::new(site, sites) };
        set(&mut config.absent_after, self.absent_after.map(Span::duration));
        let regions = network.regions.as_ref();
        let gateway = regions.and_then(|regions| regions.gateway).unwrap_or(network.uplink);
        let latencies = regions.into_iter().flat_map(|regions| regions.latency.iter().flatten());
        let far = latencies.map(|latency| latency.duration()).max();
        let members = config.sites.len() + 1;
        let workload = Workload {
            members,
            senders: members.min(group.senders(network.nodes) as usize),
            message_bytes: group.size.bytes(),
            chunk_bytes: config.bridge.chunk_bytes as u64,
            link_bytes_per_s: gateway.bps().min(network.uplink.bps()) as f64 / 8.0,
            hop_s: far.unwrap_or(network.latency.duration()).as_secs_f64(),
        };
        set(&mut config.bridge.shape, self.bridge_shape.map(|shape| choice(shape, workload)));
        config
    }

    /// How leaders of sites send to each other, in a federation.
    pub fn bridge(&self, group: &Group, network: &Network) -> Option<samara_engine::Shape> {
        let sites = network.regions.as_ref()?.names.len();
        let others = (1..sites as u16).map(|site| (site, Vec::new())).collect();
        let local = self.build(group, network).filter(|_| self.federated)?;
        Some(self.federate(0, others, local, (group, network)).bridge.shape.shape(sites))
    }

    /// What is wrong with the engine's configuration.
    pub(crate) fn error(&self, group: &Group, network: &Network) -> Option<ConfigError> {
        let config = self.build(group, network)?;
        if self.federated {
            let config = self.federate(0, Vec::new(), config, (group, network));
            return samara_ring::Federation::new(config, samara_sim::identity_of(0)).err();
        }
        samara_ring::Ring::new(config, samara_sim::identity_of(0)).err()
    }
}

fn set<T>(target: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *target = value;
    }
}

fn choice(shape: ShapeSetting, workload: Workload) -> ShapeChoice {
    shape.fixed().map_or(ShapeChoice::ByFormula(workload), ShapeChoice::Fixed)
}

/// Bytes that a member of a group lets wait in the kernel, unsent (`TCP_NOTSENT_LOWAT`): a frame, so that links never run dry while
/// heartbeats and acknowledgements wait for little.
const UNSENT_BYTES: u64 = 64 << 10;

/// Frames with their length in front, as members of a group send them over plain TCP, on Ethernet as a rate limit counts it: packets of
/// 1,514 bytes (14 of Ethernet, 20 of IPv4, 32 of TCP with timestamps), and one round trip until a link is up.
pub(super) fn framed(scenario: &Scenario, transport: &mut Transport) {
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
