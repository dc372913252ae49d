//! What can be set, and the application behind a pool.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::Transaction;

/// Settings of a pool. The default is that of `MempoolConfig` in celestia-core and CometBFT, in the order of CAT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// Most transactions (`Size`, 5,000; a pool holds at most 2^32 - 1 in any case). celestia-core lets one more in.
    ///
    /// As many again may wait for a deferred verdict.
    pub capacity_txs: usize,
    /// Most bytes of all transactions together (`MaxTxsBytes`, 1 GiB). As many again may wait for a deferred verdict.
    pub capacity_bytes: u64,
    /// Most bytes of one transaction (`MaxTxBytes`, 1 MiB).
    pub max_tx_bytes: usize,
    /// After how many more blocks a transaction expires; 0 for never (`TTLNumBlocks`, 0).
    pub ttl_blocks: u64,
    /// After what time a transaction expires; zero for never (`TTLDuration`, 0).
    pub ttl: Duration,
    /// Most keys in the cache of rejected and committed transactions (`CacheSize`, 10,000); 0 for none. The cache of
    /// evicted ones has a fifth of it.
    pub cache_size: usize,
    /// Whether the keys of invalid transactions are remembered (`KeepInvalidTxsInCache`, no; the generation of 2026
    /// always does). Those of committed ones always are.
    pub keep_invalid: bool,
    /// Whether a remembered invalid transaction may come again, as since `c6ce601e` of celestia-core (2025): an application may reject
    /// one for a gap in the sequence of its sender that is closed since. If not, it is refused for as long as its key is
    /// remembered. Committed ones are refused in either case, which the generation of 2026 leaves to the application.
    pub retry_invalid: bool,
    /// Whether the transactions that a block leaves in the pool are checked again (`Recheck`, yes).
    pub recheck: bool,
    /// Which transaction comes first, and which has to leave.
    pub order: Order,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self {
            capacity_txs: 5_000,
            capacity_bytes: 1 << 30,
            max_tx_bytes: 1 << 20,
            ttl_blocks: 0,
            ttl: Duration::ZERO,
            cache_size: 10_000,
            keep_invalid: false,
            retry_invalid: false,
            recheck: true,
            order: Order::Priority,
        }
    }
}

impl PoolConfig {
    /// Keys in the cache of evicted transactions (`CacheSize / 5` in celestia-core).
    pub fn evicted_cache_size(&self) -> usize {
        self.cache_size / 5
    }
}

samara_engine::names! {
    /// The order in which transactions are reaped.
    #[derive(Default)]
    #[cfg_attr(
        feature = "config",
        derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema),
        serde(rename_all = "kebab-case")
    )]
    pub enum Order {
        /// As they arrived (the pool v0 of CometBFT). Nothing is evicted: a full pool refuses, before it asks the application.
        Fifo = "fifo",
        /// By priority, then as they arrived (v1, and CAT until 2025). A full pool evicts transactions of lower priority, the
        /// newest of the lowest first.
        #[default]
        Priority = "priority",
        /// By sender (ADR 011 of celestia-core): the transactions of a sender form a set and keep the order of their sequence
        /// numbers, then of arrival; sets are ordered by the mean of their priorities weighted by gas (rounded down), then by
        /// the arrival of their oldest transaction. A transaction without sender is a set of its own, one without gas weighs
        /// as if it had 1. A full pool evicts from the end of the last sets, and a set expires as a whole, since later
        /// sequence numbers are of no use without the earlier.
        SignerSets = "signer-sets",
    }
}

/// The application behind the pool, which alone knows what a transaction means (`CheckTx` of ABCI, with what celestia-core calls
/// pre-check and post-check).
///
/// A function `FnMut(&Transaction, CheckKind) -> Verdict` is one.
pub trait Application: Send + 'static {
    /// Whether a transaction is valid. In a simulation the answer must depend on nothing but what this node was told.
    fn check(&mut self, tx: &Transaction, kind: CheckKind) -> Verdict;

    /// The sequence number that the next transaction of `signer` must have (`QuerySequence` of celestia-core), if
    /// the application has such numbers.
    fn expected_sequence(&mut self, signer: &Signer) -> Option<u64> {
        let _ = signer;
        None
    }
}

impl<F: FnMut(&Transaction, CheckKind) -> Verdict + Send + 'static> Application for F {
    fn check(&mut self, tx: &Transaction, kind: CheckKind) -> Verdict {
        self(tx, kind)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CheckKind {
    New,
    /// It is in the pool, and a block was committed that may have made it invalid.
    Recheck,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Accept(Admission),
    Reject {
        /// The application's number for the cause.
        code: u32,
        reason: String,
    },
    /// To be told by [`Pool::decided`](super::Pool::decided). A new transaction stays reserved until then, one in the
    /// pool stays there.
    Later,
}

/// What the application says of a valid transaction. On a recheck it is not looked at, as in celestia-core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admission {
    /// Higher goes first.
    pub priority: i64,
    /// How much work a block has with it, in the application's unit.
    pub gas: u64,
    /// Whose it is, where that matters.
    pub sender: Option<Signer>,
    pub sequence: Option<u64>,
}

/// An account that signs transactions, as the application names it. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signer(Arc<[u8]>);

impl Signer {
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
