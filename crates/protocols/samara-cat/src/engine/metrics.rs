//! The counters of a node, under the names of the ADR and of celestia-core if these have one.

use samara_engine::outbox::Tally;

use crate::wire::CatFrame;

samara_engine::names! {
    /// The reason for ignoring something that a peer sent.
    pub enum Ignored {
        UnknownPeer = "unknown_peer",
        NotNegotiated = "not_negotiated",
        /// A frame that found the queue of a sleeping receive loop full.
        WaitingQueueFull = "waiting_queue_full",
        /// A frame without transactions.
        EmptyTxs = "empty_txs",
        /// The transactions of a frame beyond the allowed number.
        TxsOverLimit = "txs_over_limit",
        /// An unrequested body, if the node drops those.
        Unrequested = "unrequested",
        /// A body that is too far ahead of others of its signer, or found no room to wait for them.
        TooFarAhead = "too_far_ahead",
        /// A body that waited for earlier ones of its signer, which did not come in time.
        GapOverdue = "gap_overdue",
        /// A body whose sequence number has been used meanwhile.
        StaleSequence = "stale_sequence",
        /// An announcement of a rejected or committed transaction.
        SeenSettled = "seen_settled",
        /// An announcement of an evicted transaction, while there is no more room than at the
        /// eviction.
        SeenEvicted = "seen_evicted",
        /// An announcement from a peer with too many remembered announcements.
        SeenPeerFull = "seen_peer_full",
        /// An announcement that arrived while too many keys were remembered.
        SeenTableFull = "seen_table_full",
        /// An announcement with a used sequence number.
        SeenStaleSequence = "seen_stale_sequence",
        /// An announcement by a signer unknown to the application.
        SeenUnknownSigner = "seen_unknown_signer",
        /// An announcement of a future transaction of a signer with too many of them.
        SeenSignerFull = "seen_signer_full",
        /// An announced key that was forgotten before this node requested it, or while it waited for
        /// a peer to be asked again.
        SeenForgotten = "seen_forgotten",
        /// A request for a transaction that is already being sent to the peer.
        WantOwed = "want_owed",
        /// A request for a transaction that the peer has, beyond the number of such requests that
        /// are answered.
        WantRepeated = "want_repeated",
        /// A denial of a key that the peer was not asked for.
        NotFoundUnasked = "not_found_unasked",
        /// A key that would wait for its peer to answer other requests, of which too many are
        /// waiting.
        RequestQueueFull = "request_queue_full",
        BundleUnasked = "bundle_unasked",
        BlockKnown = "block_known",
    }
}

samara_engine::names! {
    /// The kind of a frame, for counters.
    pub enum FrameKind {
        Txs = "txs",
        SeenTx = "seen_tx",
        WantTx = "want_tx",
        SeenKeys = "seen_keys",
        WantKeys = "want_keys",
        NotFound = "not_found",
        Bundle = "bundle",
        CompactBlock = "compact_block",
    }
}

impl FrameKind {
    pub const fn of(frame: &CatFrame) -> Self {
        match frame {
            CatFrame::Tx(_) | CatFrame::Txs(_) => Self::Txs,
            CatFrame::SeenTx(_) => Self::SeenTx,
            CatFrame::WantTx(_) => Self::WantTx,
            CatFrame::SeenKeys(_) => Self::SeenKeys,
            CatFrame::WantKeys(_) => Self::WantKeys,
            CatFrame::NotFound(_) => Self::NotFound,
            CatFrame::Bundle(_) => Self::Bundle,
            CatFrame::CompactBlock(_) => Self::CompactBlock,
        }
    }
}

samara_engine::counters! {
    /// Counters of one node since its start. Counters of the pool are in
    /// [`PoolMetrics`](crate::pool::PoolMetrics).
    ///
    /// With serde, counters of zero may be missing: other implementations do not count everything.
    #[derive(Eq)]
    #[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize))]
    #[cfg_attr(feature = "config", serde(default, deny_unknown_fields))]
    pub struct Metrics {
        /// Bodies of transactions received from peers, including duplicates. Divided by the number
        /// of transactions, this is the duplication of the ADR
        pub bodies_received: u64,
        /// Bodies of transactions that were not requested from the peer that sent them
        pub unrequested_bodies: u64,
        /// Bodies of transactions that were in the pool when they arrived
        pub already_seen_txs: u64,
        /// Bodies of transactions that were being checked, rejected or committed when they arrived
        pub settled_duplicates: u64,
        /// First requests of this node for a transaction. The ADR counts these as `RequestedTxs`;
        /// celestia-core's counter of that name includes the further ones
        pub requested_txs: u64,
        /// Requests for a transaction after the first one
        pub rerequested_txs: u64,
        /// Announcements whose hint made this node wait for a push instead of requesting
        pub awaited_pushes: u64,
        /// Waits for a push that ended without the transaction
        pub overdue_pushes: u64,
        /// Requests that timed out before the usual response time of the peer
        pub early_timeouts: u64,
        /// Requests that timed out
        pub timeouts: u64,
        /// Transactions whose request waited for an announcement from a reliable peer
        pub held_back_txs: u64,
        /// Requests that only test whether a peer answers again
        pub probes: u64,
        /// Number of times that no peer was left to request a transaction from
        pub lost_txs: u64,
        /// Requests from peers for transactions that this node does not have
        pub failed_responses: u64,
        /// Requested keys that peers reported as missing
        pub not_found: u64,
        /// Keys that this node announced, counted for each peer
        pub announced_keys: u64,
        /// Keys not announced to a peer of `cat/3` because their transaction has no signer, counted
        /// for each peer
        pub unsigned_keys: u64,
        /// Keys that peers announced
        pub heard_keys: u64,
        /// Transactions sent instead of their announcements, counted for each peer
        pub inline_txs: u64,
        /// Bodies withdrawn from a queue before they were sent
        pub withdrawn_bodies: u64,
        /// Transactions requested because a compact block contains them
        pub block_misses: u64,
        /// Transactions of compact blocks that were already in the pool
        pub block_hits: u64,
        /// Bundles that this node created
        pub bundles: u64,
        /// Bodies that found their queue full
        pub refused_bodies: u64,
        /// Other frames that found their queue full
        pub refused_frames: u64,
        /// Frames that the outbox accepted, including those withdrawn later
        pub sent[kind: FrameKind]: Tally,
        /// Frames received
        pub received[kind: FrameKind]: Tally,
        /// Keys, transactions or frames of peers without effect
        pub ignored[cause: Ignored]: u64,
    }
}

impl Metrics {
    /// Returns the number of requests, first and further ones.
    pub fn requests(&self) -> u64 {
        self.requested_txs + self.rerequested_txs
    }

    pub(crate) fn ignore(&mut self, cause: Ignored) {
        self.ignored[cause] += 1;
    }

    pub(crate) fn send(&mut self, kind: FrameKind, len: usize) {
        self.sent[kind].add(u32::try_from(len).unwrap_or(u32::MAX));
    }

    pub(crate) fn receive(&mut self, kind: FrameKind, len: usize) {
        self.received[kind].add(u32::try_from(len).unwrap_or(u32::MAX));
    }
}
