//! The applications that the families of experiments run on the engines of simulated nodes.

pub mod columns;
mod durations;
pub mod group;
pub mod host;
pub mod messages;
pub mod mix;
pub mod pool;
mod simulated;

pub use durations::Durations;
pub use simulated::{Codec, Simulated};
