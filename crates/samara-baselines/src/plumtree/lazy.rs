//! Announcements: sending them, and asking for what they announce.

use std::sync::Arc;

use samara_engine::PeerId;

use super::{DISPATCH, GRAFT, IHave, Plumtree, PlumtreeFrame};
use crate::app::Cx;
use crate::message::MessageId;
use crate::metrics::Ignored;

impl Plumtree {
    /// Announces a message to all lazy neighbours at the next dispatch (`LazyPush`).
    pub(super) fn lazy_push(
        &mut self,
        id: MessageId,
        round: u32,
        from: Option<PeerId>,
        cx: &mut Cx<'_, PlumtreeFrame>,
    ) {
        let mut waiting = false;
        for peer in self.lazy.as_slice() {
            let Some(neighbour) = self.peers.get_mut(*peer).filter(|_| Some(*peer) != from) else { continue };
            if neighbour.announcements.len() >= self.config.ihave_queue_max {
                self.core.metrics.ihave_ids_dropped += 1;
                continue;
            }
            neighbour.announcements.push((id, round));
            waiting = true;
        }
        if waiting && !self.dispatching {
            self.dispatching = true;
            let at = cx.now() + self.config.dispatch_interval;
            cx.set_timer(at, DISPATCH);
        }
    }

    /// Sends the collected announcements (`dispatch`).
    pub(super) fn dispatch(&mut self, cx: &mut Cx<'_, PlumtreeFrame>) {
        self.dispatching = false;
        for at in 0..self.peers.connected().len() {
            let peer = self.peers.connected()[at];
            let Some(neighbour) = self.peers.get_mut(peer) else { continue };
            let mut messages = std::mem::take(&mut neighbour.announcements);
            while !messages.is_empty() {
                let rest = messages.split_off(messages.len().min(self.config.ihave_ids_max));
                self.core.metrics.ihave_ids_sent += messages.len() as u64;
                let ihave = IHave { topic: self.topic.clone(), messages };
                let frame = PlumtreeFrame::IHave(Arc::new(ihave));
                self.core.owe(peer, self.core.lanes.control, frame, None, cx);
                messages = rest;
            }
        }
    }

    /// `Receive(IHAVE)`.
    pub(super) fn receive_ihave(
        &mut self,
        from: PeerId,
        messages: &[(MessageId, u32)],
        cx: &mut Cx<'_, PlumtreeFrame>,
    ) {
        let now = cx.now();
        let looked_at = messages.len().min(self.config.ihave_ids_max);
        self.core.metrics.ihave_ids_received += messages.len() as u64;
        self.core.metrics.ignore(Ignored::IHaveIdsOverLimit, (messages.len() - looked_at) as u64);
        for (id, round) in &messages[..looked_at] {
            if let Some(key) = self.core.seen.get(now, *id) {
                self.core.peer_has(from, key, cx);
            } else if let Err(cause) = self.missing.announce(now, *id, from, *round) {
                self.core.metrics.ignore(cause, 1);
            }
        }
        self.set_graft_timer(cx);
    }

    /// Asks for the messages whose time is over, each from the neighbour that announced it first and was not asked yet
    /// (`Timer`).
    pub(super) fn graft_missing(&mut self, cx: &mut Cx<'_, PlumtreeFrame>) {
        let now = cx.now();
        self.graft_timer = self.graft_timer.filter(|at| *at > now);
        while let Some(id) = self.missing.next_due(now) {
            let Some((peer, round)) = self.missing.take_announcer(id) else {
                // Nobody is left to ask. Whoever announces it from now on is asked after the first timeout again.
                self.missing.remove(id);
                self.core.metrics.missing_given_up += 1;
                continue;
            };
            if !self.graft(peer, Some(id), round, cx) {
                self.missing.put_back(id, peer, round);
            }
            self.missing.wait_for_retry(now, id);
        }
        self.set_graft_timer(cx);
    }

    fn set_graft_timer(&mut self, cx: &mut Cx<'_, PlumtreeFrame>) {
        let Some(at) = self.missing.wake_at() else { return };
        if self.graft_timer.is_none_or(|set| at < set) {
            self.graft_timer = Some(at);
            cx.set_timer(at, GRAFT);
        }
    }
}
