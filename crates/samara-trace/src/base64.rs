//! Bytes in JSON as Go writes them: standard base64 with padding; nothing where there are none.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serializer};

pub(crate) fn is_empty(bytes: &Option<Vec<u8>>) -> bool {
    bytes.as_ref().is_none_or(Vec::is_empty)
}

fn decode<E: serde::de::Error>(text: &str) -> Result<Vec<u8>, E> {
    STANDARD.decode(text).map_err(|error| E::custom(format!("\"{text}\" is no base64: {error}")))
}

/// A field that may be missing.
pub(crate) mod optional {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        bytes: &Option<Vec<u8>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes.as_deref().unwrap_or_default()))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(source: D) -> Result<Option<Vec<u8>>, D::Error> {
        Option::<String>::deserialize(source)?.map(|text| decode(&text)).transpose()
    }
}

/// A list.
pub(crate) mod repeated {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(list: &[Vec<u8>], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(list.iter().map(|bytes| STANDARD.encode(bytes)))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(source: D) -> Result<Vec<Vec<u8>>, D::Error> {
        // A nil slice within a slice is `null` in Go.
        let list = Option::<Vec<Option<String>>>::deserialize(source)?.unwrap_or_default();
        list.iter().map(|text| decode(text.as_deref().unwrap_or_default())).collect()
    }
}
