//! The weights of the score (specification v1.1, "Overview of score parameters"), and its
//! thresholds.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use thiserror::Error;

/// Parameters that apply to a peer as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerScoreParams {
    /// Maximum that all topics together can add; 0 for no cap.
    pub topic_score_cap: f64,
    /// P5: weight of the score that the application sets.
    pub app_specific_weight: f64,
    /// P6: weight (<= 0) of the squared surplus of peers on one address.
    pub ip_colocation_weight: f64,
    /// P6: number of peers on one address that are no surplus.
    pub ip_colocation_threshold: f64,
    /// P6: addresses that any number of peers may share.
    pub ip_colocation_whitelist: BTreeSet<IpAddr>,
    /// P7: weight (<= 0) of the squared behaviour penalty above its threshold.
    pub behaviour_penalty_weight: f64,
    /// P7: penalty without effect on the score.
    pub behaviour_penalty_threshold: f64,
    /// P7: factor by which the penalty decays in an interval.
    pub behaviour_penalty_decay: f64,
    /// Weight (<= 0) of messages above the threshold that could not be sent because the peer is
    /// slow (rust-libp2p; 0 turns it off).
    pub slow_peer_weight: f64,
    /// Number of such messages without effect on the score.
    pub slow_peer_threshold: f64,
    /// Factor by which their number decays in an interval.
    pub slow_peer_decay: f64,
    /// Time between two decays of the counters.
    pub decay_interval: Duration,
    /// A counter below this value becomes 0.
    pub decay_to_zero: f64,
    /// Time for which the score of a departed peer is kept, if it is not positive.
    pub retain_score: Duration,
    /// Time for which the delivery of a message is tracked. It should equal the time to live of the
    /// seen cache.
    pub record_ttl: Duration,
    /// Maximum number of messages whose delivery is tracked at a time. Beyond it, the oldest are
    /// forgotten.
    pub record_capacity: usize,
    /// Maximum number of peers whose copies of one message are tracked.
    pub record_peers_max: usize,
}

impl Default for PeerScoreParams {
    /// Returns the defaults of rust-libp2p 0.50 (go-libp2p-pubsub has none).
    fn default() -> Self {
        Self {
            topic_score_cap: 3600.0,
            app_specific_weight: 10.0,
            ip_colocation_weight: -5.0,
            ip_colocation_threshold: 10.0,
            ip_colocation_whitelist: BTreeSet::new(),
            behaviour_penalty_weight: -10.0,
            behaviour_penalty_threshold: 0.0,
            behaviour_penalty_decay: 0.2,
            slow_peer_weight: -0.2,
            slow_peer_threshold: 0.0,
            slow_peer_decay: 0.2,
            decay_interval: Duration::from_secs(1),
            decay_to_zero: 0.01,
            retain_score: Duration::from_secs(3600),
            record_ttl: Duration::from_secs(120),
            record_capacity: 1 << 16,
            record_peers_max: 1 << 10,
        }
    }
}

impl PeerScoreParams {
    /// Returns parameters without any weight, as a base for setting weights one by one.
    pub fn neutral() -> Self {
        Self {
            topic_score_cap: 0.0,
            app_specific_weight: 0.0,
            ip_colocation_weight: 0.0,
            behaviour_penalty_weight: 0.0,
            slow_peer_weight: 0.0,
            ..Self::default()
        }
    }

    /// Checks the rules of the specification, including "Parameter validation" of
    /// go-libp2p-pubsub's `score_params.go`.
    pub fn validate(&self) -> Result<(), ParameterError> {
        at_least_0("topic_score_cap", self.topic_score_cap)?;
        check(true, "app_specific_weight", self.app_specific_weight, "finite")?;
        penalty("ip_colocation_weight", self.ip_colocation_weight)?;
        let threshold = self.ip_colocation_threshold;
        let rule = ">= 1 if the weight is not 0";
        let off = self.ip_colocation_weight == 0.0;
        check(off || threshold >= 1.0, "ip_colocation_threshold", threshold, rule)?;
        penalty("behaviour_penalty_weight", self.behaviour_penalty_weight)?;
        at_least_0("behaviour_penalty_threshold", self.behaviour_penalty_threshold)?;
        let weight = self.behaviour_penalty_weight;
        fraction("behaviour_penalty_decay", self.behaviour_penalty_decay, weight)?;
        penalty("slow_peer_weight", self.slow_peer_weight)?;
        at_least_0("slow_peer_threshold", self.slow_peer_threshold)?;
        fraction("slow_peer_decay", self.slow_peer_decay, self.slow_peer_weight)?;
        let interval = self.decay_interval.as_secs_f64();
        check(interval >= 1.0, "decay_interval", interval, "at least 1 s")?;
        fraction("decay_to_zero", self.decay_to_zero, 1.0)?;
        let capacity = self.record_capacity as f64;
        check(capacity >= 1.0, "record_capacity", capacity, "at least 1")
    }
}

/// Parameters of one topic. All counters are per peer.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicScoreParams {
    /// Weight of the topic relative to other topics.
    pub topic_weight: f64,
    /// P1: weight (>= 0) of the time in the mesh, in quanta.
    pub time_in_mesh_weight: f64,
    /// P1: duration of a quantum.
    pub time_in_mesh_quantum: Duration,
    /// P1: maximum number of quanta that count.
    pub time_in_mesh_cap: f64,
    /// P2: weight (>= 0) of messages that the peer was first to deliver.
    pub first_message_deliveries_weight: f64,
    /// P2: factor by which the counter decays in an interval.
    pub first_message_deliveries_decay: f64,
    /// P2: maximum of the counter.
    pub first_message_deliveries_cap: f64,
    /// P3: weight (<= 0) of the squared deficit of mesh deliveries.
    pub mesh_message_deliveries_weight: f64,
    /// P3: factor by which the counter decays in an interval.
    pub mesh_message_deliveries_decay: f64,
    /// P3: maximum of the counter.
    pub mesh_message_deliveries_cap: f64,
    /// P3: number of deliveries expected from a mesh member.
    pub mesh_message_deliveries_threshold: f64,
    /// P3: time after validation within which a copy counts as near-first.
    pub mesh_message_deliveries_window: Duration,
    /// P3: time in the mesh after which deliveries are expected.
    pub mesh_message_deliveries_activation: Duration,
    /// P3b: weight (<= 0) of squared deficits at the time of leaving the mesh.
    pub mesh_failure_penalty_weight: f64,
    /// P3b: factor by which the penalty decays in an interval.
    pub mesh_failure_penalty_decay: f64,
    /// P4: weight (<= 0) of the squared number of invalid messages.
    pub invalid_message_deliveries_weight: f64,
    /// P4: factor by which the counter decays in an interval.
    pub invalid_message_deliveries_decay: f64,
}

impl Default for TopicScoreParams {
    /// Returns the defaults of rust-libp2p 0.50 (go-libp2p-pubsub has none).
    fn default() -> Self {
        Self {
            topic_weight: 0.5,
            time_in_mesh_weight: 1.0,
            time_in_mesh_quantum: Duration::from_millis(1),
            time_in_mesh_cap: 3600.0,
            first_message_deliveries_weight: 1.0,
            first_message_deliveries_decay: 0.5,
            first_message_deliveries_cap: 2000.0,
            mesh_message_deliveries_weight: -1.0,
            mesh_message_deliveries_decay: 0.5,
            mesh_message_deliveries_cap: 100.0,
            mesh_message_deliveries_threshold: 20.0,
            mesh_message_deliveries_window: Duration::from_millis(10),
            mesh_message_deliveries_activation: Duration::from_secs(5),
            mesh_failure_penalty_weight: -1.0,
            mesh_failure_penalty_decay: 0.5,
            invalid_message_deliveries_weight: -1.0,
            invalid_message_deliveries_decay: 0.3,
        }
    }
}

impl TopicScoreParams {
    /// Returns parameters with weight 1 for the topic and no other weight, as a base for setting
    /// weights one by one.
    pub fn neutral() -> Self {
        Self {
            topic_weight: 1.0,
            time_in_mesh_weight: 0.0,
            first_message_deliveries_weight: 0.0,
            mesh_message_deliveries_weight: 0.0,
            mesh_failure_penalty_weight: 0.0,
            invalid_message_deliveries_weight: 0.0,
            ..Self::default()
        }
    }

    /// Checks the rules of the specification, as go-libp2p-pubsub's `score_params.go` does.
    /// Parameters that belong to a weight of 0 are not checked.
    pub fn validate(&self) -> Result<(), ParameterError> {
        reward("topic_weight", self.topic_weight)?;
        reward("time_in_mesh_weight", self.time_in_mesh_weight)?;
        let quantum = self.time_in_mesh_quantum.as_secs_f64();
        check(quantum > 0.0, "time_in_mesh_quantum", quantum, "> 0")?;
        positive("time_in_mesh_cap", self.time_in_mesh_cap, self.time_in_mesh_weight)?;

        let weight = self.first_message_deliveries_weight;
        reward("first_message_deliveries_weight", weight)?;
        fraction("first_message_deliveries_decay", self.first_message_deliveries_decay, weight)?;
        positive("first_message_deliveries_cap", self.first_message_deliveries_cap, weight)?;

        let weight = self.mesh_message_deliveries_weight;
        penalty("mesh_message_deliveries_weight", weight)?;
        fraction("mesh_message_deliveries_decay", self.mesh_message_deliveries_decay, weight)?;
        positive("mesh_message_deliveries_cap", self.mesh_message_deliveries_cap, weight)?;
        positive("mesh_message_deliveries_threshold", self.mesh_message_deliveries_threshold, weight)?;
        let activation = self.mesh_message_deliveries_activation.as_secs_f64();
        let rule = "at least 1 s if the weight is not 0";
        let holds = weight == 0.0 || activation >= 1.0;
        check(holds, "mesh_message_deliveries_activation", activation, rule)?;

        let weight = self.mesh_failure_penalty_weight;
        penalty("mesh_failure_penalty_weight", weight)?;
        fraction("mesh_failure_penalty_decay", self.mesh_failure_penalty_decay, weight)?;
        let weight = self.invalid_message_deliveries_weight;
        penalty("invalid_message_deliveries_weight", weight)?;
        fraction("invalid_message_deliveries_decay", self.invalid_message_deliveries_decay, weight)
    }
}

fn at_least_0(field: &'static str, value: f64) -> Result<(), ParameterError> {
    check(value >= 0.0, field, value, ">= 0")
}

fn reward(field: &'static str, weight: f64) -> Result<(), ParameterError> {
    check(weight >= 0.0, field, weight, ">= 0 (a reward, or 0 to turn it off)")
}

fn penalty(field: &'static str, weight: f64) -> Result<(), ParameterError> {
    check(weight <= 0.0, field, weight, "<= 0 (a penalty, or 0 to turn it off)")
}

fn positive(field: &'static str, value: f64, weight: f64) -> Result<(), ParameterError> {
    check(weight == 0.0 || value > 0.0, field, value, "> 0 if the weight is not 0")
}

fn fraction(field: &'static str, value: f64, weight: f64) -> Result<(), ParameterError> {
    let holds = weight == 0.0 || (value > 0.0 && value < 1.0);
    check(holds, field, value, "between 0 and 1 (exclusive) if the weight is not 0")
}

/// Returns the decay factor with which a counter falls to `decay_to_zero` of its value within
/// `span`, decaying once per `interval`: `decay_to_zero ^ (interval / span)` (go-libp2p-pubsub
/// `ScoreParameterDecayWithBase`). Its `ScoreParameterDecay` uses an interval of 1 s and a
/// `decay_to_zero` of 0.01.
///
/// A span of zero returns 0: the counter vanishes at once.
pub fn score_parameter_decay(span: Duration, interval: Duration, decay_to_zero: f64) -> f64 {
    decay_to_zero.powf(interval.as_secs_f64() / span.as_secs_f64())
}

/// A parameter with an invalid value.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{field} is {value}, but must be {rule}")]
pub struct ParameterError {
    /// The name of the field.
    pub field: &'static str,
    /// The value of the field (durations in seconds).
    pub value: f64,
    /// The allowed values, which complete the phrase "must be ...".
    pub rule: &'static str,
}

/// Returns an error with these parts unless `holds`. NaN never holds, since comparisons with it are
/// false.
fn check(holds: bool, field: &'static str, value: f64, rule: &'static str) -> Result<(), ParameterError> {
    if holds && value.is_finite() { Ok(()) } else { Err(ParameterError { field, value, rule }) }
}

/// The scores at which a node changes its treatment of a peer (specification v1.1, "Score
/// thresholds").
#[derive(Clone, Debug, PartialEq)]
pub struct PeerScoreThresholds {
    /// Below this score, the node exchanges no gossip with the peer.
    pub gossip: f64,
    /// Below this score, the node sends the peer no own messages by flood publishing or fanout.
    pub publish: f64,
    /// Below this score, the node ignores every message and all control from the peer.
    pub graylist: f64,
    /// Minimum score of a peer whose recommendations of other peers are accepted.
    pub accept_px: f64,
    /// A mesh whose median score is below this value grafts opportunistically.
    pub opportunistic_graft: f64,
}

impl Default for PeerScoreThresholds {
    /// Returns the defaults of rust-libp2p 0.50 (go-libp2p-pubsub has none).
    fn default() -> Self {
        Self { gossip: -10.0, publish: -50.0, graylist: -80.0, accept_px: 10.0, opportunistic_graft: 20.0 }
    }
}

impl PeerScoreThresholds {
    /// Checks the rules of the specification.
    pub fn validate(&self) -> Result<(), ParameterError> {
        check(self.gossip <= 0.0, "gossip", self.gossip, "<= 0")?;
        check(self.publish <= self.gossip, "publish", self.publish, "<= gossip")?;
        check(self.graylist <= self.publish, "graylist", self.graylist, "<= publish")?;
        at_least_0("accept_px", self.accept_px)?;
        at_least_0("opportunistic_graft", self.opportunistic_graft)
    }
}
