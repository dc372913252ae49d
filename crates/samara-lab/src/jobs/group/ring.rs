//! A member of the ring, with an application.

use samara_engine::{Context, Engine, Frame, Input, PeerId};
use samara_ring::{Command, Event, Ring, RingFrame};
use samara_sim::host_of;

use super::{Act, BURST, Counts, DUE, Kind, Member, Sender, SharedLedger, Source, Told, for_engine, lock};
use crate::jobs::messages::Neighbours;

/// A member of the ring: broadcasts what its source has as fast as it is taken, or at a rate.
#[derive(Debug)]
pub struct RingMember {
    ring: Ring,
    sender: Sender,
    ledger: SharedLedger,
    neighbours: Neighbours,
    /// A message was refused: it is tried again when there is room.
    is_full: bool,
    events: Vec<Event>,
}

impl RingMember {
    /// The member of a host.
    pub fn new(ring: Ring, host: u32, source: Source, ledger: SharedLedger) -> Self {
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
            match event {
                Event::Delivered { payload, .. } => {
                    let content = payload.chunks().first().map_or(&[][..], |chunk| chunk);
                    ledger.deliver(content, payload.len(), now);
                }
                Event::View(view) => cx.emit(Told::View { members: view.len() as u32 }),
                Event::Suspected { member, .. } => {
                    cx.emit(Told::Suspected { host: host_of(&member.identity).unwrap_or(u32::MAX) });
                }
                Event::Room => self.is_full = false,
                Event::Left => {
                    ledger.has_left = true;
                    cx.emit(Told::Left);
                }
                Event::Slow { .. } | Event::Refused(_) => {}
            }
        }
    }

    fn note_frame(&self, peer: PeerId, frame: &RingFrame, cx: &Context<'_, RingFrame, Told>) {
        let (all, content) = (frame.encoded_len(), frame.payload_len());
        let parts = match frame {
            RingFrame::Data(data) if !data.units.is_empty() => {
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

impl Member for RingMember {
    fn counts(&self) -> Counts {
        let metrics = self.ring.metrics();
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

impl Engine for RingMember {
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

impl RingMember {
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
