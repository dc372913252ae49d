//! What a node counts.

use samara_engine::outbox::LossCause;

samara_engine::names! {
    /// Why something that came from a peer had no effect, or not the one asked for.
    pub enum Ignored {
        /// A frame from a peer without link.
        RpcUnknownPeer = "rpc_unknown_peer",
        /// A frame longer than allowed.
        RpcTooLong = "rpc_too_long",
        /// Messages and control of a peer below the graylist threshold.
        RpcGraylisted = "rpc_graylisted",
        /// An RPC with too many subscriptions.
        SubscriptionsOverLimit = "subscriptions_over_limit",
        /// A subscription to a topic that the filter does not pass.
        SubscriptionFiltered = "subscription_filtered",
        /// A subscription of a peer that has too many.
        SubscriptionPeerFull = "subscription_peer_full",
        /// A message that names no topic.
        MessageWithoutTopic = "message_without_topic",
        /// A message on a topic that is not joined.
        MessageNotSubscribed = "message_not_subscribed",
        /// A message longer than its topic allows.
        MessageTooLong = "message_too_long",
        /// A message of one's own, from somebody else, that was not published here.
        MessageFromSelf = "message_from_self",
        /// A message that does not fit the signature policy, or whose signature is wrong.
        MessageSignature = "message_signature",
        /// A message that the application ignored.
        MessageIgnored = "message_ignored",
        /// A message that the application rejected.
        MessageRejected = "message_rejected",
        /// A message that came while too many waited for validation.
        ValidationThrottled = "validation_throttled",
        /// A message whose validation was never answered.
        ValidationTimedOut = "validation_timed_out",
        /// IHAVE of a peer below the gossip threshold.
        IHaveScore = "ihave_score",
        /// IHAVE beyond the number of RPCs per heartbeat.
        IHaveMessagesOverLimit = "ihave_messages_over_limit",
        /// Ids of IHAVE beyond the number per heartbeat.
        IHaveIdsOverLimit = "ihave_ids_over_limit",
        /// IHAVE on a topic that is not joined.
        IHaveNotSubscribed = "ihave_not_subscribed",
        /// IWANT of a peer below the gossip threshold.
        IWantScore = "iwant_score",
        /// An id that is not in the cache.
        IWantUnknown = "iwant_unknown",
        /// Ids of IWANT beyond the number per heartbeat.
        IWantIdsOverLimit = "iwant_ids_over_limit",
        /// A message asked for too often.
        IWantRetransmissions = "iwant_retransmissions",
        /// A message asked for after IDONTWANT.
        IWantUnwanted = "iwant_unwanted",
        /// IDONTWANT beyond the number of RPCs per heartbeat.
        IDontWantMessagesOverLimit = "idontwant_messages_over_limit",
        /// Ids of IDONTWANT beyond the number per RPC.
        IDontWantIdsOverLimit = "idontwant_ids_over_limit",
        /// Ids of IDONTWANT of a peer that has too many remembered.
        IDontWantPeerFull = "idontwant_peer_full",
        /// GRAFT for a topic that is not joined.
        GraftNotSubscribed = "graft_not_subscribed",
        /// GRAFT from a direct peer.
        GraftDirectPeer = "graft_direct_peer",
        /// GRAFT during the backoff.
        GraftBackoff = "graft_backoff",
        /// GRAFT from a peer with negative score.
        GraftScore = "graft_score",
        /// GRAFT into a mesh that is full.
        GraftMeshFull = "graft_mesh_full",
        /// GRAFT from a peer that speaks floodsub, or that never gets messages.
        GraftRole = "graft_role",
        /// PRUNE for a topic that is not joined.
        PruneNotSubscribed = "prune_not_subscribed",
        /// Extensions that a peer announced before; they are announced once.
        ExtensionsAgain = "extensions_again",
        /// Extensions of a peer that does not speak v1.3.
        ExtensionsVersion = "extensions_version",
        /// Peers recommended by one below the accept-PX threshold, or while none are wanted (`prune_peers` of 0).
        ExchangeScore = "exchange_score",
        /// Peers recommended beyond the number that is dialled.
        ExchangeOverLimit = "exchange_over_limit",
    }
}

/// Counters of one node, all since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Frames that came.
    pub rpcs_received: u64,
    /// Messages that came, duplicates included.
    pub messages_received: u64,
    /// Of these, such that were known.
    pub duplicates_received: u64,
    /// Messages of others that were accepted.
    pub messages_delivered: u64,
    /// Messages that were published here.
    pub messages_published: u64,
    /// Of these, such that nobody was known to want.
    pub messages_published_to_nobody: u64,
    /// Copies of own messages that were owed.
    pub copies_published: u64,
    /// Copies of others' messages that were owed.
    pub copies_forwarded: u64,
    /// Copies that were owed in answer to IWANT.
    pub copies_answered: u64,
    /// Copies that were not owed because the peer had said IDONTWANT.
    pub copies_suppressed: u64,
    /// Copies that were taken back, for whatever reason of [`Withdraw`](crate::config::Withdraw).
    pub copies_withdrawn: u64,
    /// Ids announced.
    pub ihave_ids_sent: u64,
    /// Ids that peers announced.
    pub ihave_ids_received: u64,
    /// Ids asked for.
    pub iwant_ids_sent: u64,
    /// Ids that peers asked for.
    pub iwant_ids_received: u64,
    /// Ids sent by IDONTWANT, per peer.
    pub idontwant_ids_sent: u64,
    /// Ids that peers sent by IDONTWANT.
    pub idontwant_ids_received: u64,
    /// GRAFTs that were owed to peers.
    pub grafts_sent: u64,
    /// GRAFTs that came.
    pub grafts_received: u64,
    /// PRUNEs that were owed to peers.
    pub prunes_sent: u64,
    /// PRUNEs that came.
    pub prunes_received: u64,
    /// Promises (of IHAVE, after IWANT) that peers broke.
    pub promises_broken: u64,
    /// Peers that were dialled on recommendation.
    pub exchange_dials: u64,
    /// Heartbeats since the start.
    pub heartbeats: u64,
    lost: [u64; 4],
    ignored: ByCause,
}

/// Counts by cause. Arrays of more than 32 elements have no default.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ByCause([u64; Ignored::ALL.len()]);

impl Default for ByCause {
    fn default() -> Self {
        Self([0; Ignored::ALL.len()])
    }
}

impl Metrics {
    /// How often something was ignored for this cause (ids, messages or frames, whatever the cause is about).
    pub fn ignored(&self, cause: Ignored) -> u64 {
        self.ignored.0[cause as usize]
    }

    /// All causes with their counts.
    pub fn ignored_by_cause(&self) -> impl Iterator<Item = (Ignored, u64)> {
        Ignored::ALL.iter().map(|cause| (*cause, self.ignored(*cause)))
    }

    /// Frames that the outbox did not take, or dropped for newer ones.
    pub fn lost(&self, cause: LossCause) -> u64 {
        self.lost[cause as usize]
    }

    pub(super) fn ignore(&mut self, cause: Ignored, count: u64) {
        self.ignored.0[cause as usize] += count;
    }

    pub(super) fn lose(&mut self, cause: LossCause) {
        self.lost[cause as usize] += 1;
    }
}
