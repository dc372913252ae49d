//! A node that hands batches of payloads to another one.

use std::time::Duration;

use samara_engine::outbox::Lane;
use samara_engine::{Context, Engine, Frame, Input, PeerId, Time, TimerToken};

use crate::scenario::Handover;
use samara_mix::Transfer;

/// A payload is ready, or the next batch begins.
const DUE: TimerToken = TimerToken(1);
/// Bytes of the answer to a batch.
const ANSWER_BYTES: u32 = 2;

/// What travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its bytes.
    bytes: u32,
    /// Payloads in it; 0 for the answer to a batch.
    payloads: u32,
}

impl Frame for Message {
    fn encoded_len(&self) -> usize {
        self.bytes as usize
    }

    fn payload_len(&self) -> usize {
        if self.payloads == 0 { 0 } else { self.bytes as usize }
    }
}

/// What a node is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Begin with the first batch.
    Begin,
}

/// What a node tells the measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Work on a batch has begun.
    Begun,
    /// The last payload of a batch is ready.
    Ready,
    /// A whole batch is here.
    Whole,
    /// The outbox has no room: nothing more can come of this run.
    Overflow,
}

/// Either of two nodes: the one that is told to begin hands over, the other one takes.
#[derive(Debug)]
pub struct Node {
    plan: Handover,
    peer: Option<PeerId>,
    /// Batches that are not begun.
    batches_left: u32,
    begun_at: Time,
    /// Payloads of the batch that are ready, or here.
    payloads: u32,
    /// Whether a batch is being computed.
    computes: bool,
}

impl Node {
    /// A node.
    pub fn new(plan: Handover) -> Self {
        let batches_left = plan.batches;
        Self { plan, peer: None, batches_left, begun_at: Time::ZERO, payloads: 0, computes: false }
    }

    fn begin(&mut self, cx: &mut Context<'_, Message, Told>) {
        self.batches_left -= 1;
        self.begun_at = cx.now();
        self.payloads = 0;
        self.computes = true;
        cx.emit(Told::Begun);
        self.compute(cx);
    }

    /// When so many payloads of the batch are ready.
    fn ready_at(&self, payloads: u32) -> Time {
        let share = u128::from(self.plan.compute.nanos()) * u128::from(payloads);
        self.begun_at + Duration::from_nanos((share / u128::from(self.plan.payloads)) as u64)
    }

    /// Sends what is ready, and waits for the rest.
    fn compute(&mut self, cx: &mut Context<'_, Message, Told>) {
        while self.payloads < self.plan.payloads && self.ready_at(self.payloads + 1) <= cx.now() {
            self.payloads += 1;
            if self.plan.call == Transfer::Streamed {
                self.send(1, cx);
            }
        }
        if self.payloads < self.plan.payloads {
            // A batch in one message is needed as a whole only.
            let next =
                if self.plan.call == Transfer::Streamed { self.payloads + 1 } else { self.plan.payloads };
            cx.set_timer(self.ready_at(next), DUE);
            return;
        }
        self.computes = false;
        cx.emit(Told::Ready);
        if self.plan.call == Transfer::Unary {
            self.send(self.plan.payloads, cx);
        }
    }

    fn send(&mut self, payloads: u32, cx: &mut Context<'_, Message, Told>) {
        // The check of the scenario keeps a batch below 2^30 bytes.
        self.owe(Message { bytes: payloads * self.plan.size.bytes() as u32, payloads }, cx);
    }

    fn owe(&mut self, message: Message, cx: &mut Context<'_, Message, Told>) {
        let Some(peer) = self.peer else { return };
        let now = cx.now();
        if cx.outbox().owe(now, peer, Lane(0), message, None, None).is_err() {
            cx.emit(Told::Overflow);
        }
    }

    fn take(&mut self, message: Message, cx: &mut Context<'_, Message, Told>) {
        if message.payloads == 0 {
            if self.batches_left > 0 {
                let at = cx.now() + self.plan.pause.duration();
                cx.set_timer(at, DUE);
            }
            return;
        }
        self.payloads += message.payloads;
        if self.payloads == self.plan.payloads {
            self.payloads = 0;
            cx.emit(Told::Whole);
            self.owe(Message { bytes: ANSWER_BYTES, payloads: 0 }, cx);
        }
    }
}

impl Engine for Node {
    type Frame = Message;
    type Command = Act;
    type Event = Told;

    fn handle(&mut self, input: Input<Message, Act>, cx: &mut Context<'_, Message, Told>) {
        match input {
            Input::LinkUp { peer, .. } => self.peer = Some(peer),
            Input::LinkDown { .. } => self.peer = None,
            Input::Command(Act::Begin) => self.begin(cx),
            Input::Timer(_) if self.computes => self.compute(cx),
            Input::Timer(_) => self.begin(cx),
            Input::Frame { frame, .. } => self.take(frame, cx),
            Input::Start | Input::DialFailed { .. } => {}
        }
    }
}
