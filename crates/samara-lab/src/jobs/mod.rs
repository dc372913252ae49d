//! What nodes do: an application around a protocol engine, for each workload.

pub mod columns;
pub mod messages;
mod processor;
