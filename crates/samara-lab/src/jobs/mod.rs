//! What nodes do: an application around a protocol engine, for each workload.

pub mod baselines;
pub mod columns;
pub mod group;
pub mod handover;
pub mod messages;
mod processor;
pub mod relay;
pub mod transactions;
