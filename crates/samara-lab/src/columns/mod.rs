//! Blocks of columns: one node publishes them, and every node keeps some of them.

pub mod app;
pub(crate) mod codec;
pub mod measure;
pub(crate) mod metrics;
pub(crate) mod outcome;
pub(crate) mod run;
pub(crate) mod spec;
