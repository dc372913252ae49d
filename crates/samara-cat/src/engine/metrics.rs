//! What a node counts, under the names of the ADR and of celestia-core where they have one.

use samara_engine::outbox::Tally;

use crate::counters::counters;
use crate::wire::CatFrame;

samara_engine::names! {
    /// Why something that came from a peer had no effect.
    pub enum Ignored {
        UnknownPeer = "unknown_peer",
        NotNegotiated = "not_negotiated",
        /// A frame that found the queue full of a receiver that sleeps.
        WaitingQueueFull = "waiting_queue_full",
        /// A frame without transactions.
        EmptyTxs = "empty_txs",
        /// The transactions of a frame beyond the number that is allowed.
        TxsOverLimit = "txs_over_limit",
        /// A body that was not asked for, where such ones are dropped.
        Unrequested = "unrequested",
        /// A body that came ahead of others of its signer by too much, or found no room to wait for them.
        TooFarAhead = "too_far_ahead",
        /// A body whose sequence number has been used meanwhile.
        StaleSequence = "stale_sequence",
        /// An announcement of what was rejected or committed.
        SeenSettled = "seen_settled",
        /// An announcement of a transaction that was evicted, while there is no more room than then.
        SeenEvicted = "seen_evicted",
        /// An announcement by a peer of which too many are remembered.
        SeenPeerFull = "seen_peer_full",
        /// An announcement while too many keys are remembered.
        SeenTableFull = "seen_table_full",
        /// An announcement with a sequence number that has been used.
        SeenStaleSequence = "seen_stale_sequence",
        /// An announcement by a signer that the application does not know.
        SeenUnknownSigner = "seen_unknown_signer",
        /// An announcement of a future transaction of a signer that has too many.
        SeenSignerFull = "seen_signer_full",
        /// A request for what the peer is being sent.
        WantOwed = "want_owed",
        /// A request for what the peer has, beyond the number of those that are answered all the same.
        WantRepeated = "want_repeated",
        /// A denial of what the peer was not asked for.
        NotFoundUnasked = "not_found_unasked",
        /// A key that would be asked for once its peer has answered others, of which it has too many already.
        RequestQueueFull = "request_queue_full",
        BundleUnasked = "bundle_unasked",
        BlockKnown = "block_known",
    }
}

samara_engine::names! {
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

counters! {
    /// Counters of one node, all since its start. What concerns the pool alone is in
    /// [`PoolMetrics`](crate::pool::PoolMetrics).
    Metrics {
        /// Bodies of transactions received from peers, duplicates included; divided by the number of transactions,
        /// this is the duplication of the ADR
        bodies_received = "bodies_received",
        /// Bodies of transactions that were not requested from the peer that sent them
        unrequested_bodies = "unrequested_bodies",
        /// Bodies of transactions that were in the pool when they arrived
        already_seen_txs = "already_seen_txs",
        /// Bodies of transactions that were being checked, rejected or committed when they arrived
        settled_duplicates = "settled_duplicates",
        /// All requests for transactions, first and repeated
        requested_txs = "requested_txs",
        /// Requests after the first one
        rerequested_txs = "rerequested_txs",
        /// Requests that timed out before the usual response time of the peer
        early_timeouts = "early_timeouts",
        /// Requests that timed out
        timeouts = "request_timeouts",
        /// Transactions that waited for the announcement of a reliable peer
        held_back = "held_back_txs",
        /// Requests that only test whether a peer answers again
        probes = "probes",
        /// Number of times that no peer was left from which to request a transaction
        lost_txs = "lost_txs",
        /// Requests of peers for transactions that this node does not have
        failed_responses = "failed_responses",
        /// Requested keys that peers reported as missing
        not_found = "not_found",
        /// Keys that this node announced, counted for each peer
        announced_keys = "announced_keys",
        /// Keys that peers announced
        heard_keys = "heard_keys",
        /// Transactions sent instead of their announcements, counted for each peer
        inline_txs = "inline_txs",
        /// Bodies withdrawn before they left
        withdrawn = "withdrawn_bodies",
        /// Transactions requested because a compact block contains them
        block_misses = "block_misses",
        /// Transactions of compact blocks that the pool already had
        block_hits = "block_hits",
        /// Bundles that this node created
        bundles = "bundles",
    } and {
        /// Bodies that found a queue full.
        pub refused_bodies: u64,
        /// Other frames that found a queue full.
        pub refused_frames: u64,
        sent: [Tally; FrameKind::ALL.len()],
        received: [Tally; FrameKind::ALL.len()],
        ignored: [u64; Ignored::ALL.len()],
    }
}

impl Metrics {
    /// Frames that the outbox took, and their bytes. What was withdrawn is not subtracted.
    pub fn sent(&self, kind: FrameKind) -> Tally {
        self.sent[kind as usize]
    }

    /// Frames that came, and their bytes.
    pub fn received(&self, kind: FrameKind) -> Tally {
        self.received[kind as usize]
    }

    pub fn received_mut(&mut self, kind: FrameKind) -> &mut Tally {
        &mut self.received[kind as usize]
    }

    /// How often something was ignored for each cause (keys, transactions or frames, whatever the cause is about).
    pub fn ignored(&self, cause: Ignored) -> u64 {
        self.ignored[cause as usize]
    }

    pub fn ignored_mut(&mut self, cause: Ignored) -> &mut u64 {
        &mut self.ignored[cause as usize]
    }

    pub fn add(&mut self, other: &Self) {
        for ((_, sum), (.., more)) in self.counters_mut().zip(other.counters()) {
            *sum += more;
        }
        self.refused_bodies += other.refused_bodies;
        self.refused_frames += other.refused_frames;
        let tallies = self.sent.iter_mut().chain(&mut self.received);
        for (sum, more) in tallies.zip(other.sent.iter().chain(&other.received)) {
            sum.copies += more.copies;
            sum.bytes += more.bytes;
        }
        self.ignored.iter_mut().zip(other.ignored).for_each(|(sum, more)| *sum += more);
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
