//! What can be set.

use std::time::Duration;

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

/// In which order transactions are reaped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// As they arrived (the pool v0 of CometBFT). Nothing is evicted: a full pool refuses, before it asks the application.
    Fifo,
    /// By priority, then as they arrived (v1, and CAT until 2025). A full pool evicts transactions of lower priority, the newest of
    /// the lowest first.
    #[default]
    Priority,
    /// By sender (ADR 011 of celestia-core): the transactions of a sender form a set and keep the order of their sequence numbers, then
    /// of arrival; sets are ordered by the mean of their priorities weighted by gas (rounded down), then by the arrival of their
    /// oldest transaction. A transaction without sender is a set of its own, one without gas weighs as if it had 1. A full pool evicts from
    /// the end of the last sets, and a set expires as a whole, since later sequence numbers are of no use without the earlier.
    SignerSets,
}
