//! The section of a scenario file about its network: hosts, links, regions and latencies.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use samara_engine::units::{Rate, Share, Size, Span};

/// The network of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Network {
    /// Number of hosts. Default: the number in the file of hosts, of the graph, or of latencies
    /// between hosts.
    pub nodes: u32,
    /// The links between hosts.
    pub topology: Topology,
    /// One-way latency between hosts, for all pairs unless there are regions.
    pub latency: Span,
    /// Maximum latency added to a packet, drawn uniformly from 0.
    pub jitter: Span,
    /// Share of packets that the network loses.
    pub loss: Share,
    /// Uplink rate of a host without a class.
    pub uplink: Rate,
    /// Downlink rate of a host without a class.
    pub downlink: Rate,
    /// Sets `uplink` and `downlink` at once.
    pub bandwidth: Option<Rate>,
    /// How the links of a host share its uplink.
    pub interface: Interface,
    /// Where packets wait for the uplink of a host: in its own interface (`host`), or behind its sockets
    /// as in a home router, which replaces `interface`.
    pub uplink_queue: UplinkQueue,
    /// Treatment of packets that find a downlink busy.
    pub downlink_queue: Queue,
    /// Time that a node takes to validate a message. A node validates one message at a time.
    pub validation_time: Span,
    /// Share of periods of 100 ms in which the process of a node handles no message, as in a container
    /// that has used up its quota of processor time. A message waits for the end of the period.
    pub stalled_periods: Share,
    /// Classes of hosts with different properties, in the order of their shares.
    #[serde(rename = "class", skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<HostClass>,
    /// Number of the first host with a class. Classes then have consecutive hosts from this one on,
    /// each its share of these hosts, rounded down. Default: random hosts.
    pub classes_from: Option<u32>,
    /// Regions with a latency matrix, which replaces `latency`.
    pub regions: Option<Regions>,
    /// The nodes: CSV with a row for each node, with the column `node` and any of `uplink`,
    /// `downlink`, `region`, `class` and `validation_time`; or the nodes of a graph (GraphML). Its
    /// columns replace the keys of the same name, here and in `class`, and `share` there. A path
    /// relative to the scenario file, plain or compressed with zstd.
    pub nodes_file: Option<String>,
    /// Latencies between all hosts or all regions, which replace `latency`.
    pub latency_file: Option<LatencyFile>,
}

impl Network {
    /// The file of latencies, if its rows are of this kind.
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
            uplink_queue: UplinkQueue::Host {},
            downlink_queue: Queue::default(),
            validation_time: Span::default(),
            stalled_periods: Share::default(),
            classes: Vec::new(),
            classes_from: None,
            regions: None,
            nodes_file: None,
            latency_file: None,
        }
    }
}

samara_engine::kinds! {
    /// The links between hosts. A random regular graph if the kind is absent.
    #[derive(Clone, Debug, PartialEq)]
    pub enum Topology: "random-regular" {
        /// Every host has the same number of links, drawn at random.
        RandomRegular = "random-regular" {
            /// Number of links of each host.
            #[serde(default = "default_degree")]
            degree: u32,
            /// Minimum number of links that each subscriber of a topic has to other subscribers, which
            /// get added as when clients find peers for their subnets. 0 leaves the graph unchanged.
            #[serde(default)]
            topic_peers_min: u32,
        },
        /// Every host dials a number of random other hosts, as nodes do that know each other's
        /// addresses.
        RandomDials = "random-dials" {
            /// Number of random hosts that each host dials. With the links that others dial, a host has
            /// about twice as many.
            #[serde(default = "default_dials")]
            dials: u32,
            /// As in a random regular graph.
            #[serde(default)]
            topic_peers_min: u32,
        },
        /// Every host has a link to every other.
        FullMesh = "full-mesh" {
            /// As in a random regular graph.
            #[serde(default)]
            topic_peers_min: u32,
        },
        /// Every host has a link to the next one.
        Ring = "ring" {
            /// As in a random regular graph.
            #[serde(default)]
            topic_peers_min: u32,
        },
        /// Hosts join one by one and link to older ones, preferably those with many links (Barabási and
        /// Albert 1999).
        BarabasiAlbert = "barabasi-albert" {
            /// Number of links that each new host makes to older ones: the parameter m of the model.
            #[serde(default = "default_attachments")]
            attachments: u32,
            /// Seed of the graph. Default: the seed of the run.
            seed: Option<u64>,
            /// As in a random regular graph.
            #[serde(default)]
            topic_peers_min: u32,
        },
        /// The graph is in a file.
        File = "file" {
            /// The edges: CSV with the columns `dialer` and `listener`, an edge list or GraphML, plain
            /// or compressed with zstd. A path relative to the scenario file, or `builtin:` and the name
            /// of a data file of Samara.
            file: String,
            /// As in a random regular graph.
            #[serde(default)]
            topic_peers_min: u32,
        },
    }
}

fn default_degree() -> u32 {
    Topology::DEGREE
}

fn default_dials() -> u32 {
    Topology::DIALS
}

fn default_attachments() -> u32 {
    Topology::ATTACHMENTS
}

impl Topology {
    /// Default number of links of each host in a random regular graph.
    pub const DEGREE: u32 = 70;
    /// Default number of hosts that each host dials.
    pub const DIALS: u32 = 10;
    /// Default number of links that a new host makes by preferential attachment.
    pub const ATTACHMENTS: u32 = 6;

    /// The file of the graph, if it is in one.
    pub fn file(&self) -> Option<&str> {
        match self {
            Self::File { file, .. } => Some(file),
            _ => None,
        }
    }

    /// Minimum number of links that each subscriber of a topic has to other subscribers.
    pub fn topic_peers_min(&self) -> u32 {
        match self {
            Self::RandomRegular { topic_peers_min, .. }
            | Self::RandomDials { topic_peers_min, .. }
            | Self::FullMesh { topic_peers_min }
            | Self::Ring { topic_peers_min }
            | Self::BarabasiAlbert { topic_peers_min, .. }
            | Self::File { topic_peers_min, .. } => *topic_peers_min,
        }
    }

    /// The number of links that each host makes at random, with its key.
    pub fn links(&mut self) -> Option<(&'static str, &mut u32)> {
        match self {
            Self::RandomRegular { degree, .. } => Some(("degree", degree)),
            Self::RandomDials { dials, .. } => Some(("dials", dials)),
            Self::BarabasiAlbert { attachments, .. } => Some(("attachments", attachments)),
            Self::FullMesh { .. } | Self::Ring { .. } | Self::File { .. } => None,
        }
    }
}

impl Default for Topology {
    fn default() -> Self {
        Self::RandomRegular { degree: Self::DEGREE, topic_peers_min: 0 }
    }
}

/// How the links of a host share its uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Interface {
    /// One packet per link in turn, similar to Linux.
    RoundRobin,
    /// In the order in which the application wrote the packets, the default of Shadow.
    Fifo,
}

/// Treatment of packets that find a downlink busy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    rename_all = "kebab-case",
    deny_unknown_fields,
    tag = "kind",
    expecting = "a table such as { kind = \"codel\" } or { kind = \"drop-tail\", size = \"1 MB\" }"
)]
pub enum Queue {
    /// Packets wait in a queue of limited size. Packets that do not fit are dropped.
    DropTail {
        /// Maximum number of waiting bytes.
        size: Size,
    },
    /// Controlled delay (RFC 8289).
    Codel {
        /// Tolerated standing delay.
        #[serde(default = "default_target")]
        target: Span,
        /// Time for which a longer delay is tolerated.
        #[serde(default = "default_interval")]
        interval: Span,
    },
    /// Controlled delay for each flow (RFC 8290), in front of a token bucket of 1,500 bytes, without
    /// a limit of packets.
    #[serde(rename = "fq-codel")]
    FqCodel(FairQueue),
}

/// The queue before the uplink of a host: in its own interface, or behind it, in a router.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, tag = "kind", expecting = "a table such as { kind = \"fq-codel\" }")]
pub enum UplinkQueue {
    /// The host's own interface is the bottleneck: packets wait in their connections, `interface`
    /// says how these share the uplink, and nothing is dropped. One order over all links chooses the
    /// next copy when the uplink is free.
    #[serde(rename = "host")]
    Host {},
    /// Fair queues with controlled delay (RFC 8290), in front of a token bucket of 1,500 bytes.
    /// Packets leave their connections as soon as windows and pacing allow.
    #[serde(rename = "fq-codel")]
    FqCodel(FairQueue),
    /// The same without controlled delay: nothing is dropped. The emulated links of a testbed have this
    /// queue, as sockets let packets out as soon as their windows allow.
    #[serde(rename = "fair")]
    Fair {},
    /// One queue in the order of arrival, as most home routers have it: packets leave their connections
    /// in the same way, and those that find the queue full are dropped. Set either `time` or `size`.
    #[serde(rename = "fifo")]
    Fifo {
        /// The time that a full queue takes to leave.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        time: Option<Span>,
        /// The number of bytes that the queue takes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<Size>,
    },
}

impl UplinkQueue {
    /// Returns true if packets leave the host before they wait for its uplink.
    pub const fn is_behind(self) -> bool {
        !matches!(self, Self::Host {})
    }
}

/// Queues of flows, each with controlled delay.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FairQueue {
    /// Tolerated standing delay of a flow.
    pub target: Span,
    /// Time for which a longer delay is tolerated.
    pub interval: Span,
    /// Bytes that a flow sends in one turn.
    pub quantum: Size,
    /// Number of buckets. A hash of sender and receiver selects the bucket of a packet; the
    /// packets in a bucket are one flow.
    pub buckets: u32,
}

impl Default for FairQueue {
    fn default() -> Self {
        Self {
            target: default_target(),
            interval: default_interval(),
            quantum: Size::from_bytes(1_500),
            buckets: 1_024,
        }
    }
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostClass {
    /// Name of the class in reports, and in `by_class.NAME` of metrics. Each class has another one.
    pub name: String,
    /// Share of all hosts in this class, or with `classes_from` of the hosts from there on. Hosts
    /// that remain outside of all classes have the network's own values. Required, unless
    /// `nodes_file` has a column `class`, which names the class of each host.
    pub share: Option<Share>,
    /// Uplink rate of these hosts. Default: the network's value.
    pub uplink: Option<Rate>,
    /// Downlink rate of these hosts. Default: the network's value.
    pub downlink: Option<Rate>,
    /// Time that a node takes to validate a message. Default: the network's value.
    pub validation_time: Option<Span>,
    /// Number of columns that these nodes keep, in scenarios whose nodes keep columns. Default: that of
    /// other nodes.
    pub custody: Option<u32>,
}

/// Regions and the latency between them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Regions {
    /// Names of the regions. Default: those of the files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Relative number of hosts in each region. Not allowed with a file of hosts that has regions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weights: Vec<f64>,
    /// File with names and weights in place of these keys: CSV with the columns `region` and
    /// `weight`. A path relative to the scenario file, plain or compressed with zstd.
    pub weights_file: Option<String>,
    /// Assignment of hosts to regions.
    #[serde(default)]
    pub placed: Placed,
    /// Seed of the assignment and of the pairs' factors. Default: the seed of the run. Runs with the
    /// same value have the same geography.
    pub seed: Option<u64>,
    /// Minimum and maximum of a factor for the latency of each pair of hosts, the same in both
    /// directions and drawn uniformly; with `placed = "study"` drawn as in the study. Default: the
    /// latency of the regions is that of all pairs.
    pub pair_factor: Option<(f64, f64)>,
    /// One-way latency from region (row) to region (column). Not allowed with
    /// `network.latency_file`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latency: Vec<Vec<Span>>,
    /// Rate that all hosts of a region share in each direction to and from other regions. Default:
    /// unlimited.
    pub gateway: Option<Rate>,
    /// Treatment of packets that find a gateway busy.
    #[serde(default)]
    pub gateway_queue: Queue,
}

/// Assignments of hosts to regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Placed {
    /// Each host gets a random region, by the weights.
    #[default]
    Drawn,
    /// The first hosts are in the first region, and so on, in numbers by the rounded shares of the
    /// weights.
    InOrder,
    /// As in Kiraly's study of segmented payloads (2026): by a hash of the seed and the host's
    /// number, so that a run has the regions of the study's run with the same seed. Weights are whole
    /// numbers.
    Study,
}

/// A table of latencies in a file (`docs/guides/networks.md` has the formats).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a table such as { file = \"latency.csv\", kind = \"one-way\", unit = \"ms\" }"
)]
pub struct LatencyFile {
    /// The file: a path relative to the scenario file, plain or compressed with zstd.
    pub file: String,
    /// Direction of its values: one-way, or round trips, which are halved.
    pub kind: LatencyKind,
    /// Unit of values that are plain numbers. Values such as "12 ms" have their own.
    pub unit: Option<LatencyUnit>,
    /// Kind of its rows: hosts or regions. Default: regions if hosts have regions.
    pub of: Option<LatencyOf>,
    /// Format of the file. Default: detected from its content.
    pub format: Option<LatencyFormat>,
    /// Column with the latency (pairs), if there are several.
    pub column: Option<String>,
    /// File with the names of the ids that its rows have: CSV with the columns `id` and `name`.
    /// Other columns are ignored.
    pub names: Option<String>,
    /// One-way latency within a region, in place of the value in the file.
    pub within: Option<Span>,
    /// One-way latency of pairs without a value in the file. Without this key, such pairs are an
    /// error.
    pub others: Option<Span>,
    /// Latencies over several pairs.
    #[serde(default)]
    pub paths: Paths,
    /// Column (pairs) or attribute of edges (graph) with the share of packets that the network loses
    /// between the two ends, from 0 to below 1 or as "2 %". It applies beside `network.loss`.
    pub loss: Option<String>,
}

/// Latencies over several pairs of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Paths {
    /// Each pair has its own value.
    #[default]
    None,
    /// Each pair has the least sum of latencies over a path of pairs, as in Shadow; losses add up
    /// along this path. A pair in one direction stands for both.
    Undirected,
    /// The same, with pairs in their own direction only.
    Directed,
}

/// Directions of latencies in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LatencyKind {
    /// From one host to the other.
    #[default]
    OneWay,
    /// From one host to the other and back, as measured by ping.
    RoundTrip,
}

/// Units of plain numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LatencyUnit {
    /// Values in seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Values in milliseconds.
    #[serde(rename = "ms")]
    Milliseconds,
    /// Values in microseconds.
    #[serde(rename = "us")]
    Microseconds,
    /// Values in nanoseconds.
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

/// Kinds of rows in a file of latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LatencyOf {
    /// One row for each node.
    Nodes,
    /// One row for each region.
    Regions,
}

/// Formats of a file of latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LatencyFormat {
    /// A matrix with a row and a column for each host or region, with or without their names.
    Matrix,
    /// One line for each pair.
    Pairs,
    /// The edges of a GraphML file.
    Graph,
}
