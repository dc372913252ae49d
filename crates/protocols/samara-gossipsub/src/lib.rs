#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(missing_docs)]
#![warn(clippy::disallowed_types)]

mod cache;
pub mod config;
mod engine;
mod memory;
pub mod message_id;
pub mod partial;
pub mod rpc;
pub mod score;
pub mod signature;
pub mod wire;

pub use cache::SeenStrategy;
pub use config::Config;
pub use engine::{
    Acceptance, BatchReceipt, Command, Cx, Event, GossipSub, Ignored, Metrics, Protocol, ProvideError,
    PublishError, Receipt, Sizes, Trace, WithGossipSub,
};
pub use message_id::Piece;
