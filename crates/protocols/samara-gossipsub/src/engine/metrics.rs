//! The counters of a node.

use samara_engine::outbox::LossCause;

samara_engine::names! {
    /// The reason why a node ignored data from a peer, or processed only part of it.
    pub enum Ignored {
        /// A frame from a peer without a link.
        RpcUnknownPeer = "rpc_unknown_peer",
        /// A frame longer than the maximum.
        RpcTooLong = "rpc_too_long",
        /// Messages and control of a peer below the graylist threshold.
        RpcGraylisted = "rpc_graylisted",
        /// An RPC with too many subscriptions.
        SubscriptionsOverLimit = "subscriptions_over_limit",
        /// A subscription to a topic that the filter excludes.
        SubscriptionFiltered = "subscription_filtered",
        /// A subscription of a peer that already has too many, or too long names of topics.
        SubscriptionPeerFull = "subscription_peer_full",
        /// A subscription to an unknown topic while known ones take too much memory.
        SubscriptionTableFull = "subscription_table_full",
        /// A message that names no topic.
        MessageWithoutTopic = "message_without_topic",
        /// A message on a topic that is not joined.
        MessageNotSubscribed = "message_not_subscribed",
        /// A message longer than its topic allows.
        MessageTooLong = "message_too_long",
        /// A message that names this node as author, but was not published here.
        MessageFromSelf = "message_from_self",
        /// A message that violates the signature policy or has an invalid signature.
        MessageSignature = "message_signature",
        /// A message whose payload the transform of the application refused.
        MessageTransform = "message_transform",
        /// A message from a blacklisted peer, or with a blacklisted author.
        MessageBlacklisted = "message_blacklisted",
        /// A message that the application ignored.
        MessageIgnored = "message_ignored",
        /// A message that the application rejected.
        MessageRejected = "message_rejected",
        /// A message that arrived while too many awaited validation.
        ValidationThrottled = "validation_throttled",
        /// A message whose validation timed out.
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
        /// An IWANT id that is not in the cache.
        IWantUnknown = "iwant_unknown",
        /// Ids of IWANT beyond the number per heartbeat.
        IWantIdsOverLimit = "iwant_ids_over_limit",
        /// An IWANT for a message that was already sent too often.
        IWantRetransmissions = "iwant_retransmissions",
        /// An IWANT for a message that the peer declined by IDONTWANT.
        IWantUnwanted = "iwant_unwanted",
        /// IDONTWANT beyond the number of RPCs per heartbeat.
        IDontWantMessagesOverLimit = "idontwant_messages_over_limit",
        /// Ids of IDONTWANT beyond the number per RPC.
        IDontWantIdsOverLimit = "idontwant_ids_over_limit",
        /// Ids of IDONTWANT of a peer with too many remembered ids.
        IDontWantPeerFull = "idontwant_peer_full",
        /// Ids of IDONTWANT while those of all peers take too much memory.
        IDontWantTableFull = "idontwant_table_full",
        /// GRAFT for a topic that is not joined.
        GraftNotSubscribed = "graft_not_subscribed",
        /// GRAFT from a direct peer.
        GraftDirectPeer = "graft_direct_peer",
        /// GRAFT for a topic that the same RPC leaves.
        GraftUnsubscribed = "graft_unsubscribed",
        /// GRAFT during the backoff.
        GraftBackoff = "graft_backoff",
        /// GRAFT from a peer with negative score.
        GraftScore = "graft_score",
        /// GRAFT into a full mesh.
        GraftMeshFull = "graft_mesh_full",
        /// GRAFT from a peer that speaks floodsub, or that never receives messages.
        GraftRole = "graft_role",
        /// PRUNE for a topic that is not joined.
        PruneNotSubscribed = "prune_not_subscribed",
        /// Repeated extensions: a peer may announce them only once.
        ExtensionsAgain = "extensions_again",
        /// Extensions of more than 1 KiB.
        ExtensionsTooLong = "extensions_too_long",
        /// Extensions of a peer that does not speak v1.3.
        ExtensionsVersion = "extensions_version",
        /// A partial message on a topic that is not joined, or has no partial messages.
        PartialTopic = "partial_topic",
        /// Partial messages beyond the number per heartbeat.
        PartialFramesOverLimit = "partial_frames_over_limit",
        /// A partial message that the format cannot read.
        PartialMalformed = "partial_malformed",
        /// A partial message of a new group, when peers have created too many.
        PartialGroupsFull = "partial_groups_full",
        /// A part that arrived before its header and found no room.
        PartialEarly = "partial_early",
        /// Parts that arrived while too many awaited their verdict.
        PartialPending = "partial_pending",
        /// Parts that the application rejected or ignored.
        PartialRejected = "partial_rejected",
        /// Requested parts that were already sent too often.
        PartialAnswers = "partial_answers",
        /// Recommendations from a peer below the accept-PX threshold, or while `prune_peers` is 0.
        ExchangeScore = "exchange_score",
        /// Recommended peers beyond the number that is dialled.
        ExchangeOverLimit = "exchange_over_limit",
    }
}

samara_engine::counters! {
    /// Counters of one node since its start.
    #[derive(Eq)]
    pub struct Metrics {
        /// Frames received from peers.
        pub rpcs_received: u64,
        /// Messages received, including duplicates.
        pub messages_received: u64,
        /// Received messages that were already known.
        pub duplicates_received: u64,
        /// Accepted messages of other nodes.
        pub messages_delivered: u64,
        /// Messages published by this node.
        pub messages_published: u64,
        /// Messages published by this node without a known recipient.
        pub messages_published_to_nobody: u64,
        /// Copies of own messages that were put into the outbox.
        pub published_copies: u64,
        /// Copies of other nodes' messages that were put into the outbox.
        pub forwarded_copies: u64,
        /// Copies in a weighted order to peers whose weight nobody has measured, at least not yet. They
        /// leave last.
        pub unweighed_copies: u64,
        /// Messages ordered by the feedback of observers while none had a link.
        pub unobserved_messages: u64,
        /// Copies that were put into the outbox in answer to IWANT.
        pub answered_copies: u64,
        /// Copies that were not sent because the peer had sent IDONTWANT.
        pub suppressed_copies: u64,
        /// Copies that were withdrawn, for any reason that the configuration names.
        pub withdrawn_copies: u64,
        /// Copies that stayed owed although the peer sent IDONTWANT and the node withdraws such copies:
        /// always 0.
        pub kept_unwanted_copies: u64,
        /// Ids announced to peers.
        pub ihave_ids_sent: u64,
        /// Ids announced by peers.
        pub ihave_ids_received: u64,
        /// Ids requested from peers.
        pub iwant_ids_sent: u64,
        /// Ids requested by peers.
        pub iwant_ids_received: u64,
        /// Ids sent by IDONTWANT, counted for each peer.
        pub idontwant_ids_sent: u64,
        /// Ids received by IDONTWANT.
        pub idontwant_ids_received: u64,
        /// GRAFTs that were put into the outbox.
        pub grafts_sent: u64,
        /// GRAFTs received from peers.
        pub grafts_received: u64,
        /// PRUNEs that were put into the outbox.
        pub prunes_sent: u64,
        /// PRUNEs received from peers.
        pub prunes_received: u64,
        /// Promises (of IHAVE, after IWANT) that peers broke.
        pub promises_broken: u64,
        /// Misbehaviours of peers for which the score has a penalty (P7), with or without scoring.
        pub misbehaviours: u64,
        /// Offers that were not remembered, with one request at a time: beyond the number for a message or a
        /// peer, or of a parked peer if none are remembered.
        pub offers_ignored: u64,
        /// Requests that were not answered in time, with one request at a time.
        pub requests_overdue: u64,
        /// Peers that were parked because they broke a promise.
        pub peers_parked: u64,
        /// Parts received, including those that were known.
        pub parts_received: u64,
        /// Received parts that were already known, or awaited their verdict.
        pub parts_duplicate: u64,
        /// Received parts that the application accepted.
        pub parts_accepted: u64,
        /// Copies of parts that were put into the outbox.
        pub parts_sent: u64,
        /// Copies of parts that were withdrawn because the peer had them or no longer wanted them.
        pub parts_withdrawn: u64,
        /// Parts that an asked peer did not send in time.
        pub parts_overdue: u64,
        /// Metadata of partial messages that was put into the outbox.
        pub parts_metadata_sent: u64,
        /// Metadata of partial messages received from peers.
        pub parts_metadata_received: u64,
        /// Headers of partial messages that were put into the outbox.
        pub headers_sent: u64,
        /// Headers of partial messages received, including those that were known.
        pub headers_received: u64,
        /// Received headers that were already known, or awaited their verdict.
        pub headers_duplicate: u64,
        /// Peers dialled on recommendation.
        pub exchange_dials: u64,
        /// Heartbeats since the start.
        pub heartbeats: u64,
        /// Frames that the outbox rejected or dropped for newer ones.
        pub queue_drops[cause: LossCause]: u64,
        /// Input of peers without effect, in the unit that the cause concerns: ids, messages or
        /// frames.
        pub ignored[cause: Ignored]: u64,
    }
}

impl Metrics {
    pub(super) fn ignore(&mut self, cause: Ignored, count: u64) {
        self.ignored[cause] += count;
    }
}
