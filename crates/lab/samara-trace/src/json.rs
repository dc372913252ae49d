//! JSON as Go's `encoding/json` writes and reads it: bytes are base64 with padding, and a nil slice
//! is `null`.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::Unexpected;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Type;

pub(crate) fn is_empty(bytes: &Option<Vec<u8>>) -> bool {
    bytes.as_ref().is_none_or(Vec::is_empty)
}

fn decode<E: serde::de::Error>(text: &str) -> Result<Vec<u8>, E> {
    STANDARD.decode(text).map_err(|error| E::custom(format!("\"{text}\" is not base64: {error}")))
}

pub(crate) mod optional {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(bytes: &Option<Vec<u8>>, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(bytes.as_deref().unwrap_or_default()))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(source: D) -> Result<Option<Vec<u8>>, D::Error> {
        Option::<String>::deserialize(source)?.map(|text| decode(&text)).transpose()
    }
}

pub(crate) mod repeated {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(list: &[Vec<u8>], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(list.iter().map(|bytes| STANDARD.encode(bytes)))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(source: D) -> Result<Vec<Vec<u8>>, D::Error> {
        // Go writes a nil slice within a slice as `null`.
        let list = Option::<Vec<Option<String>>>::deserialize(source)?.unwrap_or_default();
        list.iter().map(|text| decode(text.as_deref().unwrap_or_default())).collect()
    }
}

pub(crate) mod kind {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(kind: &Option<i32>, serializer: S) -> Result<S::Ok, S::Error> {
        kind.serialize(serializer)
    }

    /// Reads a type, which Go's `encoding/json` writes as a number. Its reader also accepts the
    /// name.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(source: D) -> Result<Option<i32>, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Option<i32>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the number or the name of a type of event, such as 3 or \"DELIVER_MESSAGE\"")
            }
            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Self::Value, E> {
                let unknown = || E::invalid_value(Unexpected::Unsigned(number), &self);
                i32::try_from(number).map(Some).map_err(|_| unknown())
            }
            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Self::Value, E> {
                match Type::of_name(name) {
                    Some(kind) => Ok(Some(kind as i32)),
                    None => Err(E::invalid_value(Unexpected::Str(name), &self)),
                }
            }
            fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
                Ok(None)
            }
        }
        source.deserialize_any(Visitor)
    }
}

/// Reads a list, which Go writes as `null` if the slice is nil and not omitted.
pub(crate) fn null_as_empty<'de, D, T>(source: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::<Vec<T>>::deserialize(source)?.unwrap_or_default())
}
