//! The world that a simulation runs in: hosts, their links to the network, and the transport.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use samara_engine::{Purpose, Time, derive_seed};

use crate::error::{ConfigError, ensure};
use crate::transport::Transport;

/// Latencies below this are raised to it, so that a window of the simulation always has a length.
pub const LATENCY_FLOOR: Duration = Duration::from_micros(50);

/// Everything about a simulation that is not an engine.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// The seed that all random streams are derived from.
    pub seed: u64,
    /// Worker threads (at least 1). Results do not depend on it.
    pub threads: usize,
    /// Latency, jitter and loss between hosts.
    pub network: Network,
    /// How frames travel over a link.
    pub transport: Transport,
    /// How the links of a host share its uplink.
    pub nic: NicDiscipline,
    /// What happens when a host's downlink is busy.
    pub downlink_queue: DownlinkQueue,
}

/// A host's own properties.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostConfig {
    /// Uplink rate in bits per second.
    pub uplink_bps: u64,
    /// Downlink rate in bits per second.
    pub downlink_bps: u64,
    /// Index into the rows of [`Latency::Regions`]; ignored by other latency models.
    pub region: u16,
}

/// What lies between the hosts.
#[derive(Clone, Debug)]
pub struct Network {
    /// One-way latency of each pair.
    pub latency: Latency,
    /// The most that is added to the latency of a packet, uniformly drawn; packets of one link stay in order.
    pub jitter: Duration,
    /// The probability that a packet is lost on its way, in `0..1`.
    pub loss: f64,
    /// Times at which groups of hosts cannot reach each other.
    pub partitions: Vec<Partition>,
    /// What hosts of a region share on the way to and from other regions, for each region of [`Latency::Regions`]; empty if it is as
    /// wide as all of them need. Latencies between regions are at least three times the least of all.
    pub gateways: Vec<GatewayConfig>,
}

impl Network {
    /// The same latency everywhere, no jitter, no loss.
    pub fn uniform(latency: Duration) -> Self {
        Self {
            latency: Latency::Constant(latency),
            jitter: Duration::ZERO,
            loss: 0.0,
            partitions: Vec::new(),
            gateways: Vec::new(),
        }
    }
}

/// The way between a region and all others: two links with a queue each, which all hosts of the region share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GatewayConfig {
    /// The rate out of the region in bits per second.
    pub up_bps: u64,
    /// The rate into the region in bits per second.
    pub down_bps: u64,
    /// What happens to packets that find either of them busy.
    pub queue: DownlinkQueue,
}

/// One-way latency between hosts.
#[derive(Clone, Debug, PartialEq)]
pub enum Latency {
    /// The same for all pairs.
    Constant(Duration),
    /// Drawn once for every pair of hosts, uniformly, the same in both directions.
    Uniform {
        /// The least.
        min: Duration,
        /// The most.
        max: Duration,
    },
    /// By the regions of sender (row) and receiver (column).
    Regions(Vec<Vec<Duration>>),
    /// By sender and receiver themselves.
    Pairs(PairLatencies),
}

impl Latency {
    /// Checks that there is a latency between all hosts.
    ///
    /// # Errors
    /// The first value that does not fit.
    pub fn check(&self, hosts: &[HostConfig]) -> Result<(), ConfigError> {
        match self {
            Self::Constant(_) => {}
            Self::Uniform { min, max } => ensure!(min <= max, "the least latency is larger than the most"),
            Self::Regions(matrix) => {
                let regions = matrix.len();
                for (row, found) in matrix.iter().map(Vec::len).enumerate() {
                    ensure!(
                        found == regions,
                        "row {row} of the latency matrix has {found} entries instead of {regions}"
                    );
                }
                for (host, region) in hosts.iter().map(|host| host.region).enumerate() {
                    ensure!(
                        usize::from(region) < regions,
                        "host {host} is in region {region}, but the latency matrix has {regions} regions"
                    );
                }
            }
            Self::Pairs(pairs) => {
                let (found, expected) = (pairs.hosts(), hosts.len());
                ensure!(found == expected, "there are latencies between {found} hosts, but {expected} hosts");
            }
        }
        Ok(())
    }

    /// The latency from a host to another one in nanoseconds, without a floor.
    pub fn nanos(&self, seed: u64, hosts: &[HostConfig], from: u32, to: u32) -> u64 {
        match self {
            Self::Constant(latency) => latency.as_nanos() as u64,
            Self::Uniform { min, max } => {
                let pair = u64::from(from.min(to)) << 32 | u64::from(from.max(to));
                let drawn = derive_seed(seed, pair, Purpose::Network);
                let span = (max.as_nanos() - min.as_nanos()) as u64;
                min.as_nanos() as u64 + ((u128::from(drawn) * u128::from(span + 1)) >> 64) as u64
            }
            Self::Regions(matrix) => {
                let [row, column] = [from, to].map(|host| usize::from(hosts[host as usize].region));
                matrix[row][column].as_nanos() as u64
            }
            Self::Pairs(pairs) => pairs.nanos(from, to),
        }
    }

    /// The least latency between two hosts.
    pub(crate) fn least(&self) -> Duration {
        match self {
            Self::Constant(latency) => *latency,
            Self::Uniform { min, .. } => *min,
            Self::Regions(matrix) => matrix.iter().flatten().min().copied().unwrap_or_default(),
            Self::Pairs(pairs) => pairs.least(),
        }
    }

    /// No latency between two hosts is longer than this.
    pub fn most(&self) -> Duration {
        match self {
            Self::Constant(latency) => *latency,
            Self::Uniform { max, .. } => *max,
            Self::Regions(matrix) => matrix.iter().flatten().max().copied().unwrap_or_default(),
            Self::Pairs(_) => PairLatencies::MAX,
        }
    }
}

/// A time in which hosts of different groups cannot reach each other.
#[derive(Clone, Debug)]
pub struct Partition {
    /// From when.
    pub from: Time,
    /// Until when.
    pub until: Time,
    /// The group of every host.
    pub group_of: Vec<u16>,
}

/// How the links of a host that have something to send share its uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum NicDiscipline {
    /// Links send a segment each in turn: in effect what Linux does (fair queueing between flows).
    #[default]
    RoundRobin,
    /// The segment that the application wrote first goes first: the default of Shadow.
    Fifo,
}

/// What happens to packets that find the downlink busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DownlinkQueue {
    /// Packets queue up to so many bytes; those beyond are dropped.
    DropTail {
        /// The most bytes that wait.
        bytes: u64,
    },
    /// Controlled delay (RFC 8289) over an unbounded queue.
    CoDel {
        /// The standing delay that is tolerated (5 ms in the RFC; 10 ms in Shadow).
        target: Duration,
        /// How long it is tolerated (100 ms).
        interval: Duration,
    },
}

impl Default for DownlinkQueue {
    /// CoDel with the RFC's values.
    fn default() -> Self {
        Self::CoDel { target: Duration::from_millis(5), interval: Duration::from_millis(100) }
    }
}

/// One-way latencies between all pairs of hosts, in four bytes each: 64 MB for 4,000 hosts. Copies share them.
#[derive(Clone, PartialEq, Eq)]
pub struct PairLatencies {
    hosts: usize,
    /// Nanoseconds: rows of senders, columns of receivers.
    nanos: Arc<[u32]>,
    least: u32,
}

impl PairLatencies {
    /// The largest latency that there can be: some 4.29 s.
    pub const MAX: Duration = Duration::from_nanos(u32::MAX as u64);

    /// Latencies in nanoseconds, a row for each sender; those from a host to itself are not looked at. `None` if it is no square, or of
    /// less than two hosts.
    pub fn new(hosts: usize, nanos: impl Into<Arc<[u32]>>) -> Option<Self> {
        let nanos = nanos.into();
        if hosts < 2 || Some(nanos.len()) != hosts.checked_mul(hosts) {
            return None;
        }
        let rows = nanos.chunks_exact(hosts).enumerate();
        let others = rows.flat_map(|(host, row)| row[..host].iter().chain(&row[host + 1..]));
        let least = others.min().copied()?;
        Some(Self { hosts, nanos, least })
    }

    /// How many hosts there are.
    pub const fn hosts(&self) -> usize {
        self.hosts
    }

    /// The latency from a host to another one.
    ///
    /// # Panics
    /// There is no such host.
    pub fn get(&self, from: u32, to: u32) -> Duration {
        Duration::from_nanos(self.nanos(from, to))
    }

    /// The least latency between two different hosts.
    pub const fn least(&self) -> Duration {
        Duration::from_nanos(self.least as u64)
    }

    /// The mean latency between two different hosts.
    pub fn mean(&self) -> Duration {
        let rows = self.nanos.chunks_exact(self.hosts).enumerate();
        let others = rows.flat_map(|(host, row)| row[..host].iter().chain(&row[host + 1..]));
        let sum: u64 = others.map(|nanos| u64::from(*nanos)).sum();
        Duration::from_nanos(sum / (self.hosts * (self.hosts - 1)) as u64)
    }

    pub(crate) fn nanos(&self, from: u32, to: u32) -> u64 {
        let row = &self.nanos[from as usize * self.hosts..][..self.hosts];
        u64::from(row[to as usize])
    }
}

impl fmt::Debug for PairLatencies {
    /// Without the latencies, which may be millions.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PairLatencies").field("hosts", &self.hosts).field("least", &self.least()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_is_that_of_different_hosts() {
        let pairs = PairLatencies::new(3, vec![0, 7, 9, 8, 0, 5, 9, 6, 0]).expect("a square");
        assert_eq!(pairs.least(), Duration::from_nanos(5));
        assert_eq!(pairs.get(1, 0), Duration::from_nanos(8));
        assert_eq!(pairs.mean(), Duration::from_nanos(44 / 6));
        assert_eq!(pairs.get(0, 1), Duration::from_nanos(7), "each direction has its own");
    }

    #[test]
    fn what_is_no_square_is_refused() {
        assert_eq!(PairLatencies::new(3, vec![1; 8]), None);
        assert_eq!(PairLatencies::new(1, vec![1]), None);
        assert_eq!(PairLatencies::new(usize::MAX, vec![1; 8]), None);
    }
}
