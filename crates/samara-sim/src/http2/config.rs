//! What a receiver lets a connection have in flight, and how bytes are framed.

use crate::config::{Control, Framing, Transport};
use crate::error::ConfigError;

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

/// Bytes of a message of `len` encoded bytes in its `DATA` frames, if credit does not cut it into smaller ones.
pub(crate) fn message_bytes(len: u32) -> u32 {
    let len = len + MESSAGE_PREFIX;
    len + len.div_ceil(FRAME_PAYLOAD) * FRAME_HEADER
}

/// Whether the transport can carry HTTP/2.
pub(crate) fn check(transport: &Transport) -> Result<(), ConfigError> {
    let Some(config) = transport.connection.http2() else { return Ok(()) };
    if matches!(transport.control, Control::Quic(_)) {
        return Err(ConfigError::Http2OverQuic);
    }
    if transport.framing != Framing::PLAIN {
        return Err(ConfigError::Http2WithFraming);
    }
    if config.window.at_first() == 0 {
        return Err(ConfigError::NoCredit);
    }
    Ok(())
}
