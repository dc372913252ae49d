//! Rivals of a host: traffic of others in the same house, through the same uplink queue.

use crate::stats::Count;

/// Packets per second of a call: a frame of 20 ms each, the default of Opus (RFC 7587, section 4.2).
pub const CALL_PACKETS_PER_S: u32 = 50;

/// Bytes of UDP payload in a packet of a call: 12 bytes of RTP (RFC 3550, section 5.1) and 188 bytes
/// of Opus, 75 kbit/s, in the range that RFC 7587, section 3.1.1, recommends for stereo.
pub const CALL_PAYLOAD_BYTES: u32 = 200;

/// Kinds of rivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RivalKind {
    /// Connections of TCP CUBIC that always have bytes to send.
    Upload {
        /// The number of connections.
        connections: u32,
    },
    /// [`CALL_PACKETS_PER_S`] packets of UDP with [`CALL_PAYLOAD_BYTES`] each.
    Call,
}

/// What one rival sent, from its start to its end or that of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RivalStats {
    /// The host whose uplink it shares.
    pub host: u32,
    /// What it is.
    pub kind: RivalKind,
    /// Time for which it was there, in nanoseconds.
    pub nanos: u64,
    /// Rate of the uplink in bits per second.
    pub uplink_bps: u64,
    /// Packets of the rival that left the uplink, with their headers.
    pub sent: Count,
    /// Packets of the host itself that left the uplink in the same time.
    pub host_sent: Count,
    /// Packets of the rival that were dropped.
    pub lost: u64,
    /// Of a call: how much longer each packet that arrived was on the way than on an empty path, in
    /// nanoseconds.
    pub delays_nanos: Vec<u64>,
}
