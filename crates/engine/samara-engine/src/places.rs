//! Places that hosts share by the prefixes of their addresses: handshakes and connections of a
//! listener.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Maximum number of places for each size of prefix.
///
/// | | IPv6 | IPv4 |
/// |---|---|---|
/// | `host` | /64: what a provider gives one customer at least | /32 |
/// | `site` | /56: what many providers give one customer | /24: the smallest block that is routed |
/// | `network` | /48: the largest block of one customer | /16: the block of a provider |
///
/// Private IPv4 addresses have the share of a host only, because an organisation assigns its own.
/// Loopback addresses have no share: they connect processes of this machine, and
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

crate::counters! {
    /// Counters of [`Places`].
    #[derive(Copy, Eq)]
    pub struct PlaceCounters {
        /// Newcomers refused because all places were taken.
        pub refused_all: u64,
        /// Newcomers refused because a prefix of their address had all its places.
        pub refused_prefix: u64,
        /// Holders that lost their place to a newcomer.
        pub evicted: u64,
    }
}

const LEVELS: usize = 3;
/// The prefixes of an address: network, site, host.
type Prefixes = [IpAddr; LEVELS];

/// Amounts that hosts take of something that they share, such as bytes. All hosts share a maximum,
/// and each prefix has a share of it.
#[derive(Clone, Debug)]
pub struct Amounts {
    max: usize,
    shares: Shares,
    loopback_shares: bool,
    all: usize,
    /// Network, site and host can have the same first address.
    by_prefix: BTreeMap<(usize, IpAddr), usize>,
}

impl Amounts {
    /// Creates amounts of which nothing is taken.
    pub const fn new(max: usize, shares: Shares) -> Self {
        Self { max, shares, loopback_shares: false, all: 0, by_prefix: BTreeMap::new() }
    }

    /// Gives each loopback address the share of a host, for services that strangers of this machine
    /// use.
    #[must_use]
    pub fn with_loopback_shares(self) -> Self {
        Self { loopback_shares: true, ..self }
    }

    /// Takes an amount. `from` is `None` for transports without addresses, which have no share.
    ///
    /// # Errors
    /// Less is left in all, or of a prefix of the address. Nothing is taken then.
    pub fn take(&mut self, from: Option<IpAddr>, amount: usize) -> Result<(), Refusal> {
        self.check_shares(from, amount)?;
        if self.all.saturating_add(amount) > self.max {
            return Err(Refusal::All);
        }
        self.add(from, amount);
        Ok(())
    }

    /// Returns an amount that was taken from this address.
    pub fn free(&mut self, from: Option<IpAddr>, amount: usize) {
        self.all = self.all.saturating_sub(amount);
        for prefix in prefixes_of(canonical(from)).into_iter().enumerate() {
            if let Some(taken) = self.by_prefix.get_mut(&prefix) {
                *taken = taken.saturating_sub(amount);
                if *taken == 0 {
                    self.by_prefix.remove(&prefix);
                }
            }
        }
    }

    /// Returns the amount that all hosts have taken.
    pub const fn taken(&self) -> usize {
        self.all
    }

    /// Returns the number of prefixes that have taken something.
    pub fn prefixes(&self) -> usize {
        self.by_prefix.len()
    }

    fn check_shares(&self, from: Option<IpAddr>, amount: usize) -> Result<(), Refusal> {
        let is_counted = |ip: &IpAddr| self.loopback_shares || !ip.is_loopback();
        let Some(from) = from.map(|ip| ip.to_canonical()).filter(is_counted) else { return Ok(()) };
        let prefixes = prefixes_of(from).into_iter().enumerate();
        let is_too_much = |(prefix, share)| self.taken_by(prefix).saturating_add(amount) > share;
        if prefixes.zip(self.shares.by_level()).any(is_too_much) { Err(Refusal::Prefix) } else { Ok(()) }
    }

    fn add(&mut self, from: Option<IpAddr>, amount: usize) {
        if amount == 0 {
            return;
        }
        self.all = self.all.saturating_add(amount);
        for prefix in prefixes_of(canonical(from)).into_iter().enumerate() {
            let taken = self.by_prefix.entry(prefix).or_insert(0);
            *taken = taken.saturating_add(amount);
        }
    }

    fn taken_by(&self, prefix: (usize, IpAddr)) -> usize {
        self.by_prefix.get(&prefix).copied().unwrap_or(0)
    }
}

/// Rates of something that hosts take, such as bytes a second. All hosts of a prefix share its rate,
/// and can take the amount of a second at once.
#[derive(Clone, Debug)]
pub struct Rates {
    per_s: Shares,
    /// The time at which each prefix has taken no more than its rate allows. Only times in the future
    /// are kept.
    even_at: BTreeMap<(usize, IpAddr), Instant>,
}

/// Number of prefixes beyond which [`Rates`] forgets those that are even.
const EVEN_MAX: usize = 1_024;

impl Rates {
    /// Creates rates of which nothing is taken.
    pub const fn new(per_s: Shares) -> Self {
        Self { per_s, even_at: BTreeMap::new() }
    }

    /// Counts an amount, and returns the time to wait before it is taken.
    pub fn take(&mut self, from: IpAddr, amount: usize, now: Instant) -> Duration {
        if self.even_at.len() >= EVEN_MAX {
            self.even_at.retain(|_, even_at| *even_at > now);
        }
        let mut wait = Duration::ZERO;
        let prefixes = prefixes_of(from.to_canonical()).into_iter().enumerate();
        for (prefix, per_s) in prefixes.zip(self.per_s.by_level()) {
            let takes = Duration::from_secs_f64(amount as f64 / per_s.max(1) as f64);
            let even_at = self.even_at.entry(prefix).or_insert(now);
            *even_at = (*even_at).max(now) + takes;
            wait = wait.max((*even_at - now).saturating_sub(Duration::from_secs(1)));
        }
        wait
    }
}

fn canonical(from: Option<IpAddr>) -> IpAddr {
    from.map_or(Ipv4Addr::UNSPECIFIED.into(), |ip| ip.to_canonical())
}

/// Places, each with the key of its holder. All hosts share a maximum, and each prefix has a share
/// of it.
///
/// A listener has one instance for handshakes, which calls [`take_or_evict`](Self::take_or_evict):
/// silent connections then keep nobody out. A second one counts handshakes and connections
/// together, and calls [`take`](Self::take): a connection that works is not closed for a newcomer.
/// The owner calls [`free`](Self::free) when a handshake or a connection ends.
#[derive(Clone, Debug)]
pub struct Places<K> {
    taken: Amounts,
    /// Holders, oldest first.
    holders: BTreeMap<u64, (K, Option<IpAddr>)>,
    by_key: BTreeMap<K, u64>,
    next: u64,
    counters: PlaceCounters,
}

impl<K: Clone + Ord> Places<K> {
    /// Creates free places.
    pub const fn new(max: usize, shares: Shares) -> Self {
        Self {
            taken: Amounts::new(max, shares),
            holders: BTreeMap::new(),
            by_key: BTreeMap::new(),
            next: 0,
            counters: PlaceCounters { refused_all: 0, refused_prefix: 0, evicted: 0 },
        }
    }

    /// Gives each loopback address the share of a host, for services that strangers of this machine
    /// use.
    #[must_use]
    pub fn with_loopback_shares(self) -> Self {
        Self { taken: self.taken.with_loopback_shares(), ..self }
    }

    /// Gives a newcomer a place. `from` is `None` for transports without addresses, which have no
    /// share.
    ///
    /// # Errors
    /// All places are taken, or all of a prefix of the address.
    pub fn take(&mut self, key: K, from: Option<IpAddr>) -> Result<(), Refusal> {
        self.check_shares(from)?;
        if self.holders.len() >= self.taken.max {
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
        if self.holders.len() >= self.taken.max {
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
        let Some((_, from)) = self.by_key.remove(key).and_then(|age| self.holders.remove(&age)) else {
            return false;
        };
        self.taken.free(from, 1);
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
        let checked = self.taken.check_shares(from, 1);
        self.counters.refused_prefix += u64::from(checked.is_err());
        checked
    }

    fn insert(&mut self, key: K, from: Option<IpAddr>) {
        self.free(&key);
        self.taken.add(from, 1);
        self.by_key.insert(key.clone(), self.next);
        self.holders.insert(self.next, (key, from));
        self.next += 1;
    }

    /// Returns the oldest holder of the prefix with the most places.
    fn of_heaviest(&self) -> Option<K> {
        let weight = |(age, (_, from)): &(&u64, &(K, Option<IpAddr>))| {
            let prefixes = prefixes_of(canonical(*from));
            let taken: [usize; LEVELS] =
                std::array::from_fn(|level| self.taken.taken_by((level, prefixes[level])));
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
