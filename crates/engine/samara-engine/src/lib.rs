#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(missing_docs)]
#![warn(clippy::disallowed_types)]

mod altered;
mod codec;
pub mod config;
mod counters;
#[cfg(feature = "driver")]
mod driver;
mod engine;
#[cfg(feature = "config")]
mod flush;
pub mod hostile;
mod keyed;
#[cfg(feature = "config")]
pub mod kinds;
mod names;
#[cfg(feature = "config")]
pub mod octets;
pub mod outbox;
mod peers;
#[cfg(feature = "driver")]
pub mod places;
#[doc(hidden)]
pub mod planted;
#[cfg(feature = "prometheus")]
pub mod prometheus;
pub mod protobuf;
mod rng;
pub mod settings;
pub mod shape;
mod sync;
#[cfg(feature = "testing")]
pub mod testing;
mod time;
#[cfg(feature = "config")]
pub mod units;
pub mod uplink;

pub use altered::alter;
pub use codec::{FrameCodec, Reader, write_part};
pub use counters::{By, Counted, Counter, Gauge, Kind, Named, Number, Rows, Value};
#[cfg(feature = "driver")]
pub use driver::Driver;
pub use engine::{
    Context, Effects, Engine, Frame, Input, LinkRequest, MessageKey, PeerId, PeerIdentity, PeerInfo,
    TimerRequest, TimerToken, Topic,
};
#[cfg(feature = "config")]
pub use flush::FlushSpec;
pub use keyed::PeerKeyed;
pub use outbox::Outbox;
pub use peers::{PeerMap, PeerSet};
pub use rng::{NodeRng, Purpose, derive_seed};
pub use shape::Shape;
pub use sync::lock;
pub use time::Time;
