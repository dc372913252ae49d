//! What an application decides by code: signatures, validation, and the topics of peers.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use samara_engine::PeerId;

use crate::rpc::{Message, Topic};
use crate::signature::{SignaturePolicy, Signer, Verifier};

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

/// A part of an application that configurations share.
pub struct Hook<T: ?Sized>(pub Arc<T>);

/// A shared validator.
pub type ValidatorHook = Hook<dyn Validator>;

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

impl<T: ?Sized> Clone for Hook<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: ?Sized> Deref for Hook<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> fmt::Debug for Hook<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::any::type_name::<T>())
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
    pub(crate) fn allows(&self, topic: &Topic) -> bool {
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

/// What own messages carry of their author, and what is asked of those of others.
#[derive(Clone, Debug)]
pub struct Authenticity {
    /// Which fields messages must have.
    pub policy: SignaturePolicy,
    /// Whether own messages carry author and sequence number. Needed where ids are computed from them.
    pub author: bool,
    /// Signs own messages, where the policy is to sign.
    pub signer: Option<Hook<dyn Signer>>,
    /// Checks signatures. Without it only the presence of fields is checked: for simulations.
    pub verifier: Option<Hook<dyn Verifier>>,
}

impl Authenticity {
    /// Authors and sequence numbers, no signatures: for closed networks and simulations whose ids need an author.
    pub fn unsigned() -> Self {
        Self { policy: SignaturePolicy::LaxNoSign, author: true, signer: None, verifier: None }
    }

    /// Neither author nor signature: Ethereum's.
    pub fn anonymous() -> Self {
        Self { policy: SignaturePolicy::StrictNoSign, author: false, signer: None, verifier: None }
    }

    /// Everything signed and checked: the default of libp2p. A signer must be given to every node that publishes.
    pub fn strict(verifier: impl Verifier + 'static) -> Self {
        let verifier: Hook<dyn Verifier> = Hook(Arc::new(verifier));
        Self { policy: SignaturePolicy::StrictSign, author: true, signer: None, verifier: Some(verifier) }
    }
}
