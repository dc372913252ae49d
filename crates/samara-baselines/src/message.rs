//! Messages and their names.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use samara_engine::PeerIdentity;
use sha2::{Digest, Sha256};

/// The name of a topic. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Topic(Arc<str>);

impl Topic {
    /// A topic with this name.
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Equality that does not look at the letters where both are clones of one.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl fmt::Debug for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The id of a message: 16 bytes, kept as two integers so that comparing and hashing it costs next to nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(u64, u64);

impl MessageId {
    /// Bytes of an id on the wire.
    pub const LEN: usize = 16;

    /// An id from its bytes.
    pub fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        let both = u128::from_be_bytes(bytes);
        Self((both >> 64) as u64, both as u64)
    }

    /// The bytes.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        (u128::from(self.0) << 64 | u128::from(self.1)).to_be_bytes()
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.0, self.1)
    }
}

/// A published message. Never changes once made: all copies of it within a process share one.
#[derive(Debug, PartialEq, Eq)]
pub struct Message {
    id: MessageId,
    author: PeerIdentity,
    seqno: u64,
    topic: Topic,
    data: Bytes,
}

impl Message {
    /// A message with its id, which is computed here, once: the first 16 bytes of SHA-256 over the length of the author's
    /// identity (8 bytes big endian), the identity, the number (the same), the length of the topic (the same), the topic,
    /// and the payload.
    ///
    /// Plumtree's paper names messages by a hash of payload and author (SRDS 2007, `Broadcast`); the number
    /// lets an author say the same thing twice. The payload is in it so that a forged message cannot take the place of the
    /// true one.
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

    /// Its id.
    pub fn id(&self) -> MessageId {
        self.id
    }

    /// Who published it.
    pub fn author(&self) -> &PeerIdentity {
        &self.author
    }

    /// The author's number for it.
    pub fn seqno(&self) -> u64 {
        self.seqno
    }

    /// Its topic.
    pub fn topic(&self) -> &Topic {
        &self.topic
    }

    /// The payload.
    pub fn data(&self) -> &Bytes {
        &self.data
    }
}
