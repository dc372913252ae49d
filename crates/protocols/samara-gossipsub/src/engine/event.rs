//! Commands of the application, and events for it.

use std::sync::Arc;

use bytes::Bytes;
use samara_engine::outbox::{LossCause, Lost, Schedule};
use samara_engine::{MessageKey, PeerId, PeerIdentity};
use thiserror::Error;

use crate::rpc::{Message, MessageId, RpcFrame, Topic};
use crate::signature::SignatureError;

/// A request that an application sends to a [`GossipSub`](crate::GossipSub) as
/// [`Input::Command`](samara_engine::Input::Command). The methods of the router offer more. The
/// results of publishing arrive as [`Event::Published`].
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
    /// Publish several messages together.
    PublishBatch {
        /// The topic and the payload of each message.
        messages: Vec<(Topic, Bytes)>,
        /// The order in which the copies leave.
        schedule: Schedule,
    },
}

/// The outcome of a validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// Deliver and forward the message.
    Accept,
    /// Drop the message, and penalise nobody.
    Ignore,
    /// Drop the message, and penalise every peer that sends it.
    Reject,
}

/// The result of publishing a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The id that the topic's function computes.
    pub id: MessageId,
    /// The number of the message at this node.
    pub key: MessageKey,
    /// The topic that the message names.
    pub topic: Topic,
    /// Number of peers that the message is for. 0 means that no subscriber is known; the message is
    /// cached, and announced to peers that subscribe within the gossip window if the node has joined the
    /// topic and [`Config::gossip_to_pruned`](crate::Config::gossip_to_pruned) is set.
    pub peers: usize,
    /// Number of these peers whose copy did not fit into their queue, or was dropped for another message
    /// of the batch.
    pub lost: usize,
}

impl Receipt {
    /// Returns the number of peers to which a copy is owed.
    pub fn owed(&self) -> usize {
        self.peers - self.lost
    }
}

/// The result of publishing a batch.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct BatchReceipt {
    /// The result of each message, in the order of the batch. A message that failed or has no
    /// recipients does not hold back the others.
    pub messages: Vec<Result<Receipt, PublishError>>,
}

impl BatchReceipt {
    /// Returns the receipts of the published messages.
    pub fn published(&self) -> impl Iterator<Item = &Receipt> {
        self.messages.iter().filter_map(|message| message.as_ref().ok())
    }

    /// Returns the topics of published messages that have no known subscribers.
    pub fn topics_without_peers(&self) -> impl Iterator<Item = &Topic> {
        self.published().filter(|receipt| receipt.peers == 0).map(|receipt| &receipt.topic)
    }

    /// Returns the total number of copies that are owed.
    pub fn copies(&self) -> usize {
        self.published().map(Receipt::owed).sum()
    }
}

/// The reason why a message was not published.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PublishError {
    /// A message with this id was published or received before.
    #[error("message {0} was already published or received")]
    Duplicate(MessageId),
    /// The payload is longer than the topic allows.
    #[error("the payload of {found} bytes exceeds the limit of {allowed} bytes on topic {topic}")]
    TooLong {
        /// The topic of the message.
        topic: Topic,
        /// Length of the payload in bytes.
        found: usize,
        /// Maximum length of a payload in bytes.
        allowed: usize,
    },
    /// The payload may have this length, but the frame with author, signature and topic would be longer
    /// than [`Config::max_rpc_bytes`](crate::Config::max_rpc_bytes): peers would drop it.
    #[error(
        "the frame of the message on topic {topic} has {found} bytes, and max_rpc_bytes allows {allowed}: \
         raise it, or lower max_message_bytes"
    )]
    FrameTooLong {
        /// The topic of the message.
        topic: Topic,
        /// Length of the frame in bytes.
        found: usize,
        /// Maximum length of a frame in bytes.
        allowed: usize,
    },
    /// The message has no topic.
    #[error("the message has no topic")]
    NoTopic,
    /// The transform of the application failed on the payload.
    #[error("the transform of the configuration refused the payload: {0}")]
    Transform(String),
    /// The message could not be signed, or violates the signature policy.
    #[error("the message violates the signature policy: {0}")]
    Signature(String),
    /// The schedule of the configuration orders by what this node cannot know.
    #[error("schedule_publish: {0}")]
    Schedule(String),
}

/// Events that the router reports to the application.
#[derive(Clone, Debug)]
pub enum Event {
    /// The first copy of a message on a joined topic.
    Message {
        /// The id that the topic's function computes.
        id: MessageId,
        /// The number of the message at this node.
        key: MessageKey,
        /// The topic that the message names.
        topic: Topic,
        /// All fields of the message, as on the wire.
        message: Arc<Message>,
        /// The sender of the first copy. `None` for the node's own messages, which are reported
        /// only with [`Config::deliver_own`](crate::Config::deliver_own).
        from: Option<PeerId>,
    },
    /// Another copy of a message (only if
    /// [`Config::report_duplicates`](crate::Config::report_duplicates)).
    Duplicate {
        /// The number of the message at this node.
        key: MessageKey,
        /// The sender of this copy.
        from: PeerId,
    },
    /// A message awaits [`GossipSub::report_validation`](crate::GossipSub::report_validation).
    NeedsValidation {
        /// The id that the topic's function computes.
        id: MessageId,
        /// The number of the message at this node.
        key: MessageKey,
        /// The topic that the message names.
        topic: Topic,
        /// All fields of the message, as on the wire.
        message: Arc<Message>,
        /// The sender of the first copy.
        from: PeerId,
    },
    /// A peer has mentioned a group that the application has not provided. If the application wants its
    /// parts, it calls [`GossipSub::provide`](crate::GossipSub::provide), with no parts if it has none.
    /// Reported once for each group, and not if the sender included a header or parts.
    Group {
        /// The topic of the group.
        topic: Topic,
        /// The id of the group.
        group: Bytes,
        /// The peer that mentioned it.
        from: PeerId,
    },
    /// Parts of a group, or its header, that await
    /// [`GossipSub::report_parts`](crate::GossipSub::report_parts). None of these parts has arrived
    /// before.
    Parts {
        /// Names the verdict.
        ticket: u64,
        /// The topic of the group.
        topic: Topic,
        /// The id of the group.
        group: Bytes,
        /// The sender.
        from: PeerId,
        /// The header, if it is new.
        header: Option<Bytes>,
        /// The parts, with their numbers.
        parts: Vec<(u32, Bytes)>,
    },
    /// The result of [`Command::Publish`] or [`Command::PublishBatch`].
    Published(BatchReceipt),
    /// A peer joined or left a topic (only if
    /// [`Config::report_subscriptions`](crate::Config::report_subscriptions)). Topics that it
    /// leaves because its link closes are not reported.
    Subscription {
        /// The peer that joined or left.
        peer: PeerId,
        /// The topic that the peer joined or left.
        topic: Topic,
        /// True if the peer joined the topic.
        joined: bool,
    },
    /// A peer recommends another, which the router is about to dial. The driver takes the address
    /// from the signed record after checking its signature.
    PeerExchanged {
        /// The recommending peer.
        from: PeerId,
        /// The recommended peer.
        identity: PeerIdentity,
        /// The signed record, exactly as received.
        signed_record: Option<Bytes>,
    },
    /// A copy did not fit into its queue, or was dropped for another.
    Lost(Lost),
    /// A step of the protocol that only observers need (only if
    /// [`Config::trace`](crate::Config::trace)).
    Trace(Trace),
}

impl Trace {
    /// Returns the peer that the step concerns, if there is one.
    pub fn peer(&self) -> Option<PeerId> {
        match self {
            Self::Joined(_) | Self::Left(_) => None,
            Self::Grafted { peer, .. } | Self::Pruned { peer, .. } | Self::Lost { peer, .. } => Some(*peer),
            Self::Dropped { from, .. } | Self::Duplicate { from, .. } => Some(*from),
        }
    }
}

/// Steps within the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trace {
    /// This node joined a topic.
    Joined(Topic),
    /// This node left a topic.
    Left(Topic),
    /// A peer entered a mesh.
    Grafted {
        /// The member of the mesh.
        peer: PeerId,
        /// The topic of the mesh.
        topic: Topic,
        /// True if the peer requested the change.
        by_peer: bool,
    },
    /// A peer left a mesh.
    Pruned {
        /// The member of the mesh.
        peer: PeerId,
        /// The topic of the mesh.
        topic: Topic,
        /// True if the peer requested the change.
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
        /// The cause, which the metrics also count.
        cause: super::Ignored,
        /// The violation of the signature policy, if this is the cause.
        signature: Option<SignatureError>,
    },
    /// Another copy of a known message.
    Duplicate {
        /// The id that the topic's function computes.
        id: MessageId,
        /// The topic that the message names.
        topic: Topic,
        /// The sender of this copy.
        from: PeerId,
    },
    /// A frame did not fit into its queue, or was dropped for another.
    Lost {
        /// The peer to which the frame was owed.
        peer: PeerId,
        /// The cause, which the metrics also count.
        cause: LossCause,
        /// The frame; `None` if it was dropped for a newer one and is no longer in the cache.
        frame: Option<RpcFrame>,
    },
}
