//! Sealing: content times the inverse of what all nodes of a team will multiply it by.

use std::collections::BTreeMap;

use bytes::Bytes;
use crypto_bigint::Uint;
use thiserror::Error;

use super::{FIELD_BYTES, SenderId, code, credential_bytes, payload_keys, sender_of};
use crate::content::{to_elements, void};
use crate::group::field::{Field, Form, Modulus};
use crate::group::with_field;
use crate::{Group, Secret};

/// A sender: its name, and the secrets that it shares with nodes.
#[derive(Clone, Debug)]
pub struct Sender {
    group: Group,
    id: SenderId,
    /// By the number of the node in the pool.
    secrets: BTreeMap<u32, Secret>,
}

/// A payload on its way to a team.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed {
    pub(crate) elements: Vec<u8>,
    pub(crate) credentials: Vec<u8>,
}

impl Sealed {
    /// The payload as it came over a network: its two elements, and salt, sender and codes.
    pub const fn from_parts(elements: Vec<u8>, credentials: Vec<u8>) -> Self {
        Self { elements, credentials }
    }

    /// A slot of nobody's, for a batch that has too few payloads: it comes out as [`Outcome::Void`](crate::Outcome::Void).
    pub fn void(group: Group, team: usize) -> Self {
        Self { elements: void(group), credentials: vec![0; credential_bytes(team)] }
    }

    /// Whether it has the lengths that a slot of a team of so many nodes has.
    pub const fn fits(&self, group: Group, team: usize) -> bool {
        self.elements.len() == group.slot_bytes() && self.credentials.len() == credential_bytes(team)
    }

    /// Whom it says that it is from, if it is long enough to say so. Nodes check it by codes.
    pub fn sender(&self) -> Option<SenderId> {
        (self.credentials.len() >= 2 * FIELD_BYTES).then(|| sender_of(&self.credentials))
    }

    /// What goes over a network.
    pub fn into_parts(self) -> (Vec<u8>, Vec<u8>) {
        (self.elements, self.credentials)
    }
}

impl std::fmt::Debug for Sealed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sealed({} bytes, {} of credentials)", self.elements.len(), self.credentials.len())
    }
}

/// Why content was not sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SealError {
    /// Content has a fixed length.
    #[error("content of {found} bytes, slots carry {expected}")]
    Length {
        /// Its length.
        found: usize,
        /// What slots of the group carry.
        expected: usize,
    },
    /// No secret is shared with a node of the team.
    #[error("no secret is shared with node {node}")]
    Stranger {
        /// Its number in the pool.
        node: u32,
    },
}

impl Sender {
    /// A sender that shares no secrets yet.
    pub const fn new(group: Group, id: SenderId) -> Self {
        Self { group, id, secrets: BTreeMap::new() }
    }

    /// Its name.
    pub const fn id(&self) -> SenderId {
        self.id
    }

    /// Takes note of the secret that is shared with a node.
    pub fn register(&mut self, node: u32, secret: Secret) {
        self.secrets.insert(node, secret);
    }

    /// Seals content for a round of a team. A salt must be random, and is never used again.
    ///
    /// # Errors
    /// The content has another length than [`Group::content_bytes`], or a node of the team is not known.
    pub fn seal(
        &self,
        round: u64,
        team: &[u32],
        salt: [u8; 32],
        content: &[u8],
    ) -> Result<Sealed, SealError> {
        let (found, expected) = (content.len(), self.group.content_bytes());
        if found != expected {
            return Err(SealError::Length { found, expected });
        }
        let shared = |node: &u32| self.secrets.get(node).ok_or(SealError::Stranger { node: *node });
        let secrets = team.iter().map(shared).collect::<Result<Vec<&Secret>, SealError>>()?;
        let mut elements = to_elements(self.group, content);
        with_field!(self.group, F => F::cover(&mut elements, round, &salt, &secrets), model => ());
        let mut credentials = Vec::with_capacity(credential_bytes(team.len()));
        credentials.extend_from_slice(&salt);
        credentials.extend_from_slice(&self.id.0);
        for (seat, secret) in secrets.iter().enumerate() {
            let covered = if seat == 0 { &elements[..] } else { &[] };
            credentials.extend_from_slice(code(secret, round, &salt, self.id, covered).as_bytes());
        }
        Ok(Sealed { elements, credentials })
    }
}

impl<M: Modulus<LIMBS>, const LIMBS: usize> Field<M, LIMBS> {
    /// Multiplies both elements by the inverses of the keys of all nodes.
    fn cover(elements: &mut [u8], round: u64, salt: &[u8; FIELD_BYTES], secrets: &[&Secret]) {
        let keys = |secret: &&Secret| {
            let mut stream = payload_keys(secret, round, salt);
            [Self::random(&mut stream), Self::random(&mut stream)]
        };
        let multiply = |[a, b]: [_; 2], [c, d]: [_; 2]| [Form::<M, LIMBS>::mul(&a, &c), Form::mul(&b, &d)];
        let Some(products) = secrets.iter().map(keys).reduce(multiply) else { return };
        for (element, product) in elements.chunks_exact_mut(Self::BYTES).zip(products) {
            // Keys are not 0, and the modulus is prime: there is an inverse.
            let Some(inverse) = product.invert().into_option() else { return };
            let mut out = Vec::with_capacity(Self::BYTES);
            Self::write(&Self::times(&Uint::from_be_slice(element), &inverse), &mut out);
            element.copy_from_slice(&out);
        }
    }
}

/// The payloads of one round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    pub(crate) slots: usize,
    pub(crate) elements: Bytes,
    pub(crate) credentials: Bytes,
}

/// Why payloads make no batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BatchError {
    /// There are none.
    #[error("a batch without payloads")]
    Empty,
    /// They were sealed for different groups, or teams of different sizes.
    #[error("payload {index} has other lengths than the first one")]
    Mixed {
        /// Which one.
        index: usize,
    },
}

impl Batch {
    /// The batch of these payloads, in this order.
    ///
    /// # Errors
    /// There are none, or they do not belong together.
    pub fn new(slots: &[Sealed]) -> Result<Self, BatchError> {
        let lengths = |slot: &Sealed| (slot.elements.len(), slot.credentials.len());
        let first = slots.first().ok_or(BatchError::Empty)?;
        if let Some(index) = slots.iter().position(|slot| lengths(slot) != lengths(first)) {
            return Err(BatchError::Mixed { index });
        }
        let elements = slots.iter().flat_map(|slot| &slot.elements).copied().collect();
        let credentials = slots.iter().flat_map(|slot| &slot.credentials).copied().collect();
        Ok(Self { slots: slots.len(), elements, credentials })
    }

    /// How many payloads.
    pub const fn len(&self) -> usize {
        self.slots
    }

    /// Whether there are none, which cannot be.
    pub const fn is_empty(&self) -> bool {
        self.slots == 0
    }
}
