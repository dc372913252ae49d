//! `[network]`

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::short;
use crate::units::{Rate, Share, Size, Span};

/// Hosts and what lies between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// How many hosts there are, numbered from 0. May be left out if the topology comes from a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 10_000_000))]
    pub nodes: Option<u32>,
    /// Who is connected to whom.
    pub topology: Topology,
    /// One-way latency between hosts: "50 ms" for all pairs, or a table.
    #[serde(default)]
    pub latency: Latency,
    /// The most that is added to the latency of each packet, uniformly drawn. Packets of one link stay in order.
    #[serde(default)]
    pub jitter: Span,
    /// The share of packets that are lost on their way, less than 100 %.
    #[serde(default)]
    pub loss: Share,
    /// Uplink and downlink rate of every host that has none of its own.
    #[serde(default = "default_bandwidth")]
    pub bandwidth: Rate,
    /// Uplink rate, where it differs from `bandwidth`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink: Option<Rate>,
    /// Downlink rate, where it differs from `bandwidth`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub downlink: Option<Rate>,
    /// How long a host is busy with checking a message before it is delivered and forwarded; one message at a time.
    #[serde(default)]
    pub validation_time: Span,
    /// The queues at both ends of a host's access line.
    #[serde(default)]
    pub queue: Queue,
    /// Kinds of hosts; those left over are as `[network]` says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub class: Vec<HostClass>,
}

impl Network {
    /// Uplink rate of hosts without a rate of their own.
    pub fn uplink(&self) -> Rate {
        self.uplink.unwrap_or(self.bandwidth)
    }

    /// Downlink rate of hosts without a rate of their own.
    pub fn downlink(&self) -> Rate {
        self.downlink.unwrap_or(self.bandwidth)
    }
}

fn default_bandwidth() -> Rate {
    Rate::from_mbit_per_second(50)
}

/// Who is connected to whom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(transform = short::kind_alone)]
pub enum Topology {
    /// A connected random graph in which every host has the same number of links.
    RandomRegular {
        /// Links of every host.
        #[schemars(range(min = 1))]
        degree: u32,
    },
    /// Preferential attachment: the very graph that NetworkX gives for the same `m` and `seed`.
    BarabasiAlbert {
        /// Links that each new host makes.
        #[schemars(range(min = 1))]
        m: u32,
        /// The seed of the graph; by default the run's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seed: Option<u64>,
    },
    /// Every host with every other.
    FullMesh,
    /// Every host with the next one.
    Ring,
    /// Links from a file: CSV with the columns `dialer,listener`, or GraphML.
    File {
        /// Relative to the scenario file, or "builtin:" and the name of a data set that comes along
        /// ("builtin:reference/edges_n100.csv"). Files that end in ".zst" are decompressed.
        file: String,
    },
    /// A random graph in which hosts prefer neighbours of their own region.
    Regions {
        /// Links of every host, on average.
        #[schemars(range(min = 1))]
        degree: u32,
        /// The share of links that stay within the region.
        local: Share,
    },
}

/// One-way latency between hosts. Less than 50 microseconds is raised to that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(transform = short::latency)]
pub enum Latency {
    /// The same between all hosts.
    Constant {
        /// How much.
        value: Span,
    },
    /// Drawn once for each pair of hosts, uniformly.
    Uniform {
        /// The least.
        min: Span,
        /// The most.
        max: Span,
    },
    /// By the regions of both hosts. Say either `table` or `region`.
    Regions(RegionTable),
}

impl Default for Latency {
    fn default() -> Self {
        Self::Constant { value: Span::from_millis(50) }
    }
}

/// Regions, how many of the hosts are in each, and the latencies between them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RegionTable {
    /// A CSV file with the columns `region`, `weight` and one for each region, whose cells are one-way latencies in ms.
    /// Relative to the scenario file, or "builtin:" and the name of a table that comes along
    /// ("builtin:regions/interop8.csv").
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// The regions, written out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub region: Vec<Region>,
}

/// A region of hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Region {
    /// What it is called.
    pub name: String,
    /// Its hosts are this part of the sum of all weights.
    #[serde(default = "one")]
    pub weight: u32,
    /// One-way latency to each region, its own included. What is not given is as in the other direction.
    pub latency: BTreeMap<String, Span>,
}

fn one() -> u32 {
    1
}

/// A kind of host. Say either `share` or `count`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostClass {
    /// What it is called in results.
    pub name: String,
    /// The share of all hosts that are of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Share>,
    /// How many hosts are of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// Uplink and downlink rate, as in `[network]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Rate>,
    /// Uplink rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink: Option<Rate>,
    /// Downlink rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub downlink: Option<Rate>,
    /// The region of all hosts of this kind; by default they are spread over the regions as all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// How long a host of this kind is busy with checking a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation_time: Option<Span>,
}

/// The queues at both ends of a host's access line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// How the links of a host share its uplink.
    #[serde(default)]
    pub uplink: NicDiscipline,
    /// What happens to packets that find the downlink busy.
    #[serde(default)]
    pub downlink: DownlinkQueue,
}

/// How the links of a host share its uplink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NicDiscipline {
    /// Links that have something to send send a packet each in turn: in effect what Linux does.
    #[default]
    RoundRobin,
    /// What the application wrote first goes first: the default of the Shadow simulator.
    Fifo,
}

/// What happens to packets that find the downlink busy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, tag = "kind")]
#[schemars(transform = short::kind_alone)]
pub enum DownlinkQueue {
    /// Packets queue up to a limit; those beyond are dropped.
    DropTail {
        /// The most that waits.
        size: Size,
    },
    /// Controlled delay (RFC 8289): packets are dropped where the delay stays above a target.
    #[serde(rename = "codel")]
    CoDel {
        /// The standing delay that is tolerated: 5 ms in the RFC, 10 ms in Shadow.
        #[serde(default = "codel_target")]
        target: Span,
        /// How long it is tolerated.
        #[serde(default = "codel_interval")]
        interval: Span,
    },
}

impl Default for DownlinkQueue {
    fn default() -> Self {
        Self::CoDel { target: codel_target(), interval: codel_interval() }
    }
}

fn codel_target() -> Span {
    Span::from_millis(5)
}

fn codel_interval() -> Span {
    Span::from_millis(100)
}
