//! The wire format.
#![allow(clippy::unwrap_used, reason = "tests")]

mod bounds;
mod properties;
mod vectors;
