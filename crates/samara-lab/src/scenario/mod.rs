//! What a scenario file says: the network, the transport, the protocol, the workload, and the variants to compare.
//!
//! The file is TOML. [`load()`] layers it with `--set key=value`, checks it, and turns each compared run (and each point of
//! a sweep) into a [`Scenario`] of its own. `samara schema` prints the JSON Schema of [`Scenario`].

mod builtin;
mod check;
mod connection;
mod error;
mod expect;
mod fault;
mod files;
mod known;
mod load;
mod regions;
mod resolve;

use std::collections::BTreeMap;

use samara_scenario::{from_table, unknown_key};
use schemars::JsonSchema;
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

pub use crate::columns::spec::Workload;
use crate::family;
pub use crate::family::Selected;
pub use crate::group::spec::{Group, RingPreset, RingSpec};
pub use crate::messages::spec::{Arrivals, Messages, PlumtreeParameters};
pub use crate::mix::spec::{CostsKind, Mix, PhaseCosts, WorkKind};
pub use crate::pool::cat::{
    Adversary, AnnounceKind, Cat, CatGroup, CatPreset, ChoiceKind, OrderKind, Peers, TimeoutSpec,
};
pub use crate::pool::spec::Transactions;
pub use builtin::{Builtin, builtin, builtins};
pub(crate) use check::Checks;
pub use connection::{ConnectionSpec, FlushSpec};
pub use error::{Problem, ScenarioError, closest};
pub(crate) use expect::figure_of;
pub use expect::{Expectation, ExpectationResult};
pub use fault::{Fault, FaultKind};
pub use files::{LatencyFile, LatencyFormat, LatencyKind, LatencyOf, LatencyUnit};
pub use known::KnownFigure;
pub(crate) use load::plain;
pub use load::{GridAxis, Loaded, Overrides, Point, load, load_source, load_with, parse_axis, schema};
pub use regions::{Placed, Regions};

use samara_engine::units::{Rate, Share, Size, Span};

/// A scenario file.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// What it is about.
    pub scenario: About,
    /// Hosts, links between them, and the network in between.
    pub network: Network,
    /// How frames travel over a link.
    pub transport: TransportSpec,
    /// The experiment's section, and the protocol with its parameters.
    pub selected: Selected,
    /// Faults.
    pub faults: Vec<Fault>,
    /// The variants that are compared; without any, the scenario itself is the only run.
    pub runs: Vec<RunSpec>,
    /// Keys that are varied together with every run.
    pub sweep: Option<Sweep>,
    /// Measurements of real networks to show beside each run.
    pub reference: BTreeMap<String, Vec<String>>,
    /// Figures that others have published or measured, shown beside ours.
    pub known: Vec<KnownFigure>,
    /// What must hold of the results.
    pub expect: BTreeMap<String, String>,
}

/// The sections that scenarios of all families have.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Scenario", description = "A scenario file.")]
struct Common {
    /// What it is about.
    scenario: About,
    /// Hosts, links between them, and the network in between.
    #[serde(default)]
    network: Network,
    /// How frames travel over a link.
    #[serde(default)]
    transport: TransportSpec,
    /// Faults.
    #[serde(default, rename = "fault")]
    faults: Vec<Fault>,
    /// The variants that are compared; without any, the scenario itself is the only run.
    #[serde(default, rename = "run")]
    runs: Vec<RunSpec>,
    /// Keys that are varied together with every run.
    #[serde(default)]
    sweep: Option<Sweep>,
    /// Measurements of real networks to show beside each run: files of arrivals, by the name of the run; a path relative
    /// to the scenario file, or `builtin:` and the name of a data file of Samara.
    #[serde(default)]
    reference: BTreeMap<String, Vec<String>>,
    /// Figures that others have published or measured, shown beside ours.
    #[serde(default)]
    known: Vec<KnownFigure>,
    /// What must hold of the results: a metric's path to a comparison, for example
    /// `"time_to_custody_ms.p95" = "< 4 s"`; with `run:` before it, for one run only. Several comparisons are separated by
    /// commas.
    #[serde(default)]
    expect: BTreeMap<String, String>,
}

/// The names of [`Common`]'s sections.
const COMMON: [&str; 10] =
    ["scenario", "network", "transport", "protocol", "fault", "run", "sweep", "reference", "known", "expect"];

impl Scenario {
    /// Reads a scenario.
    ///
    /// # Errors
    /// The dotted key (empty for the whole scenario), and what is wrong with it.
    pub(crate) fn from_table(table: &toml::Table) -> Result<Self, (String, String)> {
        let sections: Vec<&str> = family::all().iter().map(|family| family.section).collect();
        let known: Vec<&str> = COMMON.into_iter().chain(sections.iter().copied()).collect();
        if let Some(key) = table.keys().find(|key| !known.contains(&key.as_str())) {
            return Err((key.clone(), unknown_key(key, &known)));
        }
        let is_common = |key: &str| key != "protocol" && !sections.contains(&key);
        let common = table.iter().filter(|(key, _)| is_common(key));
        let common = common.map(|(key, value)| (key.clone(), value.clone())).collect();
        let Common { scenario, network, transport, faults, runs, sweep, reference, known, expect } =
            from_table(&common)?;
        let selected = family::select(table)?;
        Ok(Self { scenario, network, transport, selected, faults, runs, sweep, reference, known, expect })
    }

    /// The JSON Schema of scenarios of all families.
    pub(crate) fn schema() -> serde_json::Value {
        let mut generator = schemars::SchemaGenerator::default();
        let mut schema = Common::json_schema(&mut generator);
        family::add_to_schema(&mut schema, &mut generator);
        let dialect = generator.settings().meta_schema.as_ref().map(|uri| uri.to_string());
        if let Some(dialect) = dialect {
            schema.insert("$schema".to_owned(), dialect.into());
        }
        let definitions = generator.take_definitions(true);
        schema.insert("$defs".to_owned(), definitions.into());
        schema.to_value()
    }
}

impl Serialize for Scenario {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("scenario", &self.scenario)?;
        map.serialize_entry("network", &self.network)?;
        map.serialize_entry("transport", &self.transport)?;
        self.selected.write(&mut map)?;
        if !self.faults.is_empty() {
            map.serialize_entry("fault", &self.faults)?;
        }
        if !self.runs.is_empty() {
            map.serialize_entry("run", &self.runs)?;
        }
        if let Some(sweep) = &self.sweep {
            map.serialize_entry("sweep", sweep)?;
        }
        if !self.reference.is_empty() {
            map.serialize_entry("reference", &self.reference)?;
        }
        if !self.known.is_empty() {
            map.serialize_entry("known", &self.known)?;
        }
        if !self.expect.is_empty() {
            map.serialize_entry("expect", &self.expect)?;
        }
        map.end()
    }
}

/// What a scenario is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// The name that results carry: letters, digits, `-` and `_`.
    pub name: String,
    /// One line for lists and headings.
    pub title: String,
    /// What is shown and where it comes from.
    #[serde(default)]
    pub description: String,
    /// The seeds of repeated runs; results are averaged over them.
    #[serde(default = "default_seeds")]
    pub seeds: Vec<u64>,
}

fn default_seeds() -> Vec<u64> {
    vec![1]
}

/// The network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Network {
    /// How many hosts; as many as a file of hosts, of a graph, or of latencies between hosts has, unless given.
    pub nodes: u32,
    /// Who has links with whom.
    pub topology: Topology,
    /// One-way latency between hosts (of all pairs, unless there are regions).
    pub latency: Span,
    /// The most that is added to the latency of a packet, uniformly drawn.
    pub jitter: Span,
    /// The part of packets that is lost on the way.
    pub loss: Share,
    /// Uplink rate of a host that is in no class.
    pub uplink: Rate,
    /// Downlink rate of a host that is in no class.
    pub downlink: Rate,
    /// Sets `uplink` and `downlink` at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Rate>,
    /// How the links of a host share its uplink.
    pub interface: Interface,
    /// What happens to packets that find a downlink busy.
    pub downlink_queue: Queue,
    /// Time that a node takes to validate a message, one message at a time.
    pub validation_time: Span,
    /// Classes of hosts with properties of their own, in the order of their shares.
    #[serde(rename = "class", skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<HostClass>,
    /// Regions with a latency matrix; replaces `latency`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regions: Option<Regions>,
    /// The hosts: CSV with the column `host` and any of `uplink`, `downlink`, `region` and `validation_time`, and a row for each host; or
    /// the nodes of a graph (GraphML). Replaces those keys and `class`. A path relative to the scenario file, plain or compressed with
    /// zstd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts_file: Option<String>,
    /// Latencies between all hosts or all regions; replaces `latency`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_file: Option<LatencyFile>,
}

impl Network {
    /// The file of latencies, if it has a row for each of these.
    pub(crate) fn latencies_of(&self, of: LatencyOf) -> Option<&LatencyFile> {
        self.latency_file.as_ref().filter(|file| file.of == Some(of))
    }
}

impl Default for Network {
    fn default() -> Self {
        Self {
            nodes: 1000,
            topology: Topology::default(),
            latency: Span::from_millis(50),
            jitter: Span::default(),
            loss: Share::default(),
            uplink: Rate::from_bps(20_000_000),
            downlink: Rate::from_bps(20_000_000),
            bandwidth: None,
            interface: Interface::RoundRobin,
            downlink_queue: Queue::default(),
            validation_time: Span::default(),
            classes: Vec::new(),
            regions: None,
            hosts_file: None,
            latency_file: None,
        }
    }
}

/// Who has links with whom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Topology {
    /// The kind of graph.
    pub kind: TopologyKind,
    /// Links of each host (random-regular).
    pub degree: u32,
    /// Others that each host dials, drawn at random (random-dials); with those that are dialled by others it has about twice as many links.
    pub dials: u32,
    /// Links that each new host makes to older ones (barabasi-albert): the parameter m of the model.
    pub attachments: u32,
    /// The seed of a barabasi-albert graph; that of the run if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Every subscriber of a topic gets links until it has so many to other subscribers, as clients find peers for their
    /// subnets; 0 leaves the graph as it is.
    pub topic_peers_min: u32,
    /// The edges (kind `file`): CSV with the columns `dialer` and `listener`, an edge list or GraphML, plain or compressed with zstd;
    /// a path relative to the scenario file, or `builtin:` and the name of a data file of Samara.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

impl Default for Topology {
    fn default() -> Self {
        Self {
            kind: TopologyKind::RandomRegular,
            degree: 70,
            dials: 10,
            attachments: 6,
            seed: None,
            topic_peers_min: 0,
            file: None,
        }
    }
}

/// Kinds of graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TopologyKind {
    /// Every host has the same number of links, drawn at random.
    RandomRegular,
    /// Every host dials so many others, drawn at random: the peers of nodes that know each other's addresses.
    RandomDials,
    /// Every host has a link to every other.
    FullMesh,
    /// Every host has a link to the next.
    Ring,
    /// Hosts come one by one and link to older ones, those with many links first (Barabási and Albert 1999).
    BarabasiAlbert,
    /// As a file says.
    File,
}

/// How the links of a host share its uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Interface {
    /// A packet each in turn, in effect what Linux does.
    RoundRobin,
    /// By the time at which the application wrote the packet: Shadow's default.
    Fifo,
}

/// What happens to packets that find a downlink busy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    rename_all = "kebab-case",
    deny_unknown_fields,
    tag = "kind",
    expecting = "a table such as { kind = \"codel\" } or { kind = \"drop-tail\", size = \"1 MB\" }"
)]
pub enum Queue {
    /// They wait in a queue of so many bytes, and are dropped beyond.
    DropTail {
        /// The most bytes that wait.
        size: Size,
    },
    /// Controlled delay (RFC 8289).
    Codel {
        /// The standing delay that is tolerated.
        #[serde(default = "default_target")]
        target: Span,
        /// How long it is tolerated.
        #[serde(default = "default_interval")]
        interval: Span,
    },
}

fn default_target() -> Span {
    Span::from_millis(5)
}

fn default_interval() -> Span {
    Span::from_millis(100)
}

impl Default for Queue {
    fn default() -> Self {
        Self::Codel { target: default_target(), interval: default_interval() }
    }
}

/// A class of hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostClass {
    /// What reports call it.
    pub name: String,
    /// The part of all hosts that is in it; what remains of all classes has the network's own values.
    pub share: Share,
    /// Uplink rate.
    pub uplink: Rate,
    /// Downlink rate.
    pub downlink: Rate,
    /// Time that a node takes to validate a message; the network's value if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation_time: Option<Span>,
}

/// How frames travel over a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TransportSpec {
    /// The model.
    pub kind: TransportKind,
    /// Starting point for the values below that are not given.
    pub stack: Stack,
    /// Tcp and grpc: how the congestion window grows and shrinks ("reno", if not given). Linux comes with "cubic".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<Congestion>,
    /// Initial congestion window in packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_window: Option<u32>,
    /// The receiver's window in packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_window: Option<u32>,
    /// The least retransmission timeout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_rto: Option<Span>,
    /// How long an acknowledgement may wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delayed_ack: Option<Span>,
    /// Tcp: after how many packets an acknowledgement waits no longer (2, if not given). Network cards of Linux put packets that come one
    /// after the other together (GRO), and what is put together is acknowledged at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_every: Option<u32>,
    /// Whether the window shrinks in idle times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_restart: Option<bool>,
    /// Quic: how frames are laid on streams ("single", if not given).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<Streams>,
    /// Quic: how long an acknowledgement may wait ("25 ms", if not given).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_ack_delay: Option<Span>,
    /// Quic: bytes of the largest UDP payload (1452, if not given).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_udp_payload: Option<u32>,
    /// Not quic: payload of the largest packet (1,460 bytes, of groups 1,448, if not given; 8,948 bytes with jumbo frames and timestamps).
    /// Simulations of much data are faster with large packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_segment: Option<Size>,
    /// Of groups, tcp: bytes that wait in the kernel unsent at most ("64 KiB", if not given), as with `TCP_NOTSENT_LOWAT`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsent: Option<Size>,
    /// Channels over a secret connection, as CometBFT has them below its pools of transactions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<ConnectionSpec>,
    /// Grpc: bytes that a receiver of HTTP/2 lets a connection have on the way; 65,535 at first and then as the path is seen to need, if not
    /// given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http2_window: Option<Size>,
    /// When links come up.
    pub links: LinkStart,
}

impl Default for TransportSpec {
    fn default() -> Self {
        Self {
            kind: TransportKind::Tcp,
            stack: Stack::Linux,
            congestion: None,
            initial_window: None,
            receive_window: None,
            min_rto: None,
            delayed_ack: None,
            ack_every: None,
            idle_restart: None,
            streams: None,
            max_ack_delay: None,
            max_udp_payload: None,
            max_segment: None,
            unsent: None,
            connection: None,
            http2_window: None,
            links: LinkStart::default(),
        }
    }
}

/// Models of a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TransportKind {
    /// Rates and latency only.
    Ideal,
    /// TCP below Noise and Yamux.
    Tcp,
    /// QUIC.
    Quic,
    /// TCP below TLS and HTTP/2, as gRPC has them.
    Grpc,
}

/// How frames are laid on QUIC's streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Streams {
    /// All frames to a peer on one stream, in order, as implementations of libp2p have it for GossipSub: a lost packet
    /// holds back what comes behind it.
    Single,
    /// A stream for every frame: it is delivered as soon as its own packets are there.
    PerFrame,
}

/// Algorithms of congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Congestion {
    /// NewReno (RFC 6582): one packet more each round trip, half after a loss.
    Reno,
    /// CUBIC (RFC 9438) with HyStart, as in Linux.
    Cubic,
}

impl Congestion {
    /// What Linux calls it (`net.ipv4.tcp_congestion_control`).
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::Cubic => "cubic",
        }
    }
}

/// Implementations of TCP that differ in ways that show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stack {
    /// Linux: initial window 10, decay of the window in idle times, acknowledgements after two packets or 40 ms.
    Linux,
    /// Shadow 3: the window grows also when unused and never decays, each acknowledgement is a packet of its own after
    /// 1 ms, the timeout stays at its initial second, 10 packets after a timeout, send buffers from 128 KiB.
    Shadow,
}

/// When links come up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LinkStart {
    /// Dials start at a random time from this one on.
    pub from: Span,
    /// And before this one. If both are the same, links are simply there at that time, without a handshake.
    pub until: Span,
}

impl Default for LinkStart {
    fn default() -> Self {
        Self { from: Span::from_millis(100), until: Span::from_millis(100) }
    }
}

/// A variant: the scenario with some keys changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// The name that results carry.
    pub name: String,
    /// What reports call it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// What is different.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Runs of one series are drawn in one figure.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub series: String,
    /// Keys (dotted) and their values.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub set: toml::Table,
}

/// Keys that are varied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// The axes; all combinations are run.
    pub axis: Vec<Axis>,
}

/// An axis of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// The key (dotted).
    pub key: String,
    /// What reports call it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// Its values.
    #[schemars(with = "Vec<serde_json::Value>")]
    pub values: Vec<toml::Value>,
}
