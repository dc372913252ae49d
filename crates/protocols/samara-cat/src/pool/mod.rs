//! The transactions that wait for a block, and the keys of those that must not be fetched again.
//!
//! [`Pool`] keeps the transactions that its [`Application`] accepts, in an [`Order`], until a block
//! includes them, they expire, a block makes them invalid, or transactions of higher priority need
//! their room. It remembers the keys of committed, rejected, evicted and expired transactions, so
//! that the protocol does not fetch them again.
//!
//! It is the `TxPool` of celestia-core (`mempool/cat/pool.go`, `store.go`, `cache.go`) without
//! locks, clock and channels. [`PoolConfig`] documents which field stands for which difference
//! between its generations. Deviations, each of which fixes a fault:
//!
//! - The limits hold. celestia-core admits one transaction more than allowed, and a full pool of
//!   its generation of 2026 grows with every transaction whose bytes fit.
//! - Eviction takes free room into account. celestia-core rejects a transaction if the transactions
//!   of lower priority have fewer bytes, even if they and the free room together would suffice.
//! - A transaction does not evict its sender's earlier ones, which a set of higher mean would do in
//!   celestia-core.
//! - A transaction that returns after an eviction or rejection is no longer remembered as evicted
//!   or rejected.
//! - A transaction that a block commits during its check does not enter the pool.
//!
//! ```
//! use samara_cat::pool::{Admission, CheckKind, Pool, PoolConfig, Verdict};
//! use samara_cat::Transaction;
//! use samara_engine::{PeerKeyed, Time};
//!
//! // An application that prefers long transactions.
//! let application = |tx: &Transaction, _: CheckKind| {
//!     Verdict::Accept(Admission { priority: tx.len() as i64, gas: 1, ..Admission::default() })
//! };
//! // A pool that accepts transactions from strangers needs a key from the operating system.
//! let mut pool = Pool::new(PoolConfig::default(), application, PeerKeyed::from_key([1, 2]));
//! let (short, long) = (Transaction::new("short"), Transaction::new("rather long"));
//! pool.try_add(Time::ZERO, short.clone())?;
//! pool.try_add(Time::ZERO, long.clone())?;
//! assert_eq!(pool.reap(u64::MAX, u64::MAX), [long.clone(), short]);
//!
//! pool.commit(Time::from_secs(15), 1, &[long.key()]);
//! assert_eq!(pool.len(), 1);
//! assert!(pool.try_add(Time::from_secs(15), long).is_err(), "a block includes it");
//! # Ok::<(), samara_cat::pool::Refusal>(())
//! ```

mod cache;
mod config;
mod outcome;
mod store;

use hashbrown::HashMap;
use samara_engine::{PeerKeyed, Time};

pub use cache::KeyCache;
pub use config::{Admission, Application, CheckKind, Order, PoolConfig, Signer, Verdict};
pub use outcome::{Added, Cause, Committed, Decision, Invalid, PoolMetrics, Refusal, Rejection};
pub use store::Entry;

use crate::{Transaction, TxKey};
use store::Store;

/// A pool of transactions.
///
/// - [`try_add`](Self::try_add) adds a transaction; [`decided`](Self::decided) completes it if the
///   application answered [`Verdict::Later`];
/// - [`commit`](Self::commit) processes a committed block, and [`expire`](Self::expire) removes old
///   transactions;
/// - [`reap`](Self::reap) chooses transactions for a block and leaves them in the pool.
///
/// Neither time nor height may go backwards from call to call.
#[derive(Debug)]
pub struct Pool<A> {
    config: PoolConfig,
    application: A,
    store: Store,
    /// Transactions that wait for the application's verdict. Neither reaped nor readable.
    reserved: HashMap<TxKey, Transaction, PeerKeyed>,
    reserved_bytes: u64,
    rejected: KeyCache<Rejection>,
    evicted: KeyCache<()>,
    height: u64,
    /// Whether the pool has reported available transactions since the last block.
    reported_available: bool,
    metrics: PoolMetrics,
}

impl<A: Application> Pool<A> {
    /// Returns an empty pool at height 0. `hasher` affects only the speed of lookups.
    pub fn new(config: PoolConfig, application: A, hasher: PeerKeyed) -> Self {
        // Slots are 32 bits wide.
        let capacity_txs = config.capacity_txs.min(u32::MAX as usize);
        Self {
            store: Store::new(config.order, hasher),
            reserved: HashMap::with_hasher(hasher),
            reserved_bytes: 0,
            rejected: KeyCache::new(config.cache_size, hasher),
            evicted: KeyCache::new(config.evicted_cache_size(), hasher),
            config: PoolConfig { capacity_txs, ..config },
            application,
            height: 0,
            reported_available: false,
            metrics: PoolMetrics::default(),
        }
    }

    /// Replaces the hasher of an empty pool, for a key that is known only after the pool was
    /// created.
    ///
    /// # Panics
    /// In debug builds, if the pool or its caches are not empty. In release builds their contents
    /// are lost.
    pub(crate) fn rekey(&mut self, hasher: PeerKeyed) {
        debug_assert!(self.is_empty() && self.reserved.is_empty(), "rekeyed a pool in use");
        self.store = Store::new(self.config.order, hasher);
        self.reserved = HashMap::with_hasher(hasher);
        self.rejected = KeyCache::new(self.config.cache_size, hasher);
        self.evicted = KeyCache::new(self.config.evicted_cache_size(), hasher);
    }

    /// Adds a transaction that the application accepts, evicting others if there is no room.
    ///
    /// # Errors
    /// If the pool rejects it; rejections are counted by cause. The application check follows all
    /// other checks. Only in orders with eviction, the check for room comes last, since it depends
    /// on the priority.
    pub fn try_add(&mut self, now: Time, tx: Transaction) -> Result<Added, Refusal> {
        let added = self.screen(&tx).and_then(|()| {
            let verdict = self.application.check(&tx, CheckKind::New);
            self.judge(now, tx, verdict)
        });
        self.counted(added)
    }

    /// Completes a transaction for which the application answered [`Verdict::Later`]. Returns
    /// `None` if no verdict on it is pending (a block may have included it, or it was removed), or
    /// if the verdict is deferred again.
    pub fn decided(&mut self, now: Time, key: TxKey, verdict: Verdict) -> Option<Decision> {
        if verdict == Verdict::Later {
            return None;
        }
        if let Some(tx) = self.release(&key) {
            let added = self.judge(now, tx, verdict);
            return Some(Decision::New(self.counted(added)));
        }
        let slot = self.store.find(&key)?;
        let entry = self.store.entry_mut(slot);
        entry.rechecks = entry.rechecks.checked_sub(1)?;
        Some(Decision::Recheck { kept: self.rechecked(slot, verdict) })
    }

    fn counted(&mut self, added: Result<Added, Refusal>) -> Result<Added, Refusal> {
        if let Err(refusal) = &added {
            self.metrics.refused[refusal.cause()] += 1;
        }
        added
    }

    /// Checks a transaction before asking the application.
    fn screen(&self, tx: &Transaction) -> Result<(), Refusal> {
        let (key, len, max) = (tx.key(), tx.len(), self.config.max_tx_bytes);
        if len == 0 {
            return Err(Refusal::Empty);
        }
        if len > max {
            return Err(Refusal::TooLarge { len, max });
        }
        if self.contains(&key) {
            return Err(Refusal::InPool);
        }
        if self.is_reserved(&key) {
            return Err(Refusal::Reserved);
        }
        if self.is_rejected(&key)
            && let Some(rejection) = self.rejection(&key)
        {
            return Err(Refusal::Rejected(rejection.clone()));
        }
        if self.config.order == Order::Fifo && !self.fits(self.len(), self.bytes(), tx) {
            return Err(self.full());
        }
        let PoolConfig { capacity_txs, capacity_bytes, .. } = self.config;
        let busy = self.reserved.len() >= capacity_txs || self.reserved_bytes + len as u64 > capacity_bytes;
        if busy && !self.reserved.is_empty() { Err(Refusal::Busy) } else { Ok(()) }
    }

    fn judge(&mut self, now: Time, tx: Transaction, verdict: Verdict) -> Result<Added, Refusal> {
        match verdict {
            Verdict::Accept(admission) => self.admit(now, tx, admission),
            Verdict::Reject { code, reason } => {
                self.reject(tx.key(), code, &reason);
                Err(Refusal::Invalid { code, reason })
            }
            Verdict::Later => {
                self.reserved_bytes += tx.len() as u64;
                self.reserved.insert(tx.key(), tx);
                Ok(Added { evicted: Vec::new(), waits: true })
            }
        }
    }

    /// Adds a valid transaction, if there is room or others can be evicted.
    fn admit(&mut self, now: Time, tx: Transaction, admission: Admission) -> Result<Added, Refusal> {
        let victims = self.store.victims(&admission, |txs, bytes| self.fits(txs, bytes, &tx));
        let Some(victims) = victims else {
            self.evicted.push(tx.key(), ());
            return Err(self.full());
        };
        let mut evicted = Vec::with_capacity(victims.len());
        self.store.remove(&victims, |entry| evicted.push(entry.transaction.key()));
        self.metrics.evicted_txs += evicted.len() as u64;
        for key in &evicted {
            self.evicted.push(*key, ());
        }
        self.rejected.remove(tx.key_ref());
        self.evicted.remove(tx.key_ref());
        self.metrics.added_txs += 1;
        self.metrics.added_bytes += tx.len() as u64;
        self.store.insert(Entry::new(tx, admission, now, self.height));
        Ok(Added { evicted, waits: false })
    }

    /// Returns true if a transaction fits beside `txs` others with `bytes` bytes.
    fn fits(&self, txs: usize, bytes: u64, tx: &Transaction) -> bool {
        txs < self.config.capacity_txs && bytes.saturating_add(tx.len() as u64) <= self.config.capacity_bytes
    }

    fn full(&self) -> Refusal {
        Refusal::Full { txs: self.len(), bytes: self.bytes() }
    }

    fn reject(&mut self, key: TxKey, code: u32, reason: &str) {
        self.metrics.failed_txs += 1;
        if self.config.keep_invalid {
            self.rejected.push(key, Rejection::invalid(code, reason));
        }
    }

    fn release(&mut self, key: &TxKey) -> Option<Transaction> {
        if self.reserved.is_empty() {
            return None;
        }
        let tx = self.reserved.remove(key)?;
        self.reserved_bytes -= tx.len() as u64;
        Some(tx)
    }
}

impl<A: Application> Pool<A> {
    /// Processes a committed block. Its transactions leave, wherever they are, and are remembered
    /// as settled. Expired transactions leave and are remembered as evicted. The others are checked
    /// again if [`PoolConfig::recheck`] is set, and leave if they are no longer valid.
    pub fn commit(&mut self, now: Time, height: u64, committed: &[TxKey]) -> Committed {
        self.height = height;
        self.reported_available = false;
        self.metrics.successful_txs += committed.len() as u64;
        let mut slots = Vec::with_capacity(committed.len());
        for key in committed {
            self.rejected.push(*key, Rejection::Settled);
            self.release(key);
            slots.extend(self.store.find(key));
        }
        let mut removed = 0;
        self.store.remove(&slots, |_| removed += 1);
        let expired = self.expire(now);
        let failed = if self.config.recheck { self.recheck() } else { Vec::new() };
        Committed { removed, expired, failed }
    }

    /// Checks all transactions again in the order of their arrival, and returns those that leave.
    /// An application accepted them in this order, so a later one may build on an earlier one of
    /// lower priority (`recheckTransactions` of the pool v1 of CometBFT).
    fn recheck(&mut self) -> Vec<TxKey> {
        let slots: Vec<u32> = self.store.by_arrival().collect();
        let mut invalid = Vec::new();
        let mut failed = Vec::new();
        for slot in slots {
            let Entry { transaction, .. } = self.store.entry(slot);
            match self.application.check(transaction, CheckKind::Recheck) {
                Verdict::Accept(_) => self.metrics.recheck_times += 1,
                Verdict::Reject { code, reason } => {
                    let key = transaction.key();
                    self.metrics.recheck_times += 1;
                    self.reject(key, code, &reason);
                    invalid.push(slot);
                    failed.push(key);
                }
                Verdict::Later => {
                    let entry = self.store.entry_mut(slot);
                    entry.rechecks = entry.rechecks.saturating_add(1);
                }
            }
        }
        self.store.remove(&invalid, |_| ());
        failed
    }

    /// Applies a deferred verdict on a transaction in the pool. Returns true if it stays.
    pub(super) fn rechecked(&mut self, slot: u32, verdict: Verdict) -> bool {
        self.metrics.recheck_times += 1;
        let Verdict::Reject { code, reason } = verdict else { return true };
        let key = self.store.entry(slot).transaction.key();
        self.reject(key, code, &reason);
        self.store.remove(&[slot], |_| ());
        false
    }

    /// Removes and returns the transactions that have expired, as every [`commit`](Self::commit)
    /// does. They may come again.
    pub fn expire(&mut self, now: Time) -> Vec<TxKey> {
        let PoolConfig { ttl, ttl_blocks, .. } = self.config;
        if ttl.is_zero() && ttl_blocks == 0 {
            return Vec::new();
        }
        let height = self.height;
        let is_over = |entry: &Entry| {
            (!ttl.is_zero() && entry.since + ttl < now)
                || (ttl_blocks > 0 && entry.height.saturating_add(ttl_blocks) < height)
        };
        // Neither time nor height goes backwards, so the first that stays ends the search.
        let over = self.store.by_arrival().take_while(|slot| is_over(self.store.entry(*slot)));
        let slots: Vec<u32> = self.store.with_sets(over);
        let mut expired = Vec::with_capacity(slots.len());
        self.store.remove(&slots, |entry| expired.push(entry.transaction.key()));
        for key in &expired {
            self.evicted.push(*key, ());
        }
        self.metrics.expired_txs += expired.len() as u64;
        expired
    }

    /// Returns the time from which [`expire`](Self::expire) removes something, if there is a
    /// maximum age in time.
    pub fn next_expiry(&self) -> Option<Time> {
        let ttl = self.config.ttl;
        let oldest = self.store.by_arrival().next().filter(|_| !ttl.is_zero())?;
        Some((self.store.entry(oldest).since + ttl).plus_nanos(1))
    }
}

impl<A> Pool<A> {
    /// Returns the transactions of highest rank that together fit into `max_bytes` and `max_gas`. A
    /// transaction that does not fit is skipped and the next one is tried (celestia-core since
    /// #1113); with [`Order::SignerSets`], the later ones of its sender are skipped as well. Bytes
    /// are those of the field in the block's message: the transaction, its length and a tag
    /// (`ComputeProtoSizeForTxs` of CometBFT).
    pub fn reap(&self, max_bytes: u64, max_gas: u64) -> Vec<Transaction> {
        let (mut bytes, mut gas) = (max_bytes, max_gas);
        let mut reaped = Vec::new();
        for group in self.store.groups() {
            for &slot in group {
                let entry = self.store.entry(slot);
                let left = bytes.checked_sub(block_bytes(entry.len())).zip(gas.checked_sub(entry.gas));
                let Some(left) = left else { break };
                (bytes, gas) = left;
                reaped.push(entry.transaction.clone());
            }
        }
        reaped
    }

    /// Returns true once after each [`commit`](Self::commit), as soon as the pool has transactions;
    /// for proposers that wait for some (`TxsAvailable` of CometBFT).
    pub fn txs_available(&mut self) -> bool {
        let news = !self.is_empty() && !self.reported_available;
        self.reported_available |= news;
        news
    }

    pub fn get(&self, key: &TxKey) -> Option<&Transaction> {
        self.entry(key).map(|entry| &entry.transaction)
    }

    /// Returns a transaction in the pool with its attributes.
    pub fn entry(&self, key: &TxKey) -> Option<&Entry> {
        self.store.find(key).map(|slot| self.store.entry(slot))
    }

    pub fn contains(&self, key: &TxKey) -> bool {
        self.store.find(key).is_some()
    }

    /// Returns true if a transaction waits for the application's verdict.
    pub fn is_reserved(&self, key: &TxKey) -> bool {
        !self.reserved.is_empty() && self.reserved.contains_key(key)
    }

    /// Returns the reason for a rejection, or that a block includes the transaction, for as long as
    /// the pool remembers it (`WasRecentlyRejected` of celestia-core).
    pub fn rejection(&self, key: &TxKey) -> Option<&Rejection> {
        self.rejected.get(key)
    }

    /// Returns true if [`try_add`](Self::try_add) would reject the key from memory, so that
    /// requesting the transaction is useless.
    pub fn is_rejected(&self, key: &TxKey) -> bool {
        self.rejection(key)
            .is_some_and(|rejection| *rejection == Rejection::Settled || !self.config.retry_invalid)
    }

    /// Returns true if the pool remembers that a valid transaction was evicted, found no room, or
    /// expired.
    pub fn was_evicted(&self, key: &TxKey) -> bool {
        self.evicted.contains(key)
    }

    pub(crate) fn assert_invariants(&self) {
        self.store.assert_invariants();
        let (txs, bytes) = (self.len(), self.bytes());
        let PoolConfig { capacity_txs, capacity_bytes, .. } = self.config;
        assert!(txs <= capacity_txs && bytes <= capacity_bytes, "{txs} transactions with {bytes} bytes");
    }

    /// Returns the number of transactions, without the reserved ones.
    pub fn len(&self) -> usize {
        self.store.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the total size of all transactions in bytes, without the reserved ones.
    pub fn bytes(&self) -> u64 {
        self.store.bytes()
    }

    /// Returns the number of transactions that wait for the application's verdict.
    pub fn reserved(&self) -> usize {
        self.reserved.len()
    }

    /// Returns the transactions in the order in which they are reaped.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.store.iter()
    }

    pub fn height(&self) -> u64 {
        self.height
    }

    pub fn config(&self) -> &PoolConfig {
        &self.config
    }

    pub fn metrics(&self) -> &PoolMetrics {
        &self.metrics
    }

    pub fn application(&self) -> &A {
        &self.application
    }

    /// Returns the application for updates.
    pub fn application_mut(&mut self) -> &mut A {
        &mut self.application
    }
}

/// Returns the bytes that a transaction takes in a block: field 1 of `Data` in CometBFT's
/// `types.proto`.
fn block_bytes(len: u64) -> u64 {
    let length_bytes = u64::from((len | 1).ilog2()) / 7 + 1;
    1 + length_bytes + len
}
