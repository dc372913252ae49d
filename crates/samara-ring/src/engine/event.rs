//! What a member can be asked for, its events, and its counters.

use std::sync::Arc;

use bytes::Bytes;
use samara_engine::outbox::Tally;
use thiserror::Error;

use crate::{Member, Payload, View, ViewId};

/// What a member can be asked for by [`Input::Command`](samara_engine::Input::Command).
#[derive(Clone, Debug)]
pub enum Command {
    /// Sends a message to all members. [`Event::Refused`] if there is no room for it.
    Broadcast(Bytes),
    /// Leaves the group once all that waits to be broadcast is on its way. [`Event::Left`] answers.
    Leave,
    /// The application takes no deliveries until [`Unpause`](Self::Unpause): they wait here, and when there are too many the group
    /// waits.
    Pause,
    /// It takes deliveries again, first those that waited.
    Unpause,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A message of the group; own ones too. The view is the one in which it was broadcast (`None` for an
    /// [`Early::Direct`](crate::Early::Direct) message), the rank that of its origin there, and the number its own among those of the
    /// origin: 1, 2, 3...
    Delivered { view: Option<ViewId>, origin: Member, rank: u16, number: u64, payload: Payload },
    /// A view is installed. All that was delivered before belongs to earlier ones.
    View(Arc<View>),
    /// A member is taken for failed: the next view will be without it.
    Suspected { member: Member, cause: SuspectCause },
    /// A member takes nothing while others do: the group waits for it.
    Slow { member: Member },
    /// A message was not taken.
    Refused(BroadcastError),
    /// There is room again for messages, after one was refused.
    Room,
    /// This node has left the group: all that it broadcast is at all members.
    Left,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BroadcastError {
    /// Too much waits already. [`Event::Room`] tells when to try again.
    #[error("the queue of messages to broadcast is full")]
    Full,
    #[error("a message of {found} bytes, at most {max} are allowed")]
    TooLong { found: usize, max: usize },
    #[error("this node leaves the group")]
    Leaving,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SuspectCause {
    Silent,
    /// Its link is down, and does not come up again.
    LinkDown,
    /// It came back as another incarnation.
    Restarted,
    /// It has installed a view without this member.
    MovedOn,
    /// Another member does not hear it.
    Reported,
    Unresponsive,
    /// It holds the group up ([`Slow::Remove`](crate::Slow::Remove)).
    Slow,
}

samara_engine::names! {
    pub enum Ignored {
        /// A unit that was here.
        Duplicate = "duplicate",
        /// A unit of this member, come back.
        Returned = "returned",
        /// A unit whose origin is not in the view.
        UnknownOrigin = "unknown_origin",
        /// A unit whose hops are spent, at a member that should pass it on.
        HopsSpent = "hops_spent",
        /// A unit further ahead than any window allows.
        BeyondWindow = "beyond_window",
        /// A unit in the middle of a message whose beginning is not here, or of one that is too long.
        Fragment = "fragment",
        /// Data, credit, or a request to resume, of another view.
        StaleView = "stale_view",
        /// Data of a view that is about to be installed, beyond what is kept.
        EarlyOverflow = "early_overflow",
        /// Data of a node that is no member.
        Stranger = "stranger",
        /// A frame of a view change that is over, or of another one.
        StaleProposal = "stale_proposal",
        /// A frame that contradicts what is known, for example with lists of another length.
        Inconsistent = "inconsistent",
        /// A heartbeat of another group, or a frame of a federation.
        OtherGroup = "other_group",
    }
}

/// Counters of one node, all since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    pub broadcast: u64,
    /// Messages that were not ([`Event::Refused`]).
    pub refused: u64,
    /// Messages that were delivered, own ones included.
    pub delivered: u64,
    pub delivered_bytes: u64,
    /// Units of own messages that were sent to a first receiver.
    pub own_units: u64,
    /// Units that came, duplicates included.
    pub received_units: u64,
    pub forwarded_units: u64,
    /// Units that were sent again, to a member that had stated what it has.
    pub resent_units: u64,
    /// Frames of data that were owed to the outbox, and their bytes.
    pub data_frames: Tally,
    /// Other frames that were owed to the outbox, and their bytes.
    pub control_frames: Tally,
    /// Frames that the outbox refused: the peer is not connected, or its queue is full.
    pub refused_frames: u64,
    pub views: u64,
    pub proposals: u64,
    pub suspicions: u64,
    /// Nanoseconds in which nothing new could be sent because a view change was under way.
    pub frozen_ns: u64,
    ignored: [u64; Ignored::ALL.len()],
}

impl Metrics {
    pub fn ignored(&self, cause: Ignored) -> u64 {
        self.ignored[cause as usize]
    }

    pub fn ignored_by_cause(&self) -> impl Iterator<Item = (Ignored, u64)> {
        Ignored::ALL.iter().map(|cause| (*cause, self.ignored(*cause)))
    }

    pub(super) fn ignore(&mut self, cause: Ignored) {
        self.ignored[cause as usize] += 1;
    }
}
