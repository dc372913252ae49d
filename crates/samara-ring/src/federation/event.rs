//! What a federated member tells, and what it counts.

use std::sync::Arc;

use bytes::Bytes;

use crate::{BroadcastError, Member, SuspectCause, View};

/// What a federated member tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FederationEvent {
    /// A message of the federation; own ones too.
    Delivered {
        /// The site of its sender.
        site: u16,
        /// Who broadcast it.
        origin: Member,
        /// Its number among those of the sender: 1, 2, 3...
        number: u64,
        /// Its content.
        content: Bytes,
    },
    /// The site has a new view. Its first member leads the site.
    View(Arc<View>),
    /// At a leader: the leaders that are connected now, as members of the bridge.
    Leaders(Arc<View>),
    /// A member of the site, or a leader of another one, is taken for failed.
    Suspected {
        /// Who.
        member: Member,
        /// Why.
        cause: SuspectCause,
    },
    /// A member of the site, or a leader of another one, takes nothing while others do.
    Slow {
        /// Who.
        member: Member,
    },
    /// At a leader: a site was away for too long. Messages are not kept for it any more.
    Absent {
        /// Which.
        site: u16,
    },
    /// A message was not taken.
    Refused(BroadcastError),
    /// There is room again for messages, after one was refused.
    Room,
    /// This node has left: all that it broadcast is at all members of all sites that are not absent.
    Left,
}

/// Why something in the messages of a ring was ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unused {
    /// A message that was here: sent again after a leader or a link failed.
    Duplicate,
    /// A message behind others that are still to come: it will be sent again.
    Gap,
    /// From a member that does not lead the site, or did not when it was sent.
    NotLeader,
    /// What cannot be read, or an answer to an older question.
    Malformed,
    /// From one sender more than are remembered.
    TooManySenders,
    /// A frame of a leader to a node that leads no more, or of another federation.
    NoBridge,
}

impl Unused {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Duplicate, Self::Gap, Self::NotLeader, Self::Malformed, Self::TooManySenders, Self::NoBridge];

    /// What reports call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Duplicate => "duplicate",
            Self::Gap => "gap",
            Self::NotLeader => "not_leader",
            Self::Malformed => "malformed",
            Self::TooManySenders => "too_many_senders",
            Self::NoBridge => "no_bridge",
        }
    }
}

/// Counters of one federated node, all since its start. Each of its rings counts for itself besides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FederationMetrics {
    /// Messages that were taken to be broadcast.
    pub broadcast: u64,
    /// Messages that were not.
    pub refused: u64,
    /// Messages that were delivered, own ones included.
    pub delivered: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Messages that this node, as a leader, handed to the bridge, and their bytes.
    pub bridged: (u64, u64),
    /// Messages that this node, as a leader, handed to the ring of its site, and their bytes.
    pub relayed: (u64, u64),
    /// Messages before which others were missing for good: the site was absent for too long, or split.
    pub skipped: u64,
    /// Messages that were let go of before all sites had them: there were too many.
    pub overflowed: u64,
    /// How often this node began to lead.
    pub leaderships: u64,
    /// How often leaders told each other anew what they have.
    pub rounds: u64,
    unused: [u64; Unused::ALL.len()],
}

impl FederationMetrics {
    /// How often something was ignored for this cause.
    pub fn unused(&self, cause: Unused) -> u64 {
        self.unused[cause as usize]
    }

    pub(super) fn ignore(&mut self, cause: Unused) {
        self.unused[cause as usize] += 1;
    }
}
