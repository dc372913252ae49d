//! What a node counts, under the names of the ADR and of celestia-core where they have one.

use samara_engine::outbox::Tally;

use crate::wire::CatFrame;

macro_rules! names {
    ($(#[doc = $about:literal])* $type:ident { $($(#[doc = $doc:literal])* $variant:ident = $name:literal,)* }) => {
        $(#[doc = $about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type {
            $($(#[doc = $doc])* $variant,)*
        }

        impl $type {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// What reports call it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

names! {
    /// Why something that came from a peer had no effect.
    Ignored {
        /// A frame from a peer without link.
        UnknownPeer = "unknown_peer",
        /// A frame that was not agreed on.
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
        /// A request while this node only listens.
        WantListenOnly = "want_listen_only",
        /// A request for what the peer is being sent.
        WantOwed = "want_owed",
        /// A request for what the peer has, beyond the number of those that are answered all the same.
        WantRepeated = "want_repeated",
        /// A denial of what the peer was not asked for.
        NotFoundUnasked = "not_found_unasked",
        /// A key that would be asked for once its peer has answered others, of which it has too many already.
        RequestQueueFull = "request_queue_full",
        /// A bundle that was not asked for.
        BundleUnasked = "bundle_unasked",
        /// A compact block that is known.
        BlockKnown = "block_known",
    }
}

names! {
    /// Kinds of frames, for byte counters.
    FrameKind {
        /// `Txs`.
        Txs = "txs",
        /// `SeenTx`.
        SeenTx = "seen_tx",
        /// `WantTx`.
        WantTx = "want_tx",
        /// Announcements of several keys.
        SeenKeys = "seen_keys",
        /// Requests for several keys.
        WantKeys = "want_keys",
        /// Denials.
        NotFound = "not_found",
        /// Bundles.
        Bundle = "bundle",
        /// Compact blocks.
        CompactBlock = "compact_block",
    }
}

impl FrameKind {
    /// The kind of a frame.
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

/// Counters of one node, all since its start. What concerns the pool alone is in
/// [`PoolMetrics`](crate::pool::PoolMetrics).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Bodies of transactions that came from peers, duplicates included: divided by the number of transactions it is the
    /// duplication of the ADR.
    pub bodies_received: u64,
    /// Transactions in committed blocks (`SuccessfulTxs`).
    pub successful_txs: u64,
    /// Bodies of transactions that were in the pool when they came (`AlreadySeenTxs`).
    pub already_seen_txs: u64,
    /// Bodies of transactions that were being checked, rejected or committed when they came: `AlreadySeenTxs` misses these.
    pub settled_duplicates: u64,
    /// Requests (`RequestedTxs`), the first and all others.
    pub requested_txs: u64,
    /// Requests after the first one (`RerequestedTxs`).
    pub rerequested_txs: u64,
    /// Requests that timed out although the peer was within the response time that it had shown.
    pub early_timeouts: u64,
    /// Requests that timed out.
    pub timeouts: u64,
    /// Transactions that waited for the announcement of a peer that can be relied on.
    pub held_back: u64,
    /// Requests that were made only to see whether a peer answers again.
    pub probes: u64,
    /// Times that nobody was left to ask (`LostTxs` of the benchmarked build).
    pub lost_txs: u64,
    /// Requests of peers for what is not here (`FailedResponses` of the benchmarked build).
    pub failed_responses: u64,
    /// Keys that peers denied to have.
    pub not_found: u64,
    /// Transactions that left the pool for others.
    pub evicted_txs: u64,
    /// Transactions that grew too old.
    pub expired_txs: u64,
    /// Transactions that the application rejected, rechecks included.
    pub rejected_txs: u64,
    /// Keys that were announced, each for each peer.
    pub announced_keys: u64,
    /// Keys that peers announced.
    pub heard_keys: u64,
    /// Transactions that were sent in the place of their announcements, each for each peer.
    pub inline_txs: u64,
    /// Bodies that were taken back before they left.
    pub withdrawn: u64,
    /// Bodies that found a queue full.
    pub refused_bodies: u64,
    /// Other frames that found a queue full.
    pub refused_frames: u64,
    /// Transactions that were asked for because a compact block had them.
    pub block_misses: u64,
    /// Transactions of compact blocks that were here.
    pub block_hits: u64,
    /// Bundles made here.
    pub bundles: u64,
    sent: [Tally; FrameKind::ALL.len()],
    received: [Tally; FrameKind::ALL.len()],
    ignored: [u64; Ignored::ALL.len()],
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

    /// How often something was ignored for this cause (keys, transactions or frames, whatever the cause is about).
    pub fn ignored(&self, cause: Ignored) -> u64 {
        self.ignored[cause as usize]
    }

    /// All causes with their counts.
    pub fn ignored_by_cause(&self) -> impl Iterator<Item = (Ignored, u64)> {
        Ignored::ALL.iter().map(|cause| (*cause, self.ignored(*cause)))
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
