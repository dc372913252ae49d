//! Places that hosts share by the prefixes of their addresses: handshakes and connections of a
//! listener.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Maximum number of places for each size of prefix.
///
/// | | IPv6 | IPv4 |
/// |---|---|---|
/// | `host` | /64: what a provider gives one customer at least | /32 |
/// | `site` | /56: what many providers give one customer | /24: the smallest block that is routed |
/// | `network` | /48: the largest block of one customer | /16: the block of a provider |
///
/// Private IPv4 addresses have the share of a host only, because an organisation assigns its own.
/// Loopback addresses have no share: whoever connects from there is a process of this machine, and
/// testbeds run many nodes on one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Places of one host.
    pub host: usize,
    /// Places of the hosts of one site.
    pub site: usize,
    /// Places of the hosts of one network.
    pub network: usize,
}

impl Shares {
    /// A sixteenth of the places for a host, an eighth for a site, a quarter for a network, and at
    /// least one.
    pub const fn of(max: usize) -> Self {
        const fn part(max: usize, parts: usize) -> usize {
            if max < parts { 1 } else { max / parts }
        }
        Self { host: part(max, 16), site: part(max, 8), network: part(max, 4) }
    }

    /// This number of places for a host, twice as many for a site, and four times as many for a
    /// network.
    pub const fn per_host(places: usize) -> Self {
        Self { host: places, site: places.saturating_mul(2), network: places.saturating_mul(4) }
    }

    /// Returns the shares in the order of [`prefixes_of`].
    const fn by_level(self) -> [usize; LEVELS] {
        [self.network, self.site, self.host]
    }
}

crate::names! {
    /// The reason why a newcomer gets no place.
    pub enum Refusal {
        /// All places are taken.
        All = "all",
        /// A prefix of its address has all its places.
        Prefix = "prefix",
    }
}

/// Counters of [`Places`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaceCounters {
    /// Newcomers refused because all places were taken.
    pub refused_all: u64,
    /// Newcomers refused because a prefix of their address had all its places.
    pub refused_prefix: u64,
    /// Holders that lost their place to a newcomer.
    pub evicted: u64,
}

const LEVELS: usize = 3;
/// The prefixes of an address: network, site, host.
type Prefixes = [IpAddr; LEVELS];

/// Places, each with the key of its holder. All hosts share a maximum, and each prefix has a share
/// of it.
///
/// A listener has one instance for handshakes, which calls [`take_or_evict`](Self::take_or_evict):
/// silent connections then keep nobody out. A second one counts handshakes and connections
/// together, and calls [`take`](Self::take): a connection that works is not closed for a newcomer.
/// The owner calls [`free`](Self::free) when a handshake or a connection ends.
#[derive(Clone, Debug)]
pub struct Places<K> {
    max: usize,
    shares: Shares,
    /// Holders, oldest first.
    holders: BTreeMap<u64, (K, Prefixes)>,
    by_key: BTreeMap<K, u64>,
    /// Places taken by each prefix. Network, site and host can have the same first address.
    taken: BTreeMap<(usize, IpAddr), usize>,
    next: u64,
    counters: PlaceCounters,
}

impl<K: Clone + Ord> Places<K> {
    /// Creates free places.
    pub const fn new(max: usize, shares: Shares) -> Self {
        Self {
            max,
            shares,
            holders: BTreeMap::new(),
            by_key: BTreeMap::new(),
            taken: BTreeMap::new(),
            next: 0,
            counters: PlaceCounters { refused_all: 0, refused_prefix: 0, evicted: 0 },
        }
    }

    /// Gives a newcomer a place. `from` is `None` for transports without addresses, which have no
    /// share.
    ///
    /// # Errors
    /// All places are taken, or all of a prefix of the address.
    pub fn take(&mut self, key: K, from: Option<IpAddr>) -> Result<(), Refusal> {
        self.check_shares(from)?;
        if self.holders.len() >= self.max {
            self.counters.refused_all += 1;
            return Err(Refusal::All);
        }
        self.insert(key, from);
        Ok(())
    }

    /// Gives a newcomer a place. If all are taken, the oldest holder of the prefix with the most
    /// places loses its own and is returned; the owner ends its handshake. Holders of a network
    /// with few places are safe from those with many, and so are sites in a network, and hosts in a
    /// site.
    ///
    /// # Errors
    /// All places of a prefix of the address are taken, or there are no places at all.
    pub fn take_or_evict(&mut self, key: K, from: Option<IpAddr>) -> Result<Option<K>, Refusal> {
        self.check_shares(from)?;
        let mut evicted = None;
        if self.holders.len() >= self.max {
            evicted = self.of_heaviest();
            let Some(holder) = &evicted else {
                self.counters.refused_all += 1;
                return Err(Refusal::All);
            };
            self.free(holder);
            self.counters.evicted += 1;
        }
        self.insert(key, from);
        Ok(evicted)
    }

    /// Frees the place of a holder. Returns false if it has none, such as after its eviction.
    pub fn free(&mut self, key: &K) -> bool {
        let Some((_, prefixes)) = self.by_key.remove(key).and_then(|age| self.holders.remove(&age)) else {
            return false;
        };
        for prefix in prefixes.into_iter().enumerate() {
            if let Some(taken) = self.taken.get_mut(&prefix) {
                *taken -= 1;
                if *taken == 0 {
                    self.taken.remove(&prefix);
                }
            }
        }
        true
    }

    /// Returns true if the holder has a place.
    pub fn contains(&self, key: &K) -> bool {
        self.by_key.contains_key(key)
    }

    /// Returns the number of places taken.
    pub fn len(&self) -> usize {
        self.holders.len()
    }

    /// Returns true if no place is taken.
    pub fn is_empty(&self) -> bool {
        self.holders.is_empty()
    }

    /// Returns the counters.
    pub const fn counters(&self) -> PlaceCounters {
        self.counters
    }

    fn check_shares(&mut self, from: Option<IpAddr>) -> Result<(), Refusal> {
        let Some(from) = from.map(|ip| ip.to_canonical()).filter(|ip| !ip.is_loopback()) else {
            return Ok(());
        };
        let prefixes = prefixes_of(from).into_iter().enumerate();
        let is_full = |(prefix, share)| self.taken_by(prefix) >= share;
        if prefixes.zip(self.shares.by_level()).any(is_full) {
            self.counters.refused_prefix += 1;
            return Err(Refusal::Prefix);
        }
        Ok(())
    }

    fn taken_by(&self, prefix: (usize, IpAddr)) -> usize {
        self.taken.get(&prefix).copied().unwrap_or(0)
    }

    fn insert(&mut self, key: K, from: Option<IpAddr>) {
        self.free(&key);
        let prefixes = prefixes_of(from.map_or(Ipv4Addr::UNSPECIFIED.into(), |ip| ip.to_canonical()));
        for prefix in prefixes.into_iter().enumerate() {
            *self.taken.entry(prefix).or_insert(0) += 1;
        }
        self.by_key.insert(key.clone(), self.next);
        self.holders.insert(self.next, (key, prefixes));
        self.next += 1;
    }

    /// Returns the oldest holder of the prefix with the most places.
    fn of_heaviest(&self) -> Option<K> {
        let weight = |(age, (_, prefixes)): &(&u64, &(K, Prefixes))| {
            let taken: [usize; LEVELS] = std::array::from_fn(|level| self.taken_by((level, prefixes[level])));
            (taken, Reverse(**age))
        };
        self.holders.iter().max_by_key(weight).map(|(_, (key, _))| key.clone())
    }
}

/// Returns network, site and host of a canonical address.
fn prefixes_of(ip: IpAddr) -> Prefixes {
    match ip {
        IpAddr::V4(ip) if ip.is_private() || ip.is_loopback() || ip.is_link_local() => [ip.into(); LEVELS],
        IpAddr::V4(ip) => [16, 8, 0].map(|low| Ipv4Addr::from(u32::from(ip) >> low << low).into()),
        IpAddr::V6(ip) => [80, 72, 64].map(|low| Ipv6Addr::from(u128::from(ip) >> low << low).into()),
    }
}
