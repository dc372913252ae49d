//! Publishing to topics that are not joined (specification v1.0, "Fanout").

use samara_engine::PeerId;

use super::mesh::candidates;
use super::{Cx, GossipSub};
use crate::ids::TopicIdx;

impl GossipSub {
    /// Fills the fanout of a topic if it is empty, and keeps it alive.
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

    /// Forgets fanouts that were not used lately, and completes the others.
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
