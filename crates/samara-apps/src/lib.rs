//! Applications that run on the engines of simulated nodes, one for each family of experiments.

pub mod baselines;
pub mod codecs;
pub mod columns;
mod compiled;
mod durations;
pub mod group;
pub mod host;
pub mod messages;
pub mod mix;
pub mod pool;

pub use compiled::Compiled;
pub use durations::Durations;
