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
use crate::pool::{Application, Signer};

/// Announcements and bodies that arrived too early.
#[derive(Debug, Default)]
pub(super) struct SequenceState {
    /// By signer, in the order of sequence numbers (`pendingTxsBySigner`).
    pending: BTreeMap<Signer, Vec<(u64, ItemId)>>,
    /// Never iterated over.
    of_item: FxHashMap<ItemId, (Signer, u64)>,
    /// By signer and sequence number (`receivedTxBuffer`).
    buffered: BTreeMap<Signer, BTreeMap<u64, Buffered>>,
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

    /// Queues an announcement. If its signer has too many, those with the highest numbers are
    /// dropped. Returns `false` if it is this one.
    fn insert(&mut self, id: ItemId, signer: &Signer, sequence: u64, most: usize) -> bool {
        if self.info(id).is_some() {
            return true;
        }
        let queue = self.pending.entry(signer.clone()).or_default();
        let at = queue.partition_point(|(known, _)| *known < sequence);
        if queue.len() >= most && at == queue.len() {
            return false;
        }
        queue.insert(at, (sequence, id));
        self.of_item.insert(id, (signer.clone(), sequence));
        if queue.len() > most
            && let Some((_, last)) = queue.pop()
        {
            self.of_item.remove(&last);
        }
        true
    }

    pub(super) fn forget_item(&mut self, id: ItemId) {
        let Some((signer, _)) = self.of_item.remove(&id) else { return };
        if let Some(queue) = self.pending.get_mut(&signer) {
            queue.retain(|(_, known)| *known != id);
            if queue.is_empty() {
                self.pending.remove(&signer);
            }
        }
    }

    /// Removes buffered bodies, and returns the peers that sent them.
    fn drop_buffered(&mut self, is_old: impl Fn(ItemId) -> bool) -> Vec<Option<PeerId>> {
        let mut from = Vec::new();
        self.buffered.retain(|_, of_signer| {
            of_signer.retain(|_, buffered| {
                let old = is_old(buffered.id);
                from.extend(old.then_some(buffered.origin.from));
                !old
            });
            !of_signer.is_empty()
        });
        from
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
            self.metrics.ignore(Ignored::SeenUnknownSigner);
            return;
        };
        if sequence < expected {
            self.metrics.ignore(Ignored::SeenStaleSequence);
            return;
        }
        if sequence == expected {
            self.request(&[id], peer, cx);
        }
        // It is not its turn, or no peer can be asked at the moment (`AddPendingTx`).
        if self.items.get(id).is_some_and(Item::is_wanted) {
            if self.sequences.insert(id, signer, sequence, rules.pending_per_signer_max) {
                if let Some(item) = self.items.get_mut(id).filter(|item| item.wait == Wait::None) {
                    item.wait = Wait::Signer;
                }
            } else {
                self.metrics.ignore(Ignored::SeenSignerFull);
            }
        }
    }

    /// Returns true if a body is next in sequence. Otherwise buffers or drops it
    /// (`processNowOrBuffer`).
    pub(super) fn may_apply(&mut self, id: ItemId, tx: &Transaction, peer: PeerId) -> bool {
        let Some(rules) = self.config.sequences else { return true };
        let Some((signer, sequence)) = self.sequences.info(id) else { return true };
        let Some(expected) = self.expected_sequence(&signer) else { return true };
        if sequence == expected {
            return true;
        }
        if sequence < expected {
            self.metrics.ignore(Ignored::StaleSequence);
            self.forget_item(id);
            return false;
        }
        let buffered_by_peer = self.peers.get(peer).map_or(0, |peer| peer.buffered);
        let of_signer = self.sequences.buffered.entry(signer.clone()).or_default();
        let is_far = sequence > expected.saturating_add(rules.ahead_max);
        let is_full =
            of_signer.len() as u64 >= rules.ahead_max || buffered_by_peer >= rules.buffered_per_peer_max;
        if is_far || is_full || of_signer.contains_key(&sequence) {
            if of_signer.is_empty() {
                self.sequences.buffered.remove(&signer);
            }
            self.metrics.ignore(Ignored::TooFarAhead);
            return false;
        }
        let origin = Origin { from: Some(peer), pushed: false, in_bundle: false };
        of_signer.insert(sequence, Buffered { id, tx: tx.clone(), origin });
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.buffered += 1;
        }
        self.sequences.forget_item(id);
        false
    }

    /// Continues with the waiting transactions of a signer after one entered the pool.
    pub(super) fn advance_signer(&mut self, id: ItemId, cx: &mut Cx<'_>) {
        if self.config.sequences.is_none() {
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

    /// Adds buffered bodies whose turn has come (`processReceivedBuffer`).
    fn apply_buffered(&mut self, signer: &Signer, cx: &mut Cx<'_>) {
        while let Some(expected) = self.expected_sequence(signer)
            && let Some(of_signer) = self.sequences.buffered.get_mut(signer)
            && of_signer.contains_key(&expected)
        {
            let later = of_signer.split_off(&expected.saturating_add(1));
            let mut due = std::mem::replace(of_signer, later);
            if of_signer.is_empty() {
                self.sequences.buffered.remove(signer);
            }
            for buffered in due.values() {
                let from = buffered.origin.from.and_then(|from| self.peers.get_mut(from));
                if let Some(from) = from {
                    from.buffered = from.buffered.saturating_sub(1);
                }
            }
            let Some(buffered) = due.remove(&expected) else { return };
            // Through `advance_signer`, this also adds the next one.
            self.add(buffered.id, &buffered.tx, buffered.origin, cx);
            if self.items.get(buffered.id).is_none_or(|item| !item.have) {
                return;
            }
        }
    }

    /// Drops buffered bodies whose keys are no longer remembered: the gap before them did not close
    /// in time.
    pub(super) fn forget_buffered(&mut self) {
        let items = &self.items;
        for from in self.sequences.drop_buffered(|id| items.get(id).is_none()) {
            self.metrics.ignore(Ignored::GapOverdue);
            if let Some(peer) = from.and_then(|from| self.peers.get_mut(from)) {
                peer.buffered = peer.buffered.saturating_sub(1);
            }
        }
    }

    /// Requests the next transactions of a signer, in parallel (`processPendingSeenForSigner`).
    fn request_pending(&mut self, signer: &Signer, cx: &mut Cx<'_>) {
        let Some(rules) = self.config.sequences else { return };
        let Some(queue) = self.sequences.pending.get(signer).cloned() else { return };
        let Some(expected) = self.expected_sequence(signer) else { return };
        let (mut next, mut requested) = (expected, 0);
        for (sequence, id) in queue {
            if sequence < expected {
                self.sequences.forget_item(id);
                continue;
            }
            if sequence != next || requested >= rules.ahead_max {
                break;
            }
            let Some(item) = self.items.get(id) else { continue };
            if item.is_here() {
                self.sequences.forget_item(id);
                next += 1;
                continue;
            }
            if item.live().is_none() {
                self.request_elsewhere(id, cx);
            }
            requested += u64::from(self.items.get(id).is_some_and(|item| item.live().is_some()));
            next += 1;
        }
    }

    /// Updates the queues of all signers after a block (`refreshPendingSeenQueues`).
    pub(super) fn refresh_signers(&mut self, cx: &mut Cx<'_>) {
        if self.config.sequences.is_none() {
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
