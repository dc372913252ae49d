//! The inputs of the score: the counters of each peer, and the peers that delivered each message.

// All tables here have keys that this node assigns, or addresses.
#![allow(clippy::disallowed_types)]

use std::cell::Cell;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use samara_engine::{MessageKey, PeerId, Time};
use smallvec::SmallVec;

use super::params::{PeerScoreParams, TopicScoreParams};
use crate::engine::tables::TopicIdx;

/// The unit by which P6 counts peers: an IPv4 address; an IPv6 address, and its /64, since a
/// household or a virtual machine owns a whole /64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum AddressKey {
    Host(IpAddr),
    Network64(u64),
}

/// Returns the keys under which a peer on this address counts.
pub(super) fn address_keys(address: IpAddr) -> SmallVec<[AddressKey; 2]> {
    let mut keys = SmallVec::new();
    let address = address.to_canonical();
    keys.push(AddressKey::Host(address));
    if let IpAddr::V6(address) = address
        && address != Ipv6Addr::LOCALHOST
    {
        keys.push(AddressKey::Network64((address.to_bits() >> 64) as u64));
    }
    keys
}

/// A peer's counters on one topic.
#[derive(Clone, Debug, Default)]
pub(super) struct TopicStats {
    /// The time at which the peer entered the mesh.
    pub(super) grafted_at: Option<Time>,
    /// The value at the latest refresh, like the activation. Scores then change only by events, so
    /// they can be cached.
    pub(super) time_in_mesh: Duration,
    pub(super) first_message_deliveries: f64,
    pub(super) mesh_message_deliveries: f64,
    pub(super) mesh_message_deliveries_active: bool,
    pub(super) mesh_failure_penalty: f64,
    pub(super) invalid_message_deliveries: f64,
}

/// The parts of a topic's score, before the weight of the topic.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct TopicParts {
    pub(super) p1: f64,
    pub(super) p2: f64,
    pub(super) p3: f64,
    pub(super) p3b: f64,
    pub(super) p4: f64,
}

impl TopicStats {
    pub(super) fn parts(&self, params: &TopicScoreParams) -> TopicParts {
        let quanta = self.time_in_mesh.as_nanos() / params.time_in_mesh_quantum.as_nanos().max(1);
        let quanta = if self.grafted_at.is_some() { quanta as f64 } else { 0.0 };
        let deficit = self.deficit(params);
        TopicParts {
            p1: quanta.min(params.time_in_mesh_cap) * params.time_in_mesh_weight,
            p2: self.first_message_deliveries * params.first_message_deliveries_weight,
            p3: deficit * deficit * params.mesh_message_deliveries_weight,
            p3b: self.mesh_failure_penalty * params.mesh_failure_penalty_weight,
            p4: self.invalid_message_deliveries
                * self.invalid_message_deliveries
                * params.invalid_message_deliveries_weight,
        }
    }

    /// Returns the missing part of the expected mesh deliveries, once they are expected.
    fn deficit(&self, params: &TopicScoreParams) -> f64 {
        let deficit = params.mesh_message_deliveries_threshold - self.mesh_message_deliveries;
        if self.mesh_message_deliveries_active { deficit.max(0.0) } else { 0.0 }
    }

    pub(super) fn graft(&mut self, now: Time) {
        self.grafted_at = Some(now);
        self.time_in_mesh = Duration::ZERO;
        self.mesh_message_deliveries_active = false;
    }

    /// Removes the peer from the mesh. A deficit at this time persists (P3b), so that leaving and
    /// returning does not clear it. Nothing happens to a peer outside the mesh; go-libp2p-pubsub
    /// would count its old deficit again.
    pub(super) fn leave_mesh(&mut self, params: &TopicScoreParams) {
        if self.grafted_at.take().is_some() {
            let deficit = self.deficit(params);
            self.mesh_failure_penalty += deficit * deficit;
        }
    }

    pub(super) fn first_delivery(&mut self, params: &TopicScoreParams) {
        let cap = params.first_message_deliveries_cap;
        self.first_message_deliveries = (self.first_message_deliveries + 1.0).min(cap);
        self.mesh_delivery(params);
    }

    pub(super) fn mesh_delivery(&mut self, params: &TopicScoreParams) {
        if self.grafted_at.is_some() {
            let cap = params.mesh_message_deliveries_cap;
            self.mesh_message_deliveries = (self.mesh_message_deliveries + 1.0).min(cap);
        }
    }

    /// Applies one decay interval. Returns true if anything changed.
    pub(super) fn refresh(&mut self, now: Time, params: &TopicScoreParams, to_zero: f64) -> bool {
        let mut changed =
            decay(&mut self.first_message_deliveries, params.first_message_deliveries_decay, to_zero);
        changed |= decay(&mut self.mesh_message_deliveries, params.mesh_message_deliveries_decay, to_zero);
        changed |= decay(&mut self.mesh_failure_penalty, params.mesh_failure_penalty_decay, to_zero);
        changed |=
            decay(&mut self.invalid_message_deliveries, params.invalid_message_deliveries_decay, to_zero);
        if let Some(grafted_at) = self.grafted_at {
            self.time_in_mesh = now - grafted_at;
            if self.time_in_mesh > params.mesh_message_deliveries_activation {
                self.mesh_message_deliveries_active = true;
            }
            changed = true;
        }
        changed
    }

    /// Applies lowered caps.
    pub(super) fn recap(&mut self, params: &TopicScoreParams) {
        let cap = params.first_message_deliveries_cap;
        self.first_message_deliveries = self.first_message_deliveries.min(cap);
        self.mesh_message_deliveries = self.mesh_message_deliveries.min(params.mesh_message_deliveries_cap);
    }
}

/// Applies one decay interval to one counter. Returns true if it changed.
pub(super) fn decay(counter: &mut f64, factor: f64, to_zero: f64) -> bool {
    if *counter == 0.0 {
        return false;
    }
    *counter *= factor;
    if *counter < to_zero {
        *counter = 0.0;
    }
    true
}

#[derive(Debug)]
pub(super) struct PeerStats {
    /// The time until which to keep the counters of a departed peer; `None` while it is connected.
    pub(super) retained_until: Option<Time>,
    pub(super) addresses: SmallVec<[AddressKey; 2]>,
    /// Counters of topics, sorted by topic.
    pub(super) topics: Vec<(TopicIdx, TopicStats)>,
    pub(super) app_score: f64,
    pub(super) behaviour_penalty: f64,
    pub(super) slow_penalty: f64,
    /// The cached score; NaN if it must be recomputed.
    pub(super) cached: Cell<f64>,
}

impl PeerStats {
    pub(super) fn new() -> Self {
        Self {
            retained_until: None,
            addresses: SmallVec::new(),
            topics: Vec::new(),
            app_score: 0.0,
            behaviour_penalty: 0.0,
            slow_penalty: 0.0,
            cached: Cell::new(f64::NAN),
        }
    }

    /// Returns the counters on a topic, and creates them if necessary.
    pub(super) fn topic_mut(&mut self, topic: TopicIdx) -> &mut TopicStats {
        let place = self.topics.binary_search_by_key(&topic, |(known, _)| *known);
        let at = place.unwrap_or_else(|at| {
            self.topics.insert(at, (topic, TopicStats::default()));
            at
        });
        &mut self.topics[at].1
    }

    /// Returns the weighted P7 part.
    pub(super) fn p7(&self, params: &PeerScoreParams) -> f64 {
        let excess = (self.behaviour_penalty - params.behaviour_penalty_threshold).max(0.0);
        excess * excess * params.behaviour_penalty_weight
    }

    /// Returns the weighted slow-peer penalty, which is linear unlike the others (rust-libp2p).
    pub(super) fn slow(&self, params: &PeerScoreParams) -> f64 {
        (self.slow_penalty - params.slow_peer_threshold).max(0.0) * params.slow_peer_weight
    }
}

/// The validation state of a message (go-libp2p-pubsub `deliveryStatus`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Unknown,
    /// Accepted at this time.
    Valid(Time),
    /// Rejected: every sender is penalised.
    Invalid,
    /// Ignored by the application, or throttled: no sender is penalised.
    Unjudged,
}

#[derive(Debug)]
pub(super) struct Record {
    pub(super) status: Status,
    /// The peers that sent a copy while it mattered, sorted.
    pub(super) peers: SmallVec<[PeerId; 4]>,
}

impl Record {
    /// Records a copy from `peer`. Returns false if it sent one before, or if there is no space to
    /// remember it.
    pub(super) fn note(&mut self, peer: PeerId, peers_max: usize) -> bool {
        match self.peers.binary_search(&peer) {
            Err(at) if self.peers.len() < peers_max => {
                self.peers.insert(at, peer);
                true
            }
            _ => false,
        }
    }
}

/// The records of messages within the time to live, bounded in number.
#[derive(Debug)]
pub(super) struct Records {
    ttl: Duration,
    capacity: usize,
    by_key: HashMap<MessageKey, Record, FxBuildHasher>,
    /// Keys in order of expiry.
    pub(super) queue: VecDeque<(Time, MessageKey)>,
    /// Number of records forgotten within their time to live because the table was full.
    pub(super) evicted: u64,
}

impl Records {
    pub(super) fn new(ttl: Duration, capacity: usize) -> Self {
        Self { ttl, capacity, by_key: HashMap::default(), queue: VecDeque::new(), evicted: 0 }
    }

    /// Returns the record of a message, and creates it if necessary.
    pub(super) fn get_or_insert(&mut self, now: Time, key: MessageKey) -> &mut Record {
        self.expire(now);
        if !self.by_key.contains_key(&key) {
            if self.queue.len() >= self.capacity
                && let Some((_, oldest)) = self.queue.pop_front()
            {
                self.by_key.remove(&oldest);
                self.evicted += 1;
            }
            self.queue.push_back((now + self.ttl, key));
        }
        let fresh = || Record { status: Status::Unknown, peers: SmallVec::new() };
        self.by_key.entry(key).or_insert_with(fresh)
    }

    /// Forgets expired records.
    pub(super) fn expire(&mut self, now: Time) {
        while self.queue.front().is_some_and(|(until, _)| *until <= now) {
            if let Some((_, key)) = self.queue.pop_front() {
                self.by_key.remove(&key);
            }
        }
    }
}
