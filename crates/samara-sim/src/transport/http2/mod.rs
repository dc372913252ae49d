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

mod receiver;
mod sender;

pub(crate) use receiver::Receiver;
pub(crate) use sender::{Load, Sender};

use super::config::{Connection, Control, Framing, Transport};
pub(crate) use super::tcp::hello_bytes;
use crate::error::{ConfigError, ensure};

#[cfg(test)]
mod tests;

/// The window of a connection that nobody has widened, in bytes (RFC 9113 section 6.9.2).
pub(super) const INITIAL_WINDOW: u32 = 65_535;
/// The widest window that an estimator opens, in bytes (`bdpLimit` in `internal/transport/bdp_estimator.go` of grpc-go since
/// 1.17; the same in hyper).
pub(super) const ESTIMATED_MAX: u32 = 16 << 20;
/// The header of a frame in bytes (RFC 9113 section 4.1).
pub(super) const FRAME_HEADER: u32 = 9;
/// What gRPC puts before a message: whether it is compressed, and its length.
pub(super) const MESSAGE_PREFIX: u32 = 5;
/// The most bytes of a `DATA` frame that every peer takes (`SETTINGS_MAX_FRAME_SIZE`, RFC 9113 section 6.5.2).
pub(super) const FRAME_PAYLOAD: u32 = 16_384;
/// A `WINDOW_UPDATE` frame in bytes (RFC 9113 section 6.9).
pub(super) const UPDATE_BYTES: u32 = FRAME_HEADER + 4;
/// A `PING` frame in bytes (RFC 9113 section 6.7).
pub(super) const PING_BYTES: u32 = FRAME_HEADER + 8;

/// HTTP/2 over TCP, or over the ideal transport. Both ends of a link are configured alike; each direction has the window that its
/// receiver holds, as an upload has it from the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Http2Config {
    /// What the receiver lets a connection have in flight.
    pub window: Window,
}

/// What a receiver lets a connection have in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Window {
    /// 65,535 bytes at first; wider if the path is seen to hold more, up to 16 MiB: the default of grpc-go at both ends, and
    /// `http2_adaptive_window` of hyper and tonic.
    #[default]
    Estimated,
    /// So many bytes from the start (hyper's server: 1 MiB; the standard without anything else: 65,535).
    Fixed {
        /// How many (at least 1).
        bytes: u32,
    },
}

impl Window {
    /// How wide it is on a new connection, in bytes.
    pub(super) const fn at_first(self) -> u32 {
        match self {
            Self::Estimated => INITIAL_WINDOW,
            Self::Fixed { bytes } => bytes,
        }
    }
}

impl Transport {
    /// TCP below TLS 1.3 and HTTP/2, as gRPC has them.
    pub fn grpc(config: Http2Config) -> Self {
        Self {
            framing: Framing::PLAIN,
            // TCP and TLS 1.3 (RFC 8446 section 2); the preface of HTTP/2 rides along.
            handshake_round_trips: 2,
            connection: Connection::Http2(config),
            ..Self::tcp()
        }
    }
}

/// Checks that the transport can carry HTTP/2.
pub(crate) fn check(transport: &Transport) -> Result<(), ConfigError> {
    let is_quic = matches!(transport.control, Control::Quic(_));
    ensure!(!is_quic, "HTTP/2 is one stream of bytes; use tcp or ideal");
    ensure!(transport.framing == Framing::PLAIN, "HTTP/2 frames messages itself; the framing must be plain");
    let window = transport.connection.http2().window.at_first();
    ensure!(window > 0, "the window of HTTP/2 is 0 bytes; it must be at least 1");
    super::tcp::check(transport)
}

/// Bytes on the wire of a message in its `DATA` frames, if credit does not cut it into smaller ones.
pub(crate) fn wire_bytes(encoded_len: u32, transport: &Transport) -> u64 {
    let len = encoded_len + MESSAGE_PREFIX;
    let bytes = len + len.div_ceil(FRAME_PAYLOAD) * FRAME_HEADER;
    u64::from(bytes) + u64::from(bytes.div_ceil(transport.mss)) * u64::from(transport.header)
}
