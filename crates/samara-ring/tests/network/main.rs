//! Networks of engines in virtual time.

#[path = "../common/mod.rs"]
mod common;

mod churn;
mod early;
mod hostile;
mod seeds;
mod stream;
mod throughput;
