//! The wire format, version 1: protobuf, as gRPC will carry it.
//!
//! A frame is an [`Envelope`](proto::Envelope). Slots travel as flat bytes of a fixed length for each, so that a frame takes as much
//! memory as it has bytes, whatever is in it; the only list, of the nodes of a team, takes four times its bytes while it is read. Unknown
//! fields are skipped.

mod frame;
pub mod proto;

use bytes::{BufMut, Bytes};
use prost::Message;
use thiserror::Error;

pub use frame::{MixFrame, Piece};

/// What can be wrong with a frame.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// It is longer than allowed.
    #[error("{found} bytes, at most {max} are allowed")]
    TooLong {
        /// Its length.
        found: usize,
        /// What is allowed.
        max: usize,
    },
    /// It is not the protobuf of the format.
    #[error("not a frame: {0}")]
    Protobuf(String),
    /// A field is missing, or stands for nothing.
    #[error("{field}: {found} is not possible")]
    Value {
        /// Which one.
        field: &'static str,
        /// What it is.
        found: u64,
    },
    /// More than a limit allows.
    #[error("{field}: {found} found, at most {max} allowed")]
    Limit {
        /// Which field.
        field: &'static str,
        /// What was found.
        found: u64,
        /// What is allowed.
        max: u64,
    },
}

/// What is read at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a frame of slots.
    pub slots_bytes: usize,
    /// Bytes of any other frame.
    pub control_bytes: usize,
    /// Nodes of a team.
    pub team: usize,
}

impl Default for Limits {
    /// A batch of 1,000 slots in one frame (unary) in the larger group, with credentials for 32 nodes.
    fn default() -> Self {
        Self { slots_bytes: 4 << 20, control_bytes: 4 << 10, team: 32 }
    }
}

/// Reads a frame.
///
/// # Errors
/// It is not one, or more than the limits allow.
pub fn decode(bytes: Bytes, limits: &Limits) -> Result<MixFrame, WireError> {
    let found = bytes.len();
    let check = |max: usize| if found > max { Err(WireError::TooLong { found, max }) } else { Ok(()) };
    check(limits.slots_bytes.max(limits.control_bytes))?;
    let envelope = proto::Envelope::decode(bytes).map_err(|error| WireError::Protobuf(error.to_string()))?;
    let frame = MixFrame::from_proto(envelope, limits)?;
    if !matches!(frame, MixFrame::Slots(_)) {
        check(limits.control_bytes)?;
    }
    Ok(frame)
}

/// Appends an encoded frame.
///
/// # Panics
/// If the buffer is of a fixed length that the frame does not fit into: vectors, and the buffers of gRPC, grow.
pub fn encode(frame: &MixFrame, into: &mut impl BufMut) {
    frame.proto().encode(into).expect("the buffer grows");
}
