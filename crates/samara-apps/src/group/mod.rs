//! Members of a group that broadcast to each other, whatever the protocol, and what their applications see.

mod ledger;
mod source;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use samara_engine::{Context, Engine, Frame, Input, TimerToken};
use samara_ring::daisychain::{DaisyEvent, DaisyFrame, Daisychain};
use samara_ring::{
    Command, Cx, Event, Federation, FederationCx, FederationEvent, Member, Payload, Ring, RingFrame, Unused,
};
use samara_sim::host_of;

pub use ledger::{Kind, Ledger, Received};
pub use source::{Header, Source};

use crate::host::Neighbours;
use source::{BURST, Sender};

/// The next message of a sender with a rate is due.
const DUE: TimerToken = TimerToken(TimerToken::WRAPPER);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Begin,
    Leave,
}

/// A member takes this host for failed. Deliveries are too many to be reported one by one: the member's [`Ledger`] has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspected(pub u32);

/// What a member has counted since its node started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages or chunks that it passed on.
    pub forwarded: u64,
    /// Messages or chunks that it sent again.
    pub repaired: u64,
    pub views: u64,
    /// Nanoseconds in which nothing new could be sent for a view change.
    pub frozen_ns: u64,
    pub queue_drops: u64,
    /// What was ignored, by cause.
    pub ignored: Vec<(&'static str, u64)>,
}

/// What a host's application saw, kept beside its node: it outlives the process.
pub type SharedLedger = Arc<Mutex<Ledger>>;

pub fn lock(ledger: &SharedLedger) -> MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An event of an engine that its application acts on.
#[derive(Debug)]
pub enum Seen {
    Delivered(Payload),
    /// This host is taken for failed.
    Suspected(u32),
    /// There is room again.
    Room,
}

pub trait Broadcasts: Engine {
    /// Takes a message to be broadcast. Returns false if there is no room for it.
    fn broadcast(&mut self, message: Bytes, cx: &mut Context<'_, Self::Frame, Self::Event>) -> bool;

    /// The command to leave; `None` for a group without membership.
    fn leave() -> Option<Self::Command>;

    /// What the bytes of a frame are for.
    fn parts(frame: &Self::Frame) -> [(Kind, usize); 2];

    /// What an event means for the application, if anything.
    fn seen(event: Self::Event) -> Option<Seen>;

    fn counts(&self) -> Counts;
}

impl Broadcasts for Ring {
    fn broadcast(&mut self, message: Bytes, cx: &mut Cx<'_>) -> bool {
        Self::broadcast(self, message, cx).is_ok()
    }

    fn leave() -> Option<Command> {
        Some(Command::Leave)
    }

    fn parts(frame: &RingFrame) -> [(Kind, usize); 2] {
        parts(frame)
    }

    fn seen(event: Event) -> Option<Seen> {
        match event {
            Event::Delivered { payload, .. } => Some(Seen::Delivered(payload)),
            Event::Suspected { member, .. } => Some(suspected(&member)),
            Event::Room => Some(Seen::Room),
            _ => None,
        }
    }

    fn counts(&self) -> Counts {
        let metrics = self.metrics();
        Counts {
            forwarded: metrics.forwarded_units,
            repaired: metrics.resent_units,
            views: metrics.views,
            frozen_ns: metrics.frozen_ns,
            queue_drops: metrics.refused_frames,
            ignored: metrics.ignored_by_cause().map(|(cause, count)| (cause.name(), count)).collect(),
        }
    }
}

impl Broadcasts for Federation {
    fn broadcast(&mut self, message: Bytes, cx: &mut FederationCx<'_>) -> bool {
        Self::broadcast(self, message, cx).is_ok()
    }

    fn leave() -> Option<Command> {
        Some(Command::Leave)
    }

    fn parts(frame: &RingFrame) -> [(Kind, usize); 2] {
        parts(frame)
    }

    fn seen(event: FederationEvent) -> Option<Seen> {
        match event {
            FederationEvent::Delivered { content, .. } => Some(Seen::Delivered(content.into())),
            FederationEvent::Suspected { member, .. } => Some(suspected(&member)),
            FederationEvent::Room => Some(Seen::Room),
            _ => None,
        }
    }

    /// Those of the ring of the site; of the leaders' ring what a leader counts now.
    fn counts(&self) -> Counts {
        let mut counts = Broadcasts::counts(self.local());
        if let Some(bridge) = self.bridge().map(Broadcasts::counts) {
            counts.forwarded += bridge.forwarded;
            counts.repaired += bridge.repaired;
            counts.queue_drops += bridge.queue_drops;
        }
        let unused = Unused::ALL.iter().map(|cause| (cause.name(), self.metrics().unused(*cause)));
        counts.ignored.extend(unused);
        counts
    }
}

impl Broadcasts for Daisychain {
    fn broadcast(&mut self, message: Bytes, cx: &mut Context<'_, DaisyFrame, DaisyEvent>) -> bool {
        Self::broadcast(self, message, cx)
    }

    fn leave() -> Option<Bytes> {
        None
    }

    fn parts(frame: &DaisyFrame) -> [(Kind, usize); 2] {
        let (all, content) = (frame.encoded_len(), frame.payload_len());
        let kind = if matches!(frame, DaisyFrame::Credit(_)) { Kind::Credit } else { Kind::Headers };
        [(Kind::Content, content), (kind, all - content)]
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
            queue_drops: metrics.dropped,
            ignored: vec![("inconsistent", metrics.ignored)],
            ..Counts::default()
        }
    }
}

fn suspected(member: &Member) -> Seen {
    Seen::Suspected(host_of(&member.identity).unwrap_or(u32::MAX))
}

/// What the bytes of a frame of a ring are for.
fn parts(frame: &RingFrame) -> [(Kind, usize); 2] {
    let (all, content) = (frame.encoded_len(), frame.payload_len());
    let within = match frame {
        RingFrame::Bridge(inner) => inner,
        frame => frame,
    };
    let kind = match within {
        RingFrame::Data(data) if !data.units().is_empty() => Kind::Headers,
        RingFrame::Early(_) => Kind::Headers,
        RingFrame::Data(_) | RingFrame::Credit { .. } => Kind::Credit,
        RingFrame::Heartbeat(_) => Kind::Heartbeats,
        _ => Kind::Views,
    };
    [(Kind::Content, content), (kind, all - content)]
}

/// A member: broadcasts what its source has as fast as it is taken, or at a rate.
#[derive(Debug)]
pub struct GroupMember<B: Broadcasts> {
    engine: B,
    sender: Sender,
    ledger: SharedLedger,
    neighbours: Neighbours,
    /// A message was refused: it is tried again when there is room.
    is_full: bool,
    events: Vec<B::Event>,
}

impl<B: Broadcasts> GroupMember<B> {
    pub fn new(engine: B, host: u32, source: Source, ledger: SharedLedger) -> Self {
        let (neighbours, events) = (Neighbours::default(), Vec::new());
        Self { engine, sender: Sender::new(source, host), ledger, neighbours, is_full: false, events }
    }

    pub fn counts(&self) -> Counts {
        self.engine.counts()
    }

    /// The input for the engine; `None` if it is the sender's turn only.
    fn for_engine(
        &mut self,
        input: Input<B::Frame, Act>,
        cx: &Context<'_, B::Frame, Suspected>,
    ) -> Option<Input<B::Frame, B::Command>> {
        Some(match input {
            Input::Start => {
                lock(&self.ledger).start();
                Input::Start
            }
            Input::Command(Act::Begin) => {
                self.sender.begin(cx.now());
                return None;
            }
            Input::Command(Act::Leave) => {
                self.sender.stop();
                lock(&self.ledger).is_done = true;
                Input::Command(B::leave()?)
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
                lock(&self.ledger).frame(self.neighbours.host(peer), B::parts(&frame), cx.now());
                Input::Frame { peer, frame }
            }
        })
    }

    /// Broadcasts as long as there is something to broadcast, and room for it, at most so many messages. Returns how many it was.
    fn broadcast(&mut self, most: u32, cx: &mut Context<'_, B::Frame, Suspected>) -> u32 {
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
        if taken > 0 {
            lock(&self.ledger).broadcast += u64::from(taken);
        }
        taken
    }

    /// Notes the events of the engine.
    fn relay(&mut self, cx: &mut Context<'_, B::Frame, Suspected>) {
        if self.events.is_empty() {
            return;
        }
        let now = cx.now();
        let mut ledger = lock(&self.ledger);
        for event in self.events.drain(..) {
            match B::seen(event) {
                Some(Seen::Delivered(payload)) => {
                    let head = payload.chunks().first().map_or(&[][..], |chunk| chunk);
                    ledger.deliver(head, payload.len(), now);
                }
                Some(Seen::Suspected(host)) => cx.emit(Suspected(host)),
                Some(Seen::Room) => self.is_full = false,
                None => {}
            }
        }
    }

    /// Broadcasts until nothing is left, or there is no room; then waits for what is due next.
    fn go_on(&mut self, cx: &mut Context<'_, B::Frame, Suspected>) {
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
            lock(&self.ledger).is_done = true;
        }
    }
}

impl<B: Broadcasts> Engine for GroupMember<B> {
    type Frame = B::Frame;
    type Command = Act;
    type Event = Suspected;

    fn handle(&mut self, input: Input<B::Frame, Act>, cx: &mut Context<'_, B::Frame, Suspected>) {
        let input = self.for_engine(input, cx);
        let is_due = input.is_none();
        if let Some(input) = input {
            self.engine.handle(input, &mut cx.nested(&mut self.events));
        }
        let had_room = !self.is_full;
        self.relay(cx);
        if is_due || !self.is_full && !had_room {
            self.go_on(cx);
        }
    }
}
