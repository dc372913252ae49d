//! The parameters of GossipSub as a scenario states them.

use samara_engine::PeerId;
use samara_engine::outbox::{Dispatch, FeedbackSource, MessageOrder, Overflow, PeerOrder, Schedule, Weight};
use samara_gossipsub::Config;
use samara_gossipsub::config::{Authenticity, LaneCapacity, MeshRules, Withdraw};
use samara_gossipsub::message_id::MessageIdFn;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Policies;
use crate::units::Span;

/// Which protocol nodes speak.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Protocol {
    /// The protocol. All but GossipSub are baselines for streams of messages, on the scenario's links as they are.
    pub kind: ProtocolKind,
    /// Plumtree: hops that a lazy path must be shorter to take the place of an eager one; 0 turns that off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimization_threshold: Option<u32>,
    /// Plumtree: how long an announced message is waited for before it is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graft_timeout: Option<Span>,
}

/// Protocols that disseminate messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProtocolKind {
    /// Meshes and gossip; `gossipsub` has its parameters.
    #[default]
    Gossipsub,
    /// To all neighbours.
    Floodsub,
    /// To some random neighbours.
    Randomsub,
    /// Along a tree that is made of what came first.
    Plumtree,
}

/// The parameters of GossipSub: a preset and what differs from it.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Gossipsub {
    /// The values that are not given below.
    pub preset: Preset,
    /// The version of the protocol that all nodes speak. Real nodes offer all that they know, or up to 1.0 or 1.1.
    pub version: Version,
    /// D: the wanted size of a mesh.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degree: Option<usize>,
    /// D_low: below it, peers are grafted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degree_low: Option<usize>,
    /// D_high: above it, peers are pruned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degree_high: Option<usize>,
    /// D_lazy: peers outside the mesh that are told of messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degree_lazy: Option<usize>,
    /// D_score: the best peers that pruning keeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degree_score: Option<usize>,
    /// D_out: links of one's own dialling that a mesh keeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degree_out: Option<usize>,
    /// From one heartbeat to the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<Span>,
    /// Heartbeats that a message is kept for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_length: Option<usize>,
    /// Heartbeats that a message is gossiped for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_gossip: Option<usize>,
    /// The least part of other peers that is told of messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gossip_factor: Option<f64>,
    /// Whether peers that a mesh has no room for are told of every message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gossip_to_turned_away: Option<bool>,
    /// Whether own messages go to all known subscribers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flood_publish: Option<bool>,
    /// Whether IDONTWANT is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idontwant: Option<bool>,
    /// Whether it is also sent for own messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idontwant_on_publish: Option<bool>,
    /// Heartbeats after which a received IDONTWANT is forgotten.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idontwant_ttl: Option<u32>,
    /// Whether copies that are owed but have not left are withdrawn when the peer sends IDONTWANT or turns out to have the
    /// message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withdraw: Option<bool>,
    /// Whether each link drains its own queue, or one order holds over all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatch: Option<DispatchKind>,
    /// Copies that are queued for a peer, in each lane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<usize>,
    /// What happens to copies that a full queue has no room for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overflow: Option<OverflowKind>,
    /// In which order the copies of published messages leave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_publish: Option<ScheduleSpec>,
    /// In which order the copies of forwarded messages leave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_forward: Option<ScheduleSpec>,
    /// The policies that schedules of the kind custom name: of the program that runs the scenario, never of a file.
    #[serde(skip)]
    pub policies: Policies,
}

/// Sets of parameters that are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// The specifications' recommendations.
    Spec,
    /// Ethereum's consensus layer.
    #[default]
    Ethereum,
    /// The defaults of go-libp2p-pubsub.
    GoLibp2pPubsub,
}

/// Versions of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum Version {
    /// Meshes and gossip: every GRAFT is accepted, there are no backoffs, and pruning spares nobody (`degree_score` and
    /// `degree_out` are 0 unless given).
    #[serde(rename = "1.0")]
    V1_0,
    /// With scores, backoff and peer exchange.
    #[serde(rename = "1.1")]
    V1_1,
    /// With IDONTWANT.
    #[default]
    #[serde(rename = "1.2")]
    V1_2,
}

impl Version {
    /// Its name on the wire.
    pub fn protocol(self) -> &'static str {
        match self {
            Self::V1_0 => "/meshsub/1.0.0",
            Self::V1_1 => "/meshsub/1.1.0",
            Self::V1_2 => "/meshsub/1.2.0",
        }
    }
}

/// Who chooses the next copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DispatchKind {
    /// Each link drains its own queue.
    PerLink,
    /// One order over all links.
    Node,
}

/// What happens to copies that a full queue has no room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OverflowKind {
    /// They are refused.
    Block,
    /// They are dropped.
    DropNewest,
    /// The oldest one makes room.
    DropOldest,
}

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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peers: Option<PeerOrderKind>,
    /// Staggered: how long to wait for a sign of the last peer (200 ms).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// Feedback: whose word counts (all peers).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceKind>,
    /// Feedback from peers: the most copies that their announcements can stand for (4).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<u32>,
    /// Custom: which policy, of those that the program that runs the scenario brings along (in Python: `samara.run(..., policies={...})`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
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

/// What the scenario calls a value of the engine's configuration.
pub(super) fn key_of(field: &str) -> Option<&'static str> {
    Some(match field {
        "mesh.d" => "degree",
        "mesh.d_low" => "degree_low",
        "mesh.d_high" => "degree_high",
        "mesh.d_score" => "degree_score",
        "mesh.d_out" => "degree_out",
        "mesh.gossip_factor" => "gossip_factor",
        "heartbeat_interval" => "heartbeat",
        "history_length" => "history_length",
        "history_gossip" => "history_gossip",
        "idontwant.ttl_heartbeats" => "idontwant_ttl",
        _ => return None,
    })
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

impl Gossipsub {
    /// The engine's configuration.
    pub fn build(&self, observer: Option<PeerId>) -> Config {
        let mut config = match self.preset {
            Preset::Spec => Config::spec(),
            Preset::Ethereum => Config::ethereum(),
            Preset::GoLibp2pPubsub => Config::go_libp2p_pubsub(),
        };
        // Columns are anonymous, with an id from their payload, in every preset: what is measured is dissemination.
        config.authenticity = Authenticity::anonymous();
        config.message_id = MessageIdFn::ethereum(true, None);
        if self.version == Version::V1_0 {
            config.mesh_rules = MeshRules::Open;
            (config.mesh.d_score, config.mesh.d_out) = (0, 0);
        }
        let mesh = &mut config.mesh;
        set(&mut mesh.d, self.degree);
        set(&mut mesh.d_low, self.degree_low);
        set(&mut mesh.d_high, self.degree_high);
        set(&mut mesh.d_lazy, self.degree_lazy);
        set(&mut mesh.d_score, self.degree_score);
        set(&mut mesh.d_out, self.degree_out);
        set(&mut mesh.gossip_factor, self.gossip_factor);
        set(&mut config.heartbeat_interval, self.heartbeat.map(Span::duration));
        set(&mut config.history_length, self.history_length);
        set(&mut config.history_gossip, self.history_gossip);
        set(&mut config.gossip_to_turned_away, self.gossip_to_turned_away);
        set(&mut config.flood_publish, self.flood_publish);
        set(&mut config.idontwant.send, self.idontwant);
        set(&mut config.idontwant.on_publish, self.idontwant_on_publish);
        set(&mut config.idontwant.ttl_heartbeats, self.idontwant_ttl.map(Into::into));
        let withdraw = |withdraw| if withdraw { Withdraw::ALWAYS } else { Withdraw::NEVER };
        set(&mut config.withdraw, self.withdraw.map(withdraw));
        let dispatch = |dispatch| match dispatch {
            DispatchKind::PerLink => Dispatch::PerLink,
            DispatchKind::Node => Dispatch::Node,
        };
        set(&mut config.sending.dispatch, self.dispatch.map(dispatch));
        let sending = &mut config.sending;
        for lane in [&mut sending.control, &mut sending.publish, &mut sending.forward, &mut sending.answer] {
            if let Some(copies) = self.queue {
                *lane = LaneCapacity { copies, ..*lane };
            }
            if let Some(overflow) = self.overflow {
                lane.overflow = match overflow {
                    OverflowKind::Block => Overflow::Block,
                    OverflowKind::DropNewest => Overflow::DropNewest,
                    OverflowKind::DropOldest => Overflow::DropOldest,
                };
            }
        }
        let schedule =
            |spec: &Option<ScheduleSpec>| spec.as_ref().map(|spec| spec.build(observer, &self.policies));
        set(&mut config.schedule_publish, schedule(&self.schedule_publish));
        set(&mut config.schedule_forward, schedule(&self.schedule_forward));
        config
    }
}

fn set<T>(target: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *target = value;
    }
}
