//! Schedules in configuration files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FeedbackSource, MessageOrder, PeerOrder, Policies, Schedule, Weight};
use crate::PeerId;
use crate::units::Span;

/// The order in which copies leave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleSpec {
    /// The kind of schedule.
    pub kind: ScheduleKind,
    /// Interleaved and feedback: shuffle the messages in every round instead of keeping their
    /// order.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shuffle: bool,
    /// Interleaved and feedback: the choice of the next peer.
    pub peers: Option<PeerOrderKind>,
    /// Staggered: how long to wait for confirmation from the last peer (default: 200 ms).
    pub timeout: Option<Span>,
    /// Feedback: the peers whose reports count (default: all peers).
    pub source: Option<SourceKind>,
    /// Feedback from peers: maximum number of copies that their announcements can stand for
    /// (default: 4).
    pub cap: Option<u32>,
    /// Custom: the name of a policy that the program registers (in Python: `samara.run(...,
    /// policies={...})`).
    pub policy: Option<String>,
}

/// Kinds of schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScheduleKind {
    /// All copies of one message, then all of the next.
    Sequential,
    /// First copies of all messages first.
    Interleaved,
    /// One copy of a message at a time.
    Staggered,
    /// First copies first, and messages that others have seen last.
    Feedback,
    /// The order of a policy that the program registers.
    Custom,
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
    /// The observer of the workload.
    Observer,
}

/// The default wait of a staggered schedule: the value of nim-libp2p's experiment.
const STAGGER_TIMEOUT: Span = Span::from_millis(200);
/// The default maximum number of copies that announcements of peers stand for: half of D, so that a
/// message that peers claim to have still leaves before its last copies would.
const FEEDBACK_CAP: u32 = 4;

impl ScheduleSpec {
    /// Builds the engine's schedule. `observer` is the handle of the observer, if any. An unknown
    /// policy yields the default schedule: scenarios are validated before.
    pub fn build(&self, observer: Option<PeerId>, policies: &Policies) -> Schedule {
        let messages = if self.shuffle { MessageOrder::Shuffled } else { MessageOrder::AsGiven };
        let peers = match self.peers.unwrap_or(PeerOrderKind::AsGiven) {
            PeerOrderKind::AsGiven => PeerOrder::AsGiven,
            PeerOrderKind::Random => PeerOrder::Random,
            PeerOrderKind::Balanced => PeerOrder::Balanced,
            PeerOrderKind::WeightedScore => PeerOrder::Weighted(Weight::Score),
            PeerOrderKind::WeightedLatency => PeerOrder::Weighted(Weight::Latency),
            PeerOrderKind::WeightedBandwidth => PeerOrder::Weighted(Weight::Bandwidth),
        };
        match self.kind {
            ScheduleKind::Sequential => Schedule::Sequential,
            ScheduleKind::Interleaved => Schedule::Interleaved { messages, peers },
            ScheduleKind::Staggered => {
                Schedule::Staggered { timeout: self.timeout.unwrap_or(STAGGER_TIMEOUT).duration() }
            }
            ScheduleKind::Feedback => {
                let source = match (self.source, observer) {
                    (Some(SourceKind::Observer), Some(observer)) => FeedbackSource::Observer(observer),
                    _ => FeedbackSource::Peers { cap: self.cap.unwrap_or(FEEDBACK_CAP) },
                };
                Schedule::Feedback { source, messages, peers }
            }
            ScheduleKind::Custom => {
                let policy = self.policy.as_deref().and_then(|name| policies.get(name));
                policy.map_or_else(Schedule::default, Schedule::Custom)
            }
        }
    }
}
