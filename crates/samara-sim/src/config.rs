//! The world that a simulation runs in: hosts, their links to the network, and the transport.

use std::time::Duration;

use crate::http2::{self, Http2Config};
use crate::mconn::{self, Connection, MConnectionConfig};
use crate::pairs::PairLatencies;
use crate::quic::{IP_UDP_HEADER, QUIC_OVERHEAD, QuicConfig, UDP_PAYLOAD};

/// Latencies below this are raised to it, so that a window of the simulation always has a length.
pub const LATENCY_FLOOR: Duration = Duration::from_micros(50);

/// Everything about a simulation that is not an engine.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// The seed that all random streams are derived from.
    pub seed: u64,
    /// Worker threads (at least 1). Results do not depend on it.
    pub threads: usize,
    /// Latency, jitter and loss between hosts.
    pub network: Network,
    /// How frames travel over a link.
    pub transport: Transport,
    /// How the links of a host share its uplink.
    pub nic: NicDiscipline,
    /// What happens when a host's downlink is busy.
    pub downlink_queue: DownlinkQueue,
}

/// A host's own properties.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostConfig {
    /// Uplink rate in bits per second.
    pub uplink_bps: u64,
    /// Downlink rate in bits per second.
    pub downlink_bps: u64,
    /// Index into the rows of [`Latency::Regions`]; ignored by other latency models.
    pub region: u16,
}

/// What lies between the hosts.
#[derive(Clone, Debug)]
pub struct Network {
    /// One-way latency of each pair.
    pub latency: Latency,
    /// The most that is added to the latency of a packet, uniformly drawn; packets of one link stay in order.
    pub jitter: Duration,
    /// The probability that a packet is lost on its way, in `0..1`.
    pub loss: f64,
    /// Times at which groups of hosts cannot reach each other.
    pub partitions: Vec<Partition>,
    /// What hosts of a region share on the way to and from other regions, for each region of [`Latency::Regions`]; empty if it is as
    /// wide as all of them need. Latencies between regions are at least three times the least of all.
    pub gateways: Vec<GatewayConfig>,
}

impl Network {
    /// The same latency everywhere, no jitter, no loss.
    pub fn uniform(latency: Duration) -> Self {
        Self {
            latency: Latency::Constant(latency),
            jitter: Duration::ZERO,
            loss: 0.0,
            partitions: Vec::new(),
            gateways: Vec::new(),
        }
    }
}

/// The way between a region and all others: two links with a queue each, which all hosts of the region share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GatewayConfig {
    /// The rate out of the region in bits per second.
    pub up_bps: u64,
    /// The rate into the region in bits per second.
    pub down_bps: u64,
    /// What happens to packets that find either of them busy.
    pub queue: DownlinkQueue,
}

/// One-way latency between hosts.
#[derive(Clone, Debug)]
pub enum Latency {
    /// The same for all pairs.
    Constant(Duration),
    /// Drawn once for every pair of hosts, uniformly, the same in both directions.
    Uniform {
        /// The least.
        min: Duration,
        /// The most.
        max: Duration,
    },
    /// By the regions of sender (row) and receiver (column).
    Regions(Vec<Vec<Duration>>),
    /// By sender and receiver themselves.
    Pairs(PairLatencies),
}

/// A time in which hosts of different groups cannot reach each other.
#[derive(Clone, Debug)]
pub struct Partition {
    /// From when.
    pub from: samara_engine::Time,
    /// Until when.
    pub until: samara_engine::Time,
    /// The group of every host.
    pub group_of: Vec<u16>,
}

/// How the links of a host that have something to send share its uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum NicDiscipline {
    /// Links send a segment each in turn: in effect what Linux does (fair queueing between flows).
    #[default]
    RoundRobin,
    /// The segment that the application wrote first goes first: the default of Shadow.
    Fifo,
}

/// What happens to packets that find the downlink busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DownlinkQueue {
    /// Packets queue up to so many bytes; those beyond are dropped.
    DropTail {
        /// The most bytes that wait.
        bytes: u64,
    },
    /// Controlled delay (RFC 8289) over an unbounded queue.
    CoDel {
        /// The standing delay that is tolerated (5 ms in the RFC; 10 ms in Shadow).
        target: Duration,
        /// How long it is tolerated (100 ms).
        interval: Duration,
    },
}

impl Default for DownlinkQueue {
    /// CoDel with the RFC's values.
    fn default() -> Self {
        Self::CoDel { target: Duration::from_millis(5), interval: Duration::from_millis(100) }
    }
}

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

    /// QUIC as RFC 9000 and RFC 9002 have it, with the UDP payloads that path MTU discovery ends at over Ethernet
    /// ([`UDP_PAYLOAD`]) and the idle timeout of quic-go (`DefaultIdleTimeout` in `internal/protocol/params.go`) and quinn
    /// (`max_idle_timeout` in `quinn-proto/src/config/transport.rs`; RFC 9308 section 3.2): 30 s.
    pub fn quic() -> Self {
        Self::quic_with(UDP_PAYLOAD)
    }

    /// The same with UDP payloads of up to so many bytes.
    pub fn quic_with(udp_payload: u32) -> Self {
        Self {
            mss: udp_payload.saturating_sub(QUIC_OVERHEAD),
            header: IP_UDP_HEADER + QUIC_OVERHEAD,
            framing: Framing::PLAIN,
            handshake_round_trips: 2,
            control: Control::Quic(QuicConfig::of(udp_payload)),
            connection: Connection::Direct,
            dead_peer_timeout: Duration::from_secs(30),
        }
    }

    /// TCP below channels and a secret connection, as CometBFT and celestia-core have them.
    pub fn mconnection(config: MConnectionConfig) -> Self {
        Self {
            framing: Framing::PLAIN,
            handshake_round_trips: mconn::wire::HANDSHAKE_ROUND_TRIPS,
            connection: Connection::MConnection(config),
            ..Self::tcp()
        }
    }

    /// TCP below TLS 1.3 and HTTP/2, as gRPC has them.
    pub fn grpc(config: Http2Config) -> Self {
        Self {
            framing: Framing::PLAIN,
            // TCP and TLS 1.3 (RFC 8446 section 2); the preface of HTTP/2 rides along.
            handshake_round_trips: 2,
            connection: Connection::Http2(config),
            ..Self::tcp()
        }
    }

    /// Bytes on the wire of a frame of `encoded_len` bytes: framing, and the headers of its packets. On a connection with
    /// channels those of a frame that is alone in its flush and finds the window open.
    pub fn wire_bytes(&self, encoded_len: u32) -> u64 {
        if let Connection::MConnection(config) = &self.connection {
            let id = config.channels.first().map_or(0, |channel| channel.id);
            let frames = mconn::message_bytes(id, encoded_len).div_ceil(mconn::SEALED_PLAINTEXT);
            let segments = mconn::SEALED_FRAME.div_ceil(self.mss);
            return u64::from(frames) * u64::from(mconn::SEALED_FRAME + segments * self.header);
        }
        if self.connection.http2().is_some() {
            let bytes = http2::message_bytes(encoded_len);
            return u64::from(bytes) + u64::from(bytes.div_ceil(self.mss)) * u64::from(self.header);
        }
        let (bytes, packets) = crate::backlog::cut(encoded_len, self.mss, self.framing);
        u64::from(bytes) + u64::from(packets) * u64::from(self.header)
    }

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
pub enum Congestion {
    /// NewReno (RFC 5681, RFC 6582).
    Reno,
    /// CUBIC (RFC 9438) whose slow start ends before packets are lost (HyStart): the default of Linux.
    Cubic,
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
