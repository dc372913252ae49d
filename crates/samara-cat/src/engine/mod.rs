//! The protocol: what a node does with transactions, announcements and requests.
//!
//! One state machine for all generations, steered by [`Config`]. What happens where:
//!
//! | file | |
//! |---|---|
//! | `mod` | the node, its agenda, and the commands of its owner |
//! | `links` | peers come and go; what is remembered of keys |
//! | `receive` | frames: bodies, announcements, denials |
//! | `announce` | telling peers what is here |
//! | `requests` | asking, and for how long that is waited for |
//! | `serve` | bodies that go out, unasked and as answers |
//! | `sequences` | requests in the order of the senders' sequence numbers |
//! | `groups` | several transactions under one key: bundles and blocks |
//! | `items`, `peers` | what is known of keys, and of peers |

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

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use samara_engine::outbox::Lane;
use samara_engine::{Context, Engine, Frame, Input, PeerId, PeerIdentity, PeerKeyed, Time, TimerToken};

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

/// The context of the engine.
pub type Cx<'a> = Context<'a, CatFrame, Event>;

/// The one timer of the engine.
const TIMER: TimerToken = TimerToken(0);

/// A node's transaction pool and the protocol around it.
///
/// - Inputs come by [`Engine::handle`]; what an application wants can also be called directly: [`submit`](Self::submit),
///   [`commit`](Self::commit), [`propose`](Self::propose), [`decided`](Self::decided), [`peer_height`](Self::peer_height).
/// - [`Event`]s tell what happened; [`metrics`](Self::metrics) counts it.
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
    /// How transactions came here that the application is to decide on. Never iterated over.
    checks: FxHashMap<ItemId, Origin>,
    /// Whether a [`Task::Prune`] is on the agenda.
    prunes: bool,
    metrics: Metrics,
}

impl<A: Application> Cat<A> {
    /// A node that has not started.
    ///
    /// # Errors
    /// The configuration is not possible.
    pub fn new(
        config: impl Into<Arc<Config>>,
        identity: &PeerIdentity,
        application: A,
    ) -> Result<Self, ConfigError> {
        let config = config.into();
        config.validate()?;
        let address = Address::of(identity);
        // `start` replaces this one: random numbers come with the first input.
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
            metrics: Metrics::default(),
            address,
            config,
        })
    }

    /// The set-up.
    pub fn config(&self) -> &Config {
        &self.config
    }

    pub fn pool(&self) -> &Pool<A> {
        &self.pool
    }

    /// The application behind the pool.
    pub fn application_mut(&mut self) -> &mut A {
        self.pool.application_mut()
    }

    /// What was counted.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// How many keys anything is remembered about.
    pub fn keys(&self) -> usize {
        self.items.len()
    }

    /// How many requests are remembered: those that wait for an answer, and those whose late answer would still count.
    pub fn outstanding(&self) -> usize {
        self.requests.len()
    }

    /// How many things are to be done later.
    pub fn scheduled(&self) -> usize {
        self.agenda.len()
    }

    /// Whom a transaction was asked of, if it was and has not come.
    pub fn asked(&self, key: &TxKey) -> Option<PeerId> {
        self.items.get(self.items.find(key)?)?.live()
    }

    /// Whether a peer is known to have a transaction.
    pub fn has_seen(&self, peer: PeerId, key: &TxKey) -> bool {
        self.items.find(key).and_then(|id| self.items.get(id)).is_some_and(|item| item.seen.contains(peer))
    }

    /// Owes a frame to a peer. Whether there was room.
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
                Task::AnnounceItem { item } => self.announce_now(item, cx),
                Task::Wake { item, peer, pushed } => self.wake(item, peer, pushed, cx),
                Task::PushOverdue { item, peer } => self.push_overdue(item, peer, cx),
                Task::NoBetter { item } => self.no_better(item, cx),
                Task::Retry { peer } => self.retry_bodies(peer, cx),
                Task::Resync { peer } => self.resync(peer, cx),
                Task::Bundle => self.close_bundle(cx),
                Task::BlockOverdue { item } => self.block_overdue(item, cx),
                Task::Prune => self.prune(cx),
            }
        }
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
        self.arm_timer(cx);
    }
}

// ---- what the embedding node wants ----

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

    /// A client submits a transaction. `true` if it is in the pool now; otherwise [`Event::Refused`] or [`Event::Duplicate`] says why, or
    /// the application is to decide.
    pub fn submit(&mut self, tx: Transaction, cx: &mut Cx<'_>) -> bool {
        let key = tx.key();
        let id = self.item_of(&key, Kind::Transaction, cx.now());
        self.add(id, &tx, Origin::default(), cx);
        self.arm_timer(cx);
        self.items.get(id).is_some_and(|item| item.have)
    }

    /// A block was committed: its transactions leave the pool.
    pub fn commit(&mut self, height: u64, keys: &[TxKey], cx: &mut Cx<'_>) {
        let committed = self.pool.commit(cx.now(), height, keys);
        keys.iter().for_each(|key| self.gone(key));
        for key in &committed.expired {
            self.gone(key);
            cx.emit(Event::Expired(*key));
        }
        for key in &committed.failed {
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
    fn evicted(&mut self, keys: &[TxKey], cx: &mut Cx<'_>) {
        for key in keys {
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
        if self.config.compact_blocks.is_some() {
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
            self.count_invalid(origin, cx);
        }
        cx.emit(Event::Refused { key, from: origin.from, cause });
        self.forget_item(id);
    }

    /// The application is to decide on a transaction.
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

// ---- what is to be done later ----

/// Something to be done at its time. What has become pointless is found out then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    /// A request may be overdue.
    Timeout { item: ItemId, peer: PeerId, serial: u32 },
    /// The window for announcements is over.
    Announce,
    /// The jitter of one announcement is over.
    AnnounceItem { item: ItemId },
    /// Whoever received the transaction has slept: it is announced, and the frames of this peer, or of all, go on.
    Wake { item: ItemId, peer: PeerId, pushed: bool },
    /// A push that was announced should have come; if not, this peer is asked.
    PushOverdue { item: ItemId, peer: PeerId },
    /// Only peers that are not relied on had announced it: if nobody else has by now, they are asked.
    NoBetter { item: ItemId },
    /// A queue was full of bodies: try again.
    Retry { peer: PeerId },
    /// A queue was full of announcements: tell the peer of everything that it is not known to have.
    Resync { peer: PeerId },
    /// The window for own transactions is over.
    Bundle,
    /// A compact block is given up unless it is complete.
    BlockOverdue { item: ItemId },
    /// What is remembered of absent transactions may be too old.
    Prune,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Due {
    at: Time,
    serial: u64,
    task: Task,
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.serial).cmp(&(other.at, other.serial))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Tasks in the order of their times; those of the same time as they were entered.
#[derive(Debug, Default)]
struct Agenda {
    heap: BinaryHeap<Reverse<Due>>,
    serial: u64,
    /// When the driver's timer fires.
    armed: Option<Time>,
}

impl Agenda {
    fn push(&mut self, at: Time, task: Task) {
        self.serial += 1;
        self.heap.push(Reverse(Due { at, serial: self.serial, task }));
    }

    /// The first task that is due, and when it was.
    fn pop(&mut self, now: Time) -> Option<Task> {
        self.heap.peek().filter(|due| due.0.at <= now)?;
        self.heap.pop().map(|due| due.0.task)
    }

    /// The driver's timer has fired.
    fn fired(&mut self, now: Time) {
        if self.armed.is_some_and(|armed| armed <= now) {
            self.armed = None;
        }
    }

    /// When to set the driver's timer, if that is necessary. `is_pointless` tells tasks that need not wake anybody.
    fn arm(&mut self, is_pointless: impl Fn(&Task) -> bool) -> Option<Time> {
        let is_in_time = |armed: Time| self.heap.peek().is_none_or(|due| armed <= due.0.at);
        if self.armed.is_some_and(is_in_time) {
            return None;
        }
        while self.heap.peek().is_some_and(|due| is_pointless(&due.0.task)) {
            self.heap.pop();
        }
        let at = self.heap.peek()?.0.at;
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
