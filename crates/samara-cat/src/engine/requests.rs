//! Whom a transaction is asked of, for how long that is waited for, and who is asked next.

use std::collections::VecDeque;
use std::time::Duration;

use rustc_hash::FxHashMap;
use samara_engine::{PeerId, Time};
use smallvec::SmallVec;

use super::agenda::Task;
use super::items::ItemId;
use super::peers::Asked;
use super::{Cat, Cx, Event};
use crate::config::{Choice, Timeout};
use crate::pool::Application;
use crate::wire::{CatFrame, KeyList};

/// A request to one peer for one item.
#[derive(Clone, Copy, Debug)]
struct Ask {
    peer: PeerId,
    serial: u32,
    sent_at: Time,
    /// It timed out; a late answer still counts as one.
    stale: bool,
}

/// All requests that are remembered (`requestScheduler` of celestia-core).
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// Looked up by slots only, never iterated over.
    by_item: FxHashMap<u32, (ItemId, SmallVec<[Ask; 1]>)>,
    /// When requests that timed out are forgotten; sorted, since each is remembered for the same time.
    stale: VecDeque<(Time, ItemId, PeerId, u32)>,
    len: usize,
    next_serial: u32,
}

impl Requests {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn asks(&self, item: ItemId) -> &[Ask] {
        match self.by_item.get(&item.slot) {
            Some((id, asks)) if *id == item => asks,
            _ => &[],
        }
    }

    fn get(&self, item: ItemId, peer: PeerId) -> Option<&Ask> {
        self.asks(item).iter().find(|ask| ask.peer == peer)
    }

    fn get_mut(&mut self, item: ItemId, peer: PeerId) -> Option<&mut Ask> {
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

    fn insert(&mut self, item: ItemId, peer: PeerId, now: Time) -> u32 {
        let serial = self.next_serial;
        self.next_serial = serial.wrapping_add(1);
        let (_, asks) = self.by_item.entry(item.slot).or_insert_with(|| (item, SmallVec::new()));
        asks.push(Ask { peer, serial, sent_at: now, stale: false });
        self.len += 1;
        serial
    }

    fn remove(&mut self, item: ItemId, peer: PeerId) -> Option<Ask> {
        let (id, asks) = self.by_item.get_mut(&item.slot)?;
        let at = (*id == item).then(|| asks.iter().position(|ask| ask.peer == peer))??;
        let ask = asks.swap_remove(at);
        if asks.is_empty() {
            self.by_item.remove(&item.slot);
        }
        self.len -= 1;
        Some(ask)
    }
}

impl<A: Application> Cat<A> {
    /// Whether a request to this peer is possible: it has not been asked, and not for too much else.
    fn can_ask(&self, item: ItemId, peer: PeerId) -> bool {
        let has_room = self
            .peers
            .get(peer)
            .is_some_and(|peer| peer.protocol.has_state() && peer.asked < self.config.requests.per_peer_max);
        has_room && !self.requests.has(item, peer)
    }

    /// Reserves an item that nobody is asked for: from now on the peer is.
    fn reserve(&mut self, item: ItemId, peer: PeerId, now: Time) -> u32 {
        let serial = self.requests.insert(item, peer, now);
        if let Some(item) = self.items.get_mut(item) {
            item.set_live(Some(peer));
        }
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.live += 1;
            peer.asked += 1;
            peer.requests.push_back(Asked { item, serial });
            if peer.requests.len() > 2 * peer.asked + 64 {
                let requests = &self.requests;
                peer.requests
                    .retain(|asked| requests.asks(asked.item).iter().any(|ask| ask.serial == asked.serial));
            }
        }
        serial
    }

    /// Takes a request out. Whether it was waiting for its answer.
    fn unreserve(&mut self, item: ItemId, peer: PeerId) -> Option<Ask> {
        let ask = self.requests.remove(item, peer)?;
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.asked = peer.asked.saturating_sub(1);
            peer.live = peer.live.saturating_sub(usize::from(!ask.stale));
        }
        Some(ask)
    }

    /// Asks a peer for items that nobody is asked for. Those that it cannot be asked for wait in its queue.
    pub(super) fn request(&mut self, ids: &[ItemId], peer: PeerId, cx: &mut Cx<'_>) {
        let now = cx.now();
        let mut sent: SmallVec<[(ItemId, u32); 4]> = SmallVec::new();
        for id in ids {
            let is_wanted = self.items.get(*id).is_some_and(|item| !item.is_here() && item.live().is_none());
            if !is_wanted {
                continue;
            }
            if self.can_ask(*id, peer) {
                sent.push((*id, self.reserve(*id, peer, now)));
            } else if !self.requests.has(*id, peer)
                && let Some(peer) = self.peers.get_mut(peer)
            {
                peer.waiting.push_back(*id);
            }
        }
        let is_extended = self.peers.get(peer).is_some_and(|peer| peer.protocol.is_extended());
        if is_extended && sent.len() > 1 {
            for chunk in sent.chunks(KeyList::MAX) {
                let keys: KeyList =
                    chunk.iter().filter_map(|(id, _)| Some(self.items.get(*id)?.key)).collect();
                let taken =
                    self.owe(peer, self.config.sending.map.requests, CatFrame::WantKeys(keys), None, cx);
                chunk.iter().for_each(|(id, serial)| self.requested(*id, *serial, peer, taken, false, cx));
            }
        } else {
            for (id, serial) in sent {
                let taken = self.owe_want(id, peer, cx);
                self.requested(id, serial, peer, taken, false, cx);
            }
        }
    }

    /// Owes a request for one item.
    fn owe_want(&mut self, id: ItemId, peer: PeerId, cx: &mut Cx<'_>) -> bool {
        let Some(item) = self.items.get(id) else { return false };
        let frame = CatFrame::WantTx(item.key);
        self.owe(peer, self.config.sending.map.requests, frame, None, cx)
    }

    /// A request was owed, or found the queue full: then the next peer is asked (`requestTx` since #3204).
    fn requested(
        &mut self,
        id: ItemId,
        serial: u32,
        peer: PeerId,
        taken: bool,
        again: bool,
        cx: &mut Cx<'_>,
    ) {
        let Some(item) = self.items.get(id) else { return };
        if !taken {
            self.unreserve(id, peer);
            self.end_live(id);
            self.forget_seen(id, peer);
            self.request_elsewhere(id, cx);
            return;
        }
        self.metrics.requested_txs += 1;
        if self.config.report_requests {
            let (key, from) = (item.key, peer);
            cx.emit(if again { Event::Rerequested { key, from } } else { Event::Requested { key, from } });
        }
        let at = cx.now() + self.expected_of(peer);
        self.agenda.push(at, Task::Timeout { item: id, peer, serial });
    }

    /// A request that bypasses the rule of one live request: what `From` does when its wait is over (the check whether somebody is asked
    /// already comes before the wait there). The answer will count as unasked for.
    pub(super) fn request_regardless(&mut self, id: ItemId, peer: PeerId, cx: &mut Cx<'_>) {
        if self.owe_want(id, peer, cx) {
            self.metrics.requested_txs += 1;
        }
    }

    /// Within which time a peer is expected to answer.
    pub(super) fn expected_of(&self, peer: PeerId) -> Duration {
        match self.config.requests.timeout {
            Timeout::Fixed(time) => time,
            Timeout::Adaptive { initial, slack, max } => {
                self.peers.get(peer).map_or(initial, |peer| peer.response.expected(initial, slack)).min(max)
            }
        }
    }

    pub(super) fn end_live(&mut self, id: ItemId) {
        if let Some(item) = self.items.get_mut(id) {
            item.set_live(None);
        }
    }

    /// A peer has answered a request with what it was asked for. `false` if it was not asked.
    pub(super) fn mark_received(&mut self, id: ItemId, peer: PeerId, now: Time) -> bool {
        let Some(ask) = self.unreserve(id, peer) else { return false };
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.response.sample(now - ask.sent_at);
            peer.answered = Some((ask.serial, now));
            while peer.requests.front().is_some_and(|first| !self.requests.is_awaited_by_serial(first)) {
                peer.requests.pop_front();
            }
        }
        let late_ends = self.config.requests.late_answer_ends;
        if let Some(item) = self.items.get_mut(id)
            && (late_ends || item.live() == Some(peer))
        {
            item.set_live(None);
        }
        true
    }

    /// The transaction is here: whoever is still asked may answer, but is not waited for.
    pub(super) fn stop_waiting(&mut self, id: ItemId, now: Time) {
        if !self.config.requests.check_presence {
            return;
        }
        let Some(live) = self.items.get_mut(id).and_then(|item| {
            let live = item.live();
            item.set_live(None);
            live
        }) else {
            return;
        };
        self.make_stale(id, live, now);
    }

    /// A request is not waited for any more, but remembered for a while.
    fn make_stale(&mut self, id: ItemId, peer: PeerId, now: Time) {
        let Some(ask) = self.requests.get_mut(id, peer).filter(|ask| !ask.stale) else { return };
        ask.stale = true;
        let serial = ask.serial;
        self.requests.stale.push_back((now + self.config.requests.stale, id, peer, serial));
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.live = peer.live.saturating_sub(1);
        }
    }

    /// Forgets requests that timed out long ago.
    pub(super) fn forget_stale(&mut self, now: Time) {
        while let Some((at, id, peer, serial)) = self.requests.stale.front().copied()
            && at <= now
        {
            self.requests.stale.pop_front();
            if self.requests.get(id, peer).is_some_and(|ask| ask.serial == serial) {
                self.unreserve(id, peer);
            }
        }
    }

    pub(super) fn on_timeout(&mut self, id: ItemId, peer: PeerId, serial: u32, cx: &mut Cx<'_>) {
        let now = cx.now();
        let Some(ask) = self.requests.get(id, peer).filter(|ask| ask.serial == serial && !ask.stale).copied()
        else {
            return;
        };
        if let Some(at) = self.patience(&ask, peer, now) {
            self.agenda.push(at, Task::Timeout { item: id, peer, serial });
            return;
        }
        self.metrics.timeouts += 1;
        if self.is_early(&ask, peer, now) {
            self.metrics.early_timeouts += 1;
        }
        self.make_stale(id, peer, now);
        self.forget_stale(now);
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.response.timed_out();
        }
        let rules = self.config.requests;
        let is_here = self.items.get(id).is_some_and(super::items::Item::is_here);
        if let Some(item) = self.items.get_mut(id)
            && (rules.late_answer_ends || item.live() == Some(peer))
        {
            item.set_live(None);
        }
        if rules.check_presence && is_here {
            return;
        }
        if rules.forget_unresponsive {
            self.forget_seen(id, peer);
        }
        self.request_elsewhere(id, cx);
        self.request_waiting(peer, cx);
    }

    /// Until when an answer can still be expected, if that is later than now: as long as a peer answers earlier requests, it is at work.
    fn patience(&self, ask: &Ask, peer: PeerId, now: Time) -> Option<Time> {
        let Timeout::Adaptive { max, .. } = self.config.requests.timeout else { return None };
        let (serial, answered_at) = self.peers.get(peer)?.answered?;
        let is_later = ask.serial.wrapping_sub(serial) < u32::MAX / 2;
        let start = if is_later { answered_at.max(ask.sent_at) } else { ask.sent_at };
        let at = (start + self.expected_of(peer)).min(ask.sent_at + max);
        (at > now).then_some(at)
    }

    /// Whether a request times out that the peer might answer still, by the response times that it has shown.
    fn is_early(&self, ask: &Ask, peer: PeerId, now: Time) -> bool {
        const SLACK: Duration = Duration::from_millis(200);
        let response =
            self.peers.get(peer).map(|peer| peer.response).filter(|response| response.mean().is_some());
        response.is_some_and(|response| now - ask.sent_at < response.expected(SLACK, SLACK))
    }

    /// Asks another peer that has the item (`findNewPeerToRequestTx`).
    pub(super) fn request_elsewhere(&mut self, id: ItemId, cx: &mut Cx<'_>) {
        let Some(item) = self.items.get(id) else { return };
        if item.live().is_some() {
            return;
        }
        let candidates: SmallVec<[PeerId; 32]> =
            item.seen.iter().filter(|peer| self.can_ask(id, *peer)).collect();
        let chosen = match self.config.requests.choice {
            Choice::Random => cx.rng().choose(&candidates).copied(),
            Choice::Best => candidates.iter().copied().min_by_key(|peer| self.expected_wait(*peer)),
        };
        if let Some(peer) = chosen {
            self.rerequest(id, peer, cx);
            return;
        }
        let waits =
            item.seen.iter().any(|peer| self.peers.get(peer).is_some() && !self.requests.has(id, peer));
        if waits {
            self.wait_for_room(id);
        } else if !item.is_here() {
            self.metrics.lost_txs += 1;
            let key = item.key;
            cx.emit(Event::GivenUp(key));
        }
    }

    fn rerequest(&mut self, id: ItemId, peer: PeerId, cx: &mut Cx<'_>) {
        self.metrics.rerequested_txs += 1;
        let now = cx.now();
        let serial = self.reserve(id, peer, now);
        let taken = self.owe_want(id, peer, cx);
        self.requested(id, serial, peer, taken, true, cx);
    }

    /// All peers that have it have too many requests: whichever has room first is asked.
    fn wait_for_room(&mut self, id: ItemId) {
        let Some(item) = self.items.get(id) else { return };
        let peers: SmallVec<[PeerId; 32]> = item.seen.iter().collect();
        for peer in peers {
            if let Some(peer) = self.peers.get_mut(peer) {
                peer.waiting.push_back(id);
            }
        }
    }

    /// Nanoseconds: an estimate for the next request.
    fn expected_wait(&self, peer: PeerId) -> u64 {
        let Some(peer) = self.peers.get(peer) else { return u64::MAX };
        let mean = peer.response.mean().map_or(500_000_000, |mean| mean.as_nanos() as u64);
        mean.max(1_000_000).saturating_mul(peer.live as u64 + 1)
    }

    /// A peer may be asked for more now.
    pub(super) fn request_waiting(&mut self, peer: PeerId, cx: &mut Cx<'_>) {
        let mut batch: SmallVec<[ItemId; 16]> = SmallVec::new();
        loop {
            let room = self.config.requests.per_peer_max;
            let Some(state) = self.peers.get_mut(peer).filter(|peer| peer.asked + batch.len() < room) else {
                break;
            };
            let Some(id) = state.waiting.pop_front() else { break };
            let is_wanted = self
                .items
                .get(id)
                .is_some_and(|item| !item.is_here() && item.live().is_none() && item.seen.contains(peer));
            if is_wanted && !batch.contains(&id) && self.can_ask(id, peer) {
                batch.push(id);
            }
        }
        if !batch.is_empty() {
            self.request(&batch, peer, cx);
        }
    }

    /// A peer says that it does not have what it was asked for.
    pub(super) fn denied(&mut self, id: ItemId, peer: PeerId, cx: &mut Cx<'_>) -> bool {
        let Some(ask) = self.unreserve(id, peer) else { return false };
        self.forget_seen(id, peer);
        let was_live = self.items.get(id).and_then(super::items::Item::live) == Some(peer);
        if was_live && !ask.stale {
            self.end_live(id);
            let is_here = self.items.get(id).is_some_and(super::items::Item::is_here);
            if !is_here {
                self.request_elsewhere(id, cx);
            }
        }
        true
    }

    /// A peer is gone: what it was asked for is asked of others (`RemovePeer`).
    pub(super) fn move_requests(&mut self, peer: PeerId, asked: VecDeque<Asked>, cx: &mut Cx<'_>) {
        for Asked { item: id, serial } in asked {
            if self.requests.get(id, peer).is_none_or(|ask| ask.serial != serial) {
                continue;
            }
            let ask = self.unreserve(id, peer);
            let Some(item) = self.items.get_mut(id) else { continue };
            if item.live() == Some(peer) {
                item.set_live(None);
            }
            let is_here = item.is_here();
            let is_stale = ask.is_some_and(|ask| ask.stale);
            if self.config.requests.check_presence && (is_here || is_stale) {
                continue;
            }
            self.request_elsewhere(id, cx);
        }
    }

    /// Forgets all requests for an item that is forgotten itself.
    pub(super) fn drop_requests(&mut self, id: ItemId) {
        while let Some(ask) = self.requests.asks(id).first().copied() {
            self.unreserve(id, ask.peer);
        }
    }
}

impl Requests {
    /// Whether a request in a peer's queue is still remembered.
    fn is_awaited_by_serial(&self, asked: &Asked) -> bool {
        self.asks(asked.item).iter().any(|ask| ask.serial == asked.serial)
    }
}
