//! The content addressable transaction pool (CAT) of ADR 009 of celestia-core, and the pools that it replaced.
//!
//! A [`Transaction`] is named by its [`TxKey`], so that nodes can tell each other which transactions they have without
//! sending them. The [`pool`] keeps what the application has accepted until a block takes it.

pub mod pool;
mod transaction;

pub use transaction::{Transaction, TxKey};
