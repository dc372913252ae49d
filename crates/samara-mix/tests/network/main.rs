//! Pools of engines in virtual time.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../common/mod.rs"]
mod common;
mod rounds;
