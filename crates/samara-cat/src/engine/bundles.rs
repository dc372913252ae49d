//! Own transactions that go by one key together (ADR 009, "Ongoing work": "it may wait for a fixed period (~100ms) and bundle them all
//! together. The set of transactions can now be represented as a single key").
//!
//! The key of a bundle is announced and asked for like that of a transaction. Whoever gets a bundle announces it as a whole to peers that
//! understand it, and its transactions to the others.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use samara_engine::PeerId;

use super::agenda::Task;
use super::items::ItemId;
use super::receive::Origin;
use super::{Cat, Cx, Ignored};
use crate::TxKey;
use crate::config::Protocol;
use crate::pool::Application;
use crate::wire::{Bundle, CatFrame, Kind, Member};

/// The bundles that are known, and the one that is being filled.
#[derive(Debug, Default)]
pub(super) struct BundleState {
    open: Vec<ItemId>,
    open_bytes: usize,
    /// Whether a [`Task::Bundle`] is on the agenda.
    is_due: bool,
    /// Looked up by slot only.
    members: FxHashMap<u32, (ItemId, Vec<TxKey>)>,
}

impl BundleState {
    pub(super) fn forget(&mut self, id: ItemId) {
        if self.members.get(&id.slot).is_some_and(|(known, _)| *known == id) {
            self.members.remove(&id.slot);
        }
    }
}

impl<A: Application> Cat<A> {
    /// Puts an own transaction into the open bundle.
    pub(super) fn collect(&mut self, id: ItemId, cx: &mut Cx<'_>) {
        let Some(rules) = self.config.bundles else { return };
        let Some(item) = self.items.get(id) else { return };
        let len = self.pool.get(&item.key).map_or(0, crate::Transaction::len);
        if self.bundles.open_bytes + len > rules.bytes_max {
            self.close_open(cx);
        }
        self.bundles.open.push(id);
        self.bundles.open_bytes += len;
        if self.bundles.open.len() >= rules.txs_max {
            self.close_open(cx);
        } else if !std::mem::replace(&mut self.bundles.is_due, true) {
            self.agenda.push(cx.now() + rules.window, Task::Bundle);
        }
    }

    /// The window is over.
    pub(super) fn close_bundle(&mut self, cx: &mut Cx<'_>) {
        self.bundles.is_due = false;
        self.close_open(cx);
    }

    /// Spreads the open bundle.
    fn close_open(&mut self, cx: &mut Cx<'_>) {
        self.bundles.open_bytes = 0;
        let mut ids = std::mem::take(&mut self.bundles.open);
        ids.retain(|id| self.items.get(*id).is_some_and(|item| item.have));
        let keys: Vec<TxKey> = ids.iter().filter_map(|id| Some(self.items.get(*id)?.key)).collect();
        if keys.len() < 2 {
            for id in ids {
                self.push(id, self.config.push, cx);
                if self.config.announce_own {
                    self.announce(id, None, cx);
                }
            }
            return;
        }
        let members = keys.iter().map(|key| Member::Key(*key)).collect();
        let key = Bundle::new(members).key();
        let id = self.item_of(&key, Kind::Bundle, cx.now());
        self.metrics.bundles += 1;
        self.bundles.members.insert(id.slot, (id, keys));
        self.set_have(id, true);
        self.push_bundle(id, &ids, cx);
        self.announce_bundle(id, &ids, None, cx);
    }

    /// Pushes a bundle as a whole to those that understand it, and its transactions to the others.
    fn push_bundle(&mut self, id: ItemId, ids: &[ItemId], cx: &mut Cx<'_>) {
        let Some(bundle) = self.bundle_of(id).map(Arc::new) else { return };
        let bodies = self.config.sending.map.bodies;
        for peer in self.recipients(self.config.push) {
            if self.speaks(peer) == Some(Protocol::Extended) {
                let frame = CatFrame::Bundle(Arc::clone(&bundle));
                if self.owe(peer, bodies, frame, Some(id), cx) {
                    self.note_seen(id, peer);
                    ids.iter().for_each(|id| {
                        self.note_seen(*id, peer);
                    });
                }
            } else {
                ids.iter().for_each(|id| self.push_one(*id, peer, cx));
            }
        }
    }

    /// Announces a bundle as a whole; and its transactions one by one to those that do not understand bundles.
    fn announce_bundle(&mut self, id: ItemId, ids: &[ItemId], pushed_by: Option<PeerId>, cx: &mut Cx<'_>) {
        self.announce(id, pushed_by, cx);
        for place in 0..self.peers.len() {
            let Some(peer) = self.peers.nth(place) else { continue };
            match self.speaks(peer) {
                Some(Protocol::Cat | Protocol::Sequenced) => {
                    ids.iter().for_each(|id| self.tell_one(*id, peer, cx));
                }
                Some(Protocol::Flood | Protocol::Extended) | None => {}
            }
        }
    }

    /// A bundle, with all of its transactions that are still here.
    pub(super) fn bundle_of(&self, id: ItemId) -> Option<Bundle> {
        let (_, keys) = self.bundles.members.get(&id.slot).filter(|(known, _)| *known == id)?;
        let member =
            |key: &TxKey| self.pool.get(key).map_or(Member::Key(*key), |tx| Member::Full(tx.clone()));
        Some(Bundle::new(keys.iter().map(member).collect()))
    }

    pub(super) fn on_bundle(&mut self, peer: PeerId, bundle: &Bundle, cx: &mut Cx<'_>) {
        let now = cx.now();
        let id = self.item_of(&bundle.key(), Kind::Bundle, now);
        let requested = self.mark_received(id, peer, now);
        if !requested && !self.config.take_unrequested {
            self.metrics.ignore(Ignored::BundleUnasked);
            return;
        }
        self.note_seen(id, peer);
        self.take_back(id, peer, cx);
        let is_known = self.items.get(id).is_some_and(|item| item.have);
        let origin = Origin { from: Some(peer), pushed: !requested, in_bundle: true };
        let mut ids = Vec::with_capacity(bundle.members().len());
        for member in bundle.members() {
            let Some(member_id) = self.take_member(member, peer, origin, cx) else { continue };
            ids.push(member_id);
        }
        if !is_known && self.items.get(id).is_some() {
            let keys = bundle.members().iter().map(Member::key).collect();
            self.bundles.members.insert(id.slot, (id, keys));
            self.set_have(id, true);
            self.stop_waiting(id, now);
            ids.retain(|id| self.items.get(*id).is_some_and(|item| item.have));
            self.announce_bundle(id, &ids, origin.pushed.then_some(peer), cx);
        }
        if requested {
            self.request_waiting(peer, cx);
        }
    }

    /// A transaction in a bundle; `None` if there is nothing to announce.
    fn take_member(
        &mut self,
        member: &Member,
        peer: PeerId,
        origin: Origin,
        cx: &mut Cx<'_>,
    ) -> Option<ItemId> {
        let Member::Full(tx) = member else { return None };
        self.metrics.bodies_received += 1;
        let id = self.item_of(&tx.key(), Kind::Transaction, cx.now());
        self.mark_received(id, peer, cx.now());
        self.note_seen(id, peer);
        self.take_back(id, peer, cx);
        self.add(id, tx, origin, cx);
        Some(id)
    }
}
