//! The configuration of the engine that corresponds to one of rust-libp2p.

use std::sync::Arc;
use std::time::Duration;

use libp2p_identity::PeerId;
use samara_engine::PeerIdentity;
use samara_gossipsub::config::{
    Authenticity, GossipLimits, Hook, IDontWantConfig, LaneCapacity, MeshParams, SendingConfig,
    SubscriptionFilter, TopicConfig, ValidatorHook,
};
use samara_gossipsub::message_id::MessageIdFn;
use samara_gossipsub::rpc::{MessageId, Topic};
use samara_gossipsub::score::{PeerScoreParams, PeerScoreThresholds, TopicScoreParams};
use samara_gossipsub::signature::{SignaturePolicy, Verifier};

use crate::clock::SCALE;
use crate::config::Config;
use crate::{TopicHash, frames, score_params};

/// All settings that a test makes before the first event of its node.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) config: Config,
    pub(crate) scores: Option<(score_params::PeerScoreParams, score_params::PeerScoreThresholds)>,
    pub(crate) author: Author,
    pub(crate) filter: SubscriptionFilter,
    /// The length of the shortest queue, if it is not the default.
    pub(crate) queue_len: Option<usize>,
}

/// The topics to which tests give settings of their own. rust-libp2p's configuration does not list them.
const TOPICS: [&str; 4] = ["test", "topic1", "topic2", "topic3"];

/// The author of a node's own messages.
#[derive(Clone, Copy)]
pub(crate) enum Author {
    Own(PeerId),
    Random,
    Absent,
}

/// The signature of a message that rust-libp2p's decoder has found invalid.
pub(crate) const INVALID: &[u8] = b"invalid";

/// Rejects the signature [`INVALID`].
struct Judge;

impl Verifier for Judge {
    fn verify(&self, _: &[u8], _: Option<&[u8]>, _: &[u8], signature: &[u8]) -> bool {
        signature != INVALID
    }
}

impl Settings {
    pub(crate) fn identity(&self) -> PeerIdentity {
        match self.author {
            Author::Own(peer) => identity_of(&peer),
            Author::Random | Author::Absent => identity_of(&PeerId::random()),
        }
    }

    pub(crate) fn engine(&self) -> samara_gossipsub::Config {
        let theirs = &self.config;
        let spec = samara_gossipsub::Config::spec();
        let capacity = self.queue_len.unwrap_or(theirs.connection_handler_queue_len());
        let capacity = LaneCapacity::copies(capacity);
        let naming = theirs.clone();
        let message_id =
            move |message: &_| MessageId::new(&naming.message_id(&frames::message_of(message)).0);
        samara_gossipsub::Config {
            mesh: self.mesh(None),
            gossip_to_pruned: false,
            heartbeat_interval: theirs.heartbeat_interval() * SCALE,
            prune_backoff: theirs.prune_backoff() * SCALE,
            unsubscribe_backoff: theirs.unsubscribe_backoff() * SCALE,
            backoff_slack: theirs.heartbeat_interval() * theirs.backoff_slack() * SCALE,
            remote_backoff_max: spec.remote_backoff_max * SCALE,
            graft_flood_threshold: theirs.graft_flood_threshold() * SCALE,
            opportunistic_graft_ticks: theirs.opportunistic_graft_ticks(),
            opportunistic_graft_peers: theirs.opportunistic_graft_peers(),
            graft_on_subscribe: true,
            fanout_ttl: theirs.fanout_ttl() * SCALE,
            authenticity: self.authenticity(),
            message_id: MessageIdFn::custom(message_id),
            max_message_bytes: theirs.max_transmit_size(),
            history_length: theirs.history_length(),
            history_gossip: theirs.history_gossip(),
            seen_ttl: theirs.duplicate_cache_time() * SCALE,
            flood_publish: theirs.flood_publish(),
            deliver_own: false,
            idontwant: IDontWantConfig {
                threshold_bytes: theirs.idontwant_message_size_threshold(),
                on_publish: theirs.idontwant_on_publish(),
                ..spec.idontwant.clone()
            },
            validator: theirs.validate_messages().then(ValidatorHook::deferred),
            gossip: GossipLimits {
                ihave_ids_max: theirs.max_control_messages_sent(),
                ihave_messages_max: theirs.max_ihave_messages_heartbeat() as u32,
                retransmissions_max: theirs.gossip_retransimission(),
                iwant_follow_up: theirs.iwant_followup_time() * SCALE,
                ..spec.gossip.clone()
            },
            subscriptions: samara_gossipsub::config::SubscriptionLimits {
                filter: self.filter.clone(),
                ..spec.subscriptions.clone()
            },
            peer_exchange: theirs.do_px(),
            prune_peers: theirs.prune_peers(),
            direct_connect_ticks: theirs.check_explicit_peers_ticks(),
            peer_score: self.scores.as_ref().map(|(params, _)| peer_score(params)),
            thresholds: self.thresholds(),
            topics: TOPICS
                .iter()
                .map(|name| (Topic::new(name), self.topic(&TopicHash::from_raw(*name))))
                .collect(),
            sending: SendingConfig {
                publish: capacity,
                forward: capacity,
                answer: capacity,
                ..spec.sending.clone()
            },
            report_subscriptions: true,
            ..spec
        }
    }

    /// Messages arrive after rust-libp2p's decoder has checked them: without signatures.
    fn authenticity(&self) -> Authenticity {
        let author = match self.author {
            Author::Own(_) => samara_gossipsub::config::Author::Own,
            Author::Random => samara_gossipsub::config::Author::Random,
            Author::Absent => samara_gossipsub::config::Author::Absent,
        };
        let verifier = Some(Hook::<dyn Verifier>(Arc::new(Judge)));
        Authenticity { policy: SignaturePolicy::LaxNoSign, author, signer: None, verifier }
    }

    fn mesh(&self, topic: Option<&TopicHash>) -> MeshParams {
        let theirs = &self.config;
        let at = |default: usize, of: fn(&Config, &TopicHash) -> usize| {
            topic.map_or(default, |topic| of(theirs, topic))
        };
        let d = at(theirs.mesh_n(), Config::mesh_n_for_topic);
        MeshParams {
            d,
            d_low: at(theirs.mesh_n_low(), Config::mesh_n_low_for_topic),
            d_high: at(theirs.mesh_n_high(), Config::mesh_n_high_for_topic),
            // It has one number for all topics, also for those with smaller meshes.
            d_score: theirs.retain_scores().min(d),
            d_out: at(theirs.mesh_outbound_min(), Config::mesh_outbound_min_for_topic),
            d_lazy: theirs.gossip_lazy(),
            gossip_factor: theirs.gossip_factor(),
        }
    }

    fn topic(&self, topic: &TopicHash) -> TopicConfig {
        let score = self.scores.as_ref().and_then(|(params, _)| params.topics.get(topic));
        TopicConfig {
            mesh: Some(self.mesh(Some(topic))),
            max_message_bytes: Some(self.config.max_transmit_size_for_topic(topic)),
            score: score.map(topic_score),
            ..TopicConfig::default()
        }
    }

    fn thresholds(&self) -> PeerScoreThresholds {
        match &self.scores {
            // Without scores, rust-libp2p accepts the recommendations of everyone.
            None => PeerScoreThresholds { accept_px: 0.0, ..PeerScoreThresholds::default() },
            Some((_, theirs)) => PeerScoreThresholds {
                gossip: theirs.gossip_threshold,
                publish: theirs.publish_threshold,
                graylist: theirs.graylist_threshold,
                accept_px: theirs.accept_px_threshold,
                opportunistic_graft: theirs.opportunistic_graft_threshold,
            },
        }
    }
}

pub(crate) fn identity_of(peer: &PeerId) -> PeerIdentity {
    PeerIdentity::new(&peer.to_bytes())
}

fn peer_score(theirs: &score_params::PeerScoreParams) -> PeerScoreParams {
    PeerScoreParams {
        topic_score_cap: theirs.topic_score_cap,
        app_specific_weight: theirs.app_specific_weight,
        ip_colocation_weight: theirs.ip_colocation_factor_weight,
        ip_colocation_threshold: theirs.ip_colocation_factor_threshold,
        ip_colocation_whitelist: theirs.ip_colocation_factor_whitelist.iter().copied().collect(),
        behaviour_penalty_weight: theirs.behaviour_penalty_weight,
        behaviour_penalty_threshold: theirs.behaviour_penalty_threshold,
        behaviour_penalty_decay: theirs.behaviour_penalty_decay,
        slow_peer_weight: theirs.slow_peer_weight,
        slow_peer_threshold: theirs.slow_peer_threshold,
        slow_peer_decay: theirs.slow_peer_decay,
        decay_interval: theirs.decay_interval * SCALE,
        decay_to_zero: theirs.decay_to_zero,
        retain_score: theirs.retain_score * SCALE,
        record_ttl: Duration::from_secs(120) * SCALE,
        ..PeerScoreParams::default()
    }
}

fn topic_score(theirs: &score_params::TopicScoreParams) -> TopicScoreParams {
    TopicScoreParams {
        topic_weight: theirs.topic_weight,
        time_in_mesh_weight: theirs.time_in_mesh_weight,
        time_in_mesh_quantum: theirs.time_in_mesh_quantum * SCALE,
        time_in_mesh_cap: theirs.time_in_mesh_cap,
        first_message_deliveries_weight: theirs.first_message_deliveries_weight,
        first_message_deliveries_decay: theirs.first_message_deliveries_decay,
        first_message_deliveries_cap: theirs.first_message_deliveries_cap,
        mesh_message_deliveries_weight: theirs.mesh_message_deliveries_weight,
        mesh_message_deliveries_decay: theirs.mesh_message_deliveries_decay,
        mesh_message_deliveries_cap: theirs.mesh_message_deliveries_cap,
        mesh_message_deliveries_threshold: theirs.mesh_message_deliveries_threshold,
        mesh_message_deliveries_window: theirs.mesh_message_deliveries_window * SCALE,
        mesh_message_deliveries_activation: theirs.mesh_message_deliveries_activation * SCALE,
        mesh_failure_penalty_weight: theirs.mesh_failure_penalty_weight,
        mesh_failure_penalty_decay: theirs.mesh_failure_penalty_decay,
        invalid_message_deliveries_weight: theirs.invalid_message_deliveries_weight,
        invalid_message_deliveries_decay: theirs.invalid_message_deliveries_decay,
    }
}
