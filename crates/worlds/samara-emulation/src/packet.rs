//! The parts of an IPv4 packet that the relay reads and changes.

use crate::subnets::Subnets;

/// The IPv4 header without options (RFC 791, section 3.1).
const HEADER: usize = 20;

/// Protocol numbers (IANA).
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// ICMP messages that quote the packet that caused them: destination unreachable, time exceeded,
/// parameter problem (RFC 792).
const ICMP_ERRORS: [u8; 3] = [3, 11, 12];

/// The quoted packet begins after type, code, checksum and four more bytes (RFC 792).
const ICMP_HEADER: usize = 8;

/// The sender and the receiver of a packet, and its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    pub from: u32,
    pub to: u32,
    pub flow: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Not IPv4. The kernel itself sends a few IPv6 packets to a new device.
    NotIpv4,
    /// The lengths are inconsistent.
    Malformed,
    /// The source is the address of no host, or the source host sees no host at the destination.
    UnknownHost { source: u32, destination: u32 },
}

/// Reads the route of a packet sent by a host: from its own address to one at which it sees
/// another.
pub fn route(packet: &[u8], subnets: &Subnets, hosts: u32) -> Result<Route, Refused> {
    match packet.first() {
        None => return Err(Refused::Malformed),
        Some(first) if first >> 4 != 4 => return Err(Refused::NotIpv4),
        Some(_) => (),
    }
    let header = header_len(packet).ok_or(Refused::Malformed)?;
    let total = usize::from(u16_at(packet, 2));
    if total < header || total > packet.len() {
        return Err(Refused::Malformed);
    }
    let (source, destination) = (u32_at(packet, 12), u32_at(packet, 16));
    let pair = subnets.pair(source, destination).filter(|(from, to)| *from.max(to) < hosts);
    let Some((from, to)) = pair else {
        return Err(Refused::UnknownHost { source, destination });
    };
    Ok(Route { from, to, flow: flow(packet, header, to) })
}

/// Packs receiver, protocol and ports. The sender is implied. Different flows have different keys.
fn flow(packet: &[u8], header: usize, to: u32) -> u64 {
    let protocol = packet[9];
    // Only the first fragment of a datagram has ports, and all fragments must be one flow.
    let fragment = u16_at(packet, 6) & 0x3fff != 0;
    let has_ports = matches!(protocol, TCP | UDP) && !fragment && packet.len() >= header + 4;
    let ports = if has_ports { u32_at(packet, header) } else { 0 };
    u64::from(to) << 40 | u64::from(protocol) << 32 | u64::from(ports)
}

/// Rewrites a packet for the receiver: from the address at which it sees the sender, to its own.
/// `route` is the result of [`route`].
pub fn translate(packet: &mut [u8], subnets: &Subnets, route: Route) {
    let Route { from, to, .. } = route;
    set_addresses(packet, subnets.dial_address(to, from).to_bits(), subnets.bind_address(to).to_bits());
    // An error quotes a packet as its receiver saw it. Its sender, the receiver of the error, knows
    // the original.
    let Some(header) = header_len(packet) else { return };
    let whole = u16_at(packet, 6) & 0x1fff == 0;
    if packet[9] != ICMP || !whole || !packet.get(header).is_some_and(|kind| ICMP_ERRORS.contains(kind)) {
        return;
    }
    let Some(quoted) = packet.get_mut(header + ICMP_HEADER..) else { return };
    let arrived = (subnets.dial_address(from, to).to_bits(), subnets.bind_address(from).to_bits());
    if quoted.len() >= HEADER && (u32_at(quoted, 12), u32_at(quoted, 16)) == arrived {
        set_addresses(quoted, subnets.bind_address(to).to_bits(), subnets.dial_address(to, from).to_bits());
    }
}

fn set_addresses(packet: &mut [u8], source: u32, destination: u32) {
    packet[12..16].copy_from_slice(&source.to_be_bytes());
    packet[16..20].copy_from_slice(&destination.to_be_bytes());
}

/// Returns the length of the IPv4 header, if the header is complete.
fn header_len(packet: &[u8]) -> Option<usize> {
    let header = usize::from(packet.first()? & 0xf) * 4;
    if header >= HEADER && packet.len() >= header { Some(header) } else { None }
}

fn u16_at(packet: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([packet[at], packet[at + 1]])
}

fn u32_at(packet: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn subnets(own: [u8; 2], peers: [u8; 2]) -> Subnets {
        Subnets::new([own[0], own[1], 0, 0].into(), [peers[0], peers[1], 0, 0].into()).unwrap()
    }

    fn default_subnets() -> Subnets {
        subnets([10, 78], [10, 79])
    }

    /// The internet checksum (RFC 1071) over some bytes and a start value.
    fn checksum(bytes: &[u8], start: u32) -> u16 {
        let mut sum = start;
        for pair in bytes.chunks(2) {
            sum += u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
        }
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    /// The sum of the pseudo header of TCP and UDP.
    fn pseudo(packet: &[u8]) -> u32 {
        let words = packet[12..20].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
        words.sum::<u32>() + u32::from(packet[9]) + (packet.len() - HEADER) as u32
    }

    /// An IPv4 packet with valid checksums.
    fn packet(subnets: &Subnets, from: u32, to: u32, protocol: u8, body: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 0, 0x12, 0x34, 0x40, 0, 64, protocol, 0, 0];
        packet.extend(subnets.bind_address(from).octets());
        packet.extend(subnets.dial_address(from, to).octets());
        packet.extend(body);
        let total = packet.len() as u16;
        packet[2..4].copy_from_slice(&total.to_be_bytes());
        let header = checksum(&packet[..HEADER], 0);
        packet[10..12].copy_from_slice(&header.to_be_bytes());
        let (at, start) = match protocol {
            TCP => (HEADER + 16, pseudo(&packet)),
            UDP => (HEADER + 6, pseudo(&packet)),
            _ => (HEADER + 2, 0),
        };
        packet[at..at + 2].copy_from_slice(&[0, 0]);
        let body = checksum(&packet[HEADER..], start);
        packet[at..at + 2].copy_from_slice(&body.to_be_bytes());
        packet
    }

    fn checksums_hold(packet: &[u8]) -> bool {
        let start = if packet[9] == ICMP { 0 } else { pseudo(packet) };
        checksum(&packet[..HEADER], 0) == 0 && checksum(&packet[HEADER..], start) == 0
    }

    proptest! {
        #[test]
        fn checksums_stay_valid(
            (from, to) in (0..254u32, 0..254u32),
            own in any::<[u8; 2]>(),
            peers in any::<[u8; 2]>(),
            protocol in prop_oneof![Just(TCP), Just(UDP), Just(ICMP)],
            body in prop::collection::vec(any::<u8>(), 20..1480),
        ) {
            prop_assume!(own != peers);
            let subnets = subnets(own, peers);
            let mut packet = packet(&subnets, from, to, protocol, &body);
            prop_assert!(checksums_hold(&packet));
            let found = route(&packet, &subnets, u32::MAX).unwrap();
            prop_assert_eq!((found.from, found.to), (from, to));
            translate(&mut packet, &subnets, found);
            prop_assert!(checksums_hold(&packet));
            prop_assert_eq!(u32_at(&packet, 12), subnets.dial_address(to, from).to_bits());
            prop_assert_eq!(u32_at(&packet, 16), subnets.bind_address(to).to_bits());
        }

        #[test]
        fn arbitrary_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), ipv4 in any::<bool>(), addressed in any::<bool>()) {
            let subnets = default_subnets();
            if ipv4 && !bytes.is_empty() {
                bytes[0] = 0x45 + (bytes[0] & 3);
            }
            if addressed && bytes.len() >= HEADER {
                set_addresses(&mut bytes, subnets.bind_address(3).to_bits(), subnets.dial_address(3, 4).to_bits());
            }
            if let Ok(found) = route(&bytes, &subnets, 100) {
                translate(&mut bytes, &subnets, found);
            }
        }

        #[test]
        fn damaged_packets_never_panic(
            body in prop::collection::vec(any::<u8>(), 20..60),
            protocol in prop_oneof![Just(TCP), Just(UDP), Just(ICMP)],
            cut in 0..80usize,
            (at, value) in (prop_oneof![0..12usize, 20..80usize], any::<u8>()),
        ) {
            let subnets = default_subnets();
            let mut packet = packet(&subnets, 3, 4, protocol, &body);
            let last = packet.len() - 1;
            packet[at.min(last)] = value;
            packet.truncate(cut.max(1));
            match route(&packet, &subnets, 100) {
                Ok(found) => {
                    prop_assert_eq!((found.from, found.to), (3, 4));
                    translate(&mut packet, &subnets, found);
                }
                Err(refused) => {
                    let unknown = matches!(refused, Refused::UnknownHost { .. });
                    prop_assert!(!unknown);
                }
            }
        }
    }

    #[test]
    fn packets_of_no_host_are_refused() {
        let subnets = default_subnets();
        let good = packet(&subnets, 3, 4, UDP, &[0; 20]);
        assert!(route(&good, &subnets, 5).is_ok());
        assert!(matches!(route(&good, &subnets, 4), Err(Refused::UnknownHost { .. })));
        assert_eq!(route(&[], &subnets, 5), Err(Refused::Malformed));
        assert_eq!(route(&good[..19], &subnets, 5), Err(Refused::Malformed));
        assert_eq!(route(&good[..39], &subnets, 5), Err(Refused::Malformed));
        let mut ipv6 = good.clone();
        ipv6[0] = 0x60;
        assert_eq!(route(&ipv6, &subnets, 5), Err(Refused::NotIpv4));
        let mut foreign = good;
        foreign[12..16].copy_from_slice(&[192, 0, 2, 1]);
        let refused = Refused::UnknownHost { source: 0xc000_0201, destination: 0x0a4f_0405 };
        assert_eq!(route(&foreign, &subnets, 5), Err(refused));
    }

    #[test]
    fn flows_differ_by_receiver_protocol_and_ports() {
        let subnets = default_subnets();
        let flow = |to, protocol, ports: [u8; 4]| {
            let mut body = vec![0; 20];
            body[..4].copy_from_slice(&ports);
            route(&packet(&subnets, 0, to, protocol, &body), &subnets, 10).unwrap().flow
        };
        let all = [
            flow(1, TCP, [1, 2, 3, 4]),
            flow(2, TCP, [1, 2, 3, 4]),
            flow(1, UDP, [1, 2, 3, 4]),
            flow(1, TCP, [1, 3, 3, 4]),
            flow(1, TCP, [1, 2, 3, 5]),
        ];
        assert!((0..5).all(|i| (0..i).all(|j| all[i] != all[j])), "{all:x?}");
        assert_eq!(all[0], flow(1, TCP, [1, 2, 3, 4]));
        // All fragments of a datagram are one flow, whatever their first bytes are.
        let fragment = |offset: u16, byte| {
            let mut packet = packet(&subnets, 0, 1, UDP, &[byte; 20]);
            packet[6..8].copy_from_slice(&offset.to_be_bytes());
            route(&packet, &subnets, 10).unwrap().flow
        };
        assert_eq!(fragment(0x2000, 7), fragment(0x0003, 8));
    }

    #[test]
    fn a_quoted_packet_has_the_addresses_of_the_original() {
        let subnets = default_subnets();
        let mut sent = packet(&subnets, 3, 4, UDP, &[9; 20]);
        let original = sent.clone();
        let there = route(&sent, &subnets, 10).unwrap();
        translate(&mut sent, &subnets, there);
        assert_ne!(sent, original);
        // Host 4 answers that the port is unreachable, and quotes the packet that it received.
        let mut body = vec![3, 3, 0, 0, 0, 0, 0, 0];
        body.extend(&sent);
        let mut error = packet(&subnets, 4, 3, ICMP, &body);
        let back = route(&error, &subnets, 10).unwrap();
        translate(&mut error, &subnets, back);
        assert!(checksums_hold(&error));
        assert_eq!(error[HEADER + ICMP_HEADER..], original);
    }
}
