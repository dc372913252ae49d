//! Packets of emulated links, and requests to the dashboard.

use samara_emulation::{Subnets, route, translate};

/// A packet is refused, or arrives from one host at another with its length and with the sum of its
/// words, so that checksums stay valid.
pub(crate) fn packet(bytes: &[u8]) {
    const HOSTS: u32 = 100;
    let Some(subnets) = Subnets::candidates().next() else { return };
    let Ok(found) = route(bytes, &subnets, HOSTS) else { return };
    assert!(found.from.max(found.to) < HOSTS);
    let mut packet = bytes.to_vec();
    translate(&mut packet, &subnets, found);
    assert_eq!(packet.len(), bytes.len());
    assert_eq!(packet[12..16], subnets.dial_address(found.to, found.from).octets());
    assert_eq!(packet[16..20], subnets.bind_address(found.to).octets());
    // Sums of one's complement are remainders.
    let sum = |packet: &[u8]| {
        let words =
            packet.chunks(2).map(|pair| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0)));
        words.sum::<u64>() % 0xffff
    };
    assert_eq!(sum(&packet), sum(bytes));
}

/// IPv4 packets of host 1 to host 2: UDP, and an ICMP error that quotes one.
pub(crate) fn packet_seeds() -> Vec<Vec<u8>> {
    let packet = |protocol: u8, source: [u8; 4], destination: [u8; 4], body: &[u8]| {
        let len = (20 + body.len()) as u8;
        let head = [0x45, 0, 0, len, 0x12, 0x34, 0x40, 0, 64, protocol, 0, 0];
        [&head[..], &source, &destination, body].concat()
    };
    let udp = [&[0x0f, 0xa1, 0x0f, 0xa1, 0, 12, 0, 0][..], b"data"].concat();
    let sent = packet(17, [10, 78, 254, 1], [10, 79, 1, 2], &udp);
    let arrived = packet(17, [10, 79, 2, 1], [10, 78, 253, 2], &udp);
    let error = [&[3, 3, 0, 0, 0, 0, 0, 0][..], &arrived].concat();
    vec![sent, packet(1, [10, 78, 253, 2], [10, 79, 2, 1], &error)]
}

// ---- the dashboard ----

pub(crate) fn dashboard_request_seeds() -> Vec<Vec<u8>> {
    let page =
        "GET /v1/events?run=first%20run HTTP/1.1\r\nHost: localhost:7000\r\nLast-Event-ID: 1-2@first\r\n\r\n";
    let login = "POST /login HTTP/1.1\r\nHost: 10.0.0.1\r\nCookie: a=b\r\nContent-Length: 9\r\n\r\ntoken=a+b";
    [page, login].map(|text| text.as_bytes().to_vec()).into()
}
