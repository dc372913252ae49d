//! The protocol: what a node does with transactions, announcements and requests.
//!
//! One state machine for all generations, steered by [`Config`]. What happens where:
//!
//! | file | |
//! |---|---|
//! | `links` | peers come and go; the pool is told to new ones |
//! | `receive` | frames, bodies, a receiver that sleeps |
//! | `push` | bodies that nobody asked for: own transactions, flooding, neighbourhoods |
//! | `announce` | telling peers what is here |
//! | `inline` | transactions so small that they are sent instead of announced |
//! | `seen` | being told what peers have |
//! | `requests` | asking, and for how long that is waited for |
//! | `choice` | whom to ask, and whom next; peers that do not deliver |
//! | `serve` | answering requests |
//! | `sequences` | requests in the order of the senders' sequence numbers |
//! | `bundles`, `blocks` | several transactions under one key |
//! | `commands` | what the embedding node wants |

mod agenda;
mod announce;
mod asks;
mod bits;
mod blocks;
mod bundles;
mod choice;
mod commands;
mod event;
mod inline;
mod items;
mod links;
mod metrics;
mod peers;
mod push;
mod receive;
mod record;
mod requests;
mod response;
mod seen;
mod sequences;
mod serve;
mod sticky;

use std::sync::Arc;

use rustc_hash::FxHashMap;
use samara_engine::outbox::Lane;
use samara_engine::{Context, Engine, Frame, Input, PeerId, PeerIdentity, PeerKeyed, TimerToken};

pub use event::{Command, Event, Misbehaviour};
pub use metrics::{FrameKind, Ignored, Metrics};

use crate::TxKey;
use crate::config::{Config, ConfigError};
use crate::pool::{Application, Pool};
use crate::wire::CatFrame;
use agenda::{Agenda, Task};
use announce::Fresh;
use asks::Requests;
use blocks::Blocks;
use bundles::BundleState;
use items::{ItemId, Items};
use peers::{Address, Peers};
use receive::{Origin, Receiver};
use sequences::SequenceState;
use sticky::Sticky;

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
    receiver: Receiver,
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
        let hasher = PeerKeyed::unset();
        Ok(Self {
            pool: Pool::new(config.pool.clone(), application, hasher),
            items: Items::new(hasher),
            peers: Peers::default(),
            requests: Requests::default(),
            receiver: Receiver::default(),
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

    /// The transactions.
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
