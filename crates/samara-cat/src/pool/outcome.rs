//! What the pool answers, and what it counts.

use std::sync::Arc;

use thiserror::Error;

use crate::TxKey;
use crate::names::counters;

/// A transaction was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Added {
    /// Which ones had to leave for it.
    pub evicted: Vec<TxKey>,
    /// Whether it waits for the application's verdict: it is reserved, and not in the pool yet.
    pub waits: bool,
}

/// What a deferred verdict led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It was about a new transaction.
    New(Result<Added, Refusal>),
    /// It was about one in the pool.
    Recheck {
        /// Whether it is still there.
        kept: bool,
    },
}

/// What a block changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// How many transactions of the block were in the pool.
    pub removed: usize,
    /// Which ones expired.
    pub expired: Vec<TxKey>,
    /// Which ones the block made invalid.
    pub failed: Vec<TxKey>,
}

/// Why the key of a transaction is in the cache of rejected ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// A block has it, or it was taken out on purpose.
    Settled,
    /// The application found it invalid.
    Invalid(Arc<Invalid>),
}

/// What the application said of an invalid transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// Its number for the cause.
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

/// A transaction was not taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// It has no content.
    #[error("the transaction is empty")]
    Empty,
    /// It is longer than allowed.
    #[error("the transaction has {len} bytes, of which {max} are allowed")]
    TooLarge {
        /// Its length in bytes.
        len: usize,
        /// The limit.
        max: usize,
    },
    #[error("the transaction is in the pool")]
    InPool,
    /// It waits for the application's verdict.
    #[error("the transaction is being checked")]
    Reserved,
    /// It was rejected or committed a while ago.
    #[error("the transaction was {}", match .0 { Rejection::Settled => "committed or taken out", Rejection::Invalid(_) => "rejected" })]
    Rejected(Rejection),
    /// Too many others wait for the application's verdict.
    #[error("too many transactions are being checked")]
    Busy,
    /// The application rejected it.
    #[error("the application rejected the transaction with code {code}: {reason}")]
    Invalid {
        /// The application's number for the cause.
        code: u32,
        /// The cause in words.
        reason: String,
    },
    /// There is no room, and not enough would be left if all with a lower priority went.
    #[error("the pool is full: {txs} transactions with {bytes} bytes")]
    Full {
        /// Transactions in the pool.
        txs: usize,
        bytes: u64,
    },
}

samara_engine::names! {
    /// The kind of a [`Refusal`], for counters.
    pub enum Cause {
        /// [`Refusal::Empty`].
        Empty = "empty",
        /// [`Refusal::TooLarge`].
        TooLarge = "too_large",
        /// [`Refusal::InPool`].
        InPool = "in_pool",
        /// [`Refusal::Reserved`].
        Reserved = "reserved",
        /// [`Refusal::Rejected`].
        Rejected = "rejected",
        /// [`Refusal::Busy`].
        Busy = "busy",
        /// [`Refusal::Invalid`].
        Invalid = "invalid",
        /// [`Refusal::Full`].
        Full = "full",
    }
}

impl Refusal {
    /// Of which kind it is.
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
        /// Transactions that left for others. `evicted_txs` of celestia-core also counts those that are refused because the
        /// pool is full, and until 2025 those that expire
        evicted_txs = "evicted_txs",
        /// Transactions that grew too old
        expired_txs = "expired_txs",
        /// Verdicts on transactions that were checked again
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

    /// The same, to set it.
    pub fn refused_mut(&mut self, cause: Cause) -> &mut u64 {
        &mut self.refused[cause as usize]
    }

    /// Adds the counters of another pool.
    pub fn add(&mut self, other: &Self) {
        for ((_, sum), (.., more)) in self.counters_mut().zip(other.counters()) {
            *sum += more;
        }
        self.refused.iter_mut().zip(other.refused).for_each(|(sum, more)| *sum += more);
    }
}
