//! What the pool asks of the node that embeds it.

use std::fmt;
use std::sync::Arc;

use crate::Transaction;

/// The application behind the pool, which alone knows what a transaction means (`CheckTx` of ABCI, with what celestia-core calls
/// pre-check and post-check).
///
/// A function `FnMut(&Transaction, CheckKind) -> Verdict` is one.
pub trait Application: Send {
    /// Whether a transaction is valid. In a simulation the answer must depend on nothing but what this node was told.
    fn check(&mut self, tx: &Transaction, kind: CheckKind) -> Verdict;

    /// The sequence number that the next transaction of `signer` must have (`QuerySequence` of celestia-core), if
    /// the application has such numbers.
    fn expected_sequence(&mut self, signer: &Signer) -> Option<u64> {
        let _ = signer;
        None
    }
}

impl<F: FnMut(&Transaction, CheckKind) -> Verdict + Send> Application for F {
    fn check(&mut self, tx: &Transaction, kind: CheckKind) -> Verdict {
        self(tx, kind)
    }
}

/// Why a transaction is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CheckKind {
    /// It came just now.
    New,
    /// It is in the pool, and a block was committed that may have made it invalid.
    Recheck,
}

/// What the application says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Valid.
    Accept(Admission),
    /// Not valid.
    Reject {
        /// The application's number for the cause.
        code: u32,
        /// The cause in words.
        reason: String,
    },
    /// To be told by [`Pool::decided`](super::Pool::decided). A new transaction stays reserved until then, one in the
    /// pool stays there.
    Later,
}

/// What the application says of a valid transaction. On a recheck it is not looked at, as in celestia-core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admission {
    /// Higher goes first.
    pub priority: i64,
    /// How much work a block has with it, in the application's unit.
    pub gas: u64,
    /// Whose it is, where that matters.
    pub sender: Option<Signer>,
    /// Its place among the transactions of its sender.
    pub sequence: Option<u64>,
}

/// An account that signs transactions, as the application names it. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signer(Arc<[u8]>);

impl Signer {
    /// A signer from its name.
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// The name.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
