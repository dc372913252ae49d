//! Any engine over the connections of Tendermint, CometBFT and celestia-core.
//!
//! A link is a TCP connection with authenticated encryption (the secret connection, by the crate `tendermint-p2p`), over
//! which both sides tell who they are, and then send **packets** of several **channels**: what CometBFT calls an
//! `MConnection`. So a node of this crate is a peer of the real ones, and has the same links among its own.
//!
//! ```text
//! engine -> outbox -> channels -> packets -> sealed frames -> socket
//! ```
//!
//! What lies between the outbox and the socket is bounded ([`Options::in_flight_bytes`], the queues of channels, 16 sealed
//! frames, 16 KiB in the kernel), and a link is only given the next copy when there is room, so that what leaves next is
//! decided late.
//!
//! What a peer can fill is bounded as well: one message of each channel, one sealed frame, its turn in a queue of frames that is
//! the same for all, and the lanes of the outbox. Peers that are slow or silent lose their connection by the handshake's deadline
//! or by the next ping; those that break the rules at once. None of that reaches another link.
//!
//! Differences from CometBFT: there is no exchange of addresses (PEX), nothing limits the rate of a link, and of two
//! connections between the same nodes both ends keep the one that the node with the smaller id dialled.
//!
//! `examples/pool.rs` is a network of three transaction pools in 60 lines.

mod cat;
mod codec;
mod connection;
mod error;
mod handshake;
mod hub;
mod info;
mod key;
mod link;
mod node;
mod options;
mod peers;
mod receive;
mod secret;
mod send;
mod status;
mod wire;

pub use cat::CatCodec;
pub use codec::Codec;
pub use error::{Broken, Closed, Gone, StartError};
pub use info::{Incompatible, NodeInfo};
pub use key::{AddressError, NodeId, NodeKey, PeerAddress};
pub use node::Node;
pub use options::{Channel, Flush, Options};
pub use status::{Counters, Event, PeerStatus, Status, Stopped};

#[cfg(test)]
mod tests;
