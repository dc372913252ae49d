//! The environment of a simulation: hosts, their links to the network, and the transport.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use samara_engine::{Purpose, Time, derive_seed};

use crate::error::{ConfigError, ensure};
use crate::transport::Transport;

/// Smaller latencies are raised to this one, so that a window of the simulation always has a
/// positive length.
pub const LATENCY_FLOOR: Duration = Duration::from_micros(50);

/// The configuration of a simulation, except for its engines.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// The seed of all random streams.
    pub seed: u64,
    /// Number of worker threads (at least 1). Results do not depend on it.
    pub threads: usize,
    /// Latency, jitter and loss between hosts.
    pub network: Network,
    /// The transport that carries frames over a link.
    pub transport: Transport,
    /// The discipline by which the links of a host share its uplink.
    pub nic: NicDiscipline,
    /// The treatment of packets while a host's downlink is busy.
    pub downlink_queue: DownlinkQueue,
}

/// The properties of one host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostConfig {
    /// Uplink rate in bits per second.
    pub uplink_bps: u64,
    /// Downlink rate in bits per second.
    pub downlink_bps: u64,
    /// Index into the rows of [`Latency::Regions`]; ignored by other latency models.
    pub region: u16,
}

/// The network between the hosts.
#[derive(Clone, Debug)]
pub struct Network {
    /// One-way latency of each pair of hosts.
    pub latency: Latency,
    /// Maximum of a uniform random delay that is added to the latency of each packet. Packets of
    /// one link stay in order.
    pub jitter: Duration,
    /// The probability that a packet is lost on its way, in `0..1`.
    pub loss: f64,
    /// Further losses, which differ from pair to pair.
    pub losses: Option<Losses>,
    /// Periods in which groups of hosts cannot reach each other.
    pub partitions: Vec<Partition>,
    /// The gateways that hosts of a region share on the way to and from other regions, one for each
    /// region of [`Latency::Regions`]. Empty if there are none. With gateways, latencies between
    /// regions must be at least three times the minimum latency of the network.
    pub gateways: Vec<GatewayConfig>,
}

impl Network {
    /// Returns a network with the same latency everywhere, no jitter and no loss.
    pub fn uniform(latency: Duration) -> Self {
        Self {
            latency: Latency::Constant(latency),
            jitter: Duration::ZERO,
            loss: 0.0,
            losses: None,
            partitions: Vec::new(),
            gateways: Vec::new(),
        }
    }

    /// Returns the probability that a packet from a host to another one is lost on its way.
    pub(crate) fn loss_between(&self, hosts: &[HostConfig], from: u32, to: u32) -> f64 {
        match &self.losses {
            None => self.loss,
            Some(losses) => 1.0 - (1.0 - self.loss) * (1.0 - losses.get(hosts, from, to)),
        }
    }

    /// Returns true if a packet can be lost on its way.
    pub(crate) fn loses(&self) -> bool {
        self.loss > 0.0 || self.losses.is_some()
    }
}

/// The probability that a packet between two hosts is lost on its way, by the hosts themselves or by
/// their regions.
#[derive(Clone, Debug, PartialEq)]
pub struct Losses {
    /// A row for each sender.
    shares: Arc<[f32]>,
    size: usize,
    by_region: bool,
}

impl Losses {
    /// Creates a table with a row and a column for each host. `None` unless it is square and all
    /// values are in `0..1`.
    pub fn of_hosts(size: usize, shares: Arc<[f32]>) -> Option<Self> {
        let fits = shares.len() == size * size && shares.iter().all(|share| (0.0..1.0).contains(share));
        fits.then_some(Self { shares, size, by_region: false })
    }

    /// Creates a table with a row and a column for each region, as
    /// [`of_hosts`](Self::of_hosts) for hosts.
    pub fn of_regions(size: usize, shares: Arc<[f32]>) -> Option<Self> {
        Self::of_hosts(size, shares).map(|losses| Self { by_region: true, ..losses })
    }

    /// Checks that each host has a row.
    pub(crate) fn check(&self, hosts: &[HostConfig]) -> Result<(), ConfigError> {
        let rows = self.size;
        if self.by_region {
            let found = hosts.iter().map(|host| usize::from(host.region)).max().unwrap_or(0);
            ensure!(found < rows, "a host is in region {found}, but the table of losses has {rows} regions");
        } else {
            let expected = hosts.len();
            ensure!(rows == expected, "the table of losses has {rows} hosts, but the network has {expected}");
        }
        Ok(())
    }

    fn get(&self, hosts: &[HostConfig], from: u32, to: u32) -> f64 {
        let row = |host: u32| {
            if self.by_region { usize::from(hosts[host as usize].region) } else { host as usize }
        };
        f64::from(self.shares[row(from) * self.size + row(to)])
    }
}

/// The link between a region and all others: a queue and a rate in each direction, which all hosts
/// of the region share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GatewayConfig {
    /// The rate out of the region, in bits per second.
    pub up_bps: u64,
    /// The rate into the region, in bits per second.
    pub down_bps: u64,
    /// The treatment of packets while either direction is busy.
    pub queue: DownlinkQueue,
}

/// One-way latency between hosts.
#[derive(Clone, Debug, PartialEq)]
pub enum Latency {
    /// The same for all pairs.
    Constant(Duration),
    /// Drawn once for every pair of hosts, uniformly, the same in both directions.
    Uniform {
        /// The minimum latency.
        min: Duration,
        /// The maximum latency.
        max: Duration,
    },
    /// By the regions of the sender (row) and the receiver (column).
    Regions(Vec<Vec<Duration>>),
    /// By the sender and the receiver themselves.
    Pairs(PairLatencies),
}

impl Latency {
    /// Checks that there is a latency between all hosts.
    ///
    /// # Errors
    /// Returns the first invalid value.
    pub fn check(&self, hosts: &[HostConfig]) -> Result<(), ConfigError> {
        match self {
            Self::Constant(_) => {}
            Self::Uniform { min, max } => {
                ensure!(min <= max, "the minimum latency {min:?} exceeds the maximum {max:?}")
            }
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
                ensure!(
                    found == expected,
                    "the table of latencies has {found} hosts, but the network has {expected}"
                );
            }
        }
        Ok(())
    }

    /// Returns the latency from a host to another one in nanoseconds, without the floor.
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

    /// Returns the minimum latency between two hosts.
    pub(crate) fn least(&self) -> Duration {
        match self {
            Self::Constant(latency) => *latency,
            Self::Uniform { min, .. } => *min,
            Self::Regions(matrix) => matrix.iter().flatten().min().copied().unwrap_or_default(),
            Self::Pairs(pairs) => pairs.least(),
        }
    }

    /// Returns an upper bound of the latency between two hosts.
    pub fn most(&self) -> Duration {
        match self {
            Self::Constant(latency) => *latency,
            Self::Uniform { max, .. } => *max,
            Self::Regions(matrix) => matrix.iter().flatten().max().copied().unwrap_or_default(),
            Self::Pairs(_) => PairLatencies::MAX,
        }
    }
}

/// A period in which hosts of different groups cannot reach each other.
#[derive(Clone, Debug)]
pub struct Partition {
    /// The start of the partition.
    pub from: Time,
    /// The end of the partition.
    pub until: Time,
    /// The group of every host.
    pub group_of: Vec<u16>,
}

/// The discipline by which links with data share the uplink of their host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum NicDiscipline {
    /// Links take turns, one segment each: in effect what Linux does (fair queueing between flows).
    #[default]
    RoundRobin,
    /// The segment that was written first goes first: the default of Shadow.
    Fifo,
    /// Segments leave their connections as soon as windows and pacing allow, and wait in the queues
    /// of FQ-CoDel, which can drop them. Acts as round-robin with the ideal transport.
    FqCoDel(FqCoDel),
    /// Segments leave their connections in the same way, and wait in one queue in the order of their
    /// arrival. A packet that finds it full is dropped. Acts as round-robin with the ideal transport.
    DropTail(QueueSize),
}

/// The size of a queue that drops what it has no room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueSize {
    /// Number of bytes.
    Bytes(u64),
    /// The time that a full queue takes to leave.
    Time(Duration),
}

/// Fair queueing with controlled delay (RFC 8290) in front of a token bucket of 1,500 bytes: an idle
/// link passes a packet in no time. There is no limit of packets; only CoDel drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FqCoDel {
    /// The tolerated standing delay of a flow (5 ms: RFC 8290 section 5.2.2).
    pub target: Duration,
    /// How long a larger delay is tolerated (100 ms: RFC 8290 section 5.2.1).
    pub interval: Duration,
    /// The bytes that a flow sends in one turn (1,514 in RFC 8290 section 5.2.4; here without the
    /// header of Ethernet).
    pub quantum: u32,
    /// Number of buckets, up to [`BUCKETS_MAX`](Self::BUCKETS_MAX). The packets of a sender to a
    /// receiver are one flow, which a hash of both puts into a bucket (1,024: RFC 8290 section
    /// 5.2.5).
    pub buckets: u32,
}

impl FqCoDel {
    /// The size of the token bucket, in bytes.
    pub const BURST_BYTES: u32 = 1_500;
    /// Maximum number of buckets.
    pub const BUCKETS_MAX: u32 = 32_768;

    /// Returns the RFC's values with a target that no delay reaches: CoDel drops nothing.
    pub fn without_drops() -> Self {
        Self { target: Duration::from_secs(1 << 31), ..Self::default() }
    }
}

impl Default for FqCoDel {
    /// The RFC's values.
    fn default() -> Self {
        Self {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            quantum: 1_500,
            buckets: 1_024,
        }
    }
}

/// The treatment of packets while the downlink is busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DownlinkQueue {
    /// Packets queue up to a number of bytes; packets beyond are dropped.
    DropTail {
        /// Maximum number of bytes in the queue.
        bytes: u64,
    },
    /// Controlled delay (RFC 8289) over an unbounded queue.
    CoDel {
        /// The tolerated standing delay (5 ms in the RFC; 10 ms in Shadow).
        target: Duration,
        /// How long a larger delay is tolerated (100 ms).
        interval: Duration,
    },
    /// Controlled delay for each flow (RFC 8290).
    FqCoDel(FqCoDel),
}

impl Default for DownlinkQueue {
    /// CoDel with the RFC's values.
    fn default() -> Self {
        Self::CoDel { target: Duration::from_millis(5), interval: Duration::from_millis(100) }
    }
}

/// One-way latencies between all pairs of hosts, in four bytes each: 64 MB for 4,000 hosts. Clones
/// share the table.
#[derive(Clone, PartialEq, Eq)]
pub struct PairLatencies {
    hosts: usize,
    /// Latencies in nanoseconds: a row for each sender, a column for each receiver.
    nanos: Arc<[u32]>,
    least: u32,
}

impl PairLatencies {
    /// The largest possible latency: about 4.29 s.
    pub const MAX: Duration = Duration::from_nanos(u32::MAX as u64);

    /// Creates the table from latencies in nanoseconds, a row for each sender. Latencies from a
    /// host to itself are ignored. Returns `None` if the table is not square or has fewer than two
    /// hosts.
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

    /// Returns the number of hosts.
    pub const fn hosts(&self) -> usize {
        self.hosts
    }

    /// Returns the latency from a host to another one.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn get(&self, from: u32, to: u32) -> Duration {
        Duration::from_nanos(self.nanos(from, to))
    }

    /// Returns the minimum latency between two different hosts.
    pub const fn least(&self) -> Duration {
        Duration::from_nanos(self.least as u64)
    }

    /// Returns the mean latency between two different hosts.
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
    /// Omits the latencies, of which there may be millions.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PairLatencies").field("hosts", &self.hosts).field("least", &self.least()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minimum_and_mean_ignore_latencies_of_a_host_to_itself() {
        let pairs = PairLatencies::new(3, vec![0, 7, 9, 8, 0, 5, 9, 6, 0]).expect("a square");
        assert_eq!(pairs.least(), Duration::from_nanos(5));
        assert_eq!(pairs.get(1, 0), Duration::from_nanos(8));
        assert_eq!(pairs.mean(), Duration::from_nanos(44 / 6));
        assert_eq!(pairs.get(0, 1), Duration::from_nanos(7), "each direction has its own latency");
    }

    #[test]
    fn rejects_tables_that_are_not_square() {
        assert_eq!(PairLatencies::new(3, vec![1; 8]), None);
        assert_eq!(PairLatencies::new(1, vec![1]), None);
        assert_eq!(PairLatencies::new(usize::MAX, vec![1; 8]), None);
    }
}
