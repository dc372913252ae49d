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

/// Declares the keys of a file: each has a type and, where it sets one field of [`Config`] by itself, that field.
macro_rules! parameters {
    ($(#[$about:meta])* $type:ident {
        $($(#[$doc:meta])* $key:ident: $kind:ty $(=> $($field:ident).+ $(via $convert:path)?)?;)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct $type {
            /// The values that are not given below.
            pub preset: Preset,
            $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $key: Option<$kind>,)*
        }

        impl $type {
            /// Sets the fields that have a key of their own.
            fn set(&self, config: &mut Config) {
                $($(
                    let value = self.$key;
                    $(let value = value.map($convert);)?
                    if let Some(value) = value {
                        config.$($field).+ = value;
                    }
                )?)*
            }
        }

        /// The key of [`Parameters`] that sets a field of [`Config`], by the name that
        /// [`ConfigError`](super::ConfigError) gives it.
        pub fn key_of(field: &str) -> Option<&'static str> {
            $($(
                if [$(stringify!($field)),+].join(".") == field {
                    return Some(stringify!($key));
                }
            )?)*
            match field {
                "bundles.txs_max" => Some("bundle_txs"),
                "bundles.window" => Some("bundle_window"),
                _ => None,
            }
        }
    };
}

parameters! {
    /// The parameters of the transaction pools: a preset and what differs from it.
    Parameters {
        /// Who gets the transactions that were submitted here, unasked: "all", "nobody", or so many peers.
        push: Recipients => push;
        /// Who gets the transactions of others, unasked. A number makes neighbourhoods.
        forward: Recipients => forward;
        /// Whether bodies that have not left are taken back once the peer turns out to have them.
        withdraw: bool => withdraw;
        /// Whether bodies that were not asked for are taken.
        take_unrequested: bool => take_unrequested;
        /// Who is told of new transactions.
        announce: Announce => announce;
        /// Announcing to sticky peers: to how many.
        sticky_peers: usize => sticky.peers;
        /// How long announcements are collected for one frame; 0 sends each at once.
        coalesce: Span => coalesce via Span::duration;
        /// The longest transactions that are sent in the place of their announcements to peers that understand that; 0 for none.
        /// If not given, our pool does so where it takes fewer bytes.
        inline: Size;
        /// How long an announcement waits at most, at random; 0 for not at all. Nothing else waits.
        jitter: Span;
        /// The longest wait for a push that an announcement tells of: announcements name the peer that pushed the transaction, and
        /// peers that are pushed it too do not ask. 0 for no such hint.
        hint: Span;
        /// How long an answer is waited for before another peer is asked: a time, or "adaptive".
        timeout: Timeout => requests.timeout;
        /// Whether it is looked up at a timeout if the transaction has come from elsewhere.
        check_presence: bool => requests.check_presence;
        /// Whom to ask next.
        choice: Choice => requests.choice;
        /// Most requests to one peer at a time.
        requests_per_peer: usize => requests.per_peer_max;
        /// Whether requests for what is not here are answered.
        not_found: bool => not_found;
        /// Whether a new peer is told of the whole pool.
        sync: bool => sync;
        /// How long own transactions are collected into a bundle under one key; 0 for no bundles.
        bundle_window: Span;
        /// Most transactions of a bundle (64).
        bundle_txs: usize;
        /// Whether proposed blocks spread by the keys of their transactions, which needs `pool.consensus`.
        compact_blocks: bool;
        /// Most transactions in a pool.
        capacity_txs: usize => pool.capacity_txs;
        /// Most bytes in a pool.
        capacity: Size => pool.capacity_bytes via Size::bytes;
        /// After how many more blocks a transaction expires; 0 for never.
        ttl_blocks: u64 => pool.ttl_blocks;
        /// After what time a transaction expires; 0 for never.
        ttl: Span => pool.ttl via Span::duration;
        /// Most keys in the cache of rejected and committed transactions.
        cache: usize => pool.cache_size;
        /// Which transactions come first, and which have to leave.
        order: Order => pool.order;
        /// Keys of which it is remembered that a peer has them, for each peer.
        keys_per_peer: usize => limits.keys_per_peer;
        /// Keys that a peer announced and that are not here, for each peer.
        unknown_per_peer: usize => limits.unknown_per_peer;
        /// Keys about which the pool keeps any state.
        keys: usize => limits.keys;
        /// Whether peers that break the rules are disconnected.
        disconnect_misbehaving: bool => disconnect_misbehaving;
    }
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
