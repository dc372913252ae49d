//! A cursor over the fields of a message.

use std::ops::Range;

use bytes::Bytes;

use super::error::{WireError, WireErrorKind};
use super::write::{BYTES, FIXED32, FIXED64, VARINT};

/// A message inside a frame: what is left of it.
///
/// Call [`head`](Self::head) until it says `None`; after each head read the value ([`number`](Self::number), [`fixed64`](Self::fixed64),
/// [`bytes`](Self::bytes), [`short`](Self::short), [`message`](Self::message)) or pass over it ([`skip`](Self::skip)). Every one of them
/// takes the field's name, which errors carry.
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
    /// The number of the field.
    pub const fn number(self) -> u32 {
        self.number
    }

    /// Where in the frame the head is.
    pub const fn start(self) -> usize {
        self.start
    }

    /// Whether the value is a varint.
    pub const fn is_varint(self) -> bool {
        self.wire_type == VARINT
    }
}

impl<'a> Reader<'a> {
    /// The message that is a frame as a whole; `path` is its name in errors.
    pub fn new(frame: &'a Bytes, path: &'static str) -> Self {
        Self { frame, at: 0, end: frame.len(), path }
    }

    /// The name of the message.
    pub const fn path(&self) -> &'static str {
        self.path
    }

    /// Where in the frame the next byte is.
    pub const fn offset(&self) -> usize {
        self.at
    }

    /// The head of the next field, `None` at the end of the message.
    ///
    /// # Errors
    /// The tag is malformed.
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

    /// The value of a varint field.
    ///
    /// # Errors
    /// It has another wire type, is cut short, or does not fit 64 bits.
    pub fn number(&mut self, head: Head, path: &'static str) -> Result<u64, WireError> {
        expect(head, path, VARINT)?;
        self.varint(path)
    }

    /// The value of a `fixed64` field.
    ///
    /// # Errors
    /// It has another wire type, or is cut short.
    pub fn fixed64(&mut self, head: Head, path: &'static str) -> Result<u64, WireError> {
        expect(head, path, FIXED64)?;
        let range = self.advance(8, path)?;
        Ok(self.frame[range].iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// The next value of a packed list of varints, which [`message`](Self::message) opens as if it were a message; `None` at its end.
    ///
    /// # Errors
    /// It is cut short, or does not fit 64 bits.
    pub fn packed(&mut self) -> Result<Option<u64>, WireError> {
        if self.at == self.end { Ok(None) } else { self.varint(self.path).map(Some) }
    }

    /// A nested message.
    ///
    /// # Errors
    /// The field has another wire type, or is cut short.
    pub fn message(&mut self, head: Head, path: &'static str) -> Result<Self, WireError> {
        let range = self.range(head, path)?;
        Ok(Self { frame: self.frame, at: range.start, end: range.end, path })
    }

    /// The value of a field of bytes, without copying. It ends at [`offset`](Self::offset).
    ///
    /// # Errors
    /// The field has another wire type, or is cut short.
    pub fn bytes(&mut self, head: Head, path: &'static str) -> Result<Bytes, WireError> {
        let range = self.range(head, path)?;
        Ok(self.frame.slice(range))
    }

    /// The value of a field of bytes that is at most `max` long, which is called `limit`.
    ///
    /// # Errors
    /// The field has another wire type, is cut short or too long.
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

    /// Passes over a field; where it is, head included.
    ///
    /// # Errors
    /// It is cut short, or of a wire type that is not supported.
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
            // The tenth byte holds the 64th bit alone.
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
