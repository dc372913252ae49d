//! A team of nodes that mixes batches of payloads, as cMix and the xx network do, streamed and pipelined.
//!
//! Senders seal payloads for a round of a team; each node of it replaces a layer and permutes the batch; what comes out are the
//! payloads in another order, which nobody knows as long as one node is honest. Everything expensive happens before there are
//! payloads. [`Mix`] is the protocol, free of input and output: a [`Node`] of the pool, or the [`Scheduler`] that draws teams
//! and makes rounds. What is promised, and what is not, is in `docs/protocols/mix.md`.

/// Declares an enum with a list of its variants and a name for each.
#[doc(hidden)]
#[macro_export]
macro_rules! names {
    (
        $(#[$outer:meta])*
        pub enum $Name:ident { $($(#[$inner:meta])* $Variant:ident = $name:literal,)* }
    ) => {
        $(#[$outer])*
        pub enum $Name { $($(#[$inner])* $Variant,)* }

        impl $Name {
            /// All of them, in order.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$Variant),*];

            /// Its name in reports.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$Variant => $name,)* }
            }
        }
    };
}

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
#[cfg(feature = "config")]
pub use config::Parameters;
pub use config::{Config, ConfigError, Reconnect, ResultShape};
pub use group::Group;
pub use metrics::{Ignored, Metrics};
pub use mix::{Command, Event, Mark, Mix, RefuseError};
pub use node::{Cx, Node};
pub use round::{Cause, Failure, Gate, Half, NodeState, Phase, Plan, RoundState, Transfer};
pub use scheduler::Scheduler;
pub use secret::Secret;
pub use sender::{
    Batch, BatchError, KeyPair, Keyring, Outcome, RegisterError, SealError, Sealed, Sender, SenderId,
};
pub use wire::MixFrame;
