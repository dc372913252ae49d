//! Partial columns of Ethereum: the cells of data columns (consensus-specs
//! `fulu/partial-columns/p2p-interface.md`, and Gloas beside it), in SSZ without compression.

use bytes::{BufMut, Bytes, BytesMut};

use super::{Bits, Body, Format, FormatError, Metadata};
use crate::rpc::{PartialMode, Topic};

/// Bytes of a cell.
pub const CELL_BYTES: usize = 2_048;
/// Bytes of a KZG proof, and of a KZG commitment.
pub const PROOF_BYTES: usize = 48;
/// Bytes of a part: a cell and its proof.
pub const PART_BYTES: usize = CELL_BYTES + PROOF_BYTES;
/// Maximum number of blobs of a block (`MAX_BLOB_COMMITMENTS_PER_BLOCK`).
pub const BLOBS_MAX: u32 = 4_096;

/// Bytes of the fixed part of a header in Fulu: an offset, `signed_block_header`, and four hashes.
const HEADER_FIXED_BYTES: usize = 4 + 208 + 4 * 32;
/// Bytes of an SSZ offset.
const OFFSET_BYTES: usize = 4;

/// The fork, which determines the containers and the ids of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    /// The id of a group is the version byte and the root of the block (33 bytes). A header with the
    /// commitments precedes the cells.
    Fulu,
    /// The id of a group is the version byte, the slot and the root (41 bytes), in an order that is not
    /// settled. Commitments come from the block's bid: the application provides a [`header`] with them
    /// once it has the block, and no header is sent.
    Gloas,
}

/// The format of partial columns.
#[derive(Clone, Debug)]
pub struct PartialColumns {
    /// The fork of the topics.
    pub fork: Fork,
    /// The first byte of a group's id. Clients disagree about it in Gloas.
    pub version: u8,
    /// The part of a topic's name that precedes the number of the column.
    pub topic_infix: &'static str,
    /// The mode of partial messages on the topics of columns.
    pub mode: PartialMode,
    /// A part that others share: those that arrive with the same bytes refer to it, and need no memory of
    /// their own. All genuine parts of a simulation are the same.
    pub shared: Option<Bytes>,
}

impl PartialColumns {
    /// Returns the format of Fulu for a node that requests cells.
    pub const FULU: Self = Self {
        fork: Fork::Fulu,
        version: 0,
        topic_infix: "/data_column_sidecar_",
        mode: PartialMode::Requests,
        shared: None,
    };

    /// Returns the format of Gloas for a node that requests cells.
    pub const GLOAS: Self = Self { fork: Fork::Gloas, version: 1, ..Self::FULU };

    /// Returns the id of the group of a block.
    pub fn group(&self, slot: u64, root: &[u8; 32]) -> Bytes {
        let mut id = BytesMut::from(&[self.version][..]);
        if self.fork == Fork::Gloas {
            id.put_u64_le(slot);
        }
        id.put_slice(root);
        id.freeze()
    }

    /// Bytes of the fixed part of a body: the offsets of bitmap, cells and proofs, and of headers in Fulu.
    fn body_fixed_bytes(&self) -> usize {
        match self.fork {
            Fork::Fulu => 4 * OFFSET_BYTES,
            Fork::Gloas => 3 * OFFSET_BYTES,
        }
    }
}

/// Returns the bytes of a header with commitments to `blobs` blobs. The rest is zero: its signature
/// and proof are checked by the application.
pub fn header(blobs: u32) -> Bytes {
    let mut header = BytesMut::zeroed(HEADER_FIXED_BYTES + blobs as usize * PROOF_BYTES);
    header[..OFFSET_BYTES].copy_from_slice(&(HEADER_FIXED_BYTES as u32).to_le_bytes());
    header.freeze()
}

/// Appends an SSZ bit list: the bits, and a one behind the last.
fn put_bits(bits: &Bits, len: u32, out: &mut BytesMut) {
    let start = out.len();
    out.put_bytes(0, len as usize / 8 + 1);
    let mut set = |bit: u32| out[start + bit as usize / 8] |= 1 << (bit % 8);
    bits.iter().filter(|bit| *bit < len).for_each(&mut set);
    set(len);
}

fn wrong(found: impl Into<String>, expected: impl Into<String>) -> FormatError {
    FormatError { found: found.into(), expected: expected.into() }
}

/// Reads an SSZ bit list.
fn read_bits(bytes: &[u8]) -> Result<Bits, FormatError> {
    let last = bytes.last().copied().unwrap_or(0);
    if last == 0 {
        return Err(wrong("a bit list that ends in a zero byte", "a one behind the last bit"));
    }
    let len = (bytes.len() as u32 - 1) * 8 + 7 - last.leading_zeros();
    if len > BLOBS_MAX {
        return Err(wrong(format!("a bit list of {len} bits"), format!("at most {BLOBS_MAX}")));
    }
    let mut bits = Bits::new(len);
    for (byte, first) in bytes.iter().zip((0..).step_by(8)).filter(|(byte, _)| **byte != 0) {
        let of_byte = (first..len.min(first + 8)).filter(|bit| byte >> (bit % 8) & 1 == 1);
        of_byte.for_each(|bit| bits.insert(bit));
    }
    Ok(bits)
}

/// Splits a container into its variable fields. All fixed bytes are their offsets.
fn fields<const N: usize>(bytes: &[u8], fixed: usize) -> Result<[std::ops::Range<usize>; N], FormatError> {
    let offset = |at: usize| {
        let word = bytes.get(at * OFFSET_BYTES..(at + 1) * OFFSET_BYTES)?;
        Some(u32::from_le_bytes(word.try_into().ok()?) as usize)
    };
    let mut ends = [0; N];
    for (at, end) in ends.iter_mut().enumerate() {
        let next = if at + 1 < N { offset(at + 1) } else { Some(bytes.len()) };
        *end = next.ok_or_else(|| wrong(format!("{} bytes", bytes.len()), format!("{N} offsets")))?;
    }
    let mut start = offset(0).unwrap_or(0);
    if start != fixed {
        return Err(wrong(format!("first offset {start}"), format!("{fixed}")));
    }
    let mut ranges = [const { 0..0 }; N];
    for (range, end) in ranges.iter_mut().zip(ends) {
        if end < start || end > bytes.len() {
            return Err(wrong(format!("offset {end}"), format!("{start} to {}", bytes.len())));
        }
        *range = start..end;
        start = end;
    }
    Ok(ranges)
}

impl Format for PartialColumns {
    fn mode(&self, topic: &Topic) -> PartialMode {
        if topic.as_str().contains(self.topic_infix) { self.mode } else { PartialMode::None }
    }

    fn check_group(&self, _topic: &Topic, group: &[u8]) -> Result<(), FormatError> {
        let len = match self.fork {
            Fork::Fulu => 33,
            Fork::Gloas => 41,
        };
        if group.len() != len {
            return Err(wrong(format!("a group id of {} bytes", group.len()), format!("{len} bytes")));
        }
        if group[0] != self.version {
            return Err(wrong(format!("version {}", group[0]), self.version.to_string()));
        }
        Ok(())
    }

    fn len_of(&self, header: Option<&Bytes>) -> Result<Option<u32>, FormatError> {
        let Some(header) = header else { return Ok(None) };
        let commitments = header.len().checked_sub(HEADER_FIXED_BYTES).filter(|rest| rest % PROOF_BYTES == 0);
        match commitments.map(|rest| (rest / PROOF_BYTES) as u32) {
            Some(blobs @ 1..=BLOBS_MAX) => Ok(Some(blobs)),
            _ => Err(wrong(
                format!("a header of {} bytes", header.len()),
                format!("{HEADER_FIXED_BYTES} and 1 to {BLOBS_MAX} commitments of {PROOF_BYTES} bytes"),
            )),
        }
    }

    fn sends_headers(&self) -> bool {
        self.fork == Fork::Fulu
    }

    fn read_metadata(&self, bytes: &[u8]) -> Result<Metadata, FormatError> {
        let [available, requests] = fields(bytes, 2 * OFFSET_BYTES)?;
        let (available, requests) = (read_bits(&bytes[available])?, read_bits(&bytes[requests])?);
        if available.len() != requests.len() {
            let found = format!("{} available and {} requested bits", available.len(), requests.len());
            return Err(wrong(found, "lists of one length"));
        }
        Ok(Metadata { available, requests })
    }

    fn write_metadata(&self, metadata: &Metadata) -> Bytes {
        let len = metadata.available.len().max(metadata.requests.len());
        let mut out = BytesMut::with_capacity(2 * OFFSET_BYTES + 2 * (len as usize / 8 + 1));
        out.put_u32_le(2 * OFFSET_BYTES as u32);
        out.put_u32_le((2 * OFFSET_BYTES + len as usize / 8 + 1) as u32);
        put_bits(&metadata.available, len, &mut out);
        put_bits(&metadata.requests, len, &mut out);
        out.freeze()
    }

    fn read_body(&self, _group: &[u8], bytes: &Bytes) -> Result<Body, FormatError> {
        let fixed = self.body_fixed_bytes();
        let [bitmap, cells, proofs, headers] = match self.fork {
            Fork::Fulu => fields::<4>(bytes, fixed)?,
            Fork::Gloas => {
                let [bitmap, cells, proofs] = fields::<3>(bytes, fixed)?;
                [bitmap, cells, proofs, 0..0]
            }
        };
        let present = read_bits(&bytes[bitmap])?;
        let count = present.count() as usize;
        if cells.len() != count * CELL_BYTES || proofs.len() != count * PROOF_BYTES {
            let found = format!("{} bytes of cells and {} of proofs", cells.len(), proofs.len());
            return Err(wrong(found, format!("{count} of each")));
        }
        // A list with one entry of variable length starts with its offset.
        let header = match headers.len() {
            0 => None,
            len if len > OFFSET_BYTES
                && bytes[headers.start..headers.start + OFFSET_BYTES] == [4, 0, 0, 0] =>
            {
                Some(bytes.slice(headers.start + OFFSET_BYTES..headers.end))
            }
            len => return Err(wrong(format!("{len} bytes of headers"), "none or one header")),
        };
        if count == 0 && header.is_none() {
            return Err(wrong("neither cells nor a header", "at least one of them"));
        }
        let read = |at: usize| {
            let cell = &bytes[cells.start + at * CELL_BYTES..][..CELL_BYTES];
            let proof = &bytes[proofs.start + at * PROOF_BYTES..][..PROOF_BYTES];
            match &self.shared {
                Some(part) if part[..CELL_BYTES] == *cell && part[CELL_BYTES..] == *proof => part.clone(),
                _ => [cell, proof].concat().into(),
            }
        };
        let parts = present.iter().enumerate().map(|(at, blob)| (blob, read(at)));
        Ok(Body { len: Some(present.len()), header, parts: parts.collect() })
    }

    fn write_body(&self, _group: &[u8], len: u32, header: Option<&Bytes>, parts: &[(u32, &Bytes)]) -> Bytes {
        let header = header.filter(|_| self.sends_headers());
        let header_bytes = header.map_or(0, |header| OFFSET_BYTES + header.len());
        let fixed = self.body_fixed_bytes();
        let cells = fixed + len as usize / 8 + 1;
        let proofs = cells + parts.len() * CELL_BYTES;
        let headers = proofs + parts.len() * PROOF_BYTES;
        let mut out = BytesMut::with_capacity(headers + header_bytes);
        [fixed, cells, proofs].into_iter().for_each(|offset| out.put_u32_le(offset as u32));
        if self.fork == Fork::Fulu {
            out.put_u32_le(headers as u32);
        }
        put_bits(&parts.iter().map(|(part, _)| *part).collect(), len, &mut out);
        parts.iter().for_each(|(_, part)| out.put_slice(&part[..CELL_BYTES]));
        parts.iter().for_each(|(_, part)| out.put_slice(&part[CELL_BYTES..]));
        if let Some(header) = header {
            out.put_u32_le(OFFSET_BYTES as u32);
            out.put_slice(header);
        }
        out.freeze()
    }
}
