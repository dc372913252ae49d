//! Sets of parameters in use.

use std::collections::BTreeMap;
use std::time::Duration;

use samara_engine::outbox::{Dispatch, Schedule};

use super::{
    Answers, Authenticity, Config, GossipLimits, HeartbeatOrder, IDontWantConfig, LaneCapacity, LaneLayout,
    MeshParams, MeshRules, SendingConfig, SubscriptionFilter, SubscriptionLimits, Version, Withdraw,
};
use crate::cache::SeenStrategy;
use crate::message_id::MessageIdFn;
use crate::score::{PeerScoreParams, PeerScoreThresholds};

/// 1 MiB, the longest RPC of go-libp2p-pubsub.
const MIB: usize = 1 << 20;
/// `max_control_message_size` of rust-libp2p's gossipsub (0.50, `protocol.rs`). Beyond it,
/// rust-libp2p stops reading from the peer.
const RUST_LIBP2P_MAX_CONTROL: usize = 16_384;
/// `MAX_PAYLOAD_SIZE` of Ethereum's consensus-specs.
const ETHEREUM_MAX_PAYLOAD: usize = 10 * MIB;
/// Maximum compressed length of such a payload, including its frame (consensus-specs
/// `max_message_size`).
const ETHEREUM_MAX_RPC: usize = 32 + ETHEREUM_MAX_PAYLOAD + ETHEREUM_MAX_PAYLOAD / 6 + 1024;

/// Sets of parameters in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "config", serde(rename_all = "kebab-case"))]
pub enum Preset {
    /// The recommendations of the specifications.
    Spec,
    /// Ethereum's consensus layer.
    #[default]
    Ethereum,
    /// The defaults of go-libp2p-pubsub.
    GoLibp2pPubsub,
    /// go-libp2p-pubsub 0.1.1 of August 2019; use with `version = "1.0"`.
    #[cfg_attr(feature = "config", serde(rename = "go-libp2p-pubsub-0.1"))]
    GoLibp2pPubsub01,
    /// go-libp2p-pubsub 0.2.4 of December 2019; use with `version = "1.0"`.
    #[cfg_attr(feature = "config", serde(rename = "go-libp2p-pubsub-0.2"))]
    GoLibp2pPubsub02,
}

impl Preset {
    /// Returns the configuration of this preset.
    pub fn config(self) -> Config {
        match self {
            Self::Spec => Config::spec(),
            Self::Ethereum => Config::ethereum(),
            Self::GoLibp2pPubsub => Config::go_libp2p_pubsub(),
            Self::GoLibp2pPubsub01 => Config::go_libp2p_pubsub_0_1(),
            Self::GoLibp2pPubsub02 => Config::go_libp2p_pubsub_0_2(),
        }
    }
}

impl Config {
    /// The values that the specifications v1.0 to v1.2 recommend, with all savings of traffic
    /// turned on. Where the specifications give no values for scoring, the defaults of rust-libp2p
    /// apply. Messages carry their author but no signature, since cryptography comes from outside:
    /// see [`Authenticity::strict`] for real networks.
    ///
    /// Peers have a score, but topics do not: [`Config::topic_score`] is `None`, and a rejected message
    /// costs its sender nothing. `topic_score: Some(TopicScoreParams::default())` scores all topics with
    /// rust-libp2p's values.
    ///
    /// # Values
    ///
    #[doc = include_str!("spec.md")]
    pub fn spec() -> Self {
        Self {
            version: Version::default(),
            mesh: MeshParams {
                d: 6,
                d_low: 4,
                d_high: 12,
                d_score: 4,
                d_out: 2,
                d_lazy: 6,
                gossip_factor: 0.25,
            },
            mesh_rules: MeshRules::Guarded,
            gossip_to_pruned: true,
            heartbeat_interval: Duration::from_secs(1),
            heartbeat_initial_delay: Duration::from_millis(100),
            heartbeat_spread: None,
            heartbeat_order: HeartbeatOrder::Random,
            prune_backoff: Duration::from_secs(60),
            unsubscribe_backoff: Duration::from_secs(10),
            backoff_slack: Duration::from_secs(2),
            remote_backoff_max: Duration::from_secs(3600),
            graft_flood_threshold: Duration::from_secs(10),
            opportunistic_graft_ticks: 60,
            opportunistic_graft_peers: 2,
            graft_on_subscribe: false,
            fanout_ttl: Duration::from_secs(60),
            authenticity: Authenticity::unsigned(),
            message_id: MessageIdFn::FromSeqno,
            max_message_bytes: MIB,
            max_rpc_bytes: MIB + 1024,
            max_control_bytes: RUST_LIBP2P_MAX_CONTROL,
            history_length: 5,
            history_gossip: 3,
            history_bytes_max: 256 * MIB,
            seen_ttl: Duration::from_secs(120),
            seen_capacity: 1 << 20,
            seen_bytes_max: 256 * MIB,
            seen_strategy: SeenStrategy::FirstSeen,
            flood_publish: true,
            flood_publish_max_bytes: usize::MAX,
            deliver_own: true,
            idontwant: IDontWantConfig {
                send: true,
                threshold_bytes: 1024,
                on_publish: true,
                aggregate_own: true,
                ids_per_rpc_max: 10,
                rpcs_per_heartbeat_max: 1000,
                ttl_heartbeats: 3,
                until_arrival: false,
                ids_per_peer_max: 10_000,
                bytes_max: 64 * MIB,
            },
            withdraw: Withdraw::ALWAYS,
            transform: None,
            validator: None,
            pending_validations_max: 8192,
            pending_validation_bytes_max: 256 * MIB,
            validation_timeout: Duration::from_secs(120),
            partial: None,
            spread: None,
            gossip: GossipLimits {
                ihave_ids_max: 5000,
                ihave_messages_max: 10,
                iwant_ids_max: 15_000,
                retransmissions_max: 3,
                iwant_follow_up: Duration::from_secs(3),
                promises_max: 1 << 16,
            },
            gossip_waits: false,
            gossip_draws_from_all: false,
            answers: Answers::FramePerMessage,
            subscriptions: SubscriptionLimits {
                per_rpc_max: 4096,
                per_peer_max: 4096,
                // Topics of Ethereum have names of 46 bytes.
                bytes_per_peer_max: 256 << 10,
                bytes_max: 64 * MIB,
                filter: SubscriptionFilter::All,
            },
            peer_exchange: true,
            prune_peers: 16,
            pending_dials_max: 128,
            direct_peers: Vec::new(),
            direct_connect_initial_delay: Duration::from_secs(1),
            direct_connect_ticks: 300,
            observers: Vec::new(),
            report_to: Vec::new(),
            peer_score: Some(PeerScoreParams::default()),
            thresholds: PeerScoreThresholds::default(),
            topic_score: None,
            topics: BTreeMap::new(),
            sending: SendingConfig {
                dispatch: Dispatch::PerLink,
                layout: LaneLayout::Split,
                control: LaneCapacity::copies(20_000),
                publish: LaneCapacity::copies(5000),
                forward: LaneCapacity::copies(5000),
                answer: LaneCapacity::copies(5000),
                patience: Duration::from_secs(4),
            },
            schedule_publish: Schedule::Sequential,
            schedule_forward: Schedule::Sequential,
            publish_deadline: None,
            forward_deadline: None,
            shuffle_recipients: true,
            report_duplicates: false,
            report_subscriptions: false,
            trace: false,
        }
    }

    /// The values of Ethereum's consensus layer (consensus-specs, phase0 p2p-interface), with the
    /// limits of go-libp2p-pubsub where it gives none. Scoring is off: its parameters depend on the
    /// topics, and every client has its own.
    ///
    /// The message id function expects decompressed payloads. Where payloads travel compressed, set
    /// [`MessageIdFn::ethereum`] with a decompressor. All nodes of a simulation should share clones
    /// of one configuration: each id is then computed only once.
    pub fn ethereum() -> Self {
        let spec = Self::spec();
        Self {
            gossip_to_pruned: false,
            mesh: MeshParams { d: 8, d_low: 6, ..spec.mesh },
            heartbeat_interval: Duration::from_millis(700),
            history_length: 6,
            seen_ttl: Duration::from_secs(768),
            authenticity: Authenticity::anonymous(),
            message_id: MessageIdFn::ethereum(true, None),
            max_message_bytes: ETHEREUM_MAX_PAYLOAD,
            max_rpc_bytes: ETHEREUM_MAX_RPC,
            flood_publish: false,
            peer_exchange: false,
            peer_score: None,
            ..spec
        }
    }

    /// The defaults of go-libp2p-pubsub 0.16: no flood publishing, no scoring, no peer exchange,
    /// one queue of 32 frames per peer that drops what overflows, one frame for an answer to IWANT,
    /// and no withdrawal of queued copies. Messages carry their author. To talk to nodes that sign (its default), set
    /// [`Authenticity::strict`].
    pub fn go_libp2p_pubsub() -> Self {
        let (spec, queue) = (Self::spec(), LaneCapacity::copies(32));
        Self {
            gossip_to_pruned: false,
            mesh: MeshParams { d_low: 5, ..spec.mesh },
            heartbeat_spread: Some(Duration::ZERO),
            flood_publish: false,
            idontwant: IDontWantConfig { aggregate_own: false, ..spec.idontwant },
            withdraw: Withdraw::NEVER,
            answers: Answers::OneFrame { bytes_max: spec.max_rpc_bytes },
            peer_exchange: false,
            peer_score: None,
            // Without scoring, all thresholds of go-libp2p-pubsub are 0: it accepts recommendations
            // from any peer.
            thresholds: PeerScoreThresholds { accept_px: 0.0, ..spec.thresholds },
            sending: SendingConfig {
                layout: LaneLayout::Shared,
                control: queue,
                publish: queue,
                forward: queue,
                answer: queue,
                ..spec.sending
            },
            ..spec
        }
    }
}

impl Config {
    /// go-libp2p-pubsub 0.2.4 of December 2019 (`gossipsub.go`, `comm.go`): version 1.0 of the
    /// protocol with every GRAFT accepted and no backoff, no limits of gossip, one RPC for an answer
    /// to IWANT however long it is, and one queue of 32 RPCs for each peer that drops what overflows.
    ///
    /// Two things differ. An IHAVE that waits goes ahead of the next RPC to its peer in a frame of
    /// its own. There is no queue of 32 messages before validation.
    pub fn go_libp2p_pubsub_0_2() -> Self {
        let go = Self::go_libp2p_pubsub();
        Self {
            mesh: MeshParams {
                d_low: 4,
                // It prunes a mesh of more than 12.
                d_high: 13,
                d_score: 0,
                d_out: 0,
                gossip_factor: 0.0,
                ..go.mesh
            },
            mesh_rules: MeshRules::Open,
            heartbeat_spread: None,
            idontwant: IDontWantConfig { send: false, on_publish: false, ..go.idontwant },
            gossip: GossipLimits {
                ihave_ids_max: usize::MAX,
                ihave_messages_max: u32::MAX,
                iwant_ids_max: usize::MAX,
                retransmissions_max: u32::MAX,
                ..go.gossip
            },
            gossip_waits: true,
            answers: Answers::OneFrame { bytes_max: usize::MAX },
            // The reader's limit; there is none for control messages.
            max_message_bytes: MIB - 1024,
            max_rpc_bytes: MIB,
            max_control_bytes: MIB,
            ..go
        }
    }

    /// go-libp2p-pubsub 0.1.1 of August 2019: as [`go_libp2p_pubsub_0_2`](Self::go_libp2p_pubsub_0_2),
    /// but it draws the receivers of gossip from all subscribers.
    pub fn go_libp2p_pubsub_0_1() -> Self {
        Self { gossip_draws_from_all: true, ..Self::go_libp2p_pubsub_0_2() }
    }
}

impl Default for Config {
    /// Returns [`Config::spec`].
    fn default() -> Self {
        Self::spec()
    }
}
