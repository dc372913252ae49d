//! Tests of single pools with peers that the test plays, of networks in virtual time, and of the
//! wire format.

mod attackers;
mod collisions;
mod generation_2025;
mod generation_2026;
mod in_order;
mod net;
mod network;
mod node;
mod ours;
mod pool;
mod reactor;
mod standing;
mod waiting;
mod wire;

use samara_cat::Transaction;
use samara_cat::pool::{Admission, Application, CheckKind, Signer, Verdict};
use samara_engine::PeerIdentity;

/// Returns a transaction with this number and length. Its content determines the verdict.
fn tx(number: u64, len: usize) -> Transaction {
    content(Kind::Valid, 0, number, len)
}

/// Returns a transaction that the application rejects.
fn invalid(number: u64, len: usize) -> Transaction {
    content(Kind::Invalid, 0, number, len)
}

/// Returns a transaction of a signer, with this sequence number.
fn signed(signer: u64, sequence: u64) -> Transaction {
    content(Kind::Valid, signer, sequence, 64)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Valid = 0,
    Invalid = 1,
}

fn content(kind: Kind, signer: u64, number: u64, len: usize) -> Transaction {
    let mut bytes = vec![0; len.max(17)];
    bytes[0] = kind as u8;
    bytes[1..9].copy_from_slice(&signer.to_be_bytes());
    bytes[9..17].copy_from_slice(&number.to_be_bytes());
    Transaction::new(bytes)
}

fn signer(number: u64) -> Signer {
    Signer::new(&number.to_be_bytes())
}

fn identity(number: u32) -> PeerIdentity {
    let mut bytes = [0; 20];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    PeerIdentity::new(&bytes)
}

/// An application that takes its verdicts from the content of transactions.
#[derive(Debug, Default)]
struct App {
    /// The next sequence number by signer. Without them, any sequence number is valid.
    sequences: Option<std::collections::BTreeMap<u64, u64>>,
    /// Whether verdicts are deferred.
    defers: bool,
    /// Whether no transaction has a signer.
    unsigned: bool,
    /// Whether the number of a transaction is its priority.
    priorities: bool,
}

impl Application for App {
    fn check(&mut self, tx: &Transaction, kind: CheckKind) -> Verdict {
        if kind == CheckKind::New && self.defers {
            return Verdict::Later;
        }
        self.verdict(tx, kind)
    }

    fn expected_sequence(&mut self, signer: &Signer) -> Option<u64> {
        let number = u64::from_be_bytes(signer.as_bytes().try_into().ok()?);
        Some(*self.sequences.as_mut()?.entry(number).or_insert(0))
    }

    fn account(&mut self, tx: &Transaction) -> Option<(Signer, u64)> {
        self.sequences.as_ref()?;
        let bytes = tx.bytes();
        let number = |at: usize| Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        Some((signer(number(1)?), number(9)?))
    }
}

impl App {
    fn verdict(&mut self, tx: &Transaction, kind: CheckKind) -> Verdict {
        let bytes = tx.bytes();
        let number =
            |at: usize| bytes.get(at..at + 8).map(|bytes| u64::from_be_bytes(bytes.try_into().unwrap()));
        let (Some(owner), Some(sequence)) = (number(1), number(9)) else {
            return Verdict::Reject { code: 2, reason: "too short".into() };
        };
        if bytes[0] != Kind::Valid as u8 {
            return Verdict::Reject { code: 1, reason: "invalid".into() };
        }
        if let Some(sequences) = self.sequences.as_mut().filter(|_| kind == CheckKind::New) {
            let expected = sequences.entry(owner).or_insert(0);
            if *expected != sequence {
                return Verdict::Reject { code: 3, reason: format!("sequence {sequence}, not {expected}") };
            }
            *expected += 1;
        }
        Verdict::Accept(Admission {
            priority: if self.priorities { sequence as i64 } else { 0 },
            gas: 1,
            sender: (!self.unsigned).then(|| signer(owner)),
            sequence: Some(sequence),
        })
    }
}
