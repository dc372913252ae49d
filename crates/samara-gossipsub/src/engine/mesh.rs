//! Meshes: JOIN and LEAVE, GRAFT and PRUNE (specification v1.0 "Topic mesh", v1.1 "Prune backoff").

use samara_engine::{NodeRng, PeerId, Time};

use super::peers::PeerTable;
use super::topics::{PeerSet, TopicState};
use super::{Cx, GossipSub, Ignored, Trace};
use crate::config::{MeshParams, MeshRules};
use crate::ids::TopicIdx;
use crate::rpc::{Control, Prune, Topic};

impl GossipSub {
    /// The parameters of a topic's mesh.
    pub(super) fn mesh_params(&self, topic: TopicIdx) -> MeshParams {
        let state = self.topics.get(topic);
        if state.special { self.config.mesh_of(&state.name) } else { self.config.mesh }
    }

    /// Forms a mesh: of the fanout, if there is one, and of other subscribers. The GRAFTs leave with the next flush.
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
        for peer in chosen.as_slice() {
            self.add_to_mesh(*peer, topic, false, cx);
            self.outgoing.entry(*peer).or_default().graft.push(name.clone());
        }
    }

    /// Dissolves a mesh.
    pub(super) fn leave(&mut self, topic: TopicIdx, cx: &mut Cx<'_>) {
        let backoff = self.config.unsubscribe_backoff;
        let mesh = std::mem::take(&mut self.topics.get_mut(topic).mesh);
        let name = self.topics.get(topic).name.clone();
        for peer in mesh.as_slice() {
            self.scores.prune(*peer, topic);
            self.trace(cx, || Trace::Pruned { peer: *peer, topic: name.clone(), by_peer: false });
            let prune = self.make_prune(*peer, topic, self.config.peer_exchange, true, cx);
            self.send_control(*peer, Control { prune: vec![prune], ..Control::default() }, cx);
            self.backoffs.add(cx.now(), *peer, topic, backoff);
        }
        self.turned_away.forget_topic(topic);
        self.trace(cx, || Trace::Left(name));
    }

    /// Grafts a peer that has just subscribed, if the mesh lacks peers.
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

    /// Puts a peer into a mesh, without telling it.
    pub(super) fn add_to_mesh(&mut self, peer: PeerId, topic: TopicIdx, by_peer: bool, cx: &mut Cx<'_>) {
        let state = self.topics.get_mut(topic);
        if state.mesh.insert(peer) {
            let name = state.name.clone();
            self.scores.graft(cx.now(), peer, topic);
            // It has not been sent what came before.
            self.tell_for_now(peer, topic, cx.now());
            self.trace(cx, || Trace::Grafted { peer, topic: name, by_peer });
        }
    }

    /// Takes a peer out of a mesh, without telling it.
    pub(super) fn remove_from_mesh(&mut self, peer: PeerId, topic: TopicIdx, by_peer: bool, cx: &mut Cx<'_>) {
        let state = self.topics.get_mut(topic);
        if state.mesh.remove(peer) {
            let name = state.name.clone();
            self.scores.prune(peer, topic);
            self.trace(cx, || Trace::Pruned { peer, topic: name, by_peer });
        }
    }

    /// Peers that want to be in meshes. Returns the PRUNEs for those that cannot.
    pub(super) fn receive_grafts(&mut self, from: PeerId, grafts: &[Topic], cx: &mut Cx<'_>) -> Vec<Prune> {
        self.metrics.grafts_received += grafts.len() as u64;
        if !self.peers.has_mesh(from) {
            self.metrics.ignore(Ignored::GraftRole, grafts.len() as u64);
            return Vec::new();
        }
        let mut refused = Vec::new();
        let mut exchange = self.config.peer_exchange;
        for name in grafts {
            let joined = self.topics.find(name).filter(|topic| self.topics.get(*topic).joined);
            let Some(topic) = joined else {
                // Neither an answer nor a trace of it: a flood of invented topics must cost nothing, and a list of
                // peers is not for everybody.
                self.metrics.ignore(Ignored::GraftNotSubscribed, 1);
                exchange = false;
                continue;
            };
            if self.topics.get(topic).mesh.contains(from) {
                continue;
            }
            match self.judge_graft(from, topic, cx) {
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

    /// Whether a GRAFT is accepted, with the consequences that a refused one has apart from the PRUNE.
    fn judge_graft(&mut self, from: PeerId, topic: TopicIdx, cx: &mut Cx<'_>) -> Result<(), Ignored> {
        let now = cx.now();
        let prune_backoff = self.config.prune_backoff;
        if self.peers.is_direct(from) {
            return Err(Ignored::GraftDirectPeer);
        }
        if let Some(until) = self.backoffs.until(from, topic).filter(|until| now < *until) {
            self.scores.add_penalty(from, 1.0);
            // So soon after the PRUNE that it cannot be a difference of clocks.
            let flood = now + prune_backoff < until + self.config.graft_flood_threshold;
            if flood {
                self.scores.add_penalty(from, 1.0);
            }
            self.backoffs.add(now, from, topic, prune_backoff);
            return Err(Ignored::GraftBackoff);
        }
        if self.scores.score(from) < 0.0 {
            self.backoffs.add(now, from, topic, prune_backoff);
            return Err(Ignored::GraftScore);
        }
        // A full mesh takes only peers that this node has dialled: against sybils that dial in and graft.
        let guarded = self.config.mesh_rules == MeshRules::Guarded;
        let full = guarded && self.topics.get(topic).mesh.len() >= self.mesh_params(topic).d_high;
        if full && !self.peers.is_outbound(from) {
            self.backoffs.add(now, from, topic, prune_backoff);
            self.remember_turned_away(from, topic, now);
            return Err(Ignored::GraftMeshFull);
        }
        Ok(())
    }

    /// A peer that wants to be in the mesh is not: it is told of messages until it may graft again, and at least for as long
    /// as those of this moment are gossiped about.
    pub(super) fn remember_turned_away(&mut self, peer: PeerId, topic: TopicIdx, now: Time) {
        self.tell_for_now(peer, topic, now);
        if self.config.gossip_to_turned_away && self.config.mesh_rules == MeshRules::Guarded {
            let backoff = self.config.prune_backoff + self.config.backoff_slack;
            self.turned_away.add(peer, topic, now + backoff);
        }
    }

    /// A peer was outside of the mesh just now: it is told of messages for as long as those of this moment are gossiped
    /// about.
    fn tell_for_now(&mut self, peer: PeerId, topic: TopicIdx, now: Time) {
        if self.config.gossip_to_turned_away {
            let gossip = self.config.heartbeat_interval * (self.config.history_gossip as u32 + 1);
            self.turned_away.add(peer, topic, now + gossip);
        }
    }

    /// Peers that leave meshes.
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
            self.tell_for_now(from, topic, cx.now());
            self.backoffs.add(cx.now(), from, topic, backoff);
            if !prune.peers.is_empty() {
                self.receive_exchange(from, &prune.peers, cx);
            }
        }
    }

    /// A PRUNE in the form that the peer understands.
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

/// At most `count` subscribers that know meshes and are `eligible`, drawn at random.
pub(super) fn candidates(
    state: &TopicState,
    peers: &PeerTable,
    count: usize,
    rng: &mut NodeRng,
    eligible: impl Fn(PeerId) -> bool,
) -> Vec<PeerId> {
    let subscribers = state.subscribers.as_slice().iter().copied();
    let mut found: Vec<PeerId> =
        subscribers.filter(|peer| peers.has_mesh(*peer) && eligible(*peer)).collect();
    draw(&mut found, count, rng);
    found
}

/// Keeps `count` elements, drawn at random.
pub(super) fn draw<T>(from: &mut Vec<T>, count: usize, rng: &mut NodeRng) {
    if from.len() > count {
        for at in 0..count {
            let other = at + rng.index(from.len() - at);
            from.swap(at, other);
        }
        from.truncate(count);
    }
}

/// How many of these peers this node has dialled.
pub(super) fn outbound(peers: &PeerTable, of: &PeerSet) -> usize {
    of.as_slice().iter().filter(|peer| peers.is_outbound(**peer)).count()
}
