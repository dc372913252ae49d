//! What the embedding node wants.

use samara_engine::PeerId;

use super::items::ItemId;
use super::receive::Origin;
use super::{Cat, Command, Cx, Event};
use crate::pool::{Application, Cause, Decision, Verdict};
use crate::wire::{CompactBlock, Kind};
use crate::{Transaction, TxKey};

impl<A: Application> Cat<A> {
    pub(super) fn handle_command(&mut self, command: Command, cx: &mut Cx<'_>) {
        match command {
            Command::Submit(tx) => {
                self.submit(tx, cx);
            }
            Command::Commit { height, keys } => self.commit(height, &keys, cx),
            Command::Propose { height, max_bytes, max_gas } => {
                self.propose(height, max_bytes, max_gas, cx);
            }
            Command::Decided { key, verdict } => self.decided(key, verdict, cx),
            Command::PeerHeight { peer, height } => self.peer_height(peer, height, cx),
        }
    }

    /// A client submits a transaction. `true` if it is in the pool now; otherwise [`Event::Refused`] or [`Event::Duplicate`] says why, or
    /// the application is to decide.
    pub fn submit(&mut self, tx: Transaction, cx: &mut Cx<'_>) -> bool {
        let key = tx.key();
        let id = self.item_of(&key, Kind::Transaction, cx.now());
        self.add(id, &tx, Origin { from: None, pushed: false, in_bundle: false }, cx);
        self.arm_timer(cx);
        self.items.get(id).is_some_and(|item| item.have)
    }

    /// A block was committed: its transactions leave the pool.
    pub fn commit(&mut self, height: u64, keys: &[TxKey], cx: &mut Cx<'_>) {
        self.metrics.successful_txs += keys.len() as u64;
        let committed = self.pool.commit(cx.now(), height, keys);
        for key in keys {
            if let Some(id) = self.items.find(key) {
                self.forget_item(id);
            }
        }
        for key in &committed.expired {
            self.metrics.expired_txs += 1;
            self.gone(key);
            cx.emit(Event::Expired(*key));
        }
        for key in &committed.failed {
            self.metrics.rejected_txs += 1;
            self.gone(key);
            cx.emit(Event::Invalidated(*key));
        }
        self.settle_blocks(height, cx);
        self.forget_stale(cx.now());
        self.refresh_signers(cx);
        if self.pool.txs_available() {
            cx.emit(Event::Available);
        }
        self.arm_timer(cx);
    }

    /// A transaction is not in the pool any more.
    fn gone(&mut self, key: &TxKey) {
        if let Some(id) = self.items.find(key) {
            self.forget_item(id);
        }
    }

    /// Transactions left the pool for another one.
    pub(super) fn evicted(&mut self, keys: &[TxKey], cx: &mut Cx<'_>) {
        for key in keys {
            self.metrics.evicted_txs += 1;
            self.gone(key);
            cx.emit(Event::Evicted(*key));
        }
    }

    /// Chooses transactions for a block, and sends their keys to peers where compact blocks are on.
    pub fn propose(
        &mut self,
        height: u64,
        max_bytes: u64,
        max_gas: u64,
        cx: &mut Cx<'_>,
    ) -> Vec<Transaction> {
        let txs = self.pool.reap(max_bytes, max_gas);
        let block = CompactBlock::new(height, txs.iter().map(Transaction::key).collect());
        cx.emit(Event::Proposed { key: block.key(), height, txs: txs.len() as u32 });
        if self.config.compact_blocks.is_some() && !self.config.listen_only {
            self.spread_block(block, cx);
        }
        self.arm_timer(cx);
        txs
    }

    /// The verdict on a transaction for which the application answered [`Verdict::Later`].
    pub fn decided(&mut self, key: TxKey, verdict: Verdict, cx: &mut Cx<'_>) {
        let tx_before = self.items.find(&key);
        match self.pool.decided(cx.now(), key, verdict) {
            None | Some(Decision::Recheck { kept: true }) => {}
            Some(Decision::Recheck { kept: false }) => {
                self.metrics.rejected_txs += 1;
                self.gone(&key);
                cx.emit(Event::Invalidated(key));
            }
            Some(Decision::New(result)) => {
                if let Some(id) = tx_before {
                    let origin = self.end_check(id);
                    match result {
                        Ok(added) => {
                            self.evicted(&added.evicted, cx);
                            self.accepted(id, origin, cx);
                        }
                        Err(refusal) => self.refused_late(id, key, origin, refusal.cause(), cx),
                    }
                }
            }
        }
        self.arm_timer(cx);
    }

    fn refused_late(&mut self, id: ItemId, key: TxKey, origin: Origin, cause: Cause, cx: &mut Cx<'_>) {
        if cause == Cause::Invalid {
            self.metrics.rejected_txs += 1;
            self.count_invalid(origin, cx);
        }
        cx.emit(Event::Refused { key, from: origin.from, cause });
        self.forget_item(id);
    }

    /// The application is to decide on a transaction.
    pub(super) fn begin_check(&mut self, id: ItemId, origin: Origin) {
        if let Some(item) = self.items.get_mut(id) {
            item.checking = true;
        }
        self.checks.insert(id, origin);
    }

    fn end_check(&mut self, id: ItemId) -> Origin {
        if let Some(item) = self.items.get_mut(id) {
            item.checking = false;
        }
        self.checks.remove(&id).unwrap_or(Origin { from: None, pushed: false, in_bundle: false })
    }

    /// A peer has reached a height. One that has caught up is told of what it was not told before.
    pub fn peer_height(&mut self, peer: PeerId, height: u64, cx: &mut Cx<'_>) {
        let kept_up = self.speaks(peer).is_some();
        let Some(state) = self.peers.get_mut(peer) else { return };
        state.height = Some(height);
        if !kept_up && self.speaks(peer).is_some() && self.config.sync {
            self.resync(peer, cx);
        }
        self.arm_timer(cx);
    }
}
