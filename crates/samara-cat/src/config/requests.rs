//! How transactions are asked for.

use std::time::Duration;

/// How transactions are asked for. There is never more than one live request for a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requests {
    /// When a request has been waited for long enough, so that another peer is asked.
    pub timeout: Timeout,
    /// How long after that an answer still counts as one (`defaultGlobalRequestTimeout`).
    pub stale: Duration,
    /// Whether it is looked up at a timeout if the transaction has come from elsewhere. No generation of celestia-core does:
    /// where answers take longer than the timeout, the same transaction comes again and again until a block has it.
    pub check_presence: bool,
    /// Whether an answer that comes after its timeout ends the request to the next peer too, although that goes on waiting for its
    /// own timeout (`MarkReceived` until 2026).
    pub late_answer_ends: bool,
    /// Whether a peer that let a request time out is no longer taken for one that has the transaction (since 2026).
    pub forget_unresponsive: bool,
    /// Whom to ask next.
    pub choice: Choice,
    /// Most requests to one peer at a time, those that timed out and are still remembered included (`maxRequestsPerPeer`). Others
    /// wait.
    pub per_peer_max: usize,
    /// What becomes of peers that do not deliver what they announce. `None`: whoever announces first is asked first, always.
    pub standing: Option<Standing>,
}

/// Peers that do not deliver what they announce lose their place.
///
/// A peer that lets more requests time out than it answers, or sends garbage, is not asked for what it announces first; the
/// announcement of another peer is waited for. A peer that has not answered anything yet is asked for one frame of keys at a time. What
/// nobody else announces is asked for all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// How long the announcement of a better peer is waited for.
    pub patience: Duration,
    /// After what time a peer that does not deliver is tried again, with a request for what is here already, so that nothing waits for
    /// it. The time doubles with each attempt in vain, up to 64 times as long.
    pub probe: Duration,
}

/// When a request has been waited for long enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// After the same time always (`MaxGossipDelay`).
    Fixed(Duration),
    /// After the response time that the peer has shown: as the retransmission timeout of RFC 6298 is computed, from the time
    /// between request and answer, which has all delays of both sides in it. While a peer answers earlier requests, later ones
    /// are not overdue.
    Adaptive {
        /// While nothing has been measured.
        initial: Duration,
        /// The least that is added to the smoothed response time; more if responses vary.
        slack: Duration,
        /// At most, for a single request, whatever the peer answers meanwhile.
        max: Duration,
    },
}

/// Which of the peers that have a transaction is asked next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Any (the order of a Go map).
    Random,
    /// The one that will probably answer first, by its response time and what it owes already.
    Best,
}
