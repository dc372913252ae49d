//! Meshes: JOIN and LEAVE, GRAFT and PRUNE, maintenance at each heartbeat, fanout, and peer
//! exchange (specification v1.0 "Topic mesh" and "Fanout"; v1.1 "Prune backoff and peer exchange",
//! "Mesh maintenance", "Opportunistic grafting", "Outbound mesh quotas", "Explicit peering
//! agreements").

use std::collections::BTreeSet;

use samara_engine::{NodeRng, PeerId, PeerIdentity, PeerSet, Time};

use super::tables::{PeerTable, TopicIdx, TopicState};
use super::{Cx, Event, GossipSub, Ignored, Trace};
use crate::config::{MeshParams, MeshRules};
use crate::rpc::{Control, ExchangedPeer, Prune, SubOpts, Topic};

impl GossipSub {
    pub(super) fn mesh_params(&self, topic: TopicIdx) -> MeshParams {
        let state = self.topics.get(topic);
        if state.special { self.config.mesh_of(&state.name) } else { self.config.mesh }
    }

    /// Forms a mesh from the fanout, if there is one, and from other subscribers. The GRAFTs leave
    /// with the next flush.
    pub(super) fn join(&mut self, topic: TopicIdx, cx: &mut Cx<'_>) {
        let now = cx.now();
        let d = self.mesh_params(topic).d;
        self.topics.set_fanout(topic, None);
        let name = self.topics.get(topic).name.clone();
        let mut chosen = std::mem::take(&mut self.topics.get_mut(topic).fanout);
        let (scores, backoffs, peers) = (&self.scores, &self.backoffs, &self.peers);
        let eligible = |peer: PeerId| {
            !peers.is_direct(peer) && !backoffs.is_pending(now, peer, topic) && scores.score(peer) >= 0.0
        };
        chosen.retain(|peer| eligible(*peer));
        if chosen.len() < d {
            let state = self.topics.get(topic);
            let wanted = d - chosen.len();
            let fresh = |peer| !chosen.contains(peer) && eligible(peer);
            for peer in candidates(state, peers, wanted, cx.rng(), fresh) {
                chosen.insert(peer);
            }
        }
        self.trace(cx, || Trace::Joined(name.clone()));
        for peer in chosen.iter() {
            self.add_to_mesh(*peer, topic, false, cx);
            self.outgoing.entry(*peer).or_default().graft.push(name.clone());
        }
    }

    pub(super) fn leave(&mut self, topic: TopicIdx, cx: &mut Cx<'_>) {
        let backoff = self.config.unsubscribe_backoff;
        let mesh = std::mem::take(&mut self.topics.get_mut(topic).mesh);
        let name = self.topics.get(topic).name.clone();
        for peer in mesh.iter() {
            self.scores.prune(*peer, topic);
            self.trace(cx, || Trace::Pruned { peer: *peer, topic: name.clone(), by_peer: false });
            let prune = self.make_prune(*peer, topic, self.config.peer_exchange, true, cx);
            self.send_control(*peer, Control { prune: vec![prune], ..Control::default() }, cx);
            self.backoffs.add(cx.now(), *peer, topic, backoff);
        }
        self.pruned.forget_topic(topic);
        self.trace(cx, || Trace::Left(name));
    }

    /// Grafts a peer that has just subscribed, if the mesh lacks members.
    pub(super) fn graft_newcomer(&mut self, peer: PeerId, topic: TopicIdx, cx: &mut Cx<'_>) {
        let state = self.topics.get(topic);
        let wanted = state.joined
            && state.mesh.len() < self.mesh_params(topic).d_low
            && !state.mesh.contains(peer)
            && self.peers.has_mesh(peer)
            && !self.peers.is_direct(peer)
            && !self.backoffs.is_pending(cx.now(), peer, topic)
            && self.scores.score(peer) >= 0.0;
        if wanted {
            let name = state.name.clone();
            self.add_to_mesh(peer, topic, false, cx);
            self.send_control(peer, Control { graft: vec![name], ..Control::default() }, cx);
        }
    }

    /// Adds a peer to a mesh, without a GRAFT.
    pub(super) fn add_to_mesh(&mut self, peer: PeerId, topic: TopicIdx, by_peer: bool, cx: &mut Cx<'_>) {
        let state = self.topics.get_mut(topic);
        if state.mesh.insert(peer) {
            let name = state.name.clone();
            self.scores.graft(cx.now(), peer, topic);
            // The peer has not received earlier messages.
            self.remember_for_gossip(peer, topic, cx.now());
            self.trace(cx, || Trace::Grafted { peer, topic: name, by_peer });
        }
    }

    /// Removes a peer from a mesh, without a PRUNE.
    pub(super) fn remove_from_mesh(&mut self, peer: PeerId, topic: TopicIdx, by_peer: bool, cx: &mut Cx<'_>) {
        let state = self.topics.get_mut(topic);
        if state.mesh.remove(peer) {
            let name = state.name.clone();
            self.scores.prune(peer, topic);
            self.trace(cx, || Trace::Pruned { peer, topic: name, by_peer });
        }
    }

    /// Handles received GRAFTs. Returns the PRUNEs for those that it rejects. `subscriptions` are
    /// those of the same RPC.
    pub(super) fn receive_grafts(
        &mut self,
        from: PeerId,
        grafts: &[Topic],
        subscriptions: &[SubOpts],
        cx: &mut Cx<'_>,
    ) -> Vec<Prune> {
        self.metrics.grafts_received += grafts.len() as u64;
        if !self.peers.has_mesh(from) {
            self.metrics.ignore(Ignored::GraftRole, grafts.len() as u64);
            return Vec::new();
        }
        // The order of GRAFT and UNSUBSCRIBE within an RPC is unknown. Leaving is the safe reading.
        let mut left = BTreeSet::new();
        for change in subscriptions {
            match self.topics.find(&change.topic) {
                Some(topic) if change.subscribe => _ = left.remove(&topic),
                Some(topic) => _ = left.insert(topic),
                None => {}
            }
        }
        let mut refused = Vec::new();
        let mut exchange = self.config.peer_exchange;
        for name in grafts {
            let joined = self.topics.find(name).filter(|topic| self.topics.get(*topic).joined);
            let Some(topic) = joined else {
                // No answer and no entry: a flood of invented topics must cost nothing, and a list
                // of peers is not for every sender.
                self.metrics.ignore(Ignored::GraftNotSubscribed, 1);
                exchange = false;
                continue;
            };
            if self.topics.get(topic).mesh.contains(from) {
                continue;
            }
            let checked = if left.contains(&topic) {
                Err(Ignored::GraftUnsubscribed)
            } else {
                self.check_graft(from, topic, cx)
            };
            match checked {
                Ok(()) => self.add_to_mesh(from, topic, true, cx),
                Err(cause) => {
                    self.metrics.ignore(cause, 1);
                    exchange &= cause == Ignored::GraftMeshFull;
                    if !refused.contains(&topic) {
                        refused.push(topic);
                    }
                }
            }
        }
        refused.into_iter().map(|topic| self.make_prune(from, topic, exchange, false, cx)).collect()
    }

    /// Accepts or rejects a GRAFT. Applies all consequences of a rejection except the PRUNE.
    fn check_graft(&mut self, from: PeerId, topic: TopicIdx, cx: &mut Cx<'_>) -> Result<(), Ignored> {
        let now = cx.now();
        let prune_backoff = self.config.prune_backoff;
        if self.peers.is_direct(from) {
            return Err(Ignored::GraftDirectPeer);
        }
        if let Some(until) = self.backoffs.until(from, topic).filter(|until| now < *until) {
            if self.may_not_know(from, until) {
                self.backoffs.add(now, from, topic, prune_backoff);
                return Err(Ignored::GraftBackoff);
            }
            self.penalise(from, 1);
            // The GRAFT follows the PRUNE too soon to be explained by a clock difference.
            let flood = now + prune_backoff < until + self.config.graft_flood_threshold;
            if flood {
                self.penalise(from, 1);
            }
            self.backoffs.add(now, from, topic, prune_backoff);
            return Err(Ignored::GraftBackoff);
        }
        if self.scores.score(from) < 0.0 {
            self.backoffs.add(now, from, topic, prune_backoff);
            return Err(Ignored::GraftScore);
        }
        // A full mesh accepts only peers that this node has dialled, against sybils that dial in
        // and graft.
        let guarded = self.config.mesh_rules == MeshRules::Guarded;
        let full = guarded && self.topics.get(topic).mesh.len() >= self.mesh_params(topic).d_high;
        if full && !self.peers.is_outbound(from) {
            self.backoffs.add(now, from, topic, prune_backoff);
            self.remember_pruned(from, topic, now);
            return Err(Ignored::GraftMeshFull);
        }
        Ok(())
    }

    /// Remembers a peer that wanted to be in a mesh and was rejected. It receives gossip until it
    /// may graft again, and at least as long as gossip announces the messages of this moment.
    pub(super) fn remember_pruned(&mut self, peer: PeerId, topic: TopicIdx, now: Time) {
        self.remember_for_gossip(peer, topic, now);
        if self.config.gossip_to_pruned && self.config.mesh_rules == MeshRules::Guarded {
            let backoff = self.config.prune_backoff + self.config.backoff_slack;
            self.pruned.add(peer, topic, now + backoff);
        }
    }

    /// Remembers a peer that was outside the mesh just now. It receives gossip as long as gossip
    /// announces the messages of this moment.
    fn remember_for_gossip(&mut self, peer: PeerId, topic: TopicIdx, now: Time) {
        if self.config.gossip_to_pruned {
            let gossip = self.config.heartbeat_interval * (self.config.history_gossip as u32 + 1);
            self.pruned.add(peer, topic, now + gossip);
        }
    }

    pub(super) fn receive_prunes(&mut self, from: PeerId, prunes: &[Prune], cx: &mut Cx<'_>) {
        self.metrics.prunes_received += prunes.len() as u64;
        for prune in prunes {
            let joined = self.topics.find(&prune.topic).filter(|topic| self.topics.get(*topic).joined);
            let Some(topic) = joined else {
                self.metrics.ignore(Ignored::PruneNotSubscribed, 1);
                continue;
            };
            self.remove_from_mesh(from, topic, true, cx);
            let backoff = self.backoffs.accepted(prune.backoff, self.config.prune_backoff);
            self.remember_for_gossip(from, topic, cx.now());
            self.backoffs.add(cx.now(), from, topic, backoff);
            if !prune.peers.is_empty() {
                self.receive_exchange(from, &prune.peers, cx);
            }
        }
    }

    /// Builds a PRUNE in the form that the peer understands.
    pub(super) fn make_prune(
        &mut self,
        peer: PeerId,
        topic: TopicIdx,
        exchange: bool,
        unsubscribe: bool,
        cx: &mut Cx<'_>,
    ) -> Prune {
        let name = self.topics.get(topic).name.clone();
        if !self.peers.get(peer).is_some_and(|peer| peer.protocol.has_exchange()) {
            return Prune { topic: name, peers: Vec::new(), backoff: None };
        }
        let config = &self.config;
        let backoff = if unsubscribe { config.unsubscribe_backoff } else { config.prune_backoff };
        let peers = if exchange { self.recommended(peer, topic, cx) } else { Vec::new() };
        Prune { topic: name, peers, backoff: Some(backoff) }
    }
}

/// Returns at most `count` random subscribers that support meshes and are `eligible`.
pub(super) fn candidates(
    state: &TopicState,
    peers: &PeerTable,
    count: usize,
    rng: &mut NodeRng,
    eligible: impl Fn(PeerId) -> bool,
) -> Vec<PeerId> {
    let subscribers = state.subscribers.iter().copied();
    let mut found: Vec<PeerId> =
        subscribers.filter(|peer| peers.has_mesh(*peer) && eligible(*peer)).collect();
    draw(&mut found, count, rng);
    found
}

/// Keeps `count` random elements.
pub(super) fn draw<T>(from: &mut Vec<T>, count: usize, rng: &mut NodeRng) {
    if from.len() > count {
        for at in 0..count {
            let other = at + rng.index(from.len() - at);
            from.swap(at, other);
        }
        from.truncate(count);
    }
}

/// Returns the number of these peers that this node has dialled.
pub(super) fn outbound(peers: &PeerTable, of: &PeerSet) -> usize {
    of.iter().filter(|peer| peers.is_outbound(**peer)).count()
}

impl GossipSub {
    pub(super) fn balance(&mut self, topic: TopicIdx, cx: &mut Cx<'_>) {
        let params = self.mesh_params(topic);
        self.prune_negative(topic, cx);
        let size = self.topics.get(topic).mesh.len();
        if size < params.d_low {
            self.graft_some(topic, params.d - size, cx, |_, _| true);
        }
        if self.topics.get(topic).mesh.len() >= params.d_high {
            self.prune_surplus(topic, &params, cx);
        }
        let size = self.topics.get(topic).mesh.len();
        assert!(size <= params.d.max(params.d_high - 1), "a mesh has {size} peers after its maintenance");
        if self.topics.get(topic).mesh.len() >= params.d_low {
            let have = outbound(&self.peers, &self.topics.get(topic).mesh);
            if have < params.d_out {
                self.graft_some(topic, params.d_out - have, cx, |node, peer| node.peers.is_outbound(peer));
            }
        }
        if self.ticks.is_multiple_of(self.config.opportunistic_graft_ticks) {
            self.graft_opportunistically(topic, cx);
        }
    }

    /// Prunes members with a negative score, without recommending other peers.
    fn prune_negative(&mut self, topic: TopicIdx, cx: &mut Cx<'_>) {
        if !self.scores.is_enabled() {
            return;
        }
        let mesh = &self.topics.get(topic).mesh;
        let negative: Vec<PeerId> =
            mesh.iter().copied().filter(|peer| self.scores.score(*peer) < 0.0).collect();
        for peer in negative {
            self.prune_later(peer, topic, false, cx);
        }
    }

    /// Grafts up to `count` random peers that satisfy `fit`.
    fn graft_some(
        &mut self,
        topic: TopicIdx,
        count: usize,
        cx: &mut Cx<'_>,
        fit: impl Fn(&Self, PeerId) -> bool,
    ) {
        let now = cx.now();
        let state = self.topics.get(topic);
        let eligible = |peer| {
            !state.mesh.contains(peer)
                && !self.peers.is_direct(peer)
                && !self.backoffs.is_pending(now, peer, topic)
                && self.scores.score(peer) >= 0.0
                && fit(self, peer)
        };
        let chosen = candidates(state, &self.peers, count, cx.rng(), eligible);
        for peer in chosen {
            self.graft_later(peer, topic, cx);
        }
    }

    /// Prunes down to D. The best-scored members stay, the others are drawn at random, and at least
    /// `d_out` members that this node dialled stay.
    fn prune_surplus(&mut self, topic: TopicIdx, params: &MeshParams, cx: &mut Cx<'_>) {
        let mut members = self.topics.get(topic).mesh.to_vec();
        if members.len() <= params.d {
            return;
        }
        // The first shuffle breaks ties by chance (without scoring, all scores are equal).
        cx.rng().shuffle(&mut members);
        members.sort_by(|a, b| self.scores.score(*b).total_cmp(&self.scores.score(*a)));
        cx.rng().shuffle(&mut members[params.d_score..]);

        let is_outbound = |peer: &PeerId| self.peers.is_outbound(*peer);
        let have = members[..params.d].iter().filter(|peer| is_outbound(peer)).count();
        let mut lacking = params.d_out.saturating_sub(have);
        if lacking > 0 {
            // Outbound members of the selection move to the front, where no other member displaces
            // them. As many as are lacking follow from outside the selection.
            let (inside, beyond) = members.split_at(params.d);
            let (mut chosen, rest): (Vec<PeerId>, Vec<PeerId>) =
                inside.iter().copied().partition(|peer| is_outbound(peer));
            let mut left = Vec::new();
            for peer in beyond {
                if lacking > 0 && is_outbound(peer) {
                    lacking -= 1;
                    chosen.push(*peer);
                } else {
                    left.push(*peer);
                }
            }
            chosen.extend(rest);
            chosen.extend(left);
            members = chosen;
        }
        let exchange = self.config.peer_exchange;
        for peer in &members[params.d..] {
            self.prune_later(*peer, topic, exchange, cx);
        }
    }

    /// Grafts better peers if the median score of a mesh is too low.
    fn graft_opportunistically(&mut self, topic: TopicIdx, cx: &mut Cx<'_>) {
        let mesh = &self.topics.get(topic).mesh;
        if mesh.len() < 2 || !self.scores.is_enabled() {
            return;
        }
        let mut scores: Vec<f64> = mesh.iter().map(|peer| self.scores.score(*peer)).collect();
        scores.sort_by(f64::total_cmp);
        let median = scores[scores.len() / 2];
        if median < self.config.thresholds.opportunistic_graft {
            let count = self.config.opportunistic_graft_peers;
            self.graft_some(topic, count, cx, |node, peer| node.scores.score(peer) > median);
        }
    }

    /// Adds a peer to a mesh, and sends it a GRAFT at the end of the heartbeat.
    fn graft_later(&mut self, peer: PeerId, topic: TopicIdx, cx: &mut Cx<'_>) {
        self.add_to_mesh(peer, topic, false, cx);
        let name = self.topics.get(topic).name.clone();
        self.outgoing.entry(peer).or_default().graft.push(name);
    }

    /// Removes a peer from a mesh, and sends it a PRUNE at the end of the heartbeat.
    fn prune_later(&mut self, peer: PeerId, topic: TopicIdx, exchange: bool, cx: &mut Cx<'_>) {
        self.remove_from_mesh(peer, topic, false, cx);
        self.backoffs.add(cx.now(), peer, topic, self.config.prune_backoff);
        self.remember_pruned(peer, topic, cx.now());
        let prune = self.make_prune(peer, topic, exchange, false, cx);
        self.outgoing.entry(peer).or_default().prune.push(prune);
    }
}

impl GossipSub {
    /// Fills the fanout of a topic if it is empty, and renews its lifetime.
    pub(super) fn use_fanout(&mut self, topic: TopicIdx, cx: &mut Cx<'_>) {
        if self.topics.get(topic).fanout.is_empty() {
            self.fill_fanout(topic, cx);
        }
        self.topics.set_fanout(topic, Some(cx.now()));
    }

    fn fill_fanout(&mut self, topic: TopicIdx, cx: &mut Cx<'_>) {
        let d = self.mesh_params(topic).d;
        let threshold = self.config.thresholds.publish;
        let (state, peers, scores) = (self.topics.get(topic), &self.peers, &self.scores);
        let fit = |peer: PeerId| {
            !state.fanout.contains(peer) && !peers.is_direct(peer) && scores.score(peer) >= threshold
        };
        let wanted = d.saturating_sub(state.fanout.len());
        let chosen = candidates(state, peers, wanted, cx.rng(), fit);
        for peer in chosen {
            self.topics.get_mut(topic).fanout.insert(peer);
        }
    }

    /// Removes fanouts that have expired, and refills the others.
    pub(super) fn maintain_fanouts(&mut self, cx: &mut Cx<'_>) {
        for topic in self.topics.fanouts().to_vec() {
            let used = self.topics.get(topic).fanout_used;
            if used.is_none_or(|used| used + self.config.fanout_ttl < cx.now()) {
                self.topics.set_fanout(topic, None);
                self.topics.get_mut(topic).fanout = Default::default();
                continue;
            }
            let threshold = self.config.thresholds.publish;
            let scores = &self.scores;
            let state = self.topics.get_mut(topic);
            state.fanout.retain(|peer| state.subscribers.contains(*peer) && scores.score(*peer) >= threshold);
            self.fill_fanout(topic, cx);
            self.emit_gossip(topic, cx);
        }
    }
}

impl GossipSub {
    /// Returns peers to recommend to a pruned peer: subscribers whose score is not negative.
    pub(super) fn recommended(
        &mut self,
        pruned: PeerId,
        topic: TopicIdx,
        cx: &mut Cx<'_>,
    ) -> Vec<ExchangedPeer> {
        let (state, peers, scores) = (self.topics.get(topic), &self.peers, &self.scores);
        let fit = |peer| peer != pruned && scores.score(peer) >= 0.0;
        let chosen = candidates(state, peers, self.config.prune_peers, cx.rng(), fit);
        let chosen = chosen.into_iter().filter_map(|peer| peers.get(peer));
        let recommend = |peer: &super::tables::Peer| ExchangedPeer {
            identity: peer.info.identity.as_bytes().to_vec().into(),
            signed_record: peer.signed_record.clone().map(|record| *record),
        };
        chosen.map(recommend).collect()
    }

    /// Dials some of the peers that another peer recommends.
    pub(super) fn receive_exchange(&mut self, from: PeerId, peers: &[ExchangedPeer], cx: &mut Cx<'_>) {
        if self.config.prune_peers == 0 || self.scores.score(from) < self.config.thresholds.accept_px {
            self.metrics.ignore(Ignored::ExchangeScore, peers.len() as u64);
            return;
        }
        let mut chosen: Vec<&ExchangedPeer> = peers.iter().collect();
        draw(&mut chosen, self.config.prune_peers, cx.rng());
        self.metrics.ignore(Ignored::ExchangeOverLimit, (peers.len() - chosen.len()) as u64);
        for peer in chosen {
            let identity = PeerIdentity::new(&peer.identity);
            let known = identity == self.identity
                || self.peers.find(&identity).is_some()
                || self.dialling.contains(&identity);
            if known {
                continue;
            }
            if self.dialling.len() >= self.config.pending_dials_max {
                self.metrics.ignore(Ignored::ExchangeOverLimit, 1);
                continue;
            }
            self.dialling.insert(identity.clone());
            self.metrics.exchange_dials += 1;
            let signed_record = peer.signed_record.clone();
            cx.emit(Event::PeerExchanged { from, identity: identity.clone(), signed_record });
            cx.dial(identity);
        }
    }

    /// Keeps a link to a peer from now on and sends it every message. The peer must do the same.
    pub fn add_direct_peer(&mut self, identity: PeerIdentity, cx: &mut Cx<'_>) {
        if !self.direct.insert(identity.clone()) {
            return;
        }
        match self.peers.find(&identity) {
            None => cx.dial(identity),
            Some(peer) => self.set_direct(peer, true, cx),
        }
    }

    /// Treats a direct peer like others again. Its link stays open.
    pub fn remove_direct_peer(&mut self, identity: &PeerIdentity, cx: &mut Cx<'_>) {
        if self.direct.remove(identity)
            && let Some(peer) = self.peers.find(identity)
        {
            self.set_direct(peer, false, cx);
        }
    }

    /// Replaces [`Config::observers`](crate::Config::observers): peers that never receive messages,
    /// but whose announcements count.
    pub fn set_observers(&mut self, observers: impl IntoIterator<Item = PeerIdentity>, cx: &mut Cx<'_>) {
        self.observers = observers.into_iter().collect();
        for id in self.peers.connected().to_vec() {
            let Some(peer) = self.peers.get_mut(id) else { continue };
            peer.observer = self.observers.contains(&peer.info.identity);
            cx.outbox().set_observer(id, peer.observer);
            if peer.observer {
                self.drop_from_meshes(id, cx);
            }
        }
    }

    fn set_direct(&mut self, id: PeerId, direct: bool, cx: &mut Cx<'_>) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        peer.direct = direct;
        let always = direct || !peer.protocol.has_mesh();
        for topic in peer.topics.clone() {
            let state = self.topics.get_mut(topic);
            if always {
                state.always.insert(id);
            } else {
                state.always.remove(id);
            }
        }
        if direct {
            self.drop_from_meshes(id, cx);
        }
    }

    /// Removes a peer from all meshes and fanouts, because its role has changed.
    fn drop_from_meshes(&mut self, id: PeerId, cx: &mut Cx<'_>) {
        for topic in self.topics.joined().to_vec() {
            if self.topics.get(topic).mesh.contains(id) {
                self.remove_from_mesh(id, topic, false, cx);
                let prune = self.make_prune(id, topic, false, false, cx);
                self.send_control(id, crate::rpc::Control { prune: vec![prune], ..Default::default() }, cx);
            }
        }
        for topic in self.topics.fanouts().to_vec() {
            self.topics.get_mut(topic).fanout.remove(id);
        }
    }

    /// Dials direct peers that are not connected.
    pub(super) fn connect_direct(&mut self, cx: &mut Cx<'_>) {
        for identity in &self.direct {
            if self.peers.find(identity).is_none() {
                cx.dial(identity.clone());
            }
        }
    }
}
