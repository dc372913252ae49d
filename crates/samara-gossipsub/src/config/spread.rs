//! How messages spread if a node does not push every message to its whole mesh.

use std::time::Duration;

/// Settings of pushes, announcements and requests. Without them a node pushes every message to its
/// whole mesh, announces messages at heartbeats, and asks every peer that announces one
/// (specification v1.0).
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    /// Number of mesh peers to which a node pushes a message. It announces the message to the others.
    pub push_copies: usize,
    /// The same number while the node owes no other copy of a message: an idle uplink costs nobody
    /// time.
    pub push_copies_idle: usize,
    /// Number of peers to which the publisher pushes a message.
    pub publish_copies: usize,
    /// Whether mesh peers that have sent IDONTWANT for the message count among these.
    pub count_holders: bool,
    /// Whether the publisher pushes to any subscriber, the one with the fewest copies of the batch
    /// first, instead of to its mesh.
    pub publish_to_all: bool,
    /// Whether the publisher announces nothing before the first heartbeat after a publication: peers
    /// would request from it, which has the most to send, what others have soon.
    pub quiet_publisher: bool,
    /// Number of peers to which a node announces a message: its mesh, and others that have joined the
    /// topic.
    pub announce_to: usize,
    /// Whether these are the peers with the shortest round trips.
    pub announce_near: bool,
    /// Whether pushes go to the peers with the shortest round trips.
    pub push_near: bool,
    /// Time for which announcements to a peer wait for others. Zero announces each message at once, in
    /// a frame of its own.
    pub announce_delay: Duration,
    /// How a node asks for announced messages; `None` asks every peer that announces one.
    pub pull: Option<Pull>,
}

/// One request for a message at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Pull {
    /// Time after a request until another announcer may be asked.
    pub retry: Duration,
    /// Whether this time is at least three times the mean time of the peer's responses.
    pub measured: bool,
    /// Number of announcers that are remembered for a message, to be asked when the time is over. With
    /// 0 only later announcements cause another request.
    pub offers_max: usize,
    /// Time after a request by which the message must have arrived from any peer. Otherwise the offers
    /// of the asked peer are ignored for `park_for`.
    pub promise: Duration,
    /// Zero ignores no offers.
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
            push_copies: usize::MAX,
            push_copies_idle: usize::MAX,
            publish_copies: usize::MAX,
            count_holders: true,
            publish_to_all: false,
            quiet_publisher: false,
            announce_to: 0,
            announce_near: false,
            push_near: false,
            announce_delay: Duration::ZERO,
            pull: None,
        }
    }
}

impl Default for Pull {
    fn default() -> Self {
        Self {
            retry: Duration::from_millis(200),
            measured: false,
            offers_max: 16,
            promise: Duration::from_millis(400),
            park_for: Duration::from_secs(30),
            hedge_missing: 0,
            hedge_copies: 1,
        }
    }
}
