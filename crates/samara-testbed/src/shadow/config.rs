//! `shadow.yaml`, in the words of Shadow's [specification].
//!
//! [specification]: https://shadow.github.io/docs/guide/shadow_config_spec.html

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use samara_sim::NicDiscipline;
use serde::Serialize;

/// The whole file.
#[derive(Debug, Serialize)]
pub(super) struct Config {
    pub(super) general: General,
    pub(super) network: Network,
    pub(super) experimental: Experimental,
    /// By name; in the order of their numbers.
    #[serde(serialize_with = "in_order")]
    pub(super) hosts: Vec<(String, Host)>,
}

#[derive(Debug, Serialize)]
pub(super) struct General {
    pub(super) seed: u64,
    pub(super) stop_time: String,
    pub(super) data_directory: &'static str,
    pub(super) template_directory: &'static str,
    /// Nodes look at the clock again and again just before they publish, which must let time pass.
    pub(super) model_unblocked_syscall_latency: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Network {
    pub(super) graph: Graph,
    /// The graph has an edge for each pair.
    pub(super) use_shortest_path: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Graph {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) file: GraphFile,
}

#[derive(Debug, Serialize)]
pub(super) struct GraphFile {
    pub(super) path: &'static str,
}

#[derive(Debug, Serialize)]
pub(super) struct Experimental {
    pub(super) interface_qdisc: &'static str,
}

#[derive(Debug, Serialize)]
pub(super) struct Host {
    pub(super) network_node_id: u32,
    pub(super) ip_addr: Ipv4Addr,
    pub(super) bandwidth_down: String,
    pub(super) bandwidth_up: String,
    pub(super) processes: Vec<Process>,
}

#[derive(Debug, Serialize)]
pub(super) struct Process {
    pub(super) path: PathBuf,
    pub(super) args: Vec<&'static str>,
    pub(super) environment: BTreeMap<&'static str, &'static str>,
    pub(super) start_time: String,
    pub(super) shutdown_time: String,
    pub(super) shutdown_signal: &'static str,
    pub(super) expected_final_state: FinalState,
}

#[derive(Debug, Serialize)]
pub(super) struct FinalState {
    pub(super) exited: i32,
}

/// A rate.
pub(super) fn bits(per_second: u64) -> String {
    format!("{per_second} bit")
}

/// A time since the start.
pub(super) fn seconds(seconds: u64) -> String {
    format!("{seconds} sec")
}

/// What Shadow calls a discipline.
pub(super) const fn qdisc(nic: NicDiscipline) -> &'static str {
    match nic {
        NicDiscipline::RoundRobin => "round-robin",
        NicDiscipline::Fifo => "fifo",
    }
}

fn in_order<S: serde::Serializer>(hosts: &[(String, Host)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(hosts.iter().map(|(name, host)| (name, host)))
}
