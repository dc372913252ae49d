//! Tables whose key `kind` decides which other keys they have.

use std::fmt;

use schemars::Schema;
use schemars::transform::Transform;
use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, Visitor};

/// Declares an enum that a table of a file is read into. The key `kind` of the table selects the
/// variant, and the fields of the variant are the other keys. The kind after the name of the enum is
/// that of a table without the key.
///
/// A key of another kind is an error that names its kind. Fields have the attributes of serde, and
/// `lacks` explains why a kind does not have a key that others have; `_` stands for all others.
///
/// ```
/// samara_engine::kinds! {
///     /// A queue.
///     #[derive(Debug, PartialEq)]
///     pub enum Queue: "endless" {
///         /// Without a limit.
///         Endless = "endless" {} lacks { length: "nothing is dropped" },
///         /// With a limit.
///         Limited = "limited" {
///             /// Maximum number of elements.
///             length: u32,
///         },
///     }
/// }
///
/// # #[cfg(feature = "config")]
/// assert_eq!(Queue::KINDS[1].keys, ["kind", "length"]);
/// ```
///
/// A struct before the enum has the keys of all kinds, beside the field `kind`. One after the enum has
/// keys of several kinds, which name it after two points.
///
/// ```
/// samara_engine::kinds! {
///     /// A work.
///     pub struct Work {
///         pub title: String,
///     }
///
///     /// Kinds of works.
///     pub enum Medium {
///         Painting = "painting" { ..size: Size },
///         Statue = "statue" { ..size: Size, stone: String },
///         Song = "song" {},
///     }
///
///     /// The size of a thing.
///     pub struct Size {
///         pub height: u32,
///     }
/// }
///
/// # #[cfg(feature = "config")]
/// assert_eq!(Medium::KINDS[1].keys, ["kind", "title", "height", "stone"]);
/// ```
#[macro_export]
macro_rules! kinds {
    (
        $(#[$about:meta])*
        $vis:vis enum $type:ident $(: $default:literal)? { $($kinds:tt)* }
    ) => {
        $crate::kinds!(@kinds [$(#[$about])* $vis] $type [$($default)?] $type [] {} {} { $($kinds)* });
    };

    (
        $(#[$about:meta])*
        $vis:vis struct $table:ident {
            $($(#[$attribute:meta])* $vis_field:vis $field:ident: $field_type:ty),* $(,)?
        }

        $(#[$about_kind:meta])*
        $vis_kind:vis enum $type:ident $(: $default:literal)? { $($kinds:tt)* }

        $($(#[$about_part:meta])* $vis_part:vis struct $part:ident { $($own:tt)* })?
    ) => {
        $(#[$about])*
        #[derive(serde::Serialize, schemars::JsonSchema)]
        #[serde(deny_unknown_fields)]
        $vis struct $table {
            /// The kind, with its own keys.
            #[serde(flatten)]
            pub kind: $type,
            $($(#[$attribute])* $vis_field $field: $field_type,)*
        }
        $crate::kinds!(
            @kinds [$(#[$about_kind])* $vis_kind] $type [$($default)?] $table [$table]
            { $($(#[$attribute])* $field: $field_type,)* } { $($($own)*)? } { $($kinds)* }
        );
        $(
            $(#[$about_part])*
            #[derive(serde::Serialize, schemars::JsonSchema)]
            $vis_part struct $part { $($own)* }
        )?
    };

    (
        @kinds [$(#[$about:meta])* $vis:vis] $type:ident [$($default:literal)?] $out:ident $table:tt
        $common:tt $shared:tt
        {
            $(
                $(#[doc = $doc:expr])*
                $variant:ident = $name:literal {
                    $(..$part:ident: $Part:ident $(,)?)?
                    $($(#[$attribute:meta])* $field:ident: $kind:ty),* $(,)?
                }
                $(lacks { $($lack:tt: $why:literal),* $(,)? })?
            ),* $(,)?
        }
    ) => {
        $(#[$about])*
        #[derive(serde::Serialize, schemars::JsonSchema)]
        #[serde(tag = "kind", deny_unknown_fields)]
        $(#[schemars(transform = $crate::kinds::Optional($default))])?
        $vis enum $type {
            $(
                $(#[doc = $doc])*
                #[serde(rename = $name)]
                $variant { $(#[serde(flatten)] $part: $Part,)? $($(#[$attribute])* $field: $kind,)* },
            )*
        }

        impl $type {
            /// The kinds, each with its keys.
            pub const KINDS: &'static [$crate::kinds::Kind] = &[
                $($crate::kinds::Kind {
                    name: $name,
                    keys: $crate::kinds!(@keys $common [$($Part $shared)?] { $($field)* }),
                    lacks: &[$($((stringify!($lack), $why),)*)?],
                },)*
            ];
            const NAMES: &'static [&'static str] = &[$($name),*];

            /// Returns the name of the kind.
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $name,)*
                }
            }
        }

        impl<'de> serde::Deserialize<'de> for $out {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Table;

                impl<'de> serde::de::Visitor<'de> for Table {
                    type Value = $out;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        $crate::kinds::expecting($type::KINDS, f)
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<$out, A::Error> {
                        #[allow(unused_mut, unused_assignments)]
                        let mut default: Option<&str> = None;
                        $(default = Some($default);)?
                        let map = $crate::kinds::Keys::new(map, ($type::KINDS, $type::NAMES), default)?;
                        match map.kind() {
                            $($name => $crate::kinds!(
                                @own map $table $type $variant $common [$($part $Part $shared)?]
                                { $($(#[$attribute])* $field: $kind,)* }
                            ),)*
                            _ => unreachable!("the kind is one of them"),
                        }
                    }
                }

                static KEYS: std::sync::OnceLock<Vec<&'static str>> = std::sync::OnceLock::new();
                let keys = KEYS.get_or_init(|| $crate::kinds::all_keys($type::KINDS));
                deserializer.deserialize_struct(stringify!($out), keys, Table)
            }
        }
    };

    (
        @keys
        { $($(#[$_c:meta])* $common:ident: $_t:ty,)* }
        [$($Part:ident { $($(#[$_pa:meta])* $_pv:vis $shared:ident: $_pt:ty),* $(,)? })?]
        { $($field:ident)* }
    ) => {
        &["kind" $(, stringify!($common))* $($(, stringify!($shared))*)? $(, stringify!($field))*]
    };

    (
        @own $map:ident $table:tt $type:ident $variant:ident
        { $($(#[$of_common:meta])* $common:ident: $common_type:ty,)* }
        [$(
            $part:ident $Part:ident
            { $($(#[$of_shared:meta])* $_s:vis $shared:ident: $shared_type:ty),* $(,)? }
        )?]
        { $($(#[$attribute:meta])* $field:ident: $kind:ty,)* }
    ) => {{
        #[derive(serde::Deserialize)]
        struct Own {
            $($(#[$of_common])* $common: $common_type,)*
            $($($(#[$of_shared])* $shared: $shared_type,)*)?
            $($(#[$attribute])* $field: $kind,)*
        }

        let map = serde::de::value::MapAccessDeserializer::new($map);
        let Own { $($common,)* $($($shared,)*)? $($field,)* } = serde::Deserialize::deserialize(map)?;
        let kind = $type::$variant { $($part: $Part { $($shared),* },)? $($field,)* };
        Ok($crate::kinds!(@made $table kind $($common)*))
    }};

    (@made [] $kind:ident) => { $kind };
    (@made [$table:ident] $kind:ident $($common:ident)*) => { $table { $kind, $($common),* } };
}

/// A kind of table.
#[derive(Debug)]
pub struct Kind {
    /// The value of the key `kind`.
    pub name: &'static str,
    /// The keys that a table of this kind may have.
    pub keys: &'static [&'static str],
    /// Keys that only other kinds have, each with the reason; `_` stands for all others.
    pub lacks: &'static [(&'static str, &'static str)],
}

/// Returns the keys of all kinds, each once.
pub fn all_keys(kinds: &[Kind]) -> Vec<&'static str> {
    let mut keys = Vec::new();
    for key in kinds.iter().flat_map(|kind| kind.keys) {
        if !keys.contains(key) {
            keys.push(*key);
        }
    }
    keys
}

/// Writes what a table of such kinds looks like.
///
/// # Errors
/// Returns the errors of the formatter.
pub fn expecting(kinds: &[Kind], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "table with the keys {}", all_keys(kinds).join(", "))
}

/// The keys of a table, of which the key `kind` is read.
pub struct Keys<A> {
    map: A,
    kinds: &'static [Kind],
    kind: &'static Kind,
    /// The first key of a table without a kind.
    first: Option<&'static str>,
}

impl<'de, A: MapAccess<'de>> Keys<A> {
    /// Reads the kind of a table, which is its first key if it is there. Without it, the table is of
    /// the `default` kind.
    ///
    /// # Errors
    /// Returns an error if there is no such kind, or if none is given or the default.
    pub fn new(
        mut map: A,
        (kinds, names): (&'static [Kind], &'static [&'static str]),
        default: Option<&str>,
    ) -> Result<Self, A::Error> {
        let find = |name: &str| kinds.iter().find(|kind| kind.name == name);
        let assumed = default.and_then(find);
        let first = map.next_key_seed(Known { kinds, kind: assumed })?;
        if first == Some("kind") {
            let kind = map.next_value_seed(Named { kinds, names })?;
            return Ok(Self { map, kinds, kind, first: None });
        }
        let kind = assumed.ok_or_else(|| de::Error::missing_field("kind"))?;
        Ok(Self { map, kinds, kind, first })
    }

    /// Returns the name of the kind.
    pub fn kind(&self) -> &'static str {
        self.kind.name
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Keys<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let key = match self.first.take() {
            Some(first) => Some(first),
            None => self.map.next_key_seed(Known { kinds: self.kinds, kind: Some(self.kind) })?,
        };
        if key == Some("kind") {
            return Err(de::Error::custom("`kind` stands after other keys"));
        }
        key.map(|key| seed.deserialize(key.into_deserializer())).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

/// Reads a key that a kind has, or before the kind is known, any key, of which only `kind` matters.
struct Known {
    kinds: &'static [Kind],
    kind: Option<&'static Kind>,
}

impl<'de> DeserializeSeed<'de> for Known {
    type Value = &'static str;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<&'static str, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Known {
    type Value = &'static str;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: de::Error>(self, key: &str) -> Result<&'static str, E> {
        let Some(own) = self.kind else { return Ok(if key == "kind" { "kind" } else { "" }) };
        if let Some(known) = own.keys.iter().find(|known| **known == key) {
            return Ok(known);
        }
        let others = self.kinds.iter().filter(|kind| kind.keys.contains(&key));
        let others: Vec<String> = others.map(|kind| format!("\"{}\"", kind.name)).collect();
        let remedy = match others.as_slice() {
            [] => return Err(E::unknown_field(key, own.keys)),
            [_] => "that kind",
            _ => "one of these kinds",
        };
        let others = others.join(" or ");
        let why = own.lacks.iter().find(|(lack, _)| [key, "_"].contains(lack));
        let why = why.map_or_else(String::new, |(_, why)| format!("; {why}"));
        Err(E::custom(format_args!("belongs to kind = {others}{why}; remove it, or set {remedy}")))
    }
}

/// Reads the name of a kind.
struct Named {
    kinds: &'static [Kind],
    names: &'static [&'static str],
}

impl<'de> DeserializeSeed<'de> for Named {
    type Value = &'static Kind;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<&'static Kind, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Named {
    type Value = &'static Kind;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<&'static Kind, E> {
        let kind = self.kinds.iter().find(|kind| kind.name == name);
        kind.ok_or_else(|| E::unknown_variant(name, self.names))
    }
}

/// Makes the key `kind` optional in the schema of the default kind.
#[derive(Clone, Debug)]
pub struct Optional(pub &'static str);

impl Transform for Optional {
    fn transform(&mut self, schema: &mut Schema) {
        let kinds = schema.get_mut("oneOf").and_then(|kinds| kinds.as_array_mut());
        for kind in kinds.into_iter().flatten() {
            let is_default = kind["properties"]["kind"]["const"] == self.0;
            if let Some(required) = kind.get_mut("required").filter(|_| is_default)
                && let Some(required) = required.as_array_mut()
            {
                required.retain(|key| key != "kind");
            }
        }
    }
}
