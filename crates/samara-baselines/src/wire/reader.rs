//! Reading.

use bytes::{Buf, Bytes};
use thiserror::Error;

use super::write::{BYTES, FIXED64, VARINT};

/// A frame that cannot be read: where, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{field}: {kind}; the frame is refused")]
pub struct WireError {
    /// The field, for example `publish.seqno`.
    pub field: &'static str,
    /// What is wrong.
    pub kind: WireErrorKind,
}

/// What is wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WireErrorKind {
    /// The field ends after its container.
    #[error("cut short: {needed} bytes needed, {available} left")]
    Truncated {
        /// Bytes needed.
        needed: u64,
        /// Bytes left.
        available: usize,
    },
    /// A varint of more than 10 bytes, or beyond 64 bits.
    #[error("found a varint that does not fit 64 bits")]
    VarintTooLong,
    /// A known field with another wire type than it has, or a wire type that does not exist.
    #[error("found wire type {found}, expected {expected}")]
    WireType {
        /// Wire type found.
        found: u8,
        /// Wire type expected.
        expected: &'static str,
    },
    /// A length that the field cannot have.
    #[error("found {found} bytes, expected {expected}")]
    Length {
        /// Bytes found.
        found: usize,
        /// Bytes expected.
        expected: &'static str,
    },
    /// A name that is not UTF-8.
    #[error("not UTF-8")]
    NotUtf8,
    /// A field that must be there is not.
    #[error("missing")]
    Missing,
    /// A number that does not fit.
    #[error("found {found}, expected at most {max}")]
    OutOfRange {
        /// The number.
        found: u64,
        /// The largest.
        max: u64,
    },
    /// A field that this crate does not support.
    #[error("not supported")]
    Unsupported,
}

impl WireErrorKind {
    pub(crate) fn at(self, field: &'static str) -> WireError {
        WireError { field, kind: self }
    }
}

/// One field of a message.
pub(crate) struct Field {
    pub(crate) number: u64,
    pub(crate) value: Value,
}

/// Its value, by wire type.
pub(crate) enum Value {
    Varint(u64),
    Fixed64(u64),
    Fixed32,
    Bytes(Bytes),
}

/// Reads the fields of a message, one after another. Bytes are not copied.
pub(crate) struct Reader {
    name: &'static str,
    rest: Bytes,
}

impl Reader {
    /// `name` stands for the message in errors.
    pub(crate) fn new(name: &'static str, bytes: Bytes) -> Self {
        Self { name, rest: bytes }
    }

    pub(crate) fn next(&mut self) -> Result<Option<Field>, WireError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        self.field().map(Some).map_err(|kind| kind.at(self.name))
    }

    fn field(&mut self) -> Result<Field, WireErrorKind> {
        let tag = self.varint()?;
        let value = match (tag & 7) as u8 {
            VARINT => Value::Varint(self.varint()?),
            FIXED64 => Value::Fixed64(self.take(8)?.get_u64_le()),
            BYTES => {
                let len = self.varint()?;
                Value::Bytes(self.take(len)?)
            }
            // Nothing of these formats has 32 bits; unknown fields may.
            5 => self.take(4).map(|_| Value::Fixed32)?,
            found => return Err(WireErrorKind::WireType { found, expected: "0, 1, 2 or 5" }),
        };
        Ok(Field { number: tag >> 3, value })
    }

    /// Reads a bare varint, as packed lists hold them; `None` at the end.
    pub(crate) fn next_varint(&mut self) -> Result<Option<u64>, WireError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        self.varint().map(Some).map_err(|kind| kind.at(self.name))
    }

    fn varint(&mut self) -> Result<u64, WireErrorKind> {
        let mut value = 0;
        for at in 0..10 {
            let [byte] = self.take(1)?[..] else { break };
            if at == 9 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(WireErrorKind::VarintTooLong)
    }

    fn take(&mut self, len: u64) -> Result<Bytes, WireErrorKind> {
        let available = self.rest.len();
        match usize::try_from(len) {
            Ok(len) if len <= available => Ok(self.rest.split_to(len)),
            _ => Err(WireErrorKind::Truncated { needed: len, available }),
        }
    }
}

impl Value {
    fn wire_type(&self) -> u8 {
        match self {
            Self::Varint(_) => VARINT,
            Self::Fixed64(_) => FIXED64,
            Self::Bytes(_) => BYTES,
            Self::Fixed32 => 5,
        }
    }

    pub(crate) fn bytes(self, field: &'static str) -> Result<Bytes, WireError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            other => Err(WireErrorKind::WireType { found: other.wire_type(), expected: "2" }.at(field)),
        }
    }

    pub(crate) fn text(self, field: &'static str) -> Result<crate::Topic, WireError> {
        let bytes = self.bytes(field)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| WireErrorKind::NotUtf8.at(field))?;
        Ok(crate::Topic::new(text))
    }

    pub(crate) fn varint(self, field: &'static str) -> Result<u64, WireError> {
        match self {
            Self::Varint(value) => Ok(value),
            other => Err(WireErrorKind::WireType { found: other.wire_type(), expected: "0" }.at(field)),
        }
    }

    pub(crate) fn fixed64(self, field: &'static str) -> Result<u64, WireError> {
        match self {
            Self::Fixed64(value) => Ok(value),
            other => Err(WireErrorKind::WireType { found: other.wire_type(), expected: "1" }.at(field)),
        }
    }

    pub(crate) fn uint32(self, field: &'static str) -> Result<u32, WireError> {
        let found = self.varint(field)?;
        u32::try_from(found)
            .map_err(|_| WireErrorKind::OutOfRange { found, max: u64::from(u32::MAX) }.at(field))
    }
}
