//! The commands, the events and the counters of a member.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use samara_engine::outbox::Tally;
use thiserror::Error;

use crate::{Member, Payload, View, ViewId};

/// A command to a member, sent with [`Input::Command`](samara_engine::Input::Command).
#[derive(Clone, Debug)]
pub enum Command {
    /// Sends a message to all members. If there is no room for it, [`Event::Refused`] follows.
    Broadcast(Bytes),
    /// Leaves the group once all waiting messages have been sent. [`Event::Left`] follows.
    Leave,
    /// Stops deliveries to the application until [`Unpause`](Self::Unpause). They wait here; if
    /// there are too many, the group waits.
    Pause,
    /// Resumes deliveries, starting with those that waited.
    Unpause,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A message of the group; own messages are included. `view` is the view in which it was
    /// broadcast (`None` for an [`Early::Direct`](crate::Early::Direct) message), `rank` the rank
    /// of its origin there, and `number` its number among the origin's messages: 1, 2, 3...
    Delivered { view: Option<ViewId>, origin: Member, rank: u16, number: u64, payload: Payload },
    /// A view was installed. All messages delivered before it belong to earlier views.
    View(Arc<View>),
    /// A member is suspected to have failed: the next view will not include it.
    Suspected { member: Member, cause: SuspectCause },
    /// A member takes nothing while others do, so the group waits for it.
    Slow { member: Member },
    /// A message was rejected.
    Refused(BroadcastError),
    /// There is room for messages again, after a rejection.
    Room,
    /// This node has left the group: all members have its messages.
    Left,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BroadcastError {
    /// Too many bytes wait already. [`Event::Room`] reports when there is room again.
    #[error("the queue of messages to broadcast is full")]
    Full,
    #[error("message has {found} bytes, but the limit is {max} (`Config::message_bytes_max`)")]
    TooLong { found: usize, max: usize },
    #[error("this node is leaving the group")]
    Leaving,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SuspectCause {
    Silent,
    /// Its link is down and does not come up again.
    LinkDown,
    /// It came back as another incarnation.
    Restarted,
    /// It installed a view without this member.
    MovedOn,
    /// Another member does not hear it.
    Reported,
    Unresponsive,
    /// It holds the group up ([`Slow::Remove`](crate::Slow::Remove)).
    Slow,
    /// It speaks as another node, or passes on what that one has sent.
    Impersonates,
}

/// A phrase that follows the name of the member.
impl fmt::Display for SuspectCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Silent => "it sent no heartbeat in time",
            Self::LinkDown => "the connection to it is down",
            Self::Restarted => "it has restarted",
            Self::MovedOn => "it continues in a group without this member",
            Self::Reported => "another member does not hear it",
            Self::Unresponsive => "it did not answer the proposal of a new view",
            Self::Slow => "it holds the group up",
            Self::Impersonates => "it speaks as another node",
        })
    }
}

samara_engine::names! {
    #[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize))]
    #[cfg_attr(feature = "config", serde(rename_all = "snake_case"))]
    pub enum Ignored {
        /// A unit that already arrived.
        Duplicate = "duplicate",
        /// A unit of this member that came back.
        Returned = "returned",
        /// A unit of an origin that is not in the view.
        UnknownOrigin = "unknown_origin",
        /// A unit without hops left, at a member that has to forward it.
        HopsSpent = "hops_spent",
        /// A unit further ahead than any window allows.
        BeyondWindow = "beyond_window",
        /// A unit in the middle of a message whose start is missing, or of a message that is too
        /// long.
        Fragment = "fragment",
        /// Data, credit, or a request to resume, for another view.
        StaleView = "stale_view",
        /// Data for a view that is about to be installed, or an early message, beyond the limit.
        EarlyOverflow = "early_overflow",
        /// Data from a node that is not a member.
        Stranger = "stranger",
        /// A frame of a completed or unknown view change.
        StaleProposal = "stale_proposal",
        /// A frame that contradicts the known state, for example with lists of the wrong length.
        Inconsistent = "inconsistent",
        /// A heartbeat of another group, or a frame of a federation.
        OtherGroup = "other_group",
        /// A heartbeat or a proposal in the name of another node than the one that sent it.
        Forged = "forged",
    }
}

samara_engine::counters! {
    /// Counters of one node since its start.
    #[derive(Eq)]
    pub struct Metrics {
        /// Own messages that the group accepted.
        pub broadcast: u64,
        /// Own messages that the group refused.
        pub refused: u64,
        /// Delivered messages, own ones included.
        pub delivered: u64,
        /// Bytes of delivered messages.
        pub delivered_bytes: u64,
        /// Messages and chunks of this member that were sent for the first time.
        pub own_units: u64,
        /// Received messages and chunks, duplicates included.
        pub received_units: u64,
        /// Messages and chunks that were forwarded.
        pub forwarded: u64,
        /// Messages and chunks that were sent again to a member after it stated what it has.
        pub repaired: u64,
        /// Data frames passed to the outbox.
        pub data_frames: Tally,
        /// Other frames passed to the outbox.
        pub control_frames: Tally,
        /// Frames that the outbox rejected because the peer is not connected or its queue is full.
        pub queue_drops: u64,
        /// Nodes that a peer named and that this member does not dial, because it wants as many
        /// links as there can be members.
        pub refused_names: u64,
        /// Views that were installed.
        pub views: u64,
        /// Received `Install` frames, also those of views that this member has installed already
        /// because another one had.
        pub installs: u64,
        /// View changes that this member proposed.
        pub proposals: u64,
        /// Members suspected of failure.
        pub suspicions: u64,
        /// Nanoseconds during which a view change blocked new messages.
        pub frozen_ns: u64,
        /// Input of peers without effect.
        pub ignored[cause: Ignored]: u64,
    }
}

impl Metrics {
    pub(super) fn ignore(&mut self, cause: Ignored) {
        self.ignored[cause] += 1;
    }
}
