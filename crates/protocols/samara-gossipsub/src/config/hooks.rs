//! Hooks into application code: signatures, validation, and the topics of peers.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use samara_engine::PeerId;

use crate::rpc::{Message, Topic};
use crate::signature::{SignaturePolicy, Signer, Verifier};

/// A validator's decision about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Deliver and forward the message.
    Accept,
    /// Neither deliver nor forward the message, and penalise nobody.
    Ignore,
    /// Neither deliver nor forward the message, and penalise every peer that sends it (P4).
    Reject,
    /// The application decides later, through
    /// [`GossipSub::report_validation`](crate::GossipSub::report_validation).
    /// [`Event::NeedsValidation`](crate::Event::NeedsValidation) asks it to.
    Defer,
}

/// Checks messages. The router calls it once for each message, not for its duplicates.
pub trait Validator: Send + Sync {
    /// Decides about a message received from `from`. If the message is signed, its signature is
    /// already verified.
    fn validate(&self, from: PeerId, topic: &Topic, message: &Message) -> Verdict;
}

impl<F: Fn(PeerId, &Topic, &Message) -> Verdict + Send + Sync> Validator for F {
    fn validate(&self, from: PeerId, topic: &Topic, message: &Message) -> Verdict {
        self(from, topic, message)
    }
}

/// Changes payloads between the application and the wire, for example to compress them. All nodes of a
/// topic need the same transform.
///
/// Ids of messages, validators and events have the payload of the application; peers receive that of
/// the wire, and messages are forwarded as they arrived.
pub trait Transform: Send + Sync {
    /// Returns the payload of the application. An error rejects the message, which counts against its
    /// sender as an invalid one (P4). The result must be bounded here: a short payload can expand to
    /// a long one. What exceeds the maximum payload of the topic is rejected afterwards.
    fn inbound(&self, topic: &Topic, data: &Bytes) -> Result<Bytes, String>;

    /// Returns the payload for the wire. An error prevents the publication.
    fn outbound(&self, topic: &Topic, data: &Bytes) -> Result<Bytes, String>;
}

/// A part of the application, shared between configurations.
pub struct Hook<T: ?Sized>(pub Arc<T>);

/// A validator shared between configurations.
pub type ValidatorHook = Hook<dyn Validator>;

impl ValidatorHook {
    /// Wraps a validator, for example a closure.
    pub fn new(validator: impl Validator + 'static) -> Self {
        Self(Arc::new(validator))
    }

    /// Returns a validator that leaves every decision to the application.
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

/// Selects the topics of its peers that a node remembers. A topic that passes is remembered as long
/// as a peer subscribes to it.
#[derive(Clone, Default)]
pub enum SubscriptionFilter {
    /// Every topic passes.
    #[default]
    All,
    /// Only the topics in this set pass.
    Only(BTreeSet<Topic>),
    /// Topics for which the function returns true pass.
    Custom(Arc<dyn Fn(&Topic) -> bool + Send + Sync>),
}

impl SubscriptionFilter {
    /// Returns true if a topic passes.
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

/// The author that a node's own messages name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    /// None.
    Absent,
    /// The node.
    Own,
    /// Another one for each message. Only without signatures.
    Random,
}

/// The authorship fields of a node's own messages, and those it requires of other messages.
#[derive(Clone, Debug)]
pub struct Authenticity {
    /// The fields that messages must have.
    pub policy: SignaturePolicy,
    /// The author that own messages name, with a sequence number. Required where message ids are
    /// computed from them.
    pub author: Author,
    /// Signs own messages if the policy requires signatures.
    pub signer: Option<Hook<dyn Signer>>,
    /// Checks signatures. Without a verifier, only the presence of fields is checked, which is
    /// meant for simulations.
    pub verifier: Option<Hook<dyn Verifier>>,
}

impl Authenticity {
    /// Authors and sequence numbers without signatures, for closed networks and for simulations
    /// whose message ids need an author.
    pub fn unsigned() -> Self {
        Self { policy: SignaturePolicy::LaxNoSign, author: Author::Own, signer: None, verifier: None }
    }

    /// A random author and a random sequence number for each message, without signatures, as
    /// `MessageAuthenticity::RandomAuthor` of rust-libp2p: ids differ, and messages do not tell who
    /// published them.
    pub fn random_author() -> Self {
        Self { author: Author::Random, ..Self::unsigned() }
    }

    /// Neither author nor signature, as in Ethereum.
    pub fn anonymous() -> Self {
        Self { policy: SignaturePolicy::StrictNoSign, author: Author::Absent, signer: None, verifier: None }
    }

    /// Signs and checks everything, which is the default of libp2p. Every node that publishes also
    /// needs a signer.
    pub fn strict(verifier: impl Verifier + 'static) -> Self {
        let verifier: Hook<dyn Verifier> = Hook(Arc::new(verifier));
        Self {
            policy: SignaturePolicy::StrictSign,
            author: Author::Own,
            signer: None,
            verifier: Some(verifier),
        }
    }
}
