//! The counters of a node, under the names of the ADR and of celestia-core if these have one.

use samara_engine::outbox::Tally;

use crate::counters::{by_name, counters};
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

by_name!(by_kind: FrameKind);
by_name!(by_cause: Ignored);

counters! {
    /// Counters of one node since its start. Counters of the pool are in
    /// [`PoolMetrics`](crate::pool::PoolMetrics).
    Metrics {
        /// Bodies of transactions received from peers, including duplicates. Divided by the number
        /// of transactions, this is the duplication of the ADR
        bodies_received = "bodies_received",
        /// Bodies of transactions that were not requested from the peer that sent them
        unrequested_bodies = "unrequested_bodies",
        /// Bodies of transactions that were in the pool when they arrived
        already_seen_txs = "already_seen_txs",
        /// Bodies of transactions that were being checked, rejected or committed when they arrived
        settled_duplicates = "settled_duplicates",
        /// First requests of this node for a transaction. The ADR counts these as `RequestedTxs`;
        /// celestia-core's counter of that name includes the further ones
        requested_txs = "requested_txs",
        /// Requests for a transaction after the first one
        rerequested_txs = "rerequested_txs",
        /// Announcements whose hint made this node wait for a push instead of requesting
        awaited_pushes = "awaited_pushes",
        /// Waits for a push that ended without the transaction
        overdue_pushes = "overdue_pushes",
        /// Requests that timed out before the usual response time of the peer
        early_timeouts = "early_timeouts",
        /// Requests that timed out
        timeouts = "request_timeouts",
        /// Transactions whose request waited for an announcement from a reliable peer
        held_back = "held_back_txs",
        /// Requests that only test whether a peer answers again
        probes = "probes",
        /// Number of times that no peer was left to request a transaction from
        lost_txs = "lost_txs",
        /// Requests from peers for transactions that this node does not have
        failed_responses = "failed_responses",
        /// Requested keys that peers reported as missing
        not_found = "not_found",
        /// Keys that this node announced, counted for each peer
        announced_keys = "announced_keys",
        /// Keys that peers announced
        heard_keys = "heard_keys",
        /// Transactions sent instead of their announcements, counted for each peer
        inline_txs = "inline_txs",
        /// Bodies withdrawn from a queue before they were sent
        withdrawn = "withdrawn_bodies",
        /// Transactions requested because a compact block contains them
        block_misses = "block_misses",
        /// Transactions of compact blocks that were already in the pool
        block_hits = "block_hits",
        /// Bundles that this node created
        bundles = "bundles",
    } and {
        /// Bodies that found their queue full.
        pub refused_bodies: u64,
        /// Other frames that found their queue full.
        pub refused_frames: u64,
        #[cfg_attr(feature = "config", serde(with = "by_kind"))]
        sent: [Tally; FrameKind::ALL.len()],
        #[cfg_attr(feature = "config", serde(with = "by_kind"))]
        received: [Tally; FrameKind::ALL.len()],
        #[cfg_attr(feature = "config", serde(with = "by_cause"))]
        ignored: [u64; Ignored::ALL.len()],
    }
}

impl Metrics {
    /// Returns the number and bytes of frames that the outbox accepted. Includes frames withdrawn
    /// later.
    pub fn sent(&self, kind: FrameKind) -> Tally {
        self.sent[kind as usize]
    }

    /// Returns the number and bytes of frames received.
    pub fn received(&self, kind: FrameKind) -> Tally {
        self.received[kind as usize]
    }

    pub fn received_mut(&mut self, kind: FrameKind) -> &mut Tally {
        &mut self.received[kind as usize]
    }

    /// Returns the number of keys, transactions or frames that were ignored for this cause.
    pub fn ignored(&self, cause: Ignored) -> u64 {
        self.ignored[cause as usize]
    }

    pub fn ignored_mut(&mut self, cause: Ignored) -> &mut u64 {
        &mut self.ignored[cause as usize]
    }

    /// Returns the number of requests, first and further ones.
    pub fn requests(&self) -> u64 {
        self.requested_txs + self.rerequested_txs
    }

    fn each_with(&mut self, other: &Self, change: fn(&mut u64, u64)) {
        for ((_, own), (.., value)) in self.counters_mut().zip(other.counters()) {
            change(own, value);
        }
        change(&mut self.refused_bodies, other.refused_bodies);
        change(&mut self.refused_frames, other.refused_frames);
        let tallies = self.sent.iter_mut().chain(&mut self.received);
        for (own, value) in tallies.zip(other.sent.iter().chain(&other.received)) {
            change(&mut own.copies, value.copies);
            change(&mut own.bytes, value.bytes);
        }
        self.ignored.iter_mut().zip(other.ignored).for_each(|(own, value)| change(own, value));
    }

    pub(crate) fn ignore(&mut self, cause: Ignored) {
        self.ignored[cause as usize] += 1;
    }

    pub(crate) fn send(&mut self, kind: FrameKind, len: usize) {
        self.sent[kind as usize].add(u32::try_from(len).unwrap_or(u32::MAX));
    }

    pub(crate) fn receive(&mut self, kind: FrameKind, len: usize) {
        self.received[kind as usize].add(u32::try_from(len).unwrap_or(u32::MAX));
    }
}
