//! Outgoing bodies: unrequested (own transactions, flooding, neighbourhoods), and as answers to
//! requests.

use std::sync::Arc;
use std::time::Duration;

use samara_engine::PeerId;
use smallvec::SmallVec;

use super::items::ItemId;
use super::receive::Origin;
use super::{Cat, Cx, Ignored, Task};
use crate::config::{Protocol, Recipients};
use crate::pool::Application;
use crate::wire::{CatFrame, KeyList, Kind};
use crate::{Transaction, TxKey};

/// Delay before a full queue is retried (`PeerCatchupSleepIntervalMS` in `mempool/mempool.go`).
const RETRY: Duration = Duration::from_millis(100);

impl<A: Application> Cat<A> {
    pub(super) fn spread_own(&mut self, id: ItemId, cx: &mut Cx<'_>) {
        if self.config.bundles.is_some() {
            self.collect(id, cx);
            return;
        }
        let announces_first = self.config.announce_own && self.config.forward == Recipients::All;
        if announces_first {
            self.announce(id, None, cx);
        }
        self.push(id, self.config.push, cx);
        if self.config.announce_own && !announces_first {
            self.announce(id, None, cx);
        }
    }

    pub(super) fn forward(&mut self, id: ItemId, origin: Origin, cx: &mut Cx<'_>) {
        if self.config.forward != Recipients::Nobody && !origin.in_bundle {
            self.push(id, self.config.forward, cx);
        }
        self.bridge(id, cx);
    }

    /// Sends a transaction to the peers that know neither announcements nor requests.
    pub(super) fn bridge(&mut self, id: ItemId, cx: &mut Cx<'_>) {
        if !self.config.bridge {
            return;
        }
        let Some(tx) = self.body_of(id) else { return };
        for place in 0..self.peers.len() {
            let peer = self.peers.all()[place];
            if self.speaks(peer) == Some(Protocol::Flood) {
                self.push_to(id, &tx, peer, cx);
            }
        }
    }

    /// Returns the peers that get a transaction unrequested, including those that have it.
    pub(super) fn recipients(&self, who: Recipients) -> SmallVec<[PeerId; 32]> {
        let takes = |peer: &PeerId| self.speaks(*peer).is_some_and(Protocol::takes_pushes);
        match who {
            Recipients::Nobody => SmallVec::new(),
            Recipients::All => self.peers.all().iter().copied().filter(takes).collect(),
            Recipients::Some(most) => self.peers.ranked().iter().copied().filter(takes).take(most).collect(),
        }
    }

    pub(super) fn push(&mut self, id: ItemId, who: Recipients, cx: &mut Cx<'_>) {
        let Some(tx) = self.body_of(id) else { return };
        for peer in self.recipients(who) {
            self.push_to(id, &tx, peer, cx);
        }
    }

    fn body_of(&self, id: ItemId) -> Option<Transaction> {
        self.pool.get(&self.items.get(id)?.key).cloned()
    }

    /// Sends a transaction to a peer that is not known to have it. If there is no room, the peer
    /// counts as not having it. A peer that learns of transactions in no other way gets it later.
    fn push_to(&mut self, id: ItemId, tx: &Transaction, peer: PeerId, cx: &mut Cx<'_>) {
        if self.items.get(id).is_none_or(|item| item.seen.contains(peer)) {
            return;
        }
        let waits = self.peers.get(peer).is_some_and(|peer| !peer.backlog.is_empty());
        if !waits && self.owe(peer, self.config.sending.map.bodies, CatFrame::tx(tx.clone()), Some(id), cx) {
            self.note_seen(id, peer);
        } else if self.speaks(peer) == Some(Protocol::Flood) || self.config.forward == Recipients::All {
            self.enqueue(id, peer, cx);
        }
    }

    pub(super) fn push_one(&mut self, id: ItemId, peer: PeerId, cx: &mut Cx<'_>) {
        if let Some(tx) = self.body_of(id) {
            self.push_to(id, &tx, peer, cx);
        }
    }

    fn enqueue(&mut self, id: ItemId, peer: PeerId, cx: &mut Cx<'_>) {
        let Some(state) = self.peers.get_mut(peer) else { return };
        state.backlog.push_back(id);
        if !std::mem::replace(&mut state.retrying, true) {
            self.agenda.push(cx.now() + RETRY, Task::Retry { peer });
        }
    }

    /// Retries the bodies that found the queue full.
    pub(super) fn retry_bodies(&mut self, peer: PeerId, cx: &mut Cx<'_>) {
        let Some(state) = self.peers.get_mut(peer) else { return };
        state.retrying = false;
        while let Some(id) = self.peers.get_mut(peer).and_then(|state| state.backlog.pop_front()) {
            let has = self.items.get(id).is_none_or(|item| item.seen.contains(peer));
            let Some(tx) = self.body_of(id).filter(|_| !has) else { continue };
            if self.owe(peer, self.config.sending.map.bodies, CatFrame::tx(tx), Some(id), cx) {
                self.note_seen(id, peer);
                continue;
            }
            let Some(state) = self.peers.get_mut(peer) else { return };
            state.backlog.push_front(id);
            state.retrying = true;
            self.agenda.push(cx.now() + RETRY, Task::Retry { peer });
            return;
        }
    }

    /// Withdraws a queued copy of an item from a peer that turned out to have it.
    pub(super) fn withdraw_copy(&mut self, id: ItemId, peer: PeerId, cx: &mut Cx<'_>) {
        if self.config.withdraw {
            self.metrics.withdrawn_bodies += cx.outbox().withdraw(peer, id.message()) as u64;
        }
    }

    /// Sends the whole pool to a peer that learns of transactions in no other way.
    pub(super) fn send_pool(&mut self, peer: PeerId, cx: &mut Cx<'_>) {
        let txs: Vec<Transaction> = self.pool.iter().map(|entry| entry.transaction.clone()).collect();
        for tx in txs {
            if let Some(id) = self.items.find(&tx.key()) {
                self.push_to(id, &tx, peer, cx);
            }
        }
    }
}

// ---- answers ----

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

    /// Sends the item that a peer requested. Returns `false` if the peer will not get it from this
    /// node, and should ask another.
    fn serve(&mut self, peer: PeerId, key: &TxKey, cx: &mut Cx<'_>) -> bool {
        let Some((id, frame)) = self.content_of(key) else {
            self.metrics.failed_responses += 1;
            return false;
        };
        self.acknowledged(id, peer, true, cx);
        if self.is_repeated(id, peer, cx) {
            return true;
        }
        let map = self.config.sending.map;
        let lane = if matches!(frame, CatFrame::CompactBlock(_)) { map.blocks } else { map.bodies };
        if self.owe(peer, lane, frame, Some(id), cx) {
            self.note_seen(id, peer);
            return true;
        }
        // The peer asks another node now. If no other node has it, this one announces it again.
        self.resync_later(peer, cx);
        false
    }

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

    /// Returns true if a peer requests an item that it has, or is being sent, too often to get
    /// another answer. A request of 36 bytes makes this node send many kilobytes.
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

    /// Reports missing keys to a peer, if it understands that.
    fn deny(&mut self, peer: PeerId, keys: &[TxKey], cx: &mut Cx<'_>) {
        let understands = self.peers.get(peer).is_some_and(|peer| peer.protocol.is_extended());
        if self.config.not_found && understands {
            let frame = CatFrame::not_found(keys.iter().copied().collect());
            self.owe(peer, self.config.sending.map.announcements, frame, None, cx);
        }
    }
}
