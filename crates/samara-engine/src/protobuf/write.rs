//! Varints and wire types (encoding of protobuf, "Base 128 Varints" and "Message Structure").

use bytes::BufMut;

/// The wire type of numbers of variable length.
pub const VARINT: u8 = 0;
/// The wire type of numbers of 8 bytes.
pub const FIXED64: u8 = 1;
/// The wire type of bytes, strings, nested messages and packed lists.
pub const BYTES: u8 = 2;
/// The wire type of numbers of 4 bytes.
pub const FIXED32: u8 = 5;

/// The length of a varint in bytes: 1 to 10.
pub const fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Writes a varint.
///
/// # Panics
/// If `out` is full: it needs [`varint_len`] bytes. A `Vec` grows.
pub fn put_varint(out: &mut impl BufMut, mut value: u64) {
    while value >= 0x80 {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}
