//! A node as a process: `samara node --config node.toml`. GossipSub, a transaction pool where `[cat]` asks for
//! one, a member of a group where `[ring]` does, and a node of a pool that mixes, or its scheduler, where `[mix]` does.
//!
//! [`run()`] is the whole program; [`Running`] is the same node within another one. The configuration is [`NodeConfig`], documented in
//! `docs/node.toml`; the control API, metrics and traces in `docs/guides/node.md`, the pool in `docs/guides/pool.md`,
//! the group in `docs/guides/groups.md`, the mix in `docs/guides/mix.md`.

pub mod config;
mod control;
mod group;
mod identity;
mod metrics;
mod mix;
pub mod model;
mod node;
mod part;
mod pool;
mod run;

pub use config::{Checked, ConfigError, NodeConfig};
pub use run::{Outcome, Running, new_certificate, run};
