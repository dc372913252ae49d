//! The configuration of a node. One engine serves all generations, which differ only in their
//! configuration.

#[cfg(feature = "config")]
mod parameters;
mod preset;

use std::ops::RangeInclusive;
use std::time::Duration;

use samara_engine::PeerIdentity;
pub use samara_engine::config::ConfigError;
use samara_engine::config::check;
use samara_engine::outbox::{Dispatch, Lane, LaneConfig, OutboxConfig};
use samara_engine::settings::{Ranges, above};
#[cfg(feature = "config")]
use samara_engine::units::{Size, Span};

use crate::pool::PoolConfig;
use crate::wire::KeyList;

#[cfg(feature = "config")]
pub use parameters::{FileConfig, Parameters, key_of};
pub use preset::Preset;

samara_engine::settings! {
    /// Configuration of a node. Start from a [`Preset`]; [`Config::default`] is [`Preset::Cat`].
    #[derive(Clone, Debug, PartialEq)]
    pub struct Config {
        /// The protocols that the node speaks, in order of preference. Two nodes agree on one when
        /// their link comes up ([`PeerInfo::protocol`](samara_engine::PeerInfo::protocol)). Without an
        /// agreement, it is the first of these.
        pub protocols: Vec<Protocol>,
        pub pool: PoolConfig => ..,

        /// The peers that get unrequested copies of transactions submitted to this node: "all",
        /// "nobody", or a number of peers.
        pub push: Recipients => push,
        /// The peers that get unrequested copies of other nodes' transactions. A number forms
        /// neighbourhoods.
        pub forward: Recipients => forward,
        /// Whether other nodes' transactions are forwarded to peers that know neither announcements nor
        /// requests.
        pub bridge: bool,
        /// Whether a queued body is withdrawn once the peer turns out to have it. A pool that looks up
        /// who has a transaction at the moment of sending does exactly that.
        pub withdraw: bool => withdraw,
        /// Whether the node accepts unrequested bodies. If not, it only records that the sender has the
        /// transaction.
        pub take_unrequested: bool => take_unrequested,

        /// The peers that get announcements of new transactions.
        pub announce: Announce => announce,
        pub sticky: Sticky => ..,
        /// Whether transactions submitted to this node are announced to peers that do not get them
        /// unrequested.
        pub announce_own: bool,
        /// Whether a duplicate is announced again, to peers not yet known to have it.
        pub announce_duplicates: bool,
        /// Whether a peer counts as having a transaction once this node has announced it to the peer.
        pub announced_is_seen: bool,
        /// Maximum wait for a push that an announcement predicts: announcements name the peer that
        /// pushed the transaction, and peers that expect the same push do not request it. 0 for no
        /// such hint.
        pub hint: Hint => hint as Span,
        /// Maximum random delay of an announcement, against simultaneous ones by all nodes; 0 for none.
        /// Nothing else is delayed.
        pub jitter: Jitter => jitter as Span,
        /// Time for which announcements are collected for one frame; 0 sends each at once, in a frame of
        /// its own.
        pub coalesce: Duration => coalesce as Span,
        /// Maximum size of transactions that are sent instead of announced, to peers that speak
        /// [`Protocol::Extended`]; 0 for none. By default, our pool does so if it takes fewer bytes. Only if
        /// announcements share frames (`coalesce`).
        pub inline: Inline => inline as Size,

        pub requests: Requests => ..,
        /// Whether a request for a missing transaction is answered, if the peer understands the answer.
        pub not_found: bool => not_found,

        /// Whether the whole pool is announced to a new peer. A flooding pool sends all of it.
        pub sync: bool => sync,
        /// Whether the node forgets a peer's keys when the peer disconnects. If not, it forgets them
        /// when the peer returns, as if it were a new peer.
        pub forget_on_disconnect: bool,
        /// Maximum number of blocks by which a peer may lag behind and still get bodies and
        /// announcements (`peerHeightDiff`). Heights are set by
        /// [`Command::PeerHeight`](crate::Command::PeerHeight); a peer of unknown height counts as up
        /// to date.
        pub height_lag_max: Option<u64>,
        /// Peers that the operator wants to stay connected to (`persistent_peers`).
        pub persistent: Vec<PeerIdentity>,

        /// Requests in the order of the senders' sequence numbers.
        pub sequences: Option<Sequences>,
        #[range(..)]
        pub bundles: Option<Bundles>,
        /// Proposed blocks, sent as lists of keys.
        #[range(..)]
        pub compact_blocks: Option<CompactBlocks>,

        /// Limits on the state and the work that peers can cause.
        pub limits: Limits => ..,
        /// Whether a peer that breaks the rules is disconnected. The violation is an event in any case.
        pub disconnect_misbehaving: bool => disconnect_misbehaving,

        /// Queues, and their assignment to the channels of a multiplexed connection.
        pub sending: Sending,

        /// Whether every duplicate is reported as an [`Event::Duplicate`](crate::Event::Duplicate).
        pub report_duplicates: bool,
        pub report_requests: bool,
    }
}

/// The peers that get a transaction unrequested. Peers known to have it never do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipients {
    Nobody,
    /// This many peers, always the same ones. Both ends of a link agree on the choice.
    Some(usize),
    All,
}

samara_engine::names! {
    /// The peers that learn of new transactions.
    #[cfg_attr(
        feature = "config",
        derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema),
        serde(rename_all = "kebab-case")
    )]
    pub enum Announce {
        /// No announcements are sent; bodies may still be pushed.
        Nobody = "nobody",
        /// All peers, including those known to have the transaction.
        All = "all",
        /// All peers not known to have the transaction.
        Unseen = "unseen",
        /// Some of these peers, the same ones for each signer (`selectStickyPeers` of
        /// celestia-core).
        Sticky = "sticky",
    }
}

samara_engine::settings! {
    /// Number of peers that [`Announce::Sticky`] chooses for a signer.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Sticky {
        /// Number of regular peers that get announcements, if these are sticky peers
        /// (`maxSeenTxBroadcast`).
        pub peers: usize => sticky_peers,
        /// Additional persistent peers (`MaxPersistentStickyPeers`).
        pub persistent: usize,
    }
}

/// Whether announcements name the peer that pushed the transaction unrequested. A receiver that is
/// also connected to that peer can expect the same push, and waits before it requests the
/// transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    None,
    /// `From`, an id of 40 hexadecimal digits (the experiment CAT2 of the ADR). Every announcement
    /// has its own wait, after which the node asks the sender of that announcement.
    From {
        /// The duration of the wait (`MaxGossipDelay`).
        wait: Duration,
    },
    /// Eight bytes, to peers that understand them. All announcements of a transaction share one
    /// wait.
    Short {
        /// The longest wait, and the wait for a peer of unknown response time. Otherwise the wait
        /// is the response time.
        wait_max: Duration,
    },
}

/// The transactions that are sent instead of announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inline {
    Never,
    /// Transactions of at most this many bytes.
    UpTo(usize),
    /// Transactions for which it takes fewer bytes, given the number of peers.
    /// `docs/protocols/cat.md` has the formula.
    WhereItWins,
}

/// The measure against simultaneous announcements by all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jitter {
    None,
    /// The announcement waits for a random time; nothing else does.
    Timer {
        max: Duration,
    },
    /// The receiver sleeps before it announces a transaction, and meanwhile processes nothing from
    /// its sender: `time.Sleep(rand.Intn(10)*10 ms)` in `Receive` of celestia-core.
    Sleep {
        /// The unit of sleep times.
        step: Duration,
        /// Number of different sleep times: 0 to `steps - 1` units.
        steps: u64,
    },
}

/// Requests in the order of sequence numbers (celestia-core since 2025).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequences {
    /// Whether the rules of 2026 hold: an announcement needs a signer that the application knows, an
    /// empty body is misbehaviour, and the announced sequence number decides on a body. Otherwise a
    /// transaction of an unknown signer is requested at once, and the application reads the
    /// sequence number of a body ([`Application::account`](crate::pool::Application::account)).
    pub strict: bool,
    /// Maximum number of consecutive transactions of a signer that are requested at the same time
    /// (one until `254c0b4f` of celestia-core).
    pub parallel_max: u64,
    /// Maximum distance from the expected sequence number at which bodies are kept
    /// (`maxReceivedBufferSize`); 0 if the application decides on bodies that arrive too early.
    pub ahead_max: u64,
    /// Maximum number of bodies from one peer that wait for earlier ones (`maxRequestsPerPeer` in
    /// `received_buffer.go`).
    pub buffered_per_peer_max: usize,
    /// Maximum size of these bodies in bytes.
    pub buffered_bytes_per_peer: usize,
    /// Maximum size in bytes of all bodies that wait for earlier ones, including those of peers that
    /// have left.
    pub buffered_bytes: usize,
    /// Maximum number of waiting announcements of one signer (`seenPerSignerLimit`).
    pub pending_per_signer_max: usize,
    /// The announcement that a signer with too many of them loses.
    pub overflow: Overflow,
    /// Whether a block makes the node look for transactions whose turn has come.
    pub resumed_by_blocks: bool,
    /// Maximum number of transactions of a signer that are announced to a peer of
    /// [`Protocol::Sequenced`] ahead of what it is known to have. A peer of 2025 remembers 64, and
    /// forgets the ones that it needs first.
    pub announced_max: usize,
}

/// The waiting announcement that a signer with too many of them loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// The one with the highest sequence number.
    Highest,
    /// The one that arrived first (`pending.go` of celestia-core v0.39).
    Oldest,
}

samara_engine::ranges! {
    /// Own transactions announced together under one key (ADR 009, "Ongoing work").
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Bundles {
        /// Time for which own transactions are collected. The ADR suggests some 100 ms.
        #[range(above(Duration::ZERO))]
        pub window: Duration,
        #[range(Bundles::TXS)]
        pub txs_max: usize,
        pub bytes_max: usize,
    }
}

impl Bundles {
    /// The number of transactions that a bundle can hold.
    pub const TXS: RangeInclusive<usize> = 2..=1_024;
}

samara_engine::ranges! {
    /// Proposed blocks, sent as lists of keys (ADR 009, "Neutral").
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CompactBlocks {
        /// Maximum number of blocks kept: the most recent ones.
        #[range(1..=KeyList::MAX)]
        pub kept: usize,
        /// Time for which a node waits for missing transactions before it gives up on a block.
        pub patience: Duration,
    }
}

samara_engine::settings! {
    /// Limits on the state and the work that peers can cause. Input beyond a limit is ignored and
    /// counted.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Limits {
        /// Maximum number of keys per peer recorded as present at the peer (`seenPerPeerLimit`).
        pub keys_per_peer: usize => keys_per_peer,
        /// Maximum number of keys per peer that the peer announced and this node lacks.
        pub unknown_per_peer: usize => unknown_per_peer,
        /// Total number of keys with any state in the protocol beyond which announcements from peers
        /// are ignored. Complete transactions are limited by the pool.
        #[range(1..)]
        pub keys: usize => keys,
        /// Time for which the node remembers who has a transaction that it lacks.
        pub seen_ttl: Duration,
        pub txs_per_frame: usize,
        /// Maximum size in bytes, for each peer, of the frames that wait while its receive loop sleeps.
        /// Counts bytes on the wire.
        pub waiting_bytes: usize,
        /// Number of times in a row that a peer gets a transaction it already has when it asks again.
        /// Each answer to a first request earns one more.
        pub repeated_answers: u32,
        /// Number of a peer's transactions that the application may reject before it counts as
        /// misbehaviour; 0 for no limit.
        pub invalid_bodies: u32,
    }
}

samara_engine::settings! {
    /// How transactions are requested. There is never more than one live request for a transaction.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Requests {
        /// The time to wait for an answer before asking another peer: a time, or "adaptive".
        pub timeout: Timeout => timeout,
        /// The time after that within which an answer still counts as one
        /// (`defaultGlobalRequestTimeout`).
        pub stale: Duration,
        /// Whether the node checks at a timeout if the transaction has arrived from elsewhere. No
        /// generation of celestia-core does: if answers take longer than the timeout, the same
        /// transaction arrives again and again until a block includes it.
        pub check_presence: bool => check_presence,
        /// Whether an answer after its timeout also ends the request to the next peer, although that
        /// request keeps waiting for its own timeout (`MarkReceived` until 2026).
        pub late_answer_ends: bool,
        /// Whether a peer that let a request time out no longer counts as having the transaction (since
        /// 2026).
        pub forget_unresponsive: bool,
        /// The peer to ask next.
        pub choice: Choice => choice,
        /// Maximum number of simultaneous requests to one peer, including those that timed out and are
        /// still remembered (`maxRequestsPerPeer`). Further requests wait, and leave as soon as an
        /// earlier one ends for any reason: an answer, a block, a copy from another peer.
        #[range(1..)]
        pub per_peer_max: usize => requests_per_peer,
        /// Demotion of peers that do not deliver the transactions they announce. `None`: the first
        /// announcer is always asked first.
        pub standing: Option<Standing>,
    }
}

/// Demotion of peers that do not deliver the transactions they announce.
///
/// If a peer lets more requests time out than it answers, or sends garbage, the node waits for
/// another peer to announce a transaction before it asks the first one. A peer that has not
/// answered anything yet gets requests for one frame of keys at a time. Transactions that no other
/// peer announces are requested all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Time for which the node waits for a better peer to announce the transaction.
    pub patience: Duration,
    /// Time after which a peer that does not deliver is tried again. The probe requests a
    /// transaction that the node already has, so nothing waits for it. The time doubles with each
    /// failed attempt, up to a factor of 64.
    pub probe: Duration,
}

/// The time to wait for an answer before asking another peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize, schemars::JsonSchema))]
#[cfg_attr(feature = "config", serde(into = "String"), schemars(with = "String"))]
pub enum Timeout {
    /// A constant time (`MaxGossipDelay`).
    Fixed(Duration),
    /// The observed response time of the peer, computed as the retransmission timeout of RFC 6298
    /// is. A response time runs from request to answer, and so includes all delays of both sides.
    /// While a peer answers earlier requests, later ones are not overdue.
    Adaptive {
        /// The timeout before the first measurement.
        initial: Duration,
        /// Minimum added to the smoothed response time; more if responses vary.
        slack: Duration,
        /// Maximum for a single request, whatever the peer answers meanwhile.
        max: Duration,
    },
}

impl Timeout {
    /// The timeout of [`Preset::Cat`]. The initial value is that of RFC 6298, (2.1). The slack is
    /// that of Linux (`TCP_RTO_MIN`), instead of a lower bound of 1 s.
    pub const ADAPTIVE: Self = Self::Adaptive {
        initial: Duration::from_secs(1),
        slack: Duration::from_millis(200),
        max: Duration::from_secs(10),
    };
}

samara_engine::names! {
    /// The peer to ask next, among those that have a transaction.
    #[cfg_attr(
        feature = "config",
        derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema),
        serde(rename_all = "kebab-case")
    )]
    pub enum Choice {
        /// A random peer (the order of a Go map).
        Random = "random",
        /// The peer expected to answer first, by its response time and its outstanding requests.
        Best = "best",
    }
}

/// Queues, and their assignment to the channels of a multiplexed connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Sending {
    pub dispatch: Dispatch,
    /// The lanes of the outbox. They reject frames without room
    /// ([`Overflow::Block`](samara_engine::outbox::Overflow::Block)), and every generation checks
    /// for that.
    pub lanes: Vec<LaneConfig>,
    pub map: LaneMap,
    /// The channels of an `MConnection`. Each lane belongs to one channel.
    pub channels: Vec<Channel>,
}

/// The lane of each kind of frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneMap {
    pub bodies: Lane,
    pub blocks: Lane,
    pub requests: Lane,
    /// Announcements and not-found answers.
    pub announcements: Lane,
}

/// A channel of an `MConnection` (`p2p.ChannelDescriptor`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    pub id: u8,
    /// Its weight: channels share the connection in proportion to their priorities.
    pub priority: u32,
    /// Capacity of its send queue, in messages.
    pub send_queue: usize,
    pub lanes: Vec<Lane>,
}

samara_engine::names! {
    /// A wire format and its rules, as two nodes agree on them.
    ///
    /// CometBFT has no such names: its nodes exchange lists of their channels. Each name stands for
    /// a set of channels.
    #[derive(Default)]
    pub enum Protocol {
        /// Transactions only (channel 0x30), as the flooding pools understand.
        #[default]
        Flood = "txs/1",
        /// Also announcements and requests, as merged in 2023 (channel 0x31).
        Cat = "cat/1",
        /// Also our extensions.
        Extended = "cat/2",
        /// As in 2026: announcements must have a signer and a sequence number, and unrequested
        /// bodies are dropped.
        Sequenced = "cat/3",
    }
}

impl Protocol {
    pub(crate) const fn has_state(self) -> bool {
        !matches!(self, Self::Flood)
    }

    /// Returns true if peers accept bodies that they did not request.
    pub(crate) const fn takes_pushes(self) -> bool {
        !matches!(self, Self::Sequenced)
    }

    pub(crate) const fn is_extended(self) -> bool {
        matches!(self, Self::Extended)
    }
}

impl Config {
    /// Returns the protocol of a link, given the agreed name. `None` if this configuration does not
    /// include it.
    pub fn protocol(&self, agreed: &str) -> Option<Protocol> {
        if agreed.is_empty() {
            return self.protocols.first().copied();
        }
        Protocol::from_name(agreed).filter(|protocol| self.protocols.contains(protocol))
    }

    /// Returns the preferred common protocol of two nodes: the first of this node's that the other
    /// also has.
    pub fn agree(&self, other: &Self) -> Option<Protocol> {
        self.protocols.iter().copied().find(|protocol| other.protocols.contains(protocol))
    }

    /// Returns the configuration of the outbox that a node with this configuration needs.
    pub fn outbox(&self) -> OutboxConfig {
        OutboxConfig { dispatch: self.sending.dispatch, lanes: self.sending.lanes.clone() }
    }
}

impl Default for Config {
    fn default() -> Self {
        Preset::Cat.config()
    }
}

impl Config {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        self.check_ranges()?;
        check(!self.protocols.is_empty(), "protocols", &self.protocols, "at least one")?;
        match self.requests.timeout {
            Timeout::Fixed(time) => check(!time.is_zero(), "requests.timeout", time, "more than zero")?,
            Timeout::Adaptive { initial, slack, max } => check(
                !slack.is_zero() && slack <= initial && initial <= max,
                "requests.timeout",
                self.requests.timeout,
                "0 < slack <= initial <= max",
            )?,
        }
        if let Jitter::Sleep { steps, .. } = self.jitter {
            check(steps > 0, "jitter.steps", steps, "at least 1")?;
        }
        if matches!(self.hint, Hint::From { .. }) {
            check(
                self.coalesce.is_zero(),
                "coalesce",
                self.coalesce,
                "zero, since a frame with `From` holds one key",
            )?;
        }
        self.validate_sending()
    }

    fn validate_sending(&self) -> Result<(), ConfigError> {
        let sending = &self.sending;
        let map = sending.map;
        let exists = |lane: &Lane| usize::from(lane.0) < sending.lanes.len();
        let used = [map.bodies, map.blocks, map.requests, map.announcements];
        check(used.iter().all(exists), "sending.map", map, "existing lanes")?;
        let in_channels: Vec<Lane> =
            sending.channels.iter().flat_map(|channel| channel.lanes.iter().copied()).collect();
        let once = (0..sending.lanes.len())
            .all(|lane| in_channels.iter().filter(|found| usize::from(found.0) == lane).count() == 1);
        let complete = in_channels.iter().all(exists) && once;
        check(complete, "sending.channels", &sending.channels, "each lane in exactly one channel")
    }
}
