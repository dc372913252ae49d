//! What the pool answers, and what it counts.

use std::sync::Arc;

use thiserror::Error;

use crate::TxKey;
use crate::counters::counters;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Added {
    /// Which ones had to leave for it.
    pub evicted: Vec<TxKey>,
    /// Whether it waits for the application's verdict: it is reserved, and not in the pool yet.
    pub waits: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    New(Result<Added, Refusal>),
    Recheck { kept: bool },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// How many transactions of the block were in the pool.
    pub removed: usize,
    pub expired: Vec<TxKey>,
    pub failed: Vec<TxKey>,
}

/// Why the key of a transaction is in the cache of rejected ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// A block has it, or it was taken out on purpose.
    Settled,
    Invalid(Arc<Invalid>),
}

/// What the application said of an invalid transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    pub code: u32,
    /// The cause in words, cut after 256 bytes.
    pub reason: String,
}

/// Applications may quote the transaction in a reason; the cache holds many of them.
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

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    #[error("the transaction is empty")]
    Empty,
    #[error("the transaction has {len} bytes, of which {max} are allowed")]
    TooLarge { len: usize, max: usize },
    #[error("the transaction is in the pool")]
    InPool,
    #[error("the transaction is being checked")]
    Reserved,
    /// It was rejected or committed a while ago.
    #[error("the transaction was {}", match .0 { Rejection::Settled => "committed or taken out", Rejection::Invalid(_) => "rejected" })]
    Rejected(Rejection),
    /// Too many others wait for the application's verdict.
    #[error("too many transactions are being checked")]
    Busy,
    #[error("the application rejected the transaction with code {code}: {reason}")]
    Invalid { code: u32, reason: String },
    /// There is no room, and not enough would be left if all with a lower priority went.
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

counters! {
    /// Counters of a pool since it was made. `mempool_size` and `mempool_size_bytes` of celestia-core are
    /// [`Pool::len`](super::Pool::len) and [`Pool::bytes`](super::Pool::bytes).
    PoolMetrics {
        /// Transactions that entered the pool
        added_txs = "added_txs",
        /// Bytes of transactions that entered the pool
        added_bytes = "added_bytes",
        /// Transactions in committed blocks, whether the pool had them or not
        successful_txs = "successful_txs",
        /// Transactions that the application rejected, new ones and rechecked ones
        failed_txs = "failed_txs",
        /// Transactions evicted to make room for others. `evicted_txs` of celestia-core also counts those that are
        /// refused because the pool is full, and until 2025 those that expire
        evicted_txs = "evicted_txs",
        /// Transactions removed because of their age
        expired_txs = "expired_txs",
        /// Results of checks of transactions in the pool
        rechecks = "recheck_times",
    } and {
        refused: [u64; Cause::ALL.len()],
    }
}

impl PoolMetrics {
    /// How many transactions were refused for this cause.
    pub fn refused(&self, cause: Cause) -> u64 {
        self.refused[cause as usize]
    }

    pub fn refused_mut(&mut self, cause: Cause) -> &mut u64 {
        &mut self.refused[cause as usize]
    }

    pub fn add(&mut self, other: &Self) {
        for ((_, sum), (.., more)) in self.counters_mut().zip(other.counters()) {
            *sum += more;
        }
        self.refused.iter_mut().zip(other.refused).for_each(|(sum, more)| *sum += more);
    }
}
