//! Proposed blocks by their keys (ADR 009: "allows for compact blocks to be implemented as it depends on the push pull functionality").
//!
//! The proposer sends the keys of a block to its peers; each node asks for what it misses and, once it has all, announces the block to its own
//! peers, which ask for it. Whoever announces a block therefore has all of its transactions.

use std::sync::Arc;

use hashbrown::HashSet;
use samara_engine::{PeerId, PeerKeyed};
use std::collections::VecDeque;

use super::agenda::Task;
use super::items::{Item, ItemId};
use super::{Cat, Cx, Event, Ignored};
use crate::TxKey;
use crate::config::{Protocol, Recipients};
use crate::pool::Application;
use crate::wire::{CatFrame, CompactBlock, Kind};

/// The last blocks.
#[derive(Debug)]
pub(super) struct Blocks {
    known: VecDeque<Known>,
    hasher: PeerKeyed,
}

/// Keys, in no order: never iterated over.
type Keys = HashSet<TxKey, PeerKeyed>;

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
    /// Spreads a block that this node proposes.
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

    /// Forgets a block.
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
            // It is here, but not told to anybody before it is complete.
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

    /// The keys of a block that are not here, and the items to ask for.
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

    /// A transaction is here.
    pub(super) fn block_has(&mut self, key: &TxKey, cx: &mut Cx<'_>) {
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

    /// Blocks up to this height are settled.
    pub(super) fn settle_blocks(&mut self, height: u64, cx: &mut Cx<'_>) {
        while let Some(at) = self.blocks.known.iter().position(|known| known.block.height() <= height) {
            self.drop_block(at, cx);
        }
    }
}
