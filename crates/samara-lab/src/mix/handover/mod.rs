//! Batches that one node hands to another.

pub mod app;
pub(crate) mod check;
pub(crate) mod metrics;
pub(crate) mod outcome;
pub(crate) mod run;
pub(crate) mod spec;
