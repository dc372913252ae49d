//! A stream of messages, each published by a node drawn at random.

pub mod app;
pub mod baselines;
pub mod file;
pub mod measure;
pub(crate) mod metrics;
pub(crate) mod outcome;
pub(crate) mod run;
pub(crate) mod spec;
