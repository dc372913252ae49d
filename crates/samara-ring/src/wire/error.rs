//! What can be wrong with a frame.

use thiserror::Error;

/// A frame that cannot be read: where, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{path}, at byte {offset}: {kind}")]
pub struct WireError {
    /// The field, for example `unit.origin`.
    pub path: &'static str,
    /// Where in the frame.
    pub offset: usize,
    /// What is wrong.
    pub kind: WireErrorKind,
}

/// What is wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WireErrorKind {
    /// The frame ends within the field.
    #[error("cut short: {needed} bytes needed, {available} left")]
    Truncated {
        /// Bytes needed.
        needed: u64,
        /// Bytes left.
        available: usize,
    },
    /// A varint of more than 10 bytes, or beyond 64 bits.
    #[error("a varint that does not fit 64 bits")]
    VarintTooLong,
    /// A number that stands for nothing.
    #[error("the value {found}, which is not known")]
    Unknown {
        /// The value.
        found: u64,
    },
    /// Bytes after the last field.
    #[error("{found} bytes after the end")]
    Trailing {
        /// How many.
        found: usize,
    },
    /// More than a limit allows.
    #[error("{found} found, at most {max} allowed")]
    Limit {
        /// What was found.
        found: u64,
        /// What is allowed.
        max: u64,
    },
}
