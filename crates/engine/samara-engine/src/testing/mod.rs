//! Drivers for tests in virtual time: [`Single`] runs one engine whose peers the test plays,
//! [`Network`] runs many.
//!
//! Both keep the order of calls that [`Engine`] documents, and both are deterministic: the seed
//! defines a run. A [`Network`] delivers frames complete and in order, over links that take time,
//! break, and come back. It models no transport; the simulator (`samara-sim`) does.

mod network;

use std::collections::BTreeMap;
use std::time::Duration;

pub use network::{Crash, Network, Path, Uniform, World};

use crate::outbox::Outgoing;
use crate::{
    Context, Effects, Engine, Input, LinkRequest, NodeRng, Outbox, PeerId, PeerIdentity, PeerInfo, Purpose,
    Time, TimerToken,
};

/// The context type of an engine.
pub type ContextOf<'a, E> = Context<'a, <E as Engine>::Frame, <E as Engine>::Event>;

/// Returns the identity of a host: its number, as four big-endian bytes.
pub fn identity_of(host: u32) -> PeerIdentity {
    PeerIdentity::new(&host.to_be_bytes())
}

/// Returns the host with this identity.
///
/// # Panics
/// If the identity is not from [`identity_of`].
pub fn host_of(identity: &PeerIdentity) -> u32 {
    u32::from_be_bytes(identity.as_bytes().try_into().expect("four bytes"))
}

/// One engine with its outbox. The test plays its peers and its application, and moves its clock.
pub struct Single<E: Engine> {
    /// The engine under test.
    pub engine: E,
    /// The copies that the engine owes to its peers.
    pub outbox: Outbox<E::Frame>,
    /// The current time.
    pub now: Time,
    /// Events for the application that the test has not taken yet.
    pub events: Vec<E::Event>,
    /// Links that the engine requested and the test has not taken yet.
    pub links: Vec<LinkRequest>,
    rng: NodeRng,
    timers: BTreeMap<(Time, u64), TimerToken>,
    timers_set: u64,
}

impl<E: Engine> Single<E> {
    /// Creates a node that has not handled [`Input::Start`].
    pub fn new(engine: E, outbox: Outbox<E::Frame>, seed: u64) -> Self {
        Self {
            engine,
            outbox,
            now: Time::ZERO,
            events: Vec::new(),
            links: Vec::new(),
            rng: NodeRng::new(seed, 0, Purpose::Engine),
            timers: BTreeMap::new(),
            timers_set: 0,
        }
    }

    /// Creates a node that has handled [`Input::Start`].
    pub fn start(engine: E, outbox: Outbox<E::Frame>, seed: u64) -> Self {
        let mut node = Self::new(engine, outbox, seed);
        node.handle(Input::Start);
        node
    }

    /// Passes an input to the engine.
    pub fn handle(&mut self, input: Input<E::Frame, E::Command>) {
        self.with(|engine, cx| engine.handle(input, cx));
    }

    /// Calls a method of the engine that needs a context.
    pub fn with<R>(&mut self, call: impl FnOnce(&mut E, &mut ContextOf<'_, E>) -> R) -> R {
        let mut effects = Effects {
            events: std::mem::take(&mut self.events),
            timers: Vec::new(),
            links: std::mem::take(&mut self.links),
        };
        let mut cx = Context::new(self.now, &mut self.rng, &mut self.outbox, &mut effects);
        let result = call(&mut self.engine, &mut cx);
        self.engine.assert_invariants(&self.outbox);
        (self.events, self.links) = (effects.events, effects.links);
        for timer in effects.timers {
            self.timers_set += 1;
            self.timers.insert((timer.at.max(self.now), self.timers_set), timer.token);
        }
        result
    }

    /// Advances the clock by `span` and fires the timers.
    pub fn advance(&mut self, span: Duration) {
        let until = self.now + span;
        while let Some(entry) = self.timers.first_entry().filter(|entry| entry.key().0 <= until) {
            let ((at, _), token) = entry.remove_entry();
            self.now = at;
            self.handle(Input::Timer(token));
        }
        self.now = until;
    }

    /// Returns the number of timers that have not fired.
    pub fn timers(&self) -> usize {
        self.timers.len()
    }

    /// Brings a link up.
    pub fn connect(&mut self, peer: PeerId, identity: PeerIdentity, protocol: &str, outbound: bool) {
        self.outbox.link_up(peer);
        let info = PeerInfo { identity, outbound, address: None, protocol: protocol.into() };
        self.handle(Input::LinkUp { peer, info });
    }

    /// Takes a link down.
    pub fn disconnect(&mut self, peer: PeerId) {
        self.outbox.link_down(peer);
        self.handle(Input::LinkDown { peer });
    }

    /// Delivers a frame from a peer.
    pub fn frame(&mut self, peer: PeerId, frame: E::Frame) {
        self.handle(Input::Frame { peer, frame });
    }

    /// Delivers a command of the application.
    pub fn command(&mut self, command: E::Command) {
        self.handle(Input::Command(command));
    }

    /// Pops the next copy over all links.
    pub fn pop(&mut self) -> Option<Outgoing<E::Frame>> {
        self.outbox.pop(self.now, |_| true)
    }

    /// Pops all frames that the node owes to a peer, in their order.
    pub fn take(&mut self, peer: PeerId) -> Vec<E::Frame> {
        std::iter::from_fn(|| self.outbox.pop_for(self.now, peer)).map(|copy| copy.frame).collect()
    }
}

/// Lets the wrapper of a test be used as the driver in one of its fields.
///
/// ```
/// struct Net(Vec<u8>);
///
/// samara_engine::deref_to!(Net => 0: Vec<u8>);
///
/// assert_eq!(Net(vec![7]).len(), 1);
/// ```
#[macro_export]
macro_rules! deref_to {
    ($wrapper:ty => $field:tt: $inner:ty) => {
        impl std::ops::Deref for $wrapper {
            type Target = $inner;

            fn deref(&self) -> &$inner {
                &self.$field
            }
        }

        impl std::ops::DerefMut for $wrapper {
            fn deref_mut(&mut self) -> &mut $inner {
                &mut self.$field
            }
        }
    };
}
