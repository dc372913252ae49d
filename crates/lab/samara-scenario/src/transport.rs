//! The section of a scenario about its transport.

use samara_engine::FlushSpec;
use samara_engine::units::{Rate, Size, Span};
use samara_sim::{Congestion, Recovery, StreamOrder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of unsent bytes of a socket of a group in the kernel (`TCP_NOTSENT_LOWAT`). One frame
/// keeps links busy while heartbeats and acknowledgements wait only briefly.
const UNSENT_BYTES: u64 = 64 << 10;

samara_engine::kinds! {
    /// Transport of frames over links.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct TransportSpec {
        /// Implementation of TCP or QUIC that supplies defaults for the values of its kind.
        #[serde(default)]
        pub stack: Stack,
        /// Channels over a secret connection, as in CometBFT below its transaction pools.
        pub connection: Option<ConnectionSpec>,
        /// Time at which links come up.
        #[serde(default)]
        pub links: LinkStart,
    }

    /// Models of the transport.
    #[derive(Clone, Debug, PartialEq)]
    pub enum TransportKind: "tcp" {
        /// Rates and latency only.
        Ideal = "ideal" {
            /// Maximum payload of a packet. Default: 1,460 bytes, in groups 1,448.
            max_segment: Option<Size>,
        } lacks { _: "this kind has rates and latency only" },
        /// TCP below Noise and Yamux.
        Tcp = "tcp" {
            ..tcp: TcpSpec,
            /// With one order over all links and `network.uplink_queue`: whether nodes limit what they
            /// have under way over all links by the delay of the queue before the uplink, as programs on
            /// sockets can, so that copies wait where they can be withdrawn. Default: true.
            node_limit: Option<bool>,
            /// In groups: maximum number of unsent bytes in the kernel, as with `TCP_NOTSENT_LOWAT`.
            /// Default: "64 KiB".
            unsent: Option<Size>,
        },
        /// QUIC, with TLS 1.3 inside.
        Quic = "quic" {
            /// Initial congestion window in packets.
            initial_window: Option<u32>,
            /// Receive window in packets.
            receive_window: Option<u32>,
            /// Receive window at the start of a connection, in packets, which grows to
            /// `receive_window` with its use. Default: none with the stack "linux", so that the window
            /// never changes.
            initial_receive_window: Option<u32>,
            /// Assignment of frames to streams. Default: "single".
            streams: Option<StreamOrder>,
            /// Maximum delay of an acknowledgement. Default: "25 ms".
            max_ack_delay: Option<Span>,
            /// Maximum size of a UDP payload in bytes. Default: 1452.
            max_udp_payload: Option<u32>,
            /// Whether links carry the headers of IP and UDP, 28 bytes for each packet. Default: true.
            /// Some simulators count UDP payloads only.
            ip_headers: Option<bool>,
            /// As with TCP.
            node_limit: Option<bool>,
        } lacks {
            congestion: "QUIC uses NewReno here",
            recovery: "QUIC repairs losses by RFC 9002",
            min_rto: "QUIC has probe timeouts without a minimum",
            delayed_ack: "with QUIC use max_ack_delay",
            ack_every: "with QUIC use max_ack_delay",
            idle_restart: "QUIC keeps its window in idle times",
            max_segment: "here use max_udp_payload",
        },
        /// TCP below TLS and HTTP/2, as in gRPC.
        Grpc = "grpc" {
            ..tcp: TcpSpec,
            /// Window of HTTP/2 that a receiver grants to a connection, in bytes. Default: 65,535 at
            /// first, then by the estimated need of the path.
            http2_window: Option<Size>,
        },
        /// Datagrams, as over UDP: a frame is cut into fragments, which leave as fast as the uplink
        /// takes them. Nothing is acknowledged or sent again, and a lost fragment loses its frame.
        Datagram = "datagram" {
            /// As with QUIC.
            max_udp_payload: Option<u32>,
            /// As with QUIC.
            ip_headers: Option<bool>,
            /// Bytes of a UDP payload before the fragment of a frame. Default: 24, for the numbers of
            /// frame and fragment and an authentication tag.
            datagram_header: Option<u32>,
        } lacks {
            max_segment: "here use max_udp_payload",
            _: "this kind has rates and latency only",
        },
    }

    /// Values of TCP. Those that are absent are those of the stack.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct TcpSpec {
        /// Congestion control. Default: "reno". Linux ships with "cubic".
        pub congestion: Option<Congestion>,
        /// Repair of losses. Default: that of the stack.
        pub recovery: Option<Recovery>,
        /// Initial congestion window in packets.
        pub initial_window: Option<u32>,
        /// Receive window in packets.
        pub receive_window: Option<u32>,
        /// Minimum retransmission timeout.
        pub min_rto: Option<Span>,
        /// Maximum delay of an acknowledgement.
        pub delayed_ack: Option<Span>,
        /// Number of packets after which an acknowledgement waits no longer. Default: 2. Network cards of
        /// Linux merge consecutive packets (GRO), and the kernel acknowledges merged packets at once.
        pub ack_every: Option<u32>,
        /// Whether the congestion window shrinks in idle times.
        pub idle_restart: Option<bool>,
        /// Maximum payload of a packet. Default: 1,460 bytes, in groups 1,448; with jumbo frames and
        /// timestamps it is 8,948 bytes. Simulations with much data are faster with large packets.
        pub max_segment: Option<Size>,
    }
}

impl Default for TransportKind {
    fn default() -> Self {
        Self::Tcp { tcp: TcpSpec::default(), node_limit: None, unsent: None }
    }
}

impl TransportKind {
    /// Returns the values of TCP, if this kind is over TCP.
    pub fn tcp(&self) -> Option<&TcpSpec> {
        match self {
            Self::Tcp { tcp, .. } | Self::Grpc { tcp, .. } => Some(tcp),
            Self::Ideal { .. } | Self::Quic { .. } | Self::Datagram { .. } => None,
        }
    }

    /// Returns the maximum payload of a packet, if it is set.
    pub fn max_segment(&self) -> Option<Size> {
        match self {
            Self::Ideal { max_segment } => *max_segment,
            _ => self.tcp()?.max_segment,
        }
    }

    /// Returns whether nodes limit what they have under way, if it is set.
    pub fn node_limit(&self) -> Option<bool> {
        match self {
            Self::Tcp { node_limit, .. } | Self::Quic { node_limit, .. } => *node_limit,
            _ => None,
        }
    }

    /// Returns the maximum number of unsent bytes of a socket in the kernel.
    pub fn unsent_bytes(&self) -> u64 {
        match self {
            Self::Tcp { unsent: Some(unsent), .. } => unsent.bytes(),
            _ => UNSENT_BYTES,
        }
    }
}

/// Implementations of TCP and QUIC with visible differences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stack {
    /// Linux: initial window of 10 packets, decay of the window in idle times, acknowledgements
    /// after two packets or 40 ms.
    #[default]
    Linux,
    /// Shadow 3: the window also grows while unused and never decays, each acknowledgement is a
    /// separate packet after 1 ms, the timeout stays at its initial second, 10 packets after a
    /// timeout, send buffers from 128 KiB. Threads run one after the other, so that a link writes its
    /// announcements and its copies before the next one begins.
    Shadow,
    /// quic-go in go-libp2p: initial window of 32 packets, Reno that keeps 70 % of the window after a
    /// loss and leaves slow start when the round trip grows, pacing of single packets, receive
    /// windows from 512 KiB to 10 MiB.
    QuicGo,
}

/// Start of the links.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LinkStart {
    /// Earliest time of a dial. Each dial starts at a random time.
    pub from: Span,
    /// Latest time of a dial. If both are the same, all links are up at that time, without a
    /// handshake.
    pub until: Span,
}

impl Default for LinkStart {
    fn default() -> Self {
        Self { from: Span::from_millis(100), until: Span::from_millis(100) }
    }
}

/// The connection of CometBFT and celestia-core below the pools: channels over a secret connection.
/// The preset of the pool determines the channels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ConnectionSpec {
    /// Time for which written packets are collected before they leave (100 ms in celestia-core), or
    /// "when-idle": as soon as no more packets are waiting. Default: that of the pool's preset,
    /// "when-idle" for `cat` and "100 ms" for all others.
    pub flush: Option<FlushSpec>,
    /// Maximum send rate of a link. 0 for no limit. Default: 5.12 MB/s.
    pub send_rate: Rate,
    /// Maximum receive rate of a link. 0 for no limit. Default: 5.12 MB/s.
    pub receive_rate: Rate,
    /// Interval between pings of each side. 0 for no pings.
    pub ping: Span,
}

impl Default for ConnectionSpec {
    fn default() -> Self {
        Self {
            flush: None,
            send_rate: Rate::from_bps(40_960_000),
            receive_rate: Rate::from_bps(40_960_000),
            ping: Span::from_millis(60_000),
        }
    }
}
