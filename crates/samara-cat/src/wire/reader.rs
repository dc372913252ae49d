//! A cursor over the fields of a protobuf message.

use std::ops::Range;

use bytes::Bytes;

use super::error::{WireError, WireErrorKind};

const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const BYTES: u8 = 2;
const FIXED32: u8 = 5;

/// A message inside a frame: what is left of it.
#[derive(Clone, Debug)]
pub(super) struct Reader<'a> {
    frame: &'a Bytes,
    pub(super) at: usize,
    end: usize,
    /// The message, for errors between fields.
    path: &'static str,
}

/// The head of a field.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) number: u32,
    wire_type: u8,
    pub(super) start: usize,
}

impl Head {
    pub(super) fn is_number(self) -> bool {
        self.wire_type == VARINT
    }
}

impl<'a> Reader<'a> {
    pub(super) fn new(frame: &'a Bytes) -> Self {
        Self { frame, at: 0, end: frame.len(), path: "message" }
    }

    /// The head of the next field, `None` at the end of the message.
    pub(super) fn head(&mut self) -> Result<Option<Head>, WireError> {
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

    fn expect(
        &self,
        head: Head,
        path: &'static str,
        known: u8,
        expected: &'static str,
    ) -> Result<(), WireError> {
        if head.wire_type == known {
            return Ok(());
        }
        Err(WireErrorKind::WireType { found: head.wire_type, expected }.at(path, head.start))
    }

    /// The value of a varint field.
    pub(super) fn number(&mut self, head: Head, path: &'static str) -> Result<u64, WireError> {
        self.expect(head, path, VARINT, "0")?;
        self.varint(path)
    }

    /// The value of a `fixed64` field.
    pub(super) fn fixed64(&mut self, head: Head, path: &'static str) -> Result<u64, WireError> {
        self.expect(head, path, FIXED64, "1")?;
        let range = self.advance(8, path)?;
        let bytes = &self.frame[range];
        Ok(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// A nested message.
    pub(super) fn message(&mut self, head: Head, path: &'static str) -> Result<Self, WireError> {
        let range = self.range(head, path)?;
        Ok(Self { frame: self.frame, at: range.start, end: range.end, path })
    }

    /// The value of a field of bytes, without copying, and where it starts.
    pub(super) fn bytes(&mut self, head: Head, path: &'static str) -> Result<(Bytes, usize), WireError> {
        let range = self.range(head, path)?;
        let start = range.start;
        Ok((self.frame.slice(range), start))
    }

    fn range(&mut self, head: Head, path: &'static str) -> Result<Range<usize>, WireError> {
        self.expect(head, path, BYTES, "2")?;
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

    /// Passes over a field.
    pub(super) fn skip(&mut self, head: Head) -> Result<(), WireError> {
        let path = self.path;
        match head.wire_type {
            VARINT => self.varint(path).map(drop),
            FIXED64 => self.advance(8, path).map(drop),
            BYTES => self.range(head, path).map(drop),
            FIXED32 => self.advance(4, path).map(drop),
            found => Err(WireErrorKind::Unsupported { found }.at(path, head.start)),
        }
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
        if available >= 10 {
            return Err(WireErrorKind::VarintTooLong.at(path, start));
        }
        Err(WireErrorKind::Truncated { needed: available as u64 + 1, available }.at(path, start))
    }
}
