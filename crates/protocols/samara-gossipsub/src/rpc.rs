//! The typed form of all data that GossipSub nodes exchange.
//!
//! Field names and numbers follow the protobuf of the [specification], which [`wire`](crate::wire)
//! reads and writes.
//!
//! [specification]: https://github.com/libp2p/specs/tree/master/pubsub

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use samara_engine::{Frame, NodeRng, alter};
use smallvec::SmallVec;

pub use samara_engine::Topic;

/// The id of a message, computed by the function of its topic: arbitrary bytes (20 in Ethereum).
/// Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MessageId(Arc<[u8]>);

impl MessageId {
    /// Creates an id from its bytes.
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// Returns the id as sent on the wire.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl<T: Into<Vec<u8>>> From<T> for MessageId {
    fn from(bytes: T) -> Self {
        Self(bytes.into().into())
    }
}

impl Hash for MessageId {
    /// Omits the length that slices write first, because SipHash counts the bytes itself.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.0);
    }
}

impl fmt::Display for MessageId {
    /// Writes the bytes in hexadecimal, as rust-libp2p does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A published message (`Message` in the protobuf), field by field. Immutable, because it is
/// shared.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Field 1: the identity of the author; absent without signatures.
    pub from: Option<Bytes>,
    /// Field 2: the payload.
    pub data: Bytes,
    /// Field 3: the author's sequence number, 8 bytes big endian; absent without signatures.
    pub seqno: Option<Bytes>,
    /// Field 4: the topic.
    pub topic: Option<Topic>,
    /// Field 5: the author's signature.
    pub signature: Option<Bytes>,
    /// Field 6: the author's public key, if the identity does not contain it.
    pub key: Option<Bytes>,
    /// Fields that this version does not know, exactly as received.
    pub unknown: Bytes,
    /// Whether an empty payload is written explicitly instead of being left out. Signatures cover
    /// the difference, so a relay must repeat the form that it read.
    pub(crate) explicit_empty_data: bool,
    /// The id, and the tag of the function that computed it. Many nodes of a simulation share one
    /// message; the id is then computed once.
    pub(crate) id: CachedId,
}

/// A cached id. Comparisons of messages ignore it.
#[derive(Debug, Default)]
pub(crate) struct CachedId(pub(crate) OnceLock<(u64, MessageId)>);

impl PartialEq for CachedId {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for CachedId {}

impl Message {
    /// Returns the message with another payload, whose id is computed anew.
    pub(crate) fn with_data(&self, data: Bytes) -> Self {
        let Self { from, seqno, topic, signature, key, unknown, explicit_empty_data, .. } = self;
        let [from, seqno, signature, key] = [from, seqno, signature, key].map(Clone::clone);
        let (topic, unknown) = (topic.clone(), unknown.clone());
        let explicit_empty_data = *explicit_empty_data;
        Self { from, data, seqno, topic, signature, key, unknown, explicit_empty_data, ..Self::default() }
    }

    /// Creates a message without author and signature.
    pub fn new(topic: Topic, data: Bytes) -> Self {
        Self { topic: Some(topic), data, ..Self::default() }
    }

    /// Creates a message with its author and sequence number, which may then be signed (see
    /// [`signature`](crate::signature)).
    pub fn with_author(topic: Topic, data: Bytes, from: Bytes, seqno: u64) -> Self {
        let seqno = Some(Bytes::copy_from_slice(&seqno.to_be_bytes()));
        Self { from: Some(from), seqno, ..Self::new(topic, data) }
    }

    /// Returns the id that a node of this process computed first; `None` if none has.
    pub fn known_id(&self) -> Option<&MessageId> {
        self.id.0.get().map(|(_, id)| id)
    }

    /// Returns the bytes of all fields.
    pub(crate) fn bytes(&self) -> usize {
        let optional = [&self.from, &self.seqno, &self.signature, &self.key].into_iter().flatten();
        let topic = self.topic.as_ref().map_or(0, |topic| topic.as_str().len());
        self.data.len() + self.unknown.len() + topic + optional.map(Bytes::len).sum::<usize>()
    }

    /// Copies all fields out of the frame that they are slices of.
    pub(crate) fn detach(&mut self) {
        let optional = [&mut self.from, &mut self.seqno, &mut self.signature, &mut self.key];
        for field in optional.into_iter().flatten().chain([&mut self.data, &mut self.unknown]) {
            *field = Bytes::copy_from_slice(field);
        }
    }
}

/// A change of one subscription (`SubOpts`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubOpts {
    /// Field 1: true for a joined topic, false for a left one.
    pub subscribe: bool,
    /// Field 2: the topic.
    pub topic: Topic,
    /// Fields 3 and 4: the sender's part in partial messages on this topic.
    pub partial: PartialMode,
    /// Unknown fields, exactly as received.
    pub unknown: Bytes,
}

/// A subscriber's mode of partial messages on a topic (extension of v1.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartialMode {
    /// Nothing: it sends and receives full messages.
    #[default]
    None,
    /// It sends parts to peers that request them, and receives full messages (field 4,
    /// `supportsSendingPartial`).
    Supports,
    /// It also receives parts instead of full messages (field 3, `requestsPartial`, which implies field
    /// 4; both are written, since rust-libp2p does not apply the implication).
    Requests,
}

/// Parts of a message, and what the sender has and wants (`PartialMessagesExtension`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partial {
    /// Field 1: the topic.
    pub topic: Topic,
    /// Field 2: the group, which all parts of one message share.
    pub group: Bytes,
    /// Field 3: parts, in the format of the application.
    pub body: Option<Bytes>,
    /// Field 4: the parts that the sender has and those that it wants, in the format of the
    /// application. A later value replaces an earlier one.
    pub metadata: Option<Bytes>,
}

/// An announcement of message ids on one topic (`ControlIHave`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IHave {
    /// Field 1: the topic.
    pub topic: Topic,
    /// Field 2: the ids.
    pub ids: Vec<MessageId>,
}

/// A removal from a mesh (`ControlPrune`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prune {
    /// Field 1: the topic.
    pub topic: Topic,
    /// Field 2: peers to connect to instead (peer exchange).
    pub peers: Vec<ExchangedPeer>,
    /// Field 3: time during which the peers must not graft each other; whole seconds on the wire.
    /// Absent from v1.0 peers.
    pub backoff: Option<Duration>,
}

/// A peer recommended in a PRUNE (`PeerInfo`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangedPeer {
    /// Field 1: the peer's identity.
    pub identity: Bytes,
    /// Field 2: the peer's signed record (addresses).
    pub signed_record: Option<Bytes>,
}

/// Control messages (`ControlMessage`), one plain list for each kind. Empty lists take no space on
/// the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// Field 1: announcements of message ids.
    pub ihave: Vec<IHave>,
    /// Field 2: the ids of all `ControlIWant` of the message.
    pub iwant: Vec<MessageId>,
    /// Field 3: the topics of all GRAFTs.
    pub graft: Vec<Topic>,
    /// Field 4: all PRUNEs.
    pub prune: Vec<Prune>,
    /// Field 5: the ids of all `ControlIDontWant` of the message.
    pub idontwant: Vec<MessageId>,
    /// Field 6: the extensions that the sender supports (`ControlExtensions` of v1.3), exactly as
    /// received.
    pub extensions: Option<Bytes>,
    /// Unknown fields, exactly as received.
    pub unknown: Bytes,
}

/// One frame sent between two nodes (`RPC`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rpc {
    /// Field 1: changes of subscriptions.
    pub subscriptions: Vec<SubOpts>,
    /// Field 2: published messages.
    pub publish: SmallVec<[Arc<Message>; 1]>,
    /// Field 3: control messages, absent if there are none.
    pub control: Option<Box<Control>>,
    /// Field 10: a partial message (extension of v1.3).
    pub partial: Option<Box<Partial>>,
    /// Experimental and unknown fields, exactly as received.
    pub unknown: Bytes,
}

/// An [`Rpc`] with its encoded length, shared between all peers to which it is owed. The engine
/// sends and receives these frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcFrame(Arc<Sealed>);

#[derive(Debug, PartialEq, Eq)]
struct Sealed {
    rpc: Rpc,
    encoded_len: u32,
    payload_len: u32,
}

impl RpcFrame {
    /// Seals an RPC, and computes its length once.
    pub fn new(rpc: Rpc) -> Self {
        let encoded_len = crate::wire::frame_len(&rpc) as u32;
        let messages = rpc.publish.iter().map(|message| message.data.len()).sum::<usize>();
        let parts =
            rpc.partial.iter().filter_map(|partial| partial.body.as_ref()).map(Bytes::len).sum::<usize>();
        let payload_len = (messages + parts) as u32;
        Self(Arc::new(Sealed { rpc, encoded_len, payload_len }))
    }

    /// Seals control messages.
    pub fn control(control: Control) -> Self {
        Self::new(Rpc { control: Some(Box::new(control)), ..Rpc::default() })
    }

    /// Seals one message.
    pub fn message(message: &Arc<Message>) -> Self {
        Self::new(Rpc { publish: [Arc::clone(message)].into_iter().collect(), ..Rpc::default() })
    }

    /// Returns the contents of the frame.
    pub fn rpc(&self) -> &Rpc {
        &self.0.rpc
    }
}

impl Frame for RpcFrame {
    fn encoded_len(&self) -> usize {
        self.0.encoded_len as usize
    }

    fn payload_len(&self) -> usize {
        self.0.payload_len as usize
    }

    /// A message that comes out unchanged stays the same object, as on links without changes.
    fn altered(&self, rng: &mut NodeRng) -> Option<Self> {
        let mut bytes = Vec::with_capacity(self.encoded_len());
        crate::wire::encode(&self.0.rpc, &mut bytes);
        alter(&mut bytes, rng);
        let limits = crate::wire::Limits::with_frame_bytes(self.encoded_len() + 64);
        let mut rpc = crate::wire::decode(bytes.into(), &limits).ok()?;
        for message in &mut rpc.publish {
            if let Some(same) = self.0.rpc.publish.iter().find(|own| *own == message) {
                *message = Arc::clone(same);
            }
        }
        Some(Self::new(rpc))
    }
}
