//! Frames as the engine sees them.

use std::sync::Arc;

use samara_engine::Frame;

use super::{KeyList, encode};
use crate::pool::Signer;
use crate::{Transaction, TxKey};

/// A frame. Cheap to clone: what is large is shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatFrame {
    /// Transactions in full (`Txs`).
    Txs(Bodies),
    /// The sender has a transaction (`SeenTx`).
    SeenTx(SeenTx),
    /// The sender wants a transaction (`WantTx`).
    WantTx(TxKey),
    /// The sender has all of these (extension).
    SeenKeys(SeenKeys),
    /// The sender wants all of these (extension).
    WantKeys(KeyList),
    /// The sender was asked for these, and does not have them (extension).
    NotFound(KeyList),
    /// The transactions that go by one key together (extension).
    Bundle(Arc<Bundle>),
    /// The transactions of a proposed block, by their keys (extension).
    CompactBlock(Arc<CompactBlock>),
}

/// Transactions in full: nearly always one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bodies {
    /// One.
    One(Transaction),
    /// None, or several.
    Many(Arc<[Transaction]>),
}

impl Bodies {
    /// The transactions.
    pub fn as_slice(&self) -> &[Transaction] {
        match self {
            Self::One(tx) => std::slice::from_ref(tx),
            Self::Many(txs) => txs,
        }
    }
}

impl From<Transaction> for Bodies {
    fn from(tx: Transaction) -> Self {
        Self::One(tx)
    }
}

impl From<Vec<Transaction>> for Bodies {
    fn from(mut txs: Vec<Transaction>) -> Self {
        match (txs.len(), txs.pop()) {
            (1, Some(tx)) => Self::One(tx),
            (_, last) => {
                txs.extend(last);
                Self::Many(txs.into())
            }
        }
    }
}

/// The announcement of one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenTx {
    /// Which.
    pub key: TxKey,
    /// What some generations add.
    pub details: Option<Arc<SeenDetails>>,
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

/// What a key is the key of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A transaction.
    #[default]
    Transaction,
    /// A [`Bundle`].
    Bundle,
    /// A [`CompactBlock`].
    Block,
}

/// The first eight bytes of a node's address: enough to tell the neighbours of a node apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PushedBy(pub u64);

/// The announcement of several transactions, bundles or blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenKeys {
    /// Their keys.
    pub keys: KeyList,
    /// What they are.
    pub kind: Kind,
    /// The peer that pushed all of them to the sender, unasked: it pushes to its other peers too, at this moment.
    pub pushed_by: Option<PushedBy>,
}

/// A member of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Member {
    /// In full.
    Full(Transaction),
    /// By its key only: the sender does not have it any more.
    Key(TxKey),
}

impl Member {
    /// Its key.
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
    /// The bundle of these transactions.
    pub fn new(members: Vec<Member>) -> Self {
        let keys: Vec<u8> = members.iter().flat_map(|member| *member.key().as_bytes()).collect();
        Self { key: TxKey::of(&keys), members }
    }

    /// Its key: SHA-256 over the keys of the members, one after another.
    pub fn key(&self) -> TxKey {
        self.key
    }

    /// The transactions.
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
    /// The block of this height with these transactions.
    pub fn new(height: u64, keys: Vec<TxKey>) -> Self {
        let mut bytes = height.to_be_bytes().to_vec();
        keys.iter().for_each(|key| bytes.extend_from_slice(key.as_bytes()));
        Self { key: TxKey::of(&bytes), height, keys }
    }

    /// Its key: SHA-256 over the height (8 bytes, the highest first) and the keys.
    pub fn key(&self) -> TxKey {
        self.key
    }

    /// Its height.
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
        encode::encoded_len(self)
    }

    fn payload_len(&self) -> usize {
        match self {
            Self::Txs(bodies) => bodies.as_slice().iter().map(Transaction::len).sum(),
            Self::Bundle(bundle) => bundle.members.iter().map(|member| body_of(member).len()).sum(),
            _ => 0,
        }
    }
}

impl CatFrame {
    /// A frame with one transaction.
    pub fn tx(tx: Transaction) -> Self {
        Self::Txs(Bodies::One(tx))
    }

    /// The announcement of one transaction, as merged.
    pub fn seen(key: TxKey) -> Self {
        Self::SeenTx(key.into())
    }

    /// Whether it is one of our extensions.
    pub const fn is_extension(&self) -> bool {
        !matches!(self, Self::Txs(_) | Self::SeenTx(_) | Self::WantTx(_))
    }
}

fn body_of(member: &Member) -> &[u8] {
    match member {
        Member::Full(tx) => tx.bytes(),
        Member::Key(_) => &[],
    }
}

/// The largest frame must be small: the simulator holds millions of them.
const _: () = assert!(size_of::<CatFrame>() <= 48);

/// For [`Signer`] from the wire.
pub(super) fn signer(bytes: &[u8]) -> Option<Signer> {
    (!bytes.is_empty()).then(|| Signer::new(bytes))
}
