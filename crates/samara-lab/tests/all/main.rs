//! The lab: scenarios and their inputs, runs and sweeps, and the families of experiments.
#![allow(missing_docs, reason = "a test program")]

mod group;
mod handover;
mod inputs;
mod messages;
mod mix;
mod runs;
mod scenario;
mod sweep;
mod topology;
mod transactions;
