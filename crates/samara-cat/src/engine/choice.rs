//! Which of the peers that have a transaction is asked, and which has to wait until it is relied on again.

use samara_engine::{PeerId, Time};
use smallvec::SmallVec;

use super::agenda::Task;
use super::items::{Item, ItemId, Wait};
use super::record::Standing;
use super::{Cat, Cx, Event, Ignored};
use crate::config::Choice;
use crate::pool::Application;
use crate::wire::KeyList;

impl<A: Application> Cat<A> {
    /// Whether a request to this peer is possible: it has not been asked, and not for too much else.
    pub(super) fn can_ask(&self, item: ItemId, peer: PeerId) -> bool {
        let has_room = self.peers.get(peer).is_some_and(|state| {
            state.protocol.has_state() && state.asked < self.config.requests.per_peer_max
        });
        has_room && !self.requests.has(item, peer)
    }

    pub(super) fn standing(&self, peer: PeerId) -> Standing {
        match (self.config.requests.standing, self.peers.get(peer)) {
            (Some(_), Some(peer)) => peer.record.standing(),
            _ => Standing::Good,
        }
    }

    /// Whether a peer is asked for what it is the first to announce. One that has not answered yet is asked for one frame of keys.
    pub(super) fn is_first_choice(&self, peer: PeerId) -> bool {
        match self.standing(peer) {
            Standing::Good => true,
            Standing::Unproven => self.is_idle(peer),
            Standing::Bad => false,
        }
    }

    /// Whether a peer owes no answer.
    fn is_idle(&self, peer: PeerId) -> bool {
        self.peers.get(peer).is_some_and(|peer| peer.live == 0)
    }

    // ---- the next one ----

    /// Asks another peer that has the item (`findNewPeerToRequestTx`).
    pub(super) fn request_elsewhere(&mut self, id: ItemId, cx: &mut Cx<'_>) {
        let Some(item) = self.items.get(id).filter(|item| item.live().is_none()) else { return };
        let mut candidates: SmallVec<[PeerId; 32]> =
            item.seen.iter().filter(|peer| self.can_ask(id, *peer)).collect();
        let has_any = !candidates.is_empty();
        candidates.retain(|peer| self.is_first_choice(*peer));
        if let Some(peer) = self.choose(&candidates, cx) {
            self.rerequest(id, peer, cx);
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

    /// Nanoseconds: an estimate for the next request. What may have to be waited for in vain is in it.
    fn expected_wait(&self, peer: PeerId, now: Time) -> u64 {
        let Some(state) = self.peers.get(peer) else { return u64::MAX };
        let mean = state.response.mean().map_or(500_000_000, |mean| mean.as_nanos() as u64);
        let timeout = self.expected_of(peer, now).as_nanos() as u64;
        let answered = mean.max(1_000_000).saturating_mul(state.live as u64 + 1);
        answered.saturating_add(state.record.risk(timeout))
    }

    fn rerequest(&mut self, id: ItemId, peer: PeerId, cx: &mut Cx<'_>) {
        self.metrics.rerequested_txs += 1;
        let now = cx.now();
        let serial = self.reserve(id, peer, now);
        let taken = self.owe_want(id, peer, cx);
        self.requested(id, serial, peer, taken, true, cx);
    }

    /// Nobody can be asked. If that is because all have too many requests, whichever has room first is asked.
    fn wait_or_give_up(&mut self, id: ItemId, cx: &mut Cx<'_>) {
        let Some(item) = self.items.get(id) else { return };
        let may_have_room = |peer: &PeerId| self.peers.get(*peer).is_some() && !self.requests.has(id, *peer);
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

    /// Asks a peer for an item when it has answered other requests.
    pub(super) fn queue_for(&mut self, id: ItemId, peer: PeerId) {
        let most = self.config.limits.unknown_per_peer;
        let Some(state) = self.peers.get_mut(peer) else { return };
        // What it has announced without end is not queued without end.
        if state.waiting.len() >= most {
            self.metrics.ignore(Ignored::RequestQueueFull);
        } else if state.waiting.back() != Some(&id) {
            state.waiting.push_back(id);
        }
    }

    /// A peer may be asked for more now.
    pub(super) fn request_waiting(&mut self, peer: PeerId, cx: &mut Cx<'_>) {
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
        let asked_max = self.config.requests.per_peer_max;
        while batch.len() < most
            && let Some(state) =
                self.peers.get_mut(peer).filter(|state| state.asked + batch.len() < asked_max)
            && let Some(id) = state.waiting.pop_front()
        {
            let is_wanted = self.items.get(id).is_some_and(|item| {
                // What waits for a better peer still does.
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

    /// A peer did not answer in time, or with garbage. If it is not relied on from now on, what waits for it is asked of others.
    pub(super) fn note_failure(&mut self, peer: PeerId, cx: &mut Cx<'_>) {
        let (rules, before) = (self.config.requests.standing, self.standing(peer));
        let Some(state) = self.peers.get_mut(peer) else { return };
        state.record.failed(cx.now(), rules.as_ref());
        if before == Standing::Bad || self.standing(peer) != Standing::Bad {
            return;
        }
        let Some(state) = self.peers.get_mut(peer) else { return };
        for id in std::mem::take(&mut state.waiting) {
            if self.items.get(id).is_some_and(Item::is_wanted) {
                self.request_elsewhere(id, cx);
            }
        }
    }

    /// Only peers that are not relied on have an item: others may announce it soon.
    pub(super) fn wait_for_better(&mut self, id: ItemId, now: Time) {
        let Some(rules) = self.config.requests.standing else { return };
        let Some(item) = self.items.get_mut(id).filter(|item| item.wait == Wait::None) else { return };
        item.wait = Wait::Better;
        self.metrics.held_back += 1;
        self.agenda.push(now + rules.patience, Task::NoBetter { item: id });
    }

    /// Nobody better has announced it: whoever has it is asked, one request at a time.
    pub(super) fn no_better(&mut self, id: ItemId, cx: &mut Cx<'_>) {
        let Some(item) = self.items.get_mut(id) else { return };
        if item.wait == Wait::Better {
            item.wait = Wait::None;
        }
        // A push that is expected meanwhile has a time of its own.
        if !item.is_wanted() || item.wait != Wait::None {
            return;
        }
        let Some(item) = self.items.get(id) else { return };
        let is_able = |peer: &PeerId| {
            self.can_ask(id, *peer) && (self.standing(*peer) == Standing::Good || self.is_idle(*peer))
        };
        let candidates: SmallVec<[PeerId; 32]> = item.seen.iter().filter(is_able).collect();
        match self.choose(&candidates, cx) {
            Some(peer) => self.rerequest(id, peer, cx),
            None => self.wait_or_give_up(id, cx),
        }
    }

    /// A peer that is not relied on has announced what is here: now and then it is asked for it, to see whether it answers again.
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
