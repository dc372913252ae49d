//! The requests that are remembered.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use samara_engine::{PeerId, Time};
use smallvec::SmallVec;

use super::items::ItemId;
use super::peers::Asked;

/// A request to one peer for one item.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub(super) peer: PeerId,
    pub(super) serial: u32,
    pub(super) sent_at: Time,
    /// It timed out; a late answer still counts as one.
    pub(super) stale: bool,
}

/// All requests that are remembered (`requestScheduler` of celestia-core).
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// Looked up by slots only, never iterated over.
    by_item: FxHashMap<u32, (ItemId, SmallVec<[Ask; 1]>)>,
    /// When requests that timed out are forgotten; sorted, since each is remembered for the same time.
    pub(super) stale: VecDeque<(Time, ItemId, PeerId, u32)>,
    len: usize,
    next_serial: u32,
}

impl Requests {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn asks(&self, item: ItemId) -> &[Ask] {
        match self.by_item.get(&item.slot) {
            Some((id, asks)) if *id == item => asks,
            _ => &[],
        }
    }

    pub(super) fn get(&self, item: ItemId, peer: PeerId) -> Option<&Ask> {
        self.asks(item).iter().find(|ask| ask.peer == peer)
    }

    pub(super) fn get_mut(&mut self, item: ItemId, peer: PeerId) -> Option<&mut Ask> {
        let (id, asks) = self.by_item.get_mut(&item.slot)?;
        if *id != item {
            return None;
        }
        asks.iter_mut().find(|ask| ask.peer == peer)
    }

    /// Whether a peer was asked, also if that timed out.
    pub(super) fn has(&self, item: ItemId, peer: PeerId) -> bool {
        self.get(item, peer).is_some()
    }

    /// Whether there is any request for an item.
    pub(super) fn has_any(&self, item: ItemId) -> bool {
        !self.asks(item).is_empty()
    }

    /// Whether this very request waits for its answer.
    pub(super) fn is_awaited(&self, item: ItemId, peer: PeerId, serial: u32) -> bool {
        self.get(item, peer).is_some_and(|ask| ask.serial == serial && !ask.stale)
    }

    pub(super) fn insert(&mut self, item: ItemId, peer: PeerId, now: Time) -> u32 {
        let serial = self.next_serial;
        self.next_serial = serial.wrapping_add(1);
        let (_, asks) = self.by_item.entry(item.slot).or_insert_with(|| (item, SmallVec::new()));
        asks.push(Ask { peer, serial, sent_at: now, stale: false });
        self.len += 1;
        serial
    }

    pub(super) fn remove(&mut self, item: ItemId, peer: PeerId) -> Option<Ask> {
        let (id, asks) = self.by_item.get_mut(&item.slot)?;
        let at = (*id == item).then(|| asks.iter().position(|ask| ask.peer == peer))??;
        let ask = asks.swap_remove(at);
        if asks.is_empty() {
            self.by_item.remove(&item.slot);
        }
        self.len -= 1;
        Some(ask)
    }

    /// Whether a request in a peer's queue is still remembered.
    pub(super) fn is_awaited_by_serial(&self, asked: &Asked) -> bool {
        self.asks(asked.item).iter().any(|ask| ask.serial == asked.serial)
    }
}
