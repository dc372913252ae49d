//! Requests in the order of the senders' sequence numbers (celestia-core since 2025).
//!
//! A transaction whose sequence number is ahead of the application's expectation waits until the
//! gap before it closes. Transactions with consecutive numbers are requested in parallel; bodies
//! that arrive too early are kept until their turn.

// All tables here have keys that this node assigns, or addresses.
#![allow(clippy::disallowed_types)]

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use samara_engine::PeerId;

use super::items::{Item, ItemId, Wait};
use super::receive::Origin;
use super::{Cat, Cx, Ignored};
use crate::Transaction;
use crate::config::{Overflow, Sequences};
use crate::pool::{Application, Signer};

/// Announcements and bodies that arrived too early.
#[derive(Debug, Default)]
pub(super) struct SequenceState {
    /// By signer, in the order of sequence numbers (`pendingTxsBySigner`).
    pending: BTreeMap<Signer, Vec<Pending>>,
    /// Counts the announcements.
    arrivals: u64,
    /// Never iterated over.
    of_item: FxHashMap<ItemId, (Signer, u64)>,
    /// By signer and sequence number (`receivedTxBuffer`).
    buffered: BTreeMap<Signer, BTreeMap<u64, Buffered>>,
    buffered_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    sequence: u64,
    id: ItemId,
    arrival: u64,
}

#[derive(Debug)]
struct Buffered {
    id: ItemId,
    tx: Transaction,
    origin: Origin,
}

impl SequenceState {
    fn info(&self, id: ItemId) -> Option<(Signer, u64)> {
        self.of_item.get(&id).cloned()
    }

    /// Queues an announcement. Returns the item that its signer loses if it has too many.
    fn insert(&mut self, id: ItemId, signer: &Signer, sequence: u64, rules: &Sequences) -> Option<ItemId> {
        if self.info(id).is_some() {
            return None;
        }
        self.arrivals += 1;
        let queue = self.pending.entry(signer.clone()).or_default();
        let at = queue.partition_point(|known| known.sequence < sequence);
        queue.insert(at, Pending { sequence, id, arrival: self.arrivals });
        self.of_item.insert(id, (signer.clone(), sequence));
        if queue.len() <= rules.pending_per_signer_max {
            return None;
        }
        let lost = match rules.overflow {
            Overflow::Highest => queue.last().copied(),
            Overflow::Oldest => queue.iter().copied().min_by_key(|known| known.arrival),
        }?;
        self.forget_item(lost.id);
        Some(lost.id)
    }

    pub(super) fn forget_item(&mut self, id: ItemId) {
        let Some((signer, _)) = self.of_item.remove(&id) else { return };
        if let Some(queue) = self.pending.get_mut(&signer) {
            queue.retain(|known| known.id != id);
            if queue.is_empty() {
                self.pending.remove(&signer);
            }
        }
    }

    /// Removes and returns buffered bodies.
    fn drop_buffered(&mut self, is_old: impl Fn(ItemId) -> bool) -> Vec<Buffered> {
        let mut dropped = Vec::new();
        self.buffered.retain(|_, of_signer| {
            dropped.extend(of_signer.extract_if(.., |_, buffered| is_old(buffered.id)).map(|(_, body)| body));
            !of_signer.is_empty()
        });
        dropped
    }

    /// Keeps the buffered bodies of a departed peer, but no longer attributes them to it.
    pub(super) fn forget_peer(&mut self, peer: PeerId) {
        for buffered in self.buffered.values_mut().flat_map(BTreeMap::values_mut) {
            if buffered.origin.from == Some(peer) {
                buffered.origin.from = None;
            }
        }
    }
}

impl<A: Application> Cat<A> {
    fn expected_sequence(&mut self, signer: &Signer) -> Option<u64> {
        self.pool.application_mut().expected_sequence(signer)
    }

    /// Returns true if the rules of 2026 hold.
    pub(super) fn is_strict(&self) -> bool {
        self.config.sequences.is_some_and(|rules| rules.strict)
    }

    /// Handles the announcement of a missing transaction with a sequence number.
    pub(super) fn on_sequenced(
        &mut self,
        id: ItemId,
        peer: PeerId,
        signer: &Signer,
        sequence: u64,
        cx: &mut Cx<'_>,
    ) {
        let Some(rules) = self.config.sequences else { return };
        let Some(expected) = self.expected_sequence(signer) else {
            if rules.strict {
                self.metrics.ignore(Ignored::SeenUnknownSigner);
            } else {
                self.request(&[id], peer, cx);
            }
            return;
        };
        // "A `sequence` of 0 [...] indicates that the information was unavailable" (`spec.md`).
        let is_stated = rules.strict || sequence > 0;
        if is_stated && sequence < expected {
            self.metrics.ignore(Ignored::SeenStaleSequence);
            return;
        }
        // Peers that contradict each other decide nothing: a false number must not delay it.
        let is_disputed = !rules.strict
            && self.sequences.info(id).is_some_and(|(known, number)| (&known, number) != (signer, sequence));
        if !is_stated || sequence == expected || is_disputed {
            self.request(&[id], peer, cx);
        }
        // It is not its turn, or no peer can be asked at the moment (`AddPendingTx`).
        if self.items.get(id).is_some_and(Item::is_wanted) {
            self.wait_for_turn(id, signer, sequence.max(expected));
        }
    }

    /// Remembers that a transaction is to be requested after the earlier ones of its signer.
    fn wait_for_turn(&mut self, id: ItemId, signer: &Signer, sequence: u64) {
        let Some(rules) = self.config.sequences else { return };
        if let Some(item) = self.items.get_mut(id).filter(|item| item.wait == Wait::None) {
            item.wait = Wait::Signer;
        }
        if let Some(lost) = self.sequences.insert(id, signer, sequence, &rules) {
            self.metrics.ignore(Ignored::SeenSignerFull);
            if let Some(item) = self.items.get_mut(lost).filter(|item| item.wait == Wait::Signer) {
                item.wait = Wait::None;
            }
        }
    }

    /// Returns true if a body is next in sequence. Otherwise buffers or drops it
    /// (`processNowOrBuffer`).
    pub(super) fn may_apply(&mut self, id: ItemId, tx: &Transaction, origin: Origin) -> bool {
        let Some(rules) = self.config.sequences.filter(|rules| rules.ahead_max > 0) else { return true };
        if self.items.get(id).is_none_or(Item::is_here) {
            return true;
        }
        let account =
            if rules.strict { self.sequences.info(id) } else { self.pool.application_mut().account(tx) };
        let Some((signer, sequence)) = account else { return true };
        let Some(expected) = self.expected_sequence(&signer) else { return true };
        if sequence == expected {
            return true;
        }
        if sequence < expected {
            self.metrics.ignore(Ignored::StaleSequence);
            self.forget_item(id);
            return false;
        }
        let is_far = sequence > expected.saturating_add(rules.ahead_max);
        if is_far || !self.buffer(id, tx, origin, &signer, sequence) {
            self.metrics.ignore(Ignored::TooFarAhead);
            if !rules.strict {
                // Requested again when its turn comes.
                self.sequences.forget_item(id);
                self.wait_for_turn(id, &signer, sequence);
            }
        }
        false
    }

    /// Keeps a body until its turn comes. Returns false if there is no room for it, or if there is
    /// one with its number.
    fn buffer(
        &mut self,
        id: ItemId,
        tx: &Transaction,
        origin: Origin,
        signer: &Signer,
        sequence: u64,
    ) -> bool {
        let Some(rules) = self.config.sequences else { return false };
        let state = &mut self.sequences;
        let of_signer = state.buffered.get(signer);
        let is_taken = of_signer
            .is_some_and(|known| known.len() as u64 >= rules.ahead_max || known.contains_key(&sequence));
        if is_taken || state.buffered_bytes + tx.len() > rules.buffered_bytes {
            return false;
        }
        if let Some(peer) = origin.from.and_then(|peer| self.peers.get_mut(peer)) {
            let bytes = peer.buffered_bytes + tx.len();
            if peer.buffered >= rules.buffered_per_peer_max || bytes > rules.buffered_bytes_per_peer {
                return false;
            }
            peer.buffered += 1;
            peer.buffered_bytes = bytes;
        }
        state.buffered_bytes += tx.len();
        let body = Buffered { id, tx: tx.clone(), origin };
        state.buffered.entry(signer.clone()).or_default().insert(sequence, body);
        state.forget_item(id);
        if !rules.strict
            && let Some(item) = self.items.get_mut(id)
        {
            item.wait = Wait::Turn;
        }
        true
    }

    /// Gives the room of a body back that has left the buffer.
    fn unbuffer(&mut self, body: &Buffered) {
        self.sequences.buffered_bytes -= body.tx.len();
        if let Some(peer) = body.origin.from.and_then(|from| self.peers.get_mut(from)) {
            peer.buffered = peer.buffered.saturating_sub(1);
            peer.buffered_bytes = peer.buffered_bytes.saturating_sub(body.tx.len());
        }
        if let Some(item) = self.items.get_mut(body.id).filter(|item| item.wait == Wait::Turn) {
            item.wait = Wait::None;
        }
    }

    /// Returns the number of bodies that wait for earlier ones, and their bytes.
    pub fn buffered(&self) -> (usize, usize) {
        (self.sequences.buffered.values().map(BTreeMap::len).sum(), self.sequences.buffered_bytes)
    }

    /// Continues with the waiting transactions of a signer after one entered the pool.
    pub(super) fn advance_signer(&mut self, id: ItemId, cx: &mut Cx<'_>) {
        if self.sequences.pending.is_empty() && self.sequences.buffered.is_empty() {
            return;
        }
        self.sequences.forget_item(id);
        let Some(item) = self.items.get(id) else { return };
        let Some(signer) = self.pool.entry(&item.key).and_then(|entry| entry.sender.clone()) else {
            return;
        };
        self.apply_buffered(&signer, cx);
        self.request_pending(&signer, cx);
    }

    /// Adds buffered bodies whose turn has come (`processReceivedBuffer`), and drops those whose
    /// sequence numbers have been used.
    fn apply_buffered(&mut self, signer: &Signer, cx: &mut Cx<'_>) {
        while self.sequences.buffered.contains_key(signer)
            && let Some(expected) = self.expected_sequence(signer)
            && let Some(of_signer) = self.sequences.buffered.get_mut(signer)
        {
            let later = of_signer.split_off(&expected);
            let stale = std::mem::replace(of_signer, later);
            let due = of_signer.remove(&expected);
            if of_signer.is_empty() {
                self.sequences.buffered.remove(signer);
            }
            for body in stale.into_values() {
                self.unbuffer(&body);
                self.metrics.ignore(Ignored::StaleSequence);
                if self.items.get(body.id).is_some_and(|item| !item.is_here()) {
                    self.forget_item(body.id);
                }
            }
            let Some(body) = due else { return };
            self.unbuffer(&body);
            // Through `advance_signer`, this also adds the next one.
            self.add(body.id, &body.tx, body.origin, cx);
            if self.items.get(body.id).is_none_or(|item| !item.have) {
                return;
            }
        }
    }

    /// Drops buffered bodies whose keys are no longer remembered: the gap before them did not close
    /// in time.
    pub(super) fn forget_buffered(&mut self) {
        let items = &self.items;
        for body in self.sequences.drop_buffered(|id| items.get(id).is_none()) {
            self.metrics.ignore(Ignored::GapOverdue);
            self.unbuffer(&body);
        }
    }

    /// Requests the next transactions of a signer, in parallel (`processPendingSeenForSigner`).
    fn request_pending(&mut self, signer: &Signer, cx: &mut Cx<'_>) {
        let Some(rules) = self.config.sequences else { return };
        if !self.sequences.pending.contains_key(signer) {
            return;
        }
        let Some(expected) = self.expected_sequence(signer) else { return };
        let Some(queue) = self.sequences.pending.get(signer) else { return };
        let used = queue.partition_point(|known| known.sequence < expected);
        let is_near = |known: &&Pending| known.sequence - expected <= rules.parallel_max.max(rules.ahead_max);
        let near: Vec<Pending> = queue[used..].iter().take_while(is_near).copied().collect();
        let stale: Vec<ItemId> = queue[..used].iter().map(|known| known.id).collect();
        stale.into_iter().for_each(|id| self.sequences.forget_item(id));
        let (mut next, mut requested) = (expected, 0);
        for Pending { sequence, id, .. } in near {
            // Several peers may claim the same number for different transactions.
            let is_rival = !rules.strict && sequence + 1 == next;
            if (sequence != next && !is_rival) || requested >= rules.parallel_max {
                break;
            }
            let Some(item) = self.items.get(id) else { continue };
            next = sequence + 1;
            if item.is_here() {
                self.sequences.forget_item(id);
                continue;
            }
            if item.live().is_none() {
                self.request_elsewhere(id, cx);
            }
            requested += u64::from(self.items.get(id).is_some_and(|item| item.live().is_some()));
        }
    }

    /// Updates the queues of all signers after a block (`refreshPendingSeenQueues`).
    pub(super) fn refresh_signers(&mut self, cx: &mut Cx<'_>) {
        if self.config.sequences.is_none_or(|rules| !rules.resumed_by_blocks) {
            return;
        }
        let mut signers: Vec<Signer> = self.sequences.pending.keys().cloned().collect();
        signers.extend(self.sequences.buffered.keys().cloned());
        signers.sort_unstable();
        signers.dedup();
        for signer in signers {
            self.apply_buffered(&signer, cx);
            self.request_pending(&signer, cx);
        }
    }
}
