//! The two subnets of a relay: addresses that hosts have, and addresses that others see them under.

use std::net::Ipv4Addr;

use thiserror::Error;

/// The shortest prefix (the largest subnet) that makes sense: it holds all hosts that can be numbered.
const SHORTEST_PREFIX: u8 = 16;

/// The longest prefix: a subnet of two hosts, without its first and last address.
const LONGEST_PREFIX: u8 = 30;

/// Two subnets of the same size. Host *i* has the address *i* + 1 of `own`; others reach it by the address *i* + 1 of
/// `peers`, and see it there.
///
/// Addresses of `own` are local to the machine: a packet to one of them never passes the relay. Those of `peers` are
/// routed into the relay, which exchanges the subnets of source and destination. The sum of the 16-bit words of a packet
/// stays the same, so that no checksum (IPv4, TCP, UDP, ICMP) has to be computed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnets {
    own: u32,
    peers: u32,
    prefix: u8,
}

/// A pair of subnets that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SubnetsError {
    /// The prefix is too long or too short.
    #[error("subnets: found the prefix /{found}, expected /{SHORTEST_PREFIX} to /{LONGEST_PREFIX}")]
    Prefix {
        /// Its length.
        found: u8,
    },
    /// An address has bits outside of its prefix.
    #[error("subnets: {address}/{prefix} has bits beyond its prefix; expected {expected}/{prefix}")]
    Alignment {
        /// What was given.
        address: Ipv4Addr,
        /// The length of the prefix.
        prefix: u8,
        /// The first address of that subnet.
        expected: Ipv4Addr,
    },
    /// Both are the same.
    #[error("subnets: own and peers are both {address}/{prefix}, expected two different ones")]
    Same {
        /// The first address.
        address: Ipv4Addr,
        /// The length of the prefix.
        prefix: u8,
    },
}

impl Subnets {
    /// The subnets that begin with these addresses.
    ///
    /// # Errors
    /// If the prefix is shorter than 16 bits or longer than 30, an address is not the first one of its subnet, or both are
    /// the same.
    pub fn new(own: Ipv4Addr, peers: Ipv4Addr, prefix: u8) -> Result<Self, SubnetsError> {
        if !(SHORTEST_PREFIX..=LONGEST_PREFIX).contains(&prefix) {
            return Err(SubnetsError::Prefix { found: prefix });
        }
        for address in [own, peers] {
            let expected = Ipv4Addr::from_bits(address.to_bits() & !host_mask(prefix));
            if address != expected {
                return Err(SubnetsError::Alignment { address, prefix, expected });
            }
        }
        if own == peers {
            return Err(SubnetsError::Same { address: own, prefix });
        }
        Ok(Self { own: own.to_bits(), peers: peers.to_bits(), prefix })
    }

    /// Pairs in the private block 10.0.0.0/8 that are tried in turn where none is given: 10.78 and 10.79, 10.80 and
    /// 10.81, to 10.140 and 10.141. (Kubernetes, Docker and VPNs prefer the beginning of the block, 10.96, 10.244 and
    /// 172.16.0.0/12; what is in use is skipped anyway.)
    pub fn candidates() -> impl Iterator<Item = Self> {
        (78..141u8).step_by(2).map(|second| Self {
            own: Ipv4Addr::new(10, second, 0, 0).to_bits(),
            peers: Ipv4Addr::new(10, second + 1, 0, 0).to_bits(),
            prefix: 16,
        })
    }

    /// The first address that hosts have, and the length of the prefix.
    pub fn own(&self) -> (Ipv4Addr, u8) {
        (Ipv4Addr::from_bits(self.own), self.prefix)
    }

    /// The first address that hosts are seen under, and the length of the prefix.
    pub fn peers(&self) -> (Ipv4Addr, u8) {
        (Ipv4Addr::from_bits(self.peers), self.prefix)
    }

    /// How many hosts have an address.
    pub fn capacity(&self) -> usize {
        // Without the first and the last address, which are the network's and the broadcast's by convention.
        host_mask(self.prefix) as usize - 1
    }

    /// The address that a host has: its sockets are bound to it, to listen and to dial.
    pub fn bind_address(&self, host: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.own | (host + 1))
    }

    /// The address that a host is dialled at by others.
    pub fn dial_address(&self, host: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.peers | (host + 1))
    }

    /// The host that has this address as its own.
    pub(crate) fn host_of_own(&self, address: u32) -> Option<u32> {
        self.host_in(self.own, address)
    }

    /// The host that is seen under this address.
    pub(crate) fn host_of_peer(&self, address: u32) -> Option<u32> {
        self.host_in(self.peers, address)
    }

    fn host_in(&self, subnet: u32, address: u32) -> Option<u32> {
        let mask = host_mask(self.prefix);
        if address & !mask == subnet { (address & mask).checked_sub(1) } else { None }
    }

    /// The same host's address in the other subnet; other addresses stay as they are.
    pub(crate) fn exchange(&self, address: u32) -> u32 {
        let mask = host_mask(self.prefix);
        match address & !mask {
            subnet if subnet == self.own => self.peers | (address & mask),
            subnet if subnet == self.peers => self.own | (address & mask),
            _ => address,
        }
    }

    /// Whether one of the subnets has an address in common with this one.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only the relay adds routes"))]
    pub(crate) fn overlaps(&self, address: Ipv4Addr, prefix: u8) -> bool {
        let common = !host_mask(prefix.min(self.prefix));
        [self.own, self.peers].iter().any(|subnet| (subnet ^ address.to_bits()) & common == 0)
    }
}

fn host_mask(prefix: u8) -> u32 {
    u32::MAX.checked_shr(u32::from(prefix)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> Ipv4Addr {
        text.parse().unwrap()
    }

    #[test]
    fn hosts_have_the_same_number_in_both() {
        let subnets = Subnets::new(ip("10.78.0.0"), ip("10.79.0.0"), 16).unwrap();
        for host in [0, 1, 254, 255, 256, 65_533] {
            let (own, seen) = (subnets.bind_address(host), subnets.dial_address(host));
            assert_eq!(subnets.host_of_own(own.to_bits()), Some(host));
            assert_eq!(subnets.host_of_peer(seen.to_bits()), Some(host));
            assert_eq!(subnets.host_of_own(seen.to_bits()), None);
            assert_eq!(subnets.exchange(own.to_bits()), seen.to_bits());
            assert_eq!(subnets.exchange(seen.to_bits()), own.to_bits());
        }
        assert_eq!(subnets.bind_address(65_533), ip("10.78.255.254"));
        assert_eq!(subnets.host_of_own(ip("10.78.0.0").to_bits()), None);
        assert_eq!(subnets.capacity(), 65_534);
        assert_eq!(Subnets::new(ip("10.0.0.4"), ip("10.0.0.0"), 30).unwrap().capacity(), 2);
    }

    #[test]
    fn what_cannot_be_used_is_refused() {
        let error = |own, peers, prefix| Subnets::new(ip(own), ip(peers), prefix).unwrap_err().to_string();
        assert!(error("10.0.0.0", "10.1.0.0", 8).contains("found the prefix /8"));
        assert!(error("10.1.0.0", "10.2.0.1", 16).contains("expected 10.2.0.0/16"));
        assert!(error("10.1.0.0", "10.1.0.0", 16).contains("two different"));
    }

    #[test]
    fn overlaps_are_seen_from_both_sides() {
        let subnets = Subnets::new(ip("10.78.0.0"), ip("10.79.0.0"), 16).unwrap();
        for (address, prefix) in
            [("10.0.0.0", 8), ("10.79.0.0", 16), ("10.78.3.0", 24), ("10.79.255.1", 32), ("0.0.0.0", 0)]
        {
            assert!(subnets.overlaps(ip(address), prefix), "{address}/{prefix}");
        }
        for (address, prefix) in [("10.80.0.0", 16), ("192.168.0.0", 16), ("10.77.255.255", 32)] {
            assert!(!subnets.overlaps(ip(address), prefix), "{address}/{prefix}");
        }
    }

    #[test]
    fn candidates_are_disjoint() {
        let all: Vec<Subnets> = Subnets::candidates().collect();
        assert_eq!(all.len(), 32);
        for (i, one) in all.iter().enumerate() {
            for other in &all[..i] {
                assert!(!one.overlaps(other.own().0, 16) && !one.overlaps(other.peers().0, 16));
            }
            assert_eq!(Subnets::new(one.own().0, one.peers().0, 16), Ok(*one));
        }
    }
}
