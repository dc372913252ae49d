//! The interfaces of hosts: queues of the kernel before the device, one for each host at the rate of
//! its uplink (HTB, `tc-htb(8)`).
//!
//! The device takes packets off the account of their sockets. Before it, they are still on it: TCP
//! keeps all but a few packets of each connection in its socket (small queues,
//! `Documentation/networking/ip-sysctl.rst`, `tcp_limit_output_bytes`), as before a real interface.

use std::io;
use std::net::Ipv4Addr;

use netlink_packet_core::{DefaultNla, NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::netlink::Netlink;

/// The root of the queues.
const ROOT: u16 = 1;

/// Bytes that an idle interface passes at once: one packet.
const BURST_BYTES: u64 = 1_500;

// Attributes (Linux, `include/uapi/linux/rtnetlink.h`, `pkt_sched.h`, `pkt_cls.h`).
const TCA_OPTIONS: u16 = 2;
const TCA_HTB_PARMS: u16 = 1;
const TCA_HTB_INIT: u16 = 2;
const TCA_U32_CLASSID: u16 = 1;
const TCA_U32_SEL: u16 = 5;

fn message(index: u32, (parent, handle): (TcHandle, TcHandle), kind: &str, options: Vec<u8>) -> TcMessage {
    let mut message = TcMessage::with_index(index as i32);
    (message.header.parent, message.header.handle) = (parent, handle);
    message.attributes.push(TcAttribute::Kind(kind.to_owned()));
    message.attributes.push(TcAttribute::Other(DefaultNla::new(TCA_OPTIONS, options)));
    message
}

const ROOT_HANDLE: TcHandle = TcHandle { major: ROOT, minor: 0 };

/// Returns the queue of a host. Classes have the numbers of hosts, counted from 1.
fn class(index: u32, host: u16, rate_bps: u64) -> RouteNetlinkMessage {
    let handle = TcHandle { major: ROOT, minor: host + 1 };
    let options = attribute(TCA_HTB_PARMS, &parameters(rate_bps));
    RouteNetlinkMessage::NewTrafficClass(message(index, (ROOT_HANDLE, handle), "htb", options))
}

/// Changes the rate of a host's interface.
pub(super) fn change(netlink: &mut Netlink, index: u32, host: u32, rate_bps: u64) -> io::Result<()> {
    netlink.request(class(index, host as u16, rate_bps), NLM_F_ACK).map(drop)
}

/// Adds the interfaces of hosts with these source addresses and rates.
pub(super) fn add(netlink: &mut Netlink, index: u32, hosts: &[(Ipv4Addr, u64)]) -> io::Result<()> {
    let flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
    let options = attribute(TCA_HTB_INIT, &init());
    let queues = message(index, (TcHandle::ROOT, ROOT_HANDLE), "htb", options);
    netlink.request(RouteNetlinkMessage::NewQueueDiscipline(queues), flags)?;
    for (host, (source, rate_bps)) in (0..).zip(hosts) {
        netlink.request(class(index, host, *rate_bps), flags)?;
        let handle = TcHandle { major: ROOT, minor: host + 1 };
        let mut options = attribute(TCA_U32_CLASSID, &u32::from(handle).to_ne_bytes());
        options.extend(attribute(TCA_U32_SEL, &selector(*source)));
        let mut filter = message(index, (ROOT_HANDLE, TcHandle::UNSPEC), "u32", options);
        filter.header.family = AddressFamily::Unspec;
        // Priority 1, and the protocol in the order of the network: IPv4.
        filter.header.info = 1 << 16 | u32::from(0x0800_u16.to_be());
        netlink.request(RouteNetlinkMessage::NewTrafficFilter(filter), flags)?;
    }
    Ok(())
}

/// Encodes an attribute: length, type, value, padding to four bytes.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = (value.len() as u16 + 4).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// `struct tc_htb_glob`: packets of no class pass without a limit.
fn init() -> Vec<u8> {
    let (version, rate_to_quantum, default_class, debug, direct_packets) =
        (3_u32, 10_u32, 0_u32, 0_u32, 0_u32);
    words(&[version, rate_to_quantum, default_class, debug, direct_packets])
}

/// `struct tc_htb_opt`: the class sends at this rate and borrows nothing.
fn parameters(rate_bps: u64) -> Vec<u8> {
    let bytes_per_second = u32::try_from(rate_bps / 8).unwrap_or(u32::MAX);
    // `struct tc_ratespec`: the second byte says that lengths are those of packets
    // (TC_LINKLAYER_ETHERNET), so that the kernel needs no table of times.
    let mut rate = vec![0, 1, 0, 0, 0, 0, 0, 0];
    rate.extend(bytes_per_second.to_ne_bytes());
    // In units of 64 ns (PSCHED_SHIFT).
    let burst = (BURST_BYTES * 1_000_000_000 / u64::from(bytes_per_second)) >> 6;
    let (quantum, level, priority) = (1_500, 0, 0);
    let mut bytes = [rate.clone(), rate].concat();
    bytes.extend(words(&[burst as u32, burst as u32, quantum, level, priority]));
    bytes
}

/// `struct tc_u32_sel` with one key: packets from this address.
fn selector(source: Ipv4Addr) -> Vec<u8> {
    let (terminal, keys) = (1, 1);
    let mut bytes = vec![terminal, 0, keys, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend(u32::MAX.to_be_bytes());
    bytes.extend(source.octets());
    // The offset of the source address in the header of IPv4.
    bytes.extend(words(&[12, 0]));
    bytes
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_sizes_of_the_kernel() {
        assert_eq!((init().len(), parameters(20_000_000).len()), (20, 44));
        assert_eq!(selector(Ipv4Addr::LOCALHOST).len(), 32);
        assert_eq!(attribute(7, &[1]).len(), 8);
        // 1,500 bytes at 20 Mbit/s take 600 us.
        assert_eq!(parameters(20_000_000)[24..28], 9_375_u32.to_ne_bytes());
    }
}
