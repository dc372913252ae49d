//! Protobuf, field by field: what the wire formats of the engines have in common.
//!
//! The engines read and write their messages by hand. A generated codec cannot tell a length without the message, copies what it
//! reads, drops unknown fields and takes memory before a bound can be checked. What is left to share is small:
//!
//! - [`Reader`], a cursor over the fields of a message: it never reads beyond its message, never copies, and takes no memory.
//! - [`WireError`], which says where in the frame something is wrong, and what.
//! - [`varint_len`], [`put_varint`] and the [wire types](VARINT).

mod error;
mod reader;
mod write;

pub use error::{WireError, WireErrorKind};
pub use reader::{Head, Reader};
pub use write::{BYTES, FIXED32, FIXED64, VARINT, put_varint, varint_len};
