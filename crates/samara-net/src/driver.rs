//! An engine, its outbox and its timers on the machine's clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use samara_engine::{
    Context, Effects, Engine, Input, LinkRequest, NodeRng, Outbox, PeerKeyed, Time, TimerToken,
};

/// Runs an engine on real time; whoever owns it brings the frames and takes the copies.
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
        };
        driver.input(Input::Start);
        Ok(driver)
    }

    /// Time since the start: the clock of the engine.
    pub fn now(&self) -> Time {
        Time::ZERO + self.started.elapsed()
    }

    /// The engine.
    pub fn engine(&self) -> &E {
        &self.engine
    }

    /// What is owed, and which copy leaves next.
    pub fn outbox(&mut self) -> &mut Outbox<E::Frame> {
        &mut self.outbox
    }

    /// Something has happened.
    pub fn input(&mut self, input: Input<E::Frame, E::Command>) {
        self.with(|engine, cx| engine.handle(input, cx));
    }

    /// Calls the engine with a context, for methods that give an answer.
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

    /// Fires all timers that are due.
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

    /// When [`fire_timers`](Self::fire_timers) has something to do next.
    pub fn next_deadline(&self) -> Option<Instant> {
        let timer = self.timers.peek().map(|Reverse((at, ..))| *at);
        let next = [timer, self.outbox.next_wake()].into_iter().flatten().min()?;
        Some(self.started + next.since(Time::ZERO))
    }

    /// Takes what the engine has told so far.
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
mod tests {
    use samara_engine::Frame;
    use samara_engine::outbox::{Dispatch, OutboxConfig};

    use super::*;

    /// An engine that draws at its start.
    #[derive(Default)]
    struct Drawing(Option<(PeerKeyed, u64)>);

    #[derive(Clone, Debug)]
    struct NoFrame;

    impl Frame for NoFrame {
        fn encoded_len(&self) -> usize {
            0
        }

        fn payload_len(&self) -> usize {
            0
        }
    }

    impl Engine for Drawing {
        type Frame = NoFrame;
        type Command = ();
        type Event = ();

        fn handle(&mut self, input: Input<NoFrame, ()>, cx: &mut Context<'_, NoFrame, ()>) {
            assert!(matches!(input, Input::Start) && self.0.is_none());
            let number = cx.rng().clone().next_u64();
            self.0 = Some((cx.rng().table_hasher(), number));
        }
    }

    #[test]
    fn no_two_engines_draw_the_same() {
        let draw = || {
            let outbox = Outbox::new(OutboxConfig { dispatch: Dispatch::default(), lanes: Vec::new() });
            let drawn = Driver::new(Drawing::default(), outbox).unwrap().engine().0.expect("it has started");
            assert_ne!(drawn.0, PeerKeyed::from_key([0, drawn.1]), "a key that follows from a number");
            drawn
        };
        let (one, two) = (draw(), draw());
        assert_ne!(one.0, two.0, "the keys of their tables");
        assert_ne!(one.1, two.1, "their random numbers");
    }
}
