//! What a scenario file says about its network: hosts, links, regions and latencies.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use samara_engine::units::{Rate, Share, Size, Span};

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
    pub fn latencies_of(&self, of: LatencyOf) -> Option<&LatencyFile> {
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

/// Regions and the latency between them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Regions {
    /// Their names; those of the files, if not given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// How many of the hosts are in each, as weights; not with a file of hosts that says it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weights: Vec<f64>,
    /// Names and weights from a file instead: CSV with the columns `region` and `weight`. A path relative to the scenario file, plain or
    /// compressed with zstd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights_file: Option<String>,
    /// Which hosts these are.
    #[serde(default)]
    pub placed: Placed,
    /// One-way latency from region (row) to region (column); not with `network.latency_file`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latency: Vec<Vec<Span>>,
    /// The rate that all hosts of a region share on the way to other regions, and on the way from them; as wide as they need, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<Rate>,
    /// What happens to packets that find a gateway busy.
    #[serde(default)]
    pub gateway_queue: Queue,
}

/// Which hosts are in a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Placed {
    /// For each host one is drawn by the weights.
    #[default]
    Drawn,
    /// The first hosts are in the first region, and so on, as many as their share of the weights, rounded.
    InOrder,
}

/// A table of latencies in a file (`docs/guides/networks.md` has the formats).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LatencyFile {
    /// The file: a path relative to the scenario file, plain or compressed with zstd.
    pub file: String,
    /// Whether its values are one way, or there and back; of round trips the half is taken.
    pub kind: LatencyKind,
    /// The unit of values that are plain numbers; values such as "12 ms" have their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<LatencyUnit>,
    /// Whether it has a row for each host or for each region; regions if hosts have regions, unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<LatencyOf>,
    /// The format of the file; guessed from its text, unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<LatencyFormat>,
    /// The column that has the latency (pairs), where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
    /// What the numbers stand for that its rows are called by: a CSV file with the columns `id` and `name`, and others that are not
    /// looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<String>,
    /// One-way latency within a region, instead of what the file has for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Span>,
    /// One-way latency of pairs that the file has no latency for; without it, these are an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<Span>,
}

/// What the latencies of a file are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LatencyKind {
    /// From one host to the other.
    #[default]
    OneWay,
    /// There and back, as ping shows it.
    RoundTrip,
}

/// Units of plain numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LatencyUnit {
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Milliseconds,
    /// Microseconds.
    #[serde(rename = "us")]
    Microseconds,
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
}

impl LatencyUnit {
    pub const fn nanos(self) -> f64 {
        match self {
            Self::Seconds => 1e9,
            Self::Milliseconds => 1e6,
            Self::Microseconds => 1e3,
            Self::Nanoseconds => 1.0,
        }
    }
}

/// What the rows of a file of latencies are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LatencyOf {
    /// One row for each host.
    Hosts,
    /// One row for each region.
    Regions,
}

/// The format of a file of latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LatencyFormat {
    /// A row and a column for each host or region, with or without their names.
    Matrix,
    /// A line for each pair.
    Pairs,
    /// The edges of a GraphML file.
    Graph,
}
