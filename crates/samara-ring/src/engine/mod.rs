//! The protocol: what a member does with messages, and how the members stay of one mind.
//!
//! | file | |
//! |---|---|
//! | `members` | nodes come and go; who is dialled; heartbeats, suspicion, slow members |
//! | `change` | a view change, as its proposer and as each participant sees it |
//! | `current` | what is known while a view holds |
//! | `receive` | units that come: kept, passed on, acknowledged, delivered |
//! | `send` | units that leave: own and forwarded in turn; windows |

mod change;
mod current;
mod event;
mod members;
mod receive;
mod send;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use samara_engine::{Context, Engine, Input, PeerId, PeerIdentity, Time, TimerToken};

pub use event::{BroadcastError, Command, Event, Ignored, Metrics, SuspectCause};

use crate::config::{Config, ConfigError, Early};
use crate::wire::{Data, Resume};
use crate::{Member, RingFrame, View, ViewId};
use change::{Flush, Proposal, ReadyFor};
use current::Current;
use members::Peers;
use receive::Outlet;
use send::{Flow, Own};

pub type Cx<'a> = Context<'a, RingFrame, Event>;

/// Heartbeats, and everything that is looked at from time to time.
const TICK: TimerToken = TimerToken(0);
/// Acknowledgements have waited long enough.
const ACK: TimerToken = TimerToken(1);
const TIMERS: u64 = 2;

/// A view whose counter is further ahead than this of all that were heard of is not believed: counters must never run out.
const COUNTER_LEAP: u64 = 1 << 32;

/// A member of a group.
///
/// - Inputs come by [`Engine::handle`]; messages can also be handed in by [`broadcast`](Self::broadcast), which answers at
///   once whether there is room.
/// - [`Event`]s tell what happened; [`metrics`](Self::metrics) counts it.
///
/// # What is promised
///
/// - Each message is delivered at most once, and those of one sender in the order in which it broadcast them; with
///   [`Order::Total`](crate::Order::Total) all messages in the same order everywhere.
/// - Members that install the same two views one after another deliver the same messages between them (virtual synchrony).
/// - A member that stays delivers all that it broadcast, and so do all that stay with it, also across view changes.
/// - What a member that leaves gracefully had broadcast is delivered by all that it leaves behind.
/// - Of what a member had broadcast when it crashed, those that go on together deliver the same beginning. With total order, they
///   deliver all that any member delivered, failed ones included (uniformity).
#[derive(Debug)]
pub struct Ring {
    config: Arc<Config>,
    /// 0 for a ring that is alone at its node or within a site; leaders of sites number theirs, which share links and timers with it.
    bridge: u64,
    me: Member,
    started_at: Time,
    peers: Peers,
    own: Own,
    flow: Flow,
    outlet: Outlet,
    metrics: Metrics,

    // ---- the view, and its changes ----
    current: Option<Current>,
    view_since: Time,
    flush: Option<Flush>,
    proposal: Option<Proposal>,
    /// What this member is ready to install, and does not know whether others have.
    ready: Option<ReadyFor>,
    /// Nothing lower is agreed to.
    promised: ViewId,
    /// The highest counter of a view that was heard of.
    counter: u64,
    back_off_until: Time,
    /// What successors lack, for view changes that are not under way here yet: at most one for each peer and view.
    resumes: Vec<(PeerId, Arc<Resume>)>,
    /// Data of a view that is not installed here yet.
    early: Vec<(PeerId, Arc<Data>)>,
    early_bytes: u64,
    /// Frames of this node to itself: it takes part in its own proposals like everybody else.
    looped: VecDeque<RingFrame>,
    wants_to_leave: bool,
    has_left: bool,

    // ---- suspicion ----
    /// Ranks that this member itself takes for failed.
    suspected: BTreeSet<u16>,
    /// Ranks whose suspicion the application was told of.
    told: BTreeSet<u16>,
    /// Members that have to go whatever their links say.
    blamed: BTreeMap<Member, SuspectCause>,
    /// Since when other members take a rank for failed.
    disputes: BTreeMap<u16, Time>,
    /// Since when members are in another view.
    elsewhere: BTreeMap<PeerIdentity, Time>,

    // ---- acknowledgements ----
    ack_at: Option<Time>,
    /// Bytes sent to the successor since the last acknowledgements.
    unacked_bytes: usize,
    lap_goal: Duration,
    /// Origins with missing units at the last look, and where.
    gaps: Vec<(u16, u64)>,
}

impl Ring {
    /// A node that has not started.
    ///
    /// # Errors
    /// The configuration is not possible.
    pub fn new(config: impl Into<Arc<Config>>, identity: PeerIdentity) -> Result<Self, ConfigError> {
        let config = config.into();
        config.validate()?;
        Ok(Self {
            // Its incarnation is drawn when it starts.
            bridge: 0,
            me: Member { identity, incarnation: 0 },
            started_at: Time::ZERO,
            peers: Peers::default(),
            own: Own::default(),
            flow: Flow::default(),
            outlet: Outlet::default(),
            metrics: Metrics::default(),
            current: None,
            view_since: Time::ZERO,
            flush: None,
            proposal: None,
            ready: None,
            promised: ViewId::default(),
            counter: 0,
            back_off_until: Time::ZERO,
            resumes: Vec::new(),
            early: Vec::new(),
            early_bytes: 0,
            looped: VecDeque::new(),
            wants_to_leave: false,
            has_left: false,
            suspected: BTreeSet::new(),
            told: BTreeSet::new(),
            blamed: BTreeMap::new(),
            disputes: BTreeMap::new(),
            elsewhere: BTreeMap::new(),
            ack_at: None,
            unacked_bytes: 0,
            lap_goal: Duration::ZERO,
            gaps: Vec::new(),
            config,
        })
    }

    /// The ring of leaders at a node that has another ring: its frames and timers are told apart from those of the other one, and
    /// of earlier ones, by this number, which is not 0.
    pub(crate) fn between_leaders(
        config: Arc<Config>,
        identity: PeerIdentity,
        number: u64,
    ) -> Result<Self, ConfigError> {
        Ok(Self { bridge: number, ..Self::new(config, identity)? })
    }

    /// Which ring of this node a timer belongs to, and which of its timers it is.
    pub(crate) const fn timer_of(token: TimerToken) -> (u64, TimerToken) {
        (token.0 / TIMERS, TimerToken(token.0 % TIMERS))
    }

    fn start_timer(&self, at: Time, token: TimerToken, cx: &mut Cx<'_>) {
        cx.set_timer(at, TimerToken(self.bridge * TIMERS + token.0));
    }

    /// How many messages of a member all members of the view are known to have, of those that were broadcast in it.
    pub fn stable_messages(&self, rank: u16) -> u64 {
        let stream = self.current.as_ref().and_then(|current| current.streams.get(usize::from(rank)));
        stream.map_or(0, |stream| stream.stable_messages)
    }

    pub fn member(&self) -> &Member {
        &self.me
    }

    pub fn view(&self) -> Option<&Arc<View>> {
        self.current.as_ref().map(|current| &current.view)
    }

    /// Whether a view change is under way: nothing new is sent until it is over.
    pub fn is_changing(&self) -> bool {
        self.flush.is_some()
    }

    /// Whether this node was asked to leave, or has left.
    pub fn is_leaving(&self) -> bool {
        self.wants_to_leave || self.has_left
    }

    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub fn queued_bytes(&self) -> usize {
        self.own.bytes()
    }

    /// Bytes of its own that this member may have on the way to the group at present.
    pub fn window_bytes(&self) -> u64 {
        self.flow.limit
    }

    /// Bytes of all units that are kept until all members have them, with 64 bytes for each unit.
    pub fn kept_bytes(&self) -> u64 {
        let streams = self.current.iter().flat_map(|current| &current.streams);
        streams.map(|stream| stream.held).sum()
    }

    /// Takes a message to be broadcast.
    ///
    /// # Errors
    /// There is no room for it ([`Event::Room`] tells when there is again); it is too long; this node leaves.
    pub fn broadcast(&mut self, message: Bytes, cx: &mut Cx<'_>) -> Result<(), BroadcastError> {
        let taken = self.accept(message, cx);
        self.metrics.broadcast += u64::from(taken.is_ok());
        self.metrics.refused += u64::from(taken.is_err());
        self.settle(cx);
        taken
    }

    fn accept(&mut self, message: Bytes, cx: &mut Cx<'_>) -> Result<(), BroadcastError> {
        let (found, max) = (message.len(), self.config.message_bytes_max);
        if found > max {
            return Err(BroadcastError::TooLong { found, max });
        }
        if self.wants_to_leave || self.has_left {
            return Err(BroadcastError::Leaving);
        }
        if self.current.is_none() && self.config.early == Early::Direct {
            self.send_early(message, cx);
            return Ok(());
        }
        if !self.own.has_room(found, self.config.own_queue_bytes) {
            self.own.was_full = true;
            return Err(BroadcastError::Full);
        }
        self.own.push(message);
        Ok(())
    }

    /// Takes note of the counter of a view. Whether it can be one.
    fn hear_of(&mut self, view: ViewId) -> bool {
        let is_sound = view.counter <= self.counter.saturating_add(COUNTER_LEAP);
        if is_sound {
            self.counter = self.counter.max(view.counter);
        } else {
            self.metrics.ignore(Ignored::Inconsistent);
        }
        is_sound
    }

    /// Whether this node wants to leave and has nothing left to send.
    fn is_leaving_now(&self) -> bool {
        self.wants_to_leave && self.own.is_empty()
    }

    fn leave(&mut self, cx: &mut Cx<'_>) {
        self.wants_to_leave = true;
        let alone = self.current.as_ref().is_none_or(|current| current.len() == 1);
        if alone && self.flush.is_none() && self.own.is_empty() {
            self.leave_now(cx);
        }
    }

    fn leave_now(&mut self, cx: &mut Cx<'_>) {
        if !std::mem::replace(&mut self.has_left, true) {
            self.send_heartbeats(cx);
            self.current = None;
            self.proposal = None;
            self.outlet.emit(Event::Left, cx);
        }
    }

    /// Sends a frame to a peer, or to this node itself.
    fn send_or_loop(&mut self, peer: Option<PeerId>, frame: RingFrame, cx: &mut Cx<'_>) {
        match peer {
            Some(peer) => self.send(peer, frame, cx),
            None => self.looped.push_back(frame),
        }
    }

    /// Does what follows from what has happened.
    fn settle(&mut self, cx: &mut Cx<'_>) {
        let was_leaving = self.is_leaving_now();
        self.handle_looped(cx);
        if self.has_left {
            return;
        }
        self.pump(cx);
        if self.is_leaving_now() && !was_leaving {
            self.announce_leaving(cx);
        }
    }

    fn announce_leaving(&mut self, cx: &mut Cx<'_>) {
        self.send_heartbeats(cx);
        if self.current.as_ref().is_some_and(|current| current.len() == 1) && self.flush.is_none() {
            self.leave_now(cx);
        }
        self.evaluate(cx);
        self.handle_looped(cx);
    }

    fn handle_looped(&mut self, cx: &mut Cx<'_>) {
        while let Some(frame) = self.looped.pop_front() {
            self.on_change_frame(None, &frame, cx);
        }
    }

    /// Frames of view changes; `None` is this node.
    fn on_change_frame(&mut self, from: Option<PeerId>, frame: &RingFrame, cx: &mut Cx<'_>) {
        match frame {
            RingFrame::Prepare(prepare) => self.on_prepare(from, prepare, cx),
            RingFrame::State(state) => self.on_state(from, state, cx),
            RingFrame::Cut(cut) => self.on_cut(from, cut, cx),
            RingFrame::Ready { proposal } => self.on_ready(from, *proposal, cx),
            RingFrame::Install { proposal } => self.on_install(from, *proposal, cx),
            RingFrame::Nack { proposal, promised } => self.on_nack(from, *proposal, *promised, cx),
            _ => {}
        }
    }

    fn on_frame(&mut self, peer: PeerId, frame: &RingFrame, cx: &mut Cx<'_>) {
        if let Some(state) = self.peers.get_mut(peer) {
            state.heard = cx.now();
        }
        match frame {
            RingFrame::Heartbeat(heartbeat) => self.on_heartbeat(peer, heartbeat, cx),
            RingFrame::Data(data) => self.on_data(peer, data, cx),
            RingFrame::Credit { view, bytes } => self.on_credit(peer, *view, *bytes),
            RingFrame::Resume(resume) => self.on_resume(peer, resume, cx),
            RingFrame::Early(bytes) => self.on_early(peer, bytes, cx),
            // Of a federation, in which this node does not take part.
            RingFrame::Hello(_) | RingFrame::Bridge(_) => self.metrics.ignore(Ignored::OtherGroup),
            change => self.on_change_frame(Some(peer), change, cx),
        }
    }

    fn handle_command(&mut self, command: Command, cx: &mut Cx<'_>) {
        match command {
            Command::Broadcast(message) => {
                if let Err(error) = self.broadcast(message, cx) {
                    cx.emit(Event::Refused(error));
                }
            }
            Command::Leave => {
                self.leave(cx);
                if self.is_leaving_now() && !self.has_left {
                    self.announce_leaving(cx);
                }
            }
            Command::Pause => self.outlet.is_paused = true,
            Command::Unpause => {
                self.outlet.unpause(cx);
                let origins = self.current.as_ref().map_or(0, Current::len) as u16;
                if self.flush.is_none() {
                    (0..origins).for_each(|origin| self.take(origin, cx));
                }
            }
        }
    }

    fn start(&mut self, cx: &mut Cx<'_>) {
        self.me.incarnation = cx.rng().next_u64();
        self.started_at = cx.now();
        let config = self.config.clone();
        for seed in config.seeds.iter().filter(|seed| **seed != self.me.identity) {
            self.peers.keep(seed, cx.now(), Time::MAX);
        }
        // Members that start together do not send their heartbeats together.
        let phase = cx.rng().below(config.detection.heartbeat.as_nanos() as u64);
        for identity in self.peers.due(cx.now(), &config.membership) {
            cx.dial(identity);
        }
        self.start_timer(cx.now().plus_nanos(phase), TICK, cx);
    }
}

impl Engine for Ring {
    type Frame = RingFrame;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: Input<RingFrame, Command>, cx: &mut Cx<'_>) {
        if self.has_left && !matches!(input, Input::LinkDown { .. }) {
            return;
        }
        match input {
            Input::Start => self.start(cx),
            Input::LinkUp { peer, info } => self.link_up(peer, info.identity, cx),
            Input::LinkDown { peer } => self.link_down(peer, cx),
            Input::DialFailed { identity } => self.dial_failed(&identity, cx),
            Input::Frame { peer, frame } => self.on_frame(peer, &frame, cx),
            Input::Timer(TICK) => self.on_tick(cx),
            Input::Timer(_) => self.on_ack_timer(cx.now()),
            Input::Command(command) => self.handle_command(command, cx),
        }
        self.settle(cx);
    }
}
