//! How frames travel over a link: the configuration that all transports share.

use std::time::Duration;

use super::http2::Http2Config;
use super::mconn::MConnectionConfig;
use super::quic::QuicConfig;
use super::tcp::TcpConfig;
use crate::error::ConfigError;

use samara_engine::outbox::OutboxConfig;
use samara_engine::uplink::LimitConfig;

/// How frames are cut into packets, and how packets are controlled.
#[derive(Clone, Debug)]
pub struct Transport {
    /// Maximum payload of a packet, in bytes.
    pub mss: u32,
    /// Header bytes of a packet (40 for IPv4 and TCP without options).
    pub header: u32,
    /// The part of `header` below UDP, which QUIC does not count (28: IPv4 and UDP). 0 if `header`
    /// has no such part, since links count UDP payloads only.
    pub ip_header: u32,
    /// The overhead of security and multiplexing layers.
    pub framing: Framing,
    /// Round trips from the first packet of a dial until the link is up at the dialler (0 brings
    /// links up after one one-way trip). TCP needs four: TCP itself, the negotiation of Noise,
    /// Noise, and the negotiation of protocols, for which go-libp2p uses identify. QUIC needs two:
    /// its handshake provides security, identity and streams at once (RFC 9001 section 4; libp2p
    /// negotiates neither security nor a muxer on QUIC), and the negotiation of protocols follows.
    pub handshake_round_trips: u32,
    /// Acknowledgements, loss recovery and congestion control.
    pub control: Control,
    /// The layer between the outbox and the transport.
    pub connection: Connection,
    /// When the writers of a host's links run, with a queue for each link.
    pub writers: Writers,
    /// The limit over all links of a host, with one order over them, TCP or QUIC, and a queue behind the
    /// connections ([`NicDiscipline`](crate::NicDiscipline)).
    pub limit: Option<LimitConfig>,
    /// How long a link stays up after the peer's host has silently died (a dead host, not a closed
    /// process). Keep-alive and retransmission give up after this time.
    pub dead_peer_timeout: Duration,
}

impl Transport {
    /// Returns a transport that models only latency and rates.
    pub fn ideal() -> Self {
        Self { control: Control::Ideal, ..Self::tcp() }
    }

    /// Returns the bytes of a full packet as QUIC's congestion control counts them: without IP and
    /// UDP (RFC 9002 appendix A.1.1).
    pub(crate) fn datagram(&self) -> u32 {
        self.mss + self.packet_overhead()
    }

    /// Returns the bytes that QUIC adds to the payload of a packet.
    pub(crate) fn packet_overhead(&self) -> u32 {
        self.header.saturating_sub(self.ip_header)
    }
}

/// When the writers of a host's links run. It matters where links do not take turns on the uplink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writers {
    /// All at once, on processors of their own: every link writes its urgent copies, which are short,
    /// before others write the rest.
    #[default]
    AtOnce,
    /// One after the other once a frame has been handled, as Shadow runs the threads of a process: a link
    /// writes its urgent copies and the rest before the next one begins. What applications request still
    /// goes as with [`AtOnce`](Self::AtOnce), since they announce the messages of a batch before they
    /// publish it.
    InTurn,
}

/// The control of packets and the recovery of losses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Control {
    /// Only rates and latency limit packets, and nothing is acknowledged.
    Ideal,
    /// One ordered stream of bytes.
    Tcp(TcpConfig),
    /// Numbered packets that carry streams.
    Quic(QuicConfig),
    /// Datagrams, without acknowledgements, windows and retransmissions.
    Datagram,
}

impl Control {
    /// Returns TCP's configuration, if this is TCP.
    pub(crate) const fn tcp(&self) -> Option<&TcpConfig> {
        match self {
            Self::Tcp(config) => Some(config),
            Self::Ideal | Self::Quic(_) | Self::Datagram => None,
        }
    }

    /// Returns QUIC's configuration, or the default if this is not QUIC.
    pub(crate) fn quic(&self) -> QuicConfig {
        match self {
            Self::Quic(config) => *config,
            Self::Ideal | Self::Tcp(_) | Self::Datagram => QuicConfig::default(),
        }
    }

    /// Returns true if acknowledgements are separate packets.
    pub(crate) fn separate_acks(&self) -> bool {
        self.tcp().is_some_and(|tcp| tcp.separate_acks)
    }

    /// Returns the maximum delay of an acknowledgement in nanoseconds.
    pub(crate) const fn ack_delay(&self) -> u64 {
        match self {
            Self::Ideal | Self::Datagram => 0,
            Self::Tcp(config) => config.delayed_ack.as_nanos() as u64,
            Self::Quic(config) => config.max_ack_delay.as_nanos() as u64,
        }
    }
}

/// The overhead of the layers between an engine and TCP, in bytes per frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// Bytes added to a frame that fits in one packet.
    pub small_overhead: u32,
    /// Bytes added to a larger frame.
    pub large_overhead: u32,
    /// Payload of the first packet of a larger frame, if these layers write a separate first piece;
    /// otherwise 0.
    pub lead: u32,
}

impl Framing {
    /// Frames without any overhead.
    pub const PLAIN: Self = Self { small_overhead: 0, large_overhead: 0, lead: 0 };
    /// Noise (18 bytes a record: length and tag) and Yamux (12 bytes a frame) as go-libp2p writes
    /// them. A small frame is one record. A large frame makes three records, the first of which is
    /// a packet of its own. (In a capture, a frame of 16,442 bytes took 57 + 11 x 1,460 + 414
    /// bytes.)
    pub const NOISE_YAMUX: Self = Self { small_overhead: 30, large_overhead: 89, lead: 57 };
}

/// The layer between the outbox and the transport.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Connection {
    /// No layer: the transport takes copies from the outbox according to its dispatch.
    #[default]
    Direct,
    /// Channels over a secret connection, as in CometBFT and celestia-core. Needs TCP or the ideal
    /// transport, and [`Dispatch::PerLink`](samara_engine::outbox::Dispatch::PerLink).
    MConnection(MConnectionConfig),
    /// HTTP/2, as below gRPC. Needs TCP or the ideal transport.
    Http2(Http2Config),
}

impl Connection {
    /// Returns the connection's configuration, if it has channels.
    pub const fn channels(&self) -> Option<&MConnectionConfig> {
        match self {
            Self::Direct | Self::Http2(_) => None,
            Self::MConnection(config) => Some(config),
        }
    }

    /// Checks that an outbox fits the connection.
    pub(crate) fn check_outbox(&self, outbox: &OutboxConfig) -> Result<(), ConfigError> {
        self.channels().map_or(Ok(()), |config| super::mconn::check_outbox(config, outbox))
    }

    /// Returns the configuration of its channels; that of no channels if it has none.
    pub(crate) const fn mconnection(&self) -> &MConnectionConfig {
        static NONE: MConnectionConfig = MConnectionConfig::cometbft(Vec::new());
        match self.channels() {
            Some(config) => config,
            None => &NONE,
        }
    }

    /// Returns HTTP/2's configuration, or the default if this is not HTTP/2.
    pub(crate) fn http2(&self) -> Http2Config {
        match self {
            Self::Direct | Self::MConnection(_) => Http2Config::default(),
            Self::Http2(config) => *config,
        }
    }
}
