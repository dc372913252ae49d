//! TCP, one half connection in each direction, in units of segments. The ideal transport is TCP
//! without control.
//!
//! Segments are numbered from 0 and keep their boundaries in retransmissions, because every write
//! makes its own segments. Windows count packets, as in Linux.

mod sender;

use std::time::Duration;

pub(crate) use sender::{Sender, timestamp};

use super::backlog::cut;
use super::config::{Connection, Control, Framing, Transport, Writers};
use super::quic::IP_UDP_HEADER;
use super::{Ack, AckNeed, Around, ReceiveHalf, Taken};
use crate::error::{ConfigError, ensure};
use crate::packet::{Body, Sack};

/// Payload of a step of the handshake: about the size of the messages of Noise XX.
const HELLO_BYTES: u32 = 100;

impl Transport {
    /// Returns TCP as in Linux, below Noise and Yamux.
    pub fn tcp() -> Self {
        Self {
            mss: 1460,
            header: 40,
            ip_header: IP_UDP_HEADER,
            framing: Framing::NOISE_YAMUX,
            handshake_round_trips: 4,
            control: Control::Tcp(TcpConfig::default()),
            connection: Connection::Direct,
            writers: Writers::AtOnce,
            limit: None,
            dead_peer_timeout: Duration::from_secs(40),
        }
    }
}

/// Checks the windows of TCP, regardless of the layers above it.
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

/// Returns the bytes on the wire of a frame: framing, and the headers of its packets.
pub(crate) fn wire_bytes(encoded_len: u32, transport: &Transport) -> u64 {
    let (bytes, packets) = cut(encoded_len, transport.mss, transport.framing);
    u64::from(bytes) + u64::from(packets) * u64::from(transport.header)
}

/// Returns the bytes on the wire of each of several frames. Every write makes its own segments.
pub(crate) fn wire_bytes_each(encoded_len: u32, _count: u32, transport: &Transport) -> u64 {
    wire_bytes(encoded_len, transport)
}

/// Returns the payload of a step of the handshake.
pub(crate) fn hello_bytes(_step: u32, _transport: &Transport) -> u32 {
    HELLO_BYTES
}

/// Congestion control and timers of TCP, with selective acknowledgements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TcpConfig {
    /// The growth of the congestion window, and its reduction after a loss.
    pub congestion: Congestion,
    /// The repair of losses.
    pub recovery: Recovery,
    /// Initial congestion window in packets (10: RFC 6928).
    pub initial_window: u32,
    /// The receiver's window in packets.
    pub receive_window: u32,
    /// The minimum retransmission timeout (200 ms in Linux; 1 s in RFC 6298).
    pub min_rto: Duration,
    /// The quantity that this minimum applies to.
    pub rto_floor: RtoFloor,
    /// The congestion window after a retransmission timeout, in packets (1: RFC 5681; 10 in
    /// Shadow).
    pub loss_window: u32,
    /// The retransmission timeout before the first measurement (1 s: RFC 6298).
    pub initial_rto: Duration,
    /// Maximum delay of an acknowledgement that waits for data to carry it (at most 500 ms by RFC
    /// 1122; 40 ms in Linux).
    pub delayed_ack: Duration,
    /// Number of packets after which an acknowledgement no longer waits (2: RFC 5681).
    pub ack_every: u32,
    /// Whether every due acknowledgement is a separate packet that takes a turn at the interface
    /// before the data of its link (Shadow), instead of being carried by data. On a busy uplink
    /// with round robin, a link that receives much then hardly sends.
    pub separate_acks: bool,
    /// Whether the window shrinks in idle times as in Linux (RFC 2861: halved for every timeout,
    /// not below the initial window).
    pub idle_restart: bool,
    /// Whether the window also grows while it is not fully used (RFC 7661 forbids it; Shadow does
    /// it).
    pub grow_unused: bool,
    /// The number of bytes that a link takes ahead of acknowledgement.
    pub send_buffer: SendBuffer,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            congestion: Congestion::Reno,
            recovery: Recovery::Linux,
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

/// Congestion control algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "config", serde(rename_all = "kebab-case"))]
pub enum Congestion {
    /// NewReno (RFC 6582): one more packet in each round trip, half after a loss.
    Reno,
    /// CUBIC (RFC 9438) with HyStart, as in Linux.
    Cubic,
}

impl Congestion {
    /// Returns the name of the algorithm in Linux (`net.ipv4.tcp_congestion_control`).
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::Cubic => "cubic",
        }
    }
}

/// The repair of losses. A segment counts as lost once three later ones have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "config", serde(rename_all = "kebab-case"))]
pub enum Recovery {
    /// As in Linux 6.18: the window falls in proportion to arrivals (RFC 6937), one later arrival proves a
    /// loss after a quarter of the round trip, or at once if others are being repaired (RACK, RFC 8985),
    /// silence is ended by a tail loss probe after two round trips (section 7), timeouts that were too
    /// early are undone (RFC 3522, RFC 5682), and arrivals beyond a hole count as signs of life.
    Linux,
    /// RFC 6675, as in systems of 2010 and in Shadow: the window falls at once, and only timeouts find lost
    /// retransmissions.
    Rfc6675,
}

/// The quantity that the minimum retransmission timeout applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RtoFloor {
    /// The sum of the smoothed round-trip time and four times its variation (RFC 6298; Shadow). On
    /// a steady path of 100 ms, a packet that is delayed by another 100 ms is retransmitted
    /// needlessly.
    Sum,
    /// Only the variation (Linux): the timeout is at least the round-trip time plus the minimum.
    Variation,
}

/// The size of a link's send buffer. The link takes a frame if the buffer is not full; the last one
/// may overshoot, like a blocked write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendBuffer {
    /// A fixed size.
    Fixed {
        /// The size in bytes.
        bytes: u64,
    },
    /// A size in proportion to the largest congestion window so far.
    Auto {
        /// Bytes for each packet of the window: in effect two segments in Linux
        /// (`tcp_sndbuf_expand`), 4,808 in Shadow.
        per_packet: u32,
        /// The minimum size in bytes.
        min: u64,
    },
    /// A limit only on bytes that were never sent (`TCP_NOTSENT_LOWAT`). As in Linux
    /// (`tcp_stream_memory_free`), a writer that was refused is notified when half of it is free.
    Unsent {
        /// The size in bytes.
        bytes: u64,
    },
}

/// The receiver of one direction: puts segments in order and decides when to acknowledge.
#[derive(Debug)]
pub(crate) struct Receiver<F> {
    /// The next segment that is expected in order.
    pub(crate) next: u32,
    /// Number of segments since the last acknowledgement that left.
    unacked: u32,
    /// Segments that arrived beyond a gap, in order.
    early: Vec<(u32, Option<F>)>,
    /// The timestamp of the first segment since the last acknowledgement: the one to echo (RFC 7323
    /// section 4.3).
    stamp: u32,
    /// The segment that arrived last beyond a gap: its range is reported first.
    newest: u32,
}

impl<F> Receiver<F> {
    pub(crate) const fn new(_transport: &Transport) -> Self {
        Self { next: 0, unacked: 0, early: Vec::new(), stamp: 0, newest: 0 }
    }

    /// Takes a segment; complete frames go to `deliver` in order.
    pub(crate) fn segment(
        &mut self,
        stamp: u32,
        (seq, frame): (u32, Option<F>),
        transport: &Transport,
        deliver: &mut Vec<F>,
    ) -> AckNeed {
        let Some(config) = transport.control.tcp() else {
            deliver.extend(frame);
            return AckNeed::None;
        };
        if self.unacked == 0 {
            self.stamp = stamp;
        }
        self.unacked += 1;
        if seq < self.next {
            return AckNeed::Now;
        }
        if seq > self.next {
            if let Err(at) = self.early.binary_search_by_key(&seq, |(seq, _)| *seq) {
                self.early.insert(at, (seq, frame));
            }
            self.newest = seq;
            return AckNeed::Now;
        }
        self.next += 1;
        deliver.extend(frame);
        if self.early.is_empty() {
            return if self.unacked >= config.ack_every { AckNeed::Now } else { AckNeed::Later };
        }
        let run = self.early.iter().zip(self.next..).take_while(|((seq, _), next)| seq == next).count();
        self.next += run as u32;
        deliver.extend(self.early.drain(..run).filter_map(|(_, frame)| frame));
        AckNeed::Now
    }

    fn beyond_gap(&self) -> Option<Box<Sack>> {
        if self.early.is_empty() {
            return None;
        }
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for (seq, _) in &self.early {
            match ranges.last_mut() {
                Some((_, to)) if *to == *seq => *to += 1,
                _ => ranges.push((*seq, seq + 1)),
            }
        }
        let newest = ranges.iter().position(|(from, to)| (*from..*to).contains(&self.newest));
        let first = newest.map(|i| ranges.remove(i));
        let ranges = first.into_iter().chain(ranges.into_iter().rev()).take(4).collect();
        Some(Box::new(Sack { ranges }))
    }
}

impl<F: Clone> ReceiveHalf<F> for Receiver<F> {
    type Sender = Sender<F>;

    fn take(
        &mut self,
        _sender: &mut Sender<F>,
        stamp: u32,
        body: Body<F>,
        around: &mut Around<'_, F>,
    ) -> Taken {
        let Body::Data { seq, frame } = body else { return Taken::mismatch() };
        self.segment(stamp, (seq, frame), around.transport, around.delivered).into()
    }

    fn acknowledge(&mut self, _now: u64, _transport: &Transport) -> Ack {
        self.unacked = 0;
        Ack { ack: self.next, echo: self.stamp, window: 0, sack: self.beyond_gap() }
    }
}
