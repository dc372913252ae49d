//! The contract between a protocol engine and whatever runs it.
//!
//! > A protocol decides *what is owed to whom*; one [`Outbox`] per node decides *which copy leaves next*; a transport
//! > only asks for the next copy when it has room.
//!
//! An [`Engine`] is a state machine without input or output of its own. A *driver* (the simulator, or a runtime on real
//! sockets) calls [`Engine::handle`] with one [`Input`] at a time and the current [`Time`]; the engine answers through
//! its [`Context`]: it owes frames in the [`Outbox`], withdraws what it owed, sets timers, and tells the application
//! what happened. It never sees a clock, a socket or a global random generator, so that the same engine gives the same
//! answers in virtual and in real time.
//!
//! The order of calls for a driver is written down on [`Engine`].

#![warn(missing_docs)]

pub mod config;
#[cfg(feature = "driver")]
mod driver;
mod engine;
mod keyed;
mod names;
pub mod outbox;
mod peers;
pub mod protobuf;
mod rng;
pub mod shape;
#[cfg(feature = "testing")]
pub mod testing;
mod time;
#[cfg(feature = "config")]
pub mod units;

#[cfg(feature = "driver")]
pub use driver::Driver;
pub use engine::{
    Context, Effects, Engine, Frame, Input, LinkRequest, MessageKey, PeerId, PeerIdentity, PeerInfo,
    TimerRequest, TimerToken, Topic,
};
pub use keyed::PeerKeyed;
pub use outbox::Outbox;
pub use peers::PeerSet;
pub use rng::{NodeRng, Purpose, derive_seed};
pub use shape::Shape;
pub use time::Time;
