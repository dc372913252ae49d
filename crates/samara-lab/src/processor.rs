//! A processor that validates one message at a time.

use std::collections::VecDeque;
use std::time::Duration;

use samara_engine::{Context, TimerToken};
use samara_gossipsub::rpc::{MessageId, RpcFrame};
use samara_gossipsub::{Acceptance, Event, GossipSub};

/// The processor has finished a message.
pub(crate) const VALIDATED: TimerToken = TimerToken(TimerToken::WRAPPER);

/// Messages that wait for validation.
#[derive(Debug)]
pub(crate) struct Processor {
    time: Duration,
    /// The one in work first.
    waiting: VecDeque<MessageId>,
}

impl Processor {
    /// A processor that takes so long for a message.
    pub(crate) fn new(time: Duration) -> Self {
        Self { time, waiting: VecDeque::new() }
    }

    /// Whether validation takes no time, so that nothing waits for it.
    pub(crate) fn is_instant(&self) -> bool {
        self.time.is_zero()
    }

    pub(crate) fn take<E>(&mut self, id: MessageId, cx: &mut Context<'_, RpcFrame, E>) {
        self.waiting.push_back(id);
        if self.waiting.len() == 1 {
            self.start(cx);
        }
    }

    /// [`VALIDATED`] has fired.
    pub(crate) fn done(&mut self, gossip: &mut GossipSub, cx: &mut Context<'_, RpcFrame, Event>) {
        if let Some(id) = self.waiting.pop_front() {
            gossip.report_validation(&id, Acceptance::Accept, cx);
        }
        if !self.waiting.is_empty() {
            self.start(cx);
        }
    }

    fn start<E>(&self, cx: &mut Context<'_, RpcFrame, E>) {
        let done = cx.now() + self.time;
        cx.set_timer(done, VALIDATED);
    }
}
