//! How messages spread if a node does not push every message to its whole mesh.

use std::time::Duration;

#[cfg(feature = "config")]
use samara_engine::settings::Form;
use samara_engine::settings::above;
#[cfg(feature = "config")]
use samara_engine::units::Span;

samara_engine::settings! {
    /// Settings of pushes, announcements and requests. Without them a node pushes every message to its
    /// whole mesh, announces messages at heartbeats, and asks every peer that announces one
    /// (specification v1.0).
    ///
    /// The default is what spread a payload in pieces fastest, at few copies, in the experiments of
    /// `docs/guides/payloads.md`. It needs one order over all links
    /// ([`Dispatch::Node`](samara_engine::outbox::Dispatch::Node)), and a driver that sets
    /// [round trips](samara_engine::Outbox::set_round_trip).
    #[derive(Clone, Debug, PartialEq)]
    pub struct Spread {
        /// Number of mesh peers to which a node pushes a message. It announces the message to others.
        /// Default: 2.
        pub push_copies: usize => push_copies,
        /// Whether peers that have the message, by their IDONTWANT, count among `push_copies`: those of
        /// the mesh, or all if the nearest get announcements. Default: true.
        pub count_holders: bool => count_holders,
        /// Whether the publisher pushes to any subscriber, the one with the fewest copies of the batch
        /// first, instead of to its mesh. It then announces nothing before the second heartbeat after a
        /// publication: peers would request from it, which has the most to send, what others have soon.
        /// Default: true.
        pub publish_to_all: bool => publish_to_all,
        /// Number of subscribers, those with the shortest round trips, to which a node announces a message
        /// that they do not get; 0 announces it to the mesh. Default: 8.
        pub announce: Announce => announce_nearest as usize,
        /// Time for which announcements to a peer wait for others; with 0, each leaves in a frame of its
        /// own. Default: "1 ms".
        pub announce_delay: Duration => announce_delay as Span,
        /// The announcers that a node asks for a message. Default: one at a time.
        pub ask: AskedAnnouncers => ask,
        /// How it asks them one at a time.
        pub pull: Pull => [pull],
    }
}

/// The peers that learn of a message that a node does not push to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announce {
    /// Those of the mesh.
    Mesh,
    /// So many subscribers with the shortest round trips. A request to them takes the least time.
    Nearest(usize),
}

/// The announcers that a node asks for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "config", serde(rename_all = "kebab-case"))]
pub enum AskedAnnouncers {
    /// One at a time, and another one after a while.
    #[default]
    One,
    /// Everyone, until the message arrives (specification v1.0).
    All,
}

samara_engine::settings! {
    /// One request for a message at a time.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Pull {
        /// Time after a request until another announcer may be asked. Default: "150 ms".
        // A request without a time would be repeated at once, for ever.
        #[range(above(Duration::ZERO))]
        pub retry: Duration => retry as Span,
        /// Whether the round trip of the link is added to this time: 1 s while the driver does not know it.
        /// Default: true.
        pub add_round_trip: bool => add_round_trip,
        /// Number of announcers that are remembered for a message, to be asked when the time is over. With
        /// 0, only later announcements cause another request. Default: 16.
        pub offers_max: usize => offers,
        /// Time after a request by which the message must have arrived from any peer, at least that of a
        /// retry. Otherwise the asked peer is parked for `park_for`: it is only asked for what nobody else
        /// offers, and not before this time after the offer. Default: "400 ms".
        pub promise: Duration => promise as Span,
        /// Time for which a peer is parked; 0 parks nobody. Default: "30 s".
        pub park_for: Duration => park_for as Span,
        /// With at most so many pieces of a payload missing, `hedge_copies` announcers are asked at once.
        /// Default: 0.
        pub hedge_missing: u32 => hedge_missing,
        /// Number of announcers asked then. Default: 1.
        #[range(1..)]
        pub hedge_copies: usize => hedge_copies,
    }
}

impl Spread {
    /// Returns how a node asks one announcer at a time; `None` if it asks all of them.
    pub fn pull(&self) -> Option<&Pull> {
        (self.ask == AskedAnnouncers::One).then_some(&self.pull)
    }
}

#[cfg(feature = "config")]
impl Form<Announce> for usize {
    fn put(self, announce: &mut Announce) {
        *announce = if self == 0 { Announce::Mesh } else { Announce::Nearest(self) };
    }

    fn of(announce: &Announce) -> Self {
        match announce {
            Announce::Mesh => 0,
            Announce::Nearest(count) => *count,
        }
    }
}

impl Pull {
    /// Maximum number of offers remembered for a peer.
    pub const OFFERS_PER_PEER_MAX: u32 = 256;
    /// Time after which an offer is forgotten.
    pub const OFFER_TTL: Duration = Duration::from_secs(30);
}

impl Default for Spread {
    fn default() -> Self {
        Self {
            push_copies: 2,
            count_holders: true,
            publish_to_all: true,
            announce: Announce::Nearest(8),
            announce_delay: Duration::from_millis(1),
            ask: AskedAnnouncers::One,
            pull: Pull::default(),
        }
    }
}

impl Default for Pull {
    fn default() -> Self {
        Self {
            retry: Duration::from_millis(150),
            add_round_trip: true,
            offers_max: 16,
            promise: Duration::from_millis(400),
            park_for: Duration::from_secs(30),
            hedge_missing: 0,
            hedge_copies: 1,
        }
    }
}
