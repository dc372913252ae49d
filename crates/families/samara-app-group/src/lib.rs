//! Members of a group that broadcast to each other by any protocol, and their applications.

pub mod codec;
#[cfg(test)]
mod encoding;
mod ledger;
mod source;

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use rustc_hash::FxHashMap;
use samara_engine::{Context, Engine, Frame, Input, MessageKey, Outbox, PeerIdentity, TimerToken};
use samara_hosts::Worlds;
use samara_ring::daisychain::{DaisyEvent, DaisyFrame, Daisychain};
use samara_ring::{
    Command, Cx, Event, Federation, FederationCx, FederationEvent, Ignored, Payload, Ring, RingFrame,
    SuspectCause, Unused, federated_content,
};
use samara_sim::{App, Contents, host_of};
use serde::{Deserialize, Serialize};

pub use ledger::{Delivery, FOLLOWED_MAX, Kind, Ledger, Place, Received, Totals};
pub use source::{Header, Source};

use samara_sim::Neighbours;
use source::{BURST, Sender};

/// Bytes at the start of a message that identify it, and so its minimum size.
pub const HEADER_BYTES: usize = 20;

/// Fires when the next message of a sender with a rate is due.
const DUE: TimerToken = TimerToken(TimerToken::WRAPPER);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    Begin,
    Leave,
    /// Ends the count of received frames.
    End,
}

/// An event of a member. Small and without heap memory, since a simulation creates millions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberEvent {
    /// A process of the host started. It has not received messages of earlier ones.
    Started,
    Delivered(Delivery),
    /// The member has broadcast its last message; the engine accepted this many.
    Done {
        broadcast: u64,
    },
    /// The member suspects this host of having failed or, if `is_slow`, removes it because it holds
    /// the group up.
    Suspected {
        host: u32,
        is_slow: bool,
    },
}

const _: () = assert!(size_of::<MemberEvent>() <= 32);

/// The counters of a member since its process started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    pub engine: Counts,
    pub totals: Totals,
}

/// Counters of a member's engine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Messages or chunks that it forwarded.
    pub forwarded: u64,
    /// Messages or chunks that it sent again.
    pub repaired: u64,
    pub views: u64,
    /// Received frames that install a view, for protocols with such frames.
    pub installs: u64,
    /// Nanoseconds in which a view change blocked new messages.
    pub frozen_ns: u64,
    pub queue_drops: u64,
    /// True if the member has left its group by the protocol.
    pub has_left: bool,
    /// Number of ignored frames and messages, by cause.
    pub ignored: Vec<(Cause, u64)>,
}

/// The reason why an engine ignored a frame or a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    Ring(Ignored),
    Federation(Unused),
    /// A message that came out of order along the daisychain.
    Inconsistent,
}

impl Cause {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ring(cause) => cause.name(),
            Self::Federation(cause) => cause.name(),
            Self::Inconsistent => "inconsistent",
        }
    }
}

/// An engine event that the application acts on.
#[derive(Debug)]
pub enum Seen {
    Delivered(Payload),
    /// The engine suspects this host of having failed or, if `is_slow`, removes it because it holds
    /// the group up.
    Suspected {
        host: u32,
        is_slow: bool,
    },
    /// The engine has room again after it refused a message.
    Room,
}

pub trait Broadcasts: Engine {
    /// Hands a message to the engine for broadcast. Returns false if there is no room for it.
    fn broadcast(&mut self, message: Bytes, cx: &mut Context<'_, Self::Frame, Self::Event>) -> bool;

    /// Returns the command to leave the group; `None` for protocols without membership.
    fn leave() -> Option<Self::Command> {
        None
    }

    /// Returns the purpose of a frame's bytes besides the content of messages.
    fn kind(frame: &Self::Frame) -> Kind;

    /// Visits the starts of messages in a frame.
    fn starts(frame: &Self::Frame, visit: &mut dyn FnMut(&Bytes));

    /// Translates an engine event for the application; `None` if it is of no concern to it.
    fn seen(event: Self::Event) -> Option<Seen>;

    fn counts(&self) -> Counts;

    /// Returns the worlds of members with this protocol.
    fn worlds() -> Worlds<GroupMember<Self>>
    where
        Self: Sized;
}

impl Broadcasts for Ring {
    fn broadcast(&mut self, message: Bytes, cx: &mut Cx<'_>) -> bool {
        Self::broadcast(self, message, cx).is_ok()
    }

    fn leave() -> Option<Command> {
        Some(Command::Leave)
    }

    fn kind(frame: &RingFrame) -> Kind {
        match frame {
            RingFrame::Data(data) if !data.units().is_empty() => Kind::Headers,
            RingFrame::Early(_) => Kind::Headers,
            RingFrame::Data(_) | RingFrame::Credit { .. } => Kind::Credit,
            RingFrame::Heartbeat(_) => Kind::Heartbeats,
            _ => Kind::Views,
        }
    }

    fn starts(frame: &RingFrame, visit: &mut dyn FnMut(&Bytes)) {
        match frame {
            RingFrame::Data(data) => {
                data.units().iter().filter(|unit| unit.first).for_each(|unit| visit(&unit.bytes));
            }
            RingFrame::Early(message) => visit(message),
            _ => {}
        }
    }

    fn seen(event: Event) -> Option<Seen> {
        match event {
            Event::Delivered { payload, .. } => Some(Seen::Delivered(payload)),
            Event::Suspected { member, cause } => Some(suspected(&member.identity, cause)),
            Event::Room => Some(Seen::Room),
            _ => None,
        }
    }

    fn counts(&self) -> Counts {
        let metrics = self.metrics();
        Counts {
            forwarded: metrics.forwarded,
            repaired: metrics.repaired,
            views: metrics.views,
            installs: metrics.installs,
            frozen_ns: metrics.frozen_ns,
            queue_drops: metrics.queue_drops,
            has_left: self.has_left(),
            ignored: metrics.ignored.iter().map(|(cause, count)| (Cause::Ring(cause), count)).collect(),
        }
    }

    fn worlds() -> Worlds<GroupMember<Self>> {
        Worlds::framed()
    }
}

impl Broadcasts for Federation {
    fn broadcast(&mut self, message: Bytes, cx: &mut FederationCx<'_>) -> bool {
        Self::broadcast(self, message, cx).is_ok()
    }

    fn leave() -> Option<Command> {
        Some(Command::Leave)
    }

    fn kind(frame: &RingFrame) -> Kind {
        Ring::kind(within(frame))
    }

    /// Messages of sites and of the bridge are letters around those of the application.
    fn starts(frame: &RingFrame, visit: &mut dyn FnMut(&Bytes)) {
        Ring::starts(within(frame), &mut |start| federated_content(start).iter().for_each(&mut *visit));
    }

    fn seen(event: FederationEvent) -> Option<Seen> {
        match event {
            FederationEvent::Delivered { content, .. } => Some(Seen::Delivered(content.into())),
            FederationEvent::Suspected { member, cause } => Some(suspected(&member.identity, cause)),
            FederationEvent::Room => Some(Seen::Room),
            _ => None,
        }
    }

    /// Returns the counts of the site's ring, with those of the leaders' ring at a leader.
    fn counts(&self) -> Counts {
        let mut counts = Broadcasts::counts(self.local());
        counts.has_left = self.has_left();
        if let Some(bridge) = self.bridge().map(Broadcasts::counts) {
            counts.forwarded += bridge.forwarded;
            counts.repaired += bridge.repaired;
            counts.queue_drops += bridge.queue_drops;
        }
        let unused =
            Unused::ALL.iter().map(|cause| (Cause::Federation(*cause), self.metrics().unused(*cause)));
        counts.ignored.extend(unused);
        counts
    }

    fn worlds() -> Worlds<GroupMember<Self>> {
        Worlds::framed()
    }
}

impl Broadcasts for Daisychain {
    fn broadcast(&mut self, message: Bytes, cx: &mut Context<'_, DaisyFrame, DaisyEvent>) -> bool {
        Self::broadcast(self, message, cx)
    }

    fn kind(frame: &DaisyFrame) -> Kind {
        match frame {
            DaisyFrame::Message { .. } => Kind::Headers,
            DaisyFrame::Credit(_) => Kind::Credit,
        }
    }

    fn starts(frame: &DaisyFrame, visit: &mut dyn FnMut(&Bytes)) {
        match frame {
            DaisyFrame::Message { content, .. } => visit(content),
            DaisyFrame::Credit(_) => {}
        }
    }

    fn seen(event: DaisyEvent) -> Option<Seen> {
        match event {
            DaisyEvent::Delivered { message, .. } => Some(Seen::Delivered(message.into())),
            DaisyEvent::Room => Some(Seen::Room),
            DaisyEvent::Refused => None,
        }
    }

    fn counts(&self) -> Counts {
        let metrics = self.metrics();
        Counts {
            forwarded: metrics.forwarded,
            queue_drops: metrics.queue_drops,
            ignored: vec![(Cause::Inconsistent, metrics.ignored)],
            ..Counts::default()
        }
    }

    fn worlds() -> Worlds<GroupMember<Self>> {
        Worlds::framed()
    }
}

/// Returns the number of a message among those of all origins.
pub fn item_of(origin: u32, number: u64) -> u64 {
    u64::from(origin) << 40 | number
}

/// The times at which messages were handed in, in nanoseconds, by item.
pub type SentAt = Arc<Mutex<FxHashMap<u64, u64>>>;

/// Returns a function that returns the messages that begin in a frame, and notes their times. The
/// messages of an origin are a batch.
pub fn contents<B: Broadcasts>(
    sent_at: SentAt,
) -> impl Fn(&B::Frame, Option<MessageKey>) -> Contents + Send + Sync + 'static {
    move |frame, _| {
        let mut contents = Contents::default();
        let mut sent_at = sent_at.lock().unwrap_or_else(PoisonError::into_inner);
        B::starts(frame, &mut |start| {
            let Some(Header { origin, number, at }) = Header::of(start) else { return };
            let item = item_of(origin, number);
            contents.items.push(item);
            contents.batch = Some(u64::from(origin));
            sent_at.insert(item, at.as_nanos());
        });
        contents
    }
}

fn suspected(member: &PeerIdentity, cause: SuspectCause) -> Seen {
    let is_slow = cause == SuspectCause::Slow;
    Seen::Suspected { host: host_of(member).unwrap_or(u32::MAX), is_slow }
}

/// Returns the frame of the bridge between sites within a frame, or the frame itself.
fn within(frame: &RingFrame) -> &RingFrame {
    match frame {
        RingFrame::Bridge(inner) => inner,
        frame => frame,
    }
}

/// A member of a group: broadcasts its source at a rate, or as fast as the engine takes messages.
#[derive(Debug)]
pub struct GroupMember<B: Broadcasts> {
    engine: B,
    sender: Sender,
    ledger: Ledger,
    neighbours: Neighbours,
    /// Whether the member has reported that it is done.
    is_done: bool,
    /// Whether the engine refused a message. The member tries again when there is room.
    is_full: bool,
    events: Vec<B::Event>,
}

impl<B: Broadcasts> GroupMember<B> {
    pub fn new(engine: B, host: u32, source: Source, ledger: Ledger) -> Self {
        Self {
            engine,
            sender: Sender::new(source, host),
            ledger,
            neighbours: Neighbours::default(),
            is_done: false,
            is_full: false,
            events: Vec::new(),
        }
    }

    /// Converts the input for the engine; `None` if it does not concern the engine.
    fn for_engine(
        &mut self,
        input: Input<B::Frame, Act>,
        cx: &mut Context<'_, B::Frame, MemberEvent>,
    ) -> Option<Input<B::Frame, B::Command>> {
        Some(match input {
            Input::Start => {
                cx.emit(MemberEvent::Started);
                Input::Start
            }
            Input::Command(Act::Begin) => {
                self.sender.begin(cx.now());
                return None;
            }
            Input::Command(Act::Leave) => {
                self.sender.stop();
                self.done(cx);
                Input::Command(B::leave()?)
            }
            Input::Command(Act::End) => {
                self.ledger.end();
                return None;
            }
            Input::Timer(DUE) => return None,
            Input::Timer(token) => Input::Timer(token),
            Input::LinkUp { peer, info } => {
                self.neighbours.up(peer, &info);
                Input::LinkUp { peer, info }
            }
            Input::LinkDown { peer } => Input::LinkDown { peer },
            Input::DialFailed { identity } => Input::DialFailed { identity },
            Input::Frame { peer, frame } => {
                let content = frame.payload_len();
                let parts = [(Kind::Content, content), (B::kind(&frame), frame.encoded_len() - content)];
                let (ledger, from) = (&mut self.ledger, self.neighbours.host(peer));
                ledger.frame(from, parts, cx.now());
                if ledger.is_following() {
                    B::starts(&frame, &mut |start| ledger.arrive(from, start));
                }
                Input::Frame { peer, frame }
            }
        })
    }

    /// Reports that the member has broadcast its last message.
    fn done(&mut self, cx: &mut Context<'_, B::Frame, MemberEvent>) {
        if !self.is_done {
            self.is_done = true;
            cx.emit(MemberEvent::Done { broadcast: self.sender.broadcast() });
        }
    }

    /// Broadcasts at most `most` messages while the source has some and the engine has room.
    /// Returns their number.
    fn broadcast(&mut self, most: u32, cx: &mut Context<'_, B::Frame, MemberEvent>) -> u32 {
        let now = cx.now();
        let mut taken = 0;
        while !self.is_full
            && taken < most
            && let Some(message) = self.sender.message(now)
        {
            if self.engine.broadcast(message, &mut cx.nested(&mut self.events)) {
                self.sender.taken();
                taken += 1;
            } else {
                self.is_full = true;
            }
        }
        taken
    }

    /// Handles the events of the engine.
    fn relay(&mut self, cx: &mut Context<'_, B::Frame, MemberEvent>) {
        let now = cx.now();
        for event in self.events.drain(..) {
            match B::seen(event) {
                Some(Seen::Delivered(payload)) => {
                    let head = payload.chunks().first().map_or(&[][..], |chunk| chunk);
                    if let Some(delivery) = self.ledger.deliver(head, payload.len(), now) {
                        cx.emit(MemberEvent::Delivered(delivery));
                    }
                }
                Some(Seen::Suspected { host, is_slow }) => {
                    cx.emit(MemberEvent::Suspected { host, is_slow });
                }
                Some(Seen::Room) => self.is_full = false,
                None => {}
            }
        }
    }

    /// Broadcasts until the source is empty or the engine is full, then sets a timer.
    fn go_on(&mut self, cx: &mut Context<'_, B::Frame, MemberEvent>) {
        let mut left = BURST;
        loop {
            left -= self.broadcast(left, cx);
            let was_full = self.is_full;
            self.relay(cx);
            if left == 0 {
                cx.set_timer(cx.now() + self.sender.burst_time(), DUE);
                break;
            }
            if !was_full || self.is_full {
                break;
            }
        }
        if let Some(at) = self.sender.wake(cx.now()) {
            cx.set_timer(at, DUE);
        }
        if self.sender.is_done(cx.now()) {
            self.done(cx);
        }
    }
}

impl<B: Broadcasts> App for GroupMember<B> {
    type Counters = Counters;

    fn counters(&self) -> Counters {
        let totals = Totals { broadcast: self.sender.broadcast(), ..self.ledger.totals().clone() };
        Counters { engine: self.engine.counts(), totals }
    }
}

impl<B: Broadcasts> Engine for GroupMember<B> {
    type Frame = B::Frame;
    type Command = Act;
    type Event = MemberEvent;

    fn handle(&mut self, input: Input<B::Frame, Act>, cx: &mut Context<'_, B::Frame, MemberEvent>) {
        let is_due = matches!(input, Input::Command(Act::Begin) | Input::Timer(DUE));
        if let Some(input) = self.for_engine(input, cx) {
            self.engine.handle(input, &mut cx.nested(&mut self.events));
        }
        let had_room = !self.is_full;
        self.relay(cx);
        if is_due || !self.is_full && !had_room {
            self.go_on(cx);
        }
    }

    fn assert_invariants(&self, outbox: &Outbox<B::Frame>) {
        self.engine.assert_invariants(outbox);
    }
}
