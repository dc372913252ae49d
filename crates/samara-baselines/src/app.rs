//! What an application can ask for, what it is told, and what a node counts: the same for all engines of this crate.

use std::sync::Arc;

use bytes::Bytes;
use samara_engine::outbox::{LossCause, Lost};
use samara_engine::{Context, Engine, MessageKey, PeerId, Topic};
use thiserror::Error;

use crate::message::{Message, MessageId};

/// The context of an engine of this crate.
pub type Cx<'a, F> = Context<'a, F, Event>;

/// What an application can ask for by [`Input::Command`](samara_engine::Input::Command). Each has a method of
/// [`Baseline`].
#[derive(Clone, Debug)]
pub enum Command {
    Subscribe(Topic),
    Unsubscribe(Topic),
    /// Publish a payload; [`Event::Published`] or [`Event::Refused`] answers.
    Publish {
        topic: Topic,
        data: Bytes,
    },
    /// Publish a message that is made already; likewise.
    PublishMessage(Arc<Message>),
}

#[derive(Clone, Debug)]
pub enum Event {
    /// A message on a joined topic, for the first time.
    Message {
        /// Its number at this node.
        key: MessageKey,
        message: Arc<Message>,
        /// Who sent the first copy; `None` for a message of one's own.
        from: Option<PeerId>,
        /// How many links that copy had travelled, where the protocol counts them (Plumtree; 0 for one's own).
        hops: Option<u32>,
    },
    Published(Receipt),
    Refused(RequestError),
    /// A frame did not fit into its queue, or made room for another.
    Lost(Lost),
}

/// A message that was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub id: MessageId,
    /// Its number at this node.
    pub key: MessageKey,
    /// How many copies are owed. 0 if nobody is known who wants it.
    pub copies: usize,
    /// How many more did not fit into queues.
    pub lost: usize,
}

/// Why a request was refused; nothing has happened then.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RequestError {
    /// A message with this id was published, or came from others, before.
    #[error("message {0:?} is not new; publish each message once")]
    Duplicate(MessageId),
    /// The message makes too long a frame.
    #[error(
        "the message on topic {topic:?} makes a frame of {found} bytes; max_frame_bytes allows {allowed}: \
         publish less at a time or raise it at all nodes"
    )]
    TooLong { topic: Topic, found: usize, allowed: usize },
    /// The name of the topic is too long.
    #[error(
        "a topic with a name of {found} bytes; topic_bytes_max allows {allowed}: choose a shorter name or raise it"
    )]
    TopicTooLong { found: usize, allowed: usize },
    /// The engine serves one topic only, and this is another.
    #[error("topic {found:?}; this node disseminates {expected:?} only: run one engine per topic")]
    OtherTopic { found: Topic, expected: Topic },
}

/// What the engines of this crate have in common for whoever owns one.
pub trait Baseline: Engine<Command = Command, Event = Event> {
    /// Joins a topic. `false` if it was joined already.
    fn subscribe(&mut self, topic: &Topic, cx: &mut Cx<'_, Self::Frame>) -> Result<bool, RequestError>;

    /// Leaves a topic. `false` if it was not joined.
    fn unsubscribe(&mut self, topic: &Topic, cx: &mut Cx<'_, Self::Frame>) -> Result<bool, RequestError>;

    /// Makes a message with this node as its author and the next number, to be published.
    fn compose(&mut self, topic: &Topic, data: Bytes) -> Arc<Message>;

    /// Publishes a message that is made already.
    fn publish_message(
        &mut self,
        message: Arc<Message>,
        cx: &mut Cx<'_, Self::Frame>,
    ) -> Result<Receipt, RequestError>;

    fn publish(
        &mut self,
        topic: &Topic,
        data: Bytes,
        cx: &mut Cx<'_, Self::Frame>,
    ) -> Result<Receipt, RequestError> {
        let message = self.compose(topic, data);
        self.publish_message(message, cx)
    }

    fn metrics(&self) -> &Metrics;
}

pub(crate) fn handle_command<B: Baseline>(engine: &mut B, command: Command, cx: &mut Cx<'_, B::Frame>) {
    let result = match command {
        Command::Subscribe(topic) => engine.subscribe(&topic, cx).map(|_| None),
        Command::Unsubscribe(topic) => engine.unsubscribe(&topic, cx).map(|_| None),
        Command::Publish { topic, data } => engine.publish(&topic, data, cx).map(Some),
        Command::PublishMessage(message) => engine.publish_message(message, cx).map(Some),
    };
    match result {
        Ok(Some(receipt)) => cx.emit(Event::Published(receipt)),
        Ok(None) => {}
        Err(error) => cx.emit(Event::Refused(error)),
    }
}

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
    pub grafts_sent: u64,
    /// GRAFTs that came.
    pub grafts_received: u64,
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
        self.lost[cause as usize]
    }

    pub(crate) fn ignore(&mut self, cause: Ignored, count: u64) {
        self.ignored[cause as usize] += count;
    }

    pub(crate) fn lose(&mut self, cause: LossCause) {
        self.lost[cause as usize] += 1;
    }
}
