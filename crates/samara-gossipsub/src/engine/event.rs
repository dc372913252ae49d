//! What an application can ask for, and what it is told.

use std::sync::Arc;

use bytes::Bytes;
use samara_engine::outbox::{LossCause, Lost, Schedule};
use samara_engine::{MessageKey, PeerId, PeerIdentity};
use thiserror::Error;

use crate::rpc::{Message, MessageId, RpcFrame, Topic};
use crate::signature::SignatureError;

/// What an application can ask a [`GossipSub`](crate::GossipSub) for by [`Input::Command`](samara_engine::Input::Command);
/// its methods do more. The answers of publishing come as [`Event::Published`].
#[derive(Clone, Debug)]
pub enum Command {
    /// Join a topic.
    Subscribe(Topic),
    /// Join several topics at once.
    SubscribeAll(Vec<Topic>),
    /// Leave a topic.
    Unsubscribe(Topic),
    /// Publish one message.
    Publish {
        /// The topic, which need not be joined.
        topic: Topic,
        /// The payload, as on the wire.
        data: Bytes,
    },
    /// Publish messages that belong together.
    PublishBatch {
        /// Topic and payload of each message.
        messages: Vec<(Topic, Bytes)>,
        /// In which order their copies leave.
        schedule: Schedule,
    },
}

/// The outcome of a validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// Deliver and forward.
    Accept,
    /// Drop, nobody is to blame.
    Ignore,
    /// Drop, whoever sends it is to blame.
    Reject,
}

/// A message that was published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The id that the topic's function computes.
    pub id: MessageId,
    /// Its number at this node.
    pub key: MessageKey,
    /// The topic that the message names.
    pub topic: Topic,
    /// How many peers it is owed to. 0 means that nobody is known who wants it; it is kept and gossiped about, should somebody come within
    /// the gossip window.
    pub peers: usize,
    /// Copies that did not fit into queues.
    pub lost: usize,
}

/// What became of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct BatchReceipt {
    /// Message by message, in the order of the batch. One that failed, or that nobody wants, holds back no other.
    pub messages: Vec<Result<Receipt, PublishError>>,
}

impl BatchReceipt {
    /// The messages that were published.
    pub fn published(&self) -> impl Iterator<Item = &Receipt> {
        self.messages.iter().filter_map(|message| message.as_ref().ok())
    }

    /// The topics of published messages that nobody is known to want.
    pub fn topics_without_peers(&self) -> impl Iterator<Item = &Topic> {
        self.published().filter(|receipt| receipt.peers == 0).map(|receipt| &receipt.topic)
    }

    /// How many copies are owed in all.
    pub fn copies(&self) -> usize {
        self.published().map(|receipt| receipt.peers - receipt.lost).sum()
    }
}

/// Why a message was not published.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PublishError {
    /// A message with this id was published, or came from others, before.
    #[error("message {0:?} is not new")]
    Duplicate(MessageId),
    /// The payload is longer than the topic allows.
    #[error("{found} bytes of payload on topic {topic:?}, which allows {allowed}")]
    TooLong {
        /// The topic of the message.
        topic: Topic,
        /// Bytes of the payload.
        found: usize,
        /// Bytes that are allowed.
        allowed: usize,
    },
    /// The message has no topic.
    #[error("the message has no topic")]
    NoTopic,
    /// The message could not be signed, or does not fit the signature policy.
    #[error("the message does not fit the signature policy: {0}")]
    Signature(String),
}

/// What the application is told.
#[derive(Clone, Debug)]
pub enum Event {
    /// A message on a joined topic, for the first time.
    Message {
        /// The id that the topic's function computes.
        id: MessageId,
        /// Its number at this node.
        key: MessageKey,
        /// The topic that the message names.
        topic: Topic,
        /// All fields of the message, as on the wire.
        message: Arc<Message>,
        /// Who sent the first copy; `None` for a message of one's own
        /// (only if [`Config::deliver_own`](crate::Config::deliver_own)).
        from: Option<PeerId>,
    },
    /// Another copy of a message (only if [`Config::report_duplicates`](crate::Config::report_duplicates)).
    Duplicate {
        /// Its number at this node.
        key: MessageKey,
        /// The sender of this copy.
        from: PeerId,
    },
    /// A message waits for [`GossipSub::report_validation`](crate::GossipSub::report_validation).
    NeedsValidation {
        /// The id that the topic's function computes.
        id: MessageId,
        /// Its number at this node.
        key: MessageKey,
        /// The topic that the message names.
        topic: Topic,
        /// All fields of the message, as on the wire.
        message: Arc<Message>,
        /// Who sent the first copy.
        from: PeerId,
    },
    /// The answer to [`Command::Publish`] and [`Command::PublishBatch`].
    Published(BatchReceipt),
    /// A peer joined or left a topic (only if [`Config::report_subscriptions`](crate::Config::report_subscriptions)).
    /// Topics that it leaves because its link goes down are not told.
    Subscription {
        /// The peer that sent the subscription.
        peer: PeerId,
        /// The topic that it joined or left.
        topic: Topic,
        /// `true` if it joined.
        joined: bool,
    },
    /// A peer recommends another, which is about to be dialled. Whoever drives the engine takes the address from the record,
    /// after checking its signature.
    PeerExchanged {
        /// The peer that recommends.
        from: PeerId,
        /// The peer that it recommends.
        identity: PeerIdentity,
        /// The signed record, as it came.
        signed_record: Option<Bytes>,
    },
    /// A copy did not fit into its queue, or made room for another.
    Lost(Lost),
    /// Something that only observers of the protocol want to know (only if [`Config::trace`](crate::Config::trace)).
    Trace(Trace),
}

impl Trace {
    /// The peer that it is about, if it is about one.
    pub fn peer(&self) -> Option<PeerId> {
        match self {
            Self::Joined(_) | Self::Left(_) => None,
            Self::Grafted { peer, .. } | Self::Pruned { peer, .. } | Self::Lost { peer, .. } => Some(*peer),
            Self::Dropped { from, .. } | Self::Duplicate { from, .. } => Some(*from),
        }
    }
}

/// Changes within the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trace {
    /// This node joined a topic.
    Joined(Topic),
    /// This node left a topic.
    Left(Topic),
    /// A peer is in a mesh now.
    Grafted {
        /// The member of the mesh.
        peer: PeerId,
        /// The topic of the mesh.
        topic: Topic,
        /// Whether the peer asked for it.
        by_peer: bool,
    },
    /// A peer is not in a mesh any more.
    Pruned {
        /// The member of the mesh.
        peer: PeerId,
        /// The topic of the mesh.
        topic: Topic,
        /// Whether the peer asked for it.
        by_peer: bool,
    },
    /// A message was not delivered.
    Dropped {
        /// The id that the topic's function computes.
        id: MessageId,
        /// The topic that the message names.
        topic: Topic,
        /// The sender of this copy.
        from: PeerId,
        /// The cause, which is also counted.
        cause: super::Ignored,
        /// What is wrong with its signature, if that is why.
        signature: Option<SignatureError>,
    },
    /// Another copy of a message that was known.
    Duplicate {
        /// The id that the topic's function computes.
        id: MessageId,
        /// The topic that the message names.
        topic: Topic,
        /// The sender of this copy.
        from: PeerId,
    },
    /// A frame did not fit into its queue, or made room for another.
    Lost {
        /// The peer that the frame was owed to.
        peer: PeerId,
        /// The cause, which is also counted.
        cause: LossCause,
        /// The frame; `None` if it was dropped for a newer one and is not in the cache any more.
        frame: Option<RpcFrame>,
    },
}
