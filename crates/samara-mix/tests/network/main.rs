//! Pools of engines in virtual time.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../common/mod.rs"]
mod common;
mod faults;
mod hostile;
mod memory;
mod pings;
mod pipelining;
mod properties;
mod replays;
mod rounds;
mod seeds;
mod unlinkable;
