//! Bytes of links: of groups over TCP, of CometBFT's connections, of mixes and their gateways; and
//! packets of emulated links.

use samara_net::mix::proto;
use samara_net::{mconn, mix, ring};

use crate::wire;

pub(crate) use mconn::fuzzing::{
    frames as mconn_frames, handshake as mconn_handshake, node_info as mconn_info, packets as mconn_packets,
};
pub(crate) use mix::fuzzing::submissions as mix_submissions;
pub(crate) use mix::fuzzing::{announcements as mix_announcements, services as mix_services};
pub(crate) use ring::fuzzing::{handshake as ring_handshake, stream as ring_stream};

pub(crate) fn ring_stream_seeds() -> Vec<Vec<u8>> {
    let frames = wire::ring_seeds();
    let of_stranger = |frame: &Vec<u8>| [&(frame.len() as u32).to_le_bytes()[..], frame].concat();
    let of_member = |frame: &Vec<u8>| [&(frame.len() as u16).to_le_bytes()[..], frame].concat();
    let open = [&[0, 30][..], &frames.iter().flat_map(of_stranger).collect::<Vec<u8>>()].concat();
    let sealed = |kind: u8, change: u8| {
        let head = [kind, 100, 200, 0, change];
        [&head[..], &frames.iter().flat_map(of_member).collect::<Vec<u8>>()].concat()
    };
    vec![open, sealed(1, 0), sealed(1, 1), sealed(2, 0), sealed(2, 1)]
}

pub(crate) fn ring_handshake_seeds() -> Vec<Vec<u8>> {
    // A protection, nonce, instance, and names, as a stranger would send them to a member.
    let name = b"127.0.0.1:7002";
    let hello = [&[0][..], b"samring\x02\x02", &[1; 32], &[2; 16], &[name.len() as u8], name].concat();
    let answer = [&[1][..], &[1; 32], &[2; 16], b"\x05terms", &[3; 32]].concat();
    // Members with the expected texts, and with others.
    let texts = [&[2, 1, 1, name.len() as u8][..], name, &[0, 0]].concat();
    let others = [&[2, 1, 1, 9][..], b"[::1]:700", &[0, 4], b"term"].concat();
    let changed = |way| vec![4, 60, 0, way, 1];
    vec![
        hello,
        answer,
        vec![2],
        texts,
        others,
        vec![3],
        vec![3, 1, 1, 2, 65, 66],
        vec![4; 5],
        changed(0),
        changed(1),
    ]
}

/// An ephemeral key, of low order and not, and a sealed frame.
pub(crate) fn mconn_handshake_seeds() -> Vec<Vec<u8>> {
    [0, 9].map(|key| [&[0x22, 0x0a, 0x20][..], &[key; 32], &[7; 1_044]].concat()).to_vec()
}

pub(crate) fn mconn_packets_seeds() -> Vec<Vec<u8>> {
    vec![mconn::fuzzing::packets_seed()]
}

pub(crate) fn mconn_frames_seeds() -> Vec<Vec<u8>> {
    let plain = [6; 1_500];
    [0, 1].map(|change| [&[0x10, 0x04, change][..], &plain].concat()).to_vec()
}

pub(crate) fn mconn_info_seeds() -> Vec<Vec<u8>> {
    vec![mconn::fuzzing::node_info_seed()]
}

pub(crate) fn mix_announcements_seeds() -> Vec<Vec<u8>> {
    vec![mix::fuzzing::announcements_seed()]
}

pub(crate) fn mix_submissions_seeds() -> Vec<Vec<u8>> {
    vec![mix::fuzzing::submissions_seed()]
}

pub(crate) fn mix_services_seeds() -> Vec<Vec<u8>> {
    use prost::Message;
    let bytes = || bytes::Bytes::from_static(&[5; 32]);
    let slot = proto::SealedSlot { elements: vec![1; 64], credentials: vec![2; 128] };
    let out = proto::OutSlot { kind: 1, content: bytes() };
    let messages = [
        proto::Ack {}.encode_to_vec(),
        proto::LinkRequest { link: 7 }.encode_to_vec(),
        proto::RegisterRequest { public: bytes() }.encode_to_vec(),
        proto::RegisterReply { public: bytes(), node: 1, group: "model".to_owned() }.encode_to_vec(),
        proto::OpenRounds {
            rounds: vec![proto::OpenRound { round: 7, team: vec![0, 300], room: 3, batch: 8 }],
        }
        .encode_to_vec(),
        proto::SubmitRequest { round: 7, slots: vec![slot] }.encode_to_vec(),
        proto::SubmitReply { room: 9 }.encode_to_vec(),
        proto::ResultRequest { round: 7 }.encode_to_vec(),
        proto::ResultPart { cause: "cause".to_owned(), culprit: 2, slots: vec![out] }.encode_to_vec(),
    ];
    (0..).zip(messages).map(|(kind, message): (u8, _)| [&[kind][..], &message].concat()).collect()
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
