//! Engines that speak the frames of the transaction pool over the connections of Tendermint,
//! CometBFT and celestia-core.
//!
//! A link is a TCP connection with authenticated encryption (the secret connection). Both sides
//! exchange node infos, and then send **packets** of several **channels**: CometBFT calls that an
//! `MConnection`. So nodes of this crate can be peers of CometBFT nodes and of each other.
//!
//! ```text
//! engine -> outbox -> channels -> packets -> sealed frames -> socket
//! ```
//!
//! The bytes between the outbox and the socket are bounded ([`Options::in_flight_bytes`], the
//! queues of channels, 16 sealed frames, 16 KiB in the kernel). A link gets the next copy when
//! there is room, so that the outbox decides late.
//!
//! All state that a peer can fill is bounded as well: one message of each channel, one sealed
//! frame, its turn in the queue of frames of all peers, and the lanes of the outbox. Slow or silent
//! peers lose their connection by the handshake's deadline or by the next ping. Peers that break
//! the rules lose it at once. Other links are not affected.
//!
//! Differences from CometBFT: there is no peer exchange (PEX), no limit on the rate of a link, and
//! of two connections between the same nodes both ends keep the one that the node with the smaller
//! id dialled.
//!
//! `examples/pool.rs` is a network of three transaction pools in 60 lines. With the feature `hosted`,
//! `host` carries a host of an experiment.

mod codec;
mod handshake;
#[cfg(feature = "hosted")]
mod hosted;
mod identity;
mod layer;
mod node;
mod packets;
mod secret;
#[cfg(test)]
mod tests;

/// The parsers that the fuzz targets call.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing {
    pub use super::packets::{Incoming, Packet, Receiving};
    pub use super::secret::{PLAIN_MAX, SEALED, Secret, pair};
}

pub use codec::CatCodec;
#[cfg(feature = "hosted")]
pub use hosted::host;
pub use identity::{
    AddressError, Broken, Incompatible, NodeId, NodeInfo, NodeKey, Other, PeerAddress, Versions,
};
pub use node::{Channel, Event, Flush, Node, Options, PeerStatus, Status, Stopped};

pub use crate::status::{Closed, Counters, Gone, OptionError, StartError};
