//! Being told what peers have, or do not have.

use samara_engine::{PeerId, Time};
use smallvec::SmallVec;

use super::agenda::Task;
use super::items::{Item, ItemId, Wait};
use super::record::Standing;
use super::{Cat, Cx, Ignored, Misbehaviour};
use crate::TxKey;
use crate::config::{Hint, Protocol};
use crate::pool::{Application, Rejection};
use crate::wire::{KeyList, Kind, PushedBy, SeenKeys, SeenTx};

impl<A: Application> Cat<A> {
    pub(super) fn on_seen_tx(&mut self, peer: PeerId, seen: &SeenTx, cx: &mut Cx<'_>) {
        let details = seen.details.as_ref();
        let signer = details.and_then(|details| details.signer.as_ref());
        if self.config.sequences.is_some()
            && signer.is_none()
            && self.peers.get(peer).is_some_and(|peer| peer.protocol == Protocol::Sequenced)
        {
            self.misbehaved(peer, Misbehaviour::MissingSigner, cx);
            return;
        }
        let Some(id) = self.hear(&seen.key, Kind::Transaction, peer, cx) else { return };
        if self.config.sequences.is_some()
            && let Some(signer) = signer
        {
            let sequence = details.map_or(0, |details| details.sequence);
            self.on_sequenced(id, peer, signer, sequence, cx);
            return;
        }
        let from = details.and_then(|details| details.from.as_deref()).unwrap_or_default();
        if let Hint::From { wait } = self.config.hint
            && !from.is_empty()
            && self.peers.written(from).is_some()
        {
            self.agenda.push(cx.now() + wait, Task::PushOverdue { item: id, peer });
            return;
        }
        self.request(&[id], peer, cx);
    }

    pub(super) fn on_seen_keys(&mut self, peer: PeerId, seen: &SeenKeys, cx: &mut Cx<'_>) {
        let mut wanted: SmallVec<[ItemId; KeyList::MAX]> = SmallVec::new();
        for key in seen.keys.iter() {
            if let Some(id) = self.hear(key, seen.kind, peer, cx) {
                wanted.push(id);
            }
        }
        if wanted.is_empty() {
            return;
        }
        // Whoever does not deliver is not believed that somebody else will.
        let pusher = seen.pushed_by.filter(|_| self.standing(peer) != Standing::Bad);
        match pusher.and_then(|pusher| self.wait_for_push(pusher)) {
            Some(wait) => {
                let at = cx.now() + wait;
                for id in wanted {
                    self.expect_push(id, peer, at);
                }
            }
            None => {
                wanted.retain(|id| self.items.get(*id).is_some_and(|item| item.wait != Wait::Push));
                self.request(&wanted, peer, cx);
            }
        }
    }

    /// Takes note that a peer has an item; which one, if it might be asked for.
    fn hear(&mut self, key: &TxKey, kind: Kind, peer: PeerId, cx: &mut Cx<'_>) -> Option<ItemId> {
        self.metrics.heard_keys += 1;
        let id = match self.items.find(key) {
            Some(id) => id,
            None if self.is_settled(key) => {
                self.metrics.ignore(Ignored::SeenSettled);
                return None;
            }
            None if self.items.len() >= self.config.limits.keys => {
                self.metrics.ignore(Ignored::SeenTableFull);
                return None;
            }
            None => self.item_of(key, kind, cx.now()),
        };
        let noted = self.note_seen(id, peer);
        let item = self.items.get(id)?;
        if item.is_here() {
            self.take_back(id, peer, cx);
            self.probe(id, peer, cx);
            return None;
        }
        if item.live().is_some() {
            return None;
        }
        if !noted && self.config.sequences.is_none() {
            // What is not remembered is not asked for either. The generation of 2026 asks all the same, up to its limit of requests.
            self.forget_if_unknown(id);
            return None;
        }
        if self.is_settled(key) {
            self.metrics.ignore(Ignored::SeenSettled);
            return None;
        }
        if self.pool.was_evicted(key) && !self.has_room() {
            self.metrics.ignore(Ignored::SeenEvicted);
            return None;
        }
        Some(id)
    }

    /// Nobody is known to have it and nobody was asked: there is nothing to remember.
    pub(super) fn forget_if_unknown(&mut self, id: ItemId) {
        let is_unknown =
            self.items.get(id).is_some_and(|item| !item.is_here() && item.seen.iter().next().is_none());
        if is_unknown && !self.requests.has_any(id) {
            self.forget_item(id);
        }
    }

    /// Whether a transaction was committed, or is known to be invalid.
    fn is_settled(&self, key: &TxKey) -> bool {
        match self.pool.rejection(key) {
            None => false,
            Some(Rejection::Settled) => true,
            Some(Rejection::Invalid(_)) => !self.config.pool.retry_invalid,
        }
    }

    /// Whether there is room for what was evicted. Its length is not known any more: room for the longest is asked for.
    fn has_room(&self) -> bool {
        let config = self.pool.config();
        self.pool.len() < config.capacity_txs
            && self.pool.bytes() + config.max_tx_bytes as u64 <= config.capacity_bytes
    }

    // ---- transactions that are being pushed ----

    /// How long to wait for what a peer pushes at this moment: as long as it takes to answer a request, which is more than a one-way
    /// trip. `None` if that one is no peer of this node.
    fn wait_for_push(&self, pusher: PushedBy) -> Option<std::time::Duration> {
        let Hint::Short { wait_max } = self.config.hint else { return None };
        let peer = self.peers.get(self.peers.named(pusher)?)?;
        Some(peer.response.mean().map_or(wait_max, |mean| mean.min(wait_max)))
    }

    /// Waits for a push, unless that has been waited for already.
    fn expect_push(&mut self, id: ItemId, peer: PeerId, at: Time) {
        let Some(item) = self.items.get_mut(id).filter(|item| matches!(item.wait, Wait::None | Wait::Better))
        else {
            return;
        };
        item.wait = Wait::Push;
        self.agenda.push(at, Task::PushOverdue { item: id, peer });
    }

    /// A push that was expected should have come by now: if not, the peer that announced it is asked, or another one.
    pub(super) fn push_overdue(&mut self, id: ItemId, peer: PeerId, cx: &mut Cx<'_>) {
        let Some(item) = self.items.get_mut(id) else { return };
        if item.is_here() {
            return;
        }
        if item.wait == Wait::Push {
            item.wait = Wait::None;
        }
        let (is_live, has_it) = (item.live().is_some(), item.seen.contains(peer));
        if self.peers.get(peer).is_none() {
            self.request_elsewhere(id, cx);
        } else if is_live {
            if matches!(self.config.hint, Hint::From { .. }) {
                self.request_regardless(id, peer, cx);
            }
        } else if has_it {
            self.request(&[id], peer, cx);
        } else {
            self.request_elsewhere(id, cx);
        }
    }

    // ---- denials ----

    pub(super) fn on_not_found(&mut self, peer: PeerId, keys: &KeyList, cx: &mut Cx<'_>) {
        for key in keys.iter() {
            let denied = self.items.find(key).is_some_and(|id| self.denied(id, peer, cx));
            if denied {
                self.metrics.not_found += 1;
            } else {
                self.metrics.ignore(Ignored::NotFoundUnasked);
            }
        }
        self.request_waiting(peer, cx);
    }
}

impl Item {
    /// Whether a request may be made for it.
    pub(super) fn is_wanted(&self) -> bool {
        !self.is_here() && self.live().is_none()
    }
}
