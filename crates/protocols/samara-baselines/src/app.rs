//! Commands, events, errors and counters, the same for all engines of this crate.

use std::sync::Arc;

use bytes::Bytes;
use samara_engine::outbox::{LossCause, Lost, Schedule};
use samara_engine::{Context, MessageKey, PeerId, Topic};
use thiserror::Error;

use crate::core::Publisher;
use crate::message::{Message, MessageId};

/// The context of an engine of this crate.
pub type Cx<'a, F> = Context<'a, F, Event>;

/// A request from the application, sent with [`Input::Command`](samara_engine::Input::Command).
/// Each has a method of [`Baseline`].
#[derive(Clone, Debug)]
pub enum Command {
    Subscribe(Topic),
    Unsubscribe(Topic),
    /// Publishes a payload. The engine answers with [`Event::Published`] or [`Event::Refused`].
    Publish {
        topic: Topic,
        data: Bytes,
    },
    /// Publishes a complete message, with the same answers.
    PublishMessage(Arc<Message>),
}

/// A report from an engine to its application.
#[derive(Clone, Debug)]
pub enum Event {
    /// The first copy of a message on a joined topic.
    Message {
        /// The message's number at this node.
        key: MessageKey,
        message: Arc<Message>,
        /// The sender of the first copy; `None` for an own message.
        from: Option<PeerId>,
        /// The number of links that the first copy travelled, 0 for an own message. `None` if the
        /// protocol does not count hops; Plumtree does.
        hops: Option<u32>,
    },
    /// A further copy of a message, with [`Common::report_duplicates`](crate::Common).
    Duplicate {
        /// The message's number at this node.
        key: MessageKey,
        from: PeerId,
    },
    Published(Receipt),
    /// The request was rejected and had no effect.
    Refused(RequestError),
    /// The outbox dropped a frame: it did not fit into its queue, or was replaced by another.
    Lost(Lost),
}

/// The result of publishing a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub id: MessageId,
    /// The message's number at this node.
    pub key: MessageKey,
    /// Number of copies owed, 0 if no known peer wants the message.
    pub copies: usize,
    /// Number of further copies that did not fit into their queues.
    pub lost: usize,
}

/// The reason for rejecting a request. A rejected request has no effect.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RequestError {
    /// A message with this id was already published or received.
    #[error("duplicate message {0:?}: publish each message once")]
    Duplicate(MessageId),
    /// The frame of the message is too long.
    #[error(
        "the frame of a message on topic {topic:?} has {found} bytes, max_frame_bytes allows {allowed}: \
         publish a smaller payload, or raise the limit at all nodes"
    )]
    TooLong { topic: Topic, found: usize, allowed: usize },
    /// The name of the topic is too long.
    #[error(
        "the name of a topic has {found} bytes, topic_bytes_max allows {allowed}: \
         choose a shorter name, or raise the limit"
    )]
    TopicTooLong { found: usize, allowed: usize },
    /// The request names another topic than the one that the engine serves.
    #[error("topic {found:?}, but this node serves only {expected:?}: run one engine per topic")]
    OtherTopic { found: Topic, expected: Topic },
    /// The node is no part of the tree of the topic.
    #[error("topic {topic:?} is not joined: join it before publishing")]
    NotJoined { topic: Topic },
}

/// The interface that all engines of this crate offer to their owner.
pub trait Baseline: Publisher {
    /// Joins a topic. Returns `false` if it was already joined.
    fn subscribe(&mut self, topic: &Topic, cx: &mut Cx<'_, Self::Frame>) -> Result<bool, RequestError>;

    /// Leaves a topic. Returns `false` if it was not joined.
    fn unsubscribe(&mut self, topic: &Topic, cx: &mut Cx<'_, Self::Frame>) -> Result<bool, RequestError>;

    /// Returns a new message with this node as its author and the next sequence number. Does not
    /// publish it.
    fn compose(&mut self, topic: &Topic, data: Bytes) -> Arc<Message> {
        self.core().compose(topic, data)
    }

    /// Publishes complete messages, whose copies leave in the order of `schedule`, or of
    /// [`Common::schedule_own`](crate::Common::schedule_own) without one. Returns the result of each
    /// message.
    fn publish_all(
        &mut self,
        messages: Vec<Arc<Message>>,
        schedule: Option<&Schedule>,
        cx: &mut Cx<'_, Self::Frame>,
    ) -> Vec<Result<Receipt, RequestError>> {
        let (mut owed, mut events) = (Vec::new(), Vec::new());
        let mut publish = |message: Arc<Message>| {
            let (owe, event) = self.prepare(&message, cx)?;
            let receipt = Receipt { id: message.id(), key: owe.message, copies: owe.peers.len(), lost: 0 };
            owed.push(owe);
            events.extend(event);
            Ok(receipt)
        };
        let mut receipts: Vec<_> = messages.into_iter().map(&mut publish).collect();
        self.core().owe_own(owed, schedule, &mut receipts, cx);
        events.into_iter().for_each(|event| cx.emit(event));
        receipts
    }

    /// Publishes a complete message.
    fn publish_message(
        &mut self,
        message: Arc<Message>,
        cx: &mut Cx<'_, Self::Frame>,
    ) -> Result<Receipt, RequestError> {
        let mut receipts = self.publish_all(vec![message], None, cx);
        receipts.pop().unwrap_or_else(|| unreachable!("each message has a result"))
    }

    /// Composes and publishes a message.
    fn publish(
        &mut self,
        topic: &Topic,
        data: Bytes,
        cx: &mut Cx<'_, Self::Frame>,
    ) -> Result<Receipt, RequestError> {
        let message = self.compose(topic, data);
        self.publish_message(message, cx)
    }

    /// Returns the number of peers that a message on this topic goes to at once.
    fn targets(&self, topic: &Topic) -> usize;

    /// Returns the counters of this node.
    fn metrics(&self) -> Metrics;
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

samara_engine::names! {
    /// The reason for ignoring something that a peer sent.
    pub enum Ignored {
        /// A frame from a peer without a link.
        FrameUnknownPeer = "frame_unknown_peer",
        /// A frame longer than `max_frame_bytes`.
        FrameTooLong = "frame_too_long",
        /// The subscriptions of an RPC with too many of them.
        SubscriptionsOverLimit = "subscriptions_over_limit",
        /// A subscription of a peer that already has too many.
        SubscriptionPeerFull = "subscription_peer_full",
        /// A subscription to a topic whose name is too long.
        SubscriptionTopicTooLong = "subscription_topic_too_long",
        /// A message on a topic that this node has not joined.
        MessageNotSubscribed = "message_not_subscribed",
        /// A message from a peer with this node as its author that this node did not publish.
        MessageFromSelf = "message_from_self",
        /// A frame of a topic that the engine does not serve.
        OtherTopic = "other_topic",
        /// Ids of an IHAVE beyond the maximum number per frame.
        IHaveIdsOverLimit = "ihave_ids_over_limit",
        /// An id that the same peer has already announced.
        IHaveRepeated = "ihave_repeated",
        /// An id from a peer with too many announcements of messages that have not arrived.
        IHavePeerFull = "ihave_peer_full",
        /// An id that arrived while too many messages were missing.
        IHaveTableFull = "ihave_table_full",
        /// A GRAFT for a message that is not in the cache.
        GraftUnknown = "graft_unknown",
        /// A GRAFT for a message that this node already owes to the peer.
        GraftOwed = "graft_owed",
        /// A GRAFT beyond the number of messages that a peer may request per second. The link
        /// becomes eager, but the peer gets no message.
        GraftOverLimit = "graft_over_limit",
    }
}

samara_engine::counters! {
    /// Counters of one node since its start. Counters without a meaning in the engine's protocol
    /// stay at zero.
    #[derive(Eq)]
    pub struct Metrics {
        /// Frames received from peers, including ignored ones.
        pub frames_received: u64,
        /// Messages received, including duplicates.
        pub messages_received: u64,
        /// Received messages that were already known.
        pub duplicates_received: u64,
        /// First copies of other nodes' messages that were accepted.
        pub messages_delivered: u64,
        /// Messages published at this node.
        pub messages_published: u64,
        /// Copies of own messages passed to the outbox, including those that it dropped.
        pub published_copies: u64,
        /// Copies of other nodes' messages passed to the outbox, including those that it dropped.
        pub forwarded_copies: u64,
        /// Copies in answer to GRAFT passed to the outbox, including those that it dropped.
        pub answered_copies: u64,
        /// Copies removed from queues because the peer turned out to have the message.
        pub withdrawn_copies: u64,
        /// Ids announced by IHAVE.
        pub ihave_ids_sent: u64,
        /// Ids received in IHAVEs.
        pub ihave_ids_received: u64,
        /// Ids not announced because too many were waiting for the next dispatch to the peer.
        pub ihave_ids_dropped: u64,
        /// GRAFTs sent, including those without room in their queue.
        pub grafts_sent: u64,
        /// GRAFTs received from neighbours.
        pub grafts_received: u64,
        /// PRUNEs sent, including those without room in their queue.
        pub prunes_sent: u64,
        /// PRUNEs received from neighbours.
        pub prunes_received: u64,
        /// Changes of the tree because an announcement had travelled fewer hops than the message.
        pub optimizations: u64,
        /// Announced messages that no peer delivered.
        pub missing_given_up: u64,
        /// Frames that the outbox rejected, or dropped in favour of newer ones.
        pub queue_drops[cause: LossCause]: u64,
        /// Ids, messages or frames that were ignored.
        pub ignored[cause: Ignored]: u64,
    }
}

impl Metrics {
    pub(crate) fn ignore(&mut self, cause: Ignored, count: u64) {
        self.ignored[cause] += count;
    }
}
