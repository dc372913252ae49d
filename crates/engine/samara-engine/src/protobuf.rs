//! Protobuf, field by field: shared parts of the engines' wire formats.
//!
//! The engines read and write their messages by hand. A generated codec cannot compute a length
//! without the message, copies the bytes that it reads, drops unknown fields, and allocates before
//! a bound can be checked. The shared part is small:
//!
//! - [`Reader`], a cursor over the fields of a message. It never reads beyond its message, never
//!   copies, and allocates nothing.
//! - [`WireError`], which names the position in the frame and the fault.
//! - [`Writer`], which lets one function of a message both write it and compute its length.
//! - [`varint_len`], [`put_varint`] and the [wire types](VARINT).

use std::ops::Range;

use bytes::{BufMut, Bytes};
use thiserror::Error;

/// A cursor over the unread part of a message inside a frame.
///
/// Call [`head`](Self::head) until it returns `None`. After each head, read the value
/// ([`number`](Self::number), [`fixed64`](Self::fixed64), [`bytes`](Self::bytes),
/// [`short`](Self::short), [`message`](Self::message)) or skip it ([`skip`](Self::skip)). These
/// methods take the field's name for errors. They fail if the field has another wire type or is
/// truncated, or if a varint does not fit 64 bits.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    frame: &'a Bytes,
    at: usize,
    end: usize,
    path: &'static str,
}

/// The head of a field: its number and wire type.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    number: u32,
    wire_type: u8,
    start: usize,
}

impl Head {
    /// Returns the number of the field.
    pub const fn number(self) -> u32 {
        self.number
    }

    /// Returns the offset of the head in the frame.
    pub const fn start(self) -> usize {
        self.start
    }

    /// Returns true if the value is a varint.
    pub const fn is_varint(self) -> bool {
        self.wire_type == VARINT
    }
}

impl<'a> Reader<'a> {
    /// Creates a reader of a whole frame; `path` is its name in errors.
    pub fn new(frame: &'a Bytes, path: &'static str) -> Self {
        Self { frame, at: 0, end: frame.len(), path }
    }

    /// Returns the name of the message.
    pub const fn path(&self) -> &'static str {
        self.path
    }

    /// Returns the offset of the next byte in the frame.
    pub const fn offset(&self) -> usize {
        self.at
    }

    /// Reads the head of the next field. Returns `None` at the end of the message.
    pub fn head(&mut self) -> Result<Option<Head>, WireError> {
        if self.at == self.end {
            return Ok(None);
        }
        let start = self.at;
        let tag = self.varint(self.path)?;
        let (number, wire_type) = ((tag >> 3) as u32, (tag & 7) as u8);
        if tag > u64::from(u32::MAX) || number == 0 {
            return Err(WireErrorKind::FieldNumber.at(self.path, start));
        }
        Ok(Some(Head { number, wire_type, start }))
    }

    /// Reads the value of a varint field.
    pub fn number(&mut self, head: Head, path: &'static str) -> Result<u64, WireError> {
        expect(head, path, VARINT)?;
        self.varint(path)
    }

    /// Reads the value of a `fixed64` field.
    pub fn fixed64(&mut self, head: Head, path: &'static str) -> Result<u64, WireError> {
        expect(head, path, FIXED64)?;
        let range = self.advance(8, path)?;
        Ok(self.frame[range].iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// Reads the next value of a packed list of varints, which [`message`](Self::message) opens as
    /// if it were a message. Returns `None` at its end.
    pub fn packed(&mut self) -> Result<Option<u64>, WireError> {
        if self.at == self.end { Ok(None) } else { self.varint(self.path).map(Some) }
    }

    /// Opens a nested message.
    pub fn message(&mut self, head: Head, path: &'static str) -> Result<Self, WireError> {
        let range = self.range(head, path)?;
        Ok(Self { frame: self.frame, at: range.start, end: range.end, path })
    }

    /// Reads the value of a field of bytes without copying. It ends at [`offset`](Self::offset).
    pub fn bytes(&mut self, head: Head, path: &'static str) -> Result<Bytes, WireError> {
        let range = self.range(head, path)?;
        Ok(self.frame.slice(range))
    }

    /// Reads the value of a field of at most `max` bytes. Errors name the bound `limit`.
    pub fn short(
        &mut self,
        head: Head,
        path: &'static str,
        limit: &'static str,
        max: usize,
    ) -> Result<&'a [u8], WireError> {
        let range = self.range(head, path)?;
        if range.len() > max {
            let kind = WireErrorKind::Limit { limit, found: range.len() as u64, max };
            return Err(kind.at(path, range.start));
        }
        Ok(&self.frame[range])
    }

    /// Skips a field. Returns its range in the frame, including the head.
    pub fn skip(&mut self, head: Head) -> Result<Range<usize>, WireError> {
        let path = self.path;
        match head.wire_type {
            VARINT => self.varint(path).map(drop)?,
            FIXED64 => self.advance(8, path).map(drop)?,
            BYTES => self.range(head, path).map(drop)?,
            FIXED32 => self.advance(4, path).map(drop)?,
            found => return Err(WireErrorKind::Unsupported { found }.at(path, head.start)),
        }
        Ok(head.start..self.at)
    }

    fn range(&mut self, head: Head, path: &'static str) -> Result<Range<usize>, WireError> {
        expect(head, path, BYTES)?;
        let len = self.varint(path)?;
        self.advance(len, path)
    }

    fn advance(&mut self, len: u64, path: &'static str) -> Result<Range<usize>, WireError> {
        let available = self.end - self.at;
        if len > available as u64 {
            return Err(WireErrorKind::Truncated { needed: len, available }.at(path, self.at));
        }
        let start = self.at;
        self.at += len as usize;
        Ok(start..self.at)
    }

    fn varint(&mut self, path: &'static str) -> Result<u64, WireError> {
        let start = self.at;
        let mut value = 0u64;
        for (index, byte) in self.frame[start..self.end].iter().take(10).enumerate() {
            // The tenth byte holds only the 64th bit.
            if index == 9 && *byte > 1 {
                return Err(WireErrorKind::VarintTooLong.at(path, start));
            }
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                self.at = start + index + 1;
                return Ok(value);
            }
        }
        let available = self.end - start;
        Err(WireErrorKind::Truncated { needed: available as u64 + 1, available }.at(path, start))
    }
}

fn expect(head: Head, path: &'static str, expected: u8) -> Result<(), WireError> {
    let found = head.wire_type;
    if found == expected {
        return Ok(());
    }
    Err(WireErrorKind::WireType { found, expected }.at(path, head.start))
}

// ---- varints and wire types (protobuf encoding: "Base 128 Varints", "Message Structure") ----

/// The wire type of numbers of variable length.
pub const VARINT: u8 = 0;
/// The wire type of numbers of 8 bytes.
pub const FIXED64: u8 = 1;
/// The wire type of bytes, strings, nested messages and packed lists.
pub const BYTES: u8 = 2;
/// The wire type of numbers of 4 bytes.
const FIXED32: u8 = 5;

/// Returns the length of a varint in bytes: 1 to 10.
pub const fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Writes a varint. Panics if `out` is full: it needs [`varint_len`] bytes. A `Vec` grows.
pub fn put_varint(out: &mut impl BufMut, mut value: u64) {
    while value >= 0x80 {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

// ---- writing ----

/// Writes fields, or only counts their bytes: one function of a message does both. All field
/// numbers are below 16, so that a tag is one byte.
#[derive(Debug)]
pub struct Writer<'a, B> {
    out: Option<&'a mut B>,
    counted: usize,
}

impl<'a, B: BufMut> Writer<'a, B> {
    /// Creates a writer into a buffer. Writing panics if the buffer is full; a `Vec` grows.
    pub fn new(out: &'a mut B) -> Self {
        Self { out: Some(out), counted: 0 }
    }

    /// Returns the number of bytes that `write` writes. Allocates nothing.
    pub fn count(write: impl FnOnce(&mut Self)) -> usize {
        let mut counter = Self { out: None, counted: 0 };
        write(&mut counter);
        counter.counted
    }

    /// Writes bytes unchanged, for example fields that arrived encoded.
    #[inline]
    pub fn slice(&mut self, bytes: &[u8]) {
        match &mut self.out {
            Some(out) => out.put_slice(bytes),
            None => self.counted += bytes.len(),
        }
    }

    #[inline]
    fn varint(&mut self, value: u64) {
        match &mut self.out {
            Some(out) => put_varint(*out, value),
            None => self.counted += varint_len(value),
        }
    }

    fn tag(&mut self, number: u32, wire_type: u8) {
        debug_assert!(number < 16, "field number {number} does not fit a tag of one byte");
        self.slice(&[(number as u8) << 3 | wire_type]);
    }

    /// Writes a field with a varint.
    pub fn number(&mut self, number: u32, value: u64) {
        self.tag(number, VARINT);
        self.varint(value);
    }

    /// Writes a field of bytes.
    pub fn bytes(&mut self, number: u32, bytes: &[u8]) {
        self.tag(number, BYTES);
        self.varint(bytes.len() as u64);
        self.slice(bytes);
    }

    /// Writes a nested message; `write` writes its fields.
    pub fn message(&mut self, number: u32, write: impl Fn(&mut Self)) {
        self.tag(number, BYTES);
        let (out, before) = (self.out.take(), std::mem::take(&mut self.counted));
        write(self);
        let len = std::mem::replace(&mut self.counted, before);
        self.out = out;
        self.varint(len as u64);
        match &self.out {
            Some(_) => write(self),
            None => self.counted += len,
        }
    }
}

// ---- errors ----

/// An unreadable frame: the field, its offset, and the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{path}, at byte {offset}: {kind}")]
pub struct WireError {
    /// The name of the field, for example `seen_tx.tx_key`.
    pub path: &'static str,
    /// The offset in the frame, without its length prefix.
    pub offset: usize,
    /// The kind of fault.
    pub kind: WireErrorKind,
}

/// The fault in a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WireErrorKind {
    /// The field extends beyond the end of its message.
    #[error("truncated: {needed} bytes needed, {available} left")]
    Truncated {
        /// Number of bytes needed.
        needed: u64,
        /// Number of bytes left.
        available: usize,
    },
    /// A varint of more than 10 bytes, or beyond 64 bits.
    #[error("the varint does not fit 64 bits")]
    VarintTooLong,
    /// A tag beyond 32 bits, or with field number 0.
    #[error("the field number is out of range")]
    FieldNumber,
    /// A known field with an unexpected wire type.
    #[error("found wire type {found}, expected {expected}")]
    WireType {
        /// The wire type in the frame.
        found: u8,
        /// The wire type of the field.
        expected: u8,
    },
    /// A group (wire types 3 and 4), or wire type 6 or 7.
    #[error("wire type {found} is not supported")]
    Unsupported {
        /// The wire type in the frame.
        found: u8,
    },
    /// A length that is not allowed for the field.
    #[error("found {found} bytes, expected {expected}")]
    Length {
        /// Number of bytes found.
        found: usize,
        /// Description of the allowed lengths.
        expected: &'static str,
    },
    /// A required field is missing.
    #[error("missing")]
    Missing,
    /// A known field that this reader does not accept.
    #[error("not supported")]
    Refused,
    /// A name that is not UTF-8.
    #[error("not UTF-8")]
    NotUtf8,
    /// A number without a meaning, for example an unknown variant.
    #[error("unknown value {found}")]
    Unknown {
        /// The value in the frame.
        found: u64,
    },
    /// Bytes after the last field, in a format without other fields.
    #[error("{found} unexpected bytes after the last field")]
    Trailing {
        /// Number of bytes left.
        found: usize,
    },
    /// A number or a count beyond the maximum of the format.
    #[error("found {found}, expected at most {max}")]
    Exceeds {
        /// The number in the frame.
        found: u64,
        /// The largest allowed number.
        max: u64,
    },
    /// A message of no known kind.
    #[error("the message is of no known kind")]
    NoKind,
    /// A length or count beyond a configurable limit.
    #[error("found {found}, but the limit {limit} allows at most {max}")]
    Limit {
        /// The name of the limit: a field of the format's `Limits`.
        limit: &'static str,
        /// The length found; for counts, the first one beyond the limit.
        found: u64,
        /// The maximum that the limit allows.
        max: usize,
    },
}

impl WireErrorKind {
    /// Returns this error for a field at an offset in the frame.
    pub const fn at(self, path: &'static str, offset: usize) -> WireError {
        WireError { path, offset, kind: self }
    }
}
