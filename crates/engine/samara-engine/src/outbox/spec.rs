//! Schedules in configuration files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FeedbackSource, MessageOrder, PeerOrder, Policies, Schedule, Weight};
use crate::kinds;
use crate::units::Span;

kinds! {
    /// The order in which copies leave.
    #[derive(Clone, Debug, PartialEq)]
    pub enum ScheduleSpec {
        /// All copies of one message, then all of the next.
        Sequential = "sequential" {},
        /// First copies of all messages first.
        Interleaved = "interleaved" {
            /// Shuffle the messages in every round instead of keeping their order.
            #[serde(default, skip_serializing_if = "std::ops::Not::not")]
            shuffle: bool,
            /// The choice of the next peer.
            peers: Option<PeerOrderKind>,
        },
        /// One copy of a message at a time.
        Staggered = "staggered" {
            /// How long to wait for confirmation from the last peer (default: 200 ms).
            timeout: Option<Span>,
        },
        /// First copies first, and messages that others have seen last.
        Feedback = "feedback" {
            /// Shuffle the messages in every round instead of keeping their order.
            #[serde(default, skip_serializing_if = "std::ops::Not::not")]
            shuffle: bool,
            /// The choice of the next peer.
            peers: Option<PeerOrderKind>,
            /// The peers whose reports count (default: all peers).
            source: Option<SourceKind>,
            /// Maximum number of copies that the announcements of peers can stand for (default: 4).
            cap: Option<u32>,
        },
        /// The order of a policy that the program registers.
        Custom = "custom" {
            /// The name of the policy (in Python: `samara.run(..., policies={...})`).
            policy: Option<String>,
        },
    }
}

/// The choice of the peer that gets the next copy of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PeerOrderKind {
    /// In the order of the protocol.
    AsGiven,
    /// A peer at random.
    Random,
    /// The peer that got the fewest copies.
    Balanced,
    /// A random peer, weighted by score.
    WeightedScore,
    /// A random peer, weighted by latency.
    WeightedLatency,
    /// A random peer, weighted by rate.
    WeightedBandwidth,
}

/// The peers whose reports a feedback schedule trusts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SourceKind {
    /// All peers of the node.
    Peers,
    /// The observers of the node.
    Observer,
}

/// The default wait of a staggered schedule: the value of nim-libp2p's experiment.
const STAGGER_TIMEOUT: Span = Span::from_millis(200);
/// The default maximum number of copies that announcements of peers stand for: half of D, so that a
/// message that peers claim to have still leaves before its last copies would.
const FEEDBACK_CAP: u32 = 4;

impl ScheduleSpec {
    /// Builds the engine's schedule. An unknown policy yields the default schedule: scenarios are
    /// validated before.
    pub fn build(&self, policies: &Policies) -> Schedule {
        match self {
            Self::Sequential {} => Schedule::Sequential,
            Self::Interleaved { shuffle, peers } => {
                Schedule::Interleaved { messages: messages(*shuffle), peers: order(*peers) }
            }
            Self::Staggered { timeout } => {
                Schedule::Staggered { timeout: timeout.unwrap_or(STAGGER_TIMEOUT).duration() }
            }
            Self::Feedback { shuffle, peers, source, cap } => {
                let source = match source {
                    Some(SourceKind::Observer) => FeedbackSource::Observers,
                    Some(SourceKind::Peers) | None => {
                        FeedbackSource::Peers { cap: cap.unwrap_or(FEEDBACK_CAP) }
                    }
                };
                Schedule::Feedback { source, messages: messages(*shuffle), peers: order(*peers) }
            }
            Self::Custom { policy } => {
                let policy = policy.as_deref().and_then(|name| policies.get(name));
                policy.map_or_else(Schedule::default, Schedule::Custom)
            }
        }
    }
}

fn messages(shuffle: bool) -> MessageOrder {
    if shuffle { MessageOrder::Shuffled } else { MessageOrder::AsGiven }
}

fn order(peers: Option<PeerOrderKind>) -> PeerOrder {
    match peers.unwrap_or(PeerOrderKind::AsGiven) {
        PeerOrderKind::AsGiven => PeerOrder::AsGiven,
        PeerOrderKind::Random => PeerOrder::Random,
        PeerOrderKind::Balanced => PeerOrder::Balanced,
        PeerOrderKind::WeightedScore => PeerOrder::Weighted(Weight::Score),
        PeerOrderKind::WeightedLatency => PeerOrder::Weighted(Weight::Latency),
        PeerOrderKind::WeightedBandwidth => PeerOrder::Weighted(Weight::Bandwidth),
    }
}
