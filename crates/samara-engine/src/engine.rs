//! Inputs, and the trait that every protocol engine implements.

use crate::{Context, Frame, PeerId, PeerIdentity, PeerInfo, TimerToken};

/// One thing that happened to a node.
#[derive(Clone, Debug)]
pub enum Input<F, C> {
    /// The node starts. Comes exactly once, before everything else.
    Start,
    /// A link is up and takes frames. The driver has already called [`Outbox::link_up`](crate::Outbox::link_up).
    LinkUp {
        /// The handle of the peer from now on.
        peer: PeerId,
        /// What is known of it.
        info: PeerInfo,
    },
    /// A link is gone. The driver has already called [`Outbox::link_down`](crate::Outbox::link_down): what was owed to
    /// the peer is counted as withdrawn.
    LinkDown {
        /// Whose.
        peer: PeerId,
    },
    /// A link that the engine asked for did not come up.
    DialFailed {
        /// Whom it had asked for.
        identity: PeerIdentity,
    },
    /// A frame arrived, whole and in order.
    Frame {
        /// From whom.
        peer: PeerId,
        /// The frame.
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
///    timers and links asked for, passes events on, and offers room to the [`Outbox`](crate::Outbox), first of all to
///    the links in [`Outbox::take_touched`](crate::Outbox::take_touched);
/// 4. whenever a link gets room again, pops the next copy from the outbox, until there is no room or no copy; and looks
///    again no later than at [`Outbox::next_wake`](crate::Outbox::next_wake).
///
/// `handle` must not depend on anything but its arguments and the engine's own state, and must never iterate over a map
/// with unspecified order where that could show in its effects.
pub trait Engine: Send {
    /// What it sends and receives.
    type Frame: Frame;
    /// What the application can ask for.
    type Command: Send;
    /// What it tells the application.
    type Event: Send;

    /// Takes one input and leaves the effects in `cx`.
    fn handle(
        &mut self,
        input: Input<Self::Frame, Self::Command>,
        cx: &mut Context<'_, Self::Frame, Self::Event>,
    );
}
