//! The commands and events of a node.

use std::sync::Arc;

use samara_engine::PeerId;

use crate::pool::{Cause, Verdict};
use crate::{Transaction, TxKey};

/// A request from the application, sent with [`Input::Command`](samara_engine::Input::Command).
/// Commands with an answer are also methods of [`Cat`](crate::Cat).
#[derive(Clone, Debug)]
pub enum Command {
    /// Submits a transaction of a client (`CheckTx` by RPC). The node answers with [`Event::Added`]
    /// or [`Event::Refused`].
    Submit(Transaction),
    /// Reports a committed block with these transactions.
    Commit { height: u64, keys: Arc<[TxKey]> },
    /// Proposes a block. The node answers with [`Event::Proposed`], and sends the keys to its peers
    /// if compact blocks are enabled.
    Propose { height: u64, max_bytes: u64, max_gas: u64 },
    /// Delivers the verdict on a transaction for which the application answered [`Verdict::Later`].
    Decided { key: TxKey, verdict: Verdict },
    /// Reports the height of a peer. A peer that has caught up gets the announcements that it
    /// missed.
    PeerHeight { peer: PeerId, height: u64 },
}

/// A report from a node. Small and without heap memory, since a simulation creates tens of
/// millions. A transaction whose `from` is `None` was submitted to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A transaction entered the pool.
    Added { key: TxKey, from: Option<PeerId> },
    /// Another copy arrived of a transaction that is in the pool, is being checked, or was
    /// committed. Only if [`Config::report_duplicates`](crate::Config::report_duplicates) is set.
    Duplicate { key: TxKey, from: Option<PeerId> },
    /// A transaction was rejected.
    Refused { key: TxKey, from: Option<PeerId>, cause: Cause },
    /// A transaction left the pool to make room for others.
    Evicted(TxKey),
    /// A transaction exceeded its maximum age.
    Expired(TxKey),
    /// A block made a transaction invalid.
    Invalidated(TxKey),
    /// The node asked a peer for a transaction, bundle or block for the first time. This event and
    /// the next one only if [`Config::report_requests`](crate::Config::report_requests) is set.
    Requested { key: TxKey, from: PeerId },
    /// The node asked another time.
    Rerequested { key: TxKey, from: PeerId },
    /// No peer is left to ask, or the key was forgotten before it could be requested. The key can be
    /// announced again, and late answers still count.
    GivenUp(TxKey),
    /// This node proposed a block. Peers know the compact block by its key.
    Proposed { key: TxKey, height: u64, txs: u32 },
    /// A compact block arrived. `hits` of its transactions were in the pool, `misses` must be
    /// requested.
    Block { key: TxKey, height: u64, hits: u32, misses: u32 },
    /// All transactions of a compact block are in the pool.
    BlockComplete { key: TxKey, height: u64 },
    /// The missing transactions of a compact block did not arrive in time.
    BlockGivenUp { key: TxKey, height: u64, missing: u32 },
    /// A peer broke a rule.
    Misbehaved { peer: PeerId, why: Misbehaviour },
    /// The pool has transactions, for the first time since the last block (`TxsAvailable`).
    Available,
}

samara_engine::names! {
    /// The rule that a peer broke.
    #[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize))]
    #[cfg_attr(feature = "config", serde(rename_all = "snake_case"))]
    pub enum Misbehaviour {
        /// More transactions in a frame than allowed (`errTooManyTxs`).
        TooManyTxs = "too_many_txs",
        /// An empty transaction, or a frame without transactions, if that is not allowed
        /// (`errEmptyTx`).
        EmptyTx = "empty_tx",
        /// An announcement without the required signer (`errMissingSigner`).
        MissingSigner = "missing_signer",
        NotNegotiated = "not_negotiated",
        /// Too many transactions that the application rejected.
        InvalidTransactions = "invalid_transactions",
    }
}
