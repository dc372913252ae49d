//! The configuration of a node.
//!
//! All nodes with the same settings share one [`Config`]. The settings that differ from node to
//! node (direct peers, observers) can also be passed to each [`GossipSub`](crate::GossipSub).

mod hooks;
#[cfg(feature = "config")]
mod parameters;
mod presets;
mod sending;
mod spread;
mod validate;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use samara_engine::PeerIdentity;
use samara_engine::outbox::Schedule;
use samara_engine::settings::above;
#[cfg(feature = "config")]
use samara_engine::units::Span;

use crate::cache::SeenStrategy;
use crate::message_id::MessageIdFn;
use crate::partial::PartialConfig;
use crate::rpc::{Message, Topic};
use crate::score::{PeerScoreParams, PeerScoreThresholds, TopicScoreParams};

pub use hooks::{
    Authenticity, Author, Hook, SubscriptionFilter, Transform, Validator, ValidatorHook, Verdict,
};
#[cfg(feature = "config")]
pub use parameters::{AnswersKind, FileConfig, Parameters, expected_of, followers, key_of, settled};
pub use presets::Preset;
pub use samara_engine::config::ConfigError;
pub use samara_engine::outbox::LaneCapacity;
pub use sending::{Answers, LaneLayout, Lanes, SendingConfig};
pub use spread::{Announce, AskedAnnouncers, Pull, Spread};

samara_engine::settings! {
    /// The configuration of a GossipSub node. Start from a preset: [`Config::spec`],
    /// [`Config::ethereum`] or [`Config::go_libp2p_pubsub`]. The documentation of the first has the value
    /// of each field; those of the others list what differs.
    #[derive(Clone, Debug)]
    pub struct Config {
        /// The protocol version that all nodes speak. Real nodes offer all versions that they support, or
        /// only those up to 1.0 or 1.1.
        pub version: Version => version,
        /// The default sizes of meshes and gossip; a topic can override them.
        pub mesh: MeshParams => ..,
        /// The rules for joining a mesh, and for joining again after a PRUNE.
        pub mesh_rules: MeshRules,
        /// Whether a node gossips every message to the peers that its mesh rejects, and to those that
        /// enter or leave the mesh and may have missed messages. A node without a mesh then misses no
        /// message and can still publish its own. The specification gossips only to random peers
        /// outside the mesh.
        pub gossip_to_pruned: bool => gossip_to_pruned,
        /// Time between two heartbeats.
        #[range(above(Duration::ZERO))]
        pub heartbeat_interval: Duration => heartbeat as Span,
        /// Time from the start to the first heartbeat.
        pub heartbeat_initial_delay: Duration,
        /// Time over which the first heartbeats of nodes are spread, because the nodes of a real network
        /// did not start together; one interval by default.
        pub heartbeat_spread: Option<Duration> => heartbeat_spread as Span,
        /// Whether first heartbeats come at random within `heartbeat_spread`, or in the order of the
        /// nodes' numbers at equal distances, as if the nodes started one after another, or at given
        /// times.
        pub heartbeat_order: HeartbeatOrder => heartbeat_order,
        /// Time after a PRUNE during which neither side grafts the other. Whole seconds on the wire.
        #[range(Duration::from_secs(1)..)]
        pub prune_backoff: Duration,
        /// The same time after leaving a topic.
        pub unsubscribe_backoff: Duration,
        /// Additional time that this node waits before it grafts a peer again (go-libp2p-pubsub: two
        /// heartbeats).
        pub backoff_slack: Duration,
        /// Longest backoff that a peer can request. Longer requests are cut to this value.
        pub remote_backoff_max: Duration,
        /// A GRAFT within this time after a PRUNE costs twice the penalty (specification v1.1, "graft
        /// flood").
        pub graft_flood_threshold: Duration,
        /// Number of heartbeats between two checks for a low median score, upon which a mesh grafts
        /// better peers.
        #[range(1..)]
        pub opportunistic_graft_ticks: u64,
        /// Number of peers grafted by such a check.
        pub opportunistic_graft_peers: usize,
        /// Whether a node grafts a peer at once when the peer subscribes while the mesh is below D_low
        /// (rust-libp2p), instead of at the next heartbeat.
        pub graft_on_subscribe: bool,
        /// Time that the fanout of a topic outlives the last message published to it.
        pub fanout_ttl: Duration,

        /// Authors and signatures of messages.
        pub authenticity: Authenticity,
        /// The default function that computes message ids; a topic can override it.
        pub message_id: MessageIdFn,
        /// Default maximum payload to publish or accept, in bytes; a topic can override it.
        #[range(1..)]
        pub max_message_bytes: usize,
        /// Maximum frame to send or accept, in bytes. Longer frames are ignored.
        pub max_rpc_bytes: usize,
        /// Maximum frame of subscriptions and control messages to send, in bytes; longer lists are
        /// split. The node accepts larger frames, but rust-libp2p stops reading from a peer that sends
        /// more than 16 KiB of these at once.
        pub max_control_bytes: usize,
        /// Number of heartbeats for which a message is kept to answer IWANT.
        #[range(1..)]
        pub history_length: usize => history_length,
        /// Number of these heartbeats whose messages are announced in gossip. If a file does not set it, at
        /// most `history_length`.
        pub history_gossip: usize => history_gossip,
        /// Maximum bytes of the messages that are kept. Beyond it, the oldest messages are forgotten.
        pub history_bytes_max: usize,
        /// Time for which a message id counts as seen.
        #[range(above(Duration::ZERO))]
        pub seen_ttl: Duration,
        /// Maximum number of seen ids. Beyond it, the oldest ids are forgotten.
        #[range(1..)]
        pub seen_capacity: usize,
        /// Maximum bytes of these ids, with their entries in tables. A full cache forgets the oldest.
        pub seen_bytes_max: usize,
        /// The start of that time.
        pub seen_strategy: SeenStrategy,
        /// Whether own messages go to all known subscribers above the publish threshold instead of the
        /// mesh.
        pub flood_publish: bool => flood_publish,
        /// Maximum payload of a flooded message, in bytes.
        pub flood_publish_max_bytes: usize,
        /// Whether the application receives an [`Event::Message`](crate::Event::Message) for its own
        /// messages, as in go-libp2p-pubsub.
        pub deliver_own: bool,
        /// When the node sends IDONTWANT, and how much it remembers of those received (GossipSub 1.2).
        pub idontwant: IDontWantConfig => ..,
        /// Whether the node withdraws owed copies that have not left when the peer sends IDONTWANT or
        /// turns out to have the message.
        pub withdraw: Withdraw => withdraw as bool,
        /// Changes payloads between the application and the wire.
        pub transform: Option<Hook<dyn Transform>>,
        /// Default validator of messages before delivery and forwarding; a topic can override it.
        /// `None` accepts every message.
        pub validator: Option<ValidatorHook>,
        /// Maximum number of deferred validations at a time. Further messages are ignored and can
        /// arrive again.
        #[range(1..)]
        pub pending_validations_max: usize,
        /// Maximum bytes of payloads in deferred validations, beyond which no message is deferred. The
        /// messages of one RPC can exceed it.
        #[range(1..)]
        pub pending_validation_bytes_max: usize,
        /// Time after which a deferred validation without an answer counts as "ignore".
        pub validation_timeout: Duration,

        /// Partial messages (extension of v1.3); `None`: only full messages.
        pub partial: Option<Arc<PartialConfig>>,
        /// How messages spread if a node does not push every message to its whole mesh. The defaults spread
        /// pieces of a payload fast, with `dispatch = "node"`. Without it: as specified.
        pub spread: Option<Spread> => [spread],

        /// Limits of lazy gossip.
        pub gossip: GossipLimits => ..,
        /// Whether an IHAVE waits for the next RPC to its peer, at most until the next heartbeat, and is
        /// lost with that RPC. go-libp2p-pubsub did so up to 0.2.
        pub gossip_waits: bool,
        /// Whether the receivers of gossip are drawn from all subscribers, and those in the mesh then
        /// left out, instead of from those outside the mesh. go-libp2p-pubsub did so up to 0.1.
        pub gossip_draws_from_all: bool,
        /// The frames that answer an IWANT.
        pub answers: Answers,
        /// Limits of peers' subscriptions.
        pub subscriptions: SubscriptionLimits,

        /// Whether a PRUNE recommends other peers to connect to.
        pub peer_exchange: bool,
        /// Number of peers recommended in a PRUNE, and number of peers dialled from a received one.
        pub prune_peers: usize,
        /// Maximum number of concurrent dials by peer exchange.
        pub pending_dials_max: usize,
        /// Peers that always receive all messages and are never in a mesh. Both sides must name each
        /// other.
        pub direct_peers: Vec<PeerIdentity>,
        /// Time from the start to the first dial of direct peers.
        pub direct_connect_initial_delay: Duration,
        /// Number of heartbeats between two dials of unconnected direct peers.
        #[range(1..)]
        pub direct_connect_ticks: u64,
        /// Peers that never receive messages from this node, but whose announcements show how far its
        /// messages have spread (the trusted "buddy" of the batch publishing post). Use with
        /// [`FeedbackSource::Observers`](samara_engine::outbox::FeedbackSource::Observers).
        pub observers: Vec<PeerIdentity>,
        /// The opposite direction: peers that receive an IDONTWANT for every message at once, whatever
        /// its size, in or outside a mesh.
        pub report_to: Vec<PeerIdentity>,

        /// Parameters of the peer score. `None` turns scoring off: every score is 0.
        pub peer_score: Option<PeerScoreParams>,
        /// Thresholds of the score and their consequences.
        pub thresholds: PeerScoreThresholds,
        /// Default score parameters of joined topics. `None` leaves topics without their own parameters
        /// unscored.
        pub topic_score: Option<TopicScoreParams>,
        /// Settings of single topics.
        pub topics: BTreeMap<Topic, TopicConfig>,

        /// Queues, and the order in which they are drained.
        pub sending: SendingConfig => ..,
        /// Order of the copies of messages that are published one by one.
        pub schedule_publish: Schedule,
        /// Order of the copies of forwarded messages.
        pub schedule_forward: Schedule,
        /// Time after which unsent copies of own messages are discarded.
        pub publish_deadline: Option<Duration>,
        /// The same time for forwarded messages and answers to IWANT.
        pub forward_deadline: Option<Duration>,
        /// Whether the schedule receives the peers of each message in random order instead of in the
        /// order of their numbers. go-libp2p-pubsub uses the order of a map, which is random.
        pub shuffle_recipients: bool,

        /// Whether every duplicate is reported as an [`Event::Duplicate`](crate::Event::Duplicate).
        pub report_duplicates: bool,
        /// Whether every topic that a peer joins or leaves is reported as a separate event.
        pub report_subscriptions: bool,
        /// Whether changes of meshes and similar steps are reported as an
        /// [`Event::Trace`](crate::Event::Trace).
        pub trace: bool,
    }
}

impl Config {
    /// Returns the mesh parameters of a topic.
    pub fn mesh_of(&self, topic: &Topic) -> MeshParams {
        self.topics.get(topic).and_then(|own| own.mesh).unwrap_or(self.mesh)
    }

    /// Returns the maximum payload of a topic, in bytes.
    pub(crate) fn max_message_bytes_of(&self, topic: &Topic) -> usize {
        self.topics.get(topic).and_then(|own| own.max_message_bytes).unwrap_or(self.max_message_bytes)
    }

    /// Returns the function that computes the message ids of a topic.
    pub fn message_id_of(&self, topic: &Topic) -> &MessageIdFn {
        self.topics.get(topic).and_then(|own| own.message_id.as_ref()).unwrap_or(&self.message_id)
    }

    /// Returns a message as the application sees it.
    pub(crate) fn read(&self, topic: &Topic, message: &Arc<Message>) -> Result<Arc<Message>, String> {
        let Some(transform) = &self.transform else { return Ok(Arc::clone(message)) };
        let data = transform.inbound(topic, &message.data)?;
        Ok(Arc::new(message.with_data(data)))
    }

    /// Returns the validator of a topic's messages.
    pub(crate) fn validator_of(&self, topic: &Topic) -> Option<&ValidatorHook> {
        self.topics.get(topic).and_then(|own| own.validator.as_ref()).or(self.validator.as_ref())
    }

    /// Returns the score parameters of a topic.
    pub(crate) fn topic_score_of(&self, topic: &Topic) -> Option<&TopicScoreParams> {
        self.topics.get(topic).and_then(|own| own.score.as_ref()).or(self.topic_score.as_ref())
    }
}

samara_engine::settings! {
    /// The size of a mesh and of its gossip (specification v1.0 "Parameters", v1.1 "Outbound mesh
    /// quotas").
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct MeshParams {
        /// D: the target size of a mesh. The other sizes that a file does not set move with it, in the
        /// ratios of the preset.
        #[range(1..)]
        pub d: usize => degree,
        /// D_low: below this size, peers are grafted.
        pub d_low: usize => degree_low,
        /// D_high: at or above this size, peers are pruned.
        pub d_high: usize => degree_high,
        /// D_score: number of best-scored peers kept when pruning.
        pub d_score: usize => degree_score,
        /// D_out: number of peers dialled by the node that a mesh keeps, against sybils that dial in. If a
        /// file does not set it, it also stays below D_low and half of D.
        pub d_out: usize => degree_out,
        /// D_lazy: minimum number of peers outside the mesh that receive gossip.
        pub d_lazy: usize => degree_lazy,
        /// Minimum share of the peers outside the mesh that receive gossip.
        #[range(0.0..=1.0)]
        pub gossip_factor: f64 => gossip_factor,
    }
}

/// The order of the first heartbeats of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "config", serde(rename_all = "kebab-case"))]
pub enum HeartbeatOrder {
    /// At random.
    #[default]
    Random,
    /// By the numbers of the nodes.
    Number,
    /// At given times: `heartbeat_offsets` of a file.
    Offsets,
}

/// Versions of the GossipSub protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
pub enum Version {
    /// Meshes and gossip. Every GRAFT is accepted, there are no backoffs, and pruning protects no
    /// peer (`degree_score` and `degree_out` are 0 unless set).
    #[cfg_attr(feature = "config", serde(rename = "1.0"))]
    V1_0,
    /// Adds scores, backoff and peer exchange.
    #[cfg_attr(feature = "config", serde(rename = "1.1"))]
    V1_1,
    /// Adds IDONTWANT.
    #[default]
    #[cfg_attr(feature = "config", serde(rename = "1.2"))]
    V1_2,
    /// Adds extensions: partial messages.
    #[cfg_attr(feature = "config", serde(rename = "1.3"))]
    V1_3,
}

impl Version {
    /// Returns the protocol's name on the wire.
    pub fn protocol(self) -> &'static str {
        match self {
            Self::V1_0 => "/meshsub/1.0.0",
            Self::V1_1 => "/meshsub/1.1.0",
            Self::V1_2 => "/meshsub/1.2.0",
            Self::V1_3 => "/meshsub/1.3.0",
        }
    }
}

/// The rules for joining a mesh, and for joining again after a PRUNE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MeshRules {
    /// Accepts every GRAFT, with no backoff after a PRUNE (specification v1.0). On sparse graphs,
    /// nodes with few links then always find a place; on the internet, so do attackers.
    Open,
    /// A mesh at D_high accepts only peers that this node has dialled, and both sides of a PRUNE
    /// wait (specification v1.1 and go-libp2p-pubsub).
    #[default]
    Guarded,
}

/// The settings of one topic. `None` means the default of [`Config`].
#[derive(Clone, Debug, Default)]
pub struct TopicConfig {
    /// The size of the topic's mesh.
    pub mesh: Option<MeshParams>,
    /// The function that computes message ids.
    pub message_id: Option<MessageIdFn>,
    /// Maximum payload in bytes.
    pub max_message_bytes: Option<usize>,
    /// The validator of the topic's messages.
    pub validator: Option<ValidatorHook>,
    /// The score parameters of the topic.
    pub score: Option<TopicScoreParams>,
}

samara_engine::settings! {
    /// Limits of lazy gossip (specification v1.1, "Spam protection measures"), per peer and heartbeat.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct GossipLimits {
        /// Maximum number of ids in an IHAVE, and maximum number of ids requested from a peer.
        #[range(1..)]
        pub ihave_ids_max: usize,
        /// Maximum number of announcements (IHAVE) of a peer that a node reads between two heartbeats.
        pub ihave_messages_max: u32 => ihave_messages,
        /// Maximum number of ids in IWANT that are processed.
        pub iwant_ids_max: usize,
        /// Maximum number of times that one message is sent to one peer in answer to IWANT.
        pub retransmissions_max: u32,
        /// Time within which a peer must send a message that it announced and this node requested.
        #[range(above(Duration::ZERO))]
        pub iwant_follow_up: Duration,
        /// Maximum number of promises tracked at a time.
        pub promises_max: usize,
    }
}

samara_engine::settings! {
    /// Settings of IDONTWANT (specification v1.2).
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct IDontWantConfig {
        /// Whether the node sends IDONTWANT. It honours those it receives in any case.
        pub send: bool => idontwant,
        /// Minimum payload for which IDONTWANT is sent, in bytes.
        pub threshold_bytes: usize,
        /// Whether the node also sends IDONTWANT for its own messages, before their first copy. Peers
        /// that receive a message from other peers first then do not send it back.
        pub on_publish: bool => idontwant_on_publish,
        /// Whether the own messages of a batch share RPCs, each with as many ids as allowed.
        /// go-libp2p-pubsub sends one RPC for each message.
        pub aggregate_own: bool,
        /// Maximum number of ids processed from one RPC, and maximum number of ids sent in one.
        #[range(1..)]
        pub ids_per_rpc_max: usize,
        /// Maximum number of RPCs with IDONTWANT processed, per peer and heartbeat.
        pub rpcs_per_heartbeat_max: u32,
        /// Number of heartbeats after which a received IDONTWANT is forgotten.
        #[range(1..)]
        pub ttl_heartbeats: u64 => idontwant_ttl as u32,
        /// Whether a received IDONTWANT is also remembered until the message arrives, for at most as long as
        /// ids are known: a slow publication does not return to its publisher. In files, by default only with
        /// `dispatch = "node"`: other implementations forget it.
        pub until_arrival: bool => idontwant_until_arrival,
        /// Maximum number of ids remembered per peer.
        pub ids_per_peer_max: u32,
        /// Maximum bytes of the ids remembered over all peers, with their entries in tables. A peer may
        /// take a sixteenth of them.
        pub bytes_max: usize,
    }
}

/// When a node withdraws copies that it owes but has not sent. The specification mentions none of
/// these cases. go-libp2p-pubsub implements none of them, rust-libp2p the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Withdraw {
    /// The peer sent IDONTWANT.
    pub on_idontwant: bool,
    /// The peer sent a copy itself.
    pub on_copy: bool,
    /// The peer announced the message by IHAVE.
    pub on_ihave: bool,
    /// The peer requested the message by IWANT: the copy it is already owed keeps its place and is
    /// not doubled.
    pub on_iwant: bool,
}

impl Withdraw {
    /// Sends every copy that is owed.
    pub const NEVER: Self = Self { on_idontwant: false, on_copy: false, on_ihave: false, on_iwant: false };
    /// Withdraws every copy of a message that the peer already has.
    pub const ALWAYS: Self = Self { on_idontwant: true, on_copy: true, on_ihave: true, on_iwant: true };
}

/// Limits of peers' subscriptions.
#[derive(Clone, Debug)]
pub struct SubscriptionLimits {
    /// Maximum number of changes in an RPC. An RPC with more changes is ignored.
    pub per_rpc_max: usize,
    /// Maximum number of topics remembered per peer.
    pub per_peer_max: usize,
    /// Maximum bytes of the names of these topics.
    pub bytes_per_peer_max: usize,
    /// Maximum bytes of all known topics, with their entries in tables. Beyond it, subscriptions to
    /// unknown topics are ignored.
    pub bytes_max: usize,
    /// The topics to remember.
    pub filter: SubscriptionFilter,
}
