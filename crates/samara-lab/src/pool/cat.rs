//! The parameters of the transaction pools as a scenario states them.

use std::fmt;
use std::time::Duration;

use samara_cat::config::{
    Announce, Bundles, Choice, CompactBlocks, ConfigError, Hint, Inline, Jitter, Recipients, Timeout,
};
use samara_cat::pool::{Admission, CheckKind, Order, Verdict};
use samara_cat::{Config, Transaction};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::scenario::{FlushSpec, Scenario, Transactions};
use samara_engine::units::{Share, Size, Span};
use samara_sim::{ChannelConfig, Connection, Flush, Framing, MConnectionConfig, Transport};

/// The parameters of the transaction pools: a preset and what differs from it.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Cat {
    /// The values that are not given below.
    pub preset: CatPreset,
    /// Who gets the transactions that were submitted here, unasked: "all", "nobody", or so many peers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub push: Option<Peers>,
    /// Who gets the transactions of others, unasked. A number makes neighbourhoods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward: Option<Peers>,
    /// Whether bodies that have not left are taken back once the peer turns out to have them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withdraw: Option<bool>,
    /// Whether bodies that were not asked for are taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub take_unrequested: Option<bool>,
    /// Who is told of new transactions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub announce: Option<AnnounceKind>,
    /// Announcing to sticky peers: to how many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sticky_peers: Option<usize>,
    /// How long announcements are collected for one frame; 0 sends each at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coalesce: Option<Span>,
    /// The longest transactions that are sent in the place of their announcements to peers that understand that; 0 for none. If not given, our
    /// pool does so where it takes fewer bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline: Option<Size>,
    /// How long an announcement waits at most, at random; 0 for not at all. Nothing else waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Span>,
    /// Whether announcements tell who pushed a transaction, so that whoever is pushed it too does not ask; the longest wait for that push,
    /// 0 for no such hint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<Span>,
    /// How long an answer is waited for before another peer is asked: a time, or "adaptive".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<TimeoutSpec>,
    /// Whether it is looked up at a timeout if the transaction has come from elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check_presence: Option<bool>,
    /// Whom to ask next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choice: Option<ChoiceKind>,
    /// Most requests to one peer at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_peer: Option<usize>,
    /// Whether requests for what is not here are answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_found: Option<bool>,
    /// Whether a new peer is told of the whole pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync: Option<bool>,
    /// How long own transactions are collected into a bundle under one key; 0 for no bundles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle_window: Option<Span>,
    /// Most transactions of a bundle (64).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle_txs: Option<usize>,
    /// Whether proposed blocks spread by the keys of their transactions, which needs `pool.consensus`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compact_blocks: Option<bool>,
    /// Most transactions in a pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_txs: Option<usize>,
    /// Most bytes in a pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Size>,
    /// After how many more blocks a transaction expires; 0 for never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_blocks: Option<u64>,
    /// After what time a transaction expires; 0 for never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Span>,
    /// Most keys in the cache of rejected and committed transactions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<usize>,
    /// Which transactions come first, and which have to leave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<OrderKind>,
    /// Keys of which it is remembered that a peer has them, for each peer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys_per_peer: Option<usize>,
    /// Keys that a peer announced and that are not here, for each peer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_per_peer: Option<usize>,
    /// Keys about which anything is remembered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<usize>,
    /// Whether peers that break the rules are disconnected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disconnect_misbehaving: Option<bool>,
}

/// Nodes that are different.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CatGroup {
    /// What reports call them.
    pub name: String,
    /// The part of all nodes, drawn from the seed.
    pub share: Share,
    /// The preset of their pools, as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<CatPreset>,
    /// What they do instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adversary: Option<Adversary>,
    /// How often a hostile node does it, per second (100).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
}

/// What hostile nodes do. They submit and pass on nothing, and count in no figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Adversary {
    /// Announce everything that they hear of at once, and never deliver it.
    Silent,
    /// The same, and answer requests with garbage.
    Garbage,
    /// Send bodies that nobody asked for: garbage, and what everybody has.
    Pusher,
    /// Ask everybody for everything, again and again.
    Greedy,
    /// Announce what does not exist.
    Announcer,
}

/// Pools that were measured, and ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CatPreset {
    /// CometBFT v0: to everybody but the sender, as it came.
    FloodFifo,
    /// CometBFT v1: by priority.
    FloodPriority,
    /// Flooding with announcements.
    SeenOnly,
    /// CAT as benchmarked in January 2023.
    #[serde(rename = "cat-2023")]
    Cat2023,
    /// The same with `From`, called CAT2.
    #[serde(rename = "cat2-2023")]
    Cat2From2023,
    /// CAT as merged, with jitter.
    CatMerged,
    /// CAT of August 2026: pull only.
    #[serde(rename = "cat-2026")]
    Cat2026,
    /// As it should be.
    #[default]
    Cat,
}

impl CatPreset {
    /// When its connections send what was written: celestia-core throttles (`flush_throttle_timeout`), our pool waits for nothing.
    pub const fn flush(self) -> FlushSpec {
        match self {
            Self::Cat => FlushSpec::WhenIdle,
            _ => FlushSpec::Throttle(Span::from_millis(100)),
        }
    }

    /// The preset of the engine.
    pub fn preset(self) -> samara_cat::Preset {
        use samara_cat::Preset;
        match self {
            Self::FloodFifo => Preset::FloodFifo,
            Self::FloodPriority => Preset::FloodPriority,
            Self::SeenOnly => Preset::SeenOnly,
            Self::Cat2023 => Preset::Cat2023,
            Self::Cat2From2023 => Preset::Cat2From2023,
            Self::CatMerged => Preset::CatMerged,
            Self::Cat2026 => Preset::Cat2026,
            Self::Cat => Preset::Cat,
        }
    }
}

/// Whom to send something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(with = "serde_json::Value")]
pub enum Peers {
    /// Nobody.
    Nobody,
    /// So many.
    Some(u32),
    /// All.
    All,
}

impl Serialize for Peers {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Nobody => serializer.serialize_str("nobody"),
            Self::Some(peers) => serializer.serialize_u32(*peers),
            Self::All => serializer.serialize_str("all"),
        }
    }
}

impl<'de> Deserialize<'de> for Peers {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Peers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"all\", \"nobody\", or a number of peers")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Peers, E> {
                match text {
                    "all" => Ok(Peers::All),
                    "nobody" => Ok(Peers::Nobody),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
                }
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Peers, E> {
                let peers = u32::try_from(number)
                    .map_err(|_| E::invalid_value(serde::de::Unexpected::Unsigned(number), &self))?;
                Ok(if peers == 0 { Peers::Nobody } else { Peers::Some(peers) })
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Peers, E> {
                let number = u64::try_from(number)
                    .map_err(|_| E::invalid_value(serde::de::Unexpected::Signed(number), &self))?;
                self.visit_u64(number)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl Peers {
    const fn recipients(self) -> Recipients {
        match self {
            Self::Nobody => Recipients::Nobody,
            Self::Some(peers) => Recipients::Some(peers as usize),
            Self::All => Recipients::All,
        }
    }
}

/// Who is told of new transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AnnounceKind {
    /// Nobody.
    Nobody,
    /// All peers.
    All,
    /// All that are not known to have it.
    Unseen,
    /// Some of these, the same ones for each signer.
    Sticky,
}

/// How long an answer is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum TimeoutSpec {
    /// Always the same time.
    Fixed(Span),
    /// The response time that the peer has shown.
    Adaptive,
}

impl TryFrom<String> for TimeoutSpec {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == "adaptive" {
            return Ok(Self::Adaptive);
        }
        Span::parse(&text).map(Self::Fixed).map_err(|error| format!("{error}, or \"adaptive\""))
    }
}

impl From<TimeoutSpec> for String {
    fn from(timeout: TimeoutSpec) -> Self {
        match timeout {
            TimeoutSpec::Fixed(span) => span.to_string(),
            TimeoutSpec::Adaptive => "adaptive".to_owned(),
        }
    }
}

/// Whom to ask next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChoiceKind {
    /// Any.
    Random,
    /// The one that will probably answer first.
    Best,
}

/// Which transactions come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OrderKind {
    /// As they arrived.
    Fifo,
    /// By priority.
    Priority,
    /// By the sets of their signers.
    SignerSets,
}

/// Most transactions of a bundle unless told otherwise: a list of keys holds as many.
const BUNDLE_TXS: usize = 64;
/// Most bytes of a bundle: a send queue of one message should not be blocked for long.
const BUNDLE_BYTES: usize = 256 * 1024;
/// Peers of sticky announcements unless told otherwise (`maxSeenTxBroadcast` of celestia-core).
const STICKY_PEERS: usize = 15;
/// Persistent peers besides (`MaxPersistentStickyPeers`).
const STICKY_PERSISTENT: usize = 4;

impl Cat {
    /// The engine's configuration of nodes in no group. `consensus` is how long blocks spread before they are committed.
    pub fn build(&self, consensus: Duration) -> Config {
        let mut config = quiet(self.preset);
        set(&mut config.push, self.push.map(Peers::recipients));
        set(&mut config.forward, self.forward.map(Peers::recipients));
        set(&mut config.withdraw, self.withdraw);
        set(&mut config.take_unrequested, self.take_unrequested);
        set(&mut config.announce, self.announce());
        set(&mut config.coalesce, self.coalesce.map(Span::duration));
        set(&mut config.inline, self.inline.map(inline));
        set(&mut config.not_found, self.not_found);
        set(&mut config.sync, self.sync);
        set(&mut config.disconnect_misbehaving, self.disconnect_misbehaving);
        if let Some(jitter) = self.jitter.map(Span::duration) {
            config.jitter = if jitter.is_zero() { Jitter::None } else { Jitter::Timer { max: jitter } };
        }
        if let Some(wait) = self.hint.map(Span::duration) {
            config.hint = match config.hint {
                _ if wait.is_zero() => Hint::None,
                Hint::From { .. } => Hint::From { wait },
                Hint::None | Hint::Short { .. } => Hint::Short { wait_max: wait },
            };
        }
        if let Some(window) = self.bundle_window.map(Span::duration) {
            let txs_max = self.bundle_txs.unwrap_or(BUNDLE_TXS);
            config.bundles =
                (!window.is_zero()).then_some(Bundles { window, txs_max, bytes_max: BUNDLE_BYTES });
        }
        if let Some(on) = self.compact_blocks {
            config.compact_blocks = on.then_some(CompactBlocks { kept: 4, patience: consensus });
        }
        self.requests(&mut config);
        self.pool(&mut config);
        set(&mut config.limits.keys_per_peer, self.keys_per_peer);
        set(&mut config.limits.unknown_per_peer, self.unknown_per_peer);
        set(&mut config.limits.keys, self.keys);
        config
    }

    fn announce(&self) -> Option<Announce> {
        let sticky = |peers| Announce::Sticky { peers, persistent: STICKY_PERSISTENT };
        match (self.announce, self.sticky_peers) {
            (None | Some(AnnounceKind::Sticky), Some(peers)) => Some(sticky(peers)),
            (Some(AnnounceKind::Sticky), None) => Some(sticky(STICKY_PEERS)),
            (Some(AnnounceKind::Nobody), _) => Some(Announce::Nobody),
            (Some(AnnounceKind::All), _) => Some(Announce::All),
            (Some(AnnounceKind::Unseen), _) => Some(Announce::Unseen),
            (None, None) => None,
        }
    }

    fn requests(&self, config: &mut Config) {
        let requests = &mut config.requests;
        if let Some(timeout) = self.timeout {
            requests.timeout = match timeout {
                TimeoutSpec::Fixed(span) => Timeout::Fixed(span.duration()),
                TimeoutSpec::Adaptive => samara_cat::Preset::Cat.config().requests.timeout,
            };
        }
        set(&mut requests.check_presence, self.check_presence);
        set(&mut requests.per_peer_max, self.requests_per_peer);
        let choice = |choice| match choice {
            ChoiceKind::Random => Choice::Random,
            ChoiceKind::Best => Choice::Best,
        };
        set(&mut requests.choice, self.choice.map(choice));
    }

    fn pool(&self, config: &mut Config) {
        let pool = &mut config.pool;
        set(&mut pool.capacity_txs, self.capacity_txs);
        set(&mut pool.capacity_bytes, self.capacity.map(Size::bytes));
        set(&mut pool.ttl_blocks, self.ttl_blocks);
        set(&mut pool.ttl, self.ttl.map(Span::duration));
        set(&mut pool.cache_size, self.cache);
        let order = |order| match order {
            OrderKind::Fifo => Order::Fifo,
            OrderKind::Priority => Order::Priority,
            OrderKind::SignerSets => Order::SignerSets,
        };
        set(&mut pool.order, self.order.map(order));
    }

    /// The configuration of a group's nodes; hostile ones have the queues of the default preset.
    pub fn group(group: &CatGroup) -> Config {
        quiet(group.preset.unwrap_or_default())
    }

    /// What is wrong with the engine's configuration.
    pub(crate) fn error(&self, consensus: Duration) -> Option<ConfigError> {
        let application = |_: &Transaction, _: CheckKind| Verdict::Accept(Admission::default());
        let identity = samara_sim::identity_of(0);
        samara_cat::Cat::new(self.build(consensus), &identity, application).err()
    }
}

/// A preset that does not tell what only counts.
fn quiet(preset: CatPreset) -> Config {
    Config { report_duplicates: false, report_requests: false, ..preset.preset().config() }
}

fn inline(most: Size) -> Inline {
    match most.bytes() {
        0 => Inline::Never,
        bytes => Inline::UpTo(usize::try_from(bytes).unwrap_or(usize::MAX)),
    }
}

fn set<T>(target: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *target = value;
    }
}

/// Gives the transport the channels of the pools, if the scenario has a connection with channels.
pub(super) fn with_channels(scenario: &Scenario, transport: &mut Transport) {
    if let Some(connection) = connection(scenario) {
        transport.framing = Framing::PLAIN;
        transport.handshake_round_trips = Transport::mconnection(connection.clone()).handshake_round_trips;
        transport.connection = Connection::MConnection(connection);
    }
}

/// The connection with channels, if the scenario has one. The channels are those of the pool with the most kinds of frames: others use some of
/// its lanes.
fn connection(scenario: &Scenario) -> Option<MConnectionConfig> {
    let spec = scenario.transport.connection.as_ref()?;
    let groups = scenario.part::<Transactions>().groups.iter().map(Cat::group);
    let cat: &Cat = scenario.part();
    let own = cat.build(Duration::ZERO);
    let most =
        groups.fold(
            own,
            |most, other| {
                if other.sending.lanes.len() > most.sending.lanes.len() { other } else { most }
            },
        );
    let channels = most.channels().iter().map(|channel| ChannelConfig {
        id: channel.id,
        priority: channel.priority,
        queue: channel.send_queue,
        lanes: channel.lanes.clone(),
    });
    let flush = spec.flush.unwrap_or_else(|| cat.preset.flush());
    Some(MConnectionConfig {
        channels: channels.collect(),
        flush: match flush {
            FlushSpec::Throttle(span) => Flush::Throttle(span.duration()),
            FlushSpec::WhenIdle => Flush::WhenIdle,
        },
        ping_interval: spec.ping.duration(),
        send_rate: spec.send_rate.bps() / 8,
        receive_rate: spec.receive_rate.bps() / 8,
    })
}
