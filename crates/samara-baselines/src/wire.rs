//! What both formats write and read. All their field numbers are below 16, so that a tag is one byte.

use bytes::BufMut;
use samara_engine::protobuf::{
    BYTES, FIXED64, Head, Reader, VARINT, WireError, WireErrorKind, put_varint, varint_len,
};

use crate::Topic;

const TAG: usize = 1;

/// The length of a field that holds `len` bytes.
pub(crate) const fn nested(len: usize) -> usize {
    TAG + varint_len(len as u64) + len
}

/// The length of a field with a varint.
pub(crate) const fn uint_len(value: u64) -> usize {
    TAG + varint_len(value)
}

pub(crate) fn put_uint(out: &mut impl BufMut, number: u8, value: u64) {
    put_tag(out, number, VARINT);
    put_varint(out, value);
}

pub(crate) fn put_fixed64(out: &mut impl BufMut, number: u8, value: u64) {
    put_tag(out, number, FIXED64);
    out.put_u64_le(value);
}

pub(crate) fn put_bytes(out: &mut impl BufMut, number: u8, bytes: &[u8]) {
    put_head(out, number, bytes.len());
    out.put_slice(bytes);
}

/// The tag and the length of a field whose `len` bytes follow.
pub(crate) fn put_head(out: &mut impl BufMut, number: u8, len: usize) {
    put_tag(out, number, BYTES);
    put_varint(out, len as u64);
}

fn put_tag(out: &mut impl BufMut, number: u8, wire_type: u8) {
    debug_assert!(number < 16, "tags of more than one byte are counted as one");
    out.put_u8(number << 3 | wire_type);
}

/// Passes over a field that is not known.
pub(crate) fn skip(reader: &mut Reader<'_>, head: Head) -> Result<(), WireError> {
    reader.skip(head).map(drop)
}

/// A name. It is at most as long as the frame.
pub(crate) fn text(reader: &mut Reader<'_>, head: Head, path: &'static str) -> Result<Topic, WireError> {
    let bytes = reader.bytes(head, path)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| WireErrorKind::NotUtf8.at(path, head.start()))?;
    Ok(Topic::new(text))
}

/// A number of 32 bits.
pub(crate) fn uint32(found: u64, path: &'static str, offset: usize) -> Result<u32, WireError> {
    let too_large = WireErrorKind::Limit { limit: "uint32", found, max: u32::MAX as usize };
    u32::try_from(found).map_err(|_| too_large.at(path, offset))
}

/// So many bytes.
pub(crate) fn exactly<const N: usize>(
    reader: &mut Reader<'_>,
    head: Head,
    path: &'static str,
    expected: &'static str,
) -> Result<[u8; N], WireError> {
    let bytes = reader.bytes(head, path)?;
    let wrong = WireErrorKind::Length { found: bytes.len(), expected };
    bytes[..].try_into().map_err(|_| wrong.at(path, head.start()))
}
