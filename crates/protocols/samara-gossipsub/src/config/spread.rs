//! How messages spread if a node does not push every message to its whole mesh.

use std::time::Duration;

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
    pub push_copies: usize,
    /// Whether peers that have the message, by their IDONTWANT, count among `push_copies`: those of
    /// the mesh, or all if `announce` is [`Announce::Nearest`].
    pub count_holders: bool,
    /// Whether the publisher pushes to any subscriber, the one with the fewest copies of the batch
    /// first, instead of to its mesh. It then announces nothing before the second heartbeat after a
    /// publication: peers would request from it, which has the most to send, what others have soon.
    pub publish_to_all: bool,
    /// The peers that learn of a message that they do not get.
    pub announce: Announce,
    /// Time for which announcements to a peer wait for others. Zero announces each message at once, in
    /// a frame of its own.
    pub announce_delay: Duration,
    /// How a node asks for announced messages; `None` asks every peer that announces one.
    pub pull: Option<Pull>,
}

/// The peers that learn of a message that a node does not push to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announce {
    /// Those of the mesh.
    Mesh,
    /// So many subscribers with the shortest round trips. A request to them takes the least time.
    Nearest(usize),
}

/// One request for a message at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Pull {
    /// Time after a request until another announcer may be asked.
    pub retry: Duration,
    /// Whether the round trip of the link is added to this time: 1 s while the driver does not know it.
    pub add_round_trip: bool,
    /// Number of announcers that are remembered for a message, to be asked when the time is over. With
    /// 0 only later announcements cause another request.
    pub offers_max: usize,
    /// Time after a request by which the message must have arrived from any peer, at least that of a
    /// retry. Otherwise the asked peer is parked for `park_for`: it is only asked for what nobody else
    /// offers, and not before this time after the offer.
    pub promise: Duration,
    /// Zero parks nobody.
    pub park_for: Duration,
    /// With at most so many pieces of a payload missing, several announcers are asked at once.
    pub hedge_missing: u32,
    /// Number of announcers asked then.
    pub hedge_copies: usize,
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
            pull: Some(Pull::default()),
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
