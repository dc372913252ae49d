//! Where a score has consequences, and what makes parameters impossible.

use thiserror::Error;

/// A parameter with an impossible value.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{field} is {value}, but {rule}")]
pub struct ParameterError {
    /// The field.
    pub field: &'static str,
    /// Its value (durations in seconds).
    pub value: f64,
    /// What is allowed.
    pub rule: &'static str,
}

/// Returns an error with these parts unless `holds`. NaN holds nowhere, since comparisons with it are false.
pub(super) fn check(
    holds: bool,
    field: &'static str,
    value: f64,
    rule: &'static str,
) -> Result<(), ParameterError> {
    if holds && value.is_finite() { Ok(()) } else { Err(ParameterError { field, value, rule }) }
}

/// The scores at which a node treats a peer differently (specification v1.1, "Score thresholds").
#[derive(Clone, Debug, PartialEq)]
pub struct PeerScoreThresholds {
    /// Below: no gossip to and from the peer.
    pub gossip: f64,
    /// Below: no own messages to the peer when flood publishing, or by fanout.
    pub publish: f64,
    /// Below: everything from the peer is ignored.
    pub graylist: f64,
    /// Peers to connect to instead are accepted only from peers at or above.
    pub accept_px: f64,
    /// A mesh whose median is below grafts opportunistically.
    pub opportunistic_graft: f64,
}

impl Default for PeerScoreThresholds {
    /// The defaults of rust-libp2p 0.50 (go-libp2p-pubsub has none).
    fn default() -> Self {
        Self { gossip: -10.0, publish: -50.0, graylist: -80.0, accept_px: 10.0, opportunistic_graft: 20.0 }
    }
}

impl PeerScoreThresholds {
    /// Checks the rules of the specification.
    ///
    /// # Errors
    /// The first field whose value is not allowed.
    pub fn validate(&self) -> Result<(), ParameterError> {
        check(self.gossip <= 0.0, "gossip", self.gossip, "it must be <= 0")?;
        check(self.publish <= self.gossip, "publish", self.publish, "it must be <= gossip")?;
        check(self.graylist <= self.publish, "graylist", self.graylist, "it must be <= publish")?;
        check(self.accept_px >= 0.0, "accept_px", self.accept_px, "it must be >= 0")?;
        let graft = self.opportunistic_graft;
        check(graft >= 0.0, "opportunistic_graft", graft, "it must be >= 0")
    }
}
