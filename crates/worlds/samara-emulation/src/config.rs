//! The configuration of an emulation: hosts, the network between them, and their queues, in the
//! types of the simulator.

use std::time::Duration;

use samara_sim::{ConfigError, DownlinkQueue, GatewayConfig, HostConfig, Latency, NicDiscipline};

/// Maximum number of hosts: a host's number has 16 bits in the key of a flow.
pub const MAX_HOSTS: usize = 65_534;

/// Minimum rate: at 8 kbit/s a packet of 1,500 bytes takes 1.5 s.
pub const MIN_RATE_BPS: u64 = 8_000;

/// Maximum latency, and maximum jitter: packets in flight are kept in memory.
pub const MAX_LATENCY: Duration = Duration::from_secs(60);

/// Minimum capacity of a queue: one packet of the maximum size.
pub const MIN_QUEUE_BYTES: u64 = 1_500;

/// A network to emulate.
#[derive(Clone, Debug, PartialEq)]
pub struct EmulationConfig {
    /// The seed of latencies, jitter and losses. Latencies are those of a simulation with the same
    /// seed.
    pub seed: u64,
    pub hosts: Vec<HostConfig>,
    /// One-way latency of each pair.
    pub latency: Latency,
    /// Maximum addition to the latency of a packet, drawn uniformly. Packets of one flow stay in
    /// order.
    pub jitter: Duration,
    /// The probability that a packet is lost in the network, in `0..1`.
    pub loss: f64,
    /// The discipline by which the flows of a host share its uplink. A flow is a 5-tuple. FQ-CoDel and
    /// drop-tail are the queues of a router, the same as in the simulator.
    pub nic: NicDiscipline,
    /// The capacity of the queue for the uplink of a host.
    pub uplink_queue: UplinkQueue,
    /// The treatment of packets that find the downlink of a host busy. Behind CoDel, at most 32 MiB
    /// wait (the memory limit of Linux's `fq_codel`).
    pub downlink_queue: DownlinkQueue,
    /// The gateways that hosts of a region share on the way to and from other regions, by region.
    /// Empty if there are none. A server is in no region.
    pub gateways: Vec<GatewayConfig>,
    /// Servers outside of the network.
    pub servers: Servers,
}

/// Servers outside of the network, with numbers after the last host: the other ends of what others
/// in the houses of hosts send. Their paths have neither rates, jitter nor losses. Packets to a server
/// count at the server and not at the host, and those of servers only where a downlink drops them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Servers {
    pub count: u32,
    /// One-way latency to and from every host.
    pub latency: Duration,
}

impl EmulationConfig {
    /// Returns a network of `hosts` equal hosts with the same latency between all of them, no
    /// jitter, no loss, and default queues.
    pub fn uniform(hosts: usize, rate_bps: u64, latency: Duration) -> Self {
        Self {
            seed: 1,
            hosts: vec![HostConfig { uplink_bps: rate_bps, downlink_bps: rate_bps, region: 0 }; hosts],
            latency: Latency::Constant(latency),
            jitter: Duration::ZERO,
            loss: 0.0,
            nic: NicDiscipline::default(),
            uplink_queue: UplinkQueue::default(),
            downlink_queue: DownlinkQueue::default(),
            gateways: Vec::new(),
            servers: Servers::default(),
        }
    }

    /// Returns the number of hosts and servers.
    pub fn members(&self) -> usize {
        self.hosts.len() + self.servers.count as usize
    }

    /// Checks all values.
    ///
    /// # Errors
    /// The first value that cannot be emulated.
    pub fn check(&self) -> Result<(), ConfigError> {
        let count = self.members();
        ensure(!self.hosts.is_empty() && count <= MAX_HOSTS, || {
            format!("hosts: found {count}, expected 1 to {MAX_HOSTS}")
        })?;
        for (host, config) in self.hosts.iter().enumerate() {
            for (key, found) in [("uplink_bps", config.uplink_bps), ("downlink_bps", config.downlink_bps)] {
                ensure(found >= MIN_RATE_BPS, || {
                    format!("hosts[{host}].{key}: found {found} bit/s, expected {MIN_RATE_BPS} bit/s or more")
                })?;
            }
        }
        ensure((0.0..1.0).contains(&self.loss), || {
            let found = self.loss;
            format!(
                "loss: found {found}, expected a probability from 0 to below 1 (0.01 is one packet in a hundred)"
            )
        })?;
        self.latency.check(&self.hosts)?;
        for (key, found) in [
            ("jitter", self.jitter),
            ("latency", self.latency.most()),
            ("servers.latency", self.servers.latency),
        ] {
            check_latency(key, found)?;
        }
        let queue = self.uplink_queue;
        check_room("uplink_queue.flow_bytes", queue.flow_bytes)?;
        check_room("uplink_queue.total_bytes", queue.total_bytes)?;
        check_queue("downlink_queue", self.downlink_queue)?;
        self.check_gateways()
    }

    fn check_gateways(&self) -> Result<(), ConfigError> {
        let (regions, last) = (self.gateways.len(), self.hosts.iter().map(|host| host.region).max());
        let has_all = regions == 0 || last.is_some_and(|last| usize::from(last) < regions);
        ensure(has_all, || {
            let last = last.unwrap_or_default();
            format!("gateways: found {regions}, but a host is in region {last}; expected one for each region")
        })?;
        for (region, gateway) in self.gateways.iter().enumerate() {
            for (key, found) in [("up_bps", gateway.up_bps), ("down_bps", gateway.down_bps)] {
                ensure(found >= MIN_RATE_BPS, || {
                    format!(
                        "gateways[{region}].{key}: found {found} bit/s, expected {MIN_RATE_BPS} bit/s or more"
                    )
                })?;
            }
            check_queue(&format!("gateways[{region}].queue"), gateway.queue)?;
        }
        Ok(())
    }
}

fn check_queue(key: &str, queue: DownlinkQueue) -> Result<(), ConfigError> {
    match queue {
        DownlinkQueue::DropTail { bytes } => check_room(&format!("{key}.bytes"), bytes),
        DownlinkQueue::CoDel { target, interval } => {
            ensure(!interval.is_zero(), || {
                format!("{key}.interval: found 0, expected more than 0 (RFC 8289 has 100 ms)")
            })?;
            check_latency(&format!("{key}.target"), target)?;
            check_latency(&format!("{key}.interval"), interval)
        }
        DownlinkQueue::FqCoDel(_) => Err(ConfigError::new(format!(
            "{key}: found FQ-CoDel, which exists in the simulator only; expected drop-tail or CoDel"
        ))),
    }
}

fn check_latency(key: &str, found: Duration) -> Result<(), ConfigError> {
    ensure(found <= MAX_LATENCY, || format!("{key}: found {found:?}, expected at most {MAX_LATENCY:?}"))
}

fn check_room(key: &str, found: u64) -> Result<(), ConfigError> {
    ensure(found >= MIN_QUEUE_BYTES, || {
        format!("{key}: found {found} bytes, expected {MIN_QUEUE_BYTES} or more (one packet)")
    })
}

fn ensure(holds: bool, message: impl FnOnce() -> String) -> Result<(), ConfigError> {
    if holds { Ok(()) } else { Err(ConfigError::new(message())) }
}

/// The capacity of the queue for the uplink of a host. Further packets are dropped and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UplinkQueue {
    /// Maximum bytes of one flow (round-robin only).
    pub flow_bytes: u64,
    pub total_bytes: u64,
}

impl Default for UplinkQueue {
    /// 6 MiB for a flow, which holds the maximum in flight of a Linux sender (`tcp_wmem`, 4 MiB of
    /// payload). A TUN device takes packets off the socket's account at once, so TCP does not hold
    /// them back as before a real interface, and a short queue would lose packets that a real host
    /// never loses. 64 MiB for a host.
    fn default() -> Self {
        Self { flow_bytes: 6 << 20, total_bytes: 64 << 20 }
    }
}
