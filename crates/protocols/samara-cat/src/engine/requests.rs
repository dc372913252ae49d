//! Requests: the remembered ones, the choice of the peer to ask, and the timeouts of answers. Peers
//! that do not deliver are demoted.

// All tables here have keys that this node assigns, or addresses.
#![allow(clippy::disallowed_types)]

use std::collections::VecDeque;
use std::time::Duration;

use rustc_hash::FxHashMap;
use samara_engine::planted::{Bug, is_planted};
use samara_engine::{PeerId, Time};
use smallvec::SmallVec;

use super::items::{Item, ItemId, Wait};
use super::peers::{Asked, Standing};
use super::{Cat, Cx, Event, Ignored, Task};
use crate::TxKey;
use crate::config::{Choice, Timeout};
use crate::pool::Application;
use crate::wire::{CatFrame, KeyList};

#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub(super) peer: PeerId,
    pub(super) serial: u32,
    pub(super) sent_at: Time,
    /// Whether it timed out, or its item has arrived from elsewhere. A late answer still counts as
    /// one.
    pub(super) stale: bool,
    /// Whether it takes a slot of its peer.
    holds_slot: bool,
}

/// All remembered requests (`requestScheduler` of celestia-core).
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// Never iterated over.
    by_item: FxHashMap<ItemId, SmallVec<[Ask; 1]>>,
    /// The times at which timed-out requests are forgotten. Sorted, since each is remembered for
    /// the same time.
    stale: VecDeque<(Time, ItemId, PeerId, u32)>,
    /// Whether a [`Task::Stale`] is on the agenda.
    forgets: bool,
    /// Peers for which keys wait, and that may have got a free slot since the last
    /// [`use_slots`](Cat::use_slots).
    freed: Vec<PeerId>,
    len: usize,
    next_serial: u32,
}

impl Requests {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn asks(&self, item: ItemId) -> &[Ask] {
        self.by_item.get(&item).map_or(&[], |asks| asks)
    }

    pub(super) fn get(&self, item: ItemId, peer: PeerId) -> Option<&Ask> {
        self.asks(item).iter().find(|ask| ask.peer == peer)
    }

    pub(super) fn get_mut(&mut self, item: ItemId, peer: PeerId) -> Option<&mut Ask> {
        self.by_item.get_mut(&item)?.iter_mut().find(|ask| ask.peer == peer)
    }

    /// Returns true if a peer was asked, even if the request timed out.
    pub(super) fn has(&self, item: ItemId, peer: PeerId) -> bool {
        self.get(item, peer).is_some()
    }

    pub(super) fn has_any(&self, item: ItemId) -> bool {
        !self.asks(item).is_empty()
    }

    /// Returns true if this particular request waits for its answer.
    pub(super) fn is_awaited(&self, item: ItemId, peer: PeerId, serial: u32) -> bool {
        self.get(item, peer).is_some_and(|ask| ask.serial == serial && !ask.stale)
    }

    pub(super) fn insert(&mut self, item: ItemId, peer: PeerId, now: Time) -> u32 {
        let serial = self.next_serial;
        self.next_serial = serial.wrapping_add(1);
        let ask = Ask { peer, serial, sent_at: now, stale: false, holds_slot: true };
        self.by_item.entry(item).or_default().push(ask);
        self.len += 1;
        serial
    }

    pub(super) fn remove(&mut self, item: ItemId, peer: PeerId) -> Option<Ask> {
        let asks = self.by_item.get_mut(&item)?;
        let ask = asks.swap_remove(asks.iter().position(|ask| ask.peer == peer)?);
        if asks.is_empty() {
            self.by_item.remove(&item);
        }
        self.len -= 1;
        Some(ask)
    }

    /// Returns true if a request in a peer's queue is still remembered.
    pub(super) fn is_awaited_by_serial(&self, asked: &Asked) -> bool {
        self.asks(asked.item).iter().any(|ask| ask.serial == asked.serial)
    }
}

impl<A: Application> Cat<A> {
    /// Makes a request to this peer the live one of an item without a live request.
    pub(super) fn reserve(&mut self, item: ItemId, peer: PeerId, now: Time) -> u32 {
        if let Some(item) = self.items.get_mut(item) {
            item.set_live(Some(peer));
        }
        self.note_request(item, peer, now)
    }

    pub(super) fn note_request(&mut self, item: ItemId, peer: PeerId, now: Time) -> u32 {
        let serial = self.requests.insert(item, peer, now);
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.live += 1;
            peer.slots += 1;
            peer.asked += 1;
            peer.requests.push_back(Asked { item, serial });
            if peer.requests.len() > 2 * peer.asked + 64 {
                let requests = &self.requests;
                peer.requests.retain(|asked| requests.is_awaited_by_serial(asked));
            }
        }
        serial
    }

    fn unreserve(&mut self, item: ItemId, peer: PeerId) -> Option<Ask> {
        let ask = self.requests.remove(item, peer)?;
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.asked = peer.asked.saturating_sub(1);
            peer.slots = peer.slots.saturating_sub(usize::from(ask.holds_slot));
            peer.live = peer.live.saturating_sub(usize::from(!ask.stale));
        }
        self.note_free_slot(peer);
        Some(ask)
    }

    /// Requests items without a live request from a peer. Items that the peer cannot be asked for
    /// wait in its queue, or if its standing is bad, for a better peer.
    pub(super) fn request(&mut self, ids: &[ItemId], peer: PeerId, cx: &mut Cx<'_>) {
        if self.is_first_choice(peer) {
            self.ask_for(ids, peer, cx);
            return;
        }
        let is_bad = self.standing(peer) == Standing::Bad;
        for id in ids {
            if self.items.get(*id).is_some_and(Item::is_wanted) && !self.requests.has(*id, peer) {
                if !is_bad {
                    self.queue_for(*id, peer);
                }
                self.wait_for_better(*id, cx.now());
            }
        }
    }

    /// Requests items without a live request from a peer, whatever its standing.
    pub(super) fn ask_for(&mut self, ids: &[ItemId], peer: PeerId, cx: &mut Cx<'_>) {
        let now = cx.now();
        let mut sent: SmallVec<[(ItemId, u32); 4]> = SmallVec::new();
        for id in ids {
            if !self.items.get(*id).is_some_and(Item::is_wanted) {
                continue;
            }
            if self.can_ask(*id, peer) {
                sent.push((*id, self.reserve(*id, peer, now)));
            } else if !self.requests.has(*id, peer) {
                self.queue_for(*id, peer);
            }
        }
        let is_extended = self.peers.get(peer).is_some_and(|peer| peer.protocol.is_extended());
        if is_extended && sent.len() > 1 {
            for chunk in sent.chunks(KeyList::MAX) {
                let keys: KeyList =
                    chunk.iter().filter_map(|(id, _)| Some(self.items.get(*id)?.key)).collect();
                let taken =
                    self.owe(peer, self.config.sending.map.requests, CatFrame::want_keys(keys), None, cx);
                chunk.iter().for_each(|(id, serial)| self.requested(*id, *serial, peer, taken, cx));
            }
        } else {
            for (id, serial) in sent {
                let taken = self.owe_want(id, peer, cx);
                self.requested(id, serial, peer, taken, cx);
            }
        }
    }

    pub(super) fn owe_want(&mut self, id: ItemId, peer: PeerId, cx: &mut Cx<'_>) -> bool {
        let Some(item) = self.items.get(id) else { return false };
        let frame = CatFrame::want(item.key);
        self.owe(peer, self.config.sending.map.requests, frame, None, cx)
    }

    /// Records that a request was owed. If its queue was full, asks the next peer (`requestTx`
    /// since #3204).
    pub(super) fn requested(&mut self, id: ItemId, serial: u32, peer: PeerId, taken: bool, cx: &mut Cx<'_>) {
        if !taken {
            self.unreserve(id, peer);
            self.end_live(id);
            self.forget_seen(id, peer);
            self.request_elsewhere(id, cx);
            return;
        }
        let Some((key, again)) = self.count_request(id) else { return };
        if self.config.report_requests {
            let from = peer;
            cx.emit(if again { Event::Rerequested { key, from } } else { Event::Requested { key, from } });
        }
        let at = cx.now() + self.expected_of(peer, cx.now());
        self.agenda.push(at, Task::Timeout { item: id, peer, serial });
    }

    /// Sends a request that bypasses the rule of one live request, as `From` does at the end of its
    /// wait (celestia-core checks for a live request before the wait). The answer counts as
    /// unrequested.
    pub(super) fn request_regardless(&mut self, id: ItemId, peer: PeerId, cx: &mut Cx<'_>) {
        if self.owe_want(id, peer, cx) {
            self.count_request(id);
        }
    }

    /// Counts a request that was owed, as the first one for its item or as a further one. Returns
    /// the key and whether it is a further one.
    fn count_request(&mut self, id: ItemId) -> Option<(TxKey, bool)> {
        let item = self.items.get_mut(id)?;
        let again = item.note_requested();
        let counter = if again { &mut self.metrics.rerequested_txs } else { &mut self.metrics.requested_txs };
        *counter += 1;
        Some((item.key, again))
    }

    /// Returns the expected time for a peer to answer a request sent at `sent_at`. A peer that has
    /// not answered yet gets the time of the slowest peer that has, if that is less than the
    /// initial timeout.
    pub(super) fn expected_of(&self, peer: PeerId, sent_at: Time) -> Duration {
        let (initial, slack, max) = match self.config.requests.timeout {
            Timeout::Fixed(time) => return time,
            Timeout::Adaptive { initial, slack, max } => (initial, slack, max),
        };
        let known = self.peers.get(peer).and_then(|peer| peer.response.expected(sent_at, slack));
        known.unwrap_or_else(|| self.slowest(slack).map_or(initial, |time| time.min(initial))).min(max)
    }

    /// Returns the usual response time of the slowest peer.
    fn slowest(&self, slack: Duration) -> Option<Duration> {
        let peers = self.peers.all().iter().filter_map(|peer| self.peers.get(*peer));
        peers.filter_map(|peer| peer.response.usual(slack)).max()
    }

    pub(super) fn end_live(&mut self, id: ItemId) {
        if let Some(item) = self.items.get_mut(id) {
            item.set_live(None);
        }
    }

    /// Ends the live request after an answer or a timeout of a peer, if it is to that peer or any
    /// answer ends it.
    fn end_request(&mut self, id: ItemId, peer: PeerId) {
        let any_ends = self.config.requests.late_answer_ends;
        if let Some(item) = self.items.get_mut(id).filter(|item| any_ends || item.live() == Some(peer)) {
            item.set_live(None);
        }
    }

    /// Records that a peer has answered a request. Returns `false` if it was not asked.
    pub(super) fn mark_received(&mut self, id: ItemId, peer: PeerId, now: Time) -> bool {
        let Some(ask) = self.unreserve(id, peer) else { return false };
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.response.sample(now - ask.sent_at);
            peer.record.answered(now);
            peer.answered = Some((ask.serial, now));
            while peer.requests.front().is_some_and(|first| !self.requests.is_awaited_by_serial(first)) {
                peer.requests.pop_front();
            }
        }
        self.end_request(id, peer);
        true
    }

    /// Stops waiting for a transaction that has arrived. A late answer still counts as one.
    pub(super) fn stop_waiting(&mut self, id: ItemId, now: Time) {
        if !self.config.requests.check_presence {
            return;
        }
        if let Some(live) = self.items.get(id).and_then(Item::live) {
            self.end_live(id);
            self.make_stale(id, live, now, false);
        }
    }

    /// Stops waiting for a request, but remembers it for a while. A request that timed out keeps its
    /// slot meanwhile; one whose item has arrived does not.
    fn make_stale(&mut self, id: ItemId, peer: PeerId, now: Time, holds_slot: bool) {
        let Some(ask) = self.requests.get_mut(id, peer).filter(|ask| !ask.stale) else { return };
        (ask.stale, ask.holds_slot) = (true, holds_slot);
        let serial = ask.serial;
        self.requests.stale.push_back((now + self.config.requests.stale, id, peer, serial));
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.live = peer.live.saturating_sub(1);
            peer.slots = peer.slots.saturating_sub(usize::from(!holds_slot));
        }
        self.note_free_slot(peer);
        if !std::mem::replace(&mut self.requests.forgets, true) {
            self.agenda.push(now + self.config.requests.stale, Task::Stale);
        }
    }

    /// Forgets requests that timed out long ago, and schedules the next time to do so.
    pub(super) fn on_stale(&mut self, now: Time) {
        self.forget_stale(now);
        let next = self.requests.stale.front().map(|(at, ..)| *at);
        self.requests.forgets = next.is_some();
        if let Some(at) = next {
            self.agenda.push(at, Task::Stale);
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
        self.make_stale(id, peer, now, true);
        self.forget_stale(now);
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.response.timed_out(ask.sent_at, now);
        }
        self.note_failure(peer, cx);
        let rules = self.config.requests;
        self.end_request(id, peer);
        if rules.check_presence && self.items.get(id).is_some_and(Item::is_here) {
            return;
        }
        if rules.forget_unresponsive {
            self.forget_seen(id, peer);
        }
        if !is_planted(Bug::CatTimeout) {
            self.request_elsewhere(id, cx);
        }
    }

    /// Returns the time until which to wait for an answer, if it is in the future. As long as a
    /// peer answers earlier requests, it is at work.
    fn patience(&self, ask: &Ask, peer: PeerId, now: Time) -> Option<Time> {
        let Timeout::Adaptive { max, .. } = self.config.requests.timeout else { return None };
        let (serial, answered_at) = self.peers.get(peer)?.answered?;
        let is_later = ask.serial.wrapping_sub(serial) < u32::MAX / 2;
        let start = if is_later { answered_at.max(ask.sent_at) } else { ask.sent_at };
        let at = (start + self.expected_of(peer, ask.sent_at)).min(ask.sent_at + max);
        (at > now).then_some(at)
    }

    /// Returns true if a request times out although the peer might still answer, by its response
    /// times so far.
    fn is_early(&self, ask: &Ask, peer: PeerId, now: Time) -> bool {
        const SLACK: Duration = Duration::from_millis(200);
        let expected = self.peers.get(peer).and_then(|peer| peer.response.expected(ask.sent_at, SLACK));
        expected.is_some_and(|expected| now - ask.sent_at < expected)
    }

    /// Records that a peer does not have a requested item. Returns `false` if it was not asked.
    pub(super) fn denied(&mut self, id: ItemId, peer: PeerId, cx: &mut Cx<'_>) -> bool {
        let Some(ask) = self.unreserve(id, peer) else { return false };
        self.forget_seen(id, peer);
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.record.denied();
        }
        let was_live = self.items.get(id).and_then(Item::live) == Some(peer);
        if was_live && !ask.stale {
            self.end_live(id);
            if !self.items.get(id).is_some_and(Item::is_here) {
                self.request_elsewhere(id, cx);
            }
        }
        true
    }

    /// Moves the requests of a departed peer to other peers (`RemovePeer`).
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
            let is_over = item.is_here() || ask.is_some_and(|ask| ask.stale);
            if self.config.requests.check_presence && is_over {
                continue;
            }
            self.request_elsewhere(id, cx);
        }
    }

    /// Removes all requests for an item that is being forgotten.
    pub(super) fn drop_requests(&mut self, id: ItemId) {
        while let Some(ask) = self.requests.asks(id).first().copied() {
            self.unreserve(id, ask.peer);
        }
    }
}

impl<A: Application> Cat<A> {
    /// Returns true if this peer can be asked: it was not asked for the item, and has room for
    /// another request.
    pub(super) fn can_ask(&self, item: ItemId, peer: PeerId) -> bool {
        let has_room = self.peers.get(peer).is_some_and(|state| {
            state.protocol.has_state() && state.slots < self.config.requests.per_peer_max
        });
        has_room && !self.requests.has(item, peer)
    }

    pub(super) fn standing(&self, peer: PeerId) -> Standing {
        match (self.config.requests.standing, self.peers.get(peer)) {
            (Some(_), Some(peer)) => peer.record.standing(),
            _ => Standing::Good,
        }
    }

    /// Returns true if this node asks a peer for items that the peer is the first to announce. A
    /// peer that has not answered yet gets requests for one frame of keys.
    pub(super) fn is_first_choice(&self, peer: PeerId) -> bool {
        match self.standing(peer) {
            Standing::Good => true,
            Standing::Unproven => self.is_idle(peer),
            Standing::Bad => false,
        }
    }

    fn is_idle(&self, peer: PeerId) -> bool {
        self.peers.get(peer).is_some_and(|peer| peer.live == 0)
    }

    // ---- the next peer ----

    /// Asks another peer that has the item (`findNewPeerToRequestTx`).
    pub(super) fn request_elsewhere(&mut self, id: ItemId, cx: &mut Cx<'_>) {
        let is_open = |item: &&Item| item.live().is_none() && item.wait != Wait::Turn;
        let Some(item) = self.items.get(id).filter(is_open) else { return };
        let mut candidates: SmallVec<[PeerId; 32]> =
            item.seen.iter().filter(|peer| self.can_ask(id, *peer)).collect();
        let has_any = !candidates.is_empty();
        candidates.retain(|peer| self.is_first_choice(*peer));
        if let Some(peer) = self.choose(&candidates, cx) {
            self.request_from(id, peer, cx);
        } else if has_any {
            self.wait_for_better(id, cx.now());
        } else {
            self.wait_or_give_up(id, cx);
        }
    }

    fn choose(&self, candidates: &[PeerId], cx: &mut Cx<'_>) -> Option<PeerId> {
        match self.config.requests.choice {
            Choice::Random => cx.rng().choose(candidates).copied(),
            Choice::Best => candidates.iter().copied().min_by_key(|peer| self.expected_wait(*peer, cx.now())),
        }
    }

    /// Returns the estimated time of the next request in nanoseconds, including the risk of a
    /// timeout.
    fn expected_wait(&self, peer: PeerId, now: Time) -> u64 {
        let Some(state) = self.peers.get(peer) else { return u64::MAX };
        let mean = state.response.mean().map_or(500_000_000, |mean| mean.as_nanos() as u64);
        let timeout = self.expected_of(peer, now).as_nanos() as u64;
        let answered = mean.max(1_000_000).saturating_mul(state.live as u64 + 1);
        answered.saturating_add(state.record.risk(timeout))
    }

    fn request_from(&mut self, id: ItemId, peer: PeerId, cx: &mut Cx<'_>) {
        let serial = self.reserve(id, peer, cx.now());
        let taken = self.owe_want(id, peer, cx);
        self.requested(id, serial, peer, taken, cx);
    }

    /// Handles an item that no peer can be asked for. If all of its peers have too many requests,
    /// it waits for the first one with room. Otherwise the node gives up.
    fn wait_or_give_up(&mut self, id: ItemId, cx: &mut Cx<'_>) {
        let Some(item) = self.items.get(id) else { return };
        let may_have_room = |peer: &PeerId| {
            self.peers.get(*peer).is_some_and(|state| state.protocol.has_state())
                && !self.requests.has(id, *peer)
        };
        let peers: SmallVec<[PeerId; 32]> = item.seen.iter().filter(may_have_room).collect();
        if !peers.is_empty() {
            peers.into_iter().for_each(|peer| self.queue_for(id, peer));
        } else if !item.is_here() {
            self.metrics.lost_txs += 1;
            let key = item.key;
            cx.emit(Event::GivenUp(key));
        }
    }

    // ---- waiting for room ----

    /// Queues an item, to be requested from a peer once it has answered other requests.
    pub(super) fn queue_for(&mut self, id: ItemId, peer: PeerId) {
        let most = self.config.limits.unknown_per_peer;
        let Some(state) = self.peers.get_mut(peer) else { return };
        // An endless stream of announcements must not fill the queue without limit.
        if state.waiting.len() >= most {
            self.metrics.ignore(Ignored::RequestQueueFull);
        } else if state.waiting.back() != Some(&id) {
            state.waiting.push_back(id);
        }
    }

    /// Records that a peer may have got a free slot. A request ends by its answer, a timeout or a
    /// denial, and also if a block takes its transaction or another peer sends it.
    fn note_free_slot(&mut self, peer: PeerId) {
        let Some(state) = self.peers.get_mut(peer) else { return };
        if !state.waiting.is_empty() && !std::mem::replace(&mut state.freed, true) {
            self.requests.freed.push(peer);
        }
    }

    /// Requests the keys that wait for peers with a free slot.
    pub(super) fn use_slots(&mut self, cx: &mut Cx<'_>) {
        while !self.requests.freed.is_empty() {
            for peer in std::mem::take(&mut self.requests.freed) {
                if let Some(state) = self.peers.get_mut(peer) {
                    state.freed = false;
                }
                self.request_waiting(peer, cx);
            }
        }
        debug_assert_eq!(self.idle_slots(), 0, "a key waits for a peer with a free slot");
    }

    /// Returns the number of peers that have a free slot and keys that wait for one. It is 0 after
    /// each input.
    pub fn idle_slots(&self) -> usize {
        let is_idle = |peer: &PeerId| {
            self.peers.get(*peer).is_some_and(|state| !state.waiting.is_empty()) && self.has_slot(*peer)
        };
        self.peers.all().iter().copied().filter(is_idle).count()
    }

    /// Returns true if a peer can be sent a request that waits for it.
    fn has_slot(&self, peer: PeerId) -> bool {
        let has_room = self.peers.get(peer).is_some_and(|state| {
            state.protocol.has_state() && state.slots < self.config.requests.per_peer_max
        });
        has_room && (self.standing(peer) == Standing::Good || self.is_idle(peer))
    }

    fn request_waiting(&mut self, peer: PeerId, cx: &mut Cx<'_>) {
        if self.peers.get(peer).is_none_or(|state| state.waiting.is_empty()) {
            return;
        }
        let standing = self.standing(peer);
        let most = match standing {
            Standing::Good => usize::MAX,
            Standing::Unproven | Standing::Bad if !self.is_idle(peer) => return,
            Standing::Unproven => KeyList::MAX,
            Standing::Bad => 1,
        };
        let mut batch: SmallVec<[ItemId; 16]> = SmallVec::new();
        let slots_max = self.config.requests.per_peer_max;
        while batch.len() < most
            && let Some(state) =
                self.peers.get_mut(peer).filter(|state| state.slots + batch.len() < slots_max)
            && let Some(id) = state.waiting.pop_front()
        {
            let is_wanted = self.items.get(id).is_some_and(|item| {
                // Items that wait for a better peer keep waiting.
                let is_ripe = standing != Standing::Bad || item.wait != Wait::Better;
                item.is_wanted() && item.seen.contains(peer) && is_ripe
            });
            if is_wanted && !batch.contains(&id) && self.can_ask(id, peer) {
                batch.push(id);
            }
        }
        if !batch.is_empty() {
            self.ask_for(&batch, peer, cx);
        }
    }

    // ---- peers that do not deliver ----

    /// Records that a peer did not answer in time, or sent garbage. If that makes it unreliable,
    /// requests the items that wait for it from other peers.
    pub(super) fn note_failure(&mut self, peer: PeerId, cx: &mut Cx<'_>) {
        let (rules, before) = (self.config.requests.standing, self.standing(peer));
        let Some(state) = self.peers.get_mut(peer) else { return };
        state.record.failed(cx.now(), rules.as_ref());
        if before == Standing::Bad || self.standing(peer) != Standing::Bad {
            return;
        }
        let Some(state) = self.peers.get_mut(peer) else { return };
        let waiting = std::mem::take(&mut state.waiting);
        self.move_waiting(waiting, cx);
    }

    /// Delays the request for an item that only unreliable peers have announced, since others may
    /// announce it soon.
    pub(super) fn wait_for_better(&mut self, id: ItemId, now: Time) {
        let Some(rules) = self.config.requests.standing else { return };
        let may_wait = |item: &&mut Item| matches!(item.wait, Wait::None | Wait::Signer);
        let Some(item) = self.items.get_mut(id).filter(may_wait) else { return };
        item.wait = Wait::Better;
        self.metrics.held_back_txs += 1;
        self.agenda.push(now + rules.patience, Task::NoBetter { item: id });
    }

    /// Requests an item that no better peer has announced, from any peer that has it, one request
    /// at a time.
    pub(super) fn no_better(&mut self, id: ItemId, cx: &mut Cx<'_>) {
        let Some(item) = self.items.get_mut(id) else { return };
        if item.wait == Wait::Better {
            item.wait = Wait::None;
        }
        // An expected push has its own timer.
        if !item.is_wanted() || item.wait != Wait::None {
            return;
        }
        let Some(item) = self.items.get(id) else { return };
        let is_able = |peer: &PeerId| {
            self.can_ask(id, *peer) && (self.standing(*peer) == Standing::Good || self.is_idle(*peer))
        };
        let candidates: SmallVec<[PeerId; 32]> = item.seen.iter().filter(is_able).collect();
        match self.choose(&candidates, cx) {
            Some(peer) => self.request_from(id, peer, cx),
            None => self.wait_or_give_up(id, cx),
        }
    }

    /// Occasionally requests an item that this node has from an unreliable peer that announced it,
    /// to test whether it answers again.
    pub(super) fn probe(&mut self, id: ItemId, peer: PeerId, cx: &mut Cx<'_>) {
        let now = cx.now();
        let is_due = self.peers.get(peer).is_some_and(|state| state.record.can_be_probed(now));
        if self.config.requests.standing.is_none() || !is_due || !self.is_idle(peer) {
            return;
        }
        if self.can_ask(id, peer) && self.owe_want(id, peer, cx) {
            self.metrics.probes += 1;
            let serial = self.note_request(id, peer, now);
            let at = now + self.expected_of(peer, now);
            self.agenda.push(at, Task::Timeout { item: id, peer, serial });
        }
    }
}
