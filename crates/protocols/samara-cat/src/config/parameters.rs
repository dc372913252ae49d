//! The parameters of the pools in a configuration file: a preset and the deviations from it.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use samara_engine::parameters;
use samara_engine::units::{Size, Span, deserialize_text};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{
    Announce, Bundles, Choice, CompactBlocks, Config, Hint, Inline, Jitter, Preset, Recipients, Timeout,
};
use crate::pool::Order;

parameters! {
    /// Parameters of the transaction pools: a preset and the deviations from it.
    Parameters for Config {
        /// The preset for all values not set here.
        preset: Preset,
    } and {
        /// The peers that get unrequested copies of transactions submitted to this node: "all",
        /// "nobody", or a number of peers.
        push: Recipients => push;
        /// The peers that get unrequested copies of other nodes' transactions. A number forms
        /// neighbourhoods.
        forward: Recipients => forward;
        /// Whether queued bodies are withdrawn once the peer turns out to have them.
        withdraw: bool => withdraw;
        /// Whether nodes accept bodies that they did not request.
        take_unrequested: bool => take_unrequested;
        /// The peers that get announcements of new transactions.
        announce: Announce => announce;
        /// Number of peers that get announcements, if these are sticky peers.
        sticky_peers: usize => sticky.peers;
        /// Time for which announcements are collected for one frame; 0 sends each at once.
        coalesce: Span => coalesce via Span::duration;
        /// Maximum size of transactions that are sent instead of announced, to peers that
        /// understand it; 0 for none. By default, our pool does so if it takes fewer bytes.
        inline: Size;
        /// Maximum random delay of an announcement; 0 for none. Nothing else is delayed.
        jitter: Span;
        /// Maximum wait for a push that an announcement predicts: announcements name the peer that
        /// pushed the transaction, and peers that expect the same push do not request it. 0 for no
        /// such hint.
        hint: Span;
        /// Time to wait for an answer before asking another peer: a time, or "adaptive".
        timeout: Timeout => requests.timeout;
        /// Whether nodes check at a timeout if the transaction has arrived from elsewhere.
        check_presence: bool => requests.check_presence;
        /// The peer to ask next.
        choice: Choice => requests.choice;
        /// Maximum number of simultaneous requests to one peer.
        requests_per_peer: usize => requests.per_peer_max;
        /// Whether requests for missing transactions are answered.
        not_found: bool => not_found;
        /// Whether the whole pool is announced to a new peer.
        sync: bool => sync;
        /// Time for which own transactions are collected into a bundle under one key; 0 for no
        /// bundles.
        bundle_window: Span;
        /// Maximum number of transactions in a bundle (default 64).
        bundle_txs: usize;
        /// Whether proposed blocks are sent as lists of keys, which needs `pool.consensus`.
        compact_blocks: bool;
        /// Maximum number of transactions in a pool.
        capacity_txs: usize => pool.capacity_txs;
        /// Maximum total size of the transactions in a pool.
        capacity: Size => pool.capacity_bytes via Size::bytes;
        /// Number of blocks after which a transaction expires; 0 for never.
        ttl_blocks: u64 => pool.ttl_blocks;
        /// Time after which a transaction expires; 0 for never.
        ttl: Span => pool.ttl via Span::duration;
        /// Maximum number of keys in the cache of rejected and committed transactions.
        cache: usize => pool.cache_size;
        /// The order in which transactions are reaped and evicted.
        order: Order => pool.order;
        /// Maximum number of keys per peer recorded as present at the peer.
        keys_per_peer: usize => limits.keys_per_peer;
        /// Maximum number of keys per peer that the peer announced and the node lacks.
        unknown_per_peer: usize => limits.unknown_per_peer;
        /// Maximum number of keys with any state in the protocol.
        keys: usize => limits.keys;
        /// Whether peers that break the rules are disconnected.
        disconnect_misbehaving: bool => disconnect_misbehaving;
    }
}

/// Returns the key of [`Parameters`] that sets a field of [`Config`], given the name in
/// [`ConfigError`](super::ConfigError).
pub fn key_of(field: &str) -> Option<&'static str> {
    Parameters::key_of(field).or(match field {
        "bundles.txs_max" => Some("bundle_txs"),
        "bundles.window" => Some("bundle_window"),
        _ => None,
    })
}

/// Default maximum number of transactions in a bundle: the capacity of a list of keys.
const BUNDLE_TXS: usize = 64;
/// Maximum size of a bundle in bytes. A send queue of one message should not be blocked for long.
const BUNDLE_BYTES: usize = 256 * 1024;
/// Number of compact blocks kept.
const BLOCKS_KEPT: usize = 4;

impl Parameters {
    /// Returns the engine's configuration. `consensus` is the time between proposal and commit of a
    /// block.
    pub fn build(&self, consensus: Duration) -> Config {
        let mut config = self.preset.config();
        self.set(&mut config);
        if self.announce.is_none() && self.sticky_peers.is_some() {
            config.announce = Announce::Sticky;
        }
        if let Some(most) = self.inline.map(Size::bytes) {
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            config.inline = if most == 0 { Inline::Never } else { Inline::UpTo(most) };
        }
        if let Some(max) = self.jitter.map(Span::duration) {
            config.jitter = if max.is_zero() { Jitter::None } else { Jitter::Timer { max } };
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
            config.compact_blocks = on.then_some(CompactBlocks { kept: BLOCKS_KEPT, patience: consensus });
        }
        config
    }
}

impl<'de> Deserialize<'de> for Timeout {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a time with its unit, such as \"200 ms\", or \"adaptive\"";
        deserialize_text(deserializer, expected, |text| match text {
            "adaptive" => Ok(Self::ADAPTIVE),
            _ => Span::parse(text)
                .map(|span| Self::Fixed(span.duration()))
                .map_err(|error| format!("{error}, or \"adaptive\"")),
        })
    }
}

impl From<Timeout> for String {
    /// A file cannot state the parts of an adaptive timeout.
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
            "description": "The peers that get a transaction unrequested, or their number.",
            "anyOf": [{ "enum": ["all", "nobody"] }, { "type": "integer", "minimum": 0 }]
        })
    }
}
