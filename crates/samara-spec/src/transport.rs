//! What a scenario says about its transport.

use std::fmt;

use samara_engine::units::{Rate, Size, Span};
use samara_sim::{Congestion, StreamOrder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How frames travel over a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TransportSpec {
    /// The model.
    pub kind: TransportKind,
    /// Starting point for the values below that are not given.
    pub stack: Stack,
    /// Tcp and grpc: how the congestion window grows and shrinks ("reno", if not given). Linux comes with "cubic".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<Congestion>,
    /// Initial congestion window in packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_window: Option<u32>,
    /// The receiver's window in packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_window: Option<u32>,
    /// The least retransmission timeout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_rto: Option<Span>,
    /// How long an acknowledgement may wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delayed_ack: Option<Span>,
    /// Tcp: after how many packets an acknowledgement waits no longer (2, if not given). Network cards of Linux put packets that come one
    /// after the other together (GRO), and what is put together is acknowledged at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_every: Option<u32>,
    /// Whether the window shrinks in idle times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_restart: Option<bool>,
    /// Quic: how frames are laid on streams ("single", if not given).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<StreamOrder>,
    /// Quic: how long an acknowledgement may wait ("25 ms", if not given).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_ack_delay: Option<Span>,
    /// Quic: bytes of the largest UDP payload (1452, if not given).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_udp_payload: Option<u32>,
    /// Not quic: payload of the largest packet (1,460 bytes, of groups 1,448, if not given; 8,948 bytes with jumbo frames and timestamps).
    /// Simulations of much data are faster with large packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_segment: Option<Size>,
    /// Of groups, tcp: bytes that wait in the kernel unsent at most ("64 KiB", if not given), as with `TCP_NOTSENT_LOWAT`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsent: Option<Size>,
    /// Channels over a secret connection, as CometBFT has them below its pools of transactions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<ConnectionSpec>,
    /// Grpc: bytes that a receiver of HTTP/2 lets a connection have on the way; 65,535 at first and then as the path is seen to need, if not
    /// given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http2_window: Option<Size>,
    /// When links come up.
    pub links: LinkStart,
}

/// Models of a transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TransportKind {
    /// Rates and latency only.
    Ideal,
    /// TCP below Noise and Yamux.
    #[default]
    Tcp,
    /// QUIC, with TLS 1.3 inside.
    Quic,
    /// TCP below TLS and HTTP/2, as gRPC has them.
    Grpc,
}

/// Implementations of TCP that differ in ways that show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stack {
    /// Linux: initial window 10, decay of the window in idle times, acknowledgements after two packets or 40 ms.
    #[default]
    Linux,
    /// Shadow 3: the window grows also when unused and never decays, each acknowledgement is a packet of its own after
    /// 1 ms, the timeout stays at its initial second, 10 packets after a timeout, send buffers from 128 KiB.
    Shadow,
}

/// When links come up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LinkStart {
    /// Dials start at a random time from this one on.
    pub from: Span,
    /// And before this one. If both are the same, links are simply there at that time, without a handshake.
    pub until: Span,
}

impl Default for LinkStart {
    fn default() -> Self {
        Self { from: Span::from_millis(100), until: Span::from_millis(100) }
    }
}

/// The connection of CometBFT and celestia-core below the pools: channels over a secret connection. The pool's preset says which channels
/// there are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ConnectionSpec {
    /// How long written packets are collected before they leave (100 ms there), or "when-idle": as soon as nothing more is to be
    /// written. As the pool's preset says, if not given: "when-idle" for `cat`, "100 ms" for all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flush: Option<FlushSpec>,
    /// The most that is sent over a link (5.12 MB/s); 0 for no limit.
    pub send_rate: Rate,
    /// The most that is read from a link (5.12 MB/s); 0 for no limit.
    pub receive_rate: Rate,
    /// How often each side pings; 0 for never.
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

/// When packets that were written leave.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum FlushSpec {
    /// So long after the first of them.
    Throttle(Span),
    /// As soon as nothing more is to be written.
    WhenIdle,
}

impl TryFrom<String> for FlushSpec {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == "when-idle" {
            return Ok(Self::WhenIdle);
        }
        Span::parse(&text).map(Self::Throttle).map_err(|error| format!("{error}, or \"when-idle\""))
    }
}

impl From<FlushSpec> for String {
    fn from(flush: FlushSpec) -> Self {
        flush.to_string()
    }
}

impl fmt::Display for FlushSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Throttle(span) => span.fmt(f),
            Self::WhenIdle => f.write_str("when-idle"),
        }
    }
}
