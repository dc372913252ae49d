//! How transactions leave the pool, except for others.

use samara_engine::Time;

use super::{Application, CheckKind, Committed, Entry, Pool, PoolConfig, Rejection, Verdict};
use crate::{Transaction, TxKey};

impl<A: Application> Pool<A> {
    /// A block was committed. Its transactions leave, wherever they are, and are remembered as settled; so do those that have expired
    /// (remembered as evicted); the others are checked again, if that is set, and leave if they are no longer valid.
    pub fn commit(&mut self, now: Time, height: u64, committed: &[TxKey]) -> Committed {
        self.height = height;
        self.told_available = false;
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

    /// Checks all transactions again, in order, and returns those that leave.
    fn recheck(&mut self) -> Vec<TxKey> {
        let slots: Vec<u32> = self.store.groups().flatten().copied().collect();
        let mut invalid = Vec::new();
        let mut failed = Vec::new();
        for slot in slots {
            let Entry { transaction, .. } = self.store.entry(slot);
            match self.application.check(transaction, CheckKind::Recheck) {
                Verdict::Accept(_) => self.metrics.rechecks += 1,
                Verdict::Reject { code, reason } => {
                    let key = transaction.key();
                    self.metrics.rechecks += 1;
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

    /// A late verdict on a transaction in the pool; whether it stays.
    pub(super) fn rechecked(&mut self, slot: u32, verdict: Verdict) -> bool {
        self.metrics.rechecks += 1;
        let Verdict::Reject { code, reason } = verdict else { return true };
        let key = self.store.entry(slot).transaction.key();
        self.reject(key, code, &reason);
        self.store.remove(&[slot], |_| ());
        false
    }

    /// Takes out what has expired by now, as every [`commit`](Self::commit) does; for nodes that see blocks rarely. Returns
    /// what left. It may come again.
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
        let is_group_over = |group: &&[u32]| group.iter().any(|slot| is_over(self.store.entry(*slot)));
        let slots: Vec<u32> = self.store.groups().filter(is_group_over).flatten().copied().collect();
        let mut expired = Vec::with_capacity(slots.len());
        self.store.remove(&slots, |entry| expired.push(entry.transaction.key()));
        for key in &expired {
            self.evicted.push(*key, ());
        }
        self.metrics.expired_txs += expired.len() as u64;
        expired
    }

    /// Takes a transaction out, whether it is in the pool or being checked. It will not be taken again for as long as its key is
    /// remembered (`RemoveTxByKey` of celestia-core).
    pub fn remove(&mut self, key: &TxKey) -> Option<Transaction> {
        self.rejected.push(*key, Rejection::Settled);
        let mut removed = self.release(key);
        if let Some(slot) = self.store.find(key) {
            self.store.remove(&[slot], |entry| removed = Some(entry.transaction));
            self.metrics.removed_txs += 1;
        }
        removed
    }

    /// Forgets everything, also what is remembered as rejected or evicted, and what is being checked. The height stays.
    pub fn flush(&mut self) {
        self.metrics.removed_txs += self.len() as u64;
        self.store.clear();
        self.reserved.clear();
        self.reserved_bytes = 0;
        self.rejected.clear();
        self.evicted.clear();
    }
}
