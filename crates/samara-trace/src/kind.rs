//! What else JSON from Go can look like.

use std::fmt;

use serde::de::Unexpected;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The names of the types in the protobuf, by number.
const NAMES: [&str; 13] = [
    "PUBLISH_MESSAGE",
    "REJECT_MESSAGE",
    "DUPLICATE_MESSAGE",
    "DELIVER_MESSAGE",
    "ADD_PEER",
    "REMOVE_PEER",
    "RECV_RPC",
    "SEND_RPC",
    "DROP_RPC",
    "JOIN",
    "LEAVE",
    "GRAFT",
    "PRUNE",
];

impl crate::Type {
    /// Its name in the protobuf, for example `DELIVER_MESSAGE`.
    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }
}

pub(crate) fn serialize<S: Serializer>(kind: &Option<i32>, serializer: S) -> Result<S::Ok, S::Error> {
    kind.serialize(serializer)
}

/// The type is a number in what Go's `encoding/json` writes; its reader also takes the name.
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
            match NAMES.iter().position(|known| *known == name) {
                Some(at) => Ok(Some(at as i32)),
                None => Err(E::invalid_value(Unexpected::Str(name), &self)),
            }
        }
        fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
    }
    source.deserialize_any(Visitor)
}

/// A nil slice is `null` in Go, where it is not left out.
pub(crate) fn null_as_empty<'de, D, T>(source: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::<Vec<T>>::deserialize(source)?.unwrap_or_default())
}
