//! Connections whose peer has its keys, and sends anything with them; and an attacker without keys.

use std::cell::RefCell;

use bytes::Bytes;
use prost::Message;
use samara_cat::config::Preset;
use samara_net::mconn::fuzzing::{Incoming, PLAIN_MAX, Packet, Receiving, SEALED, Secret, pair};
use samara_net::mconn::{Broken, CatCodec, Channel, NodeInfo, NodeKey, Other, Versions};

const LONGEST: usize = 3_000;

thread_local! {
    /// Both ends of a connection. A frame that arrives changed breaks them.
    static ENDS: RefCell<Option<(Secret, Secret)>> = const { RefCell::new(None) };
}

fn channels() -> [Channel; 2] {
    [0x30, 0x31].map(|id| Channel { id, priority: 1, queue: 10, lanes: Vec::new(), longest_message: LONGEST })
}

/// Seals bytes in frames of `cut` bytes.
fn sealed(secret: &mut Secret, plain: &[u8], cut: usize) -> Vec<u8> {
    let mut sealed = Vec::new();
    for piece in plain.chunks(cut.clamp(1, PLAIN_MAX)) {
        secret.seal(piece, &mut sealed).expect("numbers of frames are left");
    }
    sealed
}

/// Receives sealed frames. Opens those behind an error as well, so that the ends stay in step.
fn received(secret: &mut Secret, sealed: &[u8]) -> (Vec<Incoming>, Option<Broken>) {
    let mut receiving = Receiving::new(&channels());
    let (mut incoming, mut broken) = (Vec::new(), None);
    for frame in sealed.chunks(SEALED) {
        if broken.is_some() {
            let opened = secret.open(&mut frame.to_vec(), &mut Vec::new());
            opened.expect("the frame is unchanged");
            continue;
        }
        let (first, second) = frame.split_at(frame.len() / 3);
        for piece in [first, second] {
            assert!(receiving.wants() >= piece.len());
            receiving.read(piece);
            while broken.is_none() {
                match receiving.next(secret) {
                    Ok(Some(next)) => {
                        let is_short = |bytes: &Bytes| bytes.len() <= LONGEST;
                        assert!(!matches!(&next, Incoming::Message { bytes, .. } if !is_short(bytes)));
                        incoming.push(next);
                    }
                    Ok(None) => break,
                    Err(why) => broken = Some(why),
                }
            }
        }
    }
    (incoming, broken)
}

/// Receives packets: a byte for the length of sealed frames, and the content of all frames. The
/// messages do not depend on the frames.
pub(crate) fn packets(data: &[u8]) {
    let [cut, plain @ ..] = data else { return };
    ENDS.with_borrow_mut(|ends| {
        let (from, to) = ends.get_or_insert_with(pair);
        // At least 16 bytes in a frame of 1 KiB.
        let small = sealed(from, plain, 16 + 4 * usize::from(*cut));
        let received_small = received(to, &small);
        let full = sealed(from, plain, PLAIN_MAX);
        assert_eq!(received(to, &full), received_small);
    });
}

/// Packets of every kind: a ping, a pong, and a message of two pieces.
pub(crate) fn packets_seeds() -> Vec<Vec<u8>> {
    let mut plain = vec![0xff];
    let piece = |last| Packet::piece(0x31, last, Bytes::from_static(&[5; 100]));
    for packet in [Packet::PING, piece(false), piece(true), Packet::PONG] {
        packet.append(&mut plain);
    }
    vec![plain]
}

/// An attacker changes a byte of sealed frames: its place in two bytes, and the change. The frame
/// does not open, and nothing behind it arrives.
pub(crate) fn frames(data: &[u8]) {
    let [low, high, change, plain @ ..] = data else { return };
    let mut ends = ENDS.take().unwrap_or_else(pair);
    let mut sealed = sealed(&mut ends.0, plain, PLAIN_MAX);
    let mut opened = Vec::new();
    if sealed.is_empty() {
        return;
    }
    let place = usize::from(u16::from_le_bytes([*low, *high])) % sealed.len();
    sealed[place] ^= change;
    for (number, frame) in sealed.chunks_mut(SEALED).enumerate() {
        let is_changed = *change != 0 && number == place / SEALED;
        assert_eq!(ends.1.open(frame, &mut opened).is_err(), is_changed);
        if is_changed {
            return;
        }
    }
    assert_eq!(opened, plain);
    ENDS.set(Some(ends));
}

pub(crate) fn frames_seeds() -> Vec<Vec<u8>> {
    let plain = [6; 1_500];
    [0, 1].map(|change| [&[0x10, 0x04, change][..], &plain].concat()).to_vec()
}

/// Bytes of a peer during the handshake. They hold no proof for keys that are drawn anew each time.
pub(crate) fn handshake(data: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime without drivers");
    let mut peer = tokio::io::join(data, tokio::io::sink());
    let agreed = runtime.block_on(Secret::handshake(&mut peer, &NodeKey::from_secret([1; 32])));
    assert!(agreed.is_err(), "a stranger without a key is authenticated");
}

/// An ephemeral key, of low order and not, and a sealed frame.
pub(crate) fn handshake_seeds() -> Vec<Vec<u8>> {
    [0, 9].map(|key| [&[0x22, 0x0a, 0x20][..], &[key; 32], &[7; 1_044]].concat()).to_vec()
}

fn own_info() -> NodeInfo {
    NodeInfo {
        versions: Versions { p2p: 8, block: 11, app: 0 },
        id: NodeKey::from_secret([1; 32]).id().to_string(),
        network: "net".to_owned(),
        channels: vec![0x30, 0x31],
        moniker: "own".to_owned(),
        ..NodeInfo::default()
    }
}

/// Reads a node info, and chooses a protocol by its channels.
pub(crate) fn node_info(data: &[u8]) {
    let Ok(info) = NodeInfo::decode(data) else { return };
    assert_eq!(NodeInfo::decode(&info.encode_to_vec()[..]).as_ref(), Ok(&info));
    let key = NodeKey::from_secret([2; 32]).id();
    if own_info().check(&info, key).is_ok() {
        assert_eq!((&info.id, &info.network), (&key.to_string(), &own_info().network));
        assert!(info.channels.len() <= 16 && !info.moniker.is_empty());
    }
    for preset in Preset::ALL {
        let config = preset.config();
        if let Some(protocol) = CatCodec::new(&config).agree(&info.channels) {
            assert!(config.protocols.iter().any(|own| own.name() == &*protocol));
        }
    }
}

/// The info of a compatible node.
pub(crate) fn node_info_seeds() -> Vec<Vec<u8>> {
    let other = Other { tx_index: "on".to_owned(), rpc_address: "tcp://0.0.0.0:26657".to_owned() };
    let id = NodeKey::from_secret([2; 32]).id().to_string();
    let listen_addr = "tcp://0.0.0.0:26656".to_owned();
    vec![NodeInfo { id, other, listen_addr, ..own_info() }.encode_to_vec()]
}
