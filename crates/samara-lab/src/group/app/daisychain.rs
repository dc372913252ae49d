//! A member of the model of JGroups' DAISYCHAIN, with an application.

use samara_engine::{Context, Engine, Frame, Input, PeerId};
use samara_ring::jgroups::{DaisyCommand, DaisyEvent, DaisyFrame, Daisychain, Multicast};

use super::{Act, BURST, Counts, DUE, Kind, Member, Sender, SharedLedger, Source, Told, for_engine, lock};
use crate::messages::app::Neighbours;

/// A member with DAISYCHAIN of JGroups: broadcasts what its source has, one message after the other, as a thread does that is blocked
/// while there is no credit.
#[derive(Debug)]
pub struct DaisyMember {
    daisychain: Daisychain,
    sender: Sender,
    me: u32,
    ledger: SharedLedger,
    neighbours: Neighbours,
    /// The sending thread is blocked: its message waits for credit.
    is_blocked: bool,
    events: Vec<DaisyEvent>,
}

impl DaisyMember {
    /// The member of a host.
    pub fn new(daisychain: Daisychain, host: u32, source: Source, ledger: SharedLedger) -> Self {
        Self {
            daisychain,
            sender: Sender::new(source, host),
            me: host,
            ledger,
            neighbours: Neighbours::default(),
            is_blocked: false,
            events: Vec::new(),
        }
    }

    /// Notes what the engine told. An own message is delivered when it is sent.
    fn relay(&mut self, cx: &mut Context<'_, DaisyFrame, Told>) {
        if self.events.is_empty() {
            return;
        }
        let now = cx.now();
        let mut ledger = lock(&self.ledger);
        for event in self.events.drain(..) {
            match event {
                DaisyEvent::Delivered { origin, message } => {
                    if samara_sim::host_of(&origin) == Some(self.me) {
                        self.is_blocked = false;
                    }
                    ledger.deliver(&message, message.len(), now);
                }
                DaisyEvent::View(view) => cx.emit(Told::View { members: view.members.len() as u32 }),
                DaisyEvent::Left => {
                    ledger.has_left = true;
                    cx.emit(Told::Left);
                }
                DaisyEvent::Refused => {}
            }
        }
    }

    fn go_on(&mut self, cx: &mut Context<'_, DaisyFrame, Told>) {
        let now = cx.now();
        let mut left = BURST;
        while !self.is_blocked
            && left > 0
            && let Some(message) = self.sender.message(now)
        {
            left -= 1;
            self.sender.taken();
            self.is_blocked = true;
            lock(&self.ledger).broadcast += 1;
            let input = Input::Command(DaisyCommand::Broadcast(message));
            self.daisychain.handle(input, &mut cx.nested(&mut self.events));
            self.relay(cx);
        }
        if left == 0 {
            cx.set_timer(now + self.sender.burst_time(), DUE);
        } else if let Some(at) = self.sender.wake(now) {
            cx.set_timer(at, DUE);
        }
        if self.sender.is_done(now) {
            lock(&self.ledger).is_done = true;
        }
    }

    fn note_frame(&self, peer: PeerId, frame: &DaisyFrame, cx: &Context<'_, DaisyFrame, Told>) {
        let (all, content) = (frame.encoded_len(), frame.payload_len());
        let kind = match frame {
            DaisyFrame::Around(_, multicast) | DaisyFrame::Direct(_, multicast) => match &**multicast {
                Multicast::Message(..) => Kind::Headers,
                Multicast::Heartbeat(_) => Kind::Heartbeats,
                Multicast::View(..) | Multicast::Suspect(_) => Kind::Views,
            },
            DaisyFrame::Credit(_) => Kind::Credit,
            _ => Kind::Views,
        };
        let parts = [(Kind::Content, content), (kind, all - content)];
        lock(&self.ledger).frame(self.neighbours.host(peer), parts, cx.now());
    }
}

impl Member for DaisyMember {
    fn counts(&self) -> Counts {
        let metrics = self.daisychain.metrics();
        Counts {
            forwarded: metrics.forwarded,
            repaired: metrics.requests,
            views: self.daisychain.view().map_or(0, |view| view.id),
            ignored: vec![("unknown_origin", metrics.strangers)],
            ..Counts::default()
        }
    }
}

impl Engine for DaisyMember {
    type Frame = DaisyFrame;
    type Command = Act;
    type Event = Told;

    fn handle(&mut self, input: Input<DaisyFrame, Act>, cx: &mut Context<'_, DaisyFrame, Told>) {
        if let Input::Frame { peer, frame } = &input {
            self.note_frame(*peer, frame, cx);
        }
        let mine = (&mut self.sender, &self.ledger, &mut self.neighbours);
        let input = for_engine(input, DaisyCommand::Leave, mine, cx.now());
        let is_due = input.is_none();
        if let Some(input) = input {
            self.daisychain.handle(input, &mut cx.nested(&mut self.events));
        }
        let was_blocked = self.is_blocked;
        self.relay(cx);
        if is_due || was_blocked && !self.is_blocked {
            self.go_on(cx);
        }
    }
}
