//! The state that all hosts share and that never changes during a simulation.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::sync::Arc;

use samara_engine::{Frame, PeerId, PeerIdentity, PeerInfo, Time};

use crate::config::{HostConfig, LATENCY_FLOOR, SimConfig};
use crate::node::{Factory, Node};
use crate::packet::Heading;
use crate::shard::Mailbox;

pub(crate) struct World<F: Frame> {
    pub(crate) config: SimConfig,
    pub(crate) hosts: Vec<HostConfig>,
    pub(crate) factory: Factory<F>,
    pub(crate) protocol: Arc<dyn Fn(u32, u32) -> Arc<str> + Send + Sync>,
    /// The hosts that are simulated here; others are in other processes.
    pub(crate) local: Range<u32>,
    /// The identities of hosts, which links share.
    pub(crate) identities: Vec<PeerIdentity>,
    /// The minimum latency in the network, in nanoseconds: how far hosts can be simulated alone.
    /// The gateway of a region is this far from its hosts, which leaves the windows unchanged.
    pub(crate) lookahead: u64,
    /// Number of hosts in each shard but the last.
    pub(crate) shard_len: usize,
    /// The mailboxes of the shards.
    pub(crate) boxes: Vec<Mailbox<F>>,
}

impl<F: Frame> World<F> {
    /// Creates a node for a host of this process.
    pub(crate) fn node(&self, host: u32) -> Box<dyn Node<F>> {
        (self.factory)(host, self.place(host).map_or(0, |(shard, _)| shard))
    }

    /// Returns the one-way latency from host to host in nanoseconds.
    pub(crate) fn latency(&self, from: u32, to: u32) -> u64 {
        let latency = self.config.network.latency.nanos(self.config.seed, &self.hosts, from, to);
        latency.max(LATENCY_FLOOR.as_nanos() as u64)
    }

    /// Returns true if packets from one host to another pass gateways.
    pub(crate) fn gateways_between(&self, from: u32, to: u32) -> bool {
        let region = |host: u32| self.hosts[host as usize].region;
        !self.config.network.gateways.is_empty() && region(from) != region(to)
    }

    /// Returns the heading of a packet from one host to another, and its travel time to the first
    /// stop. Without a gateway on the way, that time is `latency`.
    pub(crate) fn way(&self, from: u32, to: u32, latency: u64) -> (Heading, u64) {
        if self.gateways_between(from, to) {
            (Heading::through_gateways(to), self.lookahead)
        } else {
            (Heading::to(to), latency)
        }
    }

    /// Returns the shard of a host and its index there, or `None` if it is in another process.
    pub(crate) fn place(&self, host: u32) -> Option<(usize, usize)> {
        let place = self.local.contains(&host).then(|| (host - self.local.start) as usize)?;
        Some((place / self.shard_len, place % self.shard_len))
    }

    /// Returns true if a partition separates two hosts now.
    pub(crate) fn partitioned(&self, now: u64, from: u32, to: u32) -> bool {
        let now = Time::from_nanos(now);
        self.config.network.partitions.iter().any(|partition| {
            partition.from <= now
                && now < partition.until
                && partition.group_of[from as usize] != partition.group_of[to as usize]
        })
    }
}

/// Returns the identity of a host: its number, little endian, after the prefix of an identity hash.
pub fn identity_of(host: u32) -> PeerIdentity {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&[0x00, 0x24, 0x73, 0x61]);
    bytes[4..].copy_from_slice(&host.to_le_bytes());
    PeerIdentity::new(&bytes)
}

/// Returns the host with this identity, if it is one of a simulation.
pub fn host_of(identity: &PeerIdentity) -> Option<u32> {
    let bytes = identity.as_bytes().strip_prefix(&[0x00, 0x24, 0x73, 0x61])?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// The number of the host behind each peer of a node.
#[derive(Debug, Default)]
pub struct Neighbours(Vec<u32>);

impl Neighbours {
    /// Notes the host of a peer whose link is up.
    pub fn up(&mut self, peer: PeerId, info: &PeerInfo) {
        if self.0.len() <= peer.index() {
            self.0.resize(peer.index() + 1, u32::MAX);
        }
        self.0[peer.index()] = host_of(&info.identity).unwrap_or(u32::MAX);
    }

    /// Returns the number of the host, or `u32::MAX` for a peer that is none.
    pub fn host(&self, peer: PeerId) -> u32 {
        self.0.get(peer.index()).copied().unwrap_or(u32::MAX)
    }
}

/// Returns the address of a host: its own one in 10.0.0.0/8.
pub(crate) fn address_of(host: u32) -> IpAddr {
    let [_, a, b, c] = host.to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(10, a, b, c))
}
