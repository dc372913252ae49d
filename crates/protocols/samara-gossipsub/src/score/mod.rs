//! The peer score of specification v1.1, "Peer scoring", P1 to P7, and rust-libp2p's slow-peer
//! penalty.
//!
//! `PeerScores` receives events (a peer connected, was grafted, sent a first copy, a duplicate or
//! an invalid message) and keeps counters. `PeerScores::refresh` decays them. `PeerScores::score`
//! returns a peer's score, and recomputes it only if something about the peer has changed. Where
//! the specification leaves a choice, the behaviour is that of go-libp2p-pubsub's `score.go`.

// All tables here have keys that this node assigns, or addresses.
#![allow(clippy::disallowed_types)]

mod counters;
mod params;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use samara_engine::{MessageKey, PeerId, Time};
use smallvec::SmallVec;

use crate::engine::tables::TopicIdx;

use counters::{AddressKey, PeerStats, Records, Status, TopicParts, TopicStats, address_keys, decay};

pub use params::{
    ParameterError, PeerScoreParams, PeerScoreThresholds, TopicScoreParams, score_parameter_decay,
};

/// A score and its parts. All parts are weighted; the parts of topics are summed before the cap.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ScoreBreakdown {
    /// P1: time in mesh.
    pub time_in_mesh: f64,
    /// P2: first deliveries.
    pub first_message_deliveries: f64,
    /// P3: deficit of mesh deliveries.
    pub mesh_message_deliveries: f64,
    /// P3b: deficits at the time of leaving meshes.
    pub mesh_failure_penalty: f64,
    /// P4: invalid messages.
    pub invalid_message_deliveries: f64,
    /// The sum over all topics after the cap.
    pub topics: f64,
    /// P5: the score that the application sets.
    pub app_specific: f64,
    /// P6: too many peers on one address.
    pub ip_colocation: f64,
    /// P7: misbehaviour.
    pub behaviour_penalty: f64,
    /// Messages that could not be sent.
    pub slow_peer: f64,
    /// The sum of all parts.
    pub total: f64,
}

/// The scores of all peers of one node.
///
/// Disabled scoring (`new(None, _)`) costs one branch per event and keeps no state; every score is
/// 0.
#[derive(Debug)]
pub(crate) struct PeerScores {
    enabled: bool,
    params: PeerScoreParams,
    topics: Vec<Option<TopicScoreParams>>,
    /// Indexed by peer id, which is dense.
    peers: Vec<Option<Box<PeerStats>>>,
    by_address: HashMap<AddressKey, Vec<PeerId>, FxBuildHasher>,
    records: Records,
}

impl PeerScores {
    /// Creates an empty table. `None` turns scoring off.
    pub(crate) fn new(params: Option<PeerScoreParams>) -> Self {
        let enabled = params.is_some();
        let params = params.unwrap_or_else(PeerScoreParams::neutral);
        let records = Records::new(params.record_ttl, params.record_capacity);
        let by_address = HashMap::default();
        Self { enabled, params, topics: Vec::new(), peers: Vec::new(), by_address, records }
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled
    }

    pub(crate) fn params(&self) -> &PeerScoreParams {
        &self.params
    }

    /// Sets the parameters of a topic. Topics without parameters are not scored.
    pub(crate) fn set_topic_params(&mut self, topic: TopicIdx, params: TopicScoreParams) {
        if !self.enabled {
            return;
        }
        for stats in self.peers.iter_mut().flatten() {
            if let Ok(at) = stats.topics.binary_search_by_key(&topic, |(known, _)| *known) {
                stats.topics[at].1.recap(&params);
                stats.cached.set(f64::NAN);
            }
        }
        if self.topics.len() <= topic.index() {
            self.topics.resize(topic.index() + 1, None);
        }
        self.topics[topic.index()] = Some(params);
    }

    /// Adds a connected peer. Its retained counters count again.
    pub(crate) fn add_peer(&mut self, peer: PeerId, address: Option<IpAddr>) {
        if !self.enabled {
            return;
        }
        if self.peers.len() <= peer.index() {
            self.peers.resize_with(peer.index() + 1, || None);
        }
        let stats = self.peers[peer.index()].get_or_insert_with(|| Box::new(PeerStats::new()));
        stats.retained_until = None;
        stats.cached.set(f64::NAN);
        self.set_addresses(peer, address);
    }

    /// Sets the addresses of a known peer, in place of those it had.
    pub(crate) fn set_addresses(&mut self, peer: PeerId, addresses: impl IntoIterator<Item = IpAddr>) {
        let mut keys = SmallVec::new();
        for key in addresses.into_iter().flat_map(address_keys) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        if self.stats(peer).is_none_or(|stats| stats.addresses == keys) {
            return;
        }
        self.leave_addresses(peer);
        self.with_peer(peer, |stats| stats.addresses = keys.clone());
        for key in keys {
            self.by_address.entry(key).or_default().push(peer);
            self.address_changed(key);
        }
    }

    /// Removes a peer that left. A score that is not positive is retained, so that a peer cannot
    /// clear it by leaving. A positive score is forgotten, so that a peer cannot save it up.
    pub(crate) fn remove_peer(&mut self, now: Time, peer: PeerId) {
        let score = self.score(peer);
        let (topics, retain) = (&self.topics, self.params.retain_score);
        let Some(stats) = self.peers.get_mut(peer.index()).and_then(Option::as_mut) else { return };
        if score > 0.0 {
            self.leave_addresses(peer);
            self.peers[peer.index()] = None;
            return;
        }
        for (topic, stats) in &mut stats.topics {
            stats.first_message_deliveries = 0.0;
            if stats.grafted_at.is_some()
                && let Some(Some(params)) = topics.get(topic.index())
            {
                stats.leave_mesh(params);
            }
        }
        stats.retained_until = Some(now + retain);
        stats.cached.set(f64::NAN);
    }

    /// Forgets everything about a peer, because its number will be reused.
    pub(crate) fn forget_peer(&mut self, peer: PeerId) {
        self.leave_addresses(peer);
        if let Some(stats) = self.peers.get_mut(peer.index()) {
            *stats = None;
        }
    }

    /// Records that a peer joined the mesh of a topic.
    pub(crate) fn graft(&mut self, now: Time, peer: PeerId, topic: TopicIdx) {
        self.with_topic(peer, topic, |stats, _| stats.graft(now));
    }

    /// Records that a peer left the mesh of a topic, for any reason.
    pub(crate) fn prune(&mut self, peer: PeerId, topic: TopicIdx) {
        self.with_topic(peer, topic, |stats, params| stats.leave_mesh(params));
    }

    /// Records that the first copy of a message arrived and its validation begins.
    pub(crate) fn validate_message(&mut self, now: Time, key: MessageKey) {
        if self.enabled {
            self.records.get_or_insert(now, key);
        }
    }

    /// Records that a peer has sent valid parts of a message.
    pub(crate) fn credit_parts(&mut self, peer: PeerId, topic: TopicIdx) {
        self.with_topic(peer, topic, |stats, params| stats.first_delivery(params));
    }

    /// Records that validation accepted a message whose first copy came from `peer`.
    pub(crate) fn deliver_message(&mut self, now: Time, peer: PeerId, topic: TopicIdx, key: MessageKey) {
        if !self.enabled {
            return;
        }
        self.with_topic(peer, topic, |stats, params| stats.first_delivery(params));
        let record = self.records.get_or_insert(now, key);
        if record.status != Status::Unknown {
            return;
        }
        record.status = Status::Valid(now);
        let earlier = std::mem::take(&mut record.peers);
        record.peers.clone_from(&earlier);
        // The first sender has its reward; more copies from it earn nothing.
        record.note(peer, usize::MAX);
        for early in earlier.into_iter().filter(|early| *early != peer) {
            self.with_topic(early, topic, |stats, params| stats.mesh_delivery(params));
        }
    }

    /// Records that a message whose first copy came from `peer` was not delivered. If it
    /// `is_invalid`, every sender is penalised, and otherwise none.
    pub(crate) fn reject_message(
        &mut self,
        now: Time,
        peer: PeerId,
        topic: TopicIdx,
        key: MessageKey,
        is_invalid: bool,
    ) {
        if !self.enabled {
            return;
        }
        let record = self.records.get_or_insert(now, key);
        if record.status != Status::Unknown {
            return;
        }
        let senders = std::mem::take(&mut record.peers);
        if !is_invalid {
            record.status = Status::Unjudged;
            return;
        }
        record.status = Status::Invalid;
        self.invalid_delivery(peer, topic);
        for sender in senders.into_iter().filter(|sender| *sender != peer) {
            self.invalid_delivery(sender, topic);
        }
    }

    /// Records the rejection of a message whose id proves nothing about other copies, such as one
    /// without a signature. Only the sender is penalised.
    pub(crate) fn reject_malformed(&mut self, peer: PeerId, topic: TopicIdx) {
        self.invalid_delivery(peer, topic);
    }

    pub(crate) fn duplicate_message(&mut self, now: Time, peer: PeerId, topic: TopicIdx, key: MessageKey) {
        if !self.enabled {
            return;
        }
        let peers_max = self.params.record_peers_max;
        let record = self.records.get_or_insert(now, key);
        match record.status {
            Status::Unknown => {
                record.note(peer, peers_max);
            }
            Status::Valid(validated) => {
                if record.note(peer, peers_max) {
                    self.with_topic(peer, topic, |stats, params| {
                        if now - validated <= params.mesh_message_deliveries_window {
                            stats.mesh_delivery(params);
                        }
                    });
                }
            }
            Status::Invalid => self.invalid_delivery(peer, topic),
            Status::Unjudged => {}
        }
    }

    /// Returns the number of records that a full table forgot before they expired.
    pub(crate) fn records_evicted(&self) -> u64 {
        self.records.evicted
    }

    /// Records that a peer misbehaved `count` times (P7): broken promises, a GRAFT during backoff.
    pub(crate) fn add_penalty(&mut self, peer: PeerId, count: f64) {
        self.with_peer(peer, |stats| stats.behaviour_penalty += count);
    }

    /// Records that a message could not be sent because the peer is too slow.
    pub(crate) fn slow_peer(&mut self, peer: PeerId) {
        self.with_peer(peer, |stats| stats.slow_penalty += 1.0);
    }

    /// Sets the application's score of a peer (P5).
    pub(crate) fn set_app_score(&mut self, peer: PeerId, score: f64) {
        self.with_peer(peer, |stats| stats.app_score = score);
    }

    /// Decays all counters. Call it every [`PeerScoreParams::decay_interval`].
    ///
    /// Scores of departed peers do not decay: otherwise waiting would clear them. They expire after
    /// the retention time.
    pub(crate) fn refresh(&mut self, now: Time) {
        if !self.enabled {
            return;
        }
        self.records.expire(now);
        let mut expired = Vec::new();
        for (at, slot) in self.peers.iter_mut().enumerate() {
            let Some(stats) = slot else { continue };
            if let Some(until) = stats.retained_until {
                if until < now {
                    expired.push(PeerId(at as u32));
                }
                continue;
            }
            let to_zero = self.params.decay_to_zero;
            let mut changed =
                decay(&mut stats.behaviour_penalty, self.params.behaviour_penalty_decay, to_zero);
            changed |= decay(&mut stats.slow_penalty, self.params.slow_peer_decay, to_zero);
            for (topic, topic_stats) in &mut stats.topics {
                if let Some(Some(params)) = self.topics.get(topic.index()) {
                    changed |= topic_stats.refresh(now, params, to_zero);
                }
            }
            if changed {
                stats.cached.set(f64::NAN);
            }
        }
        for peer in expired {
            self.leave_addresses(peer);
            self.peers[peer.index()] = None;
        }
    }

    /// Returns the score of a peer; 0 if the peer is unknown. Cheap, because it is recomputed only
    /// after a change.
    pub(crate) fn score(&self, peer: PeerId) -> f64 {
        let Some(stats) = self.stats(peer) else { return 0.0 };
        let cached = stats.cached.get();
        if !cached.is_nan() {
            return cached;
        }
        let score = self.compute(stats).total;
        stats.cached.set(score);
        score
    }

    /// Returns the score of a peer with its parts; `None` if the peer is unknown.
    pub(crate) fn breakdown(&self, peer: PeerId) -> Option<ScoreBreakdown> {
        self.stats(peer).map(|stats| self.compute(stats))
    }

    fn stats(&self, peer: PeerId) -> Option<&PeerStats> {
        self.peers.get(peer.index())?.as_deref()
    }

    fn compute(&self, stats: &PeerStats) -> ScoreBreakdown {
        let params = &self.params;
        let mut parts = ScoreBreakdown::default();
        for (topic, topic_stats) in &stats.topics {
            let Some(Some(topic_params)) = self.topics.get(topic.index()) else { continue };
            let weight = topic_params.topic_weight;
            let TopicParts { p1, p2, p3, p3b, p4 } = topic_stats.parts(topic_params);
            parts.time_in_mesh += p1 * weight;
            parts.first_message_deliveries += p2 * weight;
            parts.mesh_message_deliveries += p3 * weight;
            parts.mesh_failure_penalty += p3b * weight;
            parts.invalid_message_deliveries += p4 * weight;
            parts.topics += (p1 + p2 + p3 + p3b + p4) * weight;
        }
        if params.topic_score_cap > 0.0 {
            parts.topics = parts.topics.min(params.topic_score_cap);
        }
        parts.app_specific = stats.app_score * params.app_specific_weight;
        for key in &stats.addresses {
            let peers = self.by_address.get(key).map_or(0, Vec::len) as f64;
            let surplus = (peers - params.ip_colocation_threshold).max(0.0);
            if surplus > 0.0 && !self.is_whitelisted(*key) {
                parts.ip_colocation += surplus * surplus * params.ip_colocation_weight;
            }
        }
        parts.behaviour_penalty = stats.p7(params);
        parts.slow_peer = stats.slow(params);
        parts.total = parts.topics
            + parts.app_specific
            + parts.ip_colocation
            + parts.behaviour_penalty
            + parts.slow_peer;
        parts
    }

    /// A whitelisted IPv6 address also exempts its /64.
    fn is_whitelisted(&self, key: AddressKey) -> bool {
        let list = &self.params.ip_colocation_whitelist;
        match key {
            AddressKey::Host(address) => list.contains(&address),
            network @ AddressKey::Network64(_) => {
                list.iter().any(|listed| address_keys(*listed).contains(&network))
            }
        }
    }

    fn with_peer(&mut self, peer: PeerId, change: impl FnOnce(&mut PeerStats)) {
        if let Some(Some(stats)) = self.peers.get_mut(peer.index()) {
            change(stats);
            stats.cached.set(f64::NAN);
        }
    }

    /// Applies a change if both the peer and the topic are scored.
    fn with_topic(
        &mut self,
        peer: PeerId,
        topic: TopicIdx,
        change: impl FnOnce(&mut TopicStats, &TopicScoreParams),
    ) {
        let Some(Some(params)) = self.topics.get(topic.index()) else { return };
        if let Some(Some(stats)) = self.peers.get_mut(peer.index()) {
            change(stats.topic_mut(topic), params);
            stats.cached.set(f64::NAN);
        }
    }

    fn invalid_delivery(&mut self, peer: PeerId, topic: TopicIdx) {
        self.with_topic(peer, topic, |stats, _| stats.invalid_message_deliveries += 1.0);
    }

    /// Invalidates the scores of the peers on an address after one joined or left.
    fn address_changed(&self, key: AddressKey) {
        for peer in self.by_address.get(&key).into_iter().flatten() {
            if let Some(stats) = self.stats(*peer) {
                stats.cached.set(f64::NAN);
            }
        }
    }

    fn leave_addresses(&mut self, peer: PeerId) {
        let Some(Some(stats)) = self.peers.get_mut(peer.index()) else { return };
        for key in std::mem::take(&mut stats.addresses) {
            if let Some(peers) = self.by_address.get_mut(&key) {
                peers.retain(|known| *known != peer);
                if peers.is_empty() {
                    self.by_address.remove(&key);
                }
            }
            self.address_changed(key);
        }
    }
}
