//! Incoming frames: bodies, announcements and denials.

use std::time::Duration;

use samara_engine::{Frame, PeerId, Time};
use smallvec::SmallVec;

use super::items::{Item, ItemId, Wait};
use super::peers::Standing;
use super::{Cat, Cx, Event, FrameKind, Ignored, Misbehaviour, Task};
use crate::config::{Hint, Jitter, Protocol, Recipients};
use crate::pool::{Application, Cause, Rejection};
use crate::wire::{CatFrame, KeyList, Kind, PushedBy, SeenKeys, SeenTx};
use crate::{Transaction, TxKey};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Origin {
    /// The sending peer; `None` if it was submitted to this node.
    pub(super) from: Option<PeerId>,
    pub(super) pushed: bool,
    /// Whether it arrived in a bundle, which is announced as a whole.
    pub(super) in_bundle: bool,
}

impl<A: Application> Cat<A> {
    pub(super) fn receive(&mut self, peer: PeerId, frame: CatFrame, cx: &mut Cx<'_>) {
        self.metrics.receive(FrameKind::of(&frame), frame.encoded_len());
        let Some(state) = self.peers.get_mut(peer) else {
            self.metrics.ignore(Ignored::UnknownPeer);
            return;
        };
        let negotiated = match &frame {
            CatFrame::Tx(_) | CatFrame::Txs(_) => true,
            CatFrame::SeenTx(_) | CatFrame::WantTx(_) => state.protocol.has_state(),
            _ => state.protocol.is_extended(),
        };
        if !negotiated {
            self.metrics.ignore(Ignored::NotNegotiated);
            self.misbehaved(peer, Misbehaviour::NotNegotiated, cx);
            return;
        }
        if !state.asleep {
            self.take_frame(peer, frame, cx);
            return;
        }
        // The limit is per peer, so that a peer that sends much cannot displace the frames of
        // others.
        let bytes = state.waiting_bytes + frame.encoded_len();
        if bytes > self.config.limits.waiting_bytes {
            self.metrics.ignore(Ignored::WaitingQueueFull);
            return;
        }
        state.waiting_bytes = bytes;
        state.inbox.push_back(frame);
    }

    fn take_frame(&mut self, peer: PeerId, frame: CatFrame, cx: &mut Cx<'_>) {
        match &frame {
            CatFrame::Tx(_) | CatFrame::Txs(_) => self.on_txs(peer, frame.bodies(), cx),
            CatFrame::SeenTx(seen) => self.on_seen_tx(peer, seen, cx),
            CatFrame::WantTx(key) => self.on_want(peer, key, cx),
            CatFrame::SeenKeys(seen) => self.on_seen_keys(peer, seen, cx),
            CatFrame::WantKeys(keys) => self.on_want_keys(peer, keys, cx),
            CatFrame::NotFound(keys) => self.on_not_found(peer, keys, cx),
            CatFrame::Bundle(bundle) => self.on_bundle(peer, bundle, cx),
            CatFrame::CompactBlock(block) => self.on_block(peer, block, cx),
        }
    }

    // ---- a sleeping receive loop ----

    pub(super) fn wake(&mut self, id: ItemId, peer: PeerId, pushed: bool, cx: &mut Cx<'_>) {
        self.announce(id, pushed.then_some(peer), cx);
        let now = cx.now();
        if let Some(state) = self.peers.get_mut(peer).filter(|state| state.wake_at <= now) {
            state.asleep = false;
        }
        while let Some(state) = self.peers.get_mut(peer).filter(|state| !state.asleep)
            && let Some(frame) = state.inbox.pop_front()
        {
            state.waiting_bytes = state.waiting_bytes.saturating_sub(frame.encoded_len());
            self.take_frame(peer, frame, cx);
        }
    }

    /// Puts the rest of a frame back in front of the waiting frames.
    fn put_back(&mut self, peer: PeerId, rest: &[Transaction]) {
        if rest.is_empty() {
            return;
        }
        let frame = CatFrame::txs(rest.to_vec());
        let Some(state) = self.peers.get_mut(peer) else { return };
        state.waiting_bytes += frame.encoded_len();
        state.inbox.push_front(frame);
    }

    // ---- bodies ----

    fn on_txs(&mut self, peer: PeerId, txs: &[Transaction], cx: &mut Cx<'_>) {
        let is_strict = self.is_strict();
        if txs.is_empty() {
            self.metrics.ignore(Ignored::EmptyTxs);
            if is_strict {
                self.misbehaved(peer, Misbehaviour::EmptyTx, cx);
            }
            return;
        }
        if txs.len() > self.config.limits.txs_per_frame {
            self.metrics.ignore(Ignored::TxsOverLimit);
            self.misbehaved(peer, Misbehaviour::TooManyTxs, cx);
            return;
        }
        for (place, tx) in txs.iter().enumerate() {
            if is_strict && tx.is_empty() {
                self.misbehaved(peer, Misbehaviour::EmptyTx, cx);
                return;
            }
            self.on_body(peer, tx, cx);
            if self.peers.get(peer).is_some_and(|peer| peer.asleep) {
                self.put_back(peer, &txs[place + 1..]);
                return;
            }
        }
    }

    fn on_body(&mut self, peer: PeerId, tx: &Transaction, cx: &mut Cx<'_>) {
        self.metrics.bodies_received += 1;
        let (key, now) = (tx.key(), cx.now());
        // Settled transactions need no item.
        let id = match self.items.find(&key) {
            Some(id) => id,
            None if self.pool.is_rejected(&key) && !self.config.pool.retry_invalid => {
                self.metrics.unrequested_bodies += 1;
                self.metrics.settled_duplicates += 1;
                self.report_duplicate(tx, Some(peer), cx);
                return;
            }
            None => self.item_of(&key, Kind::Transaction, now),
        };
        let requested = self.mark_received(id, peer, now);
        self.metrics.unrequested_bodies += u64::from(!requested);
        self.note_seen(id, peer);
        self.withdraw_copy(id, peer, cx);
        self.acknowledged(id, peer, false, cx);
        if !requested && !self.config.take_unrequested {
            self.metrics.ignore(Ignored::Unrequested);
            return;
        }
        let origin = Origin { from: Some(peer), pushed: !requested, in_bundle: false };
        if self.may_apply(id, tx, origin) {
            self.add(id, tx, origin, cx);
        }
    }

    pub(super) fn add(&mut self, id: ItemId, tx: &Transaction, origin: Origin, cx: &mut Cx<'_>) {
        let Some(item) = self.items.get(id) else { return };
        if item.is_here() {
            if item.have {
                self.metrics.already_seen_txs += 1;
            } else {
                self.metrics.settled_duplicates += 1;
            }
            self.report_duplicate(tx, origin.from, cx);
            if self.config.announce_duplicates {
                self.announce_received(id, origin, cx);
            }
            return;
        }
        match self.pool.try_add(cx.now(), tx.clone()) {
            Ok(added) if added.waits => self.begin_check(id, origin),
            Ok(added) => {
                self.evicted(&added.evicted, cx);
                self.accepted(id, origin, cx);
            }
            Err(refusal) => self.refused(id, tx, origin, refusal.cause(), cx),
        }
    }

    fn report_duplicate(&mut self, tx: &Transaction, from: Option<PeerId>, cx: &mut Cx<'_>) {
        if self.config.report_duplicates {
            cx.emit(Event::Duplicate { key: tx.key(), from });
        }
    }

    pub(super) fn accepted(&mut self, id: ItemId, origin: Origin, cx: &mut Cx<'_>) {
        let Some(item) = self.items.get_mut(id) else { return };
        let key = item.key;
        item.checking = false;
        item.wait = Wait::None;
        self.set_have(id, true);
        self.stop_waiting(id, cx.now());
        self.expire_later();
        cx.emit(Event::Added { key, from: origin.from });
        if self.pool.txs_available() {
            cx.emit(Event::Available);
        }
        self.advance_signer(id, cx);
        // Flooding pools with announcements announce first, since bodies mark their receivers as
        // having the transaction.
        let announces_first = self.config.forward == Recipients::All;
        if origin.from.is_none() {
            self.spread_own(id, cx);
        } else if announces_first {
            self.announce_received(id, origin, cx);
            self.forward(id, origin, cx);
        } else {
            self.forward(id, origin, cx);
            if !origin.in_bundle {
                self.announce_received(id, origin, cx);
            }
        }
        self.update_blocks(&key, cx);
    }

    /// Announces a transaction from a peer, at once or after a sleep that blocks the receive loop
    /// of its sender.
    fn announce_received(&mut self, id: ItemId, origin: Origin, cx: &mut Cx<'_>) {
        let Some(from) = origin.from else { return };
        if let Jitter::Sleep { step, steps } = self.config.jitter {
            let nap = step * u32::try_from(cx.rng().below(steps)).unwrap_or(u32::MAX);
            if !nap.is_zero() {
                let mut wake_at = cx.now() + nap;
                if let Some(peer) = self.peers.get_mut(from) {
                    // A verdict of the application can come while the loop sleeps for another
                    // transaction. The real loop checks and sleeps for one after the other.
                    if peer.asleep {
                        wake_at = wake_at.max(peer.wake_at + nap);
                    }
                    peer.asleep = true;
                    peer.wake_at = wake_at;
                }
                self.agenda.push(wake_at, Task::Wake { item: id, peer: from, pushed: origin.pushed });
                return;
            }
        }
        self.announce(id, origin.pushed.then_some(from), cx);
    }

    fn refused(&mut self, id: ItemId, tx: &Transaction, origin: Origin, cause: Cause, cx: &mut Cx<'_>) {
        let from = origin.from;
        match cause {
            Cause::InPool | Cause::Reserved => {
                self.metrics.already_seen_txs += u64::from(cause == Cause::InPool);
                self.report_duplicate(tx, from, cx);
                return;
            }
            Cause::Rejected => {
                self.metrics.settled_duplicates += 1;
                self.report_duplicate(tx, from, cx);
            }
            Cause::Empty | Cause::TooLarge | Cause::Busy | Cause::Full | Cause::Invalid => {
                cx.emit(Event::Refused { key: tx.key(), from, cause });
                if cause == Cause::Invalid {
                    self.count_invalid(origin, cx);
                }
            }
        }
        // Copies from other peers would be rejected as well. If it is announced again, it is
        // requested again, and may then be accepted.
        if self.items.get(id).is_some_and(|item| !item.is_here()) && !self.requests.has_any(id) {
            self.forget_item(id);
        }
    }

    /// Counts a transaction that the application found invalid.
    pub(super) fn count_invalid(&mut self, origin: Origin, cx: &mut Cx<'_>) {
        let allowed = self.config.limits.invalid_bodies;
        let Some(peer) = origin.from else { return };
        if origin.pushed {
            // Nobody requested it: the peer may send it instead of answering a request.
            self.note_failure(peer, cx);
        }
        let Some(state) = self.peers.get_mut(peer) else { return };
        state.invalid += 1;
        if allowed > 0 && state.invalid == allowed {
            self.misbehaved(peer, Misbehaviour::InvalidTransactions, cx);
        }
    }
}

// ---- announcements ----

impl<A: Application> Cat<A> {
    pub(super) fn on_seen_tx(&mut self, peer: PeerId, seen: &SeenTx, cx: &mut Cx<'_>) {
        let details = seen.details.as_ref();
        let signer = details.and_then(|details| details.signer.as_ref());
        if self.is_strict()
            && signer.is_none()
            && self.peers.get(peer).is_some_and(|peer| peer.protocol == Protocol::Sequenced)
        {
            self.misbehaved(peer, Misbehaviour::MissingSigner, cx);
            return;
        }
        let Some(id) = self.note_announcement(&seen.key, Kind::Transaction, peer, cx) else { return };
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
            && self.peers.find_hex(from).is_some()
        {
            self.metrics.awaited_pushes += 1;
            self.agenda.push(cx.now() + wait, Task::PushOverdue { item: id, peer });
            return;
        }
        self.request(&[id], peer, cx);
    }

    pub(super) fn on_seen_keys(&mut self, peer: PeerId, seen: &SeenKeys, cx: &mut Cx<'_>) {
        let mut wanted: SmallVec<[ItemId; KeyList::MAX]> = SmallVec::new();
        for key in seen.keys.iter() {
            if let Some(id) = self.note_announcement(key, seen.kind, peer, cx) {
                wanted.push(id);
            }
        }
        if wanted.is_empty() {
            return;
        }
        // A hint from an unreliable peer is ignored.
        let pusher = seen.pushed_by.filter(|_| self.standing(peer) != Standing::Bad);
        match pusher.and_then(|pusher| self.wait_for_push(pusher)) {
            Some(wait) => {
                let at = cx.now() + wait;
                for id in wanted {
                    self.expect_push(id, peer, at);
                }
            }
            None => {
                wanted.retain(|id| {
                    let wait = self.items.get(*id).map(|item| item.wait);
                    wait.is_some_and(|wait| !matches!(wait, Wait::Push | Wait::Signer))
                });
                self.request(&wanted, peer, cx);
            }
        }
    }

    /// Records that a peer has an item. Returns the item if it may be requested.
    fn note_announcement(
        &mut self,
        key: &TxKey,
        kind: Kind,
        peer: PeerId,
        cx: &mut Cx<'_>,
    ) -> Option<ItemId> {
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
        self.acknowledged(id, peer, false, cx);
        let item = self.items.get(id)?;
        if item.is_here() {
            self.withdraw_copy(id, peer, cx);
            self.probe(id, peer, cx);
            return None;
        }
        if item.live().is_some() || item.wait == Wait::Turn {
            return None;
        }
        if !noted && !self.is_strict() {
            // A key that is not remembered is not requested either. The generation of 2026 requests
            // it anyway, up to its limit of requests.
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

    /// Forgets an item that no peer is known to have and that was not requested.
    pub(super) fn forget_if_unknown(&mut self, id: ItemId) {
        let is_unknown =
            self.items.get(id).is_some_and(|item| !item.is_here() && item.seen.iter().next().is_none());
        if is_unknown && !self.requests.has_any(id) {
            self.forget_item(id);
        }
    }

    /// Returns true if a transaction was committed, or is known to be invalid.
    pub(super) fn is_settled(&self, key: &TxKey) -> bool {
        match self.pool.rejection(key) {
            None => false,
            Some(Rejection::Settled) => true,
            Some(Rejection::Invalid(_)) => !self.config.pool.retry_invalid,
        }
    }

    /// Returns true if there is room for an evicted transaction. Its length is unknown, so there
    /// must be room for one of maximum size.
    fn has_room(&self) -> bool {
        let config = self.pool.config();
        self.pool.len() < config.capacity_txs
            && self.pool.bytes() + config.max_tx_bytes as u64 <= config.capacity_bytes
    }

    // ---- transactions being pushed ----

    /// Returns the time to wait for a transaction that a peer is pushing: its response time, which
    /// exceeds a one-way trip. `None` if it is no peer of this node.
    fn wait_for_push(&self, pusher: PushedBy) -> Option<Duration> {
        let Hint::Short { wait_max } = self.config.hint else { return None };
        let peer = self.peers.get(self.peers.find_short(pusher)?)?;
        Some(peer.response.mean().map_or(wait_max, |mean| mean.min(wait_max)))
    }

    /// Waits for a push, unless this node has already waited for it.
    fn expect_push(&mut self, id: ItemId, peer: PeerId, at: Time) {
        let Some(item) = self.items.get_mut(id).filter(|item| matches!(item.wait, Wait::None | Wait::Better))
        else {
            return;
        };
        item.wait = Wait::Push;
        self.metrics.awaited_pushes += 1;
        self.agenda.push(at, Task::PushOverdue { item: id, peer });
    }

    /// Requests an item whose expected push is overdue, from the peer that announced it or from
    /// another one.
    pub(super) fn push_overdue(&mut self, id: ItemId, peer: PeerId, cx: &mut Cx<'_>) {
        let Some(item) = self.items.get_mut(id) else { return };
        if item.is_here() {
            return;
        }
        self.metrics.overdue_pushes += 1;
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
    }
}

impl Item {
    /// Returns true if the item may be requested.
    pub(super) fn is_wanted(&self) -> bool {
        !self.is_here() && self.live().is_none() && self.wait != Wait::Turn
    }
}
