//! Type-erased nodes, so that the simulator is compiled once for each type of frames and not for
//! every protocol.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use samara_engine::hostile::{Forge, Hostile, Misconduct};
use samara_engine::outbox::{Lane, OutboxConfig, Outgoing, Room, Weight};
use samara_engine::{Context, Effects, Engine, Input, NodeRng, Outbox, PeerId, Time, lock};

/// An event that a node emitted to its application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<E> {
    /// The time of the event.
    pub at: Time,
    /// The host of the node.
    pub host: u32,
    /// The event itself.
    pub event: E,
}

/// Events of the nodes of a shard that nobody has taken yet.
pub(crate) type Records<E> = Arc<Mutex<Vec<Record<E>>>>;

pub(crate) const OTHER_TYPE: &str = "all nodes of a simulation have the type that its factory makes";

/// A command of any type.
pub(crate) type Order = Box<dyn Any + Send>;

/// An engine of any type together with its outbox.
pub(crate) trait Node<F>: Any + Send {
    /// Handles an input. Events of the engine go to the records; its other requests go to
    /// `effects`.
    fn handle(&mut self, now: Time, input: Input<F, Order>, rng: &mut NodeRng, effects: &mut Effects<()>);

    fn config(&self) -> &OutboxConfig;
    fn link_up(&mut self, peer: PeerId);
    fn link_down(&mut self, peer: PeerId);
    /// Makes the node break the rules with this strength. `start` has its random numbers and the
    /// peers with links, in case it has kept the rules so far.
    fn misbehave(&mut self, what: Misconduct, strength: f64, start: (NodeRng, Vec<PeerId>));
    /// Marks the copies that are owed from now on.
    fn set_mark(&mut self, mark: u8);
    /// Returns the time since which the oldest copy in the outbox is owed.
    fn oldest_owed_at(&self) -> Option<Time>;
    fn set_weight(&mut self, peer: PeerId, weight: Weight, value: f64);
    fn set_round_trip(&mut self, peer: PeerId, round_trip: Duration);
    fn take_touched(&mut self, into: &mut Vec<PeerId>);
    fn wake(&mut self, now: Time);
    fn next_wake(&self) -> Option<Time>;
    fn pending_to(&self, peer: PeerId) -> usize;
    fn pending_on(&self, peer: PeerId, lane: Lane) -> usize;
    fn pop(&mut self, now: Time, room: &dyn Fn(PeerId) -> Room) -> Option<Outgoing<F>>;
    fn pop_urgent(&mut self, now: Time, room: &dyn Fn(PeerId) -> Room) -> Option<Outgoing<F>>;
    fn pop_for(&mut self, now: Time, peer: PeerId) -> Option<Outgoing<F>>;
    fn pop_urgent_for(&mut self, now: Time, peer: PeerId) -> Option<Outgoing<F>>;
    fn pop_lanes_for(&mut self, now: Time, peer: PeerId, lanes: &[Lane]) -> Option<Outgoing<F>>;
}

/// Creates the node of a host in a shard.
pub(crate) type Factory<F> = Box<dyn Fn(u32, usize) -> Box<dyn Node<F>> + Send + Sync>;

/// A node with its concrete types.
pub(crate) struct Typed<N: Engine> {
    pub(crate) host: u32,
    pub(crate) engine: N,
    pub(crate) outbox: Outbox<N::Frame>,
    pub(crate) events: Vec<N::Event>,
    pub(crate) records: Records<N::Event>,
    /// Set if the node breaks the rules.
    pub(crate) hostile: Option<Box<Hostile<N::Frame>>>,
    pub(crate) forge: Arc<OnceLock<Forge<N::Frame>>>,
    /// Whether the engine checks its invariants after each input.
    pub(crate) checks: Arc<AtomicBool>,
}

impl<N: Engine> Typed<N> {
    /// Returns the next copy that `pop` takes out of the outbox, as it leaves the host.
    fn next(
        &mut self,
        mut pop: impl FnMut(&mut Outbox<N::Frame>) -> Option<Outgoing<N::Frame>>,
    ) -> Option<Outgoing<N::Frame>> {
        match &mut self.hostile {
            None => pop(&mut self.outbox),
            Some(hostile) => hostile.next(&mut self.outbox, pop),
        }
    }
}

impl<N: Engine> Node<N::Frame> for Typed<N> {
    fn handle(
        &mut self,
        now: Time,
        input: Input<N::Frame, Order>,
        rng: &mut NodeRng,
        effects: &mut Effects<()>,
    ) {
        let input = match input {
            Input::Start => Input::Start,
            Input::LinkUp { peer, info } => Input::LinkUp { peer, info },
            Input::LinkDown { peer } => Input::LinkDown { peer },
            Input::DialFailed { identity } => Input::DialFailed { identity },
            Input::Frame { peer, frame } => Input::Frame { peer, frame },
            Input::Timer(token) => Input::Timer(token),
            Input::Command(order) => match order.downcast() {
                Ok(command) => Input::Command(*command),
                Err(_) => unreachable!("{OTHER_TYPE}"),
            },
        };
        if let (Some(hostile), Input::Frame { frame, .. }) = (&mut self.hostile, &input) {
            hostile.received(now, frame, &mut self.outbox);
        }
        let mut outer = Context::new(now, rng, &mut self.outbox, effects);
        self.engine.handle(input, &mut outer.nested(&mut self.events));
        if self.checks.load(Ordering::Relaxed) {
            self.engine.assert_invariants(&self.outbox);
        }
        if !self.events.is_empty() {
            let records = self.events.drain(..).map(|event| Record { at: now, host: self.host, event });
            lock(&self.records).extend(records);
        }
        if let Some(hostile) = &mut self.hostile {
            hostile.close(effects);
        }
    }

    fn config(&self) -> &OutboxConfig {
        self.outbox.config()
    }

    fn link_up(&mut self, peer: PeerId) {
        self.outbox.link_up(peer);
        if let Some(hostile) = &mut self.hostile {
            hostile.link_up(peer);
        }
    }

    fn link_down(&mut self, peer: PeerId) {
        self.outbox.link_down(peer);
        if let Some(hostile) = &mut self.hostile {
            hostile.link_down(peer);
        }
    }

    fn misbehave(&mut self, what: Misconduct, strength: f64, (rng, peers): (NodeRng, Vec<PeerId>)) {
        let hostile = || Box::new(Hostile::new(rng, peers, self.forge.get().cloned()));
        self.hostile.get_or_insert_with(hostile).set(what, strength);
    }

    fn set_mark(&mut self, mark: u8) {
        self.outbox.set_mark(mark);
    }

    fn oldest_owed_at(&self) -> Option<Time> {
        self.outbox.oldest_owed_at()
    }

    fn set_weight(&mut self, peer: PeerId, weight: Weight, value: f64) {
        self.outbox.set_weight(peer, weight, value);
    }

    fn set_round_trip(&mut self, peer: PeerId, round_trip: Duration) {
        self.outbox.set_round_trip(peer, Some(round_trip));
    }

    fn take_touched(&mut self, into: &mut Vec<PeerId>) {
        self.outbox.take_touched(into);
    }

    fn wake(&mut self, now: Time) {
        self.outbox.wake(now);
    }

    fn next_wake(&self) -> Option<Time> {
        self.outbox.next_wake()
    }

    fn pending_to(&self, peer: PeerId) -> usize {
        self.outbox.pending_to(peer)
    }

    fn pending_on(&self, peer: PeerId, lane: Lane) -> usize {
        self.outbox.pending_on(peer, lane)
    }

    fn pop(&mut self, now: Time, room: &dyn Fn(PeerId) -> Room) -> Option<Outgoing<N::Frame>> {
        self.next(|outbox| outbox.pop(now, room))
    }

    fn pop_urgent(&mut self, now: Time, room: &dyn Fn(PeerId) -> Room) -> Option<Outgoing<N::Frame>> {
        self.next(|outbox| outbox.pop_urgent(now, room))
    }

    fn pop_for(&mut self, now: Time, peer: PeerId) -> Option<Outgoing<N::Frame>> {
        self.next(|outbox| outbox.pop_for(now, peer))
    }

    fn pop_urgent_for(&mut self, now: Time, peer: PeerId) -> Option<Outgoing<N::Frame>> {
        self.next(|outbox| outbox.pop_urgent_for(now, peer))
    }

    fn pop_lanes_for(&mut self, now: Time, peer: PeerId, lanes: &[Lane]) -> Option<Outgoing<N::Frame>> {
        self.next(|outbox| outbox.pop_lanes_for(now, peer, lanes))
    }
}
