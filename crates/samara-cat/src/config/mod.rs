//! Everything about a node that can be chosen. One engine serves all generations: they differ in nothing but this.

#[cfg(feature = "config")]
mod parameters;
mod preset;

use std::time::Duration;

use samara_engine::PeerIdentity;
pub use samara_engine::config::ConfigError;
use samara_engine::config::check;
use samara_engine::outbox::{Dispatch, Lane, LaneConfig, OutboxConfig};

use crate::pool::PoolConfig;
use crate::wire::KeyList;

#[cfg(feature = "config")]
pub use parameters::{Parameters, key_of};
pub use preset::Preset;

/// How a node behaves. Start from a [`Preset`]; [`Config::default`] is [`Preset::Cat`].
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// What it can speak, the best first. What is spoken on a link is agreed on when it comes up
    /// ([`PeerInfo::protocol`](samara_engine::PeerInfo::protocol)); where nothing was agreed on, it is the first of these.
    pub protocols: Vec<Protocol>,
    pub pool: PoolConfig,

    // ---- bodies ----
    /// Who gets the transactions that were submitted here, unasked.
    pub push: Recipients,
    /// Who gets transactions that came from others, unasked. [`Recipients::Some`] makes neighbourhoods.
    pub forward: Recipients,
    /// Whether transactions of others are forwarded to peers that know neither announcements nor requests.
    pub bridge: bool,
    /// Whether a body that has not left yet is taken back once the peer turns out to have it (a pool that looks up who has a
    /// transaction at the moment of sending does just that).
    pub withdraw: bool,
    /// Whether a body that was not asked for is taken. If not, its sender counts as having it, and nothing else happens.
    pub take_unrequested: bool,

    // ---- announcements ----
    /// Who is told of new transactions.
    pub announce: Announce,
    pub sticky: Sticky,
    /// Whether transactions that were submitted here are announced to those that they are not pushed to.
    pub announce_own: bool,
    /// Whether a duplicate is announced again, to those that are still not known to have it.
    pub announce_duplicates: bool,
    /// Whether a peer that was told counts as having it.
    pub announced_is_seen: bool,
    /// Whether announcements say who pushed the transaction.
    pub hint: Hint,
    /// What is done so that nodes do not announce all at once.
    pub jitter: Jitter,
    /// How long announcements are collected for one frame; zero sends each at once, in a frame of its own.
    pub coalesce: Duration,
    /// Which transactions are so small that peers that understand [`Protocol::Extended`] are sent them instead of an announcement. Only
    /// where announcements share frames ([`coalesce`](Self::coalesce)).
    pub inline: Inline,

    // ---- requests ----
    pub requests: Requests,
    /// Whether a request for what is not here is answered, where the peer understands it.
    pub not_found: bool,

    // ---- links ----
    /// Whether a new peer is told of the whole pool (a flooding pool sends all of it).
    pub sync: bool,
    /// Whether it is forgotten at once what a peer had when it goes. If not, it is forgotten when the peer comes back, as if it
    /// were another one.
    pub forget_on_disconnect: bool,
    /// Peers that are more blocks behind are neither pushed to nor told (`peerHeightDiff`). Heights come by
    /// [`Command::PeerHeight`](crate::Command::PeerHeight); a peer whose height is unknown counts as up to date.
    pub height_lag_max: Option<u64>,
    /// Peers that the operator wants to be connected to always (`persistent_peers`).
    pub persistent: Vec<PeerIdentity>,

    // ---- per-sender order, and the work that the ADR leaves open ----
    /// Requests in the order of the senders' sequence numbers.
    pub sequences: Option<Sequences>,
    pub bundles: Option<Bundles>,
    /// Proposed blocks by their keys.
    pub compact_blocks: Option<CompactBlocks>,

    // ---- limits ----
    /// What peers can make this node remember or do.
    pub limits: Limits,
    /// Whether a peer that breaks the rules is disconnected. It is an event in any case.
    pub disconnect_misbehaving: bool,

    // ---- sending ----
    /// Queues, and the channels that a multiplexed connection makes of them.
    pub sending: Sending,

    // ---- what is told ----
    /// Whether every duplicate is an [`Event::Duplicate`](crate::Event::Duplicate).
    pub report_duplicates: bool,
    pub report_requests: bool,
}

/// Who gets a transaction unasked. Peers that are known to have it never do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipients {
    Nobody,
    /// So many peers: the same ones every time, such that both ends of a link agree on it.
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
        /// No announcement leaves; bodies may still be pushed.
        Nobody = "nobody",
        /// All peers, those that are known to have it too.
        All = "all",
        /// All that are not known to have it.
        Unseen = "unseen",
        /// Some of these, the same ones for each signer (`selectStickyPeers` of celestia-core).
        Sticky = "sticky",
    }
}

/// How many peers [`Announce::Sticky`] chooses for a signer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sticky {
    /// Peers (`maxSeenTxBroadcast`).
    pub peers: usize,
    /// Persistent peers besides (`MaxPersistentStickyPeers`).
    pub persistent: usize,
}

/// Whether announcements say from whom the sender has a transaction that it had not asked for. A peer that is connected to
/// that one too can expect to be pushed the transaction, and waits before it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    None,
    /// By `From`, an id of 40 hexadecimal digits (the experiment CAT2 of the ADR). Every announcement waits by itself, and
    /// asks its own sender when the time is over.
    From {
        /// How long to wait (`MaxGossipDelay`).
        wait: Duration,
    },
    /// By eight bytes, to peers that understand them. One wait for all announcements of a transaction.
    Short {
        /// The longest wait, and the wait for a peer whose response time is not known. Otherwise it is that time.
        wait_max: Duration,
    },
}

/// Which transactions are sent in the place of their announcements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inline {
    Never,
    /// Those of at most so many bytes.
    UpTo(usize),
    /// Those for which it takes fewer bytes, by the number of peers: `docs/protocols/cat.md` has the formula.
    WhereItWins,
}

/// What is done so that nodes do not announce all at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jitter {
    None,
    /// The announcement waits for a random time; nothing else does.
    Timer {
        max: Duration,
    },
    /// The receiver sleeps before it announces a transaction, and takes nothing else from its sender meanwhile:
    /// `time.Sleep(rand.Intn(10)*10 ms)` in `Receive` of celestia-core.
    Sleep {
        /// The time sleeps are multiples of.
        step: Duration,
        /// How many different times there are: 0 to one less than so many steps.
        steps: u64,
    },
}

/// Requests in the order of sequence numbers (celestia-core since 2025).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequences {
    /// How far ahead of the expected sequence transactions are asked for and kept (`maxReceivedBufferSize`).
    pub ahead_max: u64,
    /// Most bodies of one peer that wait for earlier ones (`maxRequestsPerPeer` in `received_buffer.go`).
    pub buffered_per_peer_max: usize,
    /// Most announcements of one signer that wait (`seenPerSignerLimit`).
    pub pending_per_signer_max: usize,
}

/// Own transactions that go by one key together (ADR 009, "Ongoing work").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bundles {
    /// How long own transactions are collected (the ADR suggests some 100 ms).
    pub window: Duration,
    pub txs_max: usize,
    pub bytes_max: usize,
}

/// Proposed blocks by their keys (ADR 009, "Neutral").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactBlocks {
    /// Most blocks that are kept: the last ones.
    pub kept: usize,
    /// How long a node waits for the transactions that it misses before it gives a block up.
    pub patience: Duration,
}

/// What peers can make this node remember or do. What exceeds a limit is ignored and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Keys of which it is remembered that a peer has them, for each peer (`seenPerPeerLimit`).
    pub keys_per_peer: usize,
    /// Keys that a peer announced and that are not here, for each peer.
    pub unknown_per_peer: usize,
    /// Keys about which the pool keeps any state, in all, before announcements of others are ignored. What comes in full is limited by the pool.
    pub keys: usize,
    /// How long it is remembered who has a transaction that is not here.
    pub seen_ttl: Duration,
    pub txs_per_frame: usize,
    /// Bytes of frames that wait while whoever receives sleeps, for each peer, as long as they are on the wire.
    pub waiting_bytes: usize,
    /// How often a peer gets a transaction that it has, because it asks for it: so often in a row; each answer to a first request
    /// earns one more.
    pub repeated_answers: u32,
    /// Transactions of one peer that the application rejects before that is misbehaviour; 0 for never.
    pub invalid_bodies: u32,
}

/// How transactions are asked for. There is never more than one live request for a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requests {
    /// When a request has been waited for long enough, so that another peer is asked.
    pub timeout: Timeout,
    /// How long after that an answer still counts as one (`defaultGlobalRequestTimeout`).
    pub stale: Duration,
    /// Whether it is looked up at a timeout if the transaction has come from elsewhere. No generation of celestia-core does:
    /// where answers take longer than the timeout, the same transaction comes again and again until a block has it.
    pub check_presence: bool,
    /// Whether an answer that comes after its timeout ends the request to the next peer too, although that goes on waiting for its
    /// own timeout (`MarkReceived` until 2026).
    pub late_answer_ends: bool,
    /// Whether a peer that let a request time out is no longer taken for one that has the transaction (since 2026).
    pub forget_unresponsive: bool,
    pub choice: Choice,
    /// Most requests to one peer at a time, those that timed out and are still remembered included (`maxRequestsPerPeer`). Others
    /// wait.
    pub per_peer_max: usize,
    /// What becomes of peers that do not deliver what they announce. `None`: whoever announces first is asked first, always.
    pub standing: Option<Standing>,
}

/// Peers that do not deliver what they announce lose their place.
///
/// A peer that lets more requests time out than it answers, or sends garbage, is not asked for what it announces first; the
/// announcement of another peer is waited for. A peer that has not answered anything yet is asked for one frame of keys at a time. What
/// nobody else announces is asked for all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// How long the announcement of a better peer is waited for.
    pub patience: Duration,
    /// After what time a peer that does not deliver is tried again, with a request for what is here already, so that nothing waits for
    /// it. The time doubles with each attempt in vain, up to 64 times as long.
    pub probe: Duration,
}

/// When a request has been waited for long enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "config", serde(try_from = "String", into = "String"), schemars(with = "String"))]
pub enum Timeout {
    /// After the same time always (`MaxGossipDelay`).
    Fixed(Duration),
    /// After the response time that the peer has shown: as the retransmission timeout of RFC 6298 is computed, from the time
    /// between request and answer, which has all delays of both sides in it. While a peer answers earlier requests, later ones
    /// are not overdue.
    Adaptive {
        /// While nothing has been measured.
        initial: Duration,
        /// The least that is added to the smoothed response time; more if responses vary.
        slack: Duration,
        /// At most, for a single request, whatever the peer answers meanwhile.
        max: Duration,
    },
}

impl Timeout {
    /// That of [`Preset::Cat`]: the first value is that of RFC 6298, (2.1); the slack is that of Linux (`TCP_RTO_MIN`) instead of a
    /// lower bound of 1 s.
    pub const ADAPTIVE: Self = Self::Adaptive {
        initial: Duration::from_secs(1),
        slack: Duration::from_millis(200),
        max: Duration::from_secs(10),
    };
}

samara_engine::names! {
    /// The peer that is asked next, of those that have a transaction.
    #[cfg_attr(
        feature = "config",
        derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema),
        serde(rename_all = "kebab-case")
    )]
    pub enum Choice {
        /// Any (the order of a Go map).
        Random = "random",
        /// The one that will probably answer first, by its response time and what it owes already.
        Best = "best",
    }
}

/// Queues, and the channels that a multiplexed connection makes of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Sending {
    pub dispatch: Dispatch,
    /// The lanes of the outbox. They refuse what has no room ([`Overflow::Block`](samara_engine::outbox::Overflow::Block)): every generation looks at that.
    pub lanes: Vec<LaneConfig>,
    pub map: LaneMap,
    /// The channels of a `MConnection`; each lane belongs to one.
    pub channels: Vec<Channel>,
}

/// The lane of each kind of frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneMap {
    pub bodies: Lane,
    pub blocks: Lane,
    pub requests: Lane,
    /// Announcements, and that something was not found.
    pub announcements: Lane,
}

/// A channel of a `MConnection` (`p2p.ChannelDescriptor`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    pub id: u8,
    /// Its share of the connection: channels share it in proportion to their priorities.
    pub priority: u32,
    /// Messages that it queues.
    pub send_queue: usize,
    pub lanes: Vec<Lane>,
}

samara_engine::names! {
    /// A wire format and its rules, as two nodes agree on them.
    ///
    /// CometBFT has no such names: its nodes tell each other which channels they have. These stand for what the channels amount to.
    #[derive(Default)]
    pub enum Protocol {
        /// Transactions only (channel 0x30). What the flooding pools understand.
        #[default]
        Flood = "txs/1",
        /// Announcements and requests besides, as merged in 2023 (channel 0x31).
        Cat = "cat/1",
        /// Our extensions besides.
        Extended = "cat/2",
        /// As in 2026: announcements must have a signer and a sequence number, bodies that were not asked for are dropped.
        Sequenced = "cat/3",
    }
}

impl Protocol {
    pub(crate) const fn has_state(self) -> bool {
        !matches!(self, Self::Flood)
    }

    /// Whether peers take bodies that they did not ask for.
    pub(crate) const fn takes_pushes(self) -> bool {
        !matches!(self, Self::Sequenced)
    }

    pub(crate) const fn is_extended(self) -> bool {
        matches!(self, Self::Extended)
    }
}

impl Config {
    /// What is spoken on a link with this agreed protocol; `None` if this configuration does not have it.
    pub fn protocol(&self, agreed: &str) -> Option<Protocol> {
        if agreed.is_empty() {
            return self.protocols.first().copied();
        }
        Protocol::from_name(agreed).filter(|protocol| self.protocols.contains(protocol))
    }

    /// The best protocol that two nodes have in common: the first of this one's that the other has, too.
    pub fn agree(&self, other: &Self) -> Option<Protocol> {
        self.protocols.iter().copied().find(|protocol| other.protocols.contains(protocol))
    }

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
        check(self.requests.per_peer_max > 0, "requests.per_peer_max", 0, "at least 1")?;
        if let Jitter::Sleep { steps, .. } = self.jitter {
            check(steps > 0, "jitter.steps", steps, "at least 1")?;
        }
        if matches!(self.hint, Hint::From { .. }) {
            check(
                self.coalesce.is_zero(),
                "coalesce",
                self.coalesce,
                "zero: `From` has no frame of several keys",
            )?;
        }
        if let Some(bundles) = &self.bundles {
            let txs = bundles.txs_max;
            check((2..=1_024).contains(&txs), "bundles.txs_max", txs, "2 to 1024")?;
            check(!bundles.window.is_zero(), "bundles.window", bundles.window, "more than zero")?;
        }
        if let Some(blocks) = &self.compact_blocks {
            let kept = blocks.kept;
            check(kept > 0 && kept <= KeyList::MAX, "compact_blocks.kept", kept, "1 to 64")?;
        }
        check(self.limits.keys > 0, "limits.keys", self.limits.keys, "at least 1")?;
        self.validate_sending()
    }

    fn validate_sending(&self) -> Result<(), ConfigError> {
        let sending = &self.sending;
        let map = sending.map;
        let exists = |lane: &Lane| usize::from(lane.0) < sending.lanes.len();
        let used = [map.bodies, map.blocks, map.requests, map.announcements];
        check(used.iter().all(exists), "sending.map", map, "lanes that exist")?;
        let in_channels: Vec<Lane> =
            sending.channels.iter().flat_map(|channel| channel.lanes.iter().copied()).collect();
        let once = (0..sending.lanes.len())
            .all(|lane| in_channels.iter().filter(|found| usize::from(found.0) == lane).count() == 1);
        let complete = in_channels.iter().all(exists) && once;
        check(complete, "sending.channels", &sending.channels, "each lane in one channel")
    }
}
