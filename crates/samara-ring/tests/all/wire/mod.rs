//! The wire format: what is written is read as the same, lengths are right, and whatever comes from a peer does no harm.

pub(crate) mod arbitrary;
mod errors;
mod properties;
mod vectors;
