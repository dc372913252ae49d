//! rust-libp2p's own tests of GossipSub's behaviour, run against the engine. README has the results.
//!
//! The build script takes the tests and the types that they name from the package of libp2p-gossipsub.
//! These modules take the place of its `behaviour.rs` and `peer_score.rs`:
//!
//! | file | concern |
//! |---|---|
//! | `behaviour` | the names and the state that the tests use, over a node |
//! | `node` | an engine, its links and its queues |
//! | `settings` | the engine's configuration for one of rust-libp2p |
//! | `frames` | RPCs of one as RPCs of the other |
//! | `peer_score`, `clock` | scores, and time |

#![cfg(test)]

#[cfg(upstream)]
mod behaviour;
#[cfg(upstream)]
mod clock;
#[cfg(upstream)]
mod frames;
#[cfg(upstream)]
mod node;
#[cfg(upstream)]
mod peer_score;
#[cfg(upstream)]
mod settings;
mod table;

// The sources of rust-libp2p expect these names in the root of their crate.
#[cfg(upstream)]
mod root {
    pub(crate) use crate::behaviour::{Behaviour, Event, MessageAuthenticity};
    pub(crate) use crate::config::ValidationMode;
    pub(crate) use crate::error::{PublishError, SubscriptionError, ValidationError};
    pub(crate) use crate::subscription_filter::{
        AllowAllSubscriptionFilter, MaxCountSubscriptionFilter, TopicSubscriptionFilter,
    };
    pub(crate) use crate::topic::{Hasher, IdentityHash, Topic, TopicHash};
    pub(crate) use crate::transform::{DataTransform, IdentityTransform};
    pub(crate) use crate::types::{FailedMessages, Message, MessageId, RawMessage};

    pub(crate) type IdentTopic = Topic<IdentityHash>;
}
#[cfg(upstream)]
use root::*;

#[cfg(upstream)]
include!(concat!(env!("OUT_DIR"), "/modules.rs"));
