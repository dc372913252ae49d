//! Who gets a message.

use samara_engine::PeerId;
use smallvec::SmallVec;

use super::{Cx, GossipSub};
use crate::ids::TopicIdx;
use crate::rpc::{Message, MessageId};

impl GossipSub {
    /// The peers that a message of this node goes to.
    pub(super) fn recipients_of_own(
        &mut self,
        topic: TopicIdx,
        id: &MessageId,
        message: &Message,
        cx: &mut Cx<'_>,
    ) -> Vec<PeerId> {
        let config = &self.config;
        let flood = config.flood_publish && message.data.len() <= config.flood_publish_max_bytes;
        if flood {
            let threshold = config.thresholds.publish;
            let state = self.topics.get(topic);
            let fit = |peer: &PeerId| self.peers.is_direct(*peer) || self.scores.score(*peer) >= threshold;
            let all = state.subscribers.as_slice().iter().copied().filter(fit).collect();
            return self.without_holders(all, id, message, None, &[], cx);
        }
        if !self.topics.get(topic).joined {
            self.use_fanout(topic, cx);
        }
        let chosen = self.routed(topic);
        self.without_holders(chosen, id, message, None, &[], cx)
    }

    /// The peers that a message of others is forwarded to. `holders` are those who sent a copy meanwhile.
    pub(super) fn recipients_of_forwarded(
        &mut self,
        topic: TopicIdx,
        id: &MessageId,
        message: &Message,
        from: PeerId,
        holders: &[PeerId],
        cx: &mut Cx<'_>,
    ) -> Vec<PeerId> {
        let chosen = self.routed(topic);
        self.without_holders(chosen, id, message, Some(from), holders, cx)
    }

    /// Direct and floodsub peers, and the mesh or the fanout.
    fn routed(&self, topic: TopicIdx) -> Vec<PeerId> {
        let state = self.topics.get(topic);
        let pushed_to = if state.joined { &state.mesh } else { &state.fanout };
        let mut chosen = Vec::with_capacity(pushed_to.len() + state.always.len());
        chosen.extend_from_slice(pushed_to.as_slice());
        if !state.always.is_empty() {
            let threshold = self.config.thresholds.publish;
            let fit = |peer: &PeerId| self.peers.is_direct(*peer) || self.scores.score(*peer) >= threshold;
            let always = state.always.as_slice().iter().copied().filter(fit);
            chosen.extend(always.filter(|peer| !pushed_to.contains(*peer)));
        }
        chosen
    }

    /// Leaves out those who have the message or do not want it, and brings the rest into the order in which they are
    /// handed to the schedule.
    fn without_holders(
        &mut self,
        mut peers: Vec<PeerId>,
        id: &MessageId,
        message: &Message,
        from: Option<PeerId>,
        holders: &[PeerId],
        cx: &mut Cx<'_>,
    ) -> Vec<PeerId> {
        let author = message.from.as_deref();
        let unwanted: SmallVec<[PeerId; 16]> =
            self.unwanted.peers(id).iter().map(|(peer, _)| *peer).collect();
        let table = &self.peers;
        let mut suppressed = 0;
        peers.retain(|peer| {
            if Some(*peer) == from || holders.contains(peer) {
                return false;
            }
            let Some(state) = table.get(*peer) else { return false };
            if state.observer || author == Some(state.info.identity.as_bytes()) {
                return false;
            }
            if unwanted.contains(peer) {
                suppressed += 1;
                return false;
            }
            true
        });
        self.metrics.copies_suppressed += suppressed;
        if self.config.shuffle_recipients {
            cx.rng().shuffle(&mut peers);
        }
        peers
    }
}
