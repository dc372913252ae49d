//! What an engine can do while it handles an input.

use crate::{NodeRng, Outbox, PeerId, PeerIdentity, Time, TimerToken};

/// A timer that an engine asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerRequest {
    /// When it fires.
    pub at: Time,
    /// What comes back.
    pub token: TimerToken,
}

/// A link that an engine wants opened or closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkRequest {
    /// Dial this node; [`Input::LinkUp`](crate::Input::LinkUp) or
    /// [`Input::DialFailed`](crate::Input::DialFailed) answers. Dialling a connected peer does nothing.
    Dial(PeerIdentity),
    /// Close the link to this peer; [`Input::LinkDown`](crate::Input::LinkDown) follows.
    Close(PeerId),
}

/// The effects of handled inputs that are not in the outbox, in the order in which they were asked for. The driver
/// drains the vectors.
#[derive(Debug)]
pub struct Effects<E> {
    /// What the application is told.
    pub events: Vec<E>,
    /// Timers to start. A timer cannot be stopped: an engine ignores those that it no longer needs.
    pub timers: Vec<TimerRequest>,
    /// Links to open and close.
    pub links: Vec<LinkRequest>,
}

impl<E> Default for Effects<E> {
    fn default() -> Self {
        Self { events: Vec::new(), timers: Vec::new(), links: Vec::new() }
    }
}

/// The world as an engine sees it during one call of [`Engine::handle`](crate::Engine::handle).
#[derive(Debug)]
pub struct Context<'a, F, E> {
    now: Time,
    rng: &'a mut NodeRng,
    outbox: &'a mut Outbox<F>,
    timers: &'a mut Vec<TimerRequest>,
    links: &'a mut Vec<LinkRequest>,
    events: &'a mut Vec<E>,
}

impl<'a, F, E> Context<'a, F, E> {
    /// The context for one call, made by a driver.
    pub fn new(
        now: Time,
        rng: &'a mut NodeRng,
        outbox: &'a mut Outbox<F>,
        effects: &'a mut Effects<E>,
    ) -> Self {
        let Effects { events, timers, links } = effects;
        Self { now, rng, outbox, timers, links, events }
    }

    /// The current time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The node's own random numbers.
    pub fn rng(&mut self) -> &mut NodeRng {
        self.rng
    }

    /// What this node owes to its peers.
    pub fn outbox(&mut self) -> &mut Outbox<F> {
        self.outbox
    }

    /// The outbox and the random numbers, for calls that need both.
    pub fn outbox_and_rng(&mut self) -> (&mut Outbox<F>, &mut NodeRng) {
        (self.outbox, self.rng)
    }

    /// Asks for [`Input::Timer`](crate::Input::Timer) with this token at this time (at once, if it is past).
    pub fn set_timer(&mut self, at: Time, token: TimerToken) {
        self.timers.push(TimerRequest { at, token });
    }

    /// Tells the application something.
    pub fn emit(&mut self, event: E) {
        self.events.push(event);
    }

    /// Asks for a link to this node.
    pub fn dial(&mut self, identity: PeerIdentity) {
        self.links.push(LinkRequest::Dial(identity));
    }

    /// Asks for the link to this peer to be closed.
    pub fn close(&mut self, peer: PeerId) {
        self.links.push(LinkRequest::Close(peer));
    }

    /// The same context for an engine inside this one: its events go to `events` instead, everything else is shared.
    pub fn nested<'b, E2>(&'b mut self, events: &'b mut Vec<E2>) -> Context<'b, F, E2> {
        Context {
            now: self.now,
            rng: self.rng,
            outbox: self.outbox,
            timers: self.timers,
            links: self.links,
            events,
        }
    }
}
