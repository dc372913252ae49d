//! Transactions and the keys that name them.

use std::array::TryFromSliceError;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest, Sha256};

/// The name of a transaction: SHA-256 of its bytes (ADR 009; `types.TxKey` of celestia-core).
///
/// Peers may announce any 32 bytes: a hash table of keys needs a [`PeerKeyed`](samara_engine::PeerKeyed) hasher.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TxKey([u8; Self::LEN]);

impl TxKey {
    pub const LEN: usize = 32;

    pub const fn new(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    pub fn of(raw: &[u8]) -> Self {
        Self(Sha256::digest(raw).into())
    }

    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

impl TryFrom<&[u8]> for TxKey {
    type Error = TryFromSliceError;

    fn try_from(bytes: &[u8]) -> Result<Self, TryFromSliceError> {
        bytes.try_into().map(Self)
    }
}

impl Hash for TxKey {
    /// Without the length that arrays write first: all keys are equally long.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.0);
    }
}

impl fmt::Debug for TxKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Display for TxKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A transaction: bytes that mean something to the application, and their key. Cheap to clone.
///
/// The key is computed once: the nodes of a simulation that pass a transaction on share it.
#[derive(Clone)]
pub struct Transaction(Arc<Inner>);

struct Inner {
    key: TxKey,
    bytes: Bytes,
}

impl Transaction {
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self::with_key(TxKey::of(&bytes), bytes)
    }

    /// A transaction with another key than that of its bytes, for applications whose transactions have several forms:
    /// a blob transaction of Celestia has the key of the transaction inside, as has the form in which it enters a block
    /// (`Tx.Key` of celestia-core). The caller must have derived the key from the bytes: a peer's word is not enough.
    pub fn with_key(key: TxKey, bytes: impl Into<Bytes>) -> Self {
        Self(Arc::new(Inner { key, bytes: bytes.into() }))
    }

    pub fn key(&self) -> TxKey {
        self.0.key
    }

    pub fn bytes(&self) -> &Bytes {
        &self.0.bytes
    }

    /// The length of its content in bytes.
    pub fn len(&self) -> usize {
        self.0.bytes.len()
    }

    /// Whether there is no content. Such a transaction is never valid.
    pub fn is_empty(&self) -> bool {
        self.0.bytes.is_empty()
    }

    pub(crate) fn key_ref(&self) -> &TxKey {
        &self.0.key
    }
}

impl PartialEq for Transaction {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.0.key == other.0.key && self.0.bytes == other.0.bytes)
    }
}

impl Eq for Transaction {}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transaction({}, {} B)", self.0.key, self.len())
    }
}
