//! A member of a ring, a federation of rings, or a plain daisy chain, with an application.

use bytes::Bytes;
use samara_engine::{Context, Engine, Frame, Input};
use samara_ring::daisychain::{DaisyEvent, DaisyFrame, Daisychain};
use samara_ring::{Command, Event, Federation, FederationEvent, Payload, Ring, RingFrame, Unused};
use samara_sim::host_of;

use super::{Act, BURST, Counts, DUE, Kind, Member, Sender, SharedLedger, Source, Told, for_engine, lock};
use crate::messages::app::Neighbours;

/// What an engine told its application.
#[derive(Debug)]
pub enum Seen {
    /// A message.
    Delivered(Payload),
    /// A view of so many members of the group; of a federation, of the site.
    View(usize),
    /// This host is taken for failed.
    Suspected(u32),
    /// There is room again.
    Room,
    /// The node has left.
    Left,
    /// Nothing that is measured.
    Other,
}

/// An engine whose members broadcast.
pub trait Broadcasts: Engine {
    /// Takes a message to be broadcast. Returns false if there is no room for it.
    fn broadcast(&mut self, message: Bytes, cx: &mut Context<'_, Self::Frame, Self::Event>) -> bool;

    /// The command to leave; `None` for a group without membership.
    fn leave() -> Option<Self::Command>;

    /// What the bytes of a frame are for.
    fn parts(frame: &Self::Frame) -> [(Kind, usize); 2];

    /// What it told.
    fn seen(event: Self::Event) -> Seen;

    /// What it has counted.
    fn counts(&self) -> Counts;
}

impl Broadcasts for Ring {
    fn broadcast(&mut self, message: Bytes, cx: &mut Context<'_, RingFrame, Event>) -> bool {
        Self::broadcast(self, message, cx).is_ok()
    }

    fn leave() -> Option<Command> {
        Some(Command::Leave)
    }

    fn parts(frame: &RingFrame) -> [(Kind, usize); 2] {
        parts(frame)
    }

    fn seen(event: Event) -> Seen {
        match event {
            Event::Delivered { payload, .. } => Seen::Delivered(payload),
            Event::View(view) => Seen::View(view.len()),
            Event::Suspected { member, .. } => Seen::Suspected(host_of(&member.identity).unwrap_or(u32::MAX)),
            Event::Room => Seen::Room,
            Event::Left => Seen::Left,
            Event::Slow { .. } | Event::Refused(_) => Seen::Other,
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
    fn broadcast(&mut self, message: Bytes, cx: &mut Context<'_, RingFrame, FederationEvent>) -> bool {
        Self::broadcast(self, message, cx).is_ok()
    }

    fn leave() -> Option<Command> {
        Some(Command::Leave)
    }

    fn parts(frame: &RingFrame) -> [(Kind, usize); 2] {
        parts(frame)
    }

    fn seen(event: FederationEvent) -> Seen {
        match event {
            FederationEvent::Delivered { content, .. } => Seen::Delivered(content.into()),
            FederationEvent::View(view) => Seen::View(view.len()),
            FederationEvent::Suspected { member, .. } => {
                Seen::Suspected(host_of(&member.identity).unwrap_or(u32::MAX))
            }
            FederationEvent::Room => Seen::Room,
            FederationEvent::Left => Seen::Left,
            FederationEvent::Leaders(_)
            | FederationEvent::Slow { .. }
            | FederationEvent::Absent { .. }
            | FederationEvent::Refused(_) => Seen::Other,
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

    fn seen(event: DaisyEvent) -> Seen {
        match event {
            DaisyEvent::Delivered { message, .. } => Seen::Delivered(message.into()),
            DaisyEvent::Room => Seen::Room,
            DaisyEvent::Refused => Seen::Other,
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

/// What the bytes of a frame of a ring are for.
fn parts(frame: &RingFrame) -> [(Kind, usize); 2] {
    let (all, content) = (frame.encoded_len(), frame.payload_len());
    let within = match frame {
        RingFrame::Bridge(inner) => inner,
        frame => frame,
    };
    match within {
        RingFrame::Data(data) if !data.units().is_empty() => {
            [(Kind::Content, content), (Kind::Headers, all - content)]
        }
        RingFrame::Early(_) => [(Kind::Content, content), (Kind::Headers, all - content)],
        RingFrame::Data(_) | RingFrame::Credit { .. } => [(Kind::Credit, all), (Kind::Headers, 0)],
        RingFrame::Heartbeat(_) => [(Kind::Heartbeats, all), (Kind::Headers, 0)],
        _ => [(Kind::Views, all), (Kind::Headers, 0)],
    }
}

/// A member: broadcasts what its source has as fast as it is taken, or at a rate.
#[derive(Debug)]
pub struct RingMember<B: Broadcasts> {
    ring: B,
    sender: Sender,
    ledger: SharedLedger,
    neighbours: Neighbours,
    /// A message was refused: it is tried again when there is room.
    is_full: bool,
    events: Vec<B::Event>,
}

impl<B: Broadcasts> RingMember<B> {
    /// The member of a host.
    pub fn new(ring: B, host: u32, source: Source, ledger: SharedLedger) -> Self {
        let (neighbours, events) = (Neighbours::default(), Vec::new());
        Self { ring, sender: Sender::new(source, host), ledger, neighbours, is_full: false, events }
    }

    /// Broadcasts as long as there is something to broadcast, and room for it, at most so many messages. How many it was.
    fn broadcast(&mut self, most: u32, cx: &mut Context<'_, B::Frame, Told>) -> u32 {
        let now = cx.now();
        let mut taken = 0;
        while !self.is_full
            && taken < most
            && let Some(message) = self.sender.message(now)
        {
            let mut inner = cx.nested(&mut self.events);
            if self.ring.broadcast(message, &mut inner) {
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

    /// Notes what the engine told.
    fn relay(&mut self, cx: &mut Context<'_, B::Frame, Told>) {
        if self.events.is_empty() {
            return;
        }
        let now = cx.now();
        let mut ledger = lock(&self.ledger);
        for event in self.events.drain(..) {
            match B::seen(event) {
                Seen::Delivered(payload) => {
                    let head = payload.chunks().first().map_or(&[][..], |chunk| chunk);
                    ledger.deliver(head, payload.len(), now);
                }
                Seen::View(members) => cx.emit(Told::View { members: members as u32 }),
                Seen::Suspected(host) => cx.emit(Told::Suspected { host }),
                Seen::Room => self.is_full = false,
                Seen::Left => {
                    ledger.has_left = true;
                    cx.emit(Told::Left);
                }
                Seen::Other => {}
            }
        }
    }
}

impl<B: Broadcasts> Member for RingMember<B> {
    fn counts(&self) -> Counts {
        self.ring.counts()
    }
}

impl<B: Broadcasts> Engine for RingMember<B> {
    type Frame = B::Frame;
    type Command = Act;
    type Event = Told;

    fn handle(&mut self, input: Input<B::Frame, Act>, cx: &mut Context<'_, B::Frame, Told>) {
        if let Input::Frame { peer, frame } = &input {
            lock(&self.ledger).frame(self.neighbours.host(*peer), B::parts(frame), cx.now());
        }
        let mine = (&mut self.sender, &self.ledger, &mut self.neighbours);
        let input = for_engine(input, B::leave(), mine, cx.now());
        let is_due = input.is_none();
        if let Some(input) = input {
            self.ring.handle(input, &mut cx.nested(&mut self.events));
        }
        let had_room = !self.is_full;
        self.relay(cx);
        if is_due || !self.is_full && !had_room {
            self.go_on(cx);
        }
    }
}

impl<B: Broadcasts> RingMember<B> {
    /// Broadcasts until nothing is left, or there is no room; then waits for what is due next.
    fn go_on(&mut self, cx: &mut Context<'_, B::Frame, Told>) {
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
