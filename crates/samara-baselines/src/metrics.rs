//! What a node counts.

use samara_engine::outbox::LossCause;

macro_rules! causes {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal,)*) => {
        /// Why something that came from a peer had no effect.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Ignored {
            $($(#[doc = $doc])* $variant,)*
        }

        impl Ignored {
            /// All causes.
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

causes! {
    /// A frame from a peer without link.
    FrameUnknownPeer = "frame_unknown_peer",
    /// A frame longer than allowed.
    FrameTooLong = "frame_too_long",
    /// Subscriptions of an RPC with too many.
    SubscriptionsOverLimit = "subscriptions_over_limit",
    /// A subscription of a peer that has too many.
    SubscriptionPeerFull = "subscription_peer_full",
    /// A subscription to a topic with too long a name.
    SubscriptionTopicTooLong = "subscription_topic_too_long",
    /// A message on a topic that is not joined.
    MessageNotSubscribed = "message_not_subscribed",
    /// A message of one's own, from somebody else, that was not published here.
    MessageFromSelf = "message_from_self",
    /// A frame of another topic than the engine's.
    OtherTopic = "other_topic",
    /// Ids of an IHAVE beyond the number per frame.
    IHaveIdsOverLimit = "ihave_ids_over_limit",
    /// An id that the same peer has announced already.
    IHaveRepeated = "ihave_repeated",
    /// An id of a peer that has announced too many that never came.
    IHavePeerFull = "ihave_peer_full",
    /// An id while too many are missing.
    IHaveTableFull = "ihave_table_full",
    /// A GRAFT for a message that is not cached.
    GraftUnknown = "graft_unknown",
    /// A GRAFT for a message that the peer is owed already.
    GraftOwed = "graft_owed",
    /// A GRAFT beyond the number of messages that a peer may ask for in a second: it is grafted, but gets no message.
    GraftOverLimit = "graft_over_limit",
}

/// Counters of one node, all since its start. An engine leaves those at zero that its protocol has no use for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Frames that came.
    pub frames_received: u64,
    /// Messages that came, duplicates included.
    pub messages_received: u64,
    /// Of these, such that were known.
    pub duplicates_received: u64,
    /// Messages of others that were accepted.
    pub messages_delivered: u64,
    /// Messages that were published here.
    pub messages_published: u64,
    /// Copies of own messages that were to be owed.
    pub copies_published: u64,
    /// Copies of others' messages that were to be owed.
    pub copies_forwarded: u64,
    /// Copies in answer to GRAFT that were to be owed.
    pub copies_answered: u64,
    /// Copies that were taken back because the peer turned out to have the message.
    pub copies_withdrawn: u64,
    /// Ids announced by IHAVE.
    pub ihave_ids_sent: u64,
    /// Ids that peers announced.
    pub ihave_ids_received: u64,
    /// Ids that were not announced because too many waited for the next dispatch to the peer.
    pub ihave_ids_dropped: u64,
    /// GRAFTs sent.
    pub grafts_sent: u64,
    /// GRAFTs that came.
    pub grafts_received: u64,
    /// PRUNEs sent.
    pub prunes_sent: u64,
    /// PRUNEs that came.
    pub prunes_received: u64,
    /// Times that the tree was changed because an announcement had come over fewer hops.
    pub optimizations: u64,
    /// Messages that were announced and never came from anybody.
    pub missing_given_up: u64,
    lost: [u64; 4],
    ignored: [u64; Ignored::ALL.len()],
}

impl Metrics {
    /// How often something was ignored for this cause (ids, messages or frames, whatever the cause is about).
    pub fn ignored(&self, cause: Ignored) -> u64 {
        self.ignored[cause as usize]
    }

    /// All causes with their counts.
    pub fn ignored_by_cause(&self) -> impl Iterator<Item = (Ignored, u64)> {
        Ignored::ALL.iter().map(|cause| (*cause, self.ignored(*cause)))
    }

    /// Frames that the outbox did not take, or dropped for newer ones.
    pub fn lost(&self, cause: LossCause) -> u64 {
        self.lost[loss_index(cause)]
    }

    pub(crate) fn ignore(&mut self, cause: Ignored, count: u64) {
        self.ignored[cause as usize] += count;
    }

    pub(crate) fn lose(&mut self, cause: LossCause) {
        self.lost[loss_index(cause)] += 1;
    }
}

fn loss_index(cause: LossCause) -> usize {
    match cause {
        LossCause::NotConnected => 0,
        LossCause::DroppedNewest => 1,
        LossCause::DroppedOldest => 2,
        LossCause::Refused => 3,
    }
}
