//! Members, views, and the content of messages.

use std::fmt;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use samara_engine::{PeerIdentity, Shape};
use smallvec::SmallVec;

/// A member: a node and its incarnation. A node that restarts is a different member, because it has
/// lost its state.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    pub identity: PeerIdentity,
    /// A random number that the node draws when it starts.
    pub incarnation: u64,
}

/// The node without its incarnation.
impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.identity, f)
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}/{:04x}", self.identity, self.incarnation as u16)
    }
}

/// The epoch of a view. Higher ones are newer, and two sides of a partition never use the same one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ViewId {
    /// One more than the highest counter that its proposer knew of.
    pub counter: u64,
    pub proposer: u64,
}

impl fmt::Display for ViewId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}.{:04x}", self.counter, self.proposer as u16)
    }
}

impl fmt::Debug for ViewId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The members of the group, as they agreed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    pub id: ViewId,
    /// The members by rank, the longest-serving first. The first is the coordinator, and the
    /// successor of each one on the ring is the next.
    pub members: Arc<[Member]>,
    pub shape: Shape,
}

impl View {
    pub fn rank_of(&self, member: &Member) -> Option<u16> {
        self.members.iter().position(|other| other == member).map(|rank| rank as u16)
    }

    /// Returns the member that installs the next view, unless it fails or leaves.
    pub fn coordinator(&self) -> Option<&Member> {
        self.members.first()
    }

    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns true if there are no members, which holds for no installed view.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

/// The content of a message. Large messages travel in chunks, which are copied together only on
/// request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    chunks: SmallVec<[Bytes; 1]>,
    len: usize,
}

impl Payload {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn chunks(&self) -> &[Bytes] {
        &self.chunks
    }

    /// Returns the content in one piece. Copies it if it has several chunks.
    pub fn to_bytes(&self) -> Bytes {
        match self.chunks.as_slice() {
            [] => Bytes::new(),
            [whole] => whole.clone(),
            chunks => {
                let mut joined = BytesMut::with_capacity(self.len);
                chunks.iter().for_each(|chunk| joined.extend_from_slice(chunk));
                joined.freeze()
            }
        }
    }

    pub(crate) fn push(&mut self, chunk: Bytes) {
        self.len += chunk.len();
        self.chunks.push(chunk);
    }
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Self {
        let mut payload = Self::default();
        payload.push(bytes);
        payload
    }
}
