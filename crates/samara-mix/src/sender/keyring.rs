//! What a node shares with senders, and what follows from it for one slot of one round.

use std::collections::BTreeMap;

use thiserror::Error;

use super::{FIELD_BYTES, SenderId};
use crate::Secret;
use crate::secret::Stream;

/// The secrets that a node shares with senders.
#[derive(Clone, Debug)]
pub struct Keyring {
    secrets: BTreeMap<SenderId, Secret>,
    senders_max: usize,
}

/// Why a sender was not registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RegisterError {
    /// The name stands for nobody.
    #[error("32 zeros are the name of nobody")]
    Nobody,
    /// There are as many as are allowed.
    #[error("{max} senders are registered already")]
    Full {
        /// How many that is.
        max: usize,
    },
}

impl Keyring {
    /// A keyring for so many senders at most.
    pub const fn new(senders_max: usize) -> Self {
        Self { secrets: BTreeMap::new(), senders_max }
    }

    /// Registers a sender, or gives it another secret.
    ///
    /// # Errors
    /// The name is that of nobody, or there are too many.
    pub fn register(&mut self, sender: SenderId, secret: Secret) -> Result<(), RegisterError> {
        if sender == SenderId::NOBODY {
            return Err(RegisterError::Nobody);
        }
        if !self.secrets.contains_key(&sender) && self.secrets.len() >= self.senders_max {
            return Err(RegisterError::Full { max: self.senders_max });
        }
        self.secrets.insert(sender, secret);
        Ok(())
    }

    /// Forgets a sender. Whether it was known.
    pub fn remove(&mut self, sender: SenderId) -> bool {
        self.secrets.remove(&sender).is_some()
    }

    /// How many senders are known.
    pub fn len(&self) -> usize {
        self.secrets.len()
    }

    /// Whether no sender is known.
    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    pub(crate) fn secret(&self, sender: SenderId) -> Option<&Secret> {
        self.secrets.get(&sender)
    }
}

/// The stream that the keys of a slot come from, first that of element A, then that of B, at the sender and at the node.
pub(crate) fn payload_keys(shared: &Secret, round: u64, salt: &[u8; FIELD_BYTES]) -> Stream {
    shared.stream_of("payload keys", &[&round.to_le_bytes(), salt])
}

/// The code by which a node knows that a registered sender made a slot for this round. The first node of a team sees the elements as
/// the sender made them, and its code covers them; for the others `elements` is empty.
pub(crate) fn code(
    shared: &Secret,
    round: u64,
    salt: &[u8; FIELD_BYTES],
    sender: SenderId,
    elements: &[u8],
) -> blake3::Hash {
    let mut code = [0; FIELD_BYTES];
    shared.stream_of("code", &[&round.to_le_bytes(), salt, &sender.0, elements]).fill(&mut code);
    // Hashes are compared in constant time.
    blake3::Hash::from_bytes(code)
}
