//! A member of the ring, or of a federation of rings, with an application.

use bytes::Bytes;
use samara_engine::{Context, Engine, Frame, Input, PeerId};
use samara_ring::{
    BroadcastError, Command, Event, Federation, FederationEvent, Payload, Ring, RingFrame, Unused,
};
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
pub trait Broadcasts: Engine<Frame = RingFrame, Command = Command> {
    /// Takes a message to be broadcast.
    ///
    /// # Errors
    /// There is no room for it.
    fn broadcast(
        &mut self,
        message: Bytes,
        cx: &mut Context<'_, RingFrame, Self::Event>,
    ) -> Result<(), BroadcastError>;

    /// What it told.
    fn seen(event: Self::Event) -> Seen;

    /// What it has counted.
    fn counts(&self) -> Counts;
}

impl Broadcasts for Ring {
    fn broadcast(
        &mut self,
        message: Bytes,
        cx: &mut Context<'_, RingFrame, Event>,
    ) -> Result<(), BroadcastError> {
        Self::broadcast(self, message, cx)
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
    fn broadcast(
        &mut self,
        message: Bytes,
        cx: &mut Context<'_, RingFrame, FederationEvent>,
    ) -> Result<(), BroadcastError> {
        Self::broadcast(self, message, cx)
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
    fn broadcast(&mut self, most: u32, cx: &mut Context<'_, RingFrame, Told>) -> u32 {
        let now = cx.now();
        let mut taken = 0;
        while !self.is_full
            && taken < most
            && let Some(message) = self.sender.message(now)
        {
            let mut inner = cx.nested(&mut self.events);
            match self.ring.broadcast(message, &mut inner) {
                Ok(()) => {
                    self.sender.taken();
                    taken += 1;
                }
                Err(_) => self.is_full = true,
            }
        }
        if taken > 0 {
            lock(&self.ledger).broadcast += u64::from(taken);
        }
        taken
    }

    /// Notes what the engine told.
    fn relay(&mut self, cx: &mut Context<'_, RingFrame, Told>) {
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

    fn note_frame(&self, peer: PeerId, frame: &RingFrame, cx: &Context<'_, RingFrame, Told>) {
        let (all, content) = (frame.encoded_len(), frame.payload_len());
        let within = match frame {
            RingFrame::Bridge(inner) => inner,
            frame => frame,
        };
        let parts = match within {
            RingFrame::Data(data) if !data.units().is_empty() => {
                [(Kind::Content, content), (Kind::Headers, all - content)]
            }
            RingFrame::Early(_) => [(Kind::Content, content), (Kind::Headers, all - content)],
            RingFrame::Data(_) | RingFrame::Credit { .. } => [(Kind::Credit, all), (Kind::Headers, 0)],
            RingFrame::Heartbeat(_) => [(Kind::Heartbeats, all), (Kind::Headers, 0)],
            _ => [(Kind::Views, all), (Kind::Headers, 0)],
        };
        lock(&self.ledger).frame(self.neighbours.host(peer), parts, cx.now());
    }
}

impl<B: Broadcasts> Member for RingMember<B> {
    fn counts(&self) -> Counts {
        self.ring.counts()
    }
}

impl<B: Broadcasts> Engine for RingMember<B> {
    type Frame = RingFrame;
    type Command = Act;
    type Event = Told;

    fn handle(&mut self, input: Input<RingFrame, Act>, cx: &mut Context<'_, RingFrame, Told>) {
        if let Input::Frame { peer, frame } = &input {
            self.note_frame(*peer, frame, cx);
        }
        let mine = (&mut self.sender, &self.ledger, &mut self.neighbours);
        let input = for_engine(input, Command::Leave, mine, cx.now());
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
    fn go_on(&mut self, cx: &mut Context<'_, RingFrame, Told>) {
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
