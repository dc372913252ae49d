//! Schedules as a configuration file states them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FeedbackSource, MessageOrder, PeerOrder, Policies, Schedule, Weight};
use crate::PeerId;
use crate::units::Span;

/// In which order copies leave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleSpec {
    /// The schedule.
    pub kind: ScheduleKind,
    /// Interleaved and feedback: shuffle the messages in every round instead of taking them as given.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shuffle: bool,
    /// Interleaved and feedback: which peer gets the next copy.
    pub peers: Option<PeerOrderKind>,
    /// Staggered: how long to wait for a sign of the last peer (200 ms).
    pub timeout: Option<Span>,
    /// Feedback: whose word counts (all peers).
    pub source: Option<SourceKind>,
    /// Feedback from peers: the most copies that their announcements can stand for (4).
    pub cap: Option<u32>,
    /// Custom: which policy, of those that the program that runs the scenario brings along (in Python: `samara.run(..., policies={...})`).
    pub policy: Option<String>,
}

/// Kinds of schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScheduleKind {
    /// All copies of one message, then all of the next.
    Sequential,
    /// First copies first.
    Interleaved,
    /// One copy of a message at a time.
    Staggered,
    /// First copies first, and messages that others have seen last.
    Feedback,
    /// As a policy says that a program brings along.
    Custom,
}

/// Which peer gets the next copy of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PeerOrderKind {
    /// As the protocol lists them.
    AsGiven,
    /// A random one.
    Random,
    /// The one that got the fewest copies.
    Balanced,
    /// A random one, by score.
    WeightedScore,
    /// A random one, by latency.
    WeightedLatency,
    /// A random one, by rate.
    WeightedBandwidth,
}

/// Whose word a feedback schedule takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SourceKind {
    /// All peers.
    Peers,
    /// The observer of the workload.
    Observer,
}

/// How long a staggered schedule waits unless told otherwise: the value of nim-libp2p's experiment.
const STAGGER_TIMEOUT: Span = Span::from_millis(200);
/// How many copies the announcements of peers stand for at most unless told otherwise: half of D, so that a message that
/// peers claim to have is still sent before its last copies would be.
const FEEDBACK_CAP: u32 = 4;

impl ScheduleSpec {
    /// The engine's schedule. `observer` is the handle of the observer where there is one. A policy that there is not is not this function's
    /// to tell: scenarios are checked before.
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
