//! What a member can be asked for, and what it tells.

use std::sync::Arc;

use bytes::Bytes;
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

/// What a member tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A message of the group; own ones too.
    Delivered {
        /// The view in which it was broadcast; `None` for an [`Early::Direct`](crate::Early::Direct) message.
        view: Option<ViewId>,
        /// Who broadcast it.
        origin: Member,
        /// The rank of the origin in that view.
        rank: u16,
        /// Its number among those of the origin in that view: 1, 2, 3...
        number: u64,
        /// Its content.
        payload: Payload,
    },
    /// A view is installed. All that was delivered before belongs to earlier ones.
    View(Arc<View>),
    /// A member is taken for failed: the next view will be without it.
    Suspected {
        /// Who.
        member: Member,
        /// Why.
        cause: SuspectCause,
    },
    /// A member takes nothing while others do: the group waits for it.
    Slow {
        /// Who.
        member: Member,
    },
    /// A message was not taken.
    Refused(BroadcastError),
    /// There is room again for messages, after one was refused.
    Room,
    /// This node has left the group: all that it broadcast is at all members.
    Left,
}

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BroadcastError {
    /// Too much waits already. [`Event::Room`] tells when to try again.
    #[error("the queue of messages to broadcast is full")]
    Full,
    /// It is too long.
    #[error("a message of {found} bytes, at most {max} are allowed")]
    TooLong {
        /// Its length.
        found: usize,
        /// What is allowed.
        max: usize,
    },
    /// This node leaves, or has left.
    #[error("this node leaves the group")]
    Leaving,
}

/// Why a member is taken for failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SuspectCause {
    /// It was silent for too long.
    Silent,
    /// Its link is down, and does not come up again.
    LinkDown,
    /// It came back as another incarnation.
    Restarted,
    /// It has installed a view without this member.
    MovedOn,
    /// Another member does not hear it.
    Reported,
    /// It does not answer a proposal.
    Unresponsive,
    /// It holds the group up ([`Slow::Remove`](crate::Slow::Remove)).
    Slow,
}
