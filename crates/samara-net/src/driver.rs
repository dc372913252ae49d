//! An engine, its outbox and its timers on the machine's clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use samara_engine::{
    Context, Effects, Engine, Input, LinkRequest, NodeRng, Outbox, PeerKeyed, Time, TimerToken,
};

/// Timers that are this late show that the process did not run.
const STALL_MIN: Duration = Duration::from_millis(100);

/// Runs an engine on real time. The owner brings the frames and takes the copies.
#[derive(Debug)]
pub struct Driver<E: Engine> {
    engine: E,
    outbox: Outbox<E::Frame>,
    rng: NodeRng,
    effects: Effects<E::Event>,
    /// By time, then by the order in which they were set.
    timers: BinaryHeap<Reverse<(Time, u64, TimerToken)>>,
    timers_set: u64,
    started: Instant,
    /// The engine's clock when it was last read.
    last: Time,
}

impl<E: Engine> Driver<E> {
    /// Starts an engine, with random numbers and a key for its hash tables that no peer can know.
    ///
    /// # Errors
    /// The operating system has no random numbers.
    pub fn new(engine: E, outbox: Outbox<E::Frame>) -> Result<Self, getrandom::Error> {
        let mut driver = Self {
            engine,
            outbox,
            rng: system_rng()?,
            effects: Effects::default(),
            timers: BinaryHeap::new(),
            timers_set: 0,
            started: Instant::now(),
            last: Time::ZERO,
        };
        driver.input(Input::Start);
        Ok(driver)
    }

    /// Reads the engine's clock: the time since the start, without the time in which the process did not run.
    ///
    /// A process that was descheduled or suspended finds frames in its sockets and timers long due. If its pause counted, an
    /// engine would take it for the silence of all its peers.
    pub fn now(&mut self) -> Time {
        let now = Time::ZERO + self.started.elapsed();
        let due = self.timers.peek().map_or(now, |Reverse((at, ..))| *at).max(self.last);
        let late = now.since(due);
        self.last = if late > STALL_MIN { due } else { now };
        if late > STALL_MIN {
            tracing::debug!(?late, "the process did not run");
            self.started += late;
        }
        self.last
    }

    pub fn engine(&self) -> &E {
        &self.engine
    }

    /// Returns the outbox, which decides which copy leaves next.
    pub fn outbox(&mut self) -> &mut Outbox<E::Frame> {
        &mut self.outbox
    }

    pub fn input(&mut self, input: Input<E::Frame, E::Command>) {
        self.with(|engine, cx| engine.handle(input, cx));
    }

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

    /// Returns when [`fire_timers`](Self::fire_timers) has something to do next.
    pub fn next_deadline(&self) -> Option<Instant> {
        let timer = self.timers.peek().map(|Reverse((at, ..))| *at);
        let next = [timer, self.outbox.next_wake()].into_iter().flatten().min()?;
        Some(self.started + next.since(Time::ZERO))
    }

    pub fn take_events(&mut self) -> Vec<E::Event> {
        std::mem::take(&mut self.effects.events)
    }

    /// Takes the links that the engine wants up or down.
    pub fn take_links(&mut self) -> Vec<LinkRequest> {
        std::mem::take(&mut self.effects.links)
    }
}

fn system_rng() -> Result<NodeRng, getrandom::Error> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?;
    let tables = PeerKeyed::from_key([getrandom::u64()?, getrandom::u64()?]);
    Ok(NodeRng::from_entropy(seed, tables))
}

#[cfg(test)]
mod tests;
