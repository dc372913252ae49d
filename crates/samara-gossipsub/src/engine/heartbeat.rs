//! What happens at each heartbeat (specification v1.1, "Heartbeat procedure").

use super::{Cx, GossipSub};

impl GossipSub {
    pub(super) fn heartbeat(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        self.ticks += 1;
        self.metrics.heartbeats += 1;
        self.backoffs.prune_expired(now);
        self.seen.expire(now);
        self.expire_idontwants();
        self.expire_validations(cx);
        for (peer, count) in self.promises.broken(now) {
            self.metrics.promises_broken += u64::from(count);
            self.scores.add_penalty(peer, f64::from(count));
        }
        if self.ticks.is_multiple_of(self.config.direct_connect_ticks) {
            self.connect_direct(cx);
        }
        for at in 0..self.topics.joined().len() {
            let topic = self.topics.joined()[at];
            self.balance(topic, cx);
            self.emit_gossip(topic, cx);
        }
        self.maintain_fanouts(cx);
        for at in 0..self.peers.connected().len() {
            let id = self.peers.connected()[at];
            if let Some(peer) = self.peers.get_mut(id) {
                peer.counts = Default::default();
            }
            self.retry(id, cx);
        }
        self.flush(cx);
        self.mcache.shift();
    }
}
