//! Frames between pools: the protobuf of celestia-core (`proto/tendermint/mempool/types.proto`),
//! and our extensions of it.
//!
//! ```text
//! message Message {
//!   oneof sum {
//!     Txs          txs      = 1;
//!     SeenTx       seen_tx  = 2;
//!     WantTx       want_tx  = 3;
//!     // Ours: sent only to peers that have agreed on `cat/2`.
//!     SeenKeys     seen     = 10;
//!     Keys         want     = 11;
//!     Keys         missing  = 12;
//!     Bundle       bundle   = 13;
//!     CompactBlock block    = 14;
//!   }
//! }
//! message Txs          { repeated bytes txs = 1; }
//! message SeenTx       { bytes tx_key = 1; optional string from = 2; }                     // as benchmarked in January 2023
//! message SeenTx       { bytes tx_key = 1; uint64 sequence = 2; bytes signer = 3; }        // since 2025
//! message WantTx       { bytes tx_key = 1; }
//! message SeenKeys     { bytes keys = 1; uint32 kind = 2; fixed64 pushed_by = 3; }
//! message Keys         { bytes keys = 1; }                                                 // 32 bytes each, concatenated
//! message Bundle       { repeated Member members = 1; }
//! message Member       { oneof of { bytes tx = 1; bytes key = 2; } }
//! message CompactBlock { uint64 height = 1; bytes keys = 2; }
//! ```
//!
//! The two forms of `SeenTx` differ in the wire type of field 2, so that one decoder handles both.
//! A frame's bytes are the protobuf message alone: length prefixes, packets and channels belong to
//! the transport (`PacketMsg` of CometBFT's `MConnection`).
//!
//! The codec is hand-written because lengths must be known without encoding, bodies must not be
//! copied, and every limit must be checked before memory is allocated. As in gogoproto, the last of
//! several kinds in a message wins. Unknown fields are skipped.

mod codec;
mod keys;

use std::sync::Arc;

use samara_engine::{Frame, NodeRng, alter};

use crate::pool::Signer;
use crate::{Transaction, TxKey};

pub use codec::{decode, encode};
pub use keys::KeyList;
pub use samara_engine::protobuf::{WireError, WireErrorKind};

/// Hard limits of decoding. Frames beyond them are rejected. They bound the memory that a frame can
/// claim to a small multiple of its length: without them a peer could fill a frame with empty
/// entries, each of which takes far more memory than bytes on the wire (celestia-core had to fix
/// that: #3227).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum length of a frame in bytes (`RecvMessageCapacity` of the channel in celestia-core:
    /// one transaction of maximum size, and about 8 bytes around it). Ours is larger, for bundles.
    pub frame_bytes: usize,
    /// Maximum number of transactions in a `Txs`. celestia-core sends one, and since 2026 rejects
    /// more; older pools had no limit.
    pub txs: usize,
    /// Maximum length of a `from` in bytes. An id has 40 characters.
    pub from_bytes: usize,
    /// Maximum length of a `signer` in bytes (`maxSignerLength` in `mempool/cat/reactor.go`).
    pub signer_bytes: usize,
    pub members: usize,
    pub block_keys: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame_bytes: 4 << 20,
            txs: 1_024,
            from_bytes: 128,
            signer_bytes: 64,
            members: 1_024,
            block_keys: 100_000,
        }
    }
}

/// A frame between pools: two words, cheap to clone. Clones share the content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatFrame {
    /// A complete transaction (`Txs` with one).
    Tx(Transaction),
    /// No or several complete transactions (`Txs`); see [`CatFrame::txs`].
    Txs(Arc<Vec<Transaction>>),
    /// An announcement of a transaction that the sender has (`SeenTx`).
    SeenTx(Arc<SeenTx>),
    /// A request for a transaction (`WantTx`).
    WantTx(Arc<TxKey>),
    /// An announcement of several keys that the sender has (extension).
    SeenKeys(Arc<SeenKeys>),
    /// A request for several keys (extension).
    WantKeys(Arc<KeyList>),
    /// An answer to a request, with the keys that the sender does not have (extension).
    NotFound(Arc<KeyList>),
    /// The transactions of a bundle, which share one key (extension).
    Bundle(Arc<Bundle>),
    /// The keys of the transactions in a proposed block (extension).
    CompactBlock(Arc<CompactBlock>),
}

/// An announcement of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenTx {
    pub key: TxKey,
    pub details: Option<SeenDetails>,
}

/// The fields that some generations add to an announcement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenDetails {
    /// The peer that pushed the transaction to the sender unrequested (G0 with `From`: 40
    /// hexadecimal digits, or empty).
    pub from: Option<Arc<str>>,
    /// The sequence number among the transactions of its signer (G3).
    pub sequence: u64,
    /// The account that signed the transaction (G3).
    pub signer: Option<Signer>,
}

impl From<TxKey> for SeenTx {
    fn from(key: TxKey) -> Self {
        Self { key, details: None }
    }
}

/// The kind of object that a key names, with its number on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    #[default]
    Transaction,
    Bundle,
    Block,
}

/// The first eight bytes of a node's address, which suffice to distinguish the neighbours of a
/// node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PushedBy(pub u64);

/// An announcement of several keys of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenKeys {
    pub keys: KeyList,
    pub kind: Kind,
    /// The peer that pushed all of them to the sender unrequested. It is pushing them to its other
    /// peers at the same time.
    pub pushed_by: Option<PushedBy>,
}

/// A transaction of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Member {
    Full(Transaction),
    /// Only the key: the sender no longer has the transaction.
    Key(TxKey),
}

impl Member {
    pub fn key(&self) -> TxKey {
        match self {
            Self::Full(tx) => tx.key(),
            Self::Key(key) => *key,
        }
    }
}

/// Transactions that share one key (ADR 009, "Ongoing work": transaction bundling).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    key: TxKey,
    members: Vec<Member>,
}

impl Bundle {
    pub fn new(members: Vec<Member>) -> Self {
        let keys: Vec<u8> = members.iter().flat_map(|member| *member.key().as_bytes()).collect();
        Self { key: TxKey::of(&keys), members }
    }

    /// Returns its key: SHA-256 over the concatenated keys of the members.
    pub fn key(&self) -> TxKey {
        self.key
    }

    pub fn members(&self) -> &[Member] {
        &self.members
    }
}

/// The keys of the transactions in a proposed block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactBlock {
    key: TxKey,
    height: u64,
    keys: Vec<TxKey>,
}

impl CompactBlock {
    pub fn new(height: u64, keys: Vec<TxKey>) -> Self {
        let mut bytes = height.to_be_bytes().to_vec();
        keys.iter().for_each(|key| bytes.extend_from_slice(key.as_bytes()));
        Self { key: TxKey::of(&bytes), height, keys }
    }

    /// Returns its key: SHA-256 over the height (8 bytes, big endian) and the keys.
    pub fn key(&self) -> TxKey {
        self.key
    }

    pub fn height(&self) -> u64 {
        self.height
    }

    /// Returns the keys of its transactions, in order.
    pub fn keys(&self) -> &[TxKey] {
        &self.keys
    }
}

impl Frame for CatFrame {
    fn encoded_len(&self) -> usize {
        codec::encoded_len(self)
    }

    fn payload_len(&self) -> usize {
        match self {
            Self::Bundle(bundle) => bundle.members.iter().map(|member| body_of(member).len()).sum(),
            _ => self.bodies().iter().map(Transaction::len).sum(),
        }
    }

    fn altered(&self, rng: &mut NodeRng) -> Option<Self> {
        let mut bytes = Vec::with_capacity(self.encoded_len());
        codec::encode(self, &mut bytes);
        alter(&mut bytes, rng);
        codec::decode(&bytes.into(), &Limits::default()).ok()
    }
}

impl CatFrame {
    pub fn tx(tx: Transaction) -> Self {
        Self::Tx(tx)
    }

    /// Returns a frame with transactions, usually one.
    pub fn txs(mut txs: Vec<Transaction>) -> Self {
        match (txs.len(), txs.pop()) {
            (1, Some(tx)) => Self::Tx(tx),
            (_, last) => {
                txs.extend(last);
                Self::Txs(Arc::new(txs))
            }
        }
    }

    /// Returns the separate transactions of a frame; none for a bundle.
    pub fn bodies(&self) -> &[Transaction] {
        match self {
            Self::Tx(tx) => std::slice::from_ref(tx),
            Self::Txs(txs) => txs,
            _ => &[],
        }
    }

    /// Returns the announcement of one transaction, as merged.
    pub fn seen(key: TxKey) -> Self {
        SeenTx::from(key).into()
    }

    /// Returns the request for one transaction.
    pub fn want(key: TxKey) -> Self {
        Self::WantTx(Arc::new(key))
    }

    pub fn want_keys(keys: KeyList) -> Self {
        Self::WantKeys(Arc::new(keys))
    }

    pub fn not_found(keys: KeyList) -> Self {
        Self::NotFound(Arc::new(keys))
    }
}

impl From<SeenTx> for CatFrame {
    fn from(seen: SeenTx) -> Self {
        Self::SeenTx(Arc::new(seen))
    }
}

impl From<SeenKeys> for CatFrame {
    fn from(seen: SeenKeys) -> Self {
        Self::SeenKeys(Arc::new(seen))
    }
}

fn body_of(member: &Member) -> &[u8] {
    match member {
        Member::Full(tx) => tx.bytes(),
        Member::Key(_) => &[],
    }
}

/// Frames pass through many queues, and the simulator holds millions of them. Two words each move
/// in registers.
const _: () = assert!(size_of::<CatFrame>() == 16);
