//! `[transport]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::short;
use crate::units::{Size, Span};

/// How frames travel over a link. What is not said is as in the preset.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Transport {
    /// What paces packets.
    #[serde(default)]
    pub kind: TransportKind,
    /// Whose TCP it is: where the parameters below come from.
    #[serde(default)]
    pub preset: TransportPreset,
    /// The most payload of a packet (1460 B).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mss: Option<Size>,
    /// Headers of a packet (40 B: IPv4 and TCP without options).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<Size>,
    /// Initial congestion window, in packets (10: RFC 6928).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub initial_window: Option<u32>,
    /// Receive window, in packets (linux 4096, shadow 119).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2))]
    pub receive_window: Option<u32>,
    /// The least retransmission timeout (200 ms).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_rto: Option<Span>,
    /// What the least retransmission timeout holds for (linux "variation", shadow "sum").
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rto_floor: Option<RtoFloor>,
    /// The retransmission timeout before the first measurement (1 s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_rto: Option<Span>,
    /// The congestion window after a retransmission timeout, in packets (linux 1, shadow 10).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub loss_window: Option<u32>,
    /// How long an acknowledgement waits for data to ride on (linux 40 ms, shadow 5 ms).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delayed_ack: Option<Span>,
    /// After how many packets an acknowledgement waits no longer (2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub ack_every: Option<u32>,
    /// Whether every acknowledgement is a packet of its own, which takes a turn at the interface before the data of its
    /// link (linux no, shadow yes).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub separate_acks: Option<bool>,
    /// Whether the congestion window shrinks in idle times (linux yes, shadow no).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_restart: Option<bool>,
    /// Whether the congestion window grows while it is not used up (linux no, shadow yes).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grow_unused: Option<bool>,
    /// How much a link takes ahead of acknowledgement: a size, or in proportion to the congestion window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_buffer: Option<SendBuffer>,
    /// What security and multiplexing add to a frame.
    #[serde(default)]
    pub framing: Framing,
    /// Round trips from the first packet of a dial until the link is up (4: TCP, Noise, negotiation of protocols).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshake_round_trips: Option<u32>,
    /// When links come up.
    #[serde(default)]
    pub established: Established,
    /// How long a link stays up whose peer is silently gone (40 s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_peer_timeout: Option<Span>,
}

/// What paces packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TransportKind {
    /// Rates and latencies only: what a transport could reach at best.
    Ideal,
    /// TCP with slow start, congestion avoidance, recovery of losses, and windows.
    #[default]
    Tcp,
}

/// Whose TCP it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TransportPreset {
    /// As Linux does it.
    #[default]
    Linux,
    /// As the Shadow simulator does it.
    Shadow,
}

/// What the least retransmission timeout holds for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RtoFloor {
    /// For the whole timeout (RFC 6298).
    Sum,
    /// For the part that comes from the variation of the round trip time: the timeout is at least the round trip time and
    /// this minimum.
    Variation,
}

/// How much a link takes ahead of acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(transform = short::send_buffer)]
pub enum SendBuffer {
    /// A fixed size.
    Fixed {
        /// How much.
        size: Size,
    },
    /// In proportion to the largest congestion window so far.
    Auto {
        /// For each packet of the window (linux 2920 B, shadow 4808 B).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        per_packet: Option<Size>,
        /// The least size (16 KiB).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min: Option<Size>,
    },
}

/// What security and multiplexing add to a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(transform = short::kind_alone)]
pub enum Framing {
    /// Noise and Yamux as go-libp2p writes them: 30 B for a frame that fits into a packet, 89 B for a larger one, whose
    /// first 57 B are a packet of their own.
    #[default]
    NoiseYamux,
    /// Nothing.
    Plain,
    /// As given.
    Custom {
        /// Added to a frame that fits into a packet.
        small: Size,
        /// Added to a larger frame.
        large: Size,
        /// The first packet of a larger frame, where these layers write a piece of their own first; "0 B" if not.
        lead: Size,
    },
}

/// When links come up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(transform = short::kind_alone)]
pub enum Established {
    /// All at the start, without handshake.
    #[default]
    AtStart,
    /// Each is dialled at a time drawn uniformly, and takes its handshake.
    Dialled {
        /// The first.
        from: Span,
        /// The last.
        until: Span,
    },
}
