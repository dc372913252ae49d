//! Writing and reading protobuf by hand: lengths must be known without encoding, and every bound must hold before memory
//! is taken.

mod reader;
mod write;

pub(crate) use reader::{Field, Reader, Value};
pub use reader::{WireError, WireErrorKind};
pub(crate) use write::{
    nested, put_bytes, put_fixed64, put_head, put_uint, put_varint, uint_len, varint_len,
};
