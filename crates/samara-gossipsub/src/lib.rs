//! GossipSub as a state machine without input and output.

pub mod backoff;
pub mod cache;
pub mod config;
pub mod engine;
pub mod ids;
pub mod message_id;
pub mod promises;
pub mod rpc;
pub mod score;
pub mod signature;
pub mod wire;

pub use config::Config;
pub use engine::{
    Acceptance, BatchReceipt, Command, Event, GossipSub, Ignored, Metrics, PublishError, Receipt, Trace,
};
