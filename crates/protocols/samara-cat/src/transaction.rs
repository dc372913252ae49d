//! Transactions, and the keys that name them.

use std::array::TryFromSliceError;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest, Sha256};

/// The name of a transaction: SHA-256 of its bytes (ADR 009; `types.TxKey` of celestia-core).
///
/// Peers may announce any 32 bytes, so a hash table of keys needs a
/// [`PeerKeyed`](samara_engine::PeerKeyed) hasher.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize))]
pub struct TxKey(#[cfg_attr(feature = "config", serde(with = "samara_engine::octets"))] [u8; Self::LEN]);

impl TxKey {
    pub const LEN: usize = 32;

    pub const fn new(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// Computes the key of an encoded transaction.
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
    /// Omits the length that arrays write first, since all keys are equally long.
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

/// A transaction: bytes that only the application interprets, and their key. Cheap to clone.
///
/// The key is computed once and shared by all nodes of a simulation that forward the transaction.
#[derive(Clone)]
pub struct Transaction(Arc<Inner>);

struct Inner {
    key: TxKey,
    bytes: Bytes,
}

impl Transaction {
    /// Returns a transaction whose key is the hash of its bytes.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self::with_key(TxKey::of(&bytes), bytes)
    }

    /// Returns a transaction with another key than the hash of its bytes, for applications whose
    /// transactions have several forms: a blob transaction of Celestia has the key of the
    /// transaction inside, as has the form in which it enters a block (`Tx.Key` of celestia-core).
    /// The caller must derive the key from the bytes, and not trust a peer.
    pub fn with_key(key: TxKey, bytes: impl Into<Bytes>) -> Self {
        Self(Arc::new(Inner { key, bytes: bytes.into() }))
    }

    pub fn key(&self) -> TxKey {
        self.0.key
    }

    pub fn bytes(&self) -> &Bytes {
        &self.0.bytes
    }

    /// Returns the length of the content in bytes.
    pub fn len(&self) -> usize {
        self.0.bytes.len()
    }

    /// Returns true if there is no content. Such a transaction is never valid.
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
