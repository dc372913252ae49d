//! Writing. All field numbers of these formats are below 16, so that a tag is one byte.

use bytes::BufMut;

pub(super) const VARINT: u8 = 0;
pub(super) const FIXED64: u8 = 1;
pub(super) const BYTES: u8 = 2;

const TAG: usize = 1;

/// The length of a varint.
pub(crate) const fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// The length of a field that holds `len` bytes.
pub(crate) const fn nested(len: usize) -> usize {
    TAG + varint_len(len as u64) + len
}

/// The length of a field with a varint.
pub(crate) const fn uint_len(value: u64) -> usize {
    TAG + varint_len(value)
}

pub(crate) fn put_varint(out: &mut impl BufMut, mut value: u64) {
    while value >= 0x80 {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
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
