//! Teams that mix batches of payloads.

pub mod app;
pub(crate) mod check;
pub mod handover;
pub mod measure;
pub(crate) mod measured;
pub(crate) mod metrics;
pub(crate) mod outcome;
pub(crate) mod run;
pub(crate) mod spec;
