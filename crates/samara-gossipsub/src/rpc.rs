//! The typed form of everything that GossipSub nodes say to each other.
//!
//! Field names and numbers follow the protobuf of the [specification], which [`wire`](crate::wire) reads and writes.
//!
//! [specification]: https://github.com/libp2p/specs/tree/master/pubsub

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use samara_engine::Frame;
use smallvec::SmallVec;

pub use samara_engine::Topic;

/// The id of a message, as computed by its topic's function: arbitrary bytes (20 in Ethereum). Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MessageId(Arc<[u8]>);

impl MessageId {
    /// An id from its bytes.
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// The id as it is sent on the wire.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Hash for MessageId {
    /// Without the length that slices write first: SipHash counts the bytes itself.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.0);
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A published message (`Message` in the protobuf), field by field. Never changed once made: it is shared.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// 1: the identity of the author; absent without signatures.
    pub from: Option<Bytes>,
    /// 2: the payload.
    pub data: Bytes,
    /// 3: the author's sequence number, 8 bytes big endian; absent without signatures.
    pub seqno: Option<Bytes>,
    /// 4: the topic.
    pub topic: Option<Topic>,
    /// 5: the author's signature.
    pub signature: Option<Bytes>,
    /// 6: the author's public key, where the identity does not contain it.
    pub key: Option<Bytes>,
    /// Fields that this version does not know, as they came.
    pub unknown: Bytes,
    /// Whether an empty payload is written as such instead of being left out. Signatures cover the difference, so that
    /// a relay must repeat what it read.
    pub(crate) explicit_empty_data: bool,
    /// The id and the function (by its tag) that computed it: many nodes of a simulation share one message, and the id is
    /// then computed once.
    pub(crate) id: CachedId,
}

/// An id that was computed. It does not count when messages are compared.
#[derive(Debug, Default)]
pub(crate) struct CachedId(pub(crate) OnceLock<(u64, MessageId)>);

impl PartialEq for CachedId {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for CachedId {}

impl Message {
    /// A message without author and signature.
    pub fn new(topic: Topic, data: Bytes) -> Self {
        Self { topic: Some(topic), data, ..Self::default() }
    }

    /// A message with its author and number, to be signed (see [`signature`](crate::signature)) or not.
    pub fn with_author(topic: Topic, data: Bytes, from: Bytes, seqno: u64) -> Self {
        let seqno = Some(Bytes::copy_from_slice(&seqno.to_be_bytes()));
        Self { from: Some(from), seqno, ..Self::new(topic, data) }
    }
}

/// A change of a subscription (`SubOpts`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubOpts {
    /// 1: joined or left.
    pub subscribe: bool,
    /// 2: the topic.
    pub topic: Topic,
    /// Other fields (3 and 4 are those of partial messages), as they came.
    pub unknown: Bytes,
}

/// Ids of messages on one topic (`ControlIHave`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IHave {
    /// 1: the topic.
    pub topic: Topic,
    /// 2: the ids.
    pub ids: Vec<MessageId>,
}

/// Leaving a mesh (`ControlPrune`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prune {
    /// 1: the topic.
    pub topic: Topic,
    /// 2: peers to connect to instead (peer exchange).
    pub peers: Vec<ExchangedPeer>,
    /// 3: how long not to graft again; whole seconds on the wire. Absent from v1.0 peers.
    pub backoff: Option<Duration>,
}

/// A peer that is recommended on leaving (`PeerInfo`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangedPeer {
    /// 1: its identity.
    pub identity: Bytes,
    /// 2: its signed record (addresses).
    pub signed_record: Option<Bytes>,
}

/// Control messages (`ControlMessage`). A plain list for each kind; empty lists take no room on the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// 1
    pub ihave: Vec<IHave>,
    /// 2, the ids of all `ControlIWant` of the message.
    pub iwant: Vec<MessageId>,
    /// 3
    pub graft: Vec<Topic>,
    /// 4
    pub prune: Vec<Prune>,
    /// 5, the ids of all `ControlIDontWant` of the message.
    pub idontwant: Vec<MessageId>,
    /// 6: the extensions that the sender supports (`ControlExtensions` of v1.3), field by field as they came. This engine supports
    /// none, and says so by an empty one.
    pub extensions: Option<Bytes>,
    /// Unknown fields, as they came.
    pub unknown: Bytes,
}

/// One frame between two nodes (`RPC`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rpc {
    /// 1
    pub subscriptions: Vec<SubOpts>,
    /// 2
    pub publish: SmallVec<[Arc<Message>; 1]>,
    /// 3, absent if there is nothing to say.
    pub control: Option<Box<Control>>,
    /// 10 (partial messages of v1.3), experimental and unknown fields, as they came.
    pub unknown: Bytes,
}

/// An [`Rpc`] with its encoded length, shared between all the peers that it is owed to: what the engine sends and
/// receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcFrame(Arc<Sealed>);

#[derive(Debug, PartialEq, Eq)]
struct Sealed {
    rpc: Rpc,
    encoded_len: u32,
    payload_len: u32,
}

impl RpcFrame {
    /// Seals an RPC; its length is computed here, once.
    pub fn new(rpc: Rpc) -> Self {
        let encoded_len = crate::wire::frame_len(&rpc) as u32;
        let payload_len = rpc.publish.iter().map(|message| message.data.len() as u32).sum();
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

    /// What is said.
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
}
