//! A peer that implements the protocol of connections by hand, so that tests can break it anywhere.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use chacha20poly1305::{AeadInPlace, ChaCha20Poly1305, KeyInit};
use curve25519_dalek_ng::constants::X25519_BASEPOINT;
use curve25519_dalek_ng::montgomery::MontgomeryPoint;
use curve25519_dalek_ng::scalar::Scalar;
use ed25519_consensus::SigningKey;
use tendermint_p2p::secret_connection::{Kdf, SecretConnection, Version};

use crate::mconn::common::*;

/// A connection whose every byte the test controls.
pub(crate) struct Attacker {
    secret: SecretConnection<TcpStream>,
    pub(crate) stream: TcpStream,
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

impl Attacker {
    /// Opens only the secret connection.
    pub(crate) fn secret(host: &str, seed: u8) -> Self {
        let stream = TcpStream::connect(host).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.set_write_timeout(Some(Duration::from_secs(2))).expect("a socket");
        let second = stream.try_clone().expect("a socket");
        let secret = SecretConnection::new(stream, SigningKey::from([seed; 32]), Version::V0_34);
        Self { secret: secret.expect("a handshake"), stream: second }
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
        self.secret.write_all(bytes)
    }

    /// Returns the content of the next sealed frame.
    pub(crate) fn read(&mut self) -> std::io::Result<Vec<u8>> {
        let mut buffer = [0; 1024];
        let len = self.secret.read(&mut buffer)?;
        Ok(buffer[..len].to_vec())
    }

    /// Reads until the other end hangs up.
    pub(crate) fn until_closed(&mut self) {
        while self.read().is_ok() {}
    }
}

/// A handshake by hand up to the signature. Its sealed frame has `len` bytes instead of 103.
pub(crate) fn long_signature(host: &str, len: usize) {
    let mut stream = TcpStream::connect(host).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let secret = Scalar::from_bytes_mod_order([5; 32]);
    let own = X25519_BASEPOINT * secret;
    stream.write_all(&[&[0x22, 0x0a, 0x20][..], own.as_bytes()].concat()).expect("it reads");
    let mut theirs = [0; 35];
    stream.read_exact(&mut theirs).expect("a key");
    let theirs = MontgomeryPoint(theirs[3..].try_into().expect("32 bytes"));
    let shared = secret * theirs;
    let keys = Kdf::derive_secrets_and_challenge(shared.as_bytes(), own.as_bytes() < theirs.as_bytes());
    let cipher = ChaCha20Poly1305::new(&keys.send_secret.into());
    let mut frame = [0; 4 + 1024];
    frame[..4].copy_from_slice(&(len as u32).to_le_bytes());
    let tag = cipher.encrypt_in_place_detached(&Default::default(), b"", &mut frame).expect("it seals");
    stream.write_all(&[&frame[..], &tag[..]].concat()).expect("it reads");
    // Their signature, and the end.
    let _ = stream.read_to_end(&mut Vec::new());
}
