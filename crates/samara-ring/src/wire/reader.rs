//! A cursor over the fields of a frame.

use bytes::Bytes;

use super::error::{WireError, WireErrorKind};
use crate::ViewId;

pub(crate) struct Reader<'a> {
    frame: &'a Bytes,
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(frame: &'a Bytes) -> Self {
        Self { frame, at: 0 }
    }

    pub(crate) fn error(&self, path: &'static str, kind: WireErrorKind) -> WireError {
        WireError { path, offset: self.at, kind }
    }

    fn left(&self) -> usize {
        self.frame.len() - self.at
    }

    pub(crate) fn finish(&self) -> Result<(), WireError> {
        match self.left() {
            0 => Ok(()),
            found => Err(self.error("frame", WireErrorKind::Trailing { found })),
        }
    }

    fn take(&mut self, len: u64, path: &'static str) -> Result<&'a [u8], WireError> {
        let available = self.left();
        if len > available as u64 {
            return Err(self.error(path, WireErrorKind::Truncated { needed: len, available }));
        }
        let start = self.at;
        self.at += len as usize;
        Ok(&self.frame[start..self.at])
    }

    pub(crate) fn byte(&mut self, path: &'static str) -> Result<u8, WireError> {
        self.take(1, path).map(|bytes| bytes[0])
    }

    /// A byte that is 0 or 1.
    pub(crate) fn flag(&mut self, path: &'static str) -> Result<bool, WireError> {
        match self.byte(path)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(self.error(path, WireErrorKind::Unknown { found: other.into() })),
        }
    }

    pub(crate) fn fixed(&mut self, path: &'static str) -> Result<u64, WireError> {
        let bytes = self.take(8, path)?;
        Ok(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    pub(crate) fn varint(&mut self, path: &'static str) -> Result<u64, WireError> {
        let start = self.at;
        let mut value = 0u64;
        for index in 0..10 {
            let byte = self.byte(path)?;
            // The tenth byte holds the 64th bit alone.
            if index == 9 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(WireError { path, offset: start, kind: WireErrorKind::VarintTooLong })
    }

    /// A varint that is at most `max`.
    pub(crate) fn at_most(&mut self, max: u64, path: &'static str) -> Result<u64, WireError> {
        let found = self.varint(path)?;
        if found > max { Err(self.error(path, WireErrorKind::Limit { found, max })) } else { Ok(found) }
    }

    /// The rank of a member, or a number of links.
    pub(crate) fn short(&mut self, path: &'static str) -> Result<u16, WireError> {
        self.at_most(u16::MAX.into(), path).map(|value| value as u16)
    }

    /// The length of a list whose entries have at least `least` bytes each: what cannot be there takes no memory.
    pub(crate) fn count(&mut self, max: usize, least: usize, path: &'static str) -> Result<usize, WireError> {
        let count = self.at_most(max as u64, path)?;
        let (needed, available) = (count * least as u64, self.left());
        if needed > available as u64 {
            return Err(self.error(path, WireErrorKind::Truncated { needed, available }));
        }
        Ok(count as usize)
    }

    /// Content, without copying.
    pub(crate) fn bytes(&mut self, max: usize, path: &'static str) -> Result<Bytes, WireError> {
        let len = self.at_most(max as u64, path)?;
        let start = self.at;
        self.take(len, path)?;
        Ok(self.frame.slice(start..self.at))
    }

    /// All that is left, without copying.
    pub(crate) fn rest(&mut self) -> Bytes {
        let start = std::mem::replace(&mut self.at, self.frame.len());
        self.frame.slice(start..)
    }

    pub(crate) fn view(&mut self, path: &'static str) -> Result<ViewId, WireError> {
        Ok(ViewId { counter: self.varint(path)?, proposer: self.fixed(path)? })
    }

    pub(crate) fn optional(&mut self, path: &'static str) -> Result<Option<ViewId>, WireError> {
        if self.flag(path)? { self.view(path).map(Some) } else { Ok(None) }
    }

    pub(crate) fn numbers(&mut self, max: usize, path: &'static str) -> Result<Vec<u64>, WireError> {
        let count = self.count(max, 1, path)?;
        (0..count).map(|_| self.varint(path)).collect()
    }
}
