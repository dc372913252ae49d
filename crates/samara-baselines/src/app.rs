//! What an application can ask for and what it is told: the same for all engines of this crate.

use std::sync::Arc;

use bytes::Bytes;
use samara_engine::outbox::Lost;
use samara_engine::{Context, Engine, MessageKey, PeerId};
use thiserror::Error;

use crate::message::{Message, MessageId, Topic};
use crate::metrics::Metrics;

/// The context of an engine of this crate.
pub type Cx<'a, F> = Context<'a, F, Event>;

/// What an application can ask for by [`Input::Command`](samara_engine::Input::Command). Each has a method of
/// [`Baseline`].
#[derive(Clone, Debug)]
pub enum Command {
    /// Join a topic.
    Subscribe(Topic),
    /// Leave a topic.
    Unsubscribe(Topic),
    /// Publish a payload; [`Event::Published`] or [`Event::Refused`] answers.
    Publish {
        /// On which topic.
        topic: Topic,
        /// The payload.
        data: Bytes,
    },
    /// Publish a message that is made already; likewise.
    PublishMessage(Arc<Message>),
}

/// What the application is told.
#[derive(Clone, Debug)]
pub enum Event {
    /// A message on a joined topic, for the first time.
    Message {
        /// Its number at this node.
        key: MessageKey,
        /// The message.
        message: Arc<Message>,
        /// Who sent the first copy; `None` for a message of one's own (only if
        /// [`Common::deliver_own`](crate::Common::deliver_own)).
        from: Option<PeerId>,
        /// How many links that copy had travelled, where the protocol counts them (Plumtree; 0 for one's own).
        hops: Option<u32>,
    },
    /// Another copy of a message (only if [`Common::report_duplicates`](crate::Common::report_duplicates)).
    Duplicate {
        /// Its number at this node.
        key: MessageKey,
        /// Who sent it.
        from: PeerId,
    },
    /// A command to publish was carried out.
    Published(Receipt),
    /// A command was not carried out.
    Refused(RequestError),
    /// A frame did not fit into its queue, or made room for another.
    Lost(Lost),
}

/// A message that was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Its id.
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
    TooLong {
        /// Its topic.
        topic: Topic,
        /// Bytes of the frame.
        found: usize,
        /// Bytes that are allowed.
        allowed: usize,
    },
    /// The name of the topic is too long.
    #[error(
        "a topic with a name of {found} bytes; topic_bytes_max allows {allowed}: choose a shorter name or raise it"
    )]
    TopicTooLong {
        /// Bytes of the name.
        found: usize,
        /// Bytes that are allowed.
        allowed: usize,
    },
    /// The engine serves one topic only, and this is another.
    #[error("topic {found:?}; this node disseminates {expected:?} only: run one engine per topic")]
    OtherTopic {
        /// The topic asked for.
        found: Topic,
        /// The topic of the engine.
        expected: Topic,
    },
}

/// What the engines of this crate have in common for whoever owns one.
pub trait Baseline: Engine<Command = Command, Event = Event> {
    /// Joins a topic. `false` if it was joined already.
    ///
    /// # Errors
    /// The engine cannot join this topic.
    fn subscribe(&mut self, topic: &Topic, cx: &mut Cx<'_, Self::Frame>) -> Result<bool, RequestError>;

    /// Leaves a topic. `false` if it was not joined.
    ///
    /// # Errors
    /// The engine cannot have joined this topic.
    fn unsubscribe(&mut self, topic: &Topic, cx: &mut Cx<'_, Self::Frame>) -> Result<bool, RequestError>;

    /// Makes a message with this node as its author and the next number, to be published.
    fn compose(&mut self, topic: &Topic, data: Bytes) -> Arc<Message>;

    /// Publishes a message that is made already.
    ///
    /// # Errors
    /// The message cannot be published.
    fn publish_message(
        &mut self,
        message: Arc<Message>,
        cx: &mut Cx<'_, Self::Frame>,
    ) -> Result<Receipt, RequestError>;

    /// Publishes a payload.
    ///
    /// # Errors
    /// The message cannot be published.
    fn publish(
        &mut self,
        topic: &Topic,
        data: Bytes,
        cx: &mut Cx<'_, Self::Frame>,
    ) -> Result<Receipt, RequestError> {
        let message = self.compose(topic, data);
        self.publish_message(message, cx)
    }

    /// What was counted.
    fn metrics(&self) -> &Metrics;
}

/// Carries out a command.
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
