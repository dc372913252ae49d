//! Engines driven without a simulator: one node whose peers the test plays ([`Node`]), and a network in virtual time ([`Net`]).
#![allow(dead_code, unused_imports, unreachable_pub, missing_docs, reason = "every test file uses a part")]

mod net;
mod node;

use samara_cat::Transaction;
use samara_cat::pool::{Admission, Application, CheckKind, Signer, Verdict};
use samara_engine::PeerIdentity;

pub use net::{Attack, Delay, Net};
pub use node::Node;

/// A transaction with this number and length. Its content says all that the test application knows.
pub fn tx(number: u64, len: usize) -> Transaction {
    content(Kind::Valid, 0, number, len)
}

/// One that the application rejects.
pub fn invalid(number: u64, len: usize) -> Transaction {
    content(Kind::Invalid, 0, number, len)
}

/// One of a signer, with this sequence number.
pub fn signed(signer: u64, sequence: u64) -> Transaction {
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

pub fn signer(number: u64) -> Signer {
    Signer::new(&number.to_be_bytes())
}

pub fn identity(number: u32) -> PeerIdentity {
    let mut bytes = [0; 20];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    PeerIdentity::new(&bytes)
}

/// An application whose transactions say themselves whether they are valid.
#[derive(Debug, Default)]
pub struct App {
    /// Sequence numbers count if this is set: by signer, the next one.
    pub sequences: Option<std::collections::BTreeMap<u64, u64>>,
    /// Verdicts come later.
    pub defers: bool,
    /// Priorities are the numbers of transactions.
    pub priorities: bool,
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
}

impl App {
    pub fn verdict(&mut self, tx: &Transaction, kind: CheckKind) -> Verdict {
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
            sender: Some(signer(owner)),
            sequence: Some(sequence),
        })
    }
}
