//! The two subnets of a relay: addresses of hosts, and addresses at which hosts see each other.

use std::net::Ipv4Addr;

use thiserror::Error;

/// Both subnets have 16 bits for hosts: one byte for each of a pair.
const PREFIX: u8 = 16;

/// The view that a host has of the others: one byte for the other host.
const VIEW_PREFIX: u8 = 24;

/// Maximum number of hosts: the values of a byte without 0 and 255, which end network and broadcast
/// addresses.
pub const MAX_ADDRESSES: usize = 254;

/// Two subnets with prefixes of 16 bits. With *n* the number of a host, counted from 1:
///
/// - host *n* has the address `own.(255 - n).n`, its sockets are bound to it;
/// - host *n* sees host *m* at `peers.n.m`, and dials it there.
///
/// Each host has its own view of the others (`peers.n.0/24`), so that the route to a destination
/// determines the source address: a program that does not bind its socket before it dials, or binds
/// it to a port only, still dials from the address of its host.
///
/// A packet from `own.(255 - n).n` to `peers.n.m` arrives as one from `peers.m.n` to `own.(255 -
/// m).m`. In both cases the sum of the 16-bit words of the addresses is `own + peers + 255 * 256 +
/// n + m`, so that checksums (IPv4, TCP, UDP, ICMP) stay valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnets {
    own: u32,
    peers: u32,
}

/// A pair of subnets that a relay cannot use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SubnetsError {
    /// An address has bits outside of its prefix.
    #[error("subnets: {address}/{PREFIX} has bits beyond its prefix; expected {expected}/{PREFIX}")]
    Alignment { address: Ipv4Addr, expected: Ipv4Addr },
    #[error("subnets: own and peers are both {address}/{PREFIX}, expected two different ones")]
    Same { address: Ipv4Addr },
}

impl Subnets {
    /// Creates subnets that begin with these addresses, with prefixes of 16 bits.
    ///
    /// # Errors
    /// An address is not the first one of its subnet, or both are the same.
    pub fn new(own: Ipv4Addr, peers: Ipv4Addr) -> Result<Self, SubnetsError> {
        for address in [own, peers] {
            let [a, b, _, _] = address.octets();
            let expected = Ipv4Addr::new(a, b, 0, 0);
            if address != expected {
                return Err(SubnetsError::Alignment { address, expected });
            }
        }
        if own == peers {
            return Err(SubnetsError::Same { address: own });
        }
        Ok(Self { own: own.to_bits(), peers: peers.to_bits() })
    }

    /// Pairs in the private block 10.0.0.0/8 to try in turn if the configuration has none: 10.78
    /// and 10.79, 10.80 and 10.81, to 10.140 and 10.141. Kubernetes, Docker and VPNs prefer the
    /// beginning of the block, 10.96, 10.244 and 172.16.0.0/12. A relay skips pairs in use.
    pub fn candidates() -> impl Iterator<Item = Self> {
        (78..141u8).step_by(2).map(|second| Self {
            own: Ipv4Addr::new(10, second, 0, 0).to_bits(),
            peers: Ipv4Addr::new(10, second + 1, 0, 0).to_bits(),
        })
    }

    /// The first address of the subnet of the hosts' own addresses, and the length of its prefix.
    pub fn own(&self) -> (Ipv4Addr, u8) {
        (Ipv4Addr::from_bits(self.own), PREFIX)
    }

    /// The first address of the subnet in which hosts see each other, and the length of its prefix.
    pub fn peers(&self) -> (Ipv4Addr, u8) {
        (Ipv4Addr::from_bits(self.peers), PREFIX)
    }

    /// The part of [`peers`](Self::peers) in which a host sees the others, and the length of its
    /// prefix.
    ///
    /// # Panics
    /// The host's number is not below [`MAX_ADDRESSES`].
    pub fn view(&self, host: u32) -> (Ipv4Addr, u8) {
        (Ipv4Addr::from_bits(self.peers | number(host) << 8), VIEW_PREFIX)
    }

    /// Returns the own address of a host.
    ///
    /// # Panics
    /// The host's number is not below [`MAX_ADDRESSES`].
    pub fn bind_address(&self, host: u32) -> Ipv4Addr {
        let n = number(host);
        Ipv4Addr::from_bits(self.own | (255 - n) << 8 | n)
    }

    /// Returns the address at which host `from` sees and dials host `to`.
    ///
    /// # Panics
    /// A host's number is not below [`MAX_ADDRESSES`].
    pub fn dial_address(&self, from: u32, to: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.peers | number(from) << 8 | number(to))
    }

    /// Returns the sender and the receiver of a packet with these addresses, if they form a valid
    /// pair.
    pub(crate) fn pair(&self, source: u32, destination: u32) -> Option<(u32, u32)> {
        let from = (source & 0xff).checked_sub(1)?;
        let to = (destination & 0xff).checked_sub(1)?;
        let hosts = from.max(to) < MAX_ADDRESSES as u32;
        let sent = hosts
            && self.bind_address(from).to_bits() == source
            && self.dial_address(from, to).to_bits() == destination;
        if sent { Some((from, to)) } else { None }
    }

    /// Returns true if one of the subnets has an address in common with this one.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only the relay adds routes"))]
    pub(crate) fn overlaps(&self, address: Ipv4Addr, prefix: u8) -> bool {
        let common = !u32::MAX.checked_shr(prefix.min(PREFIX).into()).unwrap_or(0);
        [self.own, self.peers].iter().any(|subnet| (subnet ^ address.to_bits()) & common == 0)
    }
}

/// Returns the number of a host in addresses, counted from 1.
fn number(host: u32) -> u32 {
    assert!((host as usize) < MAX_ADDRESSES, "host {host} has no address, there are {MAX_ADDRESSES}");
    host + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> Ipv4Addr {
        text.parse().unwrap()
    }

    fn subnets() -> Subnets {
        Subnets::new(ip("10.78.0.0"), ip("10.79.0.0")).unwrap()
    }

    #[test]
    fn addresses_match_the_documentation() {
        assert_eq!(subnets().bind_address(0), ip("10.78.254.1"));
        assert_eq!(subnets().bind_address(253), ip("10.78.1.254"));
        assert_eq!(subnets().dial_address(0, 253), ip("10.79.1.254"));
        assert_eq!(subnets().view(1), (ip("10.79.2.0"), 24));
    }

    #[test]
    fn exactly_the_valid_pairs_are_recognised() {
        let subnets = subnets();
        for (from, to) in (0..254).flat_map(|from| (0..254).map(move |to| (from, to))) {
            let source = subnets.bind_address(from).to_bits();
            let destination = subnets.dial_address(from, to).to_bits();
            assert_eq!(subnets.pair(source, destination), Some((from, to)));
            // This host must not use the address that another host would dial.
            let foreign = subnets.dial_address((from + 1) % 254, to).to_bits();
            assert_eq!(subnets.pair(source, foreign), None);
        }
        let (own, seen) = (ip("10.78.254.1").to_bits(), ip("10.79.1.2").to_bits());
        for (source, destination) in
            [(own + 1, seen), (own, seen - 2), (own, seen + 253), (own - 1, seen), (seen, own), (own, own)]
        {
            assert_eq!(subnets.pair(source, destination), None, "{source:x} {destination:x}");
        }
    }

    #[test]
    fn unusable_subnets_are_refused() {
        let error = |own, peers| Subnets::new(ip(own), ip(peers)).unwrap_err().to_string();
        assert!(error("10.1.0.0", "10.2.0.1").contains("expected 10.2.0.0/16"));
        assert!(error("10.1.0.0", "10.1.0.0").contains("two different"));
    }

    #[test]
    fn overlaps_are_detected_in_both_directions() {
        for (address, prefix) in
            [("10.0.0.0", 8), ("10.79.0.0", 16), ("10.78.3.0", 24), ("10.79.255.1", 32), ("0.0.0.0", 0)]
        {
            assert!(subnets().overlaps(ip(address), prefix), "{address}/{prefix}");
        }
        for (address, prefix) in [("10.80.0.0", 16), ("192.168.0.0", 16), ("10.77.255.255", 32)] {
            assert!(!subnets().overlaps(ip(address), prefix), "{address}/{prefix}");
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
            assert_eq!(Subnets::new(one.own().0, one.peers().0), Ok(*one));
        }
    }
}
