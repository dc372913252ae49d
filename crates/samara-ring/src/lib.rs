//! Group broadcast over a ring that survives its members.
//!
//! DAISYCHAIN of JGroups sends a message to one neighbour, which forwards it to the next one, so that every link carries it
//! once. This engine does that with views that members agree on, repair from the predecessor's buffer, flow control, and the
//! choice of other [`Shape`](samara_engine::Shape)s; [`Ring`] is the protocol, free of input and output. What it promises is on
//! [`Ring`] and, at length, in `docs/protocols/ring.md`.

mod config;
pub mod daisychain;
mod engine;
mod federation;
mod member;
pub mod wire;

#[cfg(feature = "config")]
pub use config::Parameters;
pub use config::{
    Config, ConfigError, Detection, Early, Membership, Order, Preset, ShapeChoice, Slow, Window,
};
pub use engine::{BroadcastError, Command, Cx, Event, Ignored, Metrics, Ring, SuspectCause};
pub use federation::{
    Federation, FederationConfig, FederationCx, FederationEvent, FederationMetrics, Unused,
};
pub use member::{Member, Payload, View, ViewId};
pub use wire::RingFrame;
