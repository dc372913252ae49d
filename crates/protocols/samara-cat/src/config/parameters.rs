//! The section of a file with the parameters of a pool: a preset, and the keys that differ from it.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use samara_engine::settings::{Form, Given, Overlay, Section, Settings};
use samara_engine::units::{Size, Span, deserialize_text};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Announce, Bundles, CompactBlocks, Config, Hint, Inline, Jitter, Preset, Recipients, Timeout};

/// The parameters of the transaction pools in a file.
pub type Parameters = Overlay<FileConfig>;

samara_engine::section! {
    /// Parameters of the transaction pools: a preset and the deviations from it.
    #[derive(Clone, Debug)]
    pub struct FileConfig {
        /// The preset for all values not set here.
        pub preset: Preset => preset,
        /// The configuration of the engine, apart from bundles and blocks.
        pub config: Config => ..,
        /// Time for which own transactions are collected into a bundle under one key; 0 for no
        /// bundles.
        pub bundle_window: Option<Span> => bundle_window,
        /// Maximum number of transactions in a bundle (default 64).
        #[range(Bundles::TXS)]
        pub bundle_txs: Option<usize> => bundle_txs,
        /// Whether proposed blocks are sent as lists of keys, which needs `pool.consensus`.
        pub compact_blocks: Option<bool> => compact_blocks,
    }
}

/// Returns the key of [`Parameters`] that sets a field of [`Config`], given the name in
/// [`ConfigError`](super::ConfigError).
pub fn key_of(field: &str) -> Option<String> {
    Config::key_of(field).or(match field {
        "bundles.txs_max" => Some("bundle_txs".to_owned()),
        "bundles.window" => Some("bundle_window".to_owned()),
        _ => None,
    })
}

/// Default maximum number of transactions in a bundle: the capacity of a list of keys.
const BUNDLE_TXS: usize = 64;
/// Maximum size of a bundle in bytes. A send queue of one message should not be blocked for long.
const BUNDLE_BYTES: usize = 256 * 1024;
/// Number of compact blocks kept.
const BLOCKS_KEPT: usize = 4;

impl From<Preset> for FileConfig {
    fn from(preset: Preset) -> Self {
        Self { preset, config: preset.config(), bundle_window: None, bundle_txs: None, compact_blocks: None }
    }
}

impl Default for FileConfig {
    fn default() -> Self {
        Preset::default().into()
    }
}

impl Section for FileConfig {
    const WRITTEN: &'static [&'static str] = &["preset"];

    fn apply_preset(&mut self) {
        *self = self.preset.into();
    }

    fn settle(&mut self, given: &Given) {
        if given.has("sticky_peers") && !given.has("announce") {
            self.config.announce = Announce::Sticky;
        }
    }

    fn fill(&mut self) {
        let bundles = self.config.bundles;
        let window = *self
            .bundle_window
            .get_or_insert_with(|| bundles.map_or_else(Span::default, |own| Span::of(&own.window)));
        if window != Span::default() {
            self.bundle_txs.get_or_insert_with(|| bundles.map_or(BUNDLE_TXS, |own| own.txs_max));
        }
        self.compact_blocks.get_or_insert(self.config.compact_blocks.is_some());
    }
}

impl FileConfig {
    /// Returns the engine's configuration. `consensus` is the time between proposal and commit of a
    /// block.
    pub fn build(&self, consensus: Duration) -> Config {
        let mut config = self.config.clone();
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

impl Form<Inline> for Size {
    fn put(self, inline: &mut Inline) {
        let most = usize::try_from(self.bytes()).unwrap_or(usize::MAX);
        *inline = if most == 0 { Inline::Never } else { Inline::UpTo(most) };
    }

    fn of(inline: &Inline) -> Self {
        match inline {
            Inline::UpTo(most) => Self::from_bytes(*most as u64),
            Inline::Never | Inline::WhereItWins => Self::from_bytes(0),
        }
    }

    fn states(inline: &Inline) -> bool {
        *inline != Inline::WhereItWins
    }
}

impl Form<Jitter> for Span {
    fn put(self, jitter: &mut Jitter) {
        let max = self.duration();
        *jitter = if max.is_zero() { Jitter::None } else { Jitter::Timer { max } };
    }

    fn of(jitter: &Jitter) -> Self {
        match jitter {
            Jitter::Timer { max } => Self::of(max),
            Jitter::None | Jitter::Sleep { .. } => Self::default(),
        }
    }

    fn states(jitter: &Jitter) -> bool {
        !matches!(jitter, Jitter::Sleep { .. })
    }
}

impl Form<Hint> for Span {
    fn put(self, hint: &mut Hint) {
        let wait = self.duration();
        *hint = match hint {
            _ if wait.is_zero() => Hint::None,
            Hint::From { .. } => Hint::From { wait },
            Hint::None | Hint::Short { .. } => Hint::Short { wait_max: wait },
        };
    }

    fn of(hint: &Hint) -> Self {
        match hint {
            Hint::None => Self::default(),
            Hint::From { wait } | Hint::Short { wait_max: wait } => Self::of(wait),
        }
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
