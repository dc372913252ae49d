//! Strings of bytes with serde, for `#[serde(with = "samara_engine::octets")]`: hexadecimal digits in
//! formats that people read, plain bytes in others.

use std::fmt::{self, Write as _};
use std::marker::PhantomData;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserializer, Serializer};

/// Writes bytes: two hexadecimal digits for each, or as they are.
///
/// # Errors
/// Returns the errors of the serializer.
pub fn serialize<T: AsRef<[u8]> + ?Sized, S: Serializer>(
    bytes: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let bytes = bytes.as_ref();
    if !serializer.is_human_readable() {
        return serializer.serialize_bytes(bytes);
    }
    let mut digits = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing into a string cannot fail.
        let _ = write!(digits, "{byte:02x}");
    }
    serializer.serialize_str(&digits)
}

/// Reads bytes that [`serialize`] wrote.
///
/// # Errors
/// Returns an error if they are no bytes, or do not fit the type.
pub fn deserialize<'de, T: TryFrom<Vec<u8>>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let visitor = Octets(PhantomData);
    if deserializer.is_human_readable() {
        deserializer.deserialize_str(visitor)
    } else {
        deserializer.deserialize_byte_buf(visitor)
    }
}

struct Octets<T>(PhantomData<T>);

impl<T: TryFrom<Vec<u8>>> Visitor<'_> for Octets<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes of the right number, or their hexadecimal digits")
    }

    fn visit_str<E: Error>(self, digits: &str) -> Result<T, E> {
        let digit = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
        let byte = |pair: &[u8]| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        };
        let bytes = digits.as_bytes().chunks(2).map(byte).collect::<Option<Vec<u8>>>();
        let bytes = bytes.and_then(|bytes| T::try_from(bytes).ok());
        bytes.ok_or_else(|| E::invalid_value(Unexpected::Str(digits), &self))
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<T, E> {
        self.visit_byte_buf(bytes.to_vec())
    }

    fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<T, E> {
        let found = bytes.len();
        T::try_from(bytes).map_err(|_| E::invalid_length(found, &self))
    }
}
