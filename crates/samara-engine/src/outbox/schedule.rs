//! In which order copies leave.

use std::time::Duration;

use super::Custom;
use crate::PeerId;

/// The order in which the copies of one message, or of a batch of messages, leave.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Schedule {
    /// All copies of the first message, then all of the second, and so on: what publishing in a loop does.
    #[default]
    Sequential,
    /// The first copy of every message, then the second copies, and so on: batch publishing.
    Interleaved {
        /// The order of messages within a round.
        messages: MessageOrder,
        /// Which peer gets which copy.
        peers: PeerOrder,
    },
    /// One copy of a message at a time: the next one is held back until the peer is known to have the last one
    /// ([`Outbox::note_has`](crate::Outbox::note_has)) or the timeout has passed since it left.
    Staggered {
        /// How long to wait for a sign of the peer.
        timeout: Duration,
    },
    /// Interleaved, but copies of messages that came back from others count as sent already, so that messages not yet
    /// seen anywhere go first. A hint from untrusted peers counts for at most a few copies
    /// ([`FeedbackSource::Peers`]) and the lane's patience bounds the wait of every copy.
    Feedback {
        /// Whose word counts.
        source: FeedbackSource,
        /// The order of messages within a round.
        messages: MessageOrder,
        /// Which peer gets which copy.
        peers: PeerOrder,
    },
    /// By a policy, which is asked again whenever a copy is to leave and something has changed. Slower than the others by what the
    /// policy costs, and no promises but its own.
    Custom(Custom),
}

impl Schedule {
    /// Interleaved in the given order: batch publishing in its plainest form.
    pub const INTERLEAVED: Self =
        Self::Interleaved { messages: MessageOrder::AsGiven, peers: PeerOrder::AsGiven };
}

/// The order of messages within a round of an interleaved schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MessageOrder {
    /// As the application gave them.
    #[default]
    AsGiven,
    /// Shuffled anew for every round.
    Shuffled,
}

/// Which of the peers that a message is owed to gets the next copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PeerOrder {
    /// As the engine gave them.
    #[default]
    AsGiven,
    /// A random order for every message.
    Random,
    /// The peer that got the fewest copies of the batch so far.
    Balanced,
    /// Drawn at random with a probability in proportion to a weight of the peer
    /// ([`Outbox::set_weight`](crate::Outbox::set_weight)).
    Weighted(Weight),
}

/// What a weighted order weighs peers by. Weights are positive; a peer without one counts as 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Weight {
    /// The peer's score at this node (set by the engine).
    Score,
    /// The inverse of the link's round trip time (set by the driver).
    Latency,
    /// The link's rate (set by the driver).
    Bandwidth,
}

/// Whose word a feedback schedule takes for the spread of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedbackSource {
    /// All peers; together they can move a message back by at most `cap` copies.
    Peers {
        /// The most copies that announcements of a message can stand for.
        cap: u32,
    },
    /// Only this peer, which the operator trusts: what it has counts as spread.
    Observer(PeerId),
}
