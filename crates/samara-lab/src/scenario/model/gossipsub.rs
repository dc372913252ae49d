//! `[gossipsub]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schedule::Schedule;
use crate::units::{Share, Size, Span};

/// Parameters of GossipSub. What is not said is as in the preset; values of the presets are given as
/// (spec / ethereum / go-libp2p-pubsub).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GossipSub {
    /// Where the parameters below come from.
    pub preset: Preset,

    /// D: the number of mesh peers that is aimed at (6 / 8 / 6).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub degree: Option<u32>,
    /// D_low: below, peers are grafted (4 / 6 / 5).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degree_low: Option<u32>,
    /// D_high: above, peers are pruned (12).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degree_high: Option<u32>,
    /// D_lazy: gossip goes to at least so many other peers (6).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degree_lazy: Option<u32>,
    /// D_score: so many of the best peers are kept when pruning (4).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degree_score: Option<u32>,
    /// D_out: so many peers that this node dialled are kept when pruning (2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degree_out: Option<u32>,
    /// From one heartbeat to the next (1 s / 700 ms / 1 s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<Span>,
    /// From the start of a node to its first heartbeat (100 ms).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat_initial_delay: Option<Span>,
    /// Whether up to one interval, drawn at random, is added to that (yes / yes / no).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat_random_phase: Option<bool>,
    /// How long both sides of a PRUNE do not graft each other again (60 s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prune_backoff: Option<Span>,
    /// The same after leaving a topic (10 s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsubscribe_backoff: Option<Span>,
    /// So much longer a node waits itself (2 s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_slack: Option<Span>,
    /// A GRAFT this soon after a PRUNE is punished twice (10 s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graft_flood_threshold: Option<Span>,
    /// Every how many heartbeats opportunistic grafting happens (60).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub opportunistic_graft_ticks: Option<u32>,
    /// How many peers it grafts (2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opportunistic_graft_peers: Option<u32>,
    /// Whether a peer that subscribes while the mesh is too small is grafted at once (no).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graft_on_subscribe: Option<bool>,
    /// How long the fanout of a topic outlives the last message (60 s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fanout_ttl: Option<Span>,

    /// Heartbeats that a message is kept for, to answer IWANT (5 / 6 / 5).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub history_length: Option<u32>,
    /// Of these, the heartbeats whose messages are gossiped about (3).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_gossip: Option<u32>,
    /// Gossip goes to at least this share of the other peers (25 %).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gossip_factor: Option<Share>,
    /// Most ids in an IHAVE, and most ids asked of a peer in a heartbeat (5000).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub ihave_ids_max: Option<u32>,
    /// Most RPCs with IHAVE that are looked at, per peer and heartbeat (10).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ihave_messages_max: Option<u32>,
    /// Most ids in IWANT that are looked at, per peer and heartbeat (15000).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iwant_ids_max: Option<u32>,
    /// How long a peer has for what it announced and was asked for (3 s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iwant_follow_up: Option<Span>,
    /// How often one message is sent to one peer in answer to IWANT (3).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmissions_max: Option<u32>,
    /// How long a message is known as seen (120 s / 768 s / 120 s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen_ttl: Option<Span>,
    /// From when that time counts (first-seen).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen_strategy: Option<SeenStrategy>,
    /// Whether own messages go to all known subscribers instead of the mesh (yes / no / no).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flood_publish: Option<bool>,
    /// Only messages up to this size are flooded (all).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flood_publish_max: Option<Size>,
    /// Largest message (1 MiB / 10 MiB / 1 MiB).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_message_size: Option<Size>,

    /// Whether IDONTWANT is sent (yes).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idontwant: Option<bool>,
    /// From which message size (1024 B).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idontwant_threshold: Option<Size>,
    /// Whether it is sent for own messages too (yes).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idontwant_on_publish: Option<bool>,
    /// Most ids in one IDONTWANT (10).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub idontwant_ids_per_rpc: Option<u32>,
    /// How many heartbeats an IDONTWANT is remembered (3).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub idontwant_ttl: Option<u32>,
    /// Whether an owed copy is taken back when the peer says IDONTWANT (yes / yes / no).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withdraw_on_idontwant: Option<bool>,
    /// The same when the peer sends a copy itself (yes / yes / no).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withdraw_on_copy: Option<bool>,
    /// The same when the peer announces the message by IHAVE (yes / yes / no).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withdraw_on_ihave: Option<bool>,
    /// Whether a copy that is owed already is moved, not doubled, when the peer asks for it by IWANT (yes / yes / no).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withdraw_on_iwant: Option<bool>,

    /// Whether PRUNE carries other peers to connect to (yes / no / no).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_exchange: Option<bool>,
    /// How many (16).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prune_peers: Option<u32>,
    /// Whether peers are scored (yes / no / no).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<bool>,

    /// The order in which the copies of published messages leave. "sequential" publishes in a loop, everything else in a
    /// batch (sequential).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publish: Option<Schedule>,
    /// The order in which the copies of forwarded messages leave (sequential).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward: Option<Schedule>,
    /// Who chooses the next copy (per-link).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatch: Option<Dispatch>,
    /// Whether a message's peers are handed to the schedule in random order (yes).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shuffle_recipients: Option<bool>,
    /// Which frames share a queue (split / split / shared).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lanes: Option<LaneLayout>,
    /// The most frames that wait for a peer in each data queue (5000 / 5000 / 32).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub queue_capacity: Option<u32>,
    /// The most bytes that wait for a peer in each data queue (no limit).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_size: Option<Size>,
    /// The most control frames that wait for a peer (20000 / 20000 / 32).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub control_capacity: Option<u32>,
    /// What happens to frames beyond (drop-newest).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overflow: Option<Overflow>,
    /// How long schedules that prefer first copies can hold any copy back (4 s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patience: Option<Span>,
    /// Copies of own messages that have not left after so long are not sent any more (never).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publish_deadline: Option<Span>,
    /// The same for forwarded messages (never).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward_deadline: Option<Span>,
}

/// A set of parameters that is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Preset {
    /// The values that the specifications v1.0 to v1.2 recommend.
    #[default]
    #[serde(rename = "spec")]
    Spec,
    /// Ethereum's consensus layer.
    #[serde(rename = "ethereum")]
    Ethereum,
    /// The defaults of go-libp2p-pubsub: a queue per peer with 32 places, nothing taken back.
    #[serde(rename = "go-libp2p-pubsub")]
    GoLibp2pPubsub,
}

/// From when a message's time as seen counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SeenStrategy {
    /// From its first copy.
    FirstSeen,
    /// From its last copy.
    LastSeen,
}

/// Who chooses the next copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Dispatch {
    /// Each link drains a queue of its own; links share the uplink as the interface pleases.
    PerLink,
    /// One order over all links of a node.
    Node,
}

/// Which frames share a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LaneLayout {
    /// Control first, then own and forwarded messages in turn, then answers to IWANT.
    Split,
    /// IDONTWANT first, then everything else in one queue (go-libp2p-pubsub).
    Shared,
}

/// What happens to a frame that a full queue has no place for. All are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Overflow {
    /// It is not taken, and whoever owed it is told.
    Block,
    /// It is dropped.
    DropNewest,
    /// Those that have waited longest are dropped instead.
    DropOldest,
}
