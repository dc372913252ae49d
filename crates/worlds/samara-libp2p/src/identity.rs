//! Identities, keys and signatures of libp2p for the engine.

#[cfg(test)]
mod tests;

use libp2p::PeerId;
use libp2p::identity::{Keypair, PublicKey};
use samara_engine::PeerIdentity;
use samara_gossipsub::signature::{Signer, Verifier};

/// Returns the engine's identity of a peer: the bytes of its id.
pub fn identity_of(peer: &PeerId) -> PeerIdentity {
    PeerIdentity::new(&peer.to_bytes())
}

/// Returns the peer of an engine's identity, if it is a libp2p peer id.
pub fn peer_id_of(identity: &PeerIdentity) -> Option<PeerId> {
    PeerId::from_bytes(identity.as_bytes()).ok()
}

/// Signs messages with a key pair.
#[derive(Clone, Debug)]
pub(crate) struct KeySigner(Keypair);

impl KeySigner {
    /// Creates a signer for the identity of this key pair.
    pub(crate) fn new(keypair: &Keypair) -> Self {
        Self(keypair.clone())
    }
}

impl Signer for KeySigner {
    fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        // Fails only for RSA keys that are too short, which cannot be loaded in the first place.
        // Every peer rejects a missing signature, so a failure is noticed at once.
        self.0.sign(bytes).unwrap_or_default()
    }

    fn attached_key(&self) -> Option<Vec<u8>> {
        let public = self.0.public();
        key_within(&public.to_peer_id()).is_none().then(|| public.encode_protobuf())
    }
}

/// Checks signatures of libp2p identities.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyVerifier;

impl Verifier for KeyVerifier {
    fn verify(&self, author: &[u8], key: Option<&[u8]>, bytes: &[u8], signature: &[u8]) -> bool {
        let Ok(author) = PeerId::from_bytes(author) else { return false };
        let public = match key {
            Some(key) => PublicKey::try_decode_protobuf(key).ok(),
            None => key_within(&author),
        };
        public.is_some_and(|public| public.to_peer_id() == author && public.verify(bytes, signature))
    }
}

/// Returns the public key that an identity contains: identities of short keys are the key itself
/// (multihash code 0).
fn key_within(peer: &PeerId) -> Option<PublicKey> {
    let hash = peer.as_ref();
    (hash.code() == 0).then(|| PublicKey::try_decode_protobuf(hash.digest()).ok()).flatten()
}
