//! The results and counters of a pool.

use std::sync::Arc;

use thiserror::Error;

use crate::TxKey;

/// The result of adding a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Added {
    /// The transactions evicted to make room for it.
    pub evicted: Vec<TxKey>,
    /// Whether it waits for the application's verdict: it is reserved, and not in the pool yet.
    pub waits: bool,
}

/// The effect of a deferred verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    New(Result<Added, Refusal>),
    Recheck { kept: bool },
}

/// The result of committing a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// Number of transactions of the block that were in the pool.
    pub removed: usize,
    pub expired: Vec<TxKey>,
    pub failed: Vec<TxKey>,
}

/// The reason for a key being in the cache of rejected transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// A block includes it, or it was removed on purpose.
    Settled,
    Invalid(Arc<Invalid>),
}

/// The application's verdict on an invalid transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    pub code: u32,
    /// The cause in words, truncated to 256 bytes.
    pub reason: String,
}

/// Maximum length of a stored reason in bytes. Applications may quote the transaction in a reason,
/// and the cache holds many of them.
const REASON_BYTES_MAX: usize = 256;

impl Rejection {
    pub(super) fn invalid(code: u32, reason: &str) -> Self {
        let mut end = reason.len().min(REASON_BYTES_MAX);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        Self::Invalid(Arc::new(Invalid { code, reason: reason[..end].to_owned() }))
    }
}

/// The reason for not adding a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    #[error("the transaction is empty")]
    Empty,
    #[error("the transaction has {len} bytes, max_tx_bytes allows {max}")]
    TooLarge { len: usize, max: usize },
    #[error("the transaction is already in the pool")]
    InPool,
    #[error("the transaction is already being checked")]
    Reserved,
    /// It was recently rejected or committed.
    #[error("the transaction was {}", match .0 { Rejection::Settled => "already committed or removed", Rejection::Invalid(_) => "rejected" })]
    Rejected(Rejection),
    /// Too many other transactions wait for the application's verdict.
    #[error("too many transactions are being checked")]
    Busy,
    #[error("the application rejected the transaction with code {code}: {reason}")]
    Invalid { code: u32, reason: String },
    /// There is no room, and evicting all transactions of lower priority would not make enough.
    #[error("the pool is full: {txs} transactions with {bytes} bytes")]
    Full { txs: usize, bytes: u64 },
}

samara_engine::names! {
    /// The kind of a [`Refusal`], for counters.
    pub enum Cause {
        Empty = "empty",
        TooLarge = "too_large",
        InPool = "in_pool",
        Reserved = "reserved",
        Rejected = "rejected",
        Busy = "busy",
        Invalid = "invalid",
        Full = "full",
    }
}

impl Refusal {
    pub const fn cause(&self) -> Cause {
        match self {
            Self::Empty => Cause::Empty,
            Self::TooLarge { .. } => Cause::TooLarge,
            Self::InPool => Cause::InPool,
            Self::Reserved => Cause::Reserved,
            Self::Rejected(_) => Cause::Rejected,
            Self::Busy => Cause::Busy,
            Self::Invalid { .. } => Cause::Invalid,
            Self::Full { .. } => Cause::Full,
        }
    }
}

samara_engine::counters! {
    /// Counters of a pool since its creation. `mempool_size` and `mempool_size_bytes` of
    /// celestia-core are [`Pool::len`](super::Pool::len) and [`Pool::bytes`](super::Pool::bytes).
    ///
    /// With serde, counters of zero may be missing: other implementations do not count everything.
    #[derive(Eq)]
    #[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize))]
    #[cfg_attr(feature = "config", serde(default, deny_unknown_fields))]
    pub struct PoolMetrics {
        /// Transactions that entered the pool
        pub added_txs: u64,
        /// Bytes of transactions that entered the pool
        pub added_bytes: u64,
        /// Transactions in committed blocks, whether or not they were in the pool
        pub successful_txs: u64,
        /// New and rechecked transactions that the application rejected
        pub failed_txs: u64,
        /// Transactions evicted to make room for others. `evicted_txs` of celestia-core also counts
        /// those rejected because the pool is full, and until 2025 those that expired
        pub evicted_txs: u64,
        /// Transactions removed because of their age
        pub expired_txs: u64,
        /// Completed rechecks of transactions in the pool
        pub recheck_times: u64,
        /// Transactions that the pool refused
        pub refused[cause: Cause]: u64,
    }
}
