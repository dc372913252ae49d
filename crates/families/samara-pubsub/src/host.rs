//! A host: an engine, the workload around it, and a processor that validates messages.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use samara_engine::{Context, Engine, Frame, Input, Outbox, PeerId, Purpose, Time, TimerToken, derive_seed};
use samara_gossipsub::config::Parameters;
use samara_gossipsub::rpc::{MessageId, RpcFrame};
use samara_gossipsub::{Acceptance, Config, Event, GossipSub, WithGossipSub};
use samara_scenario::Scenario;
use samara_sim::{App, Neighbours, identity_of};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub type EngineCx<'a, W> =
    Context<'a, <<W as Workload>::Engine as Engine>::Frame, <<W as Workload>::Engine as Engine>::Event>;
pub type AppCx<'a, W> = Context<'a, <<W as Workload>::Engine as Engine>::Frame, <W as Workload>::Event>;

/// The workload that an experiment runs around an engine.
pub trait Workload: Send + Sized + 'static {
    type Engine: Engine;
    /// A command from the experiment to the host.
    type Command: Serialize + DeserializeOwned + Send;
    /// An event from the host to the measurements.
    type Event: Serialize + DeserializeOwned + Send;
    /// The counters of the workload.
    type Counters: Clone + Serialize + DeserializeOwned + Send + 'static;

    fn engine(&mut self) -> &mut Self::Engine;

    /// Checks the engine: see [`Engine::assert_invariants`].
    fn assert_invariants(&self, outbox: &Outbox<<Self::Engine as Engine>::Frame>);

    fn counters(&self) -> Self::Counters;

    /// Starts the workload, after its engine has started.
    fn start(&mut self, cx: &mut EngineCx<'_, Self>);

    fn command(&mut self, command: Self::Command, cx: &mut EngineCx<'_, Self>);

    /// Handles a timer. Timers that the workload did not set belong to the engine.
    fn timer(&mut self, token: TimerToken, cx: &mut EngineCx<'_, Self>) {
        self.engine().handle(Input::Timer(token), cx);
    }

    /// Handles a frame from a peer: it is for the engine.
    fn frame(&mut self, peer: PeerId, frame: <Self::Engine as Engine>::Frame, cx: &mut EngineCx<'_, Self>) {
        self.engine().handle(Input::Frame { peer, frame }, cx);
    }

    fn observe(
        &mut self,
        event: <Self::Engine as Engine>::Event,
        neighbours: &Neighbours,
        cx: &mut AppCx<'_, Self>,
    );

    /// Emits events that the workload could not emit while it handled an input.
    fn report(&mut self, _neighbours: &Neighbours, _cx: &mut AppCx<'_, Self>) {}
}

pub struct Host<W: Workload> {
    workload: W,
    neighbours: Neighbours,
    events: Vec<<W::Engine as Engine>::Event>,
}

impl<W: Workload> Host<W> {
    pub fn new(workload: W) -> Self {
        Self { workload, neighbours: Neighbours::default(), events: Vec::new() }
    }

    /// Calls the workload with the context of its engine, and lets it observe what the engine emits.
    fn within<R>(
        &mut self,
        cx: &mut AppCx<'_, W>,
        call: impl FnOnce(&mut W, &mut Neighbours, &mut EngineCx<'_, W>) -> R,
    ) -> R {
        let Self { workload, neighbours, events } = self;
        let answer = call(workload, neighbours, &mut cx.nested(events));
        for event in events.drain(..) {
            workload.observe(event, neighbours, cx);
        }
        workload.report(neighbours, cx);
        answer
    }
}

impl<W: Workload> Engine for Host<W> {
    type Frame = <W::Engine as Engine>::Frame;
    type Command = W::Command;
    type Event = W::Event;

    fn handle(&mut self, input: Input<Self::Frame, W::Command>, cx: &mut AppCx<'_, W>) {
        self.within(cx, |workload, neighbours, inner| match input {
            Input::Start => {
                workload.engine().handle(Input::Start, inner);
                workload.start(inner);
            }
            Input::LinkUp { peer, info } => {
                neighbours.up(peer, &info);
                workload.engine().handle(Input::LinkUp { peer, info }, inner);
            }
            Input::Command(command) => workload.command(command, inner),
            Input::Timer(token) => workload.timer(token, inner),
            Input::LinkDown { peer } => workload.engine().handle(Input::LinkDown { peer }, inner),
            Input::DialFailed { identity } => workload.engine().handle(Input::DialFailed { identity }, inner),
            Input::Frame { peer, frame } => workload.frame(peer, frame, inner),
        });
    }

    fn assert_invariants(&self, outbox: &Outbox<Self::Frame>) {
        self.workload.assert_invariants(outbox);
    }
}

impl<W: Workload<Engine = GossipSub>> WithGossipSub for Host<W> {
    fn with_gossipsub<R>(
        &mut self,
        cx: &mut AppCx<'_, W>,
        call: impl FnOnce(&mut GossipSub, &mut samara_gossipsub::Cx<'_>) -> R,
    ) -> R {
        self.within(cx, |workload, _, inner| call(workload.engine(), inner))
    }
}

impl<W: Workload> App for Host<W> {
    type Counters = W::Counters;

    fn counters(&self) -> W::Counters {
        self.workload.counters()
    }
}

/// Returns the engine and the outbox of a GossipSub host. The configuration must be valid.
pub fn gossipsub(config: &Arc<Config>, host: u32) -> (GossipSub, Outbox<RpcFrame>) {
    match GossipSub::new(Arc::clone(config), identity_of(host)) {
        Ok(gossip) => (gossip, Outbox::new(config.outbox_config())),
        Err(error) => unreachable!("the configuration was checked: {error}"),
    }
}

/// Returns the version of GossipSub that all pairs of hosts agree on: that of the scenario.
pub fn protocol(scenario: &Scenario) -> Arc<str> {
    scenario.find::<Parameters>().cloned().unwrap_or_default().config.version.protocol().into()
}

/// Fires when the processor has finished a message.
pub const VALIDATED: TimerToken = TimerToken(TimerToken::WRAPPER);

/// Periods in which the process of a node stands still.
///
/// A container with a quota of one processor may use 100 ms of processor time in each period of
/// 100 ms, over all of its threads (Linux, `cpu.cfs_quota_us`). A burst of many threads uses that up at
/// once, and then all threads stand still until the next period.
#[derive(Clone, Copy, Debug)]
pub struct Stalls {
    seed: u64,
    share: f64,
    /// The start of the node's first whole period, in nanoseconds.
    phase: u64,
}

impl Stalls {
    /// The period of quotas of Linux (`cpu.cfs_period_us`) and Docker.
    const PERIOD: u64 = 100_000_000;
    /// Time in which the threads of 96 processors use up a quota of one processor.
    const BURST: u64 = Self::PERIOD / 96;

    /// Lets the process of a host stand still in this share of periods. `None` if it never does.
    pub fn new(share: f64, host: u32, seed: u64) -> Option<Self> {
        let seed = derive_seed(seed, u64::from(host), Purpose::Faults);
        (share > 0.0).then_some(Self { seed, share, phase: seed % Self::PERIOD })
    }

    /// Returns the first time at or after `at`, in nanoseconds, at which the process runs.
    pub fn runs_at(&self, mut at: u64) -> u64 {
        loop {
            let (period, into) = ((at + self.phase) / Self::PERIOD, (at + self.phase) % Self::PERIOD);
            // 53 bits make a fraction.
            let drawn = (derive_seed(self.seed, period, Purpose::Faults) >> 11) as f64 / (1_u64 << 53) as f64;
            if into < Self::BURST || drawn >= self.share {
                return at;
            }
            at += Self::PERIOD - into;
        }
    }
}

/// A processor that validates one message at a time, with its queue of messages.
#[derive(Debug)]
pub struct Processor {
    time: Duration,
    stalls: Option<Stalls>,
    /// The message in work is first.
    waiting: VecDeque<(Work, Duration)>,
}

/// Something to validate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    Message(MessageId),
    /// Parts of a message, by their ticket, and the verdict on them.
    Parts(u64, Acceptance),
}

impl Processor {
    /// Creates a processor that needs `time` for each message.
    pub fn new(time: Duration, stalls: Option<Stalls>) -> Self {
        Self { time, stalls, waiting: VecDeque::new() }
    }

    /// Returns true if validation takes no time, so that messages never queue.
    pub fn is_instant(&self) -> bool {
        self.time.is_zero() && self.stalls.is_none()
    }

    pub fn take<F: Frame, E>(&mut self, id: MessageId, cx: &mut Context<'_, F, E>) {
        self.work(Work::Message(id), self.time, cx);
    }

    /// Takes something that needs this much time.
    pub fn work<F: Frame, E>(&mut self, work: Work, time: Duration, cx: &mut Context<'_, F, E>) {
        self.waiting.push_back((work, time));
        if self.waiting.len() == 1 {
            self.start(cx);
        }
    }

    /// Handles the timer [`VALIDATED`]. Returns the ticket of validated parts.
    pub fn done(&mut self, gossip: &mut GossipSub, cx: &mut Context<'_, RpcFrame, Event>) -> Option<u64> {
        let ticket = match self.waiting.pop_front() {
            Some((Work::Message(id), _)) => {
                gossip.report_validation(&id, Acceptance::Accept, cx);
                None
            }
            Some((Work::Parts(ticket, verdict), _)) => {
                gossip.report_parts(ticket, verdict, cx);
                Some(ticket)
            }
            None => None,
        };
        if !self.waiting.is_empty() {
            self.start(cx);
        }
        ticket
    }

    fn start<F: Frame, E>(&self, cx: &mut Context<'_, F, E>) {
        let runs_at =
            |at: Time| self.stalls.map_or(at, |stalls| Time::from_nanos(stalls.runs_at(at.as_nanos())));
        let time = self.waiting.front().map_or(Duration::ZERO, |(_, time)| *time);
        cx.set_timer(runs_at(runs_at(cx.now()) + time), VALIDATED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_stands_still_in_a_share_of_periods_until_their_ends() {
        let stalls = Stalls::new(0.25, 3, 1).expect("it stalls");
        let (step, steps) = (Stalls::PERIOD / 100, 200_000);
        let held = (0..steps).filter(|at| stalls.runs_at(at * step) != at * step).count();
        let share = held as f64 / steps as f64;
        assert!((0.22..0.28).contains(&share), "{share} of 2,000 periods");
        for at in (0..steps).map(|at| at * step) {
            let runs_at = stalls.runs_at(at);
            assert_eq!(stalls.runs_at(runs_at), runs_at, "it runs at the end of a period");
            assert!(runs_at == at || (runs_at + stalls.phase).is_multiple_of(Stalls::PERIOD));
        }
        assert!(Stalls::new(0.0, 3, 1).is_none());
    }
}
