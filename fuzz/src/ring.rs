//! Links whose peers send anything: strangers, members, and an attacker between two members.

use std::net::SocketAddr;

use bytes::{BufMut, Bytes};
use futures::executor::block_on;
use futures::join;
use samara_engine::Frame;
use samara_net::ring::fuzzing::{
    CONTENT_MIN, DIGEST_BYTES, Handshake, INSTANCE_BYTES, Keys, MAGIC, NONCE_BYTES, PREFIX, PROOF_BYTES,
    Protection, Receiving, Role, Seal, Sending, TAG_BYTES,
};
use samara_net::ring::{Authentication, Frames, Options, Secret};
use samara_ring::RingFrame;
use samara_ring::wire::{Limits, decode};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use crate::wire;

const GROUP: &str = "fuzzing";
const STRANGERS_FRAME_MAX: usize = 512;
/// Longer than any input.
const MEMBERS_FRAME_MAX: usize = 1 << 20;

fn secret() -> Authentication {
    Authentication::Secret(Secret::new([7; 32]).expect("a long secret"), Frames::default())
}

fn keys() -> Keys {
    Keys::new(GROUP, &secret()).expect("random numbers")
}

// ---- frames ----

/// The frames that arrive in pieces of `cut` bytes, and the reason to close the link.
fn received(
    bytes: &[u8],
    cut: usize,
    frame_max: usize,
    seal: Option<Seal>,
) -> (Vec<RingFrame>, Option<String>) {
    let mut receiving = Receiving::new(frame_max, Limits::default(), seal);
    let mut frames = Vec::new();
    for mut piece in bytes.chunks(cut) {
        loop {
            match receiving.next_frame() {
                Ok(Some((frame, len))) => {
                    assert!(len <= PREFIX + frame_max + TAG_BYTES);
                    frames.push(frame);
                }
                Ok(None) if piece.is_empty() => break,
                Ok(None) => {
                    let taken = receiving.read(|into| {
                        let len = piece.len().min(into.remaining_mut());
                        into.put_slice(&piece[..len]);
                        Ok(len)
                    });
                    let taken = taken.expect("memory does not fail");
                    assert!(taken > 0, "there is room for more");
                    piece = &piece[taken..];
                }
                Err(why) => return (frames, Some(why.to_string())),
            }
        }
    }
    (frames, None)
}

/// Receives a stream: a byte for its kind, a byte for the length of pieces, and either the bytes of
/// a stranger, or frames of a member that an attacker changes in one place.
pub(crate) fn stream(data: &[u8]) {
    let [kind, cut, body @ ..] = data else { return };
    let cut = usize::from(*cut).max(1);
    match kind % 3 {
        0 => {
            let whole = received(body, body.len().max(1), STRANGERS_FRAME_MAX, None);
            assert_eq!(received(body, cut, STRANGERS_FRAME_MAX, None), whole);
        }
        kind => sealed(body, cut, kind == 2),
    }
}

/// The place and the change of a byte (3 bytes), then frames with their lengths in two bytes.
fn sealed(body: &[u8], cut: usize, covers_contents: bool) {
    let [low, high, change, script @ ..] = body else { return };
    let seals = |role| keys().seals(role, b"a handshake", covers_contents).expect("keys of the right length");
    let (sent, received_seal) = (seals(Role::Dialler).0, seals(Role::Listener).1);
    let (mut sending, mut frames) = (Sending::new(Some(sent)), Vec::new());
    let mut rest = script;
    while let [low, high, more @ ..] = rest {
        let (bytes, behind) = more.split_at(usize::from(u16::from_le_bytes([*low, *high])).min(more.len()));
        rest = behind;
        if let Ok(frame) = decode(&Bytes::copy_from_slice(bytes), &Limits::default()) {
            sending.push(&frame, frame.encoded_len() as u32).expect("a frame can be sealed");
            frames.push(frame);
        }
    }
    let mut bytes = Vec::new();
    while !sending.is_empty() {
        let written = sending.write(|slices| {
            let start = bytes.len();
            bytes.extend(slices.iter().flat_map(|slice| slice.iter()).take(cut));
            Ok(bytes.len() - start)
        });
        assert!(written.expect("memory does not fail") > 0, "bytes are left");
    }
    if bytes.is_empty() {
        return;
    }
    let at = usize::from(u16::from_le_bytes([*low, *high])) % bytes.len();
    bytes[at] ^= change;
    let (arrived, why) = received(&bytes, cut, MEMBERS_FRAME_MAX, Some(received_seal));
    if *change == 0 {
        assert_eq!((arrived, why), (frames, None));
    } else if covers_contents || frames.iter().all(|frame| frame.payload_len() < CONTENT_MIN) {
        assert!(arrived.len() < frames.len() && frames.starts_with(&arrived));
    }
}

pub(crate) fn stream_seeds() -> Vec<Vec<u8>> {
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

// ---- the handshake ----

/// Bytes that wait on one way of a connection: more than any handshake has.
const BUFFER: usize = 4 << 10;

fn listener() -> SocketAddr {
    ([127, 0, 0, 1], 7001).into()
}

fn dialler() -> SocketAddr {
    ([127, 0, 0, 1], 7002).into()
}

fn member(own: SocketAddr) -> Handshake {
    let options = Options { authentication: secret(), ..Options::new(GROUP, own) };
    Handshake::new(&options, own).expect("valid options")
}

fn terms() -> String {
    member(listener()).terms
}

type Admitted = Result<(SocketAddr, Vec<u8>), String>;

async fn admit(mut stream: DuplexStream) -> Admitted {
    let admitted = member(listener()).admit(&mut stream, |_| Ok(())).await;
    admitted.map(|(name, _, said)| (name, said)).map_err(|why| why.to_string())
}

async fn join(mut stream: DuplexStream) -> Result<Vec<u8>, String> {
    let joined = member(dialler()).join(&mut stream, listener()).await;
    joined.map(|(_, said)| said).map_err(|why| why.to_string())
}

/// Carries out a handshake: a byte for the other side, and what it sends.
pub(crate) fn handshake(data: &[u8]) {
    let [kind, rest @ ..] = data else { return };
    let (own, other) = duplex(BUFFER);
    match kind % 5 {
        0 => assert!(block_on(async { join!(admit(own), say(other, rest)).0 }).is_err()),
        1 => assert!(block_on(async { join!(join(own), say(other, rest)).0 }).is_err()),
        2 => {
            let mut words = Words(rest);
            let (admitted, sent) = block_on(async { join!(admit(own), dial(other, &mut words)) });
            if let Ok((name, _)) = admitted {
                let sent = sent.expect("a whole handshake");
                assert_eq!(sent.name.parse(), Ok(name));
                assert!(name != listener() && sent.meant.parse() == Ok(listener()) && sent.has_terms);
            }
        }
        3 => {
            let mut words = Words(rest);
            let (joined, sent) = block_on(async { join!(join(own), listen(other, &mut words)) });
            assert!(joined.is_err() || sent.is_some_and(|sent| sent == terms()));
        }
        _ => between(rest),
    }
}

/// Sends the words of a stranger, and keeps the connection until the other side hangs up.
async fn say(mut stream: DuplexStream, words: &[u8]) -> Option<()> {
    stream.write_all(&words[..words.len().min(BUFFER)]).await.ok()?;
    stream.shutdown().await.ok()?;
    stream.read_to_end(&mut Vec::new()).await.ok().map(drop)
}

/// The choices of a member that says what it wants.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// The expected text, or an arbitrary one.
    fn text(&mut self, expected: String) -> Vec<u8> {
        let len = usize::from(self.byte());
        if len == 0 {
            return expected.into_bytes();
        }
        let (text, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        text.to_vec()
    }
}

fn put(said: &mut Vec<u8>, text: &[u8]) {
    said.push(text.len() as u8);
    said.extend_from_slice(text);
}

async fn hear(stream: &mut DuplexStream, said: &mut Vec<u8>, len: usize) -> Option<()> {
    let start = said.len();
    said.resize(start + len, 0);
    stream.read_exact(&mut said[start..]).await.ok().map(drop)
}

struct Sent {
    name: String,
    meant: String,
    has_terms: bool,
}

/// Dials with a valid proof of any claim.
async fn dial(mut stream: DuplexStream, words: &mut Words<'_>) -> Option<Sent> {
    let mut said = MAGIC.to_vec();
    said.push(Protection::Encrypted as u8);
    said.extend([words.byte(); NONCE_BYTES]);
    stream.write_all(&said).await.ok()?;
    hear(&mut stream, &mut said, NONCE_BYTES).await?;
    let start = said.len();
    said.extend([words.byte(); INSTANCE_BYTES]);
    let (name, meant) = (words.text(dialler().to_string()), words.text(listener().to_string()));
    put(&mut said, &name);
    put(&mut said, &meant);
    let digest = keys().digest(&String::from_utf8_lossy(&words.text(terms())));
    assert_eq!(digest.as_ref().len(), DIGEST_BYTES);
    said.extend_from_slice(digest.as_ref());
    said.extend_from_slice(keys().prove(Role::Dialler, &said).as_ref());
    stream.write_all(&said[start..]).await.ok()?;
    // Until the other side hangs up.
    stream.read_to_end(&mut Vec::new()).await.ok()?;
    let has_terms = digest.as_ref() == keys().digest(&terms()).as_ref();
    Some(Sent { name: String::from_utf8(name).ok()?, meant: String::from_utf8(meant).ok()?, has_terms })
}

/// Listens, and gives a valid proof of any terms, which it returns.
async fn listen(mut stream: DuplexStream, words: &mut Words<'_>) -> Option<String> {
    let mut said = Vec::new();
    hear(&mut stream, &mut said, MAGIC.len() + 1 + NONCE_BYTES).await?;
    let nonce = [words.byte(); NONCE_BYTES];
    stream.write_all(&nonce).await.ok()?;
    said.extend(nonce);
    let names = 2 + dialler().to_string().len() + listener().to_string().len();
    hear(&mut stream, &mut said, INSTANCE_BYTES + names + DIGEST_BYTES + PROOF_BYTES).await?;
    let start = said.len();
    said.extend([words.byte(); INSTANCE_BYTES]);
    let terms = words.text(terms());
    put(&mut said, &terms);
    said.extend_from_slice(keys().prove(Role::Listener, &said).as_ref());
    stream.write_all(&said[start..]).await.ok()?;
    stream.read_to_end(&mut Vec::new()).await.ok()?;
    String::from_utf8(terms).ok()
}

/// An attacker between two members changes a byte: its place in two bytes, the direction, and the
/// change. If it changes nothing, both sides heard the same. Otherwise one of them notices it.
fn between(data: &[u8]) {
    let [low, high, is_listeners, change, ..] = data else { return };
    let place = u16::from_le_bytes([*low, *high]) % 512;
    let (way, change) = (is_listeners % 2, *change);
    let (dialling, near) = duplex(BUFFER);
    let (far, listening) = duplex(BUFFER);
    let (near, far) = (tokio::io::split(near), tokio::io::split(far));
    let carry = |mut from: tokio::io::ReadHalf<DuplexStream>,
                 mut to: tokio::io::WriteHalf<DuplexStream>,
                 is_changed: bool| async move {
        let (mut at, mut has_changed) = (0, false);
        while let Ok(byte) = from.read_u8().await {
            let hits = is_changed && at == place && change != 0;
            has_changed |= hits;
            at = at.saturating_add(1);
            if to.write_u8(if hits { byte ^ change } else { byte }).await.is_err() {
                break;
            }
        }
        // Fails if the other side has hung up.
        let _ = to.shutdown().await;
        has_changed
    };
    let there = carry(near.0, far.1, way == 0);
    let back = carry(far.0, near.1, way == 1);
    let (joined, admitted, there, back) =
        block_on(async { join!(join(dialling), admit(listening), there, back) });
    if there || back {
        assert!(joined.is_err() || admitted.is_err());
    } else {
        let (name, said) = admitted.expect("both are members");
        assert_eq!((name, Ok(said)), (dialler(), joined));
    }
}

pub(crate) fn handshake_seeds() -> Vec<Vec<u8>> {
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
