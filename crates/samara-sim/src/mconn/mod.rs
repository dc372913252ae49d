//! What CometBFT and celestia-core have between a protocol and TCP: an `MConnection` over a `SecretConnection`.
//!
//! Several **channels** share a connection. Each has a short queue of messages; the **send routine** cuts the message at
//! its head into packets of at most 1,024 bytes and writes the packet of the channel that has sent the least for its
//! priority into a **buffer** of 64 KiB. What is in there leaves with the next **flush**: when the buffer is full, or some
//! time after the first packet was written (the flush throttle). A flush **seals** the bytes in frames of 1,024, the last
//! one padded, and each sealed frame of 1,044 bytes is one write to the socket.
//!
//! ```text
//! outbox -> Channel -> Writer (packets, buffer) -> Stream (sealed frames, segments) -> tcp::Sender
//!                                                              engine <- Receiver <- tcp::Receiver
//! ```
//!
//! Nothing can be withdrawn from a channel's queue: what finds no room there stays in the outbox.
//!
//! Source: `p2p/conn/connection.go`, `p2p/conn/secret_connection.go`, `libs/timer/throttle_timer.go` and
//! `libs/flowrate/flowrate.go` of celestia-core v1.16.0-tm-v0.34.27 (the same in Tendermint and CometBFT 0.34 and 0.37).

mod channel;
mod config;
mod limiter;
mod receiver;
mod sender;
mod socket;
mod stats;
mod stream;
pub(crate) mod wire;
mod writer;

pub use config::{ChannelConfig, Connection, Flush, MConnectionConfig};
pub(crate) use config::{check, check_outbox};
pub(crate) use receiver::Receiver;
pub(crate) use sender::{Sender, Surroundings};
pub use stats::{ChannelStats, ConnectionStats};
pub(crate) use stream::Load;
pub use wire::{MESSAGE_PACKET_BYTES, SEALED_FRAME, SEALED_PLAINTEXT, message_bytes};

#[cfg(test)]
mod tests;
