//! Answering requests.

use std::sync::Arc;

use samara_engine::PeerId;
use smallvec::SmallVec;

use super::items::ItemId;
use super::{Cat, Cx, Ignored};
use crate::TxKey;
use crate::pool::Application;
use crate::wire::{CatFrame, KeyList, Kind};

impl<A: Application> Cat<A> {
    pub(super) fn on_want(&mut self, peer: PeerId, key: &TxKey, cx: &mut Cx<'_>) {
        if !self.serve(peer, key, cx) {
            self.deny(peer, &[*key], cx);
        }
    }

    pub(super) fn on_want_keys(&mut self, peer: PeerId, keys: &KeyList, cx: &mut Cx<'_>) {
        let mut missing: SmallVec<[TxKey; KeyList::MAX]> = SmallVec::new();
        for key in keys.iter() {
            if !self.serve(peer, key, cx) {
                missing.push(*key);
            }
        }
        if !missing.is_empty() {
            self.deny(peer, &missing, cx);
        }
    }

    /// Sends what a peer asks for. `false` if it will not get it from this node, so that it should ask another.
    fn serve(&mut self, peer: PeerId, key: &TxKey, cx: &mut Cx<'_>) -> bool {
        if self.config.listen_only {
            self.metrics.ignore(Ignored::WantListenOnly);
            return true;
        }
        let Some((id, frame)) = self.content_of(key) else {
            self.metrics.failed_responses += 1;
            return false;
        };
        if self.is_repeated(id, peer, cx) {
            return true;
        }
        let map = self.config.sending.map;
        let lane = if matches!(frame, CatFrame::CompactBlock(_)) { map.blocks } else { map.bodies };
        if self.owe(peer, lane, frame, Some(id), cx) {
            self.note_seen(id, peer);
            return true;
        }
        // It goes elsewhere now; if nobody else has it, it will hear of it again from this node.
        self.resync_later(peer, cx);
        false
    }

    /// What goes by a key, if it is here.
    fn content_of(&self, key: &TxKey) -> Option<(ItemId, CatFrame)> {
        let id = self.items.find(key)?;
        let item = self.items.get(id).filter(|item| item.have)?;
        let frame = match item.kind() {
            Kind::Transaction => CatFrame::tx(self.pool.get(key)?.clone()),
            Kind::Bundle => CatFrame::Bundle(Arc::new(self.bundle_of(id)?)),
            Kind::Block => CatFrame::CompactBlock(self.blocks.get(id)?),
        };
        Some((id, frame))
    }

    /// Whether a peer asks for what it has, or is being sent, too often to be answered again: 36 bytes make this node send many
    /// kilobytes.
    fn is_repeated(&mut self, id: ItemId, peer: PeerId, cx: &mut Cx<'_>) -> bool {
        let allowed = self.config.limits.repeated_answers;
        if allowed == u32::MAX {
            return false;
        }
        if cx.outbox().owes(peer, id.message()) {
            self.metrics.ignore(Ignored::WantOwed);
            return true;
        }
        let Some(item) = self.items.get(id) else { return false };
        let has_it = item.seen.contains(peer);
        let Some(state) = self.peers.get_mut(peer) else { return false };
        if !has_it {
            state.repeats_left = (state.repeats_left + 1).min(allowed);
            return false;
        }
        if state.repeats_left == 0 {
            self.metrics.ignore(Ignored::WantRepeated);
            return true;
        }
        state.repeats_left -= 1;
        false
    }

    /// Tells a peer that it asked in vain, if it understands that.
    fn deny(&mut self, peer: PeerId, keys: &[TxKey], cx: &mut Cx<'_>) {
        let understands = self.peers.get(peer).is_some_and(|peer| peer.protocol.is_extended());
        if self.config.not_found && understands {
            let frame = CatFrame::not_found(keys.iter().copied().collect());
            self.owe(peer, self.config.sending.map.announcements, frame, None, cx);
        }
    }
}
