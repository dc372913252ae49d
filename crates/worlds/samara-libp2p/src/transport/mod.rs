//! Transports that report what they know about their connections.
//!
//! A behaviour sees streams, and neither the round trips nor the acknowledgements below them. A
//! transport of this module registers a [`Meter`] for each of its connections. The behaviour with the
//! same [`Meters`] in its [`Options`](crate::Options) reads it, and limits what the node has under
//! way over all its links ([`samara_engine::uplink`]). A transport of another crate can register
//! meters, too.

#[cfg(feature = "quic")]
pub mod quic;
mod registry;
#[cfg(feature = "tcp")]
pub mod tcp;

use std::time::Duration;

pub use registry::{Ends, Meters, Registered, Socket};

/// The most bytes of a packet on an Ethernet. The acknowledgement of a single one may wait for a second
/// one (RFC 1122 section 4.2.3.2, RFC 9000 section 13.2.1).
pub(crate) const SINGLE_BYTES: u64 = 1_500;

/// A transport's account of one of its connections. Its bytes include those of all protocols and
/// of the encryption, and exclude headers of packets. Over QUIC, what was written and is unsent are
/// bytes of streams, and the others include the headers of QUIC, some 3 % of a full packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Bytes written into the connection since it began.
    pub written: u64,
    /// Bytes that the peer has acknowledged since it began.
    pub acknowledged: u64,
    /// Bytes that were written and have not left the node.
    pub unsent: u64,
    /// Bytes that have left the node and have neither arrived nor are lost.
    pub under_way: u64,
    /// Bytes that were lost, ever, or sent again.
    pub lost: u64,
    /// Bytes that may be under way by the congestion window and the peer's receive window.
    pub window: u64,
    /// An estimate of the last round trips of acknowledged bytes; zero if nothing was acknowledged
    /// since the last reading.
    pub round_trip: Duration,
    /// The smoothed round trip.
    pub round_trip_mean: Duration,
    /// The least round trip, which may be that of the handshake.
    pub round_trip_min: Duration,
}

/// A connection of a transport that can be read.
pub trait Meter: Send + Sync {
    /// Returns what the transport knows now, or `None` if the connection is closed, or if nothing can
    /// be said at the moment. A meter has one reader.
    fn read(&self) -> Option<Reading>;
}
