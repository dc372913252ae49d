//! Everything about a node that can be chosen.
//!
//! One [`Config`] is shared by all nodes that are set up alike; what differs from node to node (direct peers, observers)
//! can also be given to each [`GossipSub`](crate::GossipSub).

mod hooks;
#[cfg(feature = "config")]
mod parameters;
mod presets;
mod sending;
mod validate;

use std::collections::BTreeMap;
use std::time::Duration;

use samara_engine::PeerIdentity;
use samara_engine::outbox::Schedule;

use crate::cache::SeenStrategy;
use crate::message_id::MessageIdFn;
use crate::rpc::Topic;
use crate::score::{PeerScoreParams, PeerScoreThresholds, TopicScoreParams};

pub use hooks::{Authenticity, Hook, SubscriptionFilter, Validator, ValidatorHook, Verdict};
#[cfg(feature = "config")]
pub use parameters::{Parameters, Preset, Version, key_of};
pub use samara_engine::config::ConfigError;
pub use samara_engine::outbox::LaneCapacity;
pub use sending::{LaneLayout, Lanes, SendingConfig};

/// How a GossipSub node behaves. Start from a preset: [`Config::spec`], [`Config::ethereum`] or
/// [`Config::go_libp2p_pubsub`].
#[derive(Clone, Debug)]
pub struct Config {
    // ---- the mesh ----
    /// The size of meshes and of gossip, where a topic does not say otherwise.
    pub mesh: MeshParams,
    /// Who may join a mesh, and how soon again.
    pub mesh_rules: MeshRules,
    /// Whether peers that a mesh refuses, or that enter or leave it, are told of every message that they may have missed: no node
    /// that is left without a mesh then misses one, or cannot get its own out. The specification gossips to random peers
    /// outside of the mesh only.
    pub gossip_to_turned_away: bool,
    /// From one heartbeat to the next.
    pub heartbeat_interval: Duration,
    /// From the start to the first heartbeat.
    pub heartbeat_initial_delay: Duration,
    /// Adds up to one interval, drawn at random, to the initial delay: nodes of a real network did not start together.
    pub heartbeat_random_phase: bool,
    /// How long both sides of a PRUNE do not graft each other again. Whole seconds on the wire.
    pub prune_backoff: Duration,
    /// The same after leaving a topic.
    pub unsubscribe_backoff: Duration,
    /// So much longer this node waits itself before it grafts a peer again (go-libp2p-pubsub: two heartbeats).
    pub backoff_slack: Duration,
    /// The longest backoff that a peer can ask for; more is cut.
    pub remote_backoff_max: Duration,
    /// A GRAFT this soon after a PRUNE costs twice the penalty (specification v1.1, "graft flood").
    pub graft_flood_threshold: Duration,
    /// Every how many heartbeats a mesh with a low median score grafts better peers.
    pub opportunistic_graft_ticks: u64,
    /// How many it grafts then.
    pub opportunistic_graft_peers: usize,
    /// Whether a peer that subscribes while the mesh is below D_low is grafted at once (rust-libp2p) and not at the next
    /// heartbeat.
    pub graft_on_subscribe: bool,
    /// How long the fanout of a topic outlives the last message published to it.
    pub fanout_ttl: Duration,

    // ---- messages ----
    /// Authors and signatures.
    pub authenticity: Authenticity,
    /// How ids are computed, where a topic does not say otherwise.
    pub message_id: MessageIdFn,
    /// Largest payload that is published or accepted, in bytes, where a topic does not say otherwise.
    pub max_message_bytes: usize,
    /// Largest frame that is sent or accepted. Longer ones are ignored.
    pub max_rpc_bytes: usize,
    /// Largest frame of subscriptions and control messages that is sent: longer lists are split. Larger ones are accepted, but
    /// rust-libp2p stops listening to a peer that sends more than 16 KiB of these at once.
    pub max_control_bytes: usize,
    /// Heartbeats that a message is kept for, to answer IWANT.
    pub history_length: usize,
    /// Of these, the heartbeats whose messages are gossiped about.
    pub history_gossip: usize,
    /// How long a message is known as seen.
    pub seen_ttl: Duration,
    /// Most ids known as seen; beyond, the oldest are forgotten.
    pub seen_capacity: usize,
    /// From when that time counts.
    pub seen_strategy: SeenStrategy,
    /// Whether own messages go to all subscribers that are known (above the publish threshold) instead of the mesh.
    pub flood_publish: bool,
    /// Only messages up to so many payload bytes are flooded.
    pub flood_publish_max_bytes: usize,
    /// Whether the application gets [`Event::Message`](crate::Event::Message) for its own messages, as in go-libp2p-pubsub.
    pub deliver_own: bool,
    /// When IDONTWANT is sent, and what is kept of those received (GossipSub 1.2).
    pub idontwant: IDontWantConfig,
    /// When owed copies are taken back.
    pub withdraw: Withdraw,
    /// Checks messages before they are delivered and forwarded, where a topic does not say otherwise. `None` accepts all.
    pub validator: Option<ValidatorHook>,
    /// Most messages whose validation is deferred at a time; what comes beyond is ignored and can come again.
    pub pending_validations_max: usize,
    /// A deferred validation without answer counts as "ignore" after so long.
    pub validation_timeout: Duration,

    // ---- gossip and limits ----
    /// Limits of gossip.
    pub gossip: GossipLimits,
    /// Limits of subscriptions.
    pub subscriptions: SubscriptionLimits,

    // ---- peers ----
    /// Whether PRUNE carries peers to connect to instead.
    pub peer_exchange: bool,
    /// How many: sent in a PRUNE, and dialled of one received.
    pub prune_peers: usize,
    /// Most dials (by peer exchange) under way at a time.
    pub pending_dials_max: usize,
    /// Peers that always get all messages and are never in a mesh. Both sides must name each other.
    pub direct_peers: Vec<PeerIdentity>,
    /// From the start to the first dial of direct peers.
    pub direct_connect_initial_delay: Duration,
    /// Every how many heartbeats direct peers that are not connected are dialled.
    pub direct_connect_ticks: u64,
    /// Peers that never get messages from this node, but whose announcements tell it how far its messages have spread
    /// (the trusted "buddy" of the batch publishing post). Use with
    /// [`FeedbackSource::Observer`](samara_engine::outbox::FeedbackSource::Observer).
    pub observers: Vec<PeerIdentity>,
    /// The other side: peers that get an IDONTWANT for every message at once, whatever its size and whether or not they
    /// are in a mesh.
    pub report_to: Vec<PeerIdentity>,

    // ---- score ----
    /// Parameters of the peer score; `None` turns it off: every score is 0.
    pub peer_score: Option<PeerScoreParams>,
    /// What follows from a score.
    pub thresholds: PeerScoreThresholds,
    /// Score parameters of joined topics that have none of their own; `None` leaves them unscored.
    pub topic_score: Option<TopicScoreParams>,
    /// What holds for single topics.
    pub topics: BTreeMap<Topic, TopicConfig>,

    // ---- sending ----
    /// Queues and who drains them.
    pub sending: SendingConfig,
    /// The order of copies of messages that are published one by one.
    pub schedule_publish: Schedule,
    /// The order of copies of messages that are forwarded.
    pub schedule_forward: Schedule,
    /// Copies of own messages that have not left after so long are not sent any more.
    pub publish_deadline: Option<Duration>,
    /// The same for forwarded messages and answers to IWANT.
    pub forward_deadline: Option<Duration>,
    /// Whether the peers of each message are handed to the schedule in random order (in go-libp2p-pubsub the order of a
    /// map: random) or by number.
    pub shuffle_recipients: bool,

    // ---- what is told ----
    /// Whether every duplicate is an [`Event::Duplicate`](crate::Event::Duplicate).
    pub report_duplicates: bool,
    /// Whether every topic that a peer joins or leaves is an event of its own.
    pub report_subscriptions: bool,
    /// Whether changes of meshes and the like are an [`Event::Trace`](crate::Event::Trace).
    pub trace: bool,
}

impl Config {
    /// The parameters of a topic's mesh.
    pub fn mesh_of(&self, topic: &Topic) -> MeshParams {
        self.topics.get(topic).and_then(|own| own.mesh).unwrap_or(self.mesh)
    }

    /// How long a topic's messages may be.
    pub(crate) fn max_message_bytes_of(&self, topic: &Topic) -> usize {
        self.topics.get(topic).and_then(|own| own.max_message_bytes).unwrap_or(self.max_message_bytes)
    }

    /// How a topic's ids are computed.
    pub fn message_id_of(&self, topic: &Topic) -> &MessageIdFn {
        self.topics.get(topic).and_then(|own| own.message_id.as_ref()).unwrap_or(&self.message_id)
    }

    /// Who checks a topic's messages.
    pub(crate) fn validator_of(&self, topic: &Topic) -> Option<&ValidatorHook> {
        self.topics.get(topic).and_then(|own| own.validator.as_ref()).or(self.validator.as_ref())
    }

    /// How a topic is scored.
    pub(crate) fn topic_score_of(&self, topic: &Topic) -> Option<&TopicScoreParams> {
        self.topics.get(topic).and_then(|own| own.score.as_ref()).or(self.topic_score.as_ref())
    }
}

/// The size of a mesh and of gossip about it (specification v1.0 "Parameters", v1.1 "Outbound mesh quotas").
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeshParams {
    /// D: the size that is aimed at.
    pub d: usize,
    /// D_low: below, peers are grafted.
    pub d_low: usize,
    /// D_high: at or above, peers are pruned.
    pub d_high: usize,
    /// D_score: so many of the best are kept when pruning.
    pub d_score: usize,
    /// D_out: so many that this node dialled are kept, against sybils that dial in.
    pub d_out: usize,
    /// D_lazy: gossip goes to at least so many peers outside of the mesh.
    pub d_lazy: usize,
    /// ... and to at least this share of them.
    pub gossip_factor: f64,
}

/// Who may join a mesh, and how soon again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MeshRules {
    /// Every GRAFT of a peer is accepted, and nobody waits after a PRUNE (specification v1.0). On sparse graphs nodes with few
    /// links then always find a place; on the internet, attackers do.
    Open,
    /// A mesh at D_high takes only peers that this node has dialled, and both sides of a PRUNE wait (specification v1.1 and
    /// go-libp2p-pubsub).
    #[default]
    Guarded,
}

/// What holds for one topic; what is `None` is as everywhere.
#[derive(Clone, Debug, Default)]
pub struct TopicConfig {
    /// The size of the mesh.
    pub mesh: Option<MeshParams>,
    /// How ids are computed.
    pub message_id: Option<MessageIdFn>,
    /// Largest payload in bytes.
    pub max_message_bytes: Option<usize>,
    /// Who checks messages.
    pub validator: Option<ValidatorHook>,
    /// How peers are scored.
    pub score: Option<TopicScoreParams>,
}

/// Limits of lazy gossip (specification v1.1, "Spam protection measures"). Per peer, and counted anew at each heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GossipLimits {
    /// Most ids in an IHAVE, and most ids asked of a peer.
    pub ihave_ids_max: usize,
    /// Most RPCs with IHAVE that are looked at.
    pub ihave_messages_max: u32,
    /// Most ids in IWANT that are looked at.
    pub iwant_ids_max: usize,
    /// How often one message is sent to one peer in answer to IWANT.
    pub retransmissions_max: u32,
    /// How long a peer has for what it announced and was asked for.
    pub iwant_follow_up: Duration,
    /// Most promises that are followed up at a time.
    pub promises_max: usize,
}

/// IDONTWANT (specification v1.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IDontWantConfig {
    /// Whether it is sent. What peers send is honoured in any case.
    pub send: bool,
    /// Sent for payloads of at least so many bytes.
    pub threshold_bytes: usize,
    /// Whether it is sent for own messages too, before their first copy: peers that are about to get it from others first
    /// will not send it back.
    pub on_publish: bool,
    /// Whether the own messages of a batch share RPCs of as many ids as allowed; go-libp2p-pubsub sends one for each.
    pub aggregate_own: bool,
    /// Most ids of one RPC that are looked at, and most ids that are sent in one.
    pub ids_per_rpc_max: usize,
    /// Most RPCs with IDONTWANT that are looked at, per peer and heartbeat.
    pub rpcs_per_heartbeat_max: u32,
    /// How many heartbeats an id is remembered.
    pub ttl_heartbeats: u64,
    /// Whether an id is also remembered until the message arrives, for at most `seen_ttl`: a slow
    /// publication does not return to its publisher.
    pub until_arrival: bool,
    /// Most ids that are remembered per peer.
    pub ids_per_peer_max: u32,
}

/// When copies that are owed, but have not left, are taken back. Nothing of it is in the specification; go-libp2p-pubsub does
/// none of it, rust-libp2p the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Withdraw {
    /// The peer said IDONTWANT.
    pub on_idontwant: bool,
    /// The peer sent a copy itself.
    pub on_copy: bool,
    /// The peer announced the message by IHAVE.
    pub on_ihave: bool,
    /// The peer asked for the message by IWANT: the copy it is owed already keeps its place, and is not doubled.
    pub on_iwant: bool,
}

impl Withdraw {
    /// A copy that is owed leaves.
    pub const NEVER: Self = Self { on_idontwant: false, on_copy: false, on_ihave: false, on_iwant: false };
    /// Whatever the peer already has is not sent.
    pub const ALWAYS: Self = Self { on_idontwant: true, on_copy: true, on_ihave: true, on_iwant: true };
}

/// Limits of what peers subscribe to.
#[derive(Clone, Debug)]
pub struct SubscriptionLimits {
    /// An RPC with more changes is not looked at.
    pub per_rpc_max: usize,
    /// Most topics of one peer that are remembered.
    pub per_peer_max: usize,
    /// Which topics are remembered.
    pub filter: SubscriptionFilter,
}
