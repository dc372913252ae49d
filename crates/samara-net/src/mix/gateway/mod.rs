//! What senders find at a node: they share secrets with it, learn of rounds that take payloads, submit them, and fetch what came out.
//!
//! The original has a gateway beside each node; here it is a socket of the node, with a service of its own. Whoever has a certificate is
//! let in there, and is the sender of its fingerprint.

mod board;
mod service;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use samara_mix::{Outcome, Sealed, Secret, SenderId};
use tokio::sync::oneshot;
use tonic::Status;

pub(super) use board::Board;
pub use board::{GatewayStatus, RoundTimes};
pub(super) use service::{Gateway, Inner, REGISTER, RESULT, SUBMIT, WATCH};

/// How a round ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All payloads, in the order in which they came out.
    Delivered(Vec<Outcome>),
    /// Nothing came out.
    Failed {
        /// Why: the name of a [`Cause`](samara_mix::Cause), or what the node had against the batch.
        cause: String,
        /// Who is to blame, by the number in the pool.
        culprit: Option<u32>,
    },
}

/// What senders ask of the hub.
pub(super) enum Request {
    Register {
        sender: SenderId,
        secret: Secret,
        answer: oneshot::Sender<()>,
    },
    /// The answer is how many more payloads the round has room for.
    Submit {
        round: u64,
        slots: Vec<Sealed>,
        answer: oneshot::Sender<Result<u32, Status>>,
    },
    Result {
        round: u64,
        answer: oneshot::Sender<Result<Arc<Ended>, Status>>,
    },
}
