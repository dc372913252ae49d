//! Members of a group that broadcast to each other.

pub mod app;
pub(crate) mod check;
pub(crate) mod gateways;
pub(crate) mod metrics;
pub(crate) mod outcome;
pub(crate) mod run;
pub(crate) mod spec;
