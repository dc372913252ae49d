//! Group broadcast over a ring that survives the failure of its members.
//!
//! DAISYCHAIN of JGroups sends a message to one neighbour, which forwards it to the next one, so
//! that every link carries it once. This engine adds views that members agree on, repair from the
//! predecessor's buffer, flow control, and a choice of other [`Shape`](samara_engine::Shape)s.
//! [`Ring`] is the protocol, free of input and output. Its documentation lists the guarantees;
//! `docs/protocols/ring.md` explains them at length.
#![warn(clippy::disallowed_types)]

mod config;
pub mod daisychain;
mod engine;
mod federation;
mod member;
pub mod wire;

pub use config::{
    Config, ConfigError, Detection, Early, Membership, Order, Preset, ShapeChoice, Slow, Window,
};
#[cfg(feature = "config")]
pub use config::{FileConfig, Parameters, key_of};
pub use engine::{BroadcastError, Command, Cx, Event, Ignored, Metrics, Ring, SuspectCause};
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use federation::fuzz_letter;
pub use federation::{
    Federation, FederationConfig, FederationCx, FederationEvent, FederationMetrics, Unused,
    content_of as federated_content,
};
pub use member::{Member, Payload, View, ViewId};
pub use wire::RingFrame;
