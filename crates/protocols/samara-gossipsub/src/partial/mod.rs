//! Partial messages: parts of messages that nodes request one by one (extension of GossipSub v1.3,
//! [specification]).
//!
//! A message whose parts spread separately is a *group*. Its id does not depend on the parts. Every
//! node tells its peers which parts of a group it has and which ones it wants (*metadata*), and sends
//! the parts that a peer wants (*body*). Some formats also have a *header*, which a node needs before
//! it can check parts: in Ethereum, the commitments to the cells of all columns of a block.
//!
//! The engine does not know the contents. It needs a [`Format`], which reads and writes metadata and
//! bodies: [`EqualParts`] for parts of equal length, or
//! [`PartialColumns`](ethereum::PartialColumns). The application adds the parts that it has
//! ([`GossipSub::provide`](crate::GossipSub::provide)), and judges those that arrive
//! ([`Event::Parts`](crate::Event::Parts),
//! [`GossipSub::report_parts`](crate::GossipSub::report_parts)).
//!
//! [specification]: https://github.com/libp2p/specs/blob/master/pubsub/gossipsub/partial-messages.md

mod bits;
mod config;
mod equal;
pub mod ethereum;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use thiserror::Error;

pub use bits::Bits;
pub use config::{Asking, Exchange, GROUP_TTL_HEARTBEATS, PartialConfig, PartialLimits};
pub use equal::EqualParts;

use crate::rpc::{PartialMode, Topic};

/// The parts of a group that a node has, and those that it wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// The parts that the node has and would send.
    pub available: Bits,
    /// The parts that the node wants from the receiver.
    pub requests: Bits,
}

/// Parts of a group in one message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Body {
    /// Number of parts of the group, if the body tells it.
    pub len: Option<u32>,
    /// The header of the group.
    pub header: Option<Bytes>,
    /// The parts with their numbers, in ascending order.
    pub parts: Vec<(u32, Bytes)>,
}

/// The reason why a format cannot read what a peer sent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("found {found}, expected {expected}")]
pub struct FormatError {
    /// The content.
    pub found: String,
    /// The values that the format allows.
    pub expected: String,
}

/// The format of the groups of a network: topics, ids, metadata and bodies.
///
/// A format must read whatever a peer sends within the limits of
/// [`wire::Limits`](crate::wire::Limits), without a panic and without claiming more memory than a
/// small multiple of its length.
pub trait Format: Send + Sync {
    /// Returns what this node does with partial messages on a topic.
    fn mode(&self, topic: &Topic) -> PartialMode;

    /// Checks the id of a group.
    ///
    /// # Errors
    /// No group can have this id.
    fn check_group(&self, topic: &Topic, group: &[u8]) -> Result<(), FormatError>;

    /// Returns the number of parts of the groups with this header, or of all groups if there are no
    /// headers.
    ///
    /// # Errors
    /// The header is malformed.
    fn len_of(&self, header: Option<&Bytes>) -> Result<Option<u32>, FormatError>;

    /// Returns whether metadata can say which parts a node wants. Otherwise it wants all parts that it
    /// does not have, and peers send them as soon as it has said anything.
    fn has_requests(&self) -> bool {
        true
    }

    /// Returns whether bodies can carry headers. Otherwise every node has them from elsewhere, and parts
    /// wait until the application provides the group.
    fn sends_headers(&self) -> bool {
        true
    }

    /// Reads metadata.
    ///
    /// # Errors
    /// The bytes are not metadata.
    fn read_metadata(&self, bytes: &[u8]) -> Result<Metadata, FormatError>;

    /// Writes metadata as peers read it.
    fn write_metadata(&self, metadata: &Metadata) -> Bytes;

    /// Reads a body.
    ///
    /// # Errors
    /// The bytes are not a body of this group.
    fn read_body(&self, group: &[u8], bytes: &Bytes) -> Result<Body, FormatError>;

    /// Writes a body for a group of `len` parts. The header may be absent, and there may be no parts,
    /// but never both.
    fn write_body(&self, group: &[u8], len: u32, header: Option<&Bytes>, parts: &[(u32, &Bytes)]) -> Bytes;
}

/// A shared [`Format`].
#[derive(Clone)]
pub struct FormatHook(Arc<dyn Format>);

impl FormatHook {
    /// Shares a format.
    pub fn new(format: impl Format + 'static) -> Self {
        Self(Arc::new(format))
    }
}

impl std::ops::Deref for FormatHook {
    type Target = dyn Format;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Debug for FormatHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FormatHook")
    }
}

/// The parts of a group that this node has: see [`GossipSub::provide`](crate::GossipSub::provide).
#[derive(Clone, Debug, Default)]
pub struct Content {
    /// The header, if the format has headers. It counts as checked.
    pub header: Option<Bytes>,
    /// The parts that this node has, with their numbers. They count as checked.
    pub parts: Vec<(u32, Bytes)>,
    /// The parts to send to peers that have not asked for them: those that other nodes cannot have.
    pub push: Bits,
}
