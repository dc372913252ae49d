//! The settings of a pool, and the application behind it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "config")]
use samara_engine::units::{Size, Span};

use crate::Transaction;

samara_engine::settings! {
    /// Settings of a pool. The defaults are those of `MempoolConfig` in celestia-core and CometBFT, in
    /// the order of CAT.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct PoolConfig {
        /// Maximum number of transactions (`Size`, 5,000; at most 2^32 - 1 in any case). celestia-core
        /// admits one more.
        ///
        /// The same number may additionally wait for a deferred verdict.
        pub capacity_txs: usize => capacity_txs,
        /// Maximum total size of all transactions in bytes (`MaxTxsBytes`, 1 GiB). The same size may
        /// additionally wait for a deferred verdict.
        pub capacity_bytes: u64 => capacity as Size,
        /// Maximum size of one transaction in bytes (`MaxTxBytes`, 1 MiB).
        pub max_tx_bytes: usize,
        /// Number of blocks after which a transaction expires; 0 for never (`TTLNumBlocks`, 0).
        pub ttl_blocks: u64 => ttl_blocks,
        /// Time after which a transaction expires; zero for never (`TTLDuration`, 0).
        pub ttl: Duration => ttl as Span,
        /// Maximum number of keys in the cache of rejected and committed transactions (`CacheSize`,
        /// 10,000); 0 for no cache. The cache of evicted transactions has a fifth of this size.
        pub cache_size: usize => cache,
        /// Whether the keys of invalid transactions are remembered (`KeepInvalidTxsInCache`, no; the
        /// generation of 2026 always does). Those of committed transactions always are.
        pub keep_invalid: bool,
        /// Whether a remembered invalid transaction may come again, as since `c6ce601e` of
        /// celestia-core (2025): an application may reject a transaction for a gap in its sender's
        /// sequence that is closed later. If not, it is rejected for as long as its key is remembered.
        /// Committed transactions are rejected in either case, which the generation of 2026 leaves to
        /// the application.
        pub retry_invalid: bool,
        /// Whether the transactions that a block leaves in the pool are checked again (`Recheck`, yes).
        pub recheck: bool,
        /// The order in which transactions are reaped and evicted.
        pub order: Order => order,
    }
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
    /// Returns the maximum number of keys in the cache of evicted transactions (`CacheSize / 5` in
    /// celestia-core).
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
        /// In order of arrival (the pool v0 of CometBFT). Nothing is evicted: a full pool rejects a
        /// transaction before it asks the application.
        Fifo = "fifo",
        /// By priority, then in order of arrival (v1, and CAT until 2025). A full pool evicts
        /// transactions of lower priority: the lowest priority first, and within it the newest
        /// first.
        #[default]
        Priority = "priority",
        /// By sender (ADR 011 of celestia-core). The transactions of a sender form a set, ordered
        /// by sequence number, then arrival. Sets are ordered by the mean of their priorities
        /// weighted by gas (rounded down), then by the arrival of their oldest transaction. A
        /// transaction without sender is a set of its own; one without gas has a weight of 1. A
        /// full pool evicts from the end of the last sets. A set expires as a whole, since later
        /// sequence numbers are useless without the earlier ones.
        SignerSets = "signer-sets",
    }
}

/// The application behind the pool, which alone interprets transactions (`CheckTx` of ABCI,
/// including the pre-check and post-check of celestia-core).
///
/// A function `FnMut(&Transaction, CheckKind) -> Verdict` implements it.
pub trait Application: Send + 'static {
    /// Returns the verdict on a transaction. In a simulation it must depend only on the input to
    /// this node.
    fn check(&mut self, tx: &Transaction, kind: CheckKind) -> Verdict;

    /// Returns the sequence number that the next transaction of `signer` must have (`QuerySequence`
    /// of celestia-core), if the application has such numbers.
    fn expected_sequence(&mut self, signer: &Signer) -> Option<u64> {
        let _ = signer;
        None
    }

    /// Returns the signer and the sequence number of a transaction, if the application accepts the
    /// transactions of a signer in the order of these numbers only. The transaction may be invalid.
    fn account(&mut self, tx: &Transaction) -> Option<(Signer, u64)> {
        let _ = tx;
        None
    }
}

impl<F: FnMut(&Transaction, CheckKind) -> Verdict + Send + 'static> Application for F {
    fn check(&mut self, tx: &Transaction, kind: CheckKind) -> Verdict {
        self(tx, kind)
    }
}

/// The reason for checking a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CheckKind {
    New,
    /// The transaction is in the pool, and a committed block may have made it invalid.
    Recheck,
}

/// The application's answer to a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Accept(Admission),
    Reject {
        /// The application's code for the cause.
        code: u32,
        reason: String,
    },
    /// The verdict will follow by [`Pool::decided`](super::Pool::decided). Until then, a new
    /// transaction stays reserved, and a transaction in the pool stays there.
    Later,
}

/// The application's attributes of a valid transaction. Ignored on a recheck, as in celestia-core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admission {
    /// Higher priorities are reaped first.
    pub priority: i64,
    /// The cost of executing the transaction, in the application's unit.
    pub gas: u64,
    /// The sender, if the application distinguishes senders.
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
