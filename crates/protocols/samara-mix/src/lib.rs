//! Teams of nodes that mix batches of payloads like cMix and the xx network, streamed and
//! pipelined.
//!
//! Senders seal payloads for a round of a team. Each node of the team replaces one layer and
//! permutes the batch. The last node outputs the payloads in another order, which remains secret as
//! long as one node is honest. All expensive work happens before the payloads arrive. [`Mix`] is
//! the protocol, free of input and output: a [`Node`] of the pool, or the [`Scheduler`] that draws
//! teams and creates rounds. `docs/protocols/mix.md` lists what is guaranteed, and what is not.
#![warn(clippy::disallowed_types)]

mod compute;
mod config;
mod group;
mod metrics;
mod mix;
mod node;
mod peers;
mod round;
mod scheduler;
mod secret;
mod sender;
pub mod wire;

pub use compute::{BadElement, Done, Job, Pool, Voided};
pub use config::{Config, ConfigError, Reconnect, ResultShape};
#[cfg(feature = "config")]
pub use config::{FileConfig, Parameters};
pub use group::Group;
pub use metrics::{Ignored, Metrics};
pub use mix::{Command, Event, Mark, Mix, RefuseError, WithMix};
pub use node::{Cx, Node};
pub use round::{Cause, Failure, Gate, Half, NodeState, Phase, Plan, RoundState, Transfer};
pub use scheduler::Scheduler;
pub use secret::Secret;
pub use sender::{
    Batch, BatchError, KeyPair, Keyring, Outcome, RegisterError, SealError, Sealed, Sender, SenderId,
};
pub use wire::MixFrame;
