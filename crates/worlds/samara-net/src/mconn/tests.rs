//! Tests of the parts of a connection.

use std::time::{Duration, Instant};

use bytes::Bytes;
use samara_cat::config::Preset;

use super::identity::{Broken, NodeKey, PeerAddress};
use super::layer::Peers;
use super::node::{Channel, Flush, Options};
use super::packets::{Incoming, PACKET_MAX, Packet, Receiving, Sending, read_length};
use super::secret::{SEALED, Secret, pair};
use super::{CatCodec, Incompatible, NodeInfo, Versions};

fn channels() -> Vec<Channel> {
    let channel =
        |id, priority| Channel { id, priority, queue: 1000, lanes: Vec::new(), longest_message: 100_000 };
    vec![channel(0x30, 6), channel(0x31, 3)]
}

/// Moves everything that can leave now to the other end.
fn carry(
    sending: &mut Sending,
    from: &mut Secret,
    receiving: &mut Receiving,
    to: &mut Secret,
) -> Vec<Incoming> {
    let mut came = Vec::new();
    loop {
        sending.work(from, Instant::now()).unwrap();
        // The pieces do not match the borders of frames.
        let piece = sending.unsent()[..sending.unsent().len().min(700)].to_vec();
        if piece.is_empty() {
            return came;
        }
        sending.wrote(piece.len());
        let mut rest = &piece[..];
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(receiving.wants()));
            receiving.read(now);
            rest = later;
            while let Some(incoming) = receiving.next(to).unwrap() {
                came.push(incoming);
            }
        }
    }
}

/// The expected bytes were written by gogoproto: `Packet { PacketPing }`, and `Packet { PacketMsg {
/// 0x30, true, "hi" } }`.
#[test]
fn packets_match_cometbft() {
    let bytes = |packet: &Packet| {
        let mut bytes = Vec::new();
        assert_eq!(packet.append(&mut bytes), bytes.len());
        bytes
    };
    assert_eq!(bytes(&Packet::PING), [2, 0x0a, 0]);
    assert_eq!(bytes(&Packet::PONG), [2, 0x12, 0]);
    let piece = Packet::piece(0x30, true, Bytes::from_static(b"hi"));
    assert_eq!(bytes(&piece), [10, 0x1a, 8, 0x08, 0x30, 0x10, 1, 0x1a, 2, b'h', b'i']);
    let piece = Packet::piece(0x31, false, Bytes::from(vec![0; 1024]));
    assert_eq!(bytes(&piece).len(), 2 + 3 + 2 + 3 + 1024);
}

#[test]
fn rejects_invalid_lengths() {
    assert_eq!(read_length(&[], 10), Ok(None));
    assert_eq!(read_length(&[5], 10), Ok(Some((5, 1))));
    assert_eq!(read_length(&[0x80], 1000), Ok(None));
    assert_eq!(read_length(&[0x80, 1], 1000), Ok(Some((128, 2))));
    assert!(read_length(&[11], 10).is_err());
    assert!(read_length(&[0xff; 4], usize::MAX).is_err());
}

#[test]
fn messages_arrive_whole_and_progress_counts_every_byte() {
    let (mut dialled, mut accepted) = pair();
    let mut sending = Sending::new(&channels(), Flush::WhenIdle, Instant::now());
    let mut receiving = Receiving::new(&channels());
    let mut lengths = Vec::new();
    for len in [1, 2, 1023, 1024, 1025, 5000, 99_999] {
        for channel in 0..2 {
            sending.push(channel, channel, vec![channel as u8; len].into());
            lengths.push((channels()[channel].id, len));
        }
    }
    sending.push_packet(&Packet::PING, Instant::now());
    let came = carry(&mut sending, &mut dialled, &mut receiving, &mut accepted);
    let mut messages: Vec<_> = came
        .iter()
        .filter_map(|incoming| match incoming {
            Incoming::Message { channel, bytes } => {
                assert!(bytes.iter().all(|byte| *byte == channel - 0x30));
                Some((*channel, bytes.len()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(came.len(), messages.len() + 1, "a ping");
    messages.sort_by_key(|(channel, len)| (*len, *channel));
    assert_eq!(messages, lengths);
    assert!(sending.is_idle());
    let progress = sending.take_progress().unwrap();
    assert_eq!(progress.taken, [7, 7]);
    assert_eq!(progress.written_bytes, lengths.iter().map(|(_, len)| *len as u64).sum::<u64>());
    assert_eq!(sending.take_progress(), None);
}

/// Packets that are ready together share frames: a packet is a little longer than the content of a
/// frame.
#[test]
fn all_frames_but_the_last_are_full() {
    let (mut dialled, _accepted) = pair();
    let packets = |len: usize| len + len.div_ceil(1024) * (PACKET_MAX - 1024);
    for len in [5000, 10_000, 14_000] {
        let mut sending = Sending::new(&channels(), Flush::WhenIdle, Instant::now());
        sending.push(0, 0, vec![7; len].into());
        sending.work(&mut dialled, Instant::now()).unwrap();
        assert!(sending.unsent().len() <= packets(len).div_ceil(1024) * SEALED, "{len}");
    }
}

/// The bytes handed to the socket are bounded, and shares follow priorities.
#[test]
fn channels_share_by_priority_with_bounded_sealing() {
    let (mut dialled, mut accepted) = pair();
    let mut sending = Sending::new(&channels(), Flush::WhenIdle, Instant::now());
    for channel in 0..2 {
        for _ in 0..300 {
            sending.push(channel, channel, vec![channel as u8; 1000].into());
        }
    }
    sending.work(&mut dialled, Instant::now()).unwrap();
    assert!(sending.unsent().len() <= 16 * SEALED, "{}", sending.unsent().len());
    let mut receiving = Receiving::new(&channels());
    let came = carry(&mut sending, &mut dialled, &mut receiving, &mut accepted);
    let first =
        came.iter().take(300).filter(|incoming| matches!(incoming, Incoming::Message { channel: 0x30, .. }));
    // The priorities are 6 and 3.
    assert!((195..=205).contains(&first.count()));
    assert_eq!(came.len(), 600);
}

#[test]
fn a_throttled_flush_waits_for_its_time_or_a_full_buffer() {
    let (mut dialled, _accepted) = pair();
    let start = Instant::now();
    let mut sending = Sending::new(&channels(), Flush::Throttle(Duration::from_millis(100)), start);
    sending.push(0, 0, Bytes::from_static(b"small"));
    sending.work(&mut dialled, start).unwrap();
    assert!(sending.unsent().is_empty());
    let flush = sending.next_flush().unwrap();
    assert_eq!(flush, start + Duration::from_millis(100));
    sending.push(1, 1, Bytes::from_static(b"small as well"));
    sending.work(&mut dialled, flush).unwrap();
    assert_eq!(sending.unsent().len(), SEALED, "both in one sealed frame");
    sending.wrote(SEALED);
    sending.push(0, 0, vec![0; 80_000].into());
    sending.work(&mut dialled, flush).unwrap();
    assert_eq!(sending.unsent().len(), 16 * SEALED, "a full buffer leaves at once");
}

/// A peer pings and does not read.
#[test]
fn pongs_do_not_pile_up() {
    let mut sending = Sending::new(&channels(), Flush::Throttle(Duration::from_secs(60)), Instant::now());
    let (mut dialled, _accepted) = pair();
    for _ in 0..1_000_000 {
        sending.push_packet(&Packet::PONG, Instant::now());
    }
    sending.work(&mut dialled, Instant::now()).unwrap();
    let mut bytes = 0;
    while !sending.unsent().is_empty() {
        bytes += sending.unsent().len();
        sending.wrote(sending.unsent().len());
        sending.work(&mut dialled, Instant::now()).unwrap();
    }
    assert!(bytes <= 66 * SEALED, "{bytes}");
}

#[test]
fn a_replayed_or_reordered_frame_does_not_open() {
    let (mut dialled, mut accepted) = pair();
    let (mut first, mut second) = (Vec::new(), Vec::new());
    dialled.seal(b"one", &mut first).unwrap();
    dialled.seal(b"two", &mut second).unwrap();
    let mut plain = Vec::new();
    assert_eq!(accepted.open(&mut first.clone(), &mut plain), Ok(3));
    assert_eq!(accepted.open(&mut first, &mut plain), Err(Broken::Seal));
    let mut receiving = Receiving::new(&channels());
    receiving.read(&second);
    assert_eq!(
        receiving.next(&mut accepted),
        Err(Broken::Seal),
        "the connection stays broken after an error"
    );
}

#[test]
fn node_info_checks_match_cometbft() {
    let (own, other) = (NodeKey::from_secret([1; 32]).id(), NodeKey::from_secret([2; 32]).id());
    let info = |id: super::NodeId| NodeInfo {
        versions: Versions { block: 11, ..Versions::default() },
        id: id.to_string(),
        network: "net".to_owned(),
        channels: vec![0x30],
        moniker: "m".to_owned(),
        ..NodeInfo::default()
    };
    let ours = info(own);
    let check = |change: fn(&mut NodeInfo)| {
        let mut peer = info(other);
        change(&mut peer);
        ours.check(&peer, other)
    };
    assert_eq!(check(|_| ()), Ok(()));
    assert!(matches!(
        check(|peer| peer.channels = vec![1; 2]),
        Err(Incompatible::Invalid("duplicate channel"))
    ));
    assert!(matches!(check(|peer| peer.channels = (0..17).collect()), Err(Incompatible::Invalid(_))));
    assert!(matches!(check(|peer| peer.moniker = " ".to_owned()), Err(Incompatible::Invalid(_))));
    assert!(matches!(check(|peer| peer.version = "\n".to_owned()), Err(Incompatible::Invalid(_))));
    assert!(matches!(check(|peer| peer.id = "00".repeat(20)), Err(Incompatible::OtherNode { .. })));
    assert!(matches!(check(|peer| peer.network = String::new()), Err(Incompatible::Network { .. })));
    assert!(matches!(check(|peer| peer.versions.block = 10), Err(Incompatible::BlockVersion { .. })));
    assert_eq!(ours.check(&ours, own), Err(Incompatible::Myself));
}

/// The channels are those that the real nodes offer.
#[test]
fn both_ends_choose_the_same_protocol() {
    let agreed = |preset: Preset, channels: &[u8]| {
        CatCodec::new(&preset.config()).agree(channels).map(|name| name.to_string())
    };
    // A complete node of v1.16 also has the channels of PEX, consensus, evidence and blocks.
    let whole = [0x40, 0x20, 0x21, 0x22, 0x23, 0x30, 0x31, 0x38, 0x60, 0x61, 0x00];
    assert_eq!(agreed(Preset::Cat, &whole).as_deref(), Some("cat/1"));
    assert_eq!(agreed(Preset::Cat, &[0x30]).as_deref(), Some("txs/1"));
    assert_eq!(agreed(Preset::Cat, &[0x31]), None);
    assert_eq!(agreed(Preset::Cat, &[]), None);
    for preset in [Preset::Cat, Preset::Cat2025, Preset::Cat2026] {
        assert_eq!(agreed(preset, &[0x30, 0x31, 0x32]).as_deref(), Some("cat/3"));
    }
    assert_eq!(agreed(Preset::CatMerged, &[0x30, 0x31, 0x32]).as_deref(), Some("txs/1"));
    for one in Preset::ALL {
        for other in Preset::ALL {
            let (a, b) = (CatCodec::new(&one.config()), CatCodec::new(&other.config()));
            assert_eq!(a.agree(&b.offered()), b.agree(&a.offered()), "{one:?} and {other:?}");
            // Pools over other links compare their configurations.
            let configured = one.config().agree(&other.config()).map(samara_cat::Protocol::name);
            assert_eq!(a.agree(&b.offered()).as_deref(), configured, "{one:?} and {other:?}");
        }
    }
}

#[test]
fn redial_waits_grow_until_a_link_is_up() {
    let now = Instant::now();
    let peer: PeerAddress = format!("{}@host:1", NodeKey::from_secret([1; 32]).id()).parse().unwrap();
    let options = Options {
        peers: vec![peer.clone()],
        redial_first: Duration::from_secs(1),
        redial_max: Duration::from_secs(4),
        ..Options::new("net")
    };
    let mut peers = Peers::new(&options, now);
    let mut waits = Vec::new();
    let mut at = now;
    for _ in 0..5 {
        assert_eq!(peers.due(at).map(|id| (id, peers.host(&id))), Some((peer.id, peer.host.clone())));
        assert_eq!((peers.due(at), peers.next()), (None, None), "a dial is in progress");
        peers.is_down(&peer.id, at);
        waits.push(peers.next().unwrap() - at);
        at = peers.next().unwrap();
    }
    for (wait, longest) in waits.iter().zip([1, 2, 4, 4, 4]) {
        let longest = Duration::from_secs(longest);
        assert!(*wait >= longest / 2 && *wait <= longest, "{waits:?}");
    }
    peers.is_up(&peer.id);
    assert_eq!(peers.next(), None);
    peers.is_down(&peer.id, at);
    assert!(peers.next().unwrap() - at <= Duration::from_secs(1));
    peers.remove(&peer.id);
    assert_eq!(peers.next(), None);
}
