//! Groups of a fixed number of parts of equal length.

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes, BytesMut};

use super::{Bits, Body, Format, FormatError, Metadata};
use crate::rpc::{PartialMode, Topic};

/// Groups of up to 8 parts of equal length without headers, in the format of libp2p's test-plans
/// (`gossipsub-interop`): metadata is one byte with a bit for each available part, and what is not
/// available is wanted. A body is such a byte, the parts in ascending order, and the id of the group.
#[derive(Clone, Debug)]
pub struct EqualParts {
    /// Number of parts, at most 8.
    pub parts: u32,
    /// Bytes of each part.
    pub part_bytes: usize,
    /// Bytes of a group's id.
    pub group_bytes: usize,
    /// The mode of partial messages on each topic. Other topics have full messages only.
    pub topics: BTreeMap<Topic, PartialMode>,
}

fn bits(byte: u8, len: u32) -> Bits {
    let mut bits = Bits::new(len);
    (0..len.min(8)).filter(|part| byte >> part & 1 == 1).for_each(|part| bits.insert(part));
    bits
}

fn byte(parts: impl Iterator<Item = u32>) -> u8 {
    parts.filter(|part| *part < 8).fold(0, |byte, part| byte | 1 << part)
}

impl Format for EqualParts {
    fn mode(&self, topic: &Topic) -> PartialMode {
        self.topics.get(topic).copied().unwrap_or_default()
    }

    fn check_group(&self, _topic: &Topic, group: &[u8]) -> Result<(), FormatError> {
        if group.len() == self.group_bytes {
            return Ok(());
        }
        let expected = format!("{} bytes", self.group_bytes);
        Err(FormatError { found: format!("a group id of {} bytes", group.len()), expected })
    }

    fn len_of(&self, _header: Option<&Bytes>) -> Result<Option<u32>, FormatError> {
        Ok(Some(self.parts))
    }

    fn has_requests(&self) -> bool {
        false
    }

    fn read_metadata(&self, bytes: &[u8]) -> Result<Metadata, FormatError> {
        let [byte] = bytes else {
            let found = format!("metadata of {} bytes", bytes.len());
            return Err(FormatError { found, expected: "1 byte".to_owned() });
        };
        let available = bits(*byte, self.parts);
        Ok(Metadata { requests: Bits::all(self.parts).without(&available), available })
    }

    fn write_metadata(&self, metadata: &Metadata) -> Bytes {
        Bytes::copy_from_slice(&[byte(metadata.available.iter())])
    }

    fn read_body(&self, group: &[u8], bytes: &Bytes) -> Result<Body, FormatError> {
        let wrong = |found: String, expected: String| Err(FormatError { found, expected });
        let Some(first) = bytes.first() else {
            return wrong("an empty body".to_owned(), "a byte of parts".to_owned());
        };
        let present = bits(*first, self.parts);
        let len = 1 + present.count() as usize * self.part_bytes + self.group_bytes;
        if bytes.len() != len {
            return wrong(format!("a body of {} bytes", bytes.len()), format!("{len} bytes"));
        }
        if bytes[len - self.group_bytes..] != *group {
            return wrong("the id of another group at the end".to_owned(), "that of this group".to_owned());
        }
        let part = |at: usize| bytes.slice(1 + at * self.part_bytes..1 + (at + 1) * self.part_bytes);
        let parts = present.iter().enumerate().map(|(at, number)| (number, part(at))).collect();
        Ok(Body { len: Some(self.parts), header: None, parts })
    }

    fn write_body(&self, group: &[u8], _len: u32, _header: Option<&Bytes>, parts: &[(u32, &Bytes)]) -> Bytes {
        let mut body = BytesMut::with_capacity(1 + parts.len() * self.part_bytes + group.len());
        body.put_u8(byte(parts.iter().map(|(part, _)| *part)));
        parts.iter().for_each(|(_, data)| body.put_slice(data));
        body.put_slice(group);
        body.freeze()
    }
}
