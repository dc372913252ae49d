//! Whom a transaction is asked of, for how long that is waited for, and who is asked next.

use std::collections::VecDeque;
use std::time::Duration;

use samara_engine::{PeerId, Time};
use smallvec::SmallVec;

use super::agenda::Task;
use super::asks::Ask;
use super::items::{Item, ItemId};
use super::peers::Asked;
use super::record::Standing;
use super::{Cat, Cx, Event};
use crate::config::Timeout;
use crate::pool::Application;
use crate::wire::{CatFrame, KeyList};

impl<A: Application> Cat<A> {
    /// Reserves an item that nobody is asked for: from now on the peer is.
    pub(super) fn reserve(&mut self, item: ItemId, peer: PeerId, now: Time) -> u32 {
        if let Some(item) = self.items.get_mut(item) {
            item.set_live(Some(peer));
        }
        self.note_request(item, peer, now)
    }

    /// Remembers a request.
    pub(super) fn note_request(&mut self, item: ItemId, peer: PeerId, now: Time) -> u32 {
        let serial = self.requests.insert(item, peer, now);
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

    /// Asks a peer for items that nobody is asked for. Those that it cannot be asked for wait in its queue, and where its standing is the
    /// reason, for a better one.
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

    /// Asks a peer for items that nobody is asked for, whatever its standing.
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
    pub(super) fn owe_want(&mut self, id: ItemId, peer: PeerId, cx: &mut Cx<'_>) -> bool {
        let Some(item) = self.items.get(id) else { return false };
        let frame = CatFrame::want(item.key);
        self.owe(peer, self.config.sending.map.requests, frame, None, cx)
    }

    /// A request was owed, or found the queue full: then the next peer is asked (`requestTx` since #3204).
    pub(super) fn requested(
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
        let at = cx.now() + self.expected_of(peer, cx.now());
        self.agenda.push(at, Task::Timeout { item: id, peer, serial });
    }

    /// A request that bypasses the rule of one live request: what `From` does when its wait is over (the check whether somebody is asked
    /// already comes before the wait there). The answer will count as unasked for.
    pub(super) fn request_regardless(&mut self, id: ItemId, peer: PeerId, cx: &mut Cx<'_>) {
        if self.owe_want(id, peer, cx) {
            self.metrics.requested_txs += 1;
        }
    }

    /// Within which time a peer is expected to answer what it is asked at this time. One that has not answered yet gets as much time as the
    /// slowest of those that have, if that is less than usual for the first request.
    pub(super) fn expected_of(&self, peer: PeerId, sent_at: Time) -> Duration {
        let (initial, slack, max) = match self.config.requests.timeout {
            Timeout::Fixed(time) => return time,
            Timeout::Adaptive { initial, slack, max } => (initial, slack, max),
        };
        let known = self.peers.get(peer).and_then(|peer| peer.response.expected(sent_at, slack));
        known.unwrap_or_else(|| self.slowest(slack).map_or(initial, |time| time.min(initial))).min(max)
    }

    /// Within which time the slowest peer usually answers.
    fn slowest(&self, slack: Duration) -> Option<Duration> {
        let peers = (0..self.peers.len()).filter_map(|place| self.peers.get(self.peers.nth(place)?));
        peers.filter_map(|peer| peer.response.usual(slack)).max()
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
            peer.record.answered(now);
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
            peer.response.timed_out(ask.sent_at, now);
        }
        self.note_failure(peer, cx);
        let rules = self.config.requests;
        let is_here = self.items.get(id).is_some_and(Item::is_here);
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
        let at = (start + self.expected_of(peer, ask.sent_at)).min(ask.sent_at + max);
        (at > now).then_some(at)
    }

    /// Whether a request times out that the peer might answer still, by the response times that it has shown.
    fn is_early(&self, ask: &Ask, peer: PeerId, now: Time) -> bool {
        const SLACK: Duration = Duration::from_millis(200);
        let expected = self.peers.get(peer).and_then(|peer| peer.response.expected(ask.sent_at, SLACK));
        expected.is_some_and(|expected| now - ask.sent_at < expected)
    }

    /// A peer says that it does not have what it was asked for.
    pub(super) fn denied(&mut self, id: ItemId, peer: PeerId, cx: &mut Cx<'_>) -> bool {
        let Some(ask) = self.unreserve(id, peer) else { return false };
        self.forget_seen(id, peer);
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.record.denied();
        }
        let was_live = self.items.get(id).and_then(Item::live) == Some(peer);
        if was_live && !ask.stale {
            self.end_live(id);
            let is_here = self.items.get(id).is_some_and(Item::is_here);
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
