//! A cursor over the fields of a protobuf message.

use std::ops::Range;

use bytes::Bytes;

use super::error::{WireError, WireErrorKind};

pub(super) const VARINT: u8 = 0;
const FIXED64: u8 = 1;
pub(super) const BYTES: u8 = 2;
const FIXED32: u8 = 5;

/// A message inside a frame: what is left of it.
#[derive(Clone, Debug)]
pub(super) struct Reader<'a> {
    frame: &'a Bytes,
    at: usize,
    end: usize,
    /// The message, for errors between fields.
    pub(super) path: &'static str,
}

/// The head of a field.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) number: u32,
    wire_type: u8,
    start: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(frame: &'a Bytes) -> Self {
        Self { frame, at: 0, end: frame.len(), path: "rpc" }
    }

    pub(super) fn error<T>(&self, path: &'static str, kind: WireErrorKind) -> Result<T, WireError> {
        Err(WireError { path, offset: self.at, kind })
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
            self.at = start;
            return self.error(self.path, WireErrorKind::FieldNumber);
        }
        Ok(Some(Head { number, wire_type, start }))
    }

    fn expect(&self, head: Head, path: &'static str, expected: u8) -> Result<(), WireError> {
        let found = head.wire_type;
        if found == expected {
            return Ok(());
        }
        Err(WireError { path, offset: head.start, kind: WireErrorKind::WireType { found, expected } })
    }

    /// The value of a varint field.
    pub(super) fn number(&mut self, head: Head, path: &'static str) -> Result<u64, WireError> {
        self.expect(head, path, VARINT)?;
        self.varint(path)
    }

    /// A nested message.
    pub(super) fn message(&mut self, head: Head, path: &'static str) -> Result<Self, WireError> {
        let range = self.range(head, path)?;
        Ok(Self { frame: self.frame, at: range.start, end: range.end, path })
    }

    /// The value of a field of bytes, without copying.
    pub(super) fn bytes(&mut self, head: Head, path: &'static str) -> Result<Bytes, WireError> {
        let range = self.range(head, path)?;
        Ok(self.frame.slice(range))
    }

    /// The value of a field of bytes that is at most `max` long.
    pub(super) fn short(
        &mut self,
        head: Head,
        path: &'static str,
        limit: &'static str,
        max: usize,
    ) -> Result<&'a [u8], WireError> {
        let range = self.range(head, path)?;
        if range.len() > max {
            let kind = WireErrorKind::Limit { limit, found: range.len() as u64, max };
            return Err(WireError { path, offset: range.start, kind });
        }
        Ok(&self.frame[range])
    }

    fn range(&mut self, head: Head, path: &'static str) -> Result<Range<usize>, WireError> {
        self.expect(head, path, BYTES)?;
        let len = self.varint(path)?;
        self.advance(len, path)
    }

    fn advance(&mut self, len: u64, path: &'static str) -> Result<Range<usize>, WireError> {
        let available = self.end - self.at;
        if len > available as u64 {
            return self.error(path, WireErrorKind::Truncated { needed: len, available });
        }
        let start = self.at;
        self.at += len as usize;
        Ok(start..self.at)
    }

    /// Passes over a field; where it is, head included.
    pub(super) fn skip(&mut self, head: Head) -> Result<Range<usize>, WireError> {
        let path = self.path;
        match head.wire_type {
            VARINT => {
                self.varint(path)?;
            }
            FIXED64 => {
                self.advance(8, path)?;
            }
            BYTES => {
                self.range(head, path)?;
            }
            FIXED32 => {
                self.advance(4, path)?;
            }
            found => {
                let kind = WireErrorKind::Unsupported { found };
                return Err(WireError { path, offset: head.start, kind });
            }
        }
        Ok(head.start..self.at)
    }

    fn varint(&mut self, path: &'static str) -> Result<u64, WireError> {
        let start = self.at;
        let mut value = 0u64;
        for (index, byte) in self.frame[start..self.end].iter().take(10).enumerate() {
            // The tenth byte holds the 64th bit alone.
            if index == 9 && *byte > 1 {
                return self.error(path, WireErrorKind::VarintTooLong);
            }
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                self.at = start + index + 1;
                return Ok(value);
            }
        }
        let available = self.end - start;
        let needed = available as u64 + 1;
        self.error(path, WireErrorKind::Truncated { needed, available })
    }
}
