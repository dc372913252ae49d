//! The order in which copies leave.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::short;
use crate::units::Span;

/// The order in which the copies of messages leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(transform = short::kind_alone)]
pub enum Schedule {
    /// All copies of the first message, then all of the second, and so on: publishing in a loop.
    Sequential,
    /// The first copy of every message, then the second copies, and so on: batch publishing.
    Interleaved {
        /// The order of messages within a round.
        #[serde(default)]
        messages: MessageOrder,
        /// Which peer gets which copy.
        #[serde(default)]
        peers: PeerOrder,
    },
    /// One copy of a message at a time: the next one waits until the peer is known to have the last one, or the timeout has
    /// passed.
    Staggered {
        /// How long to wait.
        #[serde(default = "stagger_timeout")]
        timeout: Span,
    },
    /// Interleaved, but what others announce to have counts as sent already.
    Feedback {
        /// Whose word counts.
        #[serde(default)]
        source: FeedbackSource,
        /// The most copies that announcements of peers can stand for.
        #[serde(default = "feedback_cap")]
        #[schemars(range(min = 1, max = 64))]
        cap: u32,
        /// The order of messages within a round.
        #[serde(default)]
        messages: MessageOrder,
        /// Which peer gets which copy.
        #[serde(default)]
        peers: PeerOrder,
    },
}

/// The order of messages within a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MessageOrder {
    /// As the application gave them.
    #[default]
    AsGiven,
    /// Shuffled anew for every round.
    Shuffled,
}

/// Which of the peers that a message is owed to gets the next copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PeerOrder {
    /// As the router gives them; see `shuffle_recipients`.
    #[default]
    AsGiven,
    /// A random order for every message.
    Random,
    /// The peer that got the fewest copies of the batch so far.
    Balanced,
    /// Drawn in proportion to the peer's score.
    WeightedScore,
    /// Drawn in inverse proportion to the round trip time.
    WeightedLatency,
    /// Drawn in proportion to the peer's uplink rate.
    WeightedBandwidth,
}

/// Whose word counts for how far a message has spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FeedbackSource {
    /// All peers', up to a cap.
    #[default]
    Peers,
    /// Only that of the node in `workload.observer`.
    Observer,
}

fn stagger_timeout() -> Span {
    // The value of the nim-libp2p prototype of staggered sending.
    Span::from_millis(200)
}

fn feedback_cap() -> u32 {
    4
}
