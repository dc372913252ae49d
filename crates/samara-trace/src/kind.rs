//! What else JSON from Go can look like.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The type is a number in what Go's `encoding/json` writes; its reader also takes the name.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Number(i32),
    Name(String),
}

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

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(source: D) -> Result<Option<i32>, D::Error> {
    match Option::<Written>::deserialize(source)? {
        None => Ok(None),
        Some(Written::Number(number)) => Ok(Some(number)),
        Some(Written::Name(name)) => match NAMES.iter().position(|known| *known == name) {
            Some(at) => Ok(Some(at as i32)),
            None => Err(serde::de::Error::custom(format!("\"{name}\" is not a type of event"))),
        },
    }
}

/// A nil slice is `null` in Go, where it is not left out.
pub(crate) fn null_as_empty<'de, D, T>(source: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::<Vec<T>>::deserialize(source)?.unwrap_or_default())
}
