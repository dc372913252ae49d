//! The protocol: the handling of messages, and the agreement on views.
//!
//! | file | contents |
//! |---|---|
//! | `members` | links and dialling; heartbeats, suspicion, slow members |
//! | `change` | view changes, from the proposer's and the participants' side |
//! | `current` | the state within a view |
//! | `receive` | received units: storing, forwarding, acknowledging, delivering |
//! | `send` | sent units: alternating own and forwarded ones; windows |

mod change;
mod current;
mod event;
mod members;
mod receive;
mod send;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use samara_engine::{Context, Engine, Frame as _, Input, Outbox, PeerId, PeerIdentity, Time, TimerToken};

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

/// Time for heartbeats and all periodic checks.
const TICK: TimerToken = TimerToken(0);
/// Acknowledgements have waited long enough.
const ACK: TimerToken = TimerToken(1);
const TIMERS: u64 = 2;

/// Maximum growth of the highest known counter within `COUNTER_SPAN`, whatever peers send. Counters
/// then last for a thousand years of such peers.
const COUNTER_LEAP: u64 = 1 << 32;
/// A limit relative to the installed view alone could stop all proposals for good: one peer would
/// name the last counter below the limit.
const COUNTER_SPAN: Duration = Duration::from_secs(10);

/// A member of a group.
///
/// - Inputs come through [`Engine::handle`]. [`broadcast`](Self::broadcast) also takes messages,
///   and returns at once whether there is room.
/// - [`Event`]s report what happened; [`metrics`](Self::metrics) counts it.
///
/// # Guarantees
///
/// - Each message is delivered at most once, and those of one sender in the order in which it
///   broadcast them. With [`Order::Total`](crate::Order::Total), all members deliver all messages
///   in the same order.
/// - Members that install the same two views one after the other deliver the same messages between
///   them (virtual synchrony).
/// - A member that stays delivers all messages that it broadcast, and so do all members that stay
///   with it, also across view changes.
/// - If a member leaves gracefully, all remaining members deliver all of its messages.
/// - If a member crashes, the members that continue together deliver the same prefix of its
///   messages. With total order, they deliver every message that any member delivered, including
///   failed ones (uniformity).
#[derive(Debug)]
pub struct Ring {
    config: Arc<Config>,
    /// 0 for the only ring of a node, or for the ring of its site. Rings of leaders have other
    /// numbers, because they share links and timers with it.
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
    /// The last views of this member before the current one, latest first.
    former: VecDeque<ViewId>,
    flush: Option<Flush>,
    proposal: Option<Proposal>,
    /// The view for which this member is ready, not knowing whether others have installed it.
    ready: Option<ReadyFor>,
    /// The highest proposal that this member has accepted; it rejects lower ones.
    promised: ViewId,
    /// The highest known counter of a view.
    counter: u64,
    /// The value of `counter` at most `COUNTER_SPAN` ago, and its time.
    counter_base: (u64, Time),
    back_off_until: Time,
    /// Statements of successors for view changes that this node does not take part in yet: at most
    /// `RESUMES_PER_PEER` for each peer.
    resumes: Vec<(PeerId, Arc<Resume>)>,
    /// Data of a view that this member has not installed yet.
    early: Vec<(PeerId, Arc<Data>)>,
    early_bytes: u64,
    /// Frames of this node to itself: it takes part in its own proposals like any other member.
    looped: VecDeque<RingFrame>,
    wants_to_leave: bool,
    has_left: bool,

    // ---- suspicion ----
    /// Ranks that this member itself suspects.
    suspected: BTreeSet<u16>,
    /// Ranks whose suspicion was reported to the application.
    reported: BTreeSet<u16>,
    /// Members that must be removed, whatever their links suggest.
    blamed: BTreeMap<Member, SuspectCause>,
    /// Ranks that other members suspect, and the start of each suspicion.
    disputes: BTreeMap<u16, Time>,
    /// Ranks of which other members know that they have broken the protocol.
    convicted: BTreeSet<u16>,
    /// Members that are in another view, and the time when that began.
    elsewhere: BTreeMap<PeerIdentity, Time>,

    // ---- acknowledgements ----
    ack_at: Option<Time>,
    /// Bytes sent to the successor since the last acknowledgements.
    unacked_bytes: usize,
    lap_goal: Duration,
    /// Origins with missing units at the last check, and the last unit before the gap.
    gaps: Vec<(u16, u64)>,
    /// The units that had arrived at the last check, and the time since when no more have although some must.
    standstill: (u64, Time),
}

impl Ring {
    /// Creates a node that has not started.
    ///
    /// # Errors
    /// Returns an error if the configuration is not valid.
    pub fn new(config: impl Into<Arc<Config>>, identity: PeerIdentity) -> Result<Self, ConfigError> {
        let config = config.into();
        config.validate()?;
        Ok(Self {
            // The node draws its incarnation when it starts.
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
            former: VecDeque::new(),
            flush: None,
            proposal: None,
            ready: None,
            promised: ViewId::default(),
            counter: 0,
            counter_base: (0, Time::ZERO),
            back_off_until: Time::ZERO,
            resumes: Vec::new(),
            early: Vec::new(),
            early_bytes: 0,
            looped: VecDeque::new(),
            wants_to_leave: false,
            has_left: false,
            suspected: BTreeSet::new(),
            reported: BTreeSet::new(),
            blamed: BTreeMap::new(),
            disputes: BTreeMap::new(),
            convicted: BTreeSet::new(),
            elsewhere: BTreeMap::new(),
            ack_at: None,
            unacked_bytes: 0,
            lap_goal: Duration::ZERO,
            gaps: Vec::new(),
            standstill: (0, Time::ZERO),
            config,
        })
    }

    /// Creates the ring of leaders at a node that has another ring. The number, which is not 0,
    /// distinguishes its frames and timers from those of the other ring, and of earlier ones.
    pub(crate) fn between_leaders(
        config: Arc<Config>,
        identity: PeerIdentity,
        number: u64,
    ) -> Result<Self, ConfigError> {
        Ok(Self { bridge: number, ..Self::new(config, identity)? })
    }

    /// Returns the ring of this node to which a timer belongs, and that ring's own token.
    pub(crate) const fn timer_of(token: TimerToken) -> (u64, TimerToken) {
        (token.0 / TIMERS, TimerToken(token.0 % TIMERS))
    }

    fn start_timer(&self, at: Time, token: TimerToken, cx: &mut Cx<'_>) {
        cx.set_timer(at, TimerToken(self.bridge * TIMERS + token.0));
    }

    /// Returns the number of messages of a member, broadcast in this view, that all members are
    /// known to have.
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

    /// Returns true during a view change. Nothing new is sent until it is over.
    pub fn is_changing(&self) -> bool {
        self.flush.is_some()
    }

    /// Returns true if this node has received [`Command::Leave`], or has left.
    pub fn is_leaving(&self) -> bool {
        self.wants_to_leave || self.has_left
    }

    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub fn queued_bytes(&self) -> usize {
        self.own.bytes()
    }

    /// Returns the current window of this member's own messages: the bytes it may have in flight to
    /// the group.
    pub fn window_bytes(&self) -> u64 {
        self.flow.limit
    }

    /// Returns the bytes of all units that are kept until all members have them, plus 64 bytes for
    /// each unit.
    pub fn kept_bytes(&self) -> u64 {
        let streams = self.current.iter().flat_map(|current| &current.streams);
        streams.map(|stream| stream.held).sum()
    }

    /// Broadcasts a message.
    ///
    /// # Errors
    /// Returns an error if there is no room for it ([`Event::Room`] follows when there is), if it
    /// is too long, or if this node is leaving.
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

    /// Records the counter of a view. Returns false if it is too far ahead to be valid.
    fn record_counter(&mut self, view: ViewId, now: Time) -> bool {
        if now.since(self.counter_base.1) > COUNTER_SPAN {
            self.counter_base = (self.counter, now);
        }
        let is_sound = view.counter <= self.counter_base.0.saturating_add(COUNTER_LEAP);
        if is_sound {
            self.counter = self.counter.max(view.counter);
        } else {
            self.metrics.ignore(Ignored::Inconsistent);
        }
        is_sound
    }

    /// Returns true if this node has left: [`Event::Left`] was emitted.
    pub const fn has_left(&self) -> bool {
        self.has_left
    }

    /// Returns true if this node wants to leave and has nothing left to send.
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

    /// Completes the handling of an input: frames to itself, sending, leaving.
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

    /// Handles a frame of a view change. `from` is `None` for this node's own frames.
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
        // Frames of data and early messages count what is not kept of them.
        if !matches!(frame, RingFrame::Data(_) | RingFrame::Early(_)) {
            self.waste(peer, frame.encoded_len() as u64);
        }
        match frame {
            RingFrame::Heartbeat(heartbeat) => self.on_heartbeat(peer, heartbeat, cx),
            RingFrame::Data(data) => self.on_data(peer, data, cx),
            RingFrame::Credit { view, bytes } => self.on_credit(peer, *view, *bytes),
            RingFrame::Resume(resume) => self.on_resume(peer, resume, cx),
            RingFrame::Early(bytes) => self.on_early(peer, bytes, cx),
            // Frames of a federation, in which this node does not take part.
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
        // A random phase, so that members that start together do not send their heartbeats
        // together.
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

    fn assert_invariants(&self, outbox: &Outbox<RingFrame>) {
        outbox.assert_invariants();
        self.assert_views();
        let early: u64 = self.early.iter().map(|(_, data)| data.weight()).sum();
        assert_eq!(early, self.early_bytes, "bytes of early data");
        assert!(early <= 4 * self.config.hop_window_bytes, "{early} bytes of early data are kept");
        assert!(self.looped.is_empty(), "frames of this node to itself are handled at once");
    }
}

impl Ring {
    /// Views only grow.
    fn assert_views(&self) {
        let current = self.current.as_ref().map(|current| current.view.id);
        let views: Vec<ViewId> = current.iter().chain(&self.former).copied().collect();
        assert!(views.is_sorted_by(|later, earlier| later > earlier), "views go back: {views:?}");
        if let Some(current) = &self.current {
            let (view, known) = (&current.view, self.counter);
            assert!(view.id.counter <= known, "{:?} is beyond the known counter {known}", view.id);
            assert_eq!(view.rank_of(&self.me), Some(current.rank), "the rank in {:?}", view.id);
            let ranks = self.suspected.iter().chain(&self.reported).chain(&self.convicted);
            assert!(ranks.into_iter().all(|rank| usize::from(*rank) < view.len()), "a rank beyond the view");
        }
    }
}
