//! The contract: names, frames, inputs, what an engine can do with them, and the trait that every protocol engine implements.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use crate::{NodeRng, Outbox, Time};

/// One thing that happened to a node.
#[derive(Clone, Debug)]
pub enum Input<F, C> {
    /// The node starts. Comes exactly once, before everything else.
    Start,
    /// A link is up and takes frames. The driver has already called [`Outbox::link_up`].
    LinkUp {
        /// The handle of the peer from now on.
        peer: PeerId,
        /// What the driver knows of the peer when the link comes up.
        info: PeerInfo,
    },
    /// A link is gone. The driver has already called [`Outbox::link_down`]: what was owed to
    /// the peer is counted as withdrawn.
    LinkDown {
        /// The handle, which is not valid any more.
        peer: PeerId,
    },
    /// A link that the engine asked for did not come up.
    DialFailed {
        /// The identity that the engine gave to dial.
        identity: PeerIdentity,
    },
    /// A frame arrived, whole and in order.
    Frame {
        /// The peer at the other end of the link.
        peer: PeerId,
        /// The frame, decoded within the limits of its format.
        frame: F,
    },
    /// A timer that the engine set has fired.
    Timer(TimerToken),
    /// The application wants something.
    Command(C),
}

/// A protocol, free of input and output.
///
/// # The order of calls
///
/// A driver
/// 1. calls [`handle`](Engine::handle) with [`Input::Start`];
/// 2. then, whenever something happens, calls `handle` with it and the current time; times never decrease;
/// 3. after each call (or after all calls with the same time) takes the effects out of the [`Context`]: starts the
///    timers and links asked for, passes events on, and offers room to the [`Outbox`], first of all to
///    the links in [`Outbox::take_touched`];
/// 4. whenever a link gets room again, pops the next copy from the outbox, until there is no room or no copy; and looks
///    again no later than at [`Outbox::next_wake`].
///
/// `handle` must not depend on anything but its arguments and the engine's own state, and must never iterate over a map
/// with unspecified order where that could show in its effects.
pub trait Engine: Send + 'static {
    /// The unit that links carry, in both directions.
    type Frame: Frame;
    /// Requests of the application, which come as [`Input::Command`].
    type Command: Send;
    /// Messages and reports for the application.
    type Event: Send;

    /// Takes one input and leaves the effects in `cx`.
    fn handle(
        &mut self,
        input: Input<Self::Frame, Self::Command>,
        cx: &mut Context<'_, Self::Frame, Self::Event>,
    );
}

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
    /// Dial this node; [`Input::LinkUp`] or
    /// [`Input::DialFailed`] answers. Dialling a connected peer does nothing.
    Dial(PeerIdentity),
    /// Close the link to this peer; [`Input::LinkDown`] follows.
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

/// The world as an engine sees it during one call of [`Engine::handle`].
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

    /// Asks for [`Input::Timer`] with this token at this time (at once, if it is past).
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

/// A unit that one engine hands to another over a link.
///
/// The simulator moves frames as typed values and never encodes them; only real sockets do. Cloning must be cheap (an
/// `Arc` inside): a frame that is owed to eight peers is one value.
pub trait Frame: Clone + Send + Sync + 'static {
    /// Bytes of the encoded frame, with its own length prefix but without whatever the transport adds. Must equal the
    /// length of the real encoding; every engine tests that.
    fn encoded_len(&self) -> usize;

    /// How many of these bytes are application payload; the rest is control traffic.
    fn payload_len(&self) -> usize;
}

// ---- names ----

/// A peer as its neighbour's engine names it: a small dense number that the driver gives out.
///
/// The same remote identity gets the same number at one node, also when it disconnects and comes back, so that engines can
/// keep scores and backoffs by it and index arrays with it. A driver gives a number to another identity only after it had the
/// engine forget the first one. Numbers of different nodes have nothing to do with each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u32);

impl PeerId {
    /// The number as an array index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "peer{}", self.0)
    }
}

/// A message as its owner's outbox names it: a number that the engine gives out, unique at this node.
///
/// Engines intern the message ids of their wire format, so that the outbox need not know them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageKey(pub u64);

impl fmt::Debug for MessageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message{}", self.0)
    }
}

/// What an engine wants to be reminded of; it comes back in [`Input::Timer`].
///
/// Engines use the low 56 bits. The high 8 bits belong to whatever wraps an engine (an application around it), so that
/// both can share one timer service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerToken(pub u64);

impl TimerToken {
    /// Tokens from here on belong to what wraps an engine.
    pub const WRAPPER: u64 = 1 << 56;
}

/// The name of a node as others know it, for example the bytes of a libp2p peer id. Cheap to clone.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerIdentity(Arc<[u8]>);

impl PeerIdentity {
    /// An identity from its bytes.
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// The identity as it is sent on the wire.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for PeerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The name of a topic. Cheap to clone.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Topic(Arc<str>);

impl Topic {
    /// A topic with this name.
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Equality that does not look at the letters where both are clones of one.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl fmt::Debug for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is known of a peer when its link comes up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerInfo {
    /// Its name.
    pub identity: PeerIdentity,
    /// Whether this node dialled (`true`) or was dialled (`false`).
    pub outbound: bool,
    /// The address that the peer is seen under, where the driver knows one (peers that share one can be sybils).
    pub address: Option<IpAddr>,
    /// The protocol that both sides agreed on, for example `/meshsub/1.2.0`; empty where there is nothing to agree on.
    pub protocol: Arc<str>,
}
