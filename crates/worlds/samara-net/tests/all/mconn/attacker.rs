//! A peer that implements the protocol of connections by hand, so that tests can break it anywhere.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use merlin::Transcript;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};

use crate::mconn::common::*;

/// A connection whose every byte the test controls.
pub(crate) struct Attacker {
    pub(crate) stream: TcpStream,
    sealing: LessSafeKey,
    opening: LessSafeKey,
    /// Numbers of frames sealed and opened.
    frames: [u64; 2],
}

fn nonce(number: &mut u64) -> Nonce {
    *number += 1;
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&(*number - 1).to_le_bytes());
    Nonce::assume_unique_for_key(nonce)
}

/// A field with a length prefix.
pub(crate) fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [vec![number << 3 | 2], with_length(bytes)].concat()
}

/// Returns the bytes with their length in front.
pub(crate) fn with_length(bytes: &[u8]) -> Vec<u8> {
    let (mut length, mut out) = (bytes.len(), Vec::new());
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    [out, bytes.to_vec()].concat()
}

/// A packet with a piece of a message.
pub(crate) fn piece(channel: u8, last: bool, data: &[u8]) -> Vec<u8> {
    let end: &[u8] = if last { &[0x10, 1] } else { &[] };
    with_length(&field(3, &[&[0x08, channel][..], end, &field(3, data)].concat()))
}

fn node_info(seed: u8, channels: &[u8]) -> Vec<u8> {
    let id = key(seed).id().to_string();
    let parts = [
        field(1, &[0x08, 8, 0x10, 11]),
        field(2, id.as_bytes()),
        field(3, b"tcp://127.0.0.1:1"),
        field(4, NETWORK.as_bytes()),
        field(5, b"1"),
        field(6, channels),
        field(7, b"attacker"),
        field(8, &[]),
    ];
    with_length(&parts.concat())
}

/// Runs a blocking function.
pub(crate) async fn blocking<R: Send + 'static>(what: impl FnOnce() -> R + Send + 'static) -> R {
    tokio::task::spawn_blocking(what).await.expect("it does not panic")
}

/// The message that proves a key: the key, and its signature of the challenge.
pub(crate) fn proof(seed: u8, challenge: &[u8]) -> Vec<u8> {
    let key = Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).expect("a key");
    let signer = field(1, &field(1, key.public_key().as_ref()));
    with_length(&[signer, field(2, key.sign(challenge).as_ref())].concat())
}

impl Attacker {
    /// Agrees on keys. Returns the challenge to sign.
    fn agree(host: &str) -> (Self, [u8; 32]) {
        let mut stream = TcpStream::connect(host).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.set_write_timeout(Some(Duration::from_secs(2))).expect("a socket");
        let private = EphemeralPrivateKey::generate(&X25519, &SystemRandom::new()).expect("a key");
        let own = private.compute_public_key().expect("a key");
        stream.write_all(&with_length(&field(1, own.as_ref()))).expect("it reads");
        let mut theirs = [0; 35];
        stream.read_exact(&mut theirs).expect("a key");
        let theirs = &theirs[3..];
        let mut sorted = [own.as_ref(), theirs];
        sorted.sort_unstable();
        let mut challenge = [0; 32];
        let keys = agree_ephemeral(private, &UnparsedPublicKey::new(&X25519, theirs), |shared| {
            let mut transcript = Transcript::new(b"TENDERMINT_SECRET_CONNECTION_TRANSCRIPT_HASH");
            transcript.append_message(b"EPHEMERAL_LOWER_PUBLIC_KEY", sorted[0]);
            transcript.append_message(b"EPHEMERAL_UPPER_PUBLIC_KEY", sorted[1]);
            transcript.append_message(b"DH_SECRET", shared);
            transcript.challenge_bytes(b"SECRET_CONNECTION_MAC", &mut challenge);
            let secret = Salt::new(HKDF_SHA256, &[]).extract(shared);
            let mut keys = [0; 64];
            let info = [&b"TENDERMINT_SECRET_CONNECTION_KEY_AND_CHALLENGE_GEN"[..]];
            secret.expand(&info, Keys).expect("keys").fill(&mut keys).expect("keys");
            keys
        });
        let keys = keys.expect("a shared secret");
        let key = |bytes: &[u8]| {
            LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, bytes).expect("a key of 32 bytes"))
        };
        let (mut opening, mut sealing) = (key(&keys[..32]), key(&keys[32..]));
        if sorted[0] == theirs {
            std::mem::swap(&mut opening, &mut sealing);
        }
        (Self { stream, sealing, opening, frames: [0; 2] }, challenge)
    }

    /// Opens only the secret connection, with a proof that the test makes from the challenge.
    pub(crate) fn with_proof(host: &str, proof: impl FnOnce(&[u8]) -> Vec<u8>) -> Self {
        let (mut attacker, challenge) = Self::agree(host);
        attacker.send(&proof(&challenge)).expect("it reads");
        attacker
    }

    /// Opens only the secret connection.
    pub(crate) fn secret(host: &str, seed: u8) -> Self {
        let mut attacker = Self::with_proof(host, |challenge| proof(seed, challenge));
        attacker.read().expect("a proof");
        attacker
    }

    /// Opens a connection and exchanges node infos, like other peers.
    pub(crate) fn peer(host: &str, seed: u8) -> Self {
        let mut attacker = Self::secret(host, seed);
        attacker.send(&node_info(seed, &[0x30, 0x31])).expect("it reads");
        // Their node info fits in one frame.
        attacker.read().expect("a node info");
        attacker
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        for content in bytes.chunks(1024) {
            let mut frame = vec![0; 4 + 1024];
            frame[..4].copy_from_slice(&(content.len() as u32).to_le_bytes());
            frame[4..4 + content.len()].copy_from_slice(content);
            let nonce = nonce(&mut self.frames[0]);
            self.sealing.seal_in_place_append_tag(nonce, Aad::empty(), &mut frame).expect("it seals");
            self.stream.write_all(&frame)?;
        }
        Ok(())
    }

    /// Returns the content of the next sealed frame.
    pub(crate) fn read(&mut self) -> std::io::Result<Vec<u8>> {
        let mut frame = [0; 1044];
        self.stream.read_exact(&mut frame)?;
        let nonce = nonce(&mut self.frames[1]);
        let plain = self.opening.open_in_place(nonce, Aad::empty(), &mut frame).expect("it opens");
        let len = u32::from_le_bytes(plain[..4].try_into().expect("4 bytes"));
        Ok(plain[4..4 + len as usize].to_vec())
    }

    /// Reads until the other end hangs up.
    pub(crate) fn until_closed(&mut self) {
        while self.read().is_ok() {}
    }
}

/// The length of both keys.
struct Keys;

impl ring::hkdf::KeyType for Keys {
    fn len(&self) -> usize {
        64
    }
}
