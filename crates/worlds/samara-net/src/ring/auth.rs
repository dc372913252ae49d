//! Authentication of members: secrets and certificates, the proofs of the handshake, and sealed frames.
//!
//! ```text
//! dialler -> listener   magic, protection (1), nonce (32)
//! listener -> dialler   nonce (32)
//! dialler -> listener   instance (16), name of the dialler, dialled name, digest of terms (32), proof (32)
//! listener -> dialler   instance (16), terms, proof (32)
//! ```
//!
//! A proof is HMAC-SHA-256 with the key of the group over the role of its sender and all bytes that
//! were sent before it. That key is HMAC-SHA-256 with the secret over the name of the group; without
//! authentication the secret is empty. Nonces are random, so recorded bytes prove nothing, and neither do reflected
//! ones, because the roles differ. The dialler's proof names the member that it means, so no node
//! can use it at another one.
//!
//! With a secret, HMAC with the key of the group over all bytes of the handshake gives a key for each
//! direction. Frame
//! number n of a direction is sealed by AES-128-GCM with the nonce n and its length as associated
//! data: nobody else can insert, repeat, omit or reorder a frame.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use ::ring::error::Unspecified;
use ::ring::{aead, hmac};
use bytes::Bytes;
use samara_ring::RingFrame;
use samara_ring::wire::{Sink, encode};

use crate::identity::{Fingerprint, Identity};
use crate::status::Closed;

/// How members know each other.
#[derive(Clone, Debug, Default)]
pub enum Authentication {
    /// By their host: all members are on loopback addresses, and nodes that can open a connection
    /// there are trusted.
    #[default]
    Loopback,
    /// Not at all: every node that reaches a member and knows the name of the group can join, read
    /// all messages and stop the group. An attacker between members can change all messages.
    Unauthenticated,
    /// By a secret that all members share. Members trust each other's names.
    Secret(Secret, Frames),
    /// By certificates: links are TLS 1.3 connections in which both sides prove that they have the
    /// key of a certificate that the other one expects.
    Certificates(Certificates),
}

/// The scope of a shared secret after the handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Frames {
    /// Frames are encrypted and authentic.
    #[default]
    Encrypted,
    /// Frames are authentic, except for contents of 1 KiB and more. An attacker between two members
    /// can read everything, and can change such contents, but cannot insert, repeat, omit or
    /// reorder frames. This costs almost no processor time.
    Fields,
}

/// A secret that all members of a group share. It is never printed.
#[derive(Clone)]
pub struct Secret(Arc<[u8]>);

#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "found a secret of {0} bytes; expected at least {min} random ones, such as `openssl rand -hex 32` prints",
    min = Secret::BYTES_MIN
)]
pub struct ShortSecret(usize);

/// `main` prints errors in this form.
impl std::fmt::Debug for ShortSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

impl Secret {
    pub const BYTES_MIN: usize = 16;

    /// Takes a secret. The handshake can be recorded and tried against guesses, so a secret must be
    /// random, not a word.
    ///
    /// # Errors
    /// The secret has fewer than 16 bytes.
    pub fn new(secret: impl AsRef<[u8]>) -> Result<Self, ShortSecret> {
        let secret = secret.as_ref();
        if secret.len() < Self::BYTES_MIN { Err(ShortSecret(secret.len())) } else { Ok(Self(secret.into())) }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The certificate of a member, and those of all members.
#[derive(Clone, Debug)]
pub struct Certificates {
    pub identity: Identity,
    /// All members by the address at which others dial them. The member dials no other address, and
    /// accepts each name only from the holder of its certificate.
    pub members: BTreeMap<SocketAddr, Fingerprint>,
}

/// The byte that says what a connection uses. Both sides must use the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Protection {
    Open = 0,
    Fields = 1,
    Encrypted = 2,
    Tls = 3,
}

impl Authentication {
    pub(super) fn protection(&self) -> Protection {
        match self {
            Self::Loopback | Self::Unauthenticated => Protection::Open,
            Self::Secret(_, Frames::Fields) => Protection::Fields,
            Self::Secret(_, Frames::Encrypted) => Protection::Encrypted,
            Self::Certificates(_) => Protection::Tls,
        }
    }
}

// ---- the handshake ----

pub const NONCE_BYTES: usize = 32;
pub const PROOF_BYTES: usize = 32;
pub const INSTANCE_BYTES: usize = 16;
pub const DIGEST_BYTES: usize = 32;

/// A value by which a peer recognizes the same life of a node. Every peer sees another one, so that
/// none can use it at others.
pub type Instance = [u8; INSTANCE_BYTES];

/// Which side of a connection a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Dialler,
    Listener,
}

impl Role {
    const fn label(self) -> &'static [u8] {
        match self {
            Self::Dialler => b"dialler",
            Self::Listener => b"listener",
        }
    }

    const fn other(self) -> Self {
        match self {
            Self::Dialler => Self::Listener,
            Self::Listener => Self::Dialler,
        }
    }
}

pub struct Keys {
    group: hmac::Key,
    /// Random for each life of the node.
    instance: hmac::Key,
    has_secret: bool,
}

impl Keys {
    pub fn new(group: &str, authentication: &Authentication) -> Result<Self, getrandom::Error> {
        let secret: &[u8] = match authentication {
            Authentication::Secret(secret, _) => &secret.0,
            _ => &[],
        };
        let mut instance = [0; 32];
        getrandom::fill(&mut instance)?;
        let mut derived = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, secret));
        derived.update(b"samring/2 group ");
        derived.update(group.as_bytes());
        Ok(Self {
            group: hmac::Key::new(hmac::HMAC_SHA256, derived.sign().as_ref()),
            instance: hmac::Key::new(hmac::HMAC_SHA256, &instance),
            has_secret: !secret.is_empty(),
        })
    }

    /// Returns this node's instance, as the peer with this name sees it.
    pub(super) fn instance(&self, peer: SocketAddr) -> Instance {
        let tag = hmac::sign(&self.instance, peer.to_string().as_bytes());
        tag.as_ref()[..INSTANCE_BYTES].try_into().unwrap_or_default()
    }

    fn tag(&self, label: &[u8], said: &[u8]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.group);
        context.update(label);
        context.update(said);
        context.sign()
    }

    /// Returns the digest of terms, which tells nothing to nodes without the key.
    pub fn digest(&self, terms: &str) -> hmac::Tag {
        self.tag(b"terms", terms.as_bytes())
    }

    /// Returns the proof of one side, given all bytes that both have said before it.
    pub fn prove(&self, role: Role, said: &[u8]) -> hmac::Tag {
        self.tag(role.label(), said)
    }

    /// # Errors
    /// The peer has another secret, or, where there is none, another group.
    pub(super) fn check(&self, role: Role, said: &[u8], proof: &[u8]) -> Result<(), Closed> {
        let message: Vec<u8> = role.label().iter().chain(said).copied().collect();
        let wrong = if self.has_secret { Closed::Unauthenticated } else { Closed::OtherGroup };
        hmac::verify(&self.group, &message, proof).map_err(|Unspecified| wrong)
    }

    /// Returns the seals for the frames that this side sends and receives.
    pub fn seals(&self, role: Role, said: &[u8], covers_contents: bool) -> Result<(Seal, Seal), Closed> {
        let seal = |role: Role| -> Result<Seal, Closed> {
            let label: Vec<u8> = [b"frames of the ", role.label()].concat();
            let key = self.tag(&label, said);
            let key =
                aead::UnboundKey::new(&aead::AES_128_GCM, &key.as_ref()[..KEY_BYTES]).map_err(no_key)?;
            Ok(Seal { key: aead::LessSafeKey::new(key), count: 0, covers_contents, fields: Vec::new() })
        };
        Ok((seal(role)?, seal(role.other())?))
    }
}

// ---- frames ----

const KEY_BYTES: usize = 16;
pub const TAG_BYTES: usize = 16;
/// Contents that are shorter count as fields.
pub const CONTENT_MIN: usize = 1 << 10;

/// Seals or opens the frames of one direction, in order.
pub struct Seal {
    key: aead::LessSafeKey,
    /// Frames so far. 2^64 of them take longer than any link lasts.
    count: u64,
    pub(super) covers_contents: bool,
    fields: Vec<u8>,
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seal").field("count", &self.count).finish_non_exhaustive()
    }
}

/// Collects a frame without its longer contents, whose lengths are among its fields.
struct Fields<'a>(&'a mut Vec<u8>);

impl Sink for Fields<'_> {
    fn slice(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn content(&mut self, bytes: &Bytes) {
        if bytes.len() < CONTENT_MIN {
            self.slice(bytes);
        }
    }
}

impl Seal {
    fn next_nonce(&mut self) -> aead::Nonce {
        let mut nonce = [0; aead::NONCE_LEN];
        nonce[..8].copy_from_slice(&self.count.to_le_bytes());
        self.count += 1;
        aead::Nonce::assume_unique_for_key(nonce)
    }

    /// Encrypts a frame, and returns its tag.
    pub(super) fn encrypt(&mut self, len: [u8; 4], frame: &mut [u8]) -> Result<aead::Tag, Closed> {
        let nonce = self.next_nonce();
        self.key.seal_in_place_separate_tag(nonce, aead::Aad::from(len), frame).map_err(no_key)
    }

    /// Decrypts a frame, which ends with its tag.
    pub(super) fn decrypt(&mut self, len: [u8; 4], frame: &mut [u8]) -> Result<(), Closed> {
        let nonce = self.next_nonce();
        let opened = self.key.open_in_place(nonce, aead::Aad::from(len), frame);
        opened.map(drop).map_err(|Unspecified| Closed::Forged)
    }

    /// Returns the tag of a frame's fields.
    pub(super) fn tag(&mut self, len: [u8; 4], frame: &RingFrame) -> Result<aead::Tag, Closed> {
        let nonce = self.next_nonce();
        self.collect(len, frame);
        let fields = aead::Aad::from(&self.fields);
        self.key.seal_in_place_separate_tag(nonce, fields, &mut []).map_err(no_key)
    }

    pub(super) fn check(&mut self, len: [u8; 4], frame: &RingFrame, tag: &[u8]) -> Result<(), Closed> {
        let nonce = self.next_nonce();
        self.collect(len, frame);
        let mut tag = <[u8; TAG_BYTES]>::try_from(tag).map_err(|_| Closed::Forged)?;
        let opened = self.key.open_in_place(nonce, aead::Aad::from(&self.fields), &mut tag);
        opened.map(drop).map_err(|Unspecified| Closed::Forged)
    }

    fn collect(&mut self, len: [u8; 4], frame: &RingFrame) {
        self.fields.clear();
        self.fields.extend_from_slice(&len);
        encode(frame, &mut Fields(&mut self.fields));
    }
}

/// Never happens: keys have the right length, and frames are shorter than 64 GiB.
fn no_key(_: Unspecified) -> Closed {
    Closed::ended("a frame cannot be sealed")
}
