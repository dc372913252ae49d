//! What a pool counts.

use super::outcome::Cause;

/// Counters of a pool since it was made. `mempool_size` and `mempool_size_bytes` of celestia-core are
/// [`Pool::len`](super::Pool::len) and [`Pool::bytes`](super::Pool::bytes).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolMetrics {
    /// Transactions that entered the pool.
    pub added_txs: u64,
    /// Their bytes.
    pub added_bytes: u64,
    /// Transactions in committed blocks, whether the pool had them or not (`successful_txs`).
    pub successful_txs: u64,
    /// Transactions that the application rejected, new ones and rechecked ones (`failed_txs`).
    pub failed_txs: u64,
    /// Transactions that left for others. `evicted_txs` of celestia-core is the sum of this, of those refused because the pool was
    /// full, and of `removed_txs`; until 2025 also of `expired_txs`.
    pub evicted_txs: u64,
    /// Transactions that grew too old (`expired_txs`).
    pub expired_txs: u64,
    /// Transactions taken out by [`Pool::remove`](super::Pool::remove) and [`Pool::flush`](super::Pool::flush).
    pub removed_txs: u64,
    /// Verdicts on transactions that were checked again (`recheck_times`).
    pub rechecks: u64,
    refused: [u64; Cause::ALL.len()],
}

impl PoolMetrics {
    /// How many transactions were refused for this cause.
    pub fn refused(&self, cause: Cause) -> u64 {
        self.refused[cause as usize]
    }

    pub(super) fn refuse(&mut self, cause: Cause) {
        self.refused[cause as usize] += 1;
    }
}
