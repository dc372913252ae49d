//! An engine, its outbox and its timers on the machine's clock.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

use crate::hostile::{Forge, Hostile, Misconduct};
use crate::outbox::Outgoing;
use crate::{Context, Effects, Engine, Frame, Input, LinkRequest, NodeRng, Outbox, PeerId, Time, TimerToken};

/// A timer that fires later than this shows that the process was suspended.
const STALL_MIN: Duration = Duration::from_millis(100);

/// Runs an engine in real time. The owner delivers frames and sends the copies.
#[derive(Debug)]
pub struct Driver<E: Engine> {
    engine: E,
    outbox: Outbox<E::Frame>,
    rng: NodeRng,
    effects: Effects<E::Event>,
    /// Ordered by time, then by the order in which the timers were set.
    timers: BinaryHeap<Reverse<(Time, u64, TimerToken)>>,
    timers_set: u64,
    started: Instant,
    /// The engine's clock at its last reading.
    last: Time,
    /// Set if the host breaks the rules at some time.
    hostile: Option<Box<Planned<E::Frame>>>,
}

/// A host that breaks the rules, and when it does.
#[derive(Debug)]
struct Planned<F> {
    hostile: Hostile<F>,
    /// The strengths of misconducts, in the order of the times from which they hold.
    plan: VecDeque<(Time, Misconduct, f64)>,
}

impl<F: Frame> Planned<F> {
    /// Returns the host as it is at this time.
    fn at(&mut self, now: Time) -> &mut Hostile<F> {
        while let Some((at, what, strength)) = self.plan.front().copied()
            && at <= now
        {
            self.plan.pop_front();
            self.hostile.set(what, strength);
        }
        &mut self.hostile
    }
}

impl<E: Engine> Driver<E> {
    /// Starts an engine. Pass random numbers from [`NodeRng::from_entropy`].
    pub fn new(engine: E, outbox: Outbox<E::Frame>, rng: NodeRng) -> Self {
        Self::since(Instant::now(), Time::ZERO, engine, outbox, rng)
    }

    /// Starts an engine at a time of a clock that has run since `started`, which must not be in the
    /// future.
    pub fn since(started: Instant, at: Time, engine: E, outbox: Outbox<E::Frame>, rng: NodeRng) -> Self {
        let mut driver = Self {
            engine,
            outbox,
            rng,
            effects: Effects::default(),
            timers: BinaryHeap::new(),
            timers_set: 0,
            started,
            last: at,
            hostile: None,
        };
        driver.with_at(at, |engine, cx| engine.handle(Input::Start, cx));
        driver
    }

    /// Reads the engine's clock: the time since the start, without the time during which the
    /// process was suspended.
    ///
    /// A process that was descheduled or suspended finds frames in its sockets and timers long due.
    /// If the pause counted, an engine would mistake it for silence of all its peers.
    pub fn now(&mut self) -> Time {
        let now = Time::ZERO + self.started.elapsed();
        let due = self.timers.peek().map_or(now, |Reverse((at, ..))| *at).max(self.last);
        let late = now.since(due);
        self.last = if late > STALL_MIN { due } else { now };
        if late > STALL_MIN {
            tracing::debug!(?late, "the process was suspended; its clock skips the pause");
            self.started += late;
        }
        self.last
    }

    /// Makes the host break the rules: each misconduct has its strength from a time of the engine's clock
    /// on, and 0 ends it ([`Hostile::set`]). Call it before the first link is up.
    pub fn misbehave(
        &mut self,
        mut plan: Vec<(Time, Misconduct, f64)>,
        forge: Option<Forge<E::Frame>>,
        rng: NodeRng,
    ) {
        plan.sort_by_key(|(at, ..)| *at);
        let hostile = Hostile::new(rng, Vec::new(), forge);
        self.hostile = Some(Box::new(Planned { hostile, plan: plan.into() }));
    }

    /// Returns the engine.
    pub fn engine(&self) -> &E {
        &self.engine
    }

    /// Returns the outbox, which decides which copy leaves next.
    pub fn outbox(&mut self) -> &mut Outbox<E::Frame> {
        &mut self.outbox
    }

    /// Returns the next copy that `pop` takes out of the outbox, as it leaves the host.
    pub fn pop(
        &mut self,
        mut pop: impl FnMut(&mut Outbox<E::Frame>) -> Option<Outgoing<E::Frame>>,
    ) -> Option<Outgoing<E::Frame>> {
        match &mut self.hostile {
            None => pop(&mut self.outbox),
            Some(planned) => planned.at(self.last).next(&mut self.outbox, pop),
        }
    }

    /// Returns a frame that passes the outbox by, as it leaves the host; `None` if nothing does.
    pub fn leaving(&mut self, peer: PeerId, frame: E::Frame) -> Option<E::Frame> {
        match &mut self.hostile {
            None => Some(frame),
            Some(planned) => planned.at(self.last).twist(peer, frame),
        }
    }

    /// Passes an input to the engine.
    pub fn input(&mut self, input: Input<E::Frame, E::Command>) {
        let now = self.now();
        if let Some(planned) = &mut self.hostile {
            let hostile = planned.at(now);
            match &input {
                Input::LinkUp { peer, .. } => hostile.link_up(*peer),
                Input::LinkDown { peer } => hostile.link_down(*peer),
                Input::Frame { frame, .. } => hostile.received(now, frame, &mut self.outbox),
                _ => {}
            }
        }
        self.with_at(now, |engine, cx| engine.handle(input, cx));
    }

    /// Calls a method of the engine that needs a context.
    pub fn with<R>(&mut self, call: impl FnOnce(&mut E, &mut Context<'_, E::Frame, E::Event>) -> R) -> R {
        let now = self.now();
        self.with_at(now, call)
    }

    fn with_at<R>(
        &mut self,
        now: Time,
        call: impl FnOnce(&mut E, &mut Context<'_, E::Frame, E::Event>) -> R,
    ) -> R {
        let mut cx = Context::new(now, &mut self.rng, &mut self.outbox, &mut self.effects);
        let answer = call(&mut self.engine, &mut cx);
        for timer in self.effects.timers.drain(..) {
            self.timers.push(Reverse((timer.at, self.timers_set, timer.token)));
            self.timers_set += 1;
        }
        answer
    }

    /// Fires the timers that are due, and releases held-back copies whose timeout has passed.
    pub fn fire_timers(&mut self) {
        let now = self.now();
        while let Some(Reverse((at, _, token))) = self.timers.peek().copied()
            && at <= now
        {
            self.timers.pop();
            self.with_at(now, |engine, cx| engine.handle(Input::Timer(token), cx));
        }
        self.outbox.wake(now);
    }

    /// Returns the next moment at which [`fire_timers`](Self::fire_timers) has work to do.
    pub fn next_deadline(&self) -> Option<Instant> {
        let timer = self.timers.peek().map(|Reverse((at, ..))| *at);
        let next = [timer, self.outbox.next_wake()].into_iter().flatten().min()?;
        Some(self.started + next.since(Time::ZERO))
    }

    /// Takes the events that the engine emitted since the last call.
    pub fn take_events(&mut self) -> Vec<E::Event> {
        std::mem::take(&mut self.effects.events)
    }

    /// Takes the links that the engine wants opened or closed.
    pub fn take_links(&mut self) -> Vec<LinkRequest> {
        if let Some(planned) = &mut self.hostile {
            planned.hostile.close(&mut self.effects);
        }
        std::mem::take(&mut self.effects.links)
    }
}

#[cfg(test)]
mod tests;
