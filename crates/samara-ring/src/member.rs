//! Members, views, and how they are named.

use std::fmt;
use std::sync::Arc;

use samara_engine::PeerIdentity;

use samara_engine::Shape;

/// A member: a node, and which of its lives. A node that restarts is another member, because it has lost what it knew.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// The name of the node.
    pub identity: PeerIdentity,
    /// Drawn at random when the node starts.
    pub incarnation: u64,
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}/{:04x}", self.identity, self.incarnation as u16)
    }
}

/// The epoch of a view. Higher ones are newer; two sides of a partition never give out the same one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ViewId {
    /// One more than any that its proposer had heard of.
    pub counter: u64,
    /// The incarnation of the proposer.
    pub proposer: u64,
}

impl fmt::Debug for ViewId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}.{:04x}", self.counter, self.proposer as u16)
    }
}

/// Who belongs to the group, as its members agreed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Its epoch.
    pub id: ViewId,
    /// By rank, the longest-serving first: the first is the coordinator, and each one's successor on the ring is the next.
    pub members: Arc<[Member]>,
    /// How messages travel in it.
    pub shape: Shape,
}

impl View {
    /// The rank of a member.
    pub fn rank_of(&self, member: &Member) -> Option<u16> {
        self.members.iter().position(|other| other == member).map(|rank| rank as u16)
    }

    /// The member that installs the next view, unless it fails or leaves.
    pub fn coordinator(&self) -> Option<&Member> {
        self.members.first()
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none: true of no view that is installed.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}
