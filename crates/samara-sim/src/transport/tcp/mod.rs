//! TCP, a half connection each way, in units of segments. The ideal transport is TCP without control.
//!
//! Segments are numbered from 0 and keep their boundaries when they are sent again, as every write makes its own
//! segments. Windows count packets, as in Linux.

mod cubic;
mod receiver;
mod sender;

use std::time::Duration;

pub(crate) use receiver::Receiver;
pub(crate) use sender::{Sender, timestamp};

use super::backlog::cut;
use super::config::{Connection, Control, Framing, Transport};
use crate::error::{ConfigError, ensure};

/// Payload of a step of the handshake: about what the messages of Noise XX take.
const HELLO_BYTES: u32 = 100;

impl Transport {
    /// TCP as Linux does it, below Noise and Yamux.
    pub fn tcp() -> Self {
        Self {
            mss: 1460,
            header: 40,
            framing: Framing::NOISE_YAMUX,
            handshake_round_trips: 4,
            control: Control::Tcp(TcpConfig::default()),
            connection: Connection::Direct,
            dead_peer_timeout: Duration::from_secs(40),
        }
    }
}

/// Checks the windows of TCP, whatever lies above it.
pub(crate) fn check(transport: &Transport) -> Result<(), ConfigError> {
    let Some(config) = transport.control.tcp() else { return Ok(()) };
    check_windows(config.initial_window, config.receive_window)
}

/// Checks the windows of a transport, in packets.
pub(super) fn check_windows(initial: u32, receive: u32) -> Result<(), ConfigError> {
    for (name, window) in [("initial", initial), ("receive", receive)] {
        ensure!(window > 0, "the {name} window is 0 packets; it must be at least 1");
    }
    Ok(())
}

/// Bytes on the wire of a frame: framing, and the headers of its packets.
pub(crate) fn wire_bytes(encoded_len: u32, transport: &Transport) -> u64 {
    let (bytes, packets) = cut(encoded_len, transport.mss, transport.framing);
    u64::from(bytes) + u64::from(packets) * u64::from(transport.header)
}

/// Payload of a step of the handshake.
pub(crate) fn hello_bytes(_step: u32, _transport: &Transport) -> u32 {
    HELLO_BYTES
}

/// Congestion control and timers of TCP, with selective acknowledgements (RFC 6675).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TcpConfig {
    /// How the congestion window grows, and what is left of it after a loss.
    pub congestion: Congestion,
    /// Initial congestion window in packets (10: RFC 6928).
    pub initial_window: u32,
    /// The receiver's window in packets.
    pub receive_window: u32,
    /// The least retransmission timeout (200 ms in Linux; 1 s in RFC 6298).
    pub min_rto: Duration,
    /// What that minimum holds for.
    pub rto_floor: RtoFloor,
    /// The congestion window after a retransmission timeout, in packets (1: RFC 5681; 10 in Shadow).
    pub loss_window: u32,
    /// The retransmission timeout before the first measurement (1 s: RFC 6298).
    pub initial_rto: Duration,
    /// How long an acknowledgement may wait for data to ride on (at most 500 ms by RFC 1122; 40 ms in Linux).
    pub delayed_ack: Duration,
    /// After how many packets it no longer waits (2: RFC 5681).
    pub ack_every: u32,
    /// Whether every acknowledgement that is due is a packet of its own which takes a turn at the interface before the
    /// data of its link (Shadow), instead of riding on data. On a busy uplink that is shared in turn, a link that
    /// receives much then hardly sends.
    pub separate_acks: bool,
    /// Whether the window shrinks in idle times as in Linux (RFC 2861: halved for every timeout, not below the initial
    /// window).
    pub idle_restart: bool,
    /// Whether the window also grows while it is not used up (RFC 7661 forbids it; Shadow does it).
    pub grow_unused: bool,
    /// How many bytes a link takes ahead of acknowledgement.
    pub send_buffer: SendBuffer,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            congestion: Congestion::Reno,
            initial_window: 10,
            receive_window: 4096,
            min_rto: Duration::from_millis(200),
            rto_floor: RtoFloor::Variation,
            loss_window: 1,
            initial_rto: Duration::from_secs(1),
            delayed_ack: Duration::from_millis(40),
            ack_every: 2,
            separate_acks: false,
            idle_restart: true,
            grow_unused: false,
            send_buffer: SendBuffer::Auto { per_packet: 2 * 1460, min: 16 * 1024 },
        }
    }
}

/// Algorithms of congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "config", serde(rename_all = "kebab-case"))]
pub enum Congestion {
    /// NewReno (RFC 6582): one packet more each round trip, half after a loss.
    Reno,
    /// CUBIC (RFC 9438) with HyStart, as in Linux.
    Cubic,
}

impl Congestion {
    /// What Linux calls it (`net.ipv4.tcp_congestion_control`).
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::Cubic => "cubic",
        }
    }
}

/// What the least retransmission timeout is a floor of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RtoFloor {
    /// Of the sum of the smoothed round trip time and four times its variation (RFC 6298; Shadow): on a steady path of
    /// 100 ms a packet that waits for 100 ms more is sent again, needlessly.
    Sum,
    /// Of the variation alone (Linux): the timeout is at least the round trip time and the minimum.
    Variation,
}

/// The size of a link's send buffer. A frame is taken if the buffer is not full; the last one may overshoot, as a
/// blocked write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendBuffer {
    /// So many bytes.
    Fixed {
        /// How many.
        bytes: u64,
    },
    /// In proportion to the largest congestion window so far.
    Auto {
        /// Bytes for each packet of the window: two segments in effect in Linux (`tcp_sndbuf_expand`), 4,808 in Shadow.
        per_packet: u32,
        /// The least size.
        min: u64,
    },
    /// No limit, but so many bytes that were never sent (`TCP_NOTSENT_LOWAT`). As in Linux (`tcp_stream_memory_free`), who was refused
    /// is asked again when half of it is free.
    Unsent {
        /// How many.
        bytes: u64,
    },
}
