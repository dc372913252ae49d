//! The protocol: the handling of transactions, announcements and requests.
//!
//! One state machine serves all generations, controlled by [`Config`]. The files:
//!
//! | file | content |
//! |---|---|
//! | `mod` | the node, its agenda, and the commands of its owner |
//! | `links` | connected and departed peers; the keys that each has |
//! | `receive` | incoming frames: bodies, announcements, denials |
//! | `announce` | announcements to peers |
//! | `requests` | requests and their timeouts |
//! | `serve` | outgoing bodies, unrequested and as answers |
//! | `sequences` | requests in the order of the senders' sequence numbers |
//! | `windows` | announcements to peers that request in this order |
//! | `groups` | several transactions under one key: bundles and blocks |
//! | `items`, `peers` | the state of keys, and of peers |

// All tables here have keys that this node assigns, or addresses.
#![allow(clippy::disallowed_types)]

mod announce;
mod event;
mod groups;
mod items;
mod links;
mod metrics;
mod peers;
mod receive;
mod requests;
mod sequences;
mod serve;
#[cfg(test)]
mod tests;
mod windows;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use samara_engine::outbox::Lane;
use samara_engine::{
    Context, Engine, Frame, Input, Outbox, PeerId, PeerIdentity, PeerKeyed, Time, TimerToken,
};

pub use event::{Command, Event, Misbehaviour};
pub use metrics::{FrameKind, Ignored, Metrics};

use crate::config::{Config, ConfigError};
use crate::pool::{Application, Cause, Decision, Pool, Verdict};
use crate::wire::{CatFrame, CompactBlock, Kind};
use crate::{Transaction, TxKey};
use announce::{Fresh, Sticky};
use groups::{Blocks, BundleState};
use items::{ItemId, Items};
use peers::{Address, Peers};
use receive::Origin;
use requests::Requests;
use sequences::SequenceState;

/// The context of a [`Cat`] engine.
pub type Cx<'a> = Context<'a, CatFrame, Event>;

const TIMER: TimerToken = TimerToken(0);

/// A node's transaction pool and the protocol around it.
///
/// - Inputs arrive through [`Engine::handle`]. An application can also call commands directly:
///   [`submit`](Self::submit), [`commit`](Self::commit), [`propose`](Self::propose),
///   [`decided`](Self::decided).
/// - [`Event`]s report the effects; [`metrics`](Self::metrics) counts them.
#[derive(Debug)]
pub struct Cat<A> {
    config: Arc<Config>,
    address: Address,
    pool: Pool<A>,
    items: Items,
    peers: Peers,
    requests: Requests,
    fresh: Fresh,
    sticky: Sticky,
    sequences: SequenceState,
    bundles: BundleState,
    blocks: Blocks,
    agenda: Agenda,
    /// The origins of transactions that wait for the application's verdict. Never iterated over.
    checks: FxHashMap<ItemId, Origin>,
    /// Whether a [`Task::Prune`] is on the agenda.
    prunes: bool,
    /// Whether a [`Task::Expire`] is on the agenda.
    expires: bool,
    metrics: Metrics,
}

impl<A: Application> Cat<A> {
    /// Returns a node that has not started.
    ///
    /// # Errors
    /// If the configuration is invalid.
    pub fn new(
        config: impl Into<Arc<Config>>,
        identity: &PeerIdentity,
        application: A,
    ) -> Result<Self, ConfigError> {
        let config = config.into();
        config.validate()?;
        let address = Address::of(identity);
        // `start` replaces this one, since random numbers come with the first input.
        let hasher = PeerKeyed::default();
        Ok(Self {
            pool: Pool::new(config.pool.clone(), application, hasher),
            items: Items::new(hasher),
            peers: Peers::default(),
            requests: Requests::default(),
            fresh: Fresh::default(),
            sticky: Sticky::new(&address, hasher),
            sequences: SequenceState::default(),
            bundles: BundleState::default(),
            blocks: Blocks::new(hasher),
            agenda: Agenda::default(),
            checks: FxHashMap::default(),
            prunes: false,
            expires: false,
            metrics: Metrics::default(),
            address,
            config,
        })
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    pub fn pool(&self) -> &Pool<A> {
        &self.pool
    }

    pub fn application_mut(&mut self) -> &mut A {
        self.pool.application_mut()
    }

    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Returns the number of keys with any state.
    pub fn keys(&self) -> usize {
        self.items.len()
    }

    /// Returns the number of remembered requests: those that wait for an answer, and those whose
    /// late answer would still count.
    pub fn outstanding(&self) -> usize {
        self.requests.len()
    }

    /// Returns the number of scheduled tasks.
    pub fn scheduled(&self) -> usize {
        self.agenda.len()
    }

    /// Returns the peer that has been asked for a missing transaction, if any.
    pub fn asked(&self, key: &TxKey) -> Option<PeerId> {
        self.items.get(self.items.find(key)?)?.live()
    }

    /// Returns true if a peer is known to have a transaction.
    pub fn has_seen(&self, peer: PeerId, key: &TxKey) -> bool {
        self.items.find(key).and_then(|id| self.items.get(id)).is_some_and(|item| item.seen.contains(peer))
    }

    /// Owes a frame to a peer. Returns true if there was room.
    fn owe(
        &mut self,
        peer: PeerId,
        lane: Lane,
        frame: CatFrame,
        item: Option<ItemId>,
        cx: &mut Cx<'_>,
    ) -> bool {
        let (kind, len) = (FrameKind::of(&frame), frame.encoded_len());
        let now = cx.now();
        let taken = cx.outbox().owe(now, peer, lane, frame, item.map(ItemId::message), None).is_ok();
        if taken {
            self.metrics.send(kind, len);
        } else if matches!(kind, FrameKind::Txs | FrameKind::Bundle) {
            self.metrics.refused_bodies += 1;
        } else {
            self.metrics.refused_frames += 1;
        }
        taken
    }

    fn misbehaved(&mut self, peer: PeerId, why: Misbehaviour, cx: &mut Cx<'_>) {
        cx.emit(Event::Misbehaved { peer, why });
        if self.config.disconnect_misbehaving {
            cx.close(peer);
        }
    }

    fn start(&mut self, cx: &mut Cx<'_>) {
        // Peers choose the keys of these tables.
        let hasher = cx.rng().table_hasher();
        self.items = Items::new(hasher);
        self.pool.rekey(hasher);
        self.sticky = Sticky::new(&self.address, hasher);
        self.blocks = Blocks::new(hasher);
    }

    fn do_tasks(&mut self, cx: &mut Cx<'_>) {
        while let Some(task) = self.agenda.pop(cx.now()) {
            match task {
                Task::Timeout { item, peer, serial } => self.on_timeout(item, peer, serial, cx),
                Task::Announce => self.announce_fresh(cx),
                Task::AnnounceItem { item } => self.announce_unjittered(item, None, cx),
                Task::Wake { item, peer, pushed } => self.wake(item, peer, pushed, cx),
                Task::PushOverdue { item, peer } => self.push_overdue(item, peer, cx),
                Task::NoBetter { item } => self.no_better(item, cx),
                Task::Retry { peer } => self.retry_bodies(peer, cx),
                Task::Resync { peer } => self.resync(peer, cx),
                Task::Unstick { peer } => self.unstick(peer, cx),
                Task::Bundle => self.close_bundle(cx),
                Task::BlockOverdue { item } => self.block_overdue(item, cx),
                Task::Prune => self.prune(cx),
                Task::Stale => self.on_stale(cx.now()),
                Task::Expire => self.expire(cx),
            }
            self.use_slots(cx);
        }
    }

    /// Ends the handling of an input.
    fn finish(&mut self, cx: &mut Cx<'_>) {
        self.use_slots(cx);
        self.arm_timer(cx);
    }

    fn arm_timer(&mut self, cx: &mut Cx<'_>) {
        let requests = &self.requests;
        let is_pointless = |task: &Task| match *task {
            Task::Timeout { item, peer, serial } => !requests.is_awaited(item, peer, serial),
            _ => false,
        };
        if let Some(at) = self.agenda.arm(is_pointless) {
            cx.set_timer(at, TIMER);
        }
    }
}

/// An engine that speaks as a [`Cat`] with some configuration does: an application around one, or one
/// that only pretends.
///
/// A driver with channels takes them from the configuration.
pub trait WithCat: Engine<Frame = CatFrame> {
    fn cat_config(&self) -> &Config;
}

impl<A: Application> WithCat for Cat<A> {
    fn cat_config(&self) -> &Config {
        &self.config
    }
}

impl<A: Application> Engine for Cat<A> {
    type Frame = CatFrame;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: Input<CatFrame, Command>, cx: &mut Cx<'_>) {
        match input {
            Input::Start => self.start(cx),
            Input::LinkUp { peer, info } => self.link_up(peer, &info, cx),
            Input::LinkDown { peer } => self.link_down(peer, cx),
            Input::DialFailed { .. } => {}
            Input::Frame { peer, frame } => self.receive(peer, frame, cx),
            Input::Timer(_) => {
                self.agenda.fired(cx.now());
                self.do_tasks(cx);
            }
            Input::Command(command) => self.handle_command(command, cx),
        }
        self.finish(cx);
    }

    fn assert_invariants(&self, outbox: &Outbox<CatFrame>) {
        outbox.assert_invariants();
        for peer in outbox.owed_peers() {
            assert!(self.peers.get(peer).is_some(), "frames are owed to {peer:?}, which is gone");
        }
        self.pool.assert_invariants();
        assert!(
            self.pool.len() <= self.keys(),
            "{} of {} keys are in the pool",
            self.pool.len(),
            self.keys()
        );
        let mut asked = 0;
        for id in self.peers.all() {
            let Some(peer) = self.peers.get(*id) else { continue };
            let (live, slots) = (peer.live, peer.slots);
            assert!(live <= slots && slots <= peer.asked, "{id:?} has {live} requests in {slots} slots");
            asked += peer.asked;
        }
        assert!(asked <= self.requests.len(), "{asked} requests of {}", self.requests.len());
    }
}

// ---- commands of the embedding node ----

impl<A: Application> Cat<A> {
    fn handle_command(&mut self, command: Command, cx: &mut Cx<'_>) {
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

    /// Submits a transaction of a client. Returns `true` if it is now in the pool. Otherwise
    /// [`Event::Refused`] or [`Event::Duplicate`] reports the reason, or the application's verdict
    /// is pending.
    pub fn submit(&mut self, tx: Transaction, cx: &mut Cx<'_>) -> bool {
        let key = tx.key();
        let id = self.item_of(&key, Kind::Transaction, cx.now());
        self.add(id, &tx, Origin::default(), cx);
        self.finish(cx);
        self.items.get(id).is_some_and(|item| item.have)
    }

    /// Processes a committed block, whose transactions leave the pool.
    pub fn commit(&mut self, height: u64, keys: &[TxKey], cx: &mut Cx<'_>) {
        let committed = self.pool.commit(cx.now(), height, keys);
        keys.iter().for_each(|key| self.forget_key(key));
        self.expired(&committed.expired, cx);
        for key in &committed.failed {
            self.forget_key(key);
            cx.emit(Event::Invalidated(*key));
        }
        self.settle_blocks(height, cx);
        self.forget_stale(cx.now());
        self.refresh_signers(cx);
        self.refresh_windows(cx);
        if self.pool.txs_available() {
            cx.emit(Event::Available);
        }
        self.finish(cx);
    }

    fn expired(&mut self, keys: &[TxKey], cx: &mut Cx<'_>) {
        for key in keys {
            self.forget_key(key);
            cx.emit(Event::Expired(*key));
        }
    }

    /// Removes transactions that have exceeded their maximum age, although no block came.
    fn expire(&mut self, cx: &mut Cx<'_>) {
        self.expires = false;
        let keys = self.pool.expire(cx.now());
        self.expired(&keys, cx);
        self.expire_later();
    }

    /// Schedules the expiry of the oldest transaction.
    fn expire_later(&mut self) {
        if !self.expires
            && let Some(at) = self.pool.next_expiry()
        {
            self.expires = true;
            self.agenda.push(at, Task::Expire);
        }
    }

    fn forget_key(&mut self, key: &TxKey) {
        if let Some(id) = self.items.find(key) {
            self.forget_item(id);
        }
    }

    /// Reports transactions that were evicted to make room for another.
    fn evicted(&mut self, keys: &[TxKey], cx: &mut Cx<'_>) {
        for key in keys {
            self.forget_key(key);
            cx.emit(Event::Evicted(*key));
        }
    }

    /// Chooses transactions for a block, and sends their keys to peers if compact blocks are
    /// enabled.
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
        if self.config.compact_blocks.is_some() {
            self.spread_block(block, cx);
        }
        self.finish(cx);
        txs
    }

    /// Applies the verdict on a transaction for which the application answered [`Verdict::Later`].
    pub fn decided(&mut self, key: TxKey, verdict: Verdict, cx: &mut Cx<'_>) {
        let tx_before = self.items.find(&key);
        match self.pool.decided(cx.now(), key, verdict) {
            None | Some(Decision::Recheck { kept: true }) => {}
            Some(Decision::Recheck { kept: false }) => {
                self.forget_key(&key);
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
        self.finish(cx);
    }

    fn refused_late(&mut self, id: ItemId, key: TxKey, origin: Origin, cause: Cause, cx: &mut Cx<'_>) {
        if cause == Cause::Invalid {
            self.count_invalid(origin, cx);
        }
        cx.emit(Event::Refused { key, from: origin.from, cause });
        self.forget_item(id);
    }

    /// Marks a transaction as waiting for the application's verdict.
    fn begin_check(&mut self, id: ItemId, origin: Origin) {
        if let Some(item) = self.items.get_mut(id) {
            item.checking = true;
        }
        self.checks.insert(id, origin);
    }

    fn end_check(&mut self, id: ItemId) -> Origin {
        if let Some(item) = self.items.get_mut(id) {
            item.checking = false;
        }
        self.checks.remove(&id).unwrap_or_default()
    }

    fn peer_height(&mut self, peer: PeerId, height: u64, cx: &mut Cx<'_>) {
        let kept_up = self.speaks(peer).is_some();
        let Some(state) = self.peers.get_mut(peer) else { return };
        state.height = Some(height);
        if !kept_up && self.speaks(peer).is_some() && self.config.sync {
            self.resync(peer, cx);
        }
        self.finish(cx);
    }
}

// ---- scheduled tasks ----

/// A scheduled task. A task that has become pointless is detected when it is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    /// Checks whether a request is overdue.
    Timeout { item: ItemId, peer: PeerId, serial: u32 },
    /// Sends announcements at the end of the window.
    Announce,
    /// Announces an item at the end of its jitter.
    AnnounceItem { item: ItemId },
    /// Ends the sleep of the receive loop after a transaction: announces the transaction, and
    /// processes the waiting frames of this peer, or of all peers.
    Wake { item: ItemId, peer: PeerId, pushed: bool },
    /// Requests an announced push from this peer if it has not arrived.
    PushOverdue { item: ItemId, peer: PeerId },
    /// Asks unreliable announcers if no other peer has announced the item by now.
    NoBetter { item: ItemId },
    /// Retries bodies that found their queue full.
    Retry { peer: PeerId },
    /// Announces everything that a peer may lack, after its queue was full of announcements.
    Resync { peer: PeerId },
    /// Continues with announcements to a peer that has not requested what was announced to it.
    Unstick { peer: PeerId },
    /// Ends the window for collecting own transactions.
    Bundle,
    /// Gives up on a compact block unless it is complete.
    BlockOverdue { item: ItemId },
    /// Removes the state of absent transactions that is too old.
    Prune,
    /// Forgets requests that timed out long ago.
    Stale,
    /// Removes transactions that have exceeded their maximum age.
    Expire,
}

/// Tasks in the order of their times. Tasks of the same time keep their order of insertion.
#[derive(Debug, Default)]
struct Agenda {
    /// Each task with its time and a serial number, which differ from those of all others.
    heap: BinaryHeap<Reverse<(Time, u64, Task)>>,
    serial: u64,
    /// The time at which the driver's timer fires.
    armed: Option<Time>,
}

impl Agenda {
    fn push(&mut self, at: Time, task: Task) {
        self.serial += 1;
        self.heap.push(Reverse((at, self.serial, task)));
    }

    /// Removes and returns the first task that is due.
    fn pop(&mut self, now: Time) -> Option<Task> {
        self.heap.peek().filter(|Reverse((at, ..))| *at <= now)?;
        self.heap.pop().map(|Reverse((.., task))| task)
    }

    fn fired(&mut self, now: Time) {
        if self.armed.is_some_and(|armed| armed <= now) {
            self.armed = None;
        }
    }

    /// Returns the time to set the driver's timer to, if necessary. `is_pointless` selects tasks
    /// that need no wake-up.
    fn arm(&mut self, is_pointless: impl Fn(&Task) -> bool) -> Option<Time> {
        let is_in_time = |armed: Time| self.heap.peek().is_none_or(|Reverse((at, ..))| armed <= *at);
        if self.armed.is_some_and(is_in_time) {
            return None;
        }
        while self.heap.peek().is_some_and(|Reverse((.., task))| is_pointless(task)) {
            self.heap.pop();
        }
        let Reverse((at, ..)) = *self.heap.peek()?;
        if self.armed.is_some_and(|armed| armed <= at) {
            return None;
        }
        self.armed = Some(at);
        Some(at)
    }

    fn len(&self) -> usize {
        self.heap.len()
    }
}
