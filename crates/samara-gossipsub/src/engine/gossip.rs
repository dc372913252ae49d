//! Lazy gossip: IHAVE and IWANT (specification v1.0 "Gossip piggybacking", v1.1 "Spam protection measures").

use samara_engine::PeerId;

use super::mesh::draw;
use super::{Cx, GossipSub, Ignored, deadline};
use crate::ids::TopicIdx;
use crate::rpc::{IHave, MessageId, Rpc, RpcFrame};

impl GossipSub {
    /// Announces the recent messages of a topic to some peers outside of the mesh or the fanout.
    pub(super) fn emit_gossip(&mut self, topic: TopicIdx, cx: &mut Cx<'_>) {
        let mut ids: Vec<MessageId> = self.mcache.gossip_ids(topic).map(|(_, id)| id.clone()).collect();
        if ids.is_empty() {
            return;
        }
        let params = self.mesh_params(topic);
        let threshold = self.config.thresholds.gossip;
        let turned_away = self.turned_away.of(topic, cx.now());
        let state = self.topics.get(topic);
        let pushed_to = if state.joined { &state.mesh } else { &state.fanout };
        let fit = |peer: &PeerId| {
            !self.peers.is_direct(*peer)
                && self.peers.has_mesh(*peer)
                && self.scores.score(*peer) >= threshold
        };
        // Also if they are in the mesh again: what came while they were not is missing.
        let mut told = turned_away;
        told.retain(|peer| state.subscribers.contains(*peer) && fit(peer));
        let outside =
            |peer: &PeerId| !pushed_to.contains(*peer) && told.binary_search(peer).is_err() && fit(peer);
        let mut peers: Vec<PeerId> = state.subscribers.as_slice().iter().copied().filter(outside).collect();
        let share = (params.gossip_factor * peers.len() as f64) as usize;
        draw(&mut peers, params.d_lazy.max(share), cx.rng());
        peers.append(&mut told);
        if peers.is_empty() {
            return;
        }
        let name = state.name.clone();
        let ids_max = self.config.gossip.ihave_ids_max;
        cx.rng().shuffle(&mut ids);
        for peer in peers {
            // Where the list is cut, everybody gets another part of it, so that all of it is gossiped about.
            if ids.len() > ids_max {
                cx.rng().shuffle(&mut ids);
            }
            let ids = ids[..ids.len().min(ids_max)].to_vec();
            self.outgoing.entry(peer).or_default().ihave.push(IHave { topic: name.clone(), ids });
        }
    }

    /// What a peer announces. Returns the ids to ask it for.
    pub(super) fn receive_ihaves(
        &mut self,
        from: PeerId,
        ihaves: &[IHave],
        cx: &mut Cx<'_>,
    ) -> Vec<MessageId> {
        let ids_received: u64 = ihaves.iter().map(|ihave| ihave.ids.len() as u64).sum();
        self.metrics.ihave_ids_received += ids_received;
        if self.scores.score(from) < self.config.thresholds.gossip {
            self.metrics.ignore(Ignored::IHaveScore, ids_received);
            return Vec::new();
        }
        let limits = &self.config.gossip;
        let ids_max = limits.ihave_ids_max;
        let Some(peer) = self.peers.get_mut(from) else { return Vec::new() };
        peer.counts.ihaves = peer.counts.ihaves.saturating_add(1);
        if peer.counts.ihaves > limits.ihave_messages_max {
            self.metrics.ignore(Ignored::IHaveMessagesOverLimit, ids_received);
            return Vec::new();
        }
        let room = ids_max.saturating_sub(peer.counts.asked);
        if room == 0 {
            self.metrics.ignore(Ignored::IHaveIdsOverLimit, ids_received);
            return Vec::new();
        }
        let mut missing = Vec::new();
        for IHave { topic, ids } in ihaves {
            let joined = self.topics.find(topic).is_some_and(|topic| self.topics.get(topic).joined);
            if !joined {
                self.metrics.ignore(Ignored::IHaveNotSubscribed, ids.len() as u64);
                continue;
            }
            self.metrics.ignore(Ignored::IHaveIdsOverLimit, ids.len().saturating_sub(ids_max) as u64);
            for id in ids.iter().take(ids_max) {
                match self.seen.get(cx.now(), id) {
                    None => missing.push(id.clone()),
                    Some(key) => {
                        let now = cx.now();
                        cx.outbox().note_has(now, from, key);
                        if self.config.withdraw.on_ihave {
                            self.withdraw(from, key, cx);
                        }
                    }
                }
            }
        }
        missing.sort_unstable();
        missing.dedup();
        self.ask(from, missing, room, cx)
    }

    /// Chooses what to ask a peer for, and expects it to keep its word.
    fn ask(&mut self, of: PeerId, mut ids: Vec<MessageId>, room: usize, cx: &mut Cx<'_>) -> Vec<MessageId> {
        cx.rng().shuffle(&mut ids);
        if ids.len() > room {
            self.metrics.ignore(Ignored::IHaveIdsOverLimit, (ids.len() - room) as u64);
            ids.truncate(room);
        }
        if let Some(peer) = self.peers.get_mut(of) {
            peer.counts.asked += ids.len();
        }
        self.promises.add(cx.now(), of, &ids, cx.rng());
        ids
    }

    /// What a peer asks for.
    pub(super) fn receive_iwant(&mut self, from: PeerId, ids: &[MessageId], cx: &mut Cx<'_>) {
        self.metrics.iwant_ids_received += ids.len() as u64;
        if self.scores.score(from) < self.config.thresholds.gossip {
            self.metrics.ignore(Ignored::IWantScore, ids.len() as u64);
            return;
        }
        let ids_max = self.config.gossip.iwant_ids_max;
        let Some(peer) = self.peers.get_mut(from) else { return };
        if peer.observer {
            self.metrics.ignore(Ignored::IWantUnwanted, ids.len() as u64);
            return;
        }
        let taken = ids.len().min(ids_max.saturating_sub(peer.counts.iwanted));
        peer.counts.iwanted += taken;
        self.metrics.ignore(Ignored::IWantIdsOverLimit, (ids.len() - taken) as u64);
        for id in &ids[..taken] {
            if let Err(cause) = self.answer(from, id, cx) {
                self.metrics.ignore(cause, 1);
            }
        }
    }

    fn answer(&mut self, to: PeerId, id: &MessageId, cx: &mut Cx<'_>) -> Result<(), Ignored> {
        if self.unwanted.contains(to, id) {
            return Err(Ignored::IWantUnwanted);
        }
        let now = cx.now();
        let key = self.seen.get(now, id).ok_or(Ignored::IWantUnknown)?;
        let (message, count) = self.mcache.get_for_peer(key, to).ok_or(Ignored::IWantUnknown)?;
        if count > self.config.gossip.retransmissions_max {
            return Err(Ignored::IWantRetransmissions);
        }
        // A copy that it is owed anyway is on its way. Moving it ahead would put second copies before first ones: whoever
        // waits for a burst asks for much of it.
        if self.config.withdraw.on_iwant && cx.outbox().owes(to, key) {
            return Ok(());
        }
        let publish = [message.clone()].into_iter().collect();
        let frame = RpcFrame::new(Rpc { publish, ..Rpc::default() });
        let deadline = deadline(now, self.config.forward_deadline);
        if self.owe(to, self.lanes.answer, frame, Some(key), deadline, cx) {
            self.metrics.copies_answered += 1;
        }
        Ok(())
    }
}
