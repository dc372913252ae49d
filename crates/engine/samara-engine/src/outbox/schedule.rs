//! Schedules: the order in which copies leave.

use std::time::Duration;

use super::Custom;

/// The order in which the copies of one message, or of a batch of messages, leave.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Schedule {
    /// All copies of the first message, then all of the second, and so on, as if published in a
    /// loop.
    #[default]
    Sequential,
    /// The first copy of every message, then the second copies, and so on: batch publishing.
    Interleaved {
        /// The order of messages within a round.
        messages: MessageOrder,
        /// The choice of the peer that gets each copy.
        peers: PeerOrder,
    },
    /// One copy of a message at a time. The next copy is held back until the peer is known to have
    /// the last one ([`Outbox::note_has`](crate::Outbox::note_has)) or the timeout has passed since
    /// it left.
    Staggered {
        /// How long to wait for confirmation from the peer.
        timeout: Duration,
    },
    /// Interleaved, but copies of messages that other peers reported count as already sent, so that
    /// messages not yet seen anywhere go first. A hint from untrusted peers counts for at most a
    /// few copies ([`FeedbackSource::Peers`]), and the lane's patience limits the wait of every
    /// copy.
    Feedback {
        /// The peers whose reports count.
        source: FeedbackSource,
        /// The order of messages within a round.
        messages: MessageOrder,
        /// The choice of the peer that gets each copy.
        peers: PeerOrder,
    },
    /// The order of a policy. The outbox calls it again whenever a copy is about to leave and
    /// something has changed. Slower than the other schedules by the cost of the policy, and
    /// without their guarantees.
    Custom(Custom),
}

impl Schedule {
    /// Returns the weight by which the schedule draws peers, if it does.
    pub const fn weight(&self) -> Option<Weight> {
        match self {
            Self::Interleaved { peers: PeerOrder::Weighted(weight), .. }
            | Self::Feedback { peers: PeerOrder::Weighted(weight), .. } => Some(*weight),
            _ => None,
        }
    }

    /// Returns true if the schedule follows the announcements of observers.
    pub const fn is_observed(&self) -> bool {
        matches!(self, Self::Feedback { source: FeedbackSource::Observers, .. })
    }

    /// Interleaved in the given order: the simplest form of batch publishing.
    pub const INTERLEAVED: Self =
        Self::Interleaved { messages: MessageOrder::AsGiven, peers: PeerOrder::AsGiven };
}

/// The order of messages within a round of an interleaved schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MessageOrder {
    /// In the order of the application.
    #[default]
    AsGiven,
    /// In a new random order for every round.
    Shuffled,
}

/// The choice of the next peer among those that a message is owed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PeerOrder {
    /// In the order of the engine.
    #[default]
    AsGiven,
    /// In a random order for every message.
    Random,
    /// The peer that got the fewest copies of the batch so far.
    Balanced,
    /// At random, with a probability proportional to a weight of the peer
    /// ([`Outbox::set_weight`](crate::Outbox::set_weight)).
    Weighted(Weight),
}

/// The weight of peers in a weighted order. Weights are positive; the default is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Weight {
    /// The score of the peer at this node (set by the engine).
    Score,
    /// The inverse of the round-trip time of the link (set by the driver).
    Latency,
    /// The rate of the link (set by the driver).
    Bandwidth,
}

/// The peers whose reports a feedback schedule trusts about the spread of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedbackSource {
    /// All peers. Together they can move a message back by at most `cap` copies.
    Peers {
        /// Maximum number of copies that announcements of a message can stand for.
        cap: u32,
    },
    /// Only the observers of the node ([`Outbox::set_observer`](crate::Outbox::set_observer)), which
    /// the operator trusts: messages that one of them has count as spread.
    Observers,
}
