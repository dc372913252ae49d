//! What a node can be asked for, and what it tells.

use std::sync::Arc;

use samara_engine::PeerId;

use crate::pool::{Cause, Verdict};
use crate::{Transaction, TxKey};

/// What a node can be asked for by [`Input::Command`](samara_engine::Input::Command). Each has a method of
/// [`Cat`](crate::Cat).
#[derive(Clone, Debug)]
pub enum Command {
    /// A client submits a transaction (`CheckTx` by RPC). [`Event::Added`] or [`Event::Refused`] answers.
    Submit(Transaction),
    Commit {
        height: u64,
        keys: Arc<[TxKey]>,
    },
    /// This node proposes a block: [`Event::Proposed`] answers, and its peers get the keys where compact blocks are on.
    Propose {
        height: u64,
        max_bytes: u64,
        max_gas: u64,
    },
    /// The verdict on a transaction for which the application answered [`Verdict::Later`].
    Decided {
        key: TxKey,
        verdict: Verdict,
    },
    PeerHeight {
        peer: PeerId,
        height: u64,
    },
}

/// What a node tells. Small and without memory of its own: a simulation makes tens of millions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A transaction is in the pool.
    Added {
        key: TxKey,
        /// Its sender; `None` if it was submitted here.
        from: Option<PeerId>,
    },
    /// Another copy of a transaction that is in the pool, is being checked, or was committed
    /// (only if [`Config::report_duplicates`](crate::Config::report_duplicates)).
    Duplicate {
        key: TxKey,
        /// Its sender; `None` if it was submitted here.
        from: Option<PeerId>,
    },
    Refused {
        key: TxKey,
        /// Its sender; `None` if it was submitted here.
        from: Option<PeerId>,
        cause: Cause,
    },
    /// A transaction left the pool for others.
    Evicted(TxKey),
    Expired(TxKey),
    /// A block made a transaction invalid.
    Invalidated(TxKey),
    /// A transaction (a bundle, a block) is asked for, for the first time
    /// (only if [`Config::report_requests`](crate::Config::report_requests), as the next one).
    Requested {
        key: TxKey,
        from: PeerId,
    },
    /// It is asked for again.
    Rerequested {
        key: TxKey,
        from: PeerId,
    },
    /// Nobody is left to ask. It can be announced again, and late answers still count.
    GivenUp(TxKey),
    Proposed {
        /// Its key, by which peers know the compact block.
        key: TxKey,
        height: u64,
        txs: u32,
    },
    Block {
        key: TxKey,
        height: u64,
        hits: u32,
        /// Transactions that have to be asked for.
        misses: u32,
    },
    /// All transactions of a compact block are here.
    BlockComplete {
        key: TxKey,
        height: u64,
    },
    /// The transactions that a compact block lacks did not come in time.
    BlockGivenUp {
        key: TxKey,
        height: u64,
        missing: u32,
    },
    Misbehaved {
        peer: PeerId,
        why: Misbehaviour,
    },
    /// There are transactions, for the first time since the last block (`TxsAvailable`).
    Available,
}

samara_engine::names! {
    /// How a peer broke the rules.
    pub enum Misbehaviour {
        /// More transactions in a frame than allowed (`errTooManyTxs`).
        TooManyTxs = "too_many_txs",
        /// A transaction without content, or a frame without transaction, where that is not allowed (`errEmptyTx`).
        EmptyTx = "empty_tx",
        /// An announcement without signer where there must be one (`errMissingSigner`).
        MissingSigner = "missing_signer",
        NotNegotiated = "not_negotiated",
        /// Too many transactions that the application rejects.
        InvalidTransactions = "invalid_transactions",
    }
}
