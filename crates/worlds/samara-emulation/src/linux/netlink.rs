//! Devices and routes, by rtnetlink (RFC 3549; Linux, `rtnetlink(7)`).

use std::io;
use std::net::Ipv4Addr;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

/// The routing table of local addresses (Linux, `include/uapi/linux/rtnetlink.h`).
const RT_TABLE_LOCAL: u8 = 255;

/// The header of every message: length, type, flags, sequence number, port (RFC 3549, section
/// 2.3.2).
const HEADER: usize = 16;

pub(crate) struct Netlink {
    socket: Socket,
    sequence: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Destination {
    pub(crate) address: Ipv4Addr,
    pub(crate) prefix: u8,
}

/// The treatment of packets to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Treatment {
    /// Packets are for this machine. Sockets can be bound to all addresses of the destination.
    Local,
    /// Packets leave through the device, with this source address unless the socket is bound to
    /// another one.
    Device { source: Ipv4Addr },
}

impl Netlink {
    pub(crate) fn new() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Switches a device on. Other values stay unchanged where the argument is `None`.
    pub(crate) fn bring_up(
        &mut self,
        index: u32,
        mtu: Option<u32>,
        queue_packets: Option<u32>,
    ) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
        message.attributes.extend(mtu.map(LinkAttribute::Mtu));
        message.attributes.extend(queue_packets.map(LinkAttribute::TxQueueLen));
        self.request(RouteNetlinkMessage::SetLink(message), NLM_F_ACK).map(drop)
    }

    /// Adds a route. Fails with `AlreadyExists` if any device has one to the same destination.
    pub(crate) fn add_route(&mut self, index: u32, to: Destination, treatment: Treatment) -> io::Result<()> {
        let message = RouteNetlinkMessage::NewRoute(route(index, to, treatment));
        self.request(message, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL).map(drop)
    }

    pub(crate) fn destinations(&mut self) -> io::Result<Vec<Destination>> {
        let mut message = RouteMessage::default();
        message.header.address_family = AddressFamily::Inet;
        let answers = self.request(RouteNetlinkMessage::GetRoute(message), NLM_F_DUMP)?;
        let routes = answers.into_iter().filter_map(|answer| match answer {
            RouteNetlinkMessage::NewRoute(route) => Some(route),
            _ => None,
        });
        let destinations = routes.map(|route| {
            let address = route.attributes.iter().find_map(|attribute| match attribute {
                RouteAttribute::Destination(RouteAddress::Inet(address)) => Some(*address),
                _ => None,
            });
            Destination {
                address: address.unwrap_or(Ipv4Addr::UNSPECIFIED),
                prefix: route.header.destination_prefix_length,
            }
        });
        Ok(destinations.collect())
    }

    /// Returns the packets that the device has dropped because its queue was full.
    pub(crate) fn queue_drops(&mut self, index: u32) -> io::Result<u64> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        let answers = self.request(RouteNetlinkMessage::GetLink(message), NLM_F_ACK)?;
        let drops = answers.into_iter().find_map(|answer| match answer {
            RouteNetlinkMessage::NewLink(link) => {
                link.attributes.iter().find_map(|attribute| match attribute {
                    LinkAttribute::Stats64(stats) => Some(stats.tx_dropped),
                    _ => None,
                })
            }
            _ => None,
        });
        drops.ok_or_else(|| io::Error::other("the kernel sent no statistics of the device"))
    }

    /// Sends a request and returns its answers.
    pub(super) fn request(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.sequence += 1;
        let mut packet = NetlinkMessage::new(NetlinkHeader::default(), NetlinkPayload::from(message));
        packet.header.flags = NLM_F_REQUEST | flags;
        packet.header.sequence_number = self.sequence;
        packet.finalize();
        let mut bytes = vec![0; packet.buffer_len()];
        packet.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        let mut answers = Vec::new();
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            if read_answers(&bytes, self.sequence, &mut answers)? {
                return Ok(answers);
            }
        }
    }
}

fn route(index: u32, to: Destination, treatment: Treatment) -> RouteMessage {
    let (table, scope, kind) = match treatment {
        Treatment::Local => (RT_TABLE_LOCAL, RouteScope::Host, RouteType::Local),
        Treatment::Device { .. } => (RouteHeader::RT_TABLE_MAIN, RouteScope::Link, RouteType::Unicast),
    };
    let mut message = RouteMessage::default();
    message.header.address_family = AddressFamily::Inet;
    message.header.destination_prefix_length = to.prefix;
    message.header.table = table;
    message.header.protocol = RouteProtocol::Static;
    message.header.scope = scope;
    message.header.kind = kind;
    message.attributes.push(RouteAttribute::Destination(RouteAddress::Inet(to.address)));
    message.attributes.push(RouteAttribute::Oif(index));
    if let Treatment::Device { source } = treatment {
        message.attributes.push(RouteAttribute::PrefSource(RouteAddress::Inet(source)));
    }
    message
}

/// Reads the messages of a datagram. Returns true if the answer to the request is complete.
///
/// Skips messages that cannot be decoded: machines have routes of kinds unknown to the decoder, and
/// none of those is an IPv4 destination.
fn read_answers(mut bytes: &[u8], sequence: u32, answers: &mut Vec<RouteNetlinkMessage>) -> io::Result<bool> {
    while bytes.len() >= HEADER {
        let length = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
        if length < HEADER || length > bytes.len() {
            return Err(io::Error::other("the kernel's answer has a wrong length"));
        }
        if let Ok(message) = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&bytes[..length])
            && message.header.sequence_number == sequence
        {
            match message.payload {
                NetlinkPayload::Done(_) => return Ok(true),
                NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
                NetlinkPayload::Error(_) => return Ok(true),
                NetlinkPayload::InnerMessage(inner) => answers.push(inner),
                _ => (),
            }
        }
        // Messages begin at multiples of four bytes.
        bytes = &bytes[length.next_multiple_of(4).min(bytes.len())..];
    }
    Ok(false)
}
