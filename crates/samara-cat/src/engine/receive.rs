//! Frames come in.

use std::collections::VecDeque;
use std::time::Duration;

use samara_engine::{Frame, PeerId};

use super::agenda::Task;
use super::items::ItemId;
use super::{Cat, Cx, Event, FrameKind, Ignored, Misbehaviour};
use crate::Transaction;
use crate::config::{Jitter, Recipients};
use crate::pool::{Application, Cause, Refusal};
use crate::wire::{CatFrame, Kind};

/// A receiver that sleeps, where one goroutine receives for all peers.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    asleep: bool,
    inbox: VecDeque<(PeerId, CatFrame)>,
}

/// How a transaction came here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// From whom; `None` if it was submitted here.
    pub(super) from: Option<PeerId>,
    /// Whether it had not been asked for.
    pub(super) pushed: bool,
    /// Whether it came in a bundle, which is announced as a whole.
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
        if !self.receiver.asleep && !state.asleep {
            self.take_frame(peer, frame, cx);
            return;
        }
        // Each peer's share: one that sends much must not make frames of the others be dropped.
        let bytes = state.waiting_bytes + frame.encoded_len();
        if bytes > self.config.limits.waiting_bytes {
            self.metrics.ignore(Ignored::WaitingQueueFull);
            return;
        }
        state.waiting_bytes = bytes;
        if self.receiver.asleep {
            self.receiver.inbox.push_back((peer, frame));
        } else {
            state.inbox.push_back(frame);
        }
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

    // ---- a receiver that sleeps ----

    /// Sleeps before a transaction is announced. Whether whoever receives from this peer is asleep now.
    fn sleep(&mut self, id: ItemId, peer: PeerId, pushed: bool, cx: &mut Cx<'_>) -> bool {
        let Jitter::Sleep { step, steps, all_peers } = self.config.jitter else { return false };
        let nap = step * u32::try_from(cx.rng().below(steps)).unwrap_or(u32::MAX);
        if nap == Duration::ZERO {
            return false;
        }
        if all_peers {
            self.receiver.asleep = true;
        } else if let Some(peer) = self.peers.get_mut(peer) {
            peer.asleep = true;
        }
        self.agenda.push(cx.now() + nap, Task::Wake { item: id, peer, pushed });
        true
    }

    pub(super) fn wake(&mut self, id: ItemId, peer: PeerId, pushed: bool, cx: &mut Cx<'_>) {
        self.announce(id, pushed.then_some(peer), cx);
        if std::mem::take(&mut self.receiver.asleep) {
            while !self.receiver.asleep
                && let Some((peer, frame)) = self.receiver.inbox.pop_front()
            {
                if let Some(state) = self.peers.get_mut(peer) {
                    state.waiting_bytes = state.waiting_bytes.saturating_sub(frame.encoded_len());
                    self.take_frame(peer, frame, cx);
                }
            }
            return;
        }
        if let Some(state) = self.peers.get_mut(peer) {
            state.asleep = false;
        }
        while let Some(state) = self.peers.get_mut(peer).filter(|state| !state.asleep)
            && let Some(frame) = state.inbox.pop_front()
        {
            state.waiting_bytes = state.waiting_bytes.saturating_sub(frame.encoded_len());
            self.take_frame(peer, frame, cx);
        }
    }

    /// Puts what is left of a frame back in front of what waits.
    fn put_back(&mut self, peer: PeerId, rest: &[Transaction]) {
        if rest.is_empty() {
            return;
        }
        let frame = CatFrame::txs(rest.to_vec());
        let Some(state) = self.peers.get_mut(peer) else { return };
        state.waiting_bytes += frame.encoded_len();
        if self.receiver.asleep {
            self.receiver.inbox.push_front((peer, frame));
        } else {
            state.inbox.push_front(frame);
        }
    }

    // ---- bodies ----

    fn on_txs(&mut self, peer: PeerId, txs: &[Transaction], cx: &mut Cx<'_>) {
        let is_strict = self.config.sequences.is_some();
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
            if self.on_body(peer, tx, cx) {
                self.put_back(peer, &txs[place + 1..]);
                return;
            }
        }
    }

    /// A transaction in full. Whether whoever receives from this peer is asleep now.
    fn on_body(&mut self, peer: PeerId, tx: &Transaction, cx: &mut Cx<'_>) -> bool {
        self.metrics.bodies_received += 1;
        let (key, now) = (tx.key(), cx.now());
        // What is settled needs no memory.
        let known = self.items.find(&key);
        let id = match known {
            Some(id) => id,
            None if self.pool.is_rejected(&key) && !self.config.pool.retry_invalid => {
                self.settled_duplicate(tx, peer, cx);
                return false;
            }
            None => self.item_of(&key, Kind::Transaction, now),
        };
        let requested = self.mark_received(id, peer, now);
        self.note_seen(id, peer);
        self.take_back(id, peer, cx);
        if !requested && !self.config.take_unrequested {
            self.metrics.ignore(Ignored::Unrequested);
            return false;
        }
        let asleep = if self.may_apply(id, tx, peer, cx) {
            let origin = Origin { from: Some(peer), pushed: !requested, in_bundle: false };
            self.add(id, tx, origin, cx)
        } else {
            false
        };
        if requested {
            self.request_waiting(peer, cx);
        }
        asleep
    }

    /// Adds a transaction that a peer sent. Whether whoever receives from it is asleep now.
    pub(super) fn add(&mut self, id: ItemId, tx: &Transaction, origin: Origin, cx: &mut Cx<'_>) -> bool {
        let Some(item) = self.items.get(id) else { return false };
        if item.is_here() {
            if item.have {
                self.metrics.already_seen_txs += 1;
            } else {
                self.metrics.settled_duplicates += 1;
            }
            self.report_duplicate(tx, origin.from, cx);
            return self.config.announce_duplicates && self.announce_received(id, origin, cx);
        }
        match self.pool.try_add(cx.now(), tx.clone()) {
            Ok(added) if added.waits => {
                self.begin_check(id, origin);
                false
            }
            Ok(added) => {
                self.evicted(&added.evicted, cx);
                self.accepted(id, origin, cx)
            }
            Err(refusal) => {
                self.refused(id, tx, origin, &refusal, cx);
                false
            }
        }
    }

    fn settled_duplicate(&mut self, tx: &Transaction, peer: PeerId, cx: &mut Cx<'_>) {
        self.metrics.settled_duplicates += 1;
        self.report_duplicate(tx, Some(peer), cx);
    }

    fn report_duplicate(&mut self, tx: &Transaction, from: Option<PeerId>, cx: &mut Cx<'_>) {
        if self.config.report_duplicates {
            cx.emit(Event::Duplicate { key: tx.key(), from });
        }
    }

    /// A transaction is in the pool now. Whether whoever receives from its sender is asleep now.
    pub(super) fn accepted(&mut self, id: ItemId, origin: Origin, cx: &mut Cx<'_>) -> bool {
        let Some(item) = self.items.get_mut(id) else { return false };
        let key = item.key;
        item.checking = false;
        item.wait = super::items::Wait::None;
        self.set_have(id, true);
        self.stop_waiting(id, cx.now());
        cx.emit(Event::Added { key, from: origin.from });
        if self.pool.txs_available() {
            cx.emit(Event::Available);
        }
        self.go_on_with_signer(id, cx);
        let asleep = match origin.from {
            None => {
                self.spread_own(id, cx);
                false
            }
            // Flooding pools with announcements announce first: bodies mark their receivers as having it.
            Some(_) if self.config.forward == Recipients::All => {
                let asleep = self.announce_received(id, origin, cx);
                self.forward(id, origin, cx);
                asleep
            }
            Some(_) => {
                self.forward(id, origin, cx);
                !origin.in_bundle && self.announce_received(id, origin, cx)
            }
        };
        self.block_has(&key, cx);
        asleep
    }

    /// Announces what came from a peer, at once or after a sleep. Whether whoever receives from it is asleep now.
    fn announce_received(&mut self, id: ItemId, origin: Origin, cx: &mut Cx<'_>) -> bool {
        let Some(from) = origin.from.filter(|_| !self.config.listen_only) else { return false };
        if self.sleep(id, from, origin.pushed, cx) {
            return true;
        }
        self.announce(id, origin.pushed.then_some(from), cx);
        false
    }

    /// A transaction was not taken.
    pub(super) fn refused(
        &mut self,
        id: ItemId,
        tx: &Transaction,
        origin: Origin,
        refusal: &Refusal,
        cx: &mut Cx<'_>,
    ) {
        let (cause, from) = (refusal.cause(), origin.from);
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
            Cause::Empty | Cause::TooLarge | Cause::Busy | Cause::Full => {
                cx.emit(Event::Refused { key: tx.key(), from, cause });
            }
            Cause::Invalid => {
                self.metrics.rejected_txs += 1;
                cx.emit(Event::Refused { key: tx.key(), from, cause });
                self.count_invalid(origin, cx);
            }
        }
        // Whoever else has it has the same. It is asked for again if it is announced again, and then not refused at once.
        if self.items.get(id).is_some_and(|item| !item.is_here()) && !self.requests.has_any(id) {
            self.forget_item(id);
        }
    }

    /// The application found a transaction invalid.
    pub(super) fn count_invalid(&mut self, origin: Origin, cx: &mut Cx<'_>) {
        let allowed = self.config.limits.invalid_bodies;
        let Some(peer) = origin.from else { return };
        if origin.pushed {
            // Nobody asked for it: it may be what a peer sends in the place of what it was asked for.
            self.note_failure(peer, cx);
        }
        let Some(state) = self.peers.get_mut(peer) else { return };
        state.invalid += 1;
        if allowed > 0 && state.invalid == allowed {
            self.misbehaved(peer, Misbehaviour::InvalidTransactions, cx);
        }
    }
}
