//! The way of a message, and the tree. Names in code type are those of the procedures in the paper.

use std::sync::Arc;

use samara_engine::{Frame, PeerId};

use super::missing::Announcers;
use super::{Graft, Plumtree, PlumtreeFrame};
use crate::app::{Cx, Event, Receipt, RequestError};
use crate::message::{Message, MessageId};
use crate::metrics::Ignored;

impl Plumtree {
    /// `Broadcast`.
    pub(super) fn broadcast(
        &mut self,
        message: Arc<Message>,
        cx: &mut Cx<'_, PlumtreeFrame>,
    ) -> Result<Receipt, RequestError> {
        let frame = PlumtreeFrame::Gossip { message: Arc::clone(&message), round: 0 };
        let key = self.core.take_own(&message, frame.encoded_len(), cx)?;
        // Neighbours may have announced it, if it was made elsewhere.
        self.missing.remove(message.id());
        self.cache.put(cx.now(), key, Arc::clone(&message), 0);
        let receipt = self.core.owe_own(&message, key, frame, self.eager_peers().to_vec(), cx);
        self.lazy_push(message.id(), 0, None, cx);
        if self.joined {
            self.core.deliver_own(key, message, Some(0), cx);
        }
        Ok(receipt)
    }

    /// `Receive(GOSSIP)`. `round` counts the links before the one that it came over.
    pub(super) fn receive_gossip(
        &mut self,
        from: PeerId,
        message: Arc<Message>,
        round: u32,
        cx: &mut Cx<'_, PlumtreeFrame>,
    ) {
        let now = cx.now();
        let id = message.id();
        self.core.metrics.messages_received += 1;
        if let Some(key) = self.core.seen.get(now, id) {
            self.core.duplicate(from, key, cx);
            self.prune(from, cx);
            return;
        }
        let key = self.core.seen.insert(now, id);
        self.core.metrics.messages_delivered += 1;
        let announcers = self.missing.remove(id);
        let hops = round.saturating_add(1);
        self.cache.put(now, key, Arc::clone(&message), hops);

        let eager = self.eager_peers();
        let mut peers = Vec::with_capacity(eager.len());
        peers.extend(eager.iter().filter(|peer| **peer != from));
        let frame = PlumtreeFrame::Gossip { message: Arc::clone(&message), round: hops };
        self.core.owe_forwarded(key, frame, peers, cx);
        self.lazy_push(id, hops, Some(from), cx);

        self.make_eager(from);
        if !announcers.is_empty() {
            self.optimize(from, round, &announcers, cx);
        }
        if self.joined {
            cx.emit(Event::Message { key, message, from: Some(from), hops: Some(hops) });
        }
    }

    /// Replaces the link that a message came over by one on which it was announced with far fewer hops (`Optimize`).
    fn optimize(
        &mut self,
        from: PeerId,
        round: u32,
        announcers: &Announcers,
        cx: &mut Cx<'_, PlumtreeFrame>,
    ) {
        let Some(threshold) = self.config.optimization_threshold else { return };
        let better = |best: u32| best < round && round - best >= threshold;
        let best = announcers.iter().filter(|(peer, _)| *peer != from).min_by_key(|(_, round)| *round);
        let Some((peer, best)) = best.copied().filter(|(_, best)| better(*best)) else { return };
        self.core.metrics.optimizations += 1;
        if !self.eager.contains(peer) {
            self.graft(peer, None, best, cx);
        }
        self.prune(from, cx);
    }

    /// `Receive(GRAFT)`.
    pub(super) fn receive_graft(
        &mut self,
        from: PeerId,
        id: Option<MessageId>,
        cx: &mut Cx<'_, PlumtreeFrame>,
    ) {
        self.core.metrics.grafts_received += 1;
        self.make_eager(from);
        if let Some(id) = id
            && let Err(cause) = self.answer(from, id, cx)
        {
            self.core.metrics.ignore(cause, 1);
        }
    }

    /// Sends a message that a neighbour has asked for.
    fn answer(&mut self, to: PeerId, id: MessageId, cx: &mut Cx<'_, PlumtreeFrame>) -> Result<(), Ignored> {
        let now = cx.now();
        let key = self.core.seen.get(now, id).ok_or(Ignored::GraftUnknown)?;
        let (message, round) = self.cache.get(now, key).ok_or(Ignored::GraftUnknown)?;
        let message = Arc::clone(message);
        if cx.outbox().owes(to, key) {
            return Err(Ignored::GraftOwed);
        }
        // A GRAFT is a fraction of what it asks for: nobody may have this node send without end.
        let second = now.as_nanos() / 1_000_000_000;
        let Some(peer) = self.peers.get_mut(to) else { return Err(Ignored::FrameUnknownPeer) };
        if peer.grafts.0 != second {
            peer.grafts = (second, 0);
        }
        if peer.grafts.1 >= self.config.grafts_per_second_max {
            return Err(Ignored::GraftOverLimit);
        }
        peer.grafts.1 += 1;
        self.core.metrics.copies_answered += 1;
        let frame = PlumtreeFrame::Gossip { message, round };
        self.core.owe(to, self.core.lanes.forwarded, frame, Some(key), cx);
        Ok(())
    }

    /// Asks for messages in full from now on, and for one that is missing. Whether there was room to say so.
    pub(super) fn graft(
        &mut self,
        peer: PeerId,
        id: Option<MessageId>,
        round: u32,
        cx: &mut Cx<'_, PlumtreeFrame>,
    ) -> bool {
        self.make_eager(peer);
        self.core.metrics.grafts_sent += 1;
        let frame = PlumtreeFrame::Graft(Arc::new(Graft { topic: self.topic.clone(), id, round }));
        self.core.owe(peer, self.core.lanes.control, frame, None, cx)
    }

    /// Asks for announcements only, from now on. Said for every duplicate, as in the paper: the peer may have made this node
    /// eager again since it was last told, or there was no room to tell it.
    fn prune(&mut self, peer: PeerId, cx: &mut Cx<'_, PlumtreeFrame>) {
        self.make_lazy(peer);
        self.core.metrics.prunes_sent += 1;
        let frame = PlumtreeFrame::Prune(self.topic.clone());
        self.core.owe(peer, self.core.lanes.control, frame, None, cx);
    }

    pub(super) fn make_eager(&mut self, peer: PeerId) {
        if self.peers.contains(peer) && self.eager.insert(peer) {
            self.lazy.remove(peer);
        }
    }

    pub(super) fn make_lazy(&mut self, peer: PeerId) {
        if self.peers.contains(peer) && self.lazy.insert(peer) {
            self.eager.remove(peer);
        }
    }
}
