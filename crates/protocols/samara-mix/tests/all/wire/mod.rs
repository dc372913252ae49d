//! The wire format.

mod bounds;
mod properties;
mod vectors;
