//! A transaction in the pool.

use samara_engine::Time;

use super::{Admission, Signer};
use crate::Transaction;

/// A transaction in the pool with what is known of it.
#[derive(Debug)]
pub struct Entry {
    pub(super) transaction: Transaction,
    pub(super) priority: i64,
    pub(super) gas: u64,
    pub(super) sender: Option<Signer>,
    pub(super) sequence: u64,
    pub(super) since: Time,
    pub(super) height: u64,
    /// Numbers the transactions of a pool as they entered it; given by the store.
    pub(super) arrival: u64,
    /// The set of its sender, in the order that has sets.
    pub(super) set: Option<u32>,
    /// Rechecks whose verdict is still to come.
    pub(super) rechecks: u32,
}

impl Entry {
    pub(super) fn new(transaction: Transaction, admission: Admission, since: Time, height: u64) -> Self {
        let Admission { priority, gas, sender, sequence } = admission;
        let sequence = sequence.unwrap_or_default();
        Self {
            transaction,
            priority,
            gas,
            sender,
            sequence,
            since,
            height,
            arrival: 0,
            set: None,
            rechecks: 0,
        }
    }

    /// The transaction.
    pub fn transaction(&self) -> &Transaction {
        &self.transaction
    }

    /// The priority that the application gave it.
    pub fn priority(&self) -> i64 {
        self.priority
    }

    /// Its gas, in the application's unit.
    pub fn gas(&self) -> u64 {
        self.gas
    }

    /// Whose it is, where the application said so.
    pub fn sender(&self) -> Option<&Signer> {
        self.sender.as_ref()
    }

    /// Its place among the transactions of its sender; 0 where the application gave none.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// When it entered the pool.
    pub fn since(&self) -> Time {
        self.since
    }

    /// The height of the chain when it entered the pool.
    pub fn height(&self) -> u64 {
        self.height
    }

    /// Its length in bytes.
    pub(super) fn len(&self) -> u64 {
        self.transaction.len() as u64
    }
}
