//! What an application can decide by code.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use samara_engine::PeerId;

use crate::rpc::{Message, Topic};

/// What a validator says of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Deliver and forward it.
    Accept,
    /// Neither deliver nor forward it; nobody is to blame.
    Ignore,
    /// Neither deliver nor forward it; whoever sends it is to blame (P4).
    Reject,
    /// The answer comes later, by [`GossipSub::report_validation`](crate::GossipSub::report_validation); the application is
    /// asked by [`Event::NeedsValidation`](crate::Event::NeedsValidation).
    Defer,
}

/// Checks messages. Called once for each message, not for its duplicates.
pub trait Validator: Send + Sync {
    /// What to do with this message, that came from `from` and (if it is signed) has a valid signature.
    fn validate(&self, from: PeerId, topic: &Topic, message: &Message) -> Verdict;
}

impl<F: Fn(PeerId, &Topic, &Message) -> Verdict + Send + Sync> Validator for F {
    fn validate(&self, from: PeerId, topic: &Topic, message: &Message) -> Verdict {
        self(from, topic, message)
    }
}

/// A validator, shared.
#[derive(Clone)]
pub struct ValidatorHook(Arc<dyn Validator>);

impl ValidatorHook {
    /// Wraps a validator: a closure, for example.
    pub fn new(validator: impl Validator + 'static) -> Self {
        Self(Arc::new(validator))
    }

    /// A validator that leaves every decision to the application.
    pub fn deferred() -> Self {
        Self::new(|_: PeerId, _: &Topic, _: &Message| Verdict::Defer)
    }
}

impl Deref for ValidatorHook {
    type Target = dyn Validator;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Debug for ValidatorHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Validator")
    }
}

/// Which topics of its peers a node takes note of. Topics that pass are remembered as long as a peer subscribes to them.
#[derive(Clone, Default)]
pub enum SubscriptionFilter {
    /// All.
    #[default]
    All,
    /// These only.
    Only(BTreeSet<Topic>),
    /// Those for which the function says so.
    Custom(Arc<dyn Fn(&Topic) -> bool + Send + Sync>),
}

impl SubscriptionFilter {
    /// Whether a topic passes.
    pub fn allows(&self, topic: &Topic) -> bool {
        match self {
            Self::All => true,
            Self::Only(topics) => topics.contains(topic),
            Self::Custom(allows) => allows(topic),
        }
    }
}

impl fmt::Debug for SubscriptionFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("All"),
            Self::Only(topics) => f.debug_tuple("Only").field(topics).finish(),
            Self::Custom(_) => f.write_str("Custom"),
        }
    }
}
