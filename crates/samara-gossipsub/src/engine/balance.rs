//! Keeping a mesh at its size, with good peers (specification v1.1, "Mesh maintenance", "Opportunistic grafting",
//! "Outbound mesh quotas").

use samara_engine::PeerId;

use super::mesh::{candidates, outbound};
use super::{Cx, GossipSub};
use crate::config::MeshParams;
use crate::ids::TopicIdx;

impl GossipSub {
    /// Maintains one mesh.
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

    /// Members in disgrace go, and are not told of others.
    fn prune_negative(&mut self, topic: TopicIdx, cx: &mut Cx<'_>) {
        if !self.scores.is_enabled() {
            return;
        }
        let mesh = self.topics.get(topic).mesh.as_slice();
        let negative: Vec<PeerId> =
            mesh.iter().copied().filter(|peer| self.scores.score(*peer) < 0.0).collect();
        for peer in negative {
            self.prune_later(peer, topic, false, cx);
        }
    }

    /// Grafts up to `count` peers of whom `fit` holds.
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

    /// Prunes down to D: the best stay, the others are drawn at random, and enough that this node dialled stay in any case.
    fn prune_surplus(&mut self, topic: TopicIdx, params: &MeshParams, cx: &mut Cx<'_>) {
        let mut members = self.topics.get(topic).mesh.as_slice().to_vec();
        if members.len() <= params.d {
            return;
        }
        // Shuffled first, so that equal scores (all of them, without scoring) leave it to chance.
        cx.rng().shuffle(&mut members);
        members.sort_by(|a, b| self.scores.score(*b).total_cmp(&self.scores.score(*a)));
        cx.rng().shuffle(&mut members[params.d_score..]);

        let is_outbound = |peer: &PeerId| self.peers.is_outbound(*peer);
        let have = members[..params.d].iter().filter(|peer| is_outbound(peer)).count();
        let mut lacking = params.d_out.saturating_sub(have);
        if lacking > 0 {
            // Those within the selection come to the front, where no other displaces them, and then as many as are
            // lacking from beyond it.
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

    /// A mesh whose median peer is not good enough gets some that are better.
    fn graft_opportunistically(&mut self, topic: TopicIdx, cx: &mut Cx<'_>) {
        let mesh = self.topics.get(topic).mesh.as_slice();
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

    /// Puts a peer into a mesh and tells it at the end of the heartbeat.
    fn graft_later(&mut self, peer: PeerId, topic: TopicIdx, cx: &mut Cx<'_>) {
        self.add_to_mesh(peer, topic, false, cx);
        let name = self.topics.get(topic).name.clone();
        self.outgoing.entry(peer).or_default().graft.push(name);
    }

    /// Takes a peer out of a mesh and tells it at the end of the heartbeat.
    fn prune_later(&mut self, peer: PeerId, topic: TopicIdx, exchange: bool, cx: &mut Cx<'_>) {
        self.remove_from_mesh(peer, topic, false, cx);
        self.backoffs.add(cx.now(), peer, topic, self.config.prune_backoff);
        self.remember_turned_away(peer, topic, cx.now());
        let prune = self.make_prune(peer, topic, exchange, false, cx);
        self.outgoing.entry(peer).or_default().prune.push(prune);
    }
}
