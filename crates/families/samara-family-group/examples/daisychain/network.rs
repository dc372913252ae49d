//! The network between members: loopback, or namespaces with shaped uplinks.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::Anyhow;

/// Uplinks of shaped members, in the notation of `tc`.
const RATE: &str = "100mbit";
const BURST: &str = "64kb";
const QUEUE: &str = "50ms";
/// The namespace with the bridge, which leaves the machine's own network unchanged.
const HUB: &str = "samara-hub";

/// The kinds of network between members.
pub(crate) enum Network {
    Loopback,
    Shaped {
        /// Removes the namespaces on drop.
        _namespaces: Namespaces,
    },
}

/// A namespace for each member, each with a veth to a bridge in one more namespace. Dropping it
/// removes all.
pub(crate) struct Namespaces {
    members: usize,
}

fn run(program: &str, arguments: &[&str]) -> Anyhow<()> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{program} does not start: {error}; expected iproute2"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program} {}: {}", arguments.join(" "), said.trim()).into())
}

fn ip(line: &str) -> Anyhow<()> {
    run("ip", &line.split(' ').collect::<Vec<_>>())
}

fn namespace(index: usize) -> String {
    format!("samara-{}", index + 1)
}

/// Returns what prevents namespaces here, or `None` if they are possible.
pub(crate) fn missing() -> Option<&'static str> {
    if !nix::unistd::geteuid().is_root() {
        return Some("network namespaces require root");
    }
    if !Path::new("/proc/sys/net").exists() || run("ip", &["-V"]).is_err() || run("tc", &["-V"]).is_err() {
        return Some("ip or tc is missing: install iproute2");
    }
    None
}

impl Namespaces {
    /// Makes the namespaces. Replaces namespaces of an earlier run that was killed.
    fn new(members: usize, congestion: Option<&str>) -> Anyhow<Self> {
        let namespaces = Self { members };
        namespaces.remove();
        ip(&format!("netns add {HUB}"))?;
        ip(&format!("-n {HUB} link add samara-br type bridge"))?;
        ip(&format!("-n {HUB} link set samara-br up"))?;
        for index in 0..members {
            let (name, number) = (namespace(index), index + 1);
            ip(&format!("netns add {name}"))?;
            ip(&format!("-n {HUB} link add samara-v{number} type veth peer name samara-e netns {name}"))?;
            ip(&format!("-n {HUB} link set samara-v{number} master samara-br up"))?;
            ip(&format!("-n {name} addr add 10.77.0.{number}/24 dev samara-e"))?;
            ip(&format!("-n {name} link set samara-e up"))?;
            ip(&format!("-n {name} link set lo up"))?;
            let shape = format!(
                "-n {name} qdisc add dev samara-e root tbf rate {RATE} burst {BURST} latency {QUEUE}"
            );
            run("tc", &shape.split(' ').collect::<Vec<_>>())?;
            if let Some(congestion) = congestion {
                let set = format!("echo {congestion} > /proc/sys/net/ipv4/tcp_congestion_control");
                run("ip", &["netns", "exec", &name, "sh", "-c", &set])?;
            }
        }
        Ok(namespaces)
    }

    fn remove(&self) {
        for name in (0..self.members.max(64)).map(namespace).chain([HUB.to_owned()]) {
            if Path::new("/run/netns").join(&name).exists() {
                // A namespace that remains makes the next attempt to create it fail.
                let _ = ip(&format!("netns del {name}"));
            }
        }
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        self.remove();
    }
}

impl Network {
    /// Makes the namespaces of a shaped network.
    pub(crate) fn shaped(members: usize, congestion: Option<&str>) -> Anyhow<Self> {
        Ok(Self::Shaped { _namespaces: Namespaces::new(members, congestion)? })
    }

    /// The addresses of members. Each cluster has other ports, since connections of the last one
    /// may linger.
    pub(crate) fn members(&self, count: usize, cluster: usize) -> Vec<String> {
        let port = |index| 17_000 + 16 * (cluster % 500) + index;
        let address = |index| match self {
            Self::Loopback => format!("127.0.0.1:{}", port(index)),
            Self::Shaped { .. } => format!("10.77.0.{}:{}", index + 1, port(0)),
        };
        (0..count).map(address).collect()
    }

    pub(crate) fn namespace(&self, index: usize) -> Option<String> {
        matches!(self, Self::Shaped { .. }).then(|| namespace(index))
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Shaped { .. } => "shaped",
        }
    }

    /// The most that each member can deliver, in MB/s, with `senders` of them sending and every
    /// link carrying each message once: the uplinks are the bottleneck. 95.6 % of Ethernet frames
    /// are content (1448 of 1514 bytes).
    pub(crate) fn bound_mb_per_s(&self, members: usize, senders: usize) -> Option<f64> {
        let goodput = 100e6 / 8.0 * 1448.0 / 1514.0 / 1e6;
        let each = if senders < members { 1.0 } else { members as f64 / (members - 1) as f64 };
        matches!(self, Self::Shaped { .. }).then_some(goodput * each)
    }
}

/// The congestion control of members.
pub(crate) fn congestion(chosen: Option<&str>) -> String {
    let system = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap_or_default();
    chosen.map_or_else(|| system.trim().to_owned(), str::to_owned)
}
