//! QUIC, a half connection each way (RFC 9000, RFC 9002).
//!
//! Two spaces of numbers: **segments** of the data (as TCP has them here: each frame makes its own, and they keep their
//! boundaries when they are sent again) and **packets**, each of which is sent once and carries one segment. Packets are
//! acknowledged and lost; segments arrive. Only packets that elicit acknowledgements have numbers: those that carry nothing
//! but an acknowledgement are not acknowledged themselves. Windows count bytes.

mod config;
mod congestion;
mod pacer;
mod ranges;
mod receiver;
mod recovery;
mod rtt;
mod sender;

pub use config::{IP_UDP_HEADER, QUIC_OVERHEAD, QuicConfig, QuicSendBuffer, StreamOrder, UDP_PAYLOAD};
pub(crate) use receiver::Receiver;
pub(crate) use sender::Sender;

/// The segment of a packet without data: a PING frame (RFC 9000 section 19.2).
pub(crate) const PING: u32 = u32::MAX;

/// Timers are not set finer than this, in nanoseconds (kGranularity, RFC 9002 section 6.1.2).
const GRANULARITY: u64 = 1_000_000;

#[cfg(test)]
mod tests;
