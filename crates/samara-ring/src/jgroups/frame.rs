//! What the modelled members say to each other. There is no wire format: these frames exist in simulations alone.

use std::sync::Arc;

use bytes::Bytes;
use samara_engine::{Frame, PeerIdentity};

/// Bytes of a message besides its content: source and original sender (a UUID of 16 bytes and a byte each), the headers of
/// NAKACK2 and DAISYCHAIN, flags and lengths. An estimate; at 8 KB it is 0.7 %.
const OVERHEAD: usize = 60;

/// A view as JGroups has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaisyView {
    /// Its number.
    pub id: u64,
    /// Its members, the coordinator first.
    pub members: Vec<PeerIdentity>,
}

/// Something that goes to everybody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Multicast {
    /// A message of the application, with its sequence number (NAKACK2).
    Message(u64, Bytes),
    /// A new view, which has a sequence number too.
    View(u64, Arc<DaisyView>),
    /// This member is suspected (FD_SOCK2, FD_ALL3).
    Suspect(PeerIdentity),
    /// The sender is there (FD_ALL3), and its last sequence number is this (NAKACK2, STABLE).
    Heartbeat(u64),
}

impl Multicast {
    /// Its sequence number, if it has one.
    pub(super) fn sequence(&self) -> Option<u64> {
        match self {
            Self::Message(sequence, _) | Self::View(sequence, _) => Some(*sequence),
            Self::Suspect(_) | Self::Heartbeat(_) => None,
        }
    }

    pub(super) fn content(&self) -> usize {
        match self {
            Self::Message(_, bytes) => bytes.len(),
            Self::View(_, view) => 17 * view.members.len(),
            Self::Suspect(_) | Self::Heartbeat(_) => 17,
        }
    }
}

/// A frame between two of the modelled members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DaisyFrame {
    /// On its way around the ring (`DaisyHeader(original_sender)`).
    Around(PeerIdentity, Arc<Multicast>),
    /// Sent to each member, by one that has no successor yet; or sent again to one that asked for it.
    Direct(PeerIdentity, Arc<Multicast>),
    /// Send these of your sequence numbers again, the last one included (`XMIT_REQ`).
    Request(u64, u64),
    /// So many bytes of yours were consumed (MFC).
    Credit(u64),
    /// I want to join (`JOIN_REQ`).
    Join,
    /// You are a member; the last sequence number of each member (`JOIN_RSP` with its digest).
    Joined(Arc<DaisyView>, Arc<[u64]>),
    /// I leave (`LEAVE_REQ`).
    Leave,
    /// You have left (`LEAVE_RSP`).
    Goodbye,
    /// Are you there (VERIFY_SUSPECT2)?
    AreYouThere,
    /// I am.
    IAmHere,
}

impl Frame for DaisyFrame {
    fn encoded_len(&self) -> usize {
        match self {
            Self::Around(_, multicast) | Self::Direct(_, multicast) => OVERHEAD + multicast.content(),
            Self::Joined(view, digest) => OVERHEAD + 17 * view.members.len() + 8 * digest.len(),
            _ => OVERHEAD,
        }
    }

    fn payload_len(&self) -> usize {
        match self {
            Self::Around(_, multicast) | Self::Direct(_, multicast) => match &**multicast {
                Multicast::Message(_, bytes) => bytes.len(),
                _ => 0,
            },
            _ => 0,
        }
    }
}
