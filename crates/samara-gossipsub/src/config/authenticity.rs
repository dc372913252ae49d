//! Authors and signatures of messages.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::signature::{SignaturePolicy, Signer, Verifier};

/// What own messages carry of their author, and what is asked of those of others.
#[derive(Clone, Debug)]
pub struct Authenticity {
    /// Which fields messages must have.
    pub policy: SignaturePolicy,
    /// Whether own messages carry author and sequence number. Needed where ids are computed from them.
    pub author: bool,
    /// Signs own messages, where the policy is to sign. What differs from node to node can also be given by
    /// [`GossipSub::set_signer`](crate::GossipSub::set_signer).
    pub signer: Option<SignerHook>,
    /// Checks signatures. Without it only the presence of fields is checked: for simulations.
    pub verifier: Option<VerifierHook>,
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
        let verifier = Some(VerifierHook(Arc::new(verifier)));
        Self { policy: SignaturePolicy::StrictSign, author: true, signer: None, verifier }
    }
}

/// A signer, shared.
#[derive(Clone)]
pub struct SignerHook(Arc<dyn Signer>);

impl SignerHook {
    /// Wraps a signer.
    pub fn new(signer: impl Signer + 'static) -> Self {
        Self(Arc::new(signer))
    }
}

impl Deref for SignerHook {
    type Target = dyn Signer;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Debug for SignerHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer")
    }
}

/// A verifier, shared.
#[derive(Clone)]
pub struct VerifierHook(Arc<dyn Verifier>);

impl VerifierHook {
    /// Wraps a verifier.
    pub fn new(verifier: impl Verifier + 'static) -> Self {
        Self(Arc::new(verifier))
    }
}

impl Deref for VerifierHook {
    type Target = dyn Verifier;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Debug for VerifierHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier")
    }
}
