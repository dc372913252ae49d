//! Several transactions under one key: bundles of own transactions, and proposed blocks (ADR 009,
//! "Ongoing work").
//!
//! "It may wait for a fixed period (~100ms) and bundle them all together. The set of transactions
//! can now be represented as a single key": the key of a bundle is announced and requested like
//! that of a transaction. A node that receives a bundle announces it as a whole to peers that
//! understand bundles, and its transactions to the others.
//!
//! CAT "allows for compact blocks to be implemented as it depends on the push pull functionality":
//! the proposer sends the keys of a block to its peers. Each node requests the missing transactions
//! and, once it has all, announces the block to its own peers, which request it. A node that
//! announces a block therefore has all of its transactions.

// All tables here have keys that this node assigns, or addresses.
#![allow(clippy::disallowed_types)]

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashSet;
use rustc_hash::FxHashMap;
use samara_engine::{PeerId, PeerKeyed};

use super::items::{Item, ItemId};
use super::receive::Origin;
use super::{Cat, Cx, Event, Ignored, Task};
use crate::TxKey;
use crate::config::{Protocol, Recipients};
use crate::pool::Application;
use crate::wire::{Bundle, CatFrame, CompactBlock, Kind, Member};

/// The known bundles, and the one being filled.
#[derive(Debug, Default)]
pub(super) struct BundleState {
    open: Vec<ItemId>,
    open_bytes: usize,
    /// Whether a [`Task::Bundle`] is on the agenda.
    is_due: bool,
    /// Never iterated over.
    members: FxHashMap<ItemId, Vec<TxKey>>,
}

impl BundleState {
    pub(super) fn forget(&mut self, id: ItemId) {
        self.members.remove(&id);
    }
}

impl<A: Application> Cat<A> {
    /// Adds an own transaction to the open bundle.
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

    /// Closes the open bundle at the end of its window.
    pub(super) fn close_bundle(&mut self, cx: &mut Cx<'_>) {
        self.bundles.is_due = false;
        self.close_open(cx);
    }

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
        self.bundles.members.insert(id, keys);
        self.set_have(id, true);
        self.push_bundle(id, &ids, cx);
        self.announce_bundle(id, &ids, None, cx);
    }

    /// Pushes a bundle as a whole to the peers that understand bundles, and its transactions to the
    /// others.
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

    /// Announces a bundle as a whole, and its transactions one by one to peers that do not
    /// understand bundles.
    fn announce_bundle(&mut self, id: ItemId, ids: &[ItemId], pushed_by: Option<PeerId>, cx: &mut Cx<'_>) {
        self.announce(id, pushed_by, cx);
        for place in 0..self.peers.len() {
            let peer = self.peers.all()[place];
            if let Some(Protocol::Cat | Protocol::Sequenced) = self.speaks(peer) {
                ids.iter().for_each(|id| self.announce_to_one(*id, peer, cx));
            }
        }
    }

    /// Returns a bundle with all of its transactions that are still in the pool.
    pub(super) fn bundle_of(&self, id: ItemId) -> Option<Bundle> {
        let keys = self.bundles.members.get(&id)?;
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
        self.withdraw_copy(id, peer, cx);
        let is_known = self.items.get(id).is_some_and(|item| item.have);
        let origin = Origin { from: Some(peer), pushed: !requested, in_bundle: true };
        let mut ids = Vec::with_capacity(bundle.members().len());
        for member in bundle.members() {
            let Some(member_id) = self.take_member(member, peer, origin, cx) else { continue };
            ids.push(member_id);
        }
        if !is_known && self.items.get(id).is_some() {
            let keys = bundle.members().iter().map(Member::key).collect();
            self.bundles.members.insert(id, keys);
            self.set_have(id, true);
            self.stop_waiting(id, now);
            ids.retain(|id| self.items.get(*id).is_some_and(|item| item.have));
            self.announce_bundle(id, &ids, origin.pushed.then_some(peer), cx);
        }
    }

    /// Adds a transaction of a bundle. Returns `None` if there is nothing to announce.
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
        self.withdraw_copy(id, peer, cx);
        if self.may_apply(id, tx, origin) {
            self.add(id, tx, origin, cx);
        }
        Some(id)
    }
}

// ---- compact blocks ----

/// The recent compact blocks.
#[derive(Debug)]
pub(super) struct Blocks {
    known: VecDeque<Known>,
    hasher: PeerKeyed,
}

/// A set of keys, never iterated over.
type Keys = HashSet<TxKey, PeerKeyed>;

/// A compact block and its missing transactions.
#[derive(Debug)]
struct Known {
    id: ItemId,
    block: Arc<CompactBlock>,
    /// Empty once the block is complete.
    missing: Keys,
    complete: bool,
}

impl Blocks {
    pub(super) fn new(hasher: PeerKeyed) -> Self {
        Self { known: VecDeque::new(), hasher }
    }

    fn no_keys(&self) -> Keys {
        Keys::with_hasher(self.hasher)
    }

    pub(super) fn get(&self, id: ItemId) -> Option<Arc<CompactBlock>> {
        self.known.iter().find(|known| known.id == id).map(|known| Arc::clone(&known.block))
    }

    pub(super) fn has(&self, id: ItemId) -> bool {
        self.known.iter().any(|known| known.id == id)
    }
}

impl<A: Application> Cat<A> {
    pub(super) fn spread_block(&mut self, block: CompactBlock, cx: &mut Cx<'_>) {
        let block = Arc::new(block);
        let id = self.item_of(&block.key(), Kind::Block, cx.now());
        self.keep_block(id, &block, self.blocks.no_keys(), cx);
        self.set_have(id, true);
        for peer in self.recipients(Recipients::All) {
            if self.speaks(peer) == Some(Protocol::Extended)
                && self.owe(
                    peer,
                    self.config.sending.map.blocks,
                    CatFrame::CompactBlock(Arc::clone(&block)),
                    Some(id),
                    cx,
                )
            {
                self.note_seen(id, peer);
            }
        }
    }

    fn keep_block(&mut self, id: ItemId, block: &Arc<CompactBlock>, missing: Keys, cx: &mut Cx<'_>) {
        let Some(rules) = self.config.compact_blocks else { return };
        while self.blocks.known.len() >= rules.kept {
            self.drop_block(0, cx);
        }
        let complete = missing.is_empty();
        self.blocks.known.push_back(Known { id, block: Arc::clone(block), missing, complete });
    }

    fn drop_block(&mut self, at: usize, cx: &mut Cx<'_>) {
        let Some(known) = self.blocks.known.remove(at) else { return };
        if !known.complete {
            let (key, height) = (known.block.key(), known.block.height());
            cx.emit(Event::BlockGivenUp { key, height, missing: known.missing.len() as u32 });
        }
        self.forget_item(known.id);
    }

    pub(super) fn on_block(&mut self, peer: PeerId, block: &Arc<CompactBlock>, cx: &mut Cx<'_>) {
        let Some(rules) = self.config.compact_blocks else {
            self.metrics.ignore(Ignored::NotNegotiated);
            return;
        };
        let (key, now) = (block.key(), cx.now());
        let id = self.item_of(&key, Kind::Block, now);
        self.mark_received(id, peer, now);
        self.note_seen(id, peer);
        if self.blocks.has(id) || block.height() <= self.pool.height() {
            self.metrics.ignore(Ignored::BlockKnown);
            return;
        }
        if let Some(item) = self.items.get_mut(id) {
            // This node has the block, but does not announce it before it is complete.
            item.checking = true;
        }
        self.stop_waiting(id, now);
        let (missing, wanted) = self.missing_of(block, peer, cx);
        let misses = missing.len() as u32;
        let hits = block.keys().len() as u32 - misses;
        self.metrics.block_hits += u64::from(hits);
        self.metrics.block_misses += u64::from(misses);
        cx.emit(Event::Block { key, height: block.height(), hits, misses });
        let is_complete = missing.is_empty();
        self.keep_block(id, block, missing, cx);
        if is_complete {
            self.complete_block(id, cx);
        } else {
            self.agenda.push(now + rules.patience, Task::BlockOverdue { item: id });
            self.request(&wanted, peer, cx);
        }
    }

    /// Returns the keys of a block that are not in the pool, and the items to request.
    fn missing_of(&mut self, block: &CompactBlock, peer: PeerId, cx: &mut Cx<'_>) -> (Keys, Vec<ItemId>) {
        let (mut missing, mut wanted) = (self.blocks.no_keys(), Vec::new());
        for key in block.keys() {
            if self.pool.contains(key) || !missing.insert(*key) {
                continue;
            }
            let id = self.item_of(key, Kind::Transaction, cx.now());
            if !self.note_seen(id, peer) {
                self.forget_if_unknown(id);
            } else if self.items.get(id).is_some_and(Item::is_wanted) {
                wanted.push(id);
            }
        }
        (missing, wanted)
    }

    /// Updates the incomplete blocks with a transaction that entered the pool.
    pub(super) fn update_blocks(&mut self, key: &TxKey, cx: &mut Cx<'_>) {
        if self.blocks.known.is_empty() {
            return;
        }
        let mut complete = Vec::new();
        for known in self.blocks.known.iter_mut().filter(|known| !known.complete) {
            if known.missing.remove(key) && known.missing.is_empty() {
                complete.push(known.id);
            }
        }
        complete.into_iter().for_each(|id| self.complete_block(id, cx));
    }

    fn complete_block(&mut self, id: ItemId, cx: &mut Cx<'_>) {
        let Some(known) = self.blocks.known.iter_mut().find(|known| known.id == id) else { return };
        known.complete = true;
        let (key, height) = (known.block.key(), known.block.height());
        cx.emit(Event::BlockComplete { key, height });
        if let Some(item) = self.items.get_mut(id) {
            item.checking = false;
        }
        self.set_have(id, true);
        self.announce_at_once(id, cx);
    }

    pub(super) fn block_overdue(&mut self, id: ItemId, cx: &mut Cx<'_>) {
        let at = self.blocks.known.iter().position(|known| known.id == id && !known.complete);
        if let Some(at) = at {
            self.drop_block(at, cx);
        }
    }

    pub(super) fn settle_blocks(&mut self, height: u64, cx: &mut Cx<'_>) {
        while let Some(at) = self.blocks.known.iter().position(|known| known.block.height() <= height) {
            self.drop_block(at, cx);
        }
    }
}
