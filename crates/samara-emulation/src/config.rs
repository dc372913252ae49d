//! What is emulated: hosts, the network between them, and their queues. The vocabulary is that of the simulator.

use std::time::Duration;

use crate::error::ConfigError;

/// The most hosts of an emulation: their number has 16 bits in the key of a flow.
pub const MAX_HOSTS: usize = 65_534;

/// The least rate: at 8 kbit/s a packet of 1,500 bytes takes 1.5 s.
pub const MIN_RATE_BPS: u64 = 8_000;

/// The longest latency, and the most jitter: what is on its way is kept in memory.
pub const MAX_LATENCY: Duration = Duration::from_secs(60);

/// The least that a queue holds: one packet of the largest size.
pub const MIN_QUEUE_BYTES: u64 = 1_500;

/// A network to emulate.
#[derive(Clone, Debug, PartialEq)]
pub struct EmulationConfig {
    /// The seed that latencies, jitter and losses are drawn from.
    pub seed: u64,
    /// The hosts, by number.
    pub hosts: Vec<HostConfig>,
    /// One-way latency of each pair.
    pub latency: Latency,
    /// The most that is added to the latency of a packet, uniformly drawn; packets of one flow stay in order.
    pub jitter: Duration,
    /// The probability that a packet is lost on its way, in `0..1`.
    pub loss: f64,
    /// How the flows of a host share its uplink.
    pub nic: NicDiscipline,
    /// How much waits for the uplink of a host.
    pub uplink_queue: UplinkQueue,
    /// What happens to packets that find the downlink of a host busy.
    pub downlink_queue: DownlinkQueue,
}

impl EmulationConfig {
    /// So many equal hosts with the same latency between all of them, no jitter, no loss, default queues.
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
        }
    }

    /// Checks all values.
    ///
    /// # Errors
    /// The first value that cannot be emulated.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.hosts.is_empty() || self.hosts.len() > MAX_HOSTS {
            return Err(ConfigError::Hosts { found: self.hosts.len() });
        }
        for (host, config) in self.hosts.iter().enumerate() {
            for (key, rate_bps) in [("uplink_bps", config.uplink_bps), ("downlink_bps", config.downlink_bps)]
            {
                if rate_bps < MIN_RATE_BPS {
                    return Err(ConfigError::Rate { host, key, found: rate_bps });
                }
            }
        }
        if !(0.0..1.0).contains(&self.loss) {
            return Err(ConfigError::Loss { found: self.loss });
        }
        not_longer("jitter", self.jitter, MAX_LATENCY)?;
        self.check_latency()?;
        self.check_queues()
    }

    fn check_latency(&self) -> Result<(), ConfigError> {
        match &self.latency {
            Latency::Constant(latency) => not_longer("latency", *latency, MAX_LATENCY),
            Latency::Uniform { min, max } if min > max => {
                Err(ConfigError::LatencyOrder { min: *min, max: *max })
            }
            Latency::Uniform { max, .. } => not_longer("latency.max", *max, MAX_LATENCY),
            Latency::Regions(matrix) => {
                self.check_matrix(matrix, self.hosts.iter().map(|host| host.region.into()))
            }
            Latency::Pairs(matrix) => self.check_matrix(matrix, 0..self.hosts.len()),
        }
    }

    fn check_matrix(
        &self,
        matrix: &[Vec<Duration>],
        rows: impl Iterator<Item = usize>,
    ) -> Result<(), ConfigError> {
        let size = matrix.len();
        for (row, values) in matrix.iter().enumerate() {
            if values.len() != size {
                return Err(ConfigError::MatrixRow { row, found: values.len(), rows: size });
            }
            values.iter().try_for_each(|latency| not_longer("latency", *latency, MAX_LATENCY))?;
        }
        for (host, row) in rows.enumerate() {
            if row >= size {
                return Err(ConfigError::MatrixSize { host, row, rows: size });
            }
        }
        Ok(())
    }

    fn check_queues(&self) -> Result<(), ConfigError> {
        let UplinkQueue { flow_bytes, total_bytes } = self.uplink_queue;
        at_least("uplink_queue.flow_bytes", flow_bytes)?;
        at_least("uplink_queue.total_bytes", total_bytes)?;
        match self.downlink_queue {
            DownlinkQueue::DropTail { bytes } => at_least("downlink_queue.bytes", bytes),
            DownlinkQueue::CoDel { target, interval } => {
                not_longer("downlink_queue.target", target, MAX_LATENCY)?;
                not_longer("downlink_queue.interval", interval, MAX_LATENCY)?;
                if interval.is_zero() { Err(ConfigError::CoDelInterval) } else { Ok(()) }
            }
        }
    }
}

fn not_longer(key: &'static str, found: Duration, most: Duration) -> Result<(), ConfigError> {
    if found > most { Err(ConfigError::Duration { key, found, most }) } else { Ok(()) }
}

fn at_least(key: &'static str, found: u64) -> Result<(), ConfigError> {
    if found < MIN_QUEUE_BYTES { Err(ConfigError::Queue { key, found }) } else { Ok(()) }
}

/// A host's own properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostConfig {
    /// Uplink rate in bits per second.
    pub uplink_bps: u64,
    /// Downlink rate in bits per second.
    pub downlink_bps: u64,
    /// Index into the rows of [`Latency::Regions`]; ignored by other latency models.
    pub region: u16,
}

/// One-way latency between hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Latency {
    /// The same for all pairs.
    Constant(Duration),
    /// Drawn once for every pair of hosts, uniformly, the same in both directions; with the same seed as a simulation it
    /// gives the same latencies.
    Uniform {
        /// The least.
        min: Duration,
        /// The most.
        max: Duration,
    },
    /// By the regions of sender (row) and receiver (column).
    Regions(Vec<Vec<Duration>>),
    /// By the numbers of sender (row) and receiver (column).
    Pairs(Vec<Vec<Duration>>),
}

/// How the flows of a host that have something to send share its uplink. A flow is a 5-tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum NicDiscipline {
    /// Flows send a packet each in turn: in effect what Linux does (fair queueing between flows).
    #[default]
    RoundRobin,
    /// The packet that came first goes first.
    Fifo,
}

/// How much waits for the uplink of a host; what comes on top is dropped and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UplinkQueue {
    /// The most bytes of one flow (round-robin only).
    pub flow_bytes: u64,
    /// The most bytes of all flows.
    pub total_bytes: u64,
}

impl Default for UplinkQueue {
    /// 6 MiB for a flow: what a Linux sender has in flight at most (`tcp_wmem`, 4 MiB of payload) fits. A TUN device
    /// takes packets off the socket's account at once, so that TCP does not hold them back as it does before a real
    /// interface; a short queue would then lose what a real host never loses. 64 MiB for a host.
    fn default() -> Self {
        Self { flow_bytes: 6 << 20, total_bytes: 64 << 20 }
    }
}

/// What happens to packets that find the downlink busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DownlinkQueue {
    /// Packets queue up to so many bytes; those beyond are dropped.
    DropTail {
        /// The most bytes that wait.
        bytes: u64,
    },
    /// Controlled delay (RFC 8289). The queue is bounded by 32 MiB (the memory limit of Linux's `fq_codel`).
    CoDel {
        /// The standing delay that is tolerated (5 ms in the RFC; 10 ms in Shadow).
        target: Duration,
        /// How long it is tolerated (100 ms in the RFC).
        interval: Duration,
    },
}

impl Default for DownlinkQueue {
    /// CoDel with the values of RFC 8289, section 4.
    fn default() -> Self {
        Self::CoDel { target: Duration::from_millis(5), interval: Duration::from_millis(100) }
    }
}
