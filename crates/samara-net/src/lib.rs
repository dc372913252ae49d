//! The engines on real sockets.
//!
//! Nothing of a protocol is in this crate: it makes connections, reads and writes frames, keeps the clock, and asks the
//! engine's outbox for the next copy only when a link has room for it. `samara-libp2p` does the same in a libp2p swarm.
//!
//! `mconn` puts any engine whose frames have a codec on the connections of Tendermint, CometBFT and celestia-core: that
//! of the transaction pool, for one. `ring` is a member of a group that broadcasts over framed TCP, `relay` a node of a
//! pool that mixes over gRPC. Each is a feature: `mconnection`, `ring`, `relay`.

mod driver;
#[cfg(feature = "mconnection")]
pub mod mconn;
#[cfg(feature = "relay")]
pub mod relay;
#[cfg(feature = "ring")]
pub mod ring;

pub use driver::Driver;
