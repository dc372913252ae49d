//! The application behind a pool: accounts with sequence numbers, and a processor.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use samara_cat::pool::{Admission, Application, CheckKind, Signer, Verdict};
use samara_cat::{Transaction, TxKey};

use super::content::{Header, signer_index};

/// The application of one node.
///
/// It takes every well-formed transaction whose sequence number has not been used by a block, also ahead of others that are
/// still to come: what is measured is whether transactions arrive, not in which order.
#[derive(Debug)]
pub struct Ledger {
    /// Shared by all nodes; empty if transactions have no signers.
    signers: Arc<[Signer]>,
    accounts: Vec<Account>,
    validation: Duration,
    /// What the processor has to check, the one in work first.
    waiting: VecDeque<(TxKey, Verdict)>,
}

/// What is known of a signer.
#[derive(Clone, Debug, Default)]
struct Account {
    /// What blocks have used.
    committed: Sequences,
    /// What was taken, in blocks or not.
    taken: Sequences,
}

/// Sequence numbers: all below one, and some above it.
#[derive(Clone, Debug, Default)]
struct Sequences {
    next: u32,
    ahead: BTreeSet<u32>,
}

impl Sequences {
    fn insert(&mut self, sequence: u32) {
        if sequence > self.next {
            self.ahead.insert(sequence);
        } else if sequence == self.next {
            self.next += 1;
            while self.ahead.remove(&self.next) {
                self.next += 1;
            }
        }
    }

    fn contains(&self, sequence: u32) -> bool {
        sequence < self.next || self.ahead.contains(&sequence)
    }
}

impl Ledger {
    /// An application with these signers that takes so long for a check, one at a time.
    pub fn new(signers: Arc<[Signer]>, validation: Duration) -> Self {
        let accounts = vec![Account::default(); signers.len()];
        Self { signers, accounts, validation, waiting: VecDeque::new() }
    }

    /// A block has used this sequence number of a signer.
    pub fn commit(&mut self, signer: u32, sequence: u32) {
        if let Some(account) = self.accounts.get_mut(signer as usize) {
            account.committed.insert(sequence);
            account.taken.insert(sequence);
        }
    }

    /// How long a check takes.
    pub fn validation(&self) -> Duration {
        self.validation
    }

    /// Whether the processor has something to do.
    pub fn is_busy(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The processor has finished a check.
    pub fn decide(&mut self) -> Option<(TxKey, Verdict)> {
        self.waiting.pop_front()
    }

    fn judge(&mut self, transaction: &Transaction) -> Verdict {
        let reject = |code, reason: &str| Verdict::Reject { code, reason: reason.to_owned() };
        let Some(header) = Header::of(transaction) else { return reject(1, "garbage") };
        if !header.valid {
            return reject(2, "invalid");
        }
        let mut admission = Admission {
            priority: i64::from(header.priority),
            gas: u64::from(header.gas),
            ..Admission::default()
        };
        if let Some(account) = self.accounts.get_mut(header.signer as usize) {
            if account.committed.contains(header.sequence) {
                return reject(3, "sequence number is used");
            }
            account.taken.insert(header.sequence);
            admission.sender = self.signers.get(header.signer as usize).cloned();
            admission.sequence = Some(u64::from(header.sequence));
        }
        Verdict::Accept(admission)
    }
}

impl Application for Ledger {
    fn check(&mut self, transaction: &Transaction, kind: CheckKind) -> Verdict {
        let verdict = self.judge(transaction);
        if kind == CheckKind::Recheck || self.validation.is_zero() {
            return verdict;
        }
        self.waiting.push_back((transaction.key(), verdict));
        Verdict::Later
    }

    fn expected_sequence(&mut self, signer: &Signer) -> Option<u64> {
        let account = self.accounts.get(signer_index(signer)? as usize)?;
        Some(u64::from(account.taken.next))
    }
}

#[cfg(test)]
mod tests {
    use super::super::content::signer;
    use super::*;

    fn ledger(validation: Duration) -> Ledger {
        Ledger::new([signer(0), signer(1)].into(), validation)
    }

    fn tx(signer: u32, sequence: u32) -> Transaction {
        Header { valid: true, number: 0, signer, sequence, priority: 5, gas: 7 }.transaction(100)
    }

    #[test]
    fn sequence_numbers_advance() {
        let mut ledger = ledger(Duration::ZERO);
        let mut take = |signer, sequence| {
            let accepted = matches!(ledger.check(&tx(signer, sequence), CheckKind::New), Verdict::Accept(_));
            let expected = ledger.expected_sequence(&super::super::content::signer(signer));
            (accepted, expected)
        };
        assert_eq!(take(0, 0), (true, Some(1)));
        assert_eq!(take(0, 2), (true, Some(1)), "beyond a gap");
        assert_eq!(take(0, 1), (true, Some(3)), "the gap is closed");
        assert_eq!(take(1, 0), (true, Some(1)));
        (3..5).for_each(|sequence| ledger.commit(0, sequence));
        assert_eq!(ledger.expected_sequence(&signer(0)), Some(5));
        let stale = ledger.check(&tx(0, 4), CheckKind::Recheck);
        assert!(matches!(stale, Verdict::Reject { code: 3, .. }), "{stale:?}");
        // A block that has a later one does not invalidate those before it.
        let earlier = ledger.check(&tx(0, 2), CheckKind::Recheck);
        assert!(matches!(earlier, Verdict::Accept(_)), "{earlier:?}");
        assert_eq!(ledger.expected_sequence(&Signer::new(b"x")), None);
        let garbage = ledger.check(&Transaction::new(vec![1; 50]), CheckKind::New);
        assert!(matches!(garbage, Verdict::Reject { code: 1, .. }), "{garbage:?}");
    }

    #[test]
    fn checks_that_take_time_are_made_one_after_the_other() {
        let mut ledger = ledger(Duration::from_millis(1));
        let (first, second) = (tx(0, 0), tx(1, 0));
        for tx in [&first, &second] {
            assert_eq!(ledger.check(tx, CheckKind::New), Verdict::Later);
        }
        assert!(matches!(ledger.check(&first, CheckKind::Recheck), Verdict::Accept(_)));
        let decided: Vec<TxKey> = std::iter::from_fn(|| ledger.decide()).map(|(key, _)| key).collect();
        assert_eq!(decided, [first.key(), second.key()]);
        assert!(!ledger.is_busy());
    }
}
