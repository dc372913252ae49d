#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod behaviour;
mod event;
mod handler;
mod identity;
mod terms;
pub mod transport;
mod unfinished;

pub use behaviour::Behaviour;
pub use event::{Event, FrameError, LinkEvent, Options, PROTOCOLS, Sizes, Traffic, Uplink};
pub use handler::Handler;
pub use identity::{KeyVerifier, identity_of, peer_id_of};
pub use terms::Terms;
