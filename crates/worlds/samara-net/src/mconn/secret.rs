//! The secret connection of CometBFT: authenticated encryption between two nodes
//! (`p2p/conn/secret_connection.go`, a station-to-station protocol).
//!
//! Both ends send two messages, each before they read that of the other end:
//!
//! ```text
//! 0x22 0x0a 0x20, ephemeral X25519 key (32)
//! sealed: 0x66 0x0a 0x22 0x0a 0x20, Ed25519 key (32), 0x12 0x40, signature (64)
//! ```
//!
//! These are `BytesValue` and `AuthSigMessage` in protobuf with length prefixes, in the only form
//! that nodes write. The signature is over a challenge, which Merlin draws from both ephemeral keys
//! and the shared secret. HKDF with SHA-256 expands the shared secret to a key for each direction.
//! Frame n of a direction is sealed by ChaCha20-Poly1305 with the nonce n, and has the same length
//! whatever it carries: a length (4), the content with zeros behind it (1,024), a tag (16).

use std::io;

use ::ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ::ring::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
use ::ring::error::Unspecified;
use ::ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use ::ring::rand::SystemRandom;
use ed25519_dalek::{Signature, Signer, VerifyingKey};
use merlin::Transcript;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::identity::{Broken, NodeId, NodeKey};
use crate::status::Closed;

/// Maximum content of a sealed frame in bytes (`dataMaxSize`).
pub const PLAIN_MAX: usize = 1024;
/// Bytes of the length in front of the content.
const LENGTH: usize = 4;
const TAG: usize = 16;
/// Length of every sealed frame, full or not.
pub const SEALED: usize = LENGTH + PLAIN_MAX + TAG;

/// The bytes in front of an ephemeral key.
const KEY_HEAD: [u8; 3] = [0x22, 0x0a, 0x20];
/// The bytes in front of the key that signs, and in front of the signature.
const SIGNER_HEAD: [u8; 5] = [0x66, 0x0a, 0x22, 0x0a, 0x20];
const SIGNATURE_HEAD: [u8; 2] = [0x12, 0x40];

/// A secret connection. It holds the keys, and reads and writes memory.
pub struct Secret {
    sealing: Direction,
    /// `None` after a frame that does not open.
    opening: Option<Direction>,
    peer: NodeId,
}

impl Secret {
    /// Agrees on keys and authenticates the other end. Reads no bytes behind its two messages.
    ///
    /// # Errors
    /// The other end breaks the protocol or hangs up.
    pub async fn handshake(
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        key: &NodeKey,
    ) -> Result<Self, Closed> {
        let random = |_| Closed::handshake("the operating system has no random numbers");
        let private = EphemeralPrivateKey::generate(&X25519, &SystemRandom::new()).map_err(random)?;
        let public = private.compute_public_key().map_err(random)?;
        let own: &[u8; 32] = public.as_ref().try_into().map_err(Closed::handshake)?;
        stream.write_all(&[&KEY_HEAD[..], own].concat()).await.map_err(Closed::handshake)?;
        let mut message = [0; KEY_HEAD.len() + 32];
        stream.read_exact(&mut message).await.map_err(Closed::handshake)?;
        let theirs = message.strip_prefix(&KEY_HEAD).and_then(<[u8]>::first_chunk);
        let theirs = theirs.ok_or_else(|| Closed::handshake("the peer opens without an X25519 key"))?;
        let low_order = |_| Closed::handshake("the peer's X25519 key has a low order");
        let Agreed { sealing, opening, challenge } = agree(private, own, theirs).map_err(low_order)?;

        // The name is set when the other end has proved it.
        let mut secret = Self { sealing, opening: Some(opening), peer: key.id() };
        let mut frame = Vec::with_capacity(SEALED);
        secret.seal(&proof(key, &challenge), &mut frame).map_err(Closed::handshake)?;
        stream.write_all(&frame).await.map_err(Closed::handshake)?;
        stream.read_exact(&mut frame).await.map_err(Closed::handshake)?;
        let mut signed = Vec::with_capacity(PLAIN_MAX);
        secret.open(&mut frame, &mut signed).map_err(Closed::handshake)?;
        let peer = read_proof(&signed);
        let (peer, signature) =
            peer.ok_or_else(|| Closed::handshake("the peer sends no Ed25519 key with a signature"))?;
        peer.verify_strict(&challenge, &signature)
            .map_err(|_| Closed::handshake("the peer's signature does not match its key"))?;
        secret.peer = NodeId::of(&peer);
        Ok(secret)
    }

    pub(super) const fn peer(&self) -> NodeId {
        self.peer
    }

    /// Seals bytes, in frames of at most [`PLAIN_MAX`], and appends the frames.
    pub fn seal(&mut self, plain: &[u8], into: &mut Vec<u8>) -> io::Result<()> {
        for content in plain.chunks(PLAIN_MAX) {
            let start = into.len();
            into.extend_from_slice(&(content.len() as u32).to_le_bytes());
            into.extend_from_slice(content);
            into.resize(start + LENGTH + PLAIN_MAX, 0);
            self.sealing.seal(start, into).map_err(|_| io::Error::other("out of nonces"))?;
        }
        Ok(())
    }

    /// Opens one sealed frame of [`SEALED`] bytes in place, and appends its content. Returns the
    /// number of bytes appended.
    ///
    /// # Errors
    /// The sender does not have the key, frames are missing, or an earlier frame did not open.
    pub fn open(&mut self, frame: &mut [u8], into: &mut Vec<u8>) -> Result<usize, Broken> {
        let mut opening = self.opening.take().ok_or(Broken::Seal)?;
        let plain = opening.open(frame).map_err(|_| Broken::Seal)?;
        let (length, plain) = plain.split_first_chunk::<LENGTH>().ok_or(Broken::Seal)?;
        let content = plain.get(..u32::from_le_bytes(*length) as usize).ok_or(Broken::Seal)?;
        into.extend_from_slice(content);
        self.opening = Some(opening);
        Ok(content.len())
    }
}

/// The key of a direction, and the number of its next frame.
struct Direction {
    key: LessSafeKey,
    next: u64,
}

impl Direction {
    fn new(key: &[u8]) -> Result<Self, Unspecified> {
        Ok(Self { key: LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key)?), next: 0 })
    }

    fn nonce(&mut self) -> Result<Nonce, Unspecified> {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&self.next.to_le_bytes());
        self.next = self.next.checked_add(1).ok_or(Unspecified)?;
        Ok(Nonce::assume_unique_for_key(nonce))
    }

    /// Seals the bytes from `start`, and appends the tag.
    fn seal(&mut self, start: usize, bytes: &mut Vec<u8>) -> Result<(), Unspecified> {
        let nonce = self.nonce()?;
        let tag = self.key.seal_in_place_separate_tag(nonce, Aad::empty(), &mut bytes[start..])?;
        bytes.extend_from_slice(tag.as_ref());
        Ok(())
    }

    fn open<'a>(&mut self, frame: &'a mut [u8]) -> Result<&'a [u8], Unspecified> {
        let nonce = self.nonce()?;
        Ok(self.key.open_in_place(nonce, Aad::empty(), frame)?)
    }
}

/// The result of the agreement on keys.
struct Agreed {
    sealing: Direction,
    opening: Direction,
    /// The bytes that both ends sign.
    challenge: [u8; 32],
}

/// Computes the keys of a connection.
///
/// # Errors
/// The other key has a low order, so that the shared secret would be public.
fn agree(private: EphemeralPrivateKey, own: &[u8; 32], theirs: &[u8; 32]) -> Result<Agreed, Unspecified> {
    agree_ephemeral(private, &UnparsedPublicKey::new(&X25519, theirs), |shared| {
        let mut transcript = Transcript::new(b"TENDERMINT_SECRET_CONNECTION_TRANSCRIPT_HASH");
        transcript.append_message(b"EPHEMERAL_LOWER_PUBLIC_KEY", own.min(theirs));
        transcript.append_message(b"EPHEMERAL_UPPER_PUBLIC_KEY", own.max(theirs));
        transcript.append_message(b"DH_SECRET", shared);
        let mut challenge = [0; 32];
        transcript.challenge_bytes(b"SECRET_CONNECTION_MAC", &mut challenge);
        let keys = derive(shared)?;
        let [of_lower, of_upper] = [&keys[32..], &keys[..32]].map(Direction::new);
        let (sealing, opening) = if own < theirs { (of_lower, of_upper) } else { (of_upper, of_lower) };
        Ok(Agreed { sealing: sealing?, opening: opening?, challenge })
    })?
}

/// Derives two keys of 32 bytes from the shared secret: that with which the end with the upper
/// ephemeral key seals, and that of the other end (`deriveSecrets`).
fn derive(shared: &[u8]) -> Result<[u8; 64], Unspecified> {
    struct TwoKeys;
    impl KeyType for TwoKeys {
        fn len(&self) -> usize {
            64
        }
    }
    let mut keys = [0; 64];
    let secret = Salt::new(HKDF_SHA256, &[]).extract(shared);
    secret.expand(&[b"TENDERMINT_SECRET_CONNECTION_KEY_AND_CHALLENGE_GEN"], TwoKeys)?.fill(&mut keys)?;
    Ok(keys)
}

/// Writes the message by which a node proves its name.
fn proof(key: &NodeKey, challenge: &[u8; 32]) -> Vec<u8> {
    let (signer, signature) = (key.public(), key.signing().sign(challenge).to_bytes());
    [&SIGNER_HEAD[..], signer.as_bytes(), &SIGNATURE_HEAD, &signature].concat()
}

/// Reads such a message. The caller verifies the signature.
fn read_proof(message: &[u8]) -> Option<(VerifyingKey, Signature)> {
    let (signer, rest) = message.strip_prefix(&SIGNER_HEAD)?.split_first_chunk()?;
    let signature: &[u8; 64] = rest.strip_prefix(&SIGNATURE_HEAD)?.try_into().ok()?;
    Some((VerifyingKey::from_bytes(signer).ok()?, Signature::from_bytes(signature)))
}

/// Creates both ends of a secret connection. The dialling node has the secret of ones, the other
/// one that of twos.
#[cfg(any(test, feature = "fuzzing"))]
pub fn pair() -> (Secret, Secret) {
    let keys = [1, 2].map(|seed| NodeKey::from_secret([seed; 32]));
    let (mut one, mut other) = tokio::io::duplex(4 * SEALED);
    let handshakes = async {
        tokio::join!(Secret::handshake(&mut one, &keys[0]), Secret::handshake(&mut other, &keys[1]))
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime without drivers");
    let (dialled, accepted) = runtime.block_on(handshakes);
    let (dialled, accepted) = (dialled.expect("a handshake"), accepted.expect("a handshake"));
    assert_eq!(dialled.peer(), keys[1].id());
    assert_eq!(accepted.peer(), keys[0].id());
    (dialled, accepted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of `TestDeriveSecretsAndChallengeGolden.golden` of CometBFT: the shared secret, whether
    /// the own ephemeral key is the lower one, the key to open with, and the key to seal with.
    const VECTORS: [(&str, bool, &str, &str); 2] = [
        (
            "9fe4a5a73df12dbd8659b1d9280873fe993caefec6b0ebc2686dd65027148e03",
            true,
            "80a83ad6afcb6f8175192e41973aed31dd75e3c106f813d986d9567a4865eb2f",
            "96362a04f628a0666d9866147326898bb0847b8db8680263ad19e6336d4eed9e",
        ),
        (
            "0716764b370d543fee692af03832c16410f0a56e4ddb79604ea093b10bb6f654",
            false,
            "84f2b1e8658456529a2c324f46c3406c3c6fecd5fbbf9169f60bed8956a8b03d",
            "cba357ae33d7234520d5742102a2a6cdb39b7db59c14a58fa8aadd310127630f",
        ),
    ];

    #[test]
    fn keys_match_cometbft() {
        for (shared, is_lower, opening, sealing) in VECTORS {
            let keys = derive(&hex::decode(shared).unwrap()).unwrap();
            let (of_upper, of_lower) = keys.split_at(32);
            let expected = if is_lower { [of_upper, of_lower] } else { [of_lower, of_upper] };
            assert_eq!([opening, sealing].map(|key| hex::decode(key).unwrap()), expected);
        }
    }

    /// The keys of low order (<https://cr.yp.to/ecdh.html>), with and without the highest bit.
    #[test]
    fn keys_of_low_order_are_refused() {
        let mut keys = [
            "0000000000000000000000000000000000000000000000000000000000000000",
            "0100000000000000000000000000000000000000000000000000000000000000",
            "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
            "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
            "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
            "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
            "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        ]
        .map(|key| <[u8; 32]>::try_from(hex::decode(key).unwrap()).unwrap())
        .to_vec();
        keys.extend(keys.clone().into_iter().map(|mut key| {
            key[31] |= 0x80;
            key
        }));
        for key in keys {
            let private = EphemeralPrivateKey::generate(&X25519, &SystemRandom::new()).unwrap();
            assert!(agree(private, &[1; 32], &key).is_err(), "{}", hex::encode(key));
        }
    }

    fn directions() -> (Secret, Secret) {
        let end = |sealing: [u8; 32], opening: [u8; 32]| Secret {
            sealing: Direction::new(&sealing).unwrap(),
            opening: Some(Direction::new(&opening).unwrap()),
            peer: NodeKey::from_secret([1; 32]).id(),
        };
        (end([1; 32], [2; 32]), end([2; 32], [1; 32]))
    }

    #[test]
    fn contents_beyond_a_frame_are_refused() {
        for (length, opens) in [(0, true), (1024, true), (1025, false), (u32::MAX, false)] {
            let (mut one, mut other) = directions();
            let mut frame = vec![0; LENGTH + PLAIN_MAX];
            frame[..LENGTH].copy_from_slice(&u32::to_le_bytes(length));
            one.sealing.seal(0, &mut frame).unwrap();
            let mut plain = Vec::new();
            assert_eq!(other.open(&mut frame, &mut plain).is_ok(), opens, "{length}");
            assert_eq!(plain.len(), if opens { length as usize } else { 0 });
        }
        let (_, mut other) = directions();
        for len in [0, TAG, SEALED - 1] {
            assert_eq!(other.open(&mut vec![0; len], &mut Vec::new()), Err(Broken::Seal));
        }
    }

    #[test]
    fn nonces_are_not_reused() {
        let (mut one, _) = directions();
        one.sealing.next = u64::MAX - 1;
        assert!(one.seal(b"last", &mut Vec::new()).is_ok());
        assert!(one.seal(b"one too many", &mut Vec::new()).is_err());
    }

    #[test]
    fn proofs_have_one_form() {
        let key = NodeKey::from_secret([7; 32]);
        let good = proof(&key, &[3; 32]);
        assert_eq!(good.len(), 103);
        let (signer, signature) = read_proof(&good).unwrap();
        assert!(signer.verify_strict(&[3; 32], &signature).is_ok());
        assert!(signer.verify_strict(&[4; 32], &signature).is_err());
        let long = [&good[..], &[0]].concat();
        let secp256k1 = [&good[..3], &[0x12], &good[4..]].concat();
        for bad in [&long, &secp256k1, &good[..102], &[], &[0; 103]] {
            assert!(read_proof(bad).is_none(), "{}", hex::encode(bad));
        }
    }
}
