//! How a sender and a node come to share a secret: Diffie and Hellman, in the group of the payloads, as the original does.

use std::fmt;

use blake3::Hasher;
use crypto_bigint::Uint;
use zeroize::Zeroizing;

use crate::compute::BadElement;
use crate::group::with_field;
use crate::{Group, Secret};

/// A key of a sender or of a node for [`agree`](Self::agree). The secret half is erased when dropped.
pub struct KeyPair {
    group: Group,
    secret: Secret,
    public: Vec<u8>,
}

const PURPOSE: &str = "key pair";

impl KeyPair {
    /// The pair that follows from a secret.
    pub fn new(group: Group, secret: Secret) -> Self {
        let public = with_field!(group, F => {
            let two = Uint::from_u8(2);
            let exponent = Zeroizing::new(F::random_exponent(&mut secret.stream(PURPOSE, 0)));
            let mut out = Vec::new();
            F::write(&F::power(&two, &exponent, F::EXPONENT_BYTES as u32 * 8), &mut out);
            out
        }, model => {
            // Nothing is secret in a model.
            let mut out = vec![0; group.element_bytes()];
            secret.stream(PURPOSE, 0).fill(&mut out);
            out
        });
        Self { group, secret, public }
    }

    /// What the other side needs.
    pub fn public(&self) -> &[u8] {
        &self.public
    }

    /// The secret shared with the owner of another public key.
    ///
    /// # Errors
    /// The other key is no element of the group, or is 1.
    pub fn agree(&self, other: &[u8]) -> Result<Secret, BadElement> {
        let mut shared = Zeroizing::new(Vec::new());
        with_field!(self.group, F => {
            let element = F::read(other).filter(|element| *element != Uint::ONE).ok_or(BadElement)?;
            let exponent = Zeroizing::new(F::random_exponent(&mut self.secret.stream(PURPOSE, 0)));
            F::write(&F::power(&element, &exponent, F::EXPONENT_BYTES as u32 * 8), &mut shared);
        }, model => ());
        // Both keys are part of it, in the same order on both sides.
        let (first, second) =
            if self.public[..] <= *other { (&self.public[..], other) } else { (other, &self.public[..]) };
        let mut hasher = Hasher::new_derive_key("samara-mix 1 shared key of sender and node");
        hasher.update(&shared).update(first).update(second);
        Ok(Secret::new(*hasher.finalize().as_bytes()))
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyPair({})", self.group.name())
    }
}
