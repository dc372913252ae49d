//! The contract between engines and drivers: names, frames, inputs, effects, and the trait that
//! every protocol engine implements.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use crate::{NodeRng, Outbox, Time};

/// An event that a driver passes to the engine of a node.
#[derive(Clone, Debug)]
pub enum Input<F, C> {
    /// The node starts. Arrives exactly once, before any other input.
    Start,
    /// A link is up and accepts frames. The driver has already called [`Outbox::link_up`].
    ///
    /// A node has at most one link to an identity. If a peer comes back on a new connection while this
    /// node still holds the old one, [`Input::LinkDown`] of the old link comes first.
    LinkUp {
        /// The handle of the peer from now on.
        peer: PeerId,
        /// The driver's information about the peer when the link comes up.
        info: PeerInfo,
    },
    /// A link is down. The driver has already called [`Outbox::link_down`]: the copies owed to the
    /// peer count as withdrawn.
    LinkDown {
        /// The handle of the peer, which is no longer valid.
        peer: PeerId,
    },
    /// A link that the engine requested did not come up.
    DialFailed {
        /// The identity that the engine dialled.
        identity: PeerIdentity,
    },
    /// A frame arrived, complete and in order.
    Frame {
        /// The peer at the other end of the link.
        peer: PeerId,
        /// The frame, decoded within the limits of its format.
        frame: F,
    },
    /// A timer that the engine set has fired.
    Timer(TimerToken),
    /// The application sent a command.
    Command(C),
}

/// A protocol as a state machine without input or output.
///
/// # The order of calls
///
/// A driver
/// 1. calls [`handle`](Engine::handle) with [`Input::Start`];
/// 2. then calls `handle` with each input and the current time; times never decrease;
/// 3. after each call, or after all calls with the same time, takes the effects out of the
///    [`Context`]: starts the requested timers and links, passes events on, and offers room to the
///    [`Outbox`], starting with the links in [`Outbox::take_touched`];
/// 4. whenever a link gets room again, pops copies from the outbox until there is no room or no
///    copy, and checks again no later than at [`Outbox::next_wake`].
///
/// `handle` must depend only on its arguments and the engine's own state. It must never iterate
/// over a map with unspecified order where that order could show in its effects.
pub trait Engine: Send + 'static {
    /// The unit that links carry in both directions.
    type Frame: Frame;
    /// Requests of the application, which arrive as [`Input::Command`].
    type Command: Send;
    /// Messages and reports for the application.
    type Event: Send;

    /// Handles one input and leaves the effects in `cx`.
    fn handle(
        &mut self,
        input: Input<Self::Frame, Self::Command>,
        cx: &mut Context<'_, Self::Frame, Self::Event>,
    );

    /// Checks what holds between two inputs, for instance that tables keep their limits. Drivers of
    /// tests and `samara torture` call it after each input, and nothing else does.
    ///
    /// # Panics
    /// If an invariant does not hold.
    fn assert_invariants(&self, _outbox: &Outbox<Self::Frame>) {}
}

/// A timer that an engine requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerRequest {
    /// The time at which the timer fires.
    pub at: Time,
    /// The token that [`Input::Timer`] carries back to the engine.
    pub token: TimerToken,
}

/// A link that an engine wants opened or closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkRequest {
    /// Dial this node. [`Input::LinkUp`] or [`Input::DialFailed`] answers. Dialling a connected
    /// peer does nothing.
    Dial(PeerIdentity),
    /// Close the link to this peer; [`Input::LinkDown`] follows.
    Close(PeerId),
}

/// The effects of handled inputs that are not in the outbox, in the order of the engine's requests.
/// The driver drains the vectors.
#[derive(Debug)]
pub struct Effects<E> {
    /// Events for the application.
    pub events: Vec<E>,
    /// Timers to start. A timer cannot be stopped: an engine ignores a timer that it no longer
    /// needs.
    pub timers: Vec<TimerRequest>,
    /// Links to open and to close.
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
    /// Creates the context for one call. Drivers use this.
    pub fn new(
        now: Time,
        rng: &'a mut NodeRng,
        outbox: &'a mut Outbox<F>,
        effects: &'a mut Effects<E>,
    ) -> Self {
        let Effects { events, timers, links } = effects;
        Self { now, rng, outbox, timers, links, events }
    }

    /// Returns the current time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the node's own random numbers.
    pub fn rng(&mut self) -> &mut NodeRng {
        self.rng
    }

    /// Returns the outbox: the copies that this node owes to its peers.
    pub fn outbox(&mut self) -> &mut Outbox<F> {
        self.outbox
    }

    /// Returns the outbox and the random numbers, for calls that need both.
    pub fn outbox_and_rng(&mut self) -> (&mut Outbox<F>, &mut NodeRng) {
        (self.outbox, self.rng)
    }

    /// Requests [`Input::Timer`] with this token at this time, or at once if the time is past.
    pub fn set_timer(&mut self, at: Time, token: TimerToken) {
        self.timers.push(TimerRequest { at, token });
    }

    /// Emits an event to the application.
    pub fn emit(&mut self, event: E) {
        self.events.push(event);
    }

    /// Requests a link to this node.
    pub fn dial(&mut self, identity: PeerIdentity) {
        self.links.push(LinkRequest::Dial(identity));
    }

    /// Requests that the link to this peer be closed.
    pub fn close(&mut self, peer: PeerId) {
        self.links.push(LinkRequest::Close(peer));
    }

    /// Returns the same context for an engine inside this one. Its events go to `events`;
    /// everything else is shared.
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

/// A unit that one engine sends to another over a link.
///
/// The simulator moves frames as typed values and never encodes them; only real sockets do. Cloning
/// must be cheap (an `Arc` inside): a frame that is owed to eight peers is one value.
pub trait Frame: Clone + Send + Sync + 'static {
    /// Returns the length of the encoded frame in bytes, with its own length prefix but without the
    /// overhead of the transport. Must equal the length of the real encoding; every engine tests
    /// that.
    fn encoded_len(&self) -> usize;

    /// Returns the number of these bytes that are application payload; the rest is control traffic.
    fn payload_len(&self) -> usize;

    /// Returns this frame as a hostile peer could send it: encoded, changed by
    /// [`alter`](crate::alter), and decoded within the limits of a receiver. `None` if the receiver
    /// cannot decode it, and always for frames without an encoding.
    fn altered(&self, _rng: &mut NodeRng) -> Option<Self> {
        None
    }
}

// ---- names ----

/// The local handle of a peer: a small dense number that the driver assigns.
///
/// The same remote identity keeps the same number at one node, even if it disconnects and returns,
/// so that engines can key scores and backoffs by it and index arrays with it. A driver assigns a
/// number to another identity only after the engine has forgotten the first one. The numbers of
/// different nodes are unrelated.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u32);

impl PeerId {
    /// Returns the number as an array index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "peer{}", self.0)
    }
}

/// The outbox's handle of a message: a number that the engine assigns, unique at this node.
///
/// Engines intern the message ids of their wire format, so that the outbox need not know them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageKey(pub u64);

impl fmt::Debug for MessageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message{}", self.0)
    }
}

/// The token of a timer, which comes back in [`Input::Timer`].
///
/// Engines use the low 56 bits. The high 8 bits belong to the wrapper of an engine, for example an
/// application around it, so that both can share one timer service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerToken(pub u64);

impl TimerToken {
    /// The first token that belongs to the wrapper of an engine.
    pub const WRAPPER: u64 = 1 << 56;
}

/// The global name of a node, for example the bytes of a libp2p peer id. Cheap to clone.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize))]
pub struct PeerIdentity(#[cfg_attr(feature = "config", serde(with = "crate::octets"))] Arc<[u8]>);

impl PeerIdentity {
    /// Creates an identity from its bytes.
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// Returns the identity as sent on the wire.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Printable ASCII as it is, for example an address; other identities in hexadecimal.
impl fmt::Display for PeerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::str::from_utf8(&self.0) {
            Ok(text) if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()) => {
                f.write_str(text)
            }
            _ => self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
        }
    }
}

impl fmt::Debug for PeerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The name of a topic. Cheap to clone.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize))]
pub struct Topic(Arc<str>);

impl Topic {
    /// Creates a topic with this name.
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// Returns the name of the topic.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares two topics, without reading the letters if both are clones of one topic.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Information about a peer when its link comes up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerInfo {
    /// The identity of the peer.
    pub identity: PeerIdentity,
    /// True if this node dialled, false if the peer dialled.
    pub outbound: bool,
    /// The address at which this node sees the peer, if the driver knows it. Peers that share an
    /// address can be sybils.
    pub address: Option<IpAddr>,
    /// The protocol that both sides agreed on, for example `/meshsub/1.2.0`. Empty if there is
    /// nothing to negotiate.
    pub protocol: Arc<str>,
}
