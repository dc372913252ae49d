//! Names of peers, messages and timers.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// A peer as its neighbour's engine names it: a small dense number that the driver gives out.
///
/// The same remote identity gets the same number at one node, also when it disconnects and comes back, so that engines can
/// keep scores and backoffs by it and index arrays with it. A driver gives a number to another identity only after it had the
/// engine forget the first one. Numbers of different nodes have nothing to do with each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u32);

impl PeerId {
    /// The number as an array index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "peer{}", self.0)
    }
}

/// A message as its owner's outbox names it: a number that the engine gives out, unique at this node.
///
/// Engines intern the message ids of their wire format, so that the outbox need not know them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageKey(pub u64);

impl fmt::Debug for MessageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message{}", self.0)
    }
}

/// What an engine wants to be reminded of; it comes back in [`Input::Timer`](crate::Input::Timer).
///
/// Engines use the low 56 bits. The high 8 bits belong to whatever wraps an engine (an application around it), so that
/// both can share one timer service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerToken(pub u64);

impl TimerToken {
    /// Tokens from here on belong to what wraps an engine.
    pub const WRAPPER: u64 = 1 << 56;
}

/// The name of a node as others know it, for example the bytes of a libp2p peer id. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerIdentity(Arc<[u8]>);

impl PeerIdentity {
    /// An identity from its bytes.
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for PeerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What is known of a peer when its link comes up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerInfo {
    /// Its name.
    pub identity: PeerIdentity,
    /// Whether this node dialled (`true`) or was dialled (`false`).
    pub outbound: bool,
    /// The address that the peer is seen under, where the driver knows one (peers that share one can be sybils).
    pub address: Option<IpAddr>,
    /// The protocol that both sides agreed on, for example `/meshsub/1.2.0`; empty where there is nothing to agree on.
    pub protocol: Arc<str>,
}
