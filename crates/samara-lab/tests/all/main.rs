//! The lab: scenarios and their inputs, runs and sweeps, and the families of experiments.

mod group;
mod inputs;
mod messages;
mod mix;
mod runs;
mod scenario;
mod sweep;
mod topology;
mod transactions;
mod window;
