//! Everything about a node that can be chosen. One engine serves all generations: they differ in nothing but this.

mod preset;
mod protocol;
mod requests;
mod sending;
mod validate;

use std::time::Duration;

use samara_engine::PeerIdentity;

use crate::pool::PoolConfig;

pub use preset::Preset;
pub use protocol::Protocol;
pub use requests::{Choice, Requests, Standing, Timeout};
pub use sending::{Channel, LaneMap, Sending};
pub use validate::ConfigError;

/// How a node behaves. Start from a [`Preset`]; [`Config::default`] is [`Preset::Cat`].
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// What it can speak, the best first. What is spoken on a link is agreed on when it comes up
    /// ([`PeerInfo::protocol`](samara_engine::PeerInfo::protocol)); where nothing was agreed on, it is the first of these.
    pub protocols: Vec<Protocol>,
    /// Settings of the pool.
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
    /// Whether nothing is ever sent but requests (`ListenOnly`).
    pub listen_only: bool,

    // ---- announcements ----
    /// Who is told of new transactions.
    pub announce: Announce,
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
    /// How transactions are asked for.
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
    /// Own transactions that go by one key together.
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
    /// Whether every request is an event.
    pub report_requests: bool,
}

/// Who gets a transaction unasked. Peers that are known to have it never do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipients {
    /// Nobody.
    Nobody,
    /// So many peers: the same ones every time, such that both ends of a link agree on it.
    Some(usize),
    /// All.
    All,
}

/// Who is told of a new transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announce {
    /// Nobody.
    Nobody,
    /// All peers.
    All,
    /// All that are not known to have it.
    Unseen,
    /// Some of these, the same ones for each signer (`selectStickyPeers` of celestia-core).
    Sticky {
        /// How many (`maxSeenTxBroadcast`).
        peers: usize,
        /// How many persistent peers besides (`MaxPersistentStickyPeers`).
        persistent: usize,
    },
}

/// Whether announcements say from whom the sender has a transaction that it had not asked for. A peer that is connected to
/// that one too can expect to be pushed the transaction, and waits before it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// They do not.
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
    /// None.
    Never,
    /// Those of at most so many bytes.
    UpTo(usize),
    /// Those for which it takes fewer bytes, by the number of peers: `docs/protocols/cat.md` has the formula.
    WhereItWins,
}

/// What is done so that nodes do not announce all at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jitter {
    /// Nothing.
    None,
    /// The announcement waits for a random time; nothing else does.
    Timer {
        /// The longest time.
        max: Duration,
    },
    /// Whoever received the transaction sleeps before it announces it, and takes nothing else from the peer, or from any peer,
    /// meanwhile: `time.Sleep(rand.Intn(10)*10 ms)` in `Receive` of celestia-core.
    Sleep {
        /// The time sleeps are multiples of.
        step: Duration,
        /// How many different times there are: 0 to one less than so many steps.
        steps: u64,
        /// Whether all peers wait (one goroutine receives for all of them) or only the sender.
        all_peers: bool,
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
    /// Most transactions of a bundle.
    pub txs_max: usize,
    /// Most bytes of their bodies.
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
    /// Keys about which anything is remembered, in all, before announcements of others are ignored. What comes in full is limited by the pool.
    pub keys: usize,
    /// How long it is remembered who has a transaction that is not here.
    pub seen_ttl: Duration,
    /// Transactions in one frame.
    pub txs_per_frame: usize,
    /// Bytes of frames that wait while whoever receives sleeps, for each peer, as long as they are on the wire.
    pub waiting_bytes: usize,
    /// How often a peer gets a transaction that it has, because it asks for it: so often in a row; each answer to a first request
    /// earns one more.
    pub repeated_answers: u32,
    /// Transactions of one peer that the application rejects before that is misbehaviour; 0 for never.
    pub invalid_bodies: u32,
}

impl Config {
    /// What is spoken on a link with this agreed protocol; `None` if this configuration does not have it.
    pub fn protocol(&self, agreed: &str) -> Option<Protocol> {
        if agreed.is_empty() {
            return self.protocols.first().copied();
        }
        Protocol::named(agreed).filter(|protocol| self.protocols.contains(protocol))
    }

    /// The best protocol that two nodes have in common: the first of this one's that the other has, too.
    pub fn agree(&self, other: &Self) -> Option<Protocol> {
        self.protocols.iter().copied().find(|protocol| other.protocols.contains(protocol))
    }
}

impl Default for Config {
    fn default() -> Self {
        Preset::Cat.config()
    }
}
