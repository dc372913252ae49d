//! What all hosts share and nobody changes while the simulation runs.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::sync::Arc;

use samara_engine::{Frame, PeerIdentity, Time};

use crate::config::{DownlinkQueue, HostConfig, LATENCY_FLOOR, SimConfig};
use crate::node::{Factory, Node};
use crate::packet::Heading;
use crate::shard::Mailbox;
use crate::transport::mconn::{SEALED_FRAME, SEALED_PLAINTEXT};

/// How long segments of a connection with channels that leave as one step may occupy the uplink, in nanoseconds: as much
/// later may the first of them arrive than by itself.
const BURST_NANOS: f64 = 1_000_000.0;
/// They are read at once: the limit of the rate of reading, which is looked at before, has so many steps in a second at
/// least (its samples last a tenth of one).
const READS_PER_SECOND: f64 = 320.0;
/// They take at most this part of the receiver's queue.
const QUEUE_SHARE: f64 = 8.0;
/// And how many segments they may be: what a network card of Linux is given at once (`GSO_MAX_SIZE`, 64 KiB).
const BURST_SEGMENTS: f64 = 44.0;

pub(crate) struct World<F: Frame> {
    pub(crate) config: SimConfig,
    pub(crate) hosts: Vec<HostConfig>,
    pub(crate) factory: Factory<F>,
    pub(crate) protocol: Arc<dyn Fn(u32, u32) -> Arc<str> + Send + Sync>,
    /// The hosts that are simulated here; others are in other processes.
    pub(crate) local: Range<u32>,
    /// By host: links share them.
    pub(crate) identities: Vec<PeerIdentity>,
    /// The least latency in the network, in nanoseconds: how far hosts can be simulated alone. As far away is a host from the gateway of
    /// its region, since that leaves windows as they are.
    pub(crate) lookahead: u64,
    /// Hosts in each shard but the last.
    pub(crate) shard_len: usize,
    /// By shard.
    pub(crate) boxes: Vec<Mailbox<F>>,
}

impl<F: Frame> World<F> {
    /// A new node for a host of this process.
    pub(crate) fn node(&self, host: u32) -> Box<dyn Node<F>> {
        (self.factory)(host, self.place(host).map_or(0, |(shard, _)| shard))
    }

    /// One-way latency from host to host in nanoseconds.
    pub(crate) fn latency(&self, from: u32, to: u32) -> u64 {
        let latency = self.config.network.latency.nanos(self.config.seed, &self.hosts, from, to);
        latency.max(LATENCY_FLOOR.as_nanos() as u64)
    }

    /// Where a packet from a host to another one goes, and when it is at its first stop: there after `latency`, if nothing is between them.
    pub(crate) fn way(&self, from: u32, to: u32, latency: u64) -> (Heading, u64) {
        let region = |host: u32| self.hosts[host as usize].region;
        if self.config.network.gateways.is_empty() || region(from) == region(to) {
            (Heading::to(to), latency)
        } else {
            (Heading::through_gateways(to), self.lookahead)
        }
    }

    /// The shard of a host, and its place there; `None` if it is in another process.
    pub(crate) fn place(&self, host: u32) -> Option<(usize, usize)> {
        let place = self.local.contains(&host).then(|| (host - self.local.start) as usize)?;
        Some((place / self.shard_len, place % self.shard_len))
    }

    /// How many segments of a connection with channels may leave as one step of an uplink with such a rate: one where each
    /// can be lost for itself on the way, and few beside what a short queue of the receiver takes, which they fill or miss together.
    pub(crate) fn burst_max(&self, uplink_nanos_per_byte: f64) -> u32 {
        let transport = &self.config.transport;
        let segment = f64::from(SEALED_FRAME + transport.header);
        if self.config.network.loss > 0.0 {
            return 1;
        }
        let queued = match self.config.downlink_queue {
            DownlinkQueue::DropTail { bytes } => bytes as f64 / QUEUE_SHARE / segment,
            // It drops one segment of them at a time.
            DownlinkQueue::CoDel { .. } => f64::INFINITY,
        };
        let in_time = BURST_NANOS / (uplink_nanos_per_byte * segment);
        let read_at_once = match transport.connection.channels() {
            Some(config) if config.receive_rate > 0 => config.receive_rate as f64 / READS_PER_SECOND,
            _ => f64::INFINITY,
        };
        in_time.min(queued).min(read_at_once / f64::from(SEALED_PLAINTEXT)).clamp(1.0, BURST_SEGMENTS) as u32
    }

    /// Whether a partition is in the way.
    pub(crate) fn partitioned(&self, now: u64, from: u32, to: u32) -> bool {
        let now = Time::from_nanos(now);
        self.config.network.partitions.iter().any(|partition| {
            partition.from <= now
                && now < partition.until
                && partition.group_of[from as usize] != partition.group_of[to as usize]
        })
    }
}

/// The identity of a host: its number, little endian, behind the prefix of an identity hash.
pub fn identity_of(host: u32) -> PeerIdentity {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&[0x00, 0x24, 0x73, 0x61]);
    bytes[4..].copy_from_slice(&host.to_le_bytes());
    PeerIdentity::new(&bytes)
}

/// The host with this identity, if it is one of a simulation.
pub fn host_of(identity: &PeerIdentity) -> Option<u32> {
    let bytes = identity.as_bytes().strip_prefix(&[0x00, 0x24, 0x73, 0x61])?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// The address that a host is seen under: one of its own in 10.0.0.0/8.
pub(crate) fn address_of(host: u32) -> IpAddr {
    let [_, a, b, c] = host.to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(10, a, b, c))
}
