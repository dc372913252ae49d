//! What can be wrong with a frame.

use thiserror::Error;

/// A frame that cannot be read: where, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{path}, at byte {offset}: {kind}")]
pub struct WireError {
    /// The field, for example `seen_tx.tx_key`.
    pub path: &'static str,
    /// Where in the frame (without its length prefix).
    pub offset: usize,
    /// What is wrong.
    pub kind: WireErrorKind,
}

/// What is wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WireErrorKind {
    /// The field ends after its container.
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
    /// A tag beyond 32 bits, or with field number 0.
    #[error("a field number out of range")]
    FieldNumber,
    /// A known field with another wire type than it has.
    #[error("wire type {found} found, {expected} expected")]
    WireType {
        /// Wire type found.
        found: u8,
        /// Wire type expected.
        expected: u8,
    },
    /// A group (wire types 3 and 4), or wire type 6 or 7.
    #[error("wire type {found}, which is not supported")]
    Unsupported {
        /// Wire type found.
        found: u8,
    },
    /// A length that the field cannot have.
    #[error("{found} bytes found, {expected} expected")]
    Length {
        /// Bytes found.
        found: usize,
        /// Bytes expected.
        expected: &'static str,
    },
    /// A field that must be there is not.
    #[error("missing")]
    Missing,
    /// A known field that whoever reads does not take.
    #[error("not supported")]
    Refused,
    /// A name that is not UTF-8.
    #[error("not UTF-8")]
    NotUtf8,
    /// A number that stands for nothing.
    #[error("the value {found}, which is not known")]
    Unknown {
        /// The value.
        found: u64,
    },
    /// None of the known kinds of messages.
    #[error("no message of a known kind")]
    NoKind,
    /// More than a limit allows.
    #[error("{found} found, at most {max} allowed by the limit {limit}")]
    Limit {
        /// The field of the format's `Limits`.
        limit: &'static str,
        /// What was found; of counts, the first beyond the limit.
        found: u64,
        /// What is allowed.
        max: usize,
    },
}

impl WireErrorKind {
    /// The error of a field at an offset in the frame.
    pub const fn at(self, path: &'static str, offset: usize) -> WireError {
        WireError { path, offset, kind: self }
    }
}
