//! A pool that is too simple to be wrong, and too slow to be used: lists that are searched from end
//! to end.

use samara_cat::pool::{Admission, Cause, Order, PoolConfig};
use samara_cat::{Transaction, TxKey};
use samara_engine::Time;

#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) tx: Transaction,
    pub(crate) admission: Admission,
    since: Time,
    height: u64,
    arrival: u64,
    pub(crate) rechecks: u32,
}

/// The reason for remembering a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    Settled,
    Invalid,
}

#[derive(Debug)]
pub(crate) struct Reference {
    pub(crate) config: PoolConfig,
    pub(crate) items: Vec<Item>,
    pub(crate) reserved: Vec<Transaction>,
    pub(crate) rejected: Vec<(TxKey, Known)>,
    pub(crate) evicted: Vec<TxKey>,
    pub(crate) height: u64,
    arrivals: u64,
}

/// The application's verdict, without texts.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Accept(Admission),
    Reject,
    Later,
}

impl Reference {
    pub(crate) fn new(config: PoolConfig) -> Self {
        Self {
            config,
            items: Vec::new(),
            reserved: Vec::new(),
            rejected: Vec::new(),
            evicted: Vec::new(),
            height: 0,
            arrivals: 0,
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.items.iter().map(|item| item.tx.len() as u64).sum()
    }

    pub(crate) fn item(&mut self, key: TxKey) -> Option<&mut Item> {
        self.items.iter_mut().find(|item| item.tx.key() == key)
    }

    pub(crate) fn remember_rejected(&mut self, key: TxKey, known: Known) {
        self.rejected.retain(|(other, _)| *other != key);
        self.rejected.push((key, known));
        self.rejected.drain(..self.rejected.len().saturating_sub(self.config.cache_size));
    }

    fn remember_evicted(&mut self, key: TxKey) {
        self.evicted.retain(|other| *other != key);
        self.evicted.push(key);
        self.evicted.drain(..self.evicted.len().saturating_sub(self.config.cache_size / 5));
    }

    pub(crate) fn is_rejected(&self, key: TxKey) -> bool {
        self.rejected
            .iter()
            .any(|(other, known)| *other == key && (*known == Known::Settled || !self.config.retry_invalid))
    }

    /// Returns the evicted keys and whether the transaction waits, or the cause of rejection.
    pub(crate) fn add(
        &mut self,
        now: Time,
        tx: &Transaction,
        answer: &Answer,
    ) -> Result<(Vec<TxKey>, bool), Cause> {
        let waiting: u64 = self.reserved.iter().map(|tx| tx.len() as u64).sum();
        let busy = self.reserved.len() >= self.config.capacity_txs
            || waiting + tx.len() as u64 > self.config.capacity_bytes;
        if tx.len() > self.config.max_tx_bytes {
            Err(Cause::TooLarge)
        } else if self.item(tx.key()).is_some() {
            Err(Cause::InPool)
        } else if self.reserved.contains(tx) {
            Err(Cause::Reserved)
        } else if self.is_rejected(tx.key()) {
            Err(Cause::Rejected)
        } else if self.config.order == Order::Fifo && !self.fits(&self.items, tx) {
            Err(Cause::Full)
        } else if busy && !self.reserved.is_empty() {
            Err(Cause::Busy)
        } else {
            self.judge(now, tx, answer)
        }
    }

    pub(crate) fn judge(
        &mut self,
        now: Time,
        tx: &Transaction,
        answer: &Answer,
    ) -> Result<(Vec<TxKey>, bool), Cause> {
        match answer {
            Answer::Accept(admission) => self.admit(now, tx, admission).map(|evicted| (evicted, false)),
            Answer::Reject => {
                self.reject(tx.key());
                Err(Cause::Invalid)
            }
            Answer::Later => {
                self.reserved.push(tx.clone());
                Ok((Vec::new(), true))
            }
        }
    }

    pub(crate) fn reject(&mut self, key: TxKey) {
        if self.config.keep_invalid {
            self.remember_rejected(key, Known::Invalid);
        }
    }

    fn fits(&self, items: &[Item], tx: &Transaction) -> bool {
        let bytes: u64 = items.iter().map(|item| item.tx.len() as u64).sum();
        items.len() < self.config.capacity_txs && bytes + tx.len() as u64 <= self.config.capacity_bytes
    }

    fn admit(&mut self, now: Time, tx: &Transaction, admission: &Admission) -> Result<Vec<TxKey>, Cause> {
        let (height, arrival) = (self.height, self.arrivals);
        let item =
            Item { tx: tx.clone(), admission: admission.clone(), since: now, height, arrival, rechecks: 0 };
        // The set that the transaction would join, including it.
        let mut joined: Vec<Item> =
            self.items.iter().filter(|other| self.in_same_group(other, &item)).cloned().collect();
        joined.push(item.clone());
        let mean = self.mean(&joined);
        let mut left = self.items.clone();
        let mut evicted = Vec::new();
        for group in self.groups().into_iter().rev() {
            if self.mean(&group) >= mean || self.in_same_group(&group[0], &item) {
                continue;
            }
            for victim in group.into_iter().rev() {
                if !self.fits(&left, tx) {
                    left.retain(|other| other.arrival != victim.arrival);
                    evicted.push(victim.tx.key());
                }
            }
        }
        if !self.fits(&left, tx) {
            self.remember_evicted(tx.key());
            return Err(Cause::Full);
        }
        self.items = left;
        self.items.push(item);
        self.arrivals += 1;
        evicted.iter().for_each(|key| self.remember_evicted(*key));
        self.rejected.retain(|(key, _)| *key != tx.key());
        self.evicted.retain(|key| *key != tx.key());
        Ok(evicted)
    }

    fn in_same_group(&self, one: &Item, other: &Item) -> bool {
        one.arrival == other.arrival
            || (self.config.order == Order::SignerSets
                && one.admission.sender.is_some()
                && one.admission.sender == other.admission.sender)
    }

    fn mean(&self, group: &[Item]) -> i64 {
        if self.config.order == Order::Fifo {
            return 0;
        }
        let weights = group.iter().map(|item| (item.admission.priority, item.admission.gas.max(1) as i64));
        let (sum, weight) =
            weights.fold((0, 0), |(sum, all), (priority, gas)| (sum + priority * gas, all + gas));
        (sum as f64 / weight as f64).floor() as i64
    }

    /// Returns all transactions in order, grouped by mutual dependence.
    pub(crate) fn groups(&self) -> Vec<Vec<Item>> {
        let mut groups: Vec<Vec<Item>> = Vec::new();
        for item in &self.items {
            match groups.iter_mut().find(|group| self.in_same_group(&group[0], item)) {
                Some(group) => group.push(item.clone()),
                None => groups.push(vec![item.clone()]),
            }
        }
        // Both sorts keep the order of arrival among equals.
        for group in &mut groups {
            group.sort_by_key(|item| item.admission.sequence.unwrap_or(0));
        }
        groups.sort_by_key(|group| -self.mean(group));
        groups
    }

    pub(crate) fn order(&self) -> Vec<Item> {
        self.groups().concat()
    }

    pub(crate) fn reap(&self, max_bytes: u64, max_gas: u64) -> Vec<Transaction> {
        let (mut bytes, mut gas) = (0, 0);
        let mut reaped = Vec::new();
        for group in self.groups() {
            for item in group {
                // All are shorter than 128 bytes: one byte for the tag, and one for the length.
                let more = (bytes + item.tx.len() as u64 + 2, gas + item.admission.gas);
                if more.0 > max_bytes || more.1 > max_gas {
                    break;
                }
                (bytes, gas) = more;
                reaped.push(item.tx);
            }
        }
        reaped
    }

    pub(crate) fn by_arrival(&self) -> Vec<Item> {
        let mut items = self.items.clone();
        items.sort_by_key(|item| item.arrival);
        items
    }

    pub(crate) fn expire(&mut self, now: Time) -> Vec<TxKey> {
        let PoolConfig { ttl, ttl_blocks, .. } = self.config;
        let is_old = |item: &Item| {
            (!ttl.is_zero() && now.since(item.since) > ttl)
                || (ttl_blocks > 0 && self.height - item.height > ttl_blocks)
        };
        let groups = self.groups();
        let mut old: Vec<Item> = Vec::new();
        for item in self.by_arrival().iter().filter(|item| is_old(item)) {
            let is_it = |other: &Item| other.arrival == item.arrival;
            if !old.iter().any(is_it) {
                old.extend(groups.iter().filter(|group| group.iter().any(is_it)).flatten().cloned());
            }
        }
        self.items.retain(|item| old.iter().all(|old| old.arrival != item.arrival));
        let keys: Vec<TxKey> = old.iter().map(|item| item.tx.key()).collect();
        keys.iter().for_each(|key| self.remember_evicted(*key));
        keys
    }

    /// Removes a transaction, wherever it is. Returns true if it was in the pool.
    pub(crate) fn settle(&mut self, key: TxKey) -> bool {
        self.remember_rejected(key, Known::Settled);
        self.reserved.retain(|tx| tx.key() != key);
        let before = self.items.len();
        self.items.retain(|item| item.tx.key() != key);
        self.items.len() < before
    }
}
