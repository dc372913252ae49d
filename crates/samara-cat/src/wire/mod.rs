//! What pools say to each other: the protobuf of celestia-core (`proto/tendermint/mempool/types.proto`), and our extensions of it.
//!
//! ```text
//! message Message {
//!   oneof sum {
//!     Txs          txs      = 1;
//!     SeenTx       seen_tx  = 2;
//!     WantTx       want_tx  = 3;
//!     // Ours: only ever sent to peers that have agreed on `cat/2`.
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
//! message Keys         { bytes keys = 1; }                                                 // 32 bytes each, one after another
//! message Bundle       { repeated Member members = 1; }
//! message Member       { oneof of { bytes tx = 1; bytes key = 2; } }
//! message CompactBlock { uint64 height = 1; bytes keys = 2; }
//! ```
//!
//! The two forms of `SeenTx` have another wire type at field 2, so that one reader takes both. A frame's bytes are the protobuf
//! message alone: length prefixes, packets and channels belong to the transport (`PacketMsg` of CometBFT's `MConnection`).
//!
//! Written and read by hand, because lengths must be known without encoding, bodies must not be copied, and every bound must
//! hold before memory is taken. As in gogoproto the last of several kinds in a message counts. Unknown fields are skipped.

mod codec;
mod keys;

use std::sync::Arc;

use samara_engine::Frame;

use crate::pool::Signer;
use crate::{Transaction, TxKey};

pub use codec::{decode, encode};
pub use keys::KeyList;
pub use samara_engine::protobuf::{WireError, WireErrorKind};

/// Hard bounds of reading: beyond, the frame is refused. They bound the memory that a frame can claim to a small multiple of its
/// length: without them a peer could pack a frame with empty entries, of which each costs far more in memory than on the wire
/// (celestia-core had to repair that: #3227).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a frame (`RecvMessageCapacity` of the channel in celestia-core: one transaction of the largest size, and 8
    /// bytes or so around it). Ours is larger, for bundles.
    pub frame_bytes: usize,
    /// Transactions in a `Txs`. celestia-core sends one, and refuses more since 2026; older pools had no limit.
    pub txs: usize,
    /// Bytes of a `from`: an id has 40 characters.
    pub from_bytes: usize,
    /// Bytes of a `signer` (`maxSignerLength` in `mempool/cat/reactor.go`).
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

/// A frame: two words, and cheap to clone. What it says is shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatFrame {
    /// A transaction in full (`Txs` with one).
    Tx(Transaction),
    /// None, or several in full (`Txs`); see [`CatFrame::txs`].
    Txs(Arc<Vec<Transaction>>),
    /// The sender has a transaction (`SeenTx`).
    SeenTx(Arc<SeenTx>),
    /// The sender wants a transaction (`WantTx`).
    WantTx(Arc<TxKey>),
    /// The sender has all of these (extension).
    SeenKeys(Arc<SeenKeys>),
    /// The sender wants all of these (extension).
    WantKeys(Arc<KeyList>),
    /// The sender was asked for these, and does not have them (extension).
    NotFound(Arc<KeyList>),
    /// The transactions that go by one key together (extension).
    Bundle(Arc<Bundle>),
    /// The transactions of a proposed block, by their keys (extension).
    CompactBlock(Arc<CompactBlock>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenTx {
    pub key: TxKey,
    pub details: Option<SeenDetails>,
}

/// What some generations add to an announcement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenDetails {
    /// From whom the sender has it, if it had not asked for it (G0 with `From`: 40 hexadecimal digits, or nothing).
    pub from: Option<Arc<str>>,
    /// Its place among the transactions of its signer (G3).
    pub sequence: u64,
    /// Whose it is (G3).
    pub signer: Option<Signer>,
}

impl From<TxKey> for SeenTx {
    fn from(key: TxKey) -> Self {
        Self { key, details: None }
    }
}

/// What a key is the key of, with its number on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    #[default]
    Transaction,
    Bundle,
    Block,
}

/// The first eight bytes of a node's address: enough to tell the neighbours of a node apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PushedBy(pub u64);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenKeys {
    pub keys: KeyList,
    pub kind: Kind,
    /// The peer that pushed all of them to the sender, unasked: it pushes to its other peers too, at this moment.
    pub pushed_by: Option<PushedBy>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Member {
    Full(Transaction),
    /// By its key only: the sender does not have it any more.
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

/// Transactions that go by one key together (ADR 009, "Ongoing work": transaction bundling).
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

    /// Its key: SHA-256 over the keys of the members, one after another.
    pub fn key(&self) -> TxKey {
        self.key
    }

    pub fn members(&self) -> &[Member] {
        &self.members
    }
}

/// The transactions of a proposed block, by their keys.
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

    /// Its key: SHA-256 over the height (8 bytes, the highest first) and the keys.
    pub fn key(&self) -> TxKey {
        self.key
    }

    pub fn height(&self) -> u64 {
        self.height
    }

    /// The keys of its transactions, in order.
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
}

impl CatFrame {
    pub fn tx(tx: Transaction) -> Self {
        Self::Tx(tx)
    }

    /// A frame with transactions: nearly always one.
    pub fn txs(mut txs: Vec<Transaction>) -> Self {
        match (txs.len(), txs.pop()) {
            (1, Some(tx)) => Self::Tx(tx),
            (_, last) => {
                txs.extend(last);
                Self::Txs(Arc::new(txs))
            }
        }
    }

    /// The transactions of a frame that has them one by one.
    pub fn bodies(&self) -> &[Transaction] {
        match self {
            Self::Tx(tx) => std::slice::from_ref(tx),
            Self::Txs(txs) => txs,
            _ => &[],
        }
    }

    /// The announcement of one transaction, as merged.
    pub fn seen(key: TxKey) -> Self {
        SeenTx::from(key).into()
    }

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

/// Frames pass through many queues, and the simulator holds millions of them: with two words each they move in registers.
const _: () = assert!(size_of::<CatFrame>() == 16);
