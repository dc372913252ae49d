//! A node as a process: `samara node --config node.toml`. It runs GossipSub. The section `[pool]`
//! adds a transaction pool, `[group]` a member of a group, and `[mix]` a node of a mix pool or its
//! scheduler.
//!
//! [`run()`] is the complete program; [`Running`] is the same node within another one.
//! `docs/node.toml` documents the configuration, [`NodeConfig`]; `docs/guides/node.md` the control
//! API, metrics and traces; `docs/guides/pool.md` the pool; `docs/guides/groups.md` the group;
//! `docs/guides/mix.md` the mix.

pub mod config;
mod control;
mod group;
mod identity;
mod live;
mod metrics;
mod mix;
pub mod model;
mod node;
mod part;
mod payload;
mod pool;
mod run;

pub use config::{Checked, ConfigError, NodeConfig};
pub use run::{Outcome, Running, new_certificate, run};
