//! Messages and the frames that carry them. The simulator moves frames without encoding them. Their
//! lengths are those of the protobuf documented at each type, preceded by its length as a varint.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use samara_engine::protobuf::varint_len;
use samara_engine::{Frame, PeerIdentity, Topic};
use sha2::{Digest, Sha256};

/// The id of a message: 16 bytes, kept as two integers to make comparing and hashing cheap.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize))]
pub struct MessageId(u64, u64);

impl MessageId {
    /// Length of an id on the wire, in bytes.
    pub const LEN: usize = 16;

    pub fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        let both = u128::from_be_bytes(bytes);
        Self((both >> 64) as u64, both as u64)
    }

    pub fn to_bytes(self) -> [u8; Self::LEN] {
        (u128::from(self.0) << 64 | u128::from(self.1)).to_be_bytes()
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.0, self.1)
    }
}

/// A published message. It is immutable, and all copies within a process share it.
#[derive(Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize), serde(from = "Unnamed"))]
pub struct Message {
    #[cfg_attr(feature = "config", serde(skip_serializing))]
    id: MessageId,
    author: PeerIdentity,
    seqno: u64,
    topic: Topic,
    #[cfg_attr(feature = "config", serde(with = "samara_engine::octets"))]
    data: Bytes,
}

/// A message as it is written, without its id, which the reader computes.
#[cfg(feature = "config")]
#[derive(serde::Deserialize)]
#[serde(rename = "Message")]
struct Unnamed {
    author: PeerIdentity,
    seqno: u64,
    topic: Topic,
    #[serde(with = "samara_engine::octets")]
    data: Bytes,
}

#[cfg(feature = "config")]
impl From<Unnamed> for Message {
    fn from(Unnamed { author, seqno, topic, data }: Unnamed) -> Self {
        Self::new(author, seqno, topic, data)
    }
}

impl Message {
    /// Returns a message with its id, which is computed here, once: the first 16 bytes of SHA-256
    /// over the length of the author's identity (8 bytes big endian), the identity, the sequence
    /// number (the same), the length of the topic (the same), the topic, and the payload.
    ///
    /// Plumtree's paper identifies messages by a hash of payload and author (SRDS 2007,
    /// `Broadcast`). The sequence number lets an author publish the same payload twice. The hash
    /// covers the payload so that a forged message cannot replace the true one.
    pub fn new(author: PeerIdentity, seqno: u64, topic: Topic, data: Bytes) -> Self {
        let mut hash = Sha256::new();
        hash.update((author.as_bytes().len() as u64).to_be_bytes());
        hash.update(author.as_bytes());
        hash.update(seqno.to_be_bytes());
        hash.update((topic.as_str().len() as u64).to_be_bytes());
        hash.update(topic.as_str().as_bytes());
        hash.update(&data);
        let hash: [u8; 32] = hash.finalize().into();
        let mut id = [0; MessageId::LEN];
        id.copy_from_slice(&hash[..MessageId::LEN]);
        Self { id: MessageId::from_bytes(id), author, seqno, topic, data }
    }

    pub fn id(&self) -> MessageId {
        self.id
    }

    pub fn author(&self) -> &PeerIdentity {
        &self.author
    }

    /// Returns the sequence number that the author assigned.
    pub fn seqno(&self) -> u64 {
        self.seqno
    }

    pub fn topic(&self) -> &Topic {
        &self.topic
    }

    pub fn data(&self) -> &Bytes {
        &self.data
    }
}

/// A frame between FloodSub or RandomSub nodes: the RPC of libp2p's pubsub (specs
/// `pubsub/README.md`, "The RPC"), with either a message or changes of subscriptions. Unsigned
/// only.
///
/// ```text
/// message RPC     { repeated SubOpts subscriptions = 1; repeated Message publish = 2; }
/// message SubOpts { optional bool subscribe = 1; optional string topicid = 2; }
/// message Message { optional bytes from = 1; optional bytes data = 2; optional bytes seqno = 3; optional string topic = 4; }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize))]
pub enum RpcFrame {
    Publish(Arc<Message>),
    Subscriptions(Arc<[SubOpts]>),
}

/// A change of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize))]
pub struct SubOpts {
    pub subscribe: bool,
    pub topic: Topic,
}

impl Frame for RpcFrame {
    fn encoded_len(&self) -> usize {
        with_prefix(match self {
            Self::Publish(message) => {
                // A sequence number takes 8 bytes (specs `pubsub/README.md`, "The Message").
                let (author, topic) = (message.author().as_bytes(), message.topic().as_str());
                nested(
                    nested(author.len())
                        + unless_empty(message.data().len())
                        + nested(8)
                        + nested(topic.len()),
                )
            }
            Self::Subscriptions(changes) => subscriptions_len(changes),
        })
    }

    fn payload_len(&self) -> usize {
        match self {
            Self::Publish(message) => message.data().len(),
            Self::Subscriptions(_) => 0,
        }
    }
}

/// A frame between Plumtree nodes. The paper leaves the encoding open; this one is proto3:
///
/// ```text
/// message Frame  { string topic = 1; oneof kind { Gossip gossip = 2; IHave ihave = 3; Graft graft = 4; Prune prune = 5; } repeated SubOpts subscriptions = 6; }
/// message Gossip { bytes author = 1; fixed64 seqno = 2; bytes data = 3; optional uint32 round = 4; }
/// message IHave  { bytes ids = 1; repeated uint32 rounds = 2; }   // 16 bytes per id; one round per id
/// message Graft  { bytes id = 1; optional uint32 round = 2; }     // without id: only changes the tree
/// message Prune  { }
/// ```
///
/// The topic is in every frame, as in other protocols of this kind (32 bytes in iroh-gossip), so
/// that trees of several topics can share a link.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize))]
pub enum PlumtreeFrame {
    /// A complete message (GOSSIP).
    Gossip {
        message: Arc<Message>,
        /// Number of links that the message travelled before this one.
        round: u32,
    },
    /// Announcements of messages that the sender has (IHAVE).
    IHave(Arc<IHave>),
    /// A request to send complete messages from now on (GRAFT).
    Graft(Arc<Graft>),
    /// A request to send only announcements from now on (PRUNE).
    Prune(Topic),
    /// Topics that the sender joins or leaves, on links that trees of several topics share. Not in
    /// the paper, whose nodes all have the same topic. `SubOpts` is that of [`RpcFrame`].
    Subscriptions(Arc<[SubOpts]>),
}

/// Announcements of messages on one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize))]
pub struct IHave {
    pub topic: Topic,
    /// The announced ids, each with the round that a copy would have.
    pub messages: Vec<(MessageId, u32)>,
}

/// A request for complete messages, which adds a link to the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize))]
pub struct Graft {
    pub topic: Topic,
    /// The missing message that the sender requests, if any.
    pub id: Option<MessageId>,
    /// The round of its announcement.
    pub round: u32,
}

impl PlumtreeFrame {
    /// Returns the topic of the frame; `None` for subscriptions.
    pub fn topic(&self) -> Option<&Topic> {
        Some(match self {
            Self::Gossip { message, .. } => message.topic(),
            Self::IHave(ihave) => &ihave.topic,
            Self::Graft(graft) => &graft.topic,
            Self::Prune(topic) => topic,
            Self::Subscriptions(_) => return None,
        })
    }
}

impl Frame for PlumtreeFrame {
    fn encoded_len(&self) -> usize {
        let kind = match self {
            Self::Gossip { message, round } => {
                // Tag and value of a `fixed64`, which proto3 omits if it is 0.
                let seqno = if message.seqno() == 0 { 0 } else { 9 };
                nested(message.author().as_bytes().len())
                    + seqno
                    + unless_empty(message.data().len())
                    + uint_len(u64::from(*round))
            }
            Self::IHave(ihave) => {
                let rounds = ihave.messages.iter().map(|(_, round)| varint_len(u64::from(*round))).sum();
                unless_empty(ihave.messages.len() * MessageId::LEN) + unless_empty(rounds)
            }
            Self::Graft(graft) => {
                graft.id.map_or(0, |_| nested(MessageId::LEN)) + uint_len(u64::from(graft.round))
            }
            Self::Prune(_) => 0,
            Self::Subscriptions(changes) => return with_prefix(subscriptions_len(changes)),
        };
        with_prefix(self.topic().map_or(0, |topic| nested(topic.as_str().len())) + nested(kind))
    }

    fn payload_len(&self) -> usize {
        match self {
            Self::Gossip { message, .. } => message.data().len(),
            _ => 0,
        }
    }
}

/// Returns the length of all changes of subscriptions.
fn subscriptions_len(changes: &[SubOpts]) -> usize {
    let len = |change: &SubOpts| nested(uint_len(1) + nested(change.topic.as_str().len()));
    changes.iter().map(len).sum()
}

/// The length of a tag. All field numbers are below 16.
const TAG: usize = 1;

/// Returns the length of a field that holds `len` bytes.
const fn nested(len: usize) -> usize {
    TAG + varint_len(len as u64) + len
}

/// Returns the length of a field that is omitted if it is empty.
const fn unless_empty(len: usize) -> usize {
    if len == 0 { 0 } else { nested(len) }
}

/// Returns the length of a varint field.
const fn uint_len(value: u64) -> usize {
    TAG + varint_len(value)
}

/// Returns the length of a frame with a body of `len` bytes.
const fn with_prefix(len: usize) -> usize {
    varint_len(len as u64) + len
}
