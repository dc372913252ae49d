//! QUIC, one half connection in each direction (RFC 9000, RFC 9002).
//!
//! There are two number spaces: **segments** of the data (as in the TCP model: each frame makes its
//! own, and they keep their boundaries in retransmissions) and **packets**, each of which is sent
//! once and carries one segment. Packets are acknowledged or lost; segments arrive. Only packets
//! that elicit acknowledgements have numbers: a packet that carries only an acknowledgement is not
//! acknowledged itself. Windows count bytes.

mod congestion;
mod pacer;
mod receiver;
mod recovery;
mod sender;

use std::time::Duration;

pub(crate) use receiver::Receiver;
pub(crate) use sender::Sender;

use super::config::{Control, Framing, Transport};
pub(crate) use super::tcp::{wire_bytes, wire_bytes_each};
use crate::error::{ConfigError, ensure};

/// The segment of a packet without data: a PING frame (RFC 9000 section 19.2).
pub(crate) const PING: u32 = u32::MAX;

/// The granularity of timers, in nanoseconds (kGranularity, RFC 9002 section 6.1.2).
const GRANULARITY: u64 = 1_000_000;

/// The minimum UDP payload of QUIC's first datagrams, and the number of handshake steps that it
/// applies to: the client's Initial, the server's answer, the client's acknowledgement of it (RFC
/// 9000 section 14.1).
const INITIAL_BYTES: u32 = 1200;
const INITIAL_STEPS: u32 = 3;

#[cfg(test)]
mod tests;

impl Transport {
    /// Returns QUIC as in RFC 9000 and RFC 9002, with the UDP payloads that path MTU discovery
    /// reaches over Ethernet ([`UDP_PAYLOAD`]) and the idle timeout of quic-go
    /// (`DefaultIdleTimeout` in `internal/protocol/params.go`) and quinn (`max_idle_timeout` in
    /// `quinn-proto/src/config/transport.rs`; RFC 9308 section 3.2): 30 s.
    pub fn quic() -> Self {
        Self::quic_with(UDP_PAYLOAD)
    }

    /// Returns QUIC with UDP payloads of up to this many bytes.
    pub fn quic_with(udp_payload: u32) -> Self {
        Self {
            mss: udp_payload.saturating_sub(QUIC_OVERHEAD),
            header: IP_UDP_HEADER + QUIC_OVERHEAD,
            framing: Framing::PLAIN,
            handshake_round_trips: 2,
            control: Control::Quic(QuicConfig::of(udp_payload)),
            dead_peer_timeout: Duration::from_secs(30),
            ..Self::tcp()
        }
    }
}

pub(crate) fn check(transport: &Transport) -> Result<(), ConfigError> {
    let config = transport.control.quic();
    super::tcp::check_windows(config.initial_window, config.receive_window)?;
    ensure!(
        config.initial_receive_window > 0,
        "the initial receive window is 0 packets; it must be positive"
    );
    Ok(())
}

/// Returns the payload of a step of the handshake.
pub(crate) fn hello_bytes(step: u32, transport: &Transport) -> u32 {
    if step < INITIAL_STEPS {
        INITIAL_BYTES.saturating_sub(transport.packet_overhead())
    } else {
        super::tcp::hello_bytes(step, transport)
    }
}

/// Size of the headers of IPv4 (20 bytes, RFC 791) and UDP (8, RFC 768).
pub const IP_UDP_HEADER: u32 = 28;

/// The overhead of QUIC on the stream data of a packet: the short header (RFC 9000 section 17.3.1:
/// 1 byte, a connection id of 4 as in quic-go by default, a packet number of 2), the tag of the
/// encryption (RFC 9001 section 5.3: 16), and the STREAM frame's type, stream id, offset and length
/// (RFC 9000 section 19.8: 1 + 1 + 4 + 2). A packet with only an ACK frame has the same length:
/// type, largest number, delay, count and first range also take 8 bytes.
pub const QUIC_OVERHEAD: u32 = 1 + 4 + 2 + 16 + 8;

/// The largest UDP payload that path MTU discovery of quinn (`MtuDiscoveryConfig::upper_bound`) and
/// quic-go (`MaxPacketBufferSize`) reaches. Both reach it within a few round trips, from 1,200 and
/// 1,280 bytes.
pub const UDP_PAYLOAD: u32 = 1452;

/// Acknowledgement, loss recovery and congestion control of QUIC: RFC 9000 section 13.2, RFC 9002
/// with NewReno as in its appendix B. Values that the RFC fixes are not configurable; see the
/// constants of the modules next to this one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuicConfig {
    /// The scope of in-order delivery.
    pub streams: StreamOrder,
    /// Initial congestion window in full packets. RFC 9002 section 7.2: 10, or the number that fits
    /// in 14,720 bytes if that is smaller, but at least 2. quinn does the same; quic-go starts with
    /// 32.
    pub initial_window: u32,
    /// How far the sender may run ahead of the receiver, in full packets: 10 MiB in go-libp2p
    /// (`MaxStreamReceiveWindow` in `p2p/transport/quicreuse/config.go`), 10 MB in rust-libp2p
    /// (`max_stream_data` in `transports/quic/src/config.rs`).
    pub receive_window: u32,
    /// Maximum delay of an acknowledgement (`max_ack_delay`, 25 ms: RFC 9000 section 18.2).
    pub max_ack_delay: Duration,
    /// Number of packets after which an acknowledgement no longer waits (2: RFC 9000 section
    /// 13.2.2).
    pub ack_every: u32,
    /// The assumed round-trip time before the first measurement (333 ms: RFC 9002 section 6.2.2).
    pub initial_rtt: Duration,
    /// Whether windows are spread over a round trip (RFC 9002 section 7.7), as quinn and quic-go
    /// always do.
    pub pacing: bool,
    /// The number of bytes that a link takes ahead.
    pub send_buffer: QuicSendBuffer,
    /// The receive window at the start of a connection, in full packets. If it is smaller than
    /// `receive_window`, a receiver announces how far the sender may go, and doubles its window, up
    /// to `receive_window`, if the sender uses it up in less than four round trips
    /// (`maybeAdjustWindowSize` in quic-go's `internal/flowcontrol/base_flow_controller.go`).
    /// Otherwise the window never changes.
    pub initial_receive_window: u32,
    /// The implementation that pacing and congestion control follow.
    pub behaviour: QuicBehaviour,
}

/// Implementations of pacing and congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum QuicBehaviour {
    /// NewReno of RFC 9002, and bursts of at least ten packets as in quinn.
    #[default]
    Rfc,
    /// Reno as in quic-go: 70 % of the window remain after a loss, slow start also ends when the
    /// round trip grows (HyStart), and the pacer releases packets as soon as it has tokens for one,
    /// but at least 1 ms after the last.
    QuicGo,
}

impl Default for QuicConfig {
    /// Returns the configuration for packets of [`UDP_PAYLOAD`] bytes.
    fn default() -> Self {
        Self::of(UDP_PAYLOAD)
    }
}

impl QuicConfig {
    /// Returns the defaults for packets with this many bytes of UDP payload.
    pub fn of(udp_payload: u32) -> Self {
        let payload = udp_payload.saturating_sub(QUIC_OVERHEAD).max(1);
        Self {
            streams: StreamOrder::Single,
            initial_window: (INITIAL_WINDOW_BYTES / udp_payload.max(1)).clamp(2, 10),
            receive_window: (RECEIVE_WINDOW_BYTES / payload).max(1),
            max_ack_delay: Duration::from_millis(25),
            ack_every: 2,
            initial_rtt: Duration::from_millis(333),
            pacing: true,
            send_buffer: QuicSendBuffer::Unsent { bytes: u64::from(udp_payload) },
            initial_receive_window: u32::MAX,
            behaviour: QuicBehaviour::Rfc,
        }
    }

    /// Returns the configuration of quic-go in go-libp2p for packets with this many bytes of UDP
    /// payload: an initial window of 32 packets (`initialCongestionWindow` in
    /// `internal/congestion/cubic_sender.go`), and a receive window of a stream that grows from 512
    /// KiB (`DefaultInitialMaxStreamData` in `internal/protocol/params.go`) to 10 MiB. A connection
    /// has one stream in each direction here; its own window, from 768 KiB to 15 MiB, is always
    /// larger.
    pub fn quic_go(udp_payload: u32) -> Self {
        let payload = udp_payload.saturating_sub(QUIC_OVERHEAD).max(1);
        Self {
            initial_window: 32,
            initial_receive_window: ((512 << 10) / payload).max(1),
            behaviour: QuicBehaviour::QuicGo,
            ..Self::of(udp_payload)
        }
    }
}

/// The initial window of RFC 9002 section 7.2, in bytes.
const INITIAL_WINDOW_BYTES: u32 = 14_720;
/// The default of [`QuicConfig::receive_window`], in bytes.
const RECEIVE_WINDOW_BYTES: u32 = 10 * 1024 * 1024;

/// The assignment of frames to QUIC's streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "config", serde(rename_all = "kebab-case"), schemars(rename = "Streams"))]
pub enum StreamOrder {
    /// All frames to a peer on one stream, in order, as implementations of libp2p do for GossipSub.
    /// A lost packet holds back the data behind it.
    #[default]
    Single,
    /// A stream for every frame: a frame is delivered as soon as its own packets have arrived.
    PerFrame,
}

/// The size of a QUIC link's send buffer. The link takes a frame if the buffer is not full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuicSendBuffer {
    /// A limit on bytes that were never sent, as in quic-go. There, `Write` returns when all but
    /// the last packet's worth is sent (`canBufferStreamFrame` in `send_stream.go`), and sent bytes
    /// are kept elsewhere.
    Unsent {
        /// The size in bytes.
        bytes: u64,
    },
    /// A limit on bytes that are not acknowledged, as in quinn (`send_window`, 10 MB by default).
    Unacked {
        /// The size in bytes.
        bytes: u64,
    },
}
