//! The network between nodes: addresses, emulated links, and the congestion control of the kernel's
//! TCP.

use std::fs;
use std::net::Ipv4Addr;

use samara_emulation::{EmulationConfig, Relay, RelayConfig, Servers};
use samara_lab::network::{self, Hosts};
use samara_scenario::{Fault, FaultKind, Scenario, TransportKind};
use samara_sim::Congestion;

use crate::{TestbedError, rivals};

/// Every node has its own address, so all can have the same port.
pub(crate) const PORT: u16 = 4001;

pub(crate) enum Wire {
    /// The plain loopback device: no latency, no rates.
    Loopback,
    /// A relay that emulates the scenario's links.
    Relay(Box<Relay>),
}

impl Wire {
    /// Starts the relay, if the scenario requires emulation.
    pub(crate) fn new(scenario: &Scenario, hosts: &Hosts, seed: u64) -> Result<Self, TestbedError> {
        let network = &scenario.network;
        if hosts.losses.is_some() {
            return Err(TestbedError::Scenario(
                "network.latency_file.loss: the links of a testbed lose the same share everywhere; remove it for the testbed, or set \
                 network.loss"
                    .to_owned(),
            ));
        }
        let latency = network::least_latency_nanos(hosts) > 0 || network.regions.is_some();
        let impaired = latency || network.loss.fraction() > 0.0 || network.jitter.nanos() > 0;
        // Loopback and the processors of one machine are no faster than this.
        let slowest = hosts.configs.iter().map(|host| host.uplink_bps.min(host.downlink_bps)).min();
        let has_rivals = !rivals::planned(scenario, seed).is_empty();
        let of_network = |fault: &Fault| {
            matches!(fault.kind, FaultKind::Cut { .. } | FaultKind::Partition {} | FaultKind::Slow { .. })
        };
        let has_faults = scenario.faults.iter().any(of_network);
        if !impaired && !has_rivals && !has_faults && slowest.is_none_or(|bps| bps >= UNLIMITED_BPS) {
            return Ok(Self::Loopback);
        }
        // Without a queue behind the sockets, the interface of the host is the bottleneck.
        let interface = !network.uplink_queue.is_behind();
        let relay = RelayConfig { interface, ..RelayConfig::new(emulation(scenario, hosts, seed)) };
        let relay = Relay::start(relay)?;
        Ok(Self::Relay(Box::new(relay)))
    }

    /// The address for binding a node's sockets.
    pub(crate) fn own(&self, node: u32) -> Ipv4Addr {
        match self {
            // All of 127.0.0.0/8 is local; host 0 has the address 127.77.0.1.
            Self::Loopback => {
                let [high, low] = (node as u16 + 1).to_be_bytes();
                Ipv4Addr::new(127, 77, high, low)
            }
            Self::Relay(relay) => relay.bind_address(node),
        }
    }

    /// The address at which a node dials another.
    pub(crate) fn dialled(&self, from: u32, to: u32) -> Ipv4Addr {
        match self {
            Self::Loopback => self.own(to),
            Self::Relay(relay) => relay.dial_address(from, to),
        }
    }
}

/// Higher rates are not emulated: a relay of one thread would be the bottleneck.
const UNLIMITED_BPS: u64 = 1_000_000_000;

/// Converts the scenario's network to the types of the emulation.
pub(crate) fn emulation(scenario: &Scenario, hosts: &Hosts, seed: u64) -> EmulationConfig {
    let simulated = network::network(scenario, hosts, seed);
    EmulationConfig {
        seed,
        hosts: hosts.configs.clone(),
        latency: simulated.latency,
        jitter: simulated.jitter,
        loss: simulated.loss,
        nic: network::nic(scenario),
        uplink_queue: samara_emulation::UplinkQueue::default(),
        downlink_queue: network::downlink_queue(scenario),
        gateways: simulated.gateways,
        // The other end of each rival.
        servers: Servers {
            count: rivals::planned(scenario, seed).len() as u32,
            latency: scenario.network.latency.duration(),
        },
    }
}

// ---- the kernel's TCP ----

const CONGESTION_CONTROL: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
/// Whether the congestion window shrinks during idle periods.
const IDLE_RESTART: &str = "/proc/sys/net/ipv4/tcp_slow_start_after_idle";

/// Selects the scenario's congestion control, as some systems default to another one, and whether idle
/// connections start slowly again. With a private network namespace that has no effect on the machine.
/// Everything else is the default of the kernel and of the hosts. Returns the settings that could not
/// be applied.
pub(crate) fn prepare(scenario: &Scenario, private_network: bool) -> Vec<String> {
    let kind = &scenario.transport.kind;
    if let TransportKind::Quic { .. } = kind {
        return Vec::new();
    }
    let idle_restart = if kind.tcp().and_then(|tcp| tcp.idle_restart).unwrap_or(true) { "1" } else { "0" };
    let mut missing = choose(CONGESTION_CONTROL, congestion(kind), private_network);
    missing.extend(choose(IDLE_RESTART, idle_restart, private_network));
    missing
}

fn congestion(kind: &TransportKind) -> &'static str {
    kind.tcp().and_then(|tcp| tcp.congestion).unwrap_or(Congestion::Reno).name()
}

/// Sets a value if that affects no other process. Reports the value if it differs.
fn choose(path: &str, wanted: &str, private_network: bool) -> Vec<String> {
    if private_network {
        // If the write fails, the value that is read back counts.
        let _ = fs::write(path, wanted);
    }
    let found = fs::read_to_string(path).unwrap_or_default();
    if found.trim() == wanted {
        return Vec::new();
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    vec![format!("{name} is {:?}; the scenario has {wanted}", found.trim())]
}

#[cfg(test)]
mod tests {
    use samara_document::Inputs;
    use samara_scenario::{Overrides, load_source};

    use super::*;

    /// The emulated links have one loss for all pairs: a run must not silently lose nothing instead.
    #[test]
    fn losses_of_pairs_are_refused() {
        let text = |loss: &str| {
            format!(
                "[scenario]\nname = \"x\"\ntitle = \"x\"\n[columns]\n[network]\nnodes = 3\n\
                 latency_file = {{ file = \"pairs.csv\", unit = \"ms\", kind = \"one-way\"{loss} }}\n"
            )
        };
        let wire = |loss: &str| {
            let inputs = Inputs::default()
                .with("pairs.csv", "from,to,latency,lost\n0,1,10,0.01\n0,2,20,0\n1,2,30,0\n");
            let loaded = load_source("x", &text(loss), inputs, &Overrides::default()).expect("a scenario");
            let hosts = network::hosts(&loaded.scenario, &loaded.inputs, 3, 1).expect("hosts");
            assert_eq!(hosts.losses.is_some(), !loss.is_empty());
            Wire::new(&loaded.scenario, &hosts, 1)
        };
        let error = wire(", loss = \"lost\"").err().expect("the scenario is refused").to_string();
        assert!(error.starts_with("network.latency_file.loss: "), "{error}");
        // Without the losses, only the rights for a device can be missing.
        if let Err(error) = wire("") {
            assert!(!matches!(error, TestbedError::Scenario(_)), "{error}");
        }
    }
}
