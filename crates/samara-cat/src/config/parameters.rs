//! The parameters of the pools as a configuration file states them: a preset and what differs from it.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use samara_engine::units::{Size, Span};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{
    Announce, Bundles, Choice, CompactBlocks, Config, Hint, Inline, Jitter, Preset, Recipients, Timeout,
};
use crate::pool::Order;

/// The parameters of the transaction pools: a preset and what differs from it.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    /// The values that are not given below.
    pub preset: Preset,
    /// Who gets the transactions that were submitted here, unasked: "all", "nobody", or so many peers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub push: Option<Recipients>,
    /// Who gets the transactions of others, unasked. A number makes neighbourhoods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward: Option<Recipients>,
    /// Whether bodies that have not left are taken back once the peer turns out to have them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withdraw: Option<bool>,
    /// Whether bodies that were not asked for are taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub take_unrequested: Option<bool>,
    /// Who is told of new transactions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub announce: Option<Announce>,
    /// Announcing to sticky peers: to how many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sticky_peers: Option<usize>,
    /// How long announcements are collected for one frame; 0 sends each at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coalesce: Option<Span>,
    /// The longest transactions that are sent in the place of their announcements to peers that understand that; 0 for none.
    /// If not given, our pool does so where it takes fewer bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline: Option<Size>,
    /// How long an announcement waits at most, at random; 0 for not at all. Nothing else waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Span>,
    /// The longest wait for a push that an announcement tells of: announcements name the peer that pushed the transaction, and
    /// peers that are pushed it too do not ask. 0 for no such hint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<Span>,
    /// How long an answer is waited for before another peer is asked: a time, or "adaptive".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Timeout>,
    /// Whether it is looked up at a timeout if the transaction has come from elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check_presence: Option<bool>,
    /// Whom to ask next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choice: Option<Choice>,
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
    pub order: Option<Order>,
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

/// The key of [`Parameters`] that sets a field of [`Config`], by the name that
/// [`ConfigError`](super::ConfigError) gives it.
pub fn key_of(field: &str) -> Option<&'static str> {
    Some(match field {
        "requests.timeout" => "timeout",
        "requests.per_peer_max" => "requests_per_peer",
        "coalesce" => "coalesce",
        "bundles.txs_max" => "bundle_txs",
        "bundles.window" => "bundle_window",
        "limits.keys" => "keys",
        _ => return None,
    })
}

/// Most transactions of a bundle unless told otherwise: a list of keys holds as many.
const BUNDLE_TXS: usize = 64;
/// Most bytes of a bundle: a send queue of one message should not be blocked for long.
const BUNDLE_BYTES: usize = 256 * 1024;
/// Compact blocks that are kept.
const BLOCKS_KEPT: usize = 4;

impl Parameters {
    /// The engine's configuration. `consensus` is how long blocks spread before they are committed.
    pub fn build(&self, consensus: Duration) -> Config {
        let mut config = self.preset.config();
        set(&mut config.push, self.push);
        set(&mut config.forward, self.forward);
        set(&mut config.withdraw, self.withdraw);
        set(&mut config.take_unrequested, self.take_unrequested);
        set(&mut config.announce, self.announce.or(self.sticky_peers.map(|_| Announce::Sticky)));
        set(&mut config.sticky.peers, self.sticky_peers);
        set(&mut config.coalesce, self.coalesce.map(Span::duration));
        set(&mut config.not_found, self.not_found);
        set(&mut config.sync, self.sync);
        set(&mut config.disconnect_misbehaving, self.disconnect_misbehaving);
        let inline = |most: Size| match most.bytes() {
            0 => Inline::Never,
            bytes => Inline::UpTo(usize::try_from(bytes).unwrap_or(usize::MAX)),
        };
        set(&mut config.inline, self.inline.map(inline));
        let jitter = |max: Duration| if max.is_zero() { Jitter::None } else { Jitter::Timer { max } };
        set(&mut config.jitter, self.jitter.map(Span::duration).map(jitter));
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
        let blocks = CompactBlocks { kept: BLOCKS_KEPT, patience: consensus };
        set(&mut config.compact_blocks, self.compact_blocks.map(|on| on.then_some(blocks)));
        let requests = &mut config.requests;
        set(&mut requests.timeout, self.timeout);
        set(&mut requests.check_presence, self.check_presence);
        set(&mut requests.choice, self.choice);
        set(&mut requests.per_peer_max, self.requests_per_peer);
        let pool = &mut config.pool;
        set(&mut pool.capacity_txs, self.capacity_txs);
        set(&mut pool.capacity_bytes, self.capacity.map(Size::bytes));
        set(&mut pool.ttl_blocks, self.ttl_blocks);
        set(&mut pool.ttl, self.ttl.map(Span::duration));
        set(&mut pool.cache_size, self.cache);
        set(&mut pool.order, self.order);
        let limits = &mut config.limits;
        set(&mut limits.keys_per_peer, self.keys_per_peer);
        set(&mut limits.unknown_per_peer, self.unknown_per_peer);
        set(&mut limits.keys, self.keys);
        config
    }
}

fn set<T>(target: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *target = value;
    }
}

impl TryFrom<String> for Timeout {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == "adaptive" {
            return Ok(Self::ADAPTIVE);
        }
        let fixed = Span::parse(&text).map(|span| Self::Fixed(span.duration()));
        fixed.map_err(|error| format!("{error}, or \"adaptive\""))
    }
}

impl From<Timeout> for String {
    /// Files have no names for the parts of an adaptive timeout.
    fn from(timeout: Timeout) -> Self {
        match timeout {
            Timeout::Fixed(time) => {
                Span::from_nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)).to_string()
            }
            Timeout::Adaptive { .. } => "adaptive".to_owned(),
        }
    }
}

impl Serialize for Recipients {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Nobody => serializer.serialize_str("nobody"),
            Self::Some(peers) => serializer.serialize_u64(*peers as u64),
            Self::All => serializer.serialize_str("all"),
        }
    }
}

impl<'de> Deserialize<'de> for Recipients {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl Visitor<'_> for Form {
            type Value = Recipients;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"all\", \"nobody\", or a number of peers")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Recipients, E> {
                match text {
                    "all" => Ok(Recipients::All),
                    "nobody" => Ok(Recipients::Nobody),
                    _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
                }
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Recipients, E> {
                let peers = u32::try_from(number)
                    .map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))?;
                Ok(if peers == 0 { Recipients::Nobody } else { Recipients::Some(peers as usize) })
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Recipients, E> {
                let number =
                    u64::try_from(number).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))?;
                self.visit_u64(number)
            }
        }
        deserializer.deserialize_any(Form)
    }
}

impl JsonSchema for Recipients {
    fn schema_name() -> Cow<'static, str> {
        "Recipients".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The peers that get a transaction unasked, or how many of them.",
            "anyOf": [{ "enum": ["all", "nobody"] }, { "type": "integer", "minimum": 0 }]
        })
    }
}
