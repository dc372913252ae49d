#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod behaviour;
mod event;
mod handler;
mod identity;
#[cfg(feature = "metrics")]
mod metrics;
mod terms;
pub mod transport;
mod unfinished;

pub use behaviour::{Behaviour, SubscriptionError};
pub use event::{Event, FrameError, LinkEvent, Options, PROTOCOLS, ScheduleError, Sizes, Traffic, Uplink};
pub use handler::Handler;
pub use identity::{KeyVerifier, identity_of, peer_id_of};
pub use terms::Terms;

// What an application names beside the behaviour, so that this crate suffices as a dependency.
pub use samara_engine::outbox::Schedule;
pub use samara_engine::{self as engine, MessageKey};
pub use samara_gossipsub::config::{
    Authenticity, Author, ConfigError, Hook, SubscriptionFilter, Transform, Validator, ValidatorHook, Verdict,
};
pub use samara_gossipsub::message_id::MessageIdFn;
pub use samara_gossipsub::partial::Content;
pub use samara_gossipsub::rpc::{Message, MessageId, Topic};
pub use samara_gossipsub::score::{PeerScoreParams, PeerScoreThresholds, TopicScoreParams};
pub use samara_gossipsub::{
    self as gossipsub, Acceptance, BatchReceipt, Config, ProvideError, PublishError, Receipt,
};
