//! Who sends payloads: the keys it shares with nodes, and how it seals content.

mod agree;
mod keyring;
mod seal;

use std::fmt;

pub use agree::KeyPair;
pub use keyring::{Keyring, RegisterError};
pub use seal::{Batch, BatchError, SealError, Sealed, Sender};

pub(crate) use keyring::{code, payload_keys};

/// The name of a sender, for example the hash of its public key. 32 zeros are nobody.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SenderId(pub [u8; 32]);

impl SenderId {
    /// Nobody: the sender of a slot that a node voided.
    pub const NOBODY: Self = Self([0; 32]);
}

impl fmt::Debug for SenderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sender ")?;
        self.0[..4].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The sender in the credentials of a slot.
pub(crate) fn sender_of(credentials: &[u8]) -> SenderId {
    let mut name = [0; FIELD_BYTES];
    name.copy_from_slice(&credentials[FIELD_BYTES..2 * FIELD_BYTES]);
    SenderId(name)
}

/// Bytes of a salt, of a name and of a code.
pub(crate) const FIELD_BYTES: usize = 32;

/// Bytes that go with a slot into real-time decryption: salt, sender, and a code for each node that has not checked it yet.
pub(crate) const fn credential_bytes(codes: usize) -> usize {
    (2 + codes) * FIELD_BYTES
}
