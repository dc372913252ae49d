//! The content addressable transaction pool (CAT) of ADR 009 of celestia-core, and the pools that
//! it replaced.
//!
//! A [`Transaction`] is named by its [`TxKey`], so that nodes can announce transactions without
//! sending them. The [`pool`] keeps the transactions that the application has accepted until a
//! block takes them. [`Cat`] is the protocol around it, free of I/O. [`Config`] makes it any of the
//! measured generations, or ours.
#![warn(clippy::disallowed_types)]

pub mod config;
mod engine;

pub mod pool;
mod transaction;
pub mod wire;

pub use config::{Config, ConfigError, Preset, Protocol};
pub use engine::{Cat, Command, Cx, Event, FrameKind, Ignored, Metrics, Misbehaviour, WithCat};
pub use transaction::{Transaction, TxKey};
pub use wire::CatFrame;
