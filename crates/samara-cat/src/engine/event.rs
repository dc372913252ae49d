//! What a node can be asked for, and what it tells.

use std::sync::Arc;

use samara_engine::PeerId;

use crate::pool::{Cause, Verdict};
use crate::{Transaction, TxKey};

/// What a node can be asked for by [`Input::Command`](samara_engine::Input::Command). Those that have an answer are
/// methods of [`Cat`](crate::Cat), too.
#[derive(Clone, Debug)]
pub enum Command {
    /// A client submits a transaction (`CheckTx` by RPC). [`Event::Added`] or [`Event::Refused`] answers.
    Submit(Transaction),
    /// A block with these transactions was committed.
    Commit { height: u64, keys: Arc<[TxKey]> },
    /// This node proposes a block: [`Event::Proposed`] answers, and its peers get the keys where compact blocks are on.
    Propose { height: u64, max_bytes: u64, max_gas: u64 },
    /// The verdict on a transaction for which the application answered [`Verdict::Later`].
    Decided { key: TxKey, verdict: Verdict },
    /// A peer has reached a height. One that has caught up is told of what it was not told before.
    PeerHeight { peer: PeerId, height: u64 },
}

/// What a node tells. Small and without memory of its own: a simulation makes tens of millions. Where `from` is `None`, the transaction
/// was submitted here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A transaction is in the pool.
    Added { key: TxKey, from: Option<PeerId> },
    /// Another copy of a transaction that is in the pool, is being checked, or was committed
    /// (only if [`Config::report_duplicates`](crate::Config::report_duplicates)).
    Duplicate { key: TxKey, from: Option<PeerId> },
    /// A transaction was not taken.
    Refused { key: TxKey, from: Option<PeerId>, cause: Cause },
    /// A transaction left the pool for others.
    Evicted(TxKey),
    /// A transaction grew too old.
    Expired(TxKey),
    /// A block made a transaction invalid.
    Invalidated(TxKey),
    /// A peer is asked for a transaction (a bundle, a block), for the first time
    /// (only if [`Config::report_requests`](crate::Config::report_requests), as the next one).
    Requested { key: TxKey, from: PeerId },
    /// A peer is asked for it again.
    Rerequested { key: TxKey, from: PeerId },
    /// Nobody is left to ask. It can be announced again, and late answers still count.
    GivenUp(TxKey),
    /// This node proposed a block; peers know the compact block by its key.
    Proposed { key: TxKey, height: u64, txs: u32 },
    /// A compact block came: so many of its transactions were here, and so many have to be asked for.
    Block { key: TxKey, height: u64, hits: u32, misses: u32 },
    /// All transactions of a compact block are here.
    BlockComplete { key: TxKey, height: u64 },
    /// The transactions that a compact block lacks did not come in time.
    BlockGivenUp { key: TxKey, height: u64, missing: u32 },
    /// A peer broke a rule.
    Misbehaved { peer: PeerId, why: Misbehaviour },
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
