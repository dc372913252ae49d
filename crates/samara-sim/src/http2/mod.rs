//! What gRPC has between a protocol and TCP: HTTP/2 (RFC 9113), as far as it decides when bytes may leave.
//!
//! A message is cut into `DATA` frames. They may leave only while the receiver has **credit** left for the connection: it starts
//! with a window, and gives back what it has taken in with `WINDOW_UPDATE` frames, each of which is half a round trip late.
//! A window that stays at the standard's 65,535 bytes therefore carries that much in a round trip and no more. A receiver can
//! hold a larger one from the start, or **estimate** what the path holds and widen it, as grpc-go does.
//!
//! ```text
//! outbox -> messages -> DATA frames (credit) -> Bytes (segments, window of TCP) -> tcp::Sender
//!                                     engine <- Receiver (credit, estimator) <- tcp::Receiver
//! ```
//!
//! Streams have windows of their own, which are not modelled: grpc-go widens the one of a call to the message that is being read
//! (`maybeAdjust`), and elsewhere they are as large as that of the connection, or larger than what a call has in flight. Nor are header
//! blocks and TLS records, which add less than one part in two hundred.

mod bytes;
mod config;
mod credit;
mod estimator;
mod receiver;
mod sender;

pub use config::{Http2Config, Window};
pub(crate) use config::{check, message_bytes};
pub(crate) use receiver::Receiver;
pub(crate) use sender::{Load, Sender};

#[cfg(test)]
mod tests;
