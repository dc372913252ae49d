//! How frames travel over a link: the parts that all transports have.

use std::time::Duration;

use super::http2::Http2Config;
use super::mconn::MConnectionConfig;
use super::quic::{IP_UDP_HEADER, QuicConfig};
use super::tcp::TcpConfig;

/// How frames are cut into packets, and what paces them.
#[derive(Clone, Debug)]
pub struct Transport {
    /// The most payload bytes of a packet.
    pub mss: u32,
    /// Header bytes of a packet (40 for IPv4 and TCP without options).
    pub header: u32,
    /// What security and multiplexing layers add to a frame.
    pub framing: Framing,
    /// Round trips from the first packet of a dial until the link is up at the dialler (0 brings links up after one
    /// one-way trip). TCP needs four: TCP itself, the negotiation of Noise, Noise, and the negotiation of protocols (which
    /// go-libp2p does by identify). QUIC needs two: its handshake brings security, identity and streams at once (RFC 9001
    /// section 4; libp2p negotiates neither security nor a muxer on QUIC), and the negotiation of protocols.
    pub handshake_round_trips: u32,
    /// Acknowledgements, repair of losses, congestion control.
    pub control: Control,
    /// What lies between the outbox and the transport.
    pub connection: Connection,
    /// How long a link stays up whose peer's host is silently gone (a dead host, not a closed process): keep-alive and
    /// retransmission give up then.
    pub dead_peer_timeout: Duration,
}

impl Transport {
    /// Latency and rates only.
    pub fn ideal() -> Self {
        Self { control: Control::Ideal, ..Self::tcp() }
    }

    /// Bytes of a full packet as QUIC's congestion control counts them: without IP and UDP (RFC 9002 appendix A.1.1).
    pub(crate) fn datagram(&self) -> u32 {
        self.mss + self.packet_overhead()
    }

    /// What QUIC adds to the payload of a packet.
    pub(crate) fn packet_overhead(&self) -> u32 {
        self.header.saturating_sub(IP_UDP_HEADER)
    }
}

/// What paces packets, and what becomes of lost ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Control {
    /// Packets are limited by rates and latency only, and nothing is acknowledged.
    Ideal,
    /// One ordered stream of bytes.
    Tcp(TcpConfig),
    /// Numbered packets that carry streams.
    Quic(QuicConfig),
}

impl Control {
    /// TCP's configuration, if it is TCP.
    pub(crate) const fn tcp(&self) -> Option<&TcpConfig> {
        match self {
            Self::Tcp(config) => Some(config),
            Self::Ideal | Self::Quic(_) => None,
        }
    }

    /// QUIC's configuration; the default if it is not QUIC.
    pub(crate) fn quic(&self) -> QuicConfig {
        match self {
            Self::Quic(config) => *config,
            Self::Ideal | Self::Tcp(_) => QuicConfig::default(),
        }
    }

    /// Whether acknowledgements are packets of their own.
    pub(crate) fn separate_acks(&self) -> bool {
        self.tcp().is_some_and(|tcp| tcp.separate_acks)
    }

    /// How long an acknowledgement may wait, in nanoseconds.
    pub(crate) const fn ack_delay(&self) -> u64 {
        match self {
            Self::Ideal => 0,
            Self::Tcp(config) => config.delayed_ack.as_nanos() as u64,
            Self::Quic(config) => config.max_ack_delay.as_nanos() as u64,
        }
    }
}

/// Bytes that the layers between an engine and TCP add to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// Added to a frame that fits in one packet.
    pub small_overhead: u32,
    /// Added to a larger frame.
    pub large_overhead: u32,
    /// Payload of the first packet of a larger frame, where these layers write a first piece of their own; 0 if not.
    pub lead: u32,
}

impl Framing {
    /// Frames go out as they are.
    pub const PLAIN: Self = Self { small_overhead: 0, large_overhead: 0, lead: 0 };
    /// Noise (18 bytes a record: length and tag) and Yamux (12 bytes a frame) as go-libp2p writes them: a small frame
    /// is one record; a large one makes three records, the first of which is a packet of its own (57 + 11 x 1,460 + 414
    /// bytes were captured for a frame of 16,442 bytes).
    pub const NOISE_YAMUX: Self = Self { small_overhead: 30, large_overhead: 89, lead: 57 };
}

/// What lies between the outbox and the transport.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Connection {
    /// Nothing: the transport takes copies from the outbox as its dispatch says.
    #[default]
    Direct,
    /// Channels over a secret connection, as in CometBFT and celestia-core. Over TCP or the ideal transport, with
    /// [`Dispatch::PerLink`](samara_engine::outbox::Dispatch::PerLink).
    MConnection(MConnectionConfig),
    /// HTTP/2, as below gRPC. Over TCP or the ideal transport.
    Http2(Http2Config),
}

impl Connection {
    /// The connection's configuration, if it has channels.
    pub(crate) const fn channels(&self) -> Option<&MConnectionConfig> {
        match self {
            Self::Direct | Self::Http2(_) => None,
            Self::MConnection(config) => Some(config),
        }
    }

    /// HTTP/2's configuration; the default if it is not HTTP/2.
    pub(crate) fn http2(&self) -> Http2Config {
        match self {
            Self::Direct | Self::MConnection(_) => Http2Config::default(),
            Self::Http2(config) => *config,
        }
    }
}
