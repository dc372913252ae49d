//! The layer between a protocol and TCP in CometBFT and celestia-core: an `MConnection` over a
//! `SecretConnection`.
//!
//! Several **channels** share a connection. Each has a short queue of messages. The **send
//! routine** cuts the message at its head into packets of at most 1,024 bytes and writes the packet
//! of the channel that has sent the least for its priority into a **buffer** of 64 KiB. The
//! contents of the buffer leave with the next **flush**: when the buffer is full, or some time
//! after the first packet was written (the flush throttle). A flush **seals** the bytes in frames
//! of 1,024, the last one padded, and each sealed frame of 1,044 bytes is one write to the socket.
//!
//! ```text
//! outbox -> Channel -> Writer (packets, buffer) -> Stream (sealed frames) -> Socket -> tcp::Sender
//!                                                              engine <- Receiver <- tcp::Receiver
//! ```
//!
//! Nothing can be withdrawn from a channel's queue: copies without room there stay in the outbox.
//!
//! Source: `p2p/conn/connection.go`, `p2p/conn/secret_connection.go`,
//! `libs/timer/throttle_timer.go` and `libs/flowrate/flowrate.go` of celestia-core
//! v1.16.0-tm-v0.34.27 (the same in Tendermint and CometBFT 0.34 and 0.37).

mod receiver;
mod sender;
mod stream;

use std::time::Duration;

use samara_engine::outbox::{Dispatch, Lane, OutboxConfig};

pub(crate) use receiver::Receiver;
pub(crate) use sender::Sender;

use super::Around;
use super::config::{Connection, Control, Framing, Transport};
use crate::config::{DownlinkQueue, SimConfig};
use crate::error::{ConfigError, ensure};
use sender::Written;

#[cfg(test)]
mod tests;

/// A connection with channels.
#[derive(Clone, Debug, PartialEq)]
pub struct MConnectionConfig {
    /// The channels, in the order in which the peer's software registers them (the order decides
    /// ties). Every lane of the outbox belongs to exactly one of them.
    pub channels: Vec<ChannelConfig>,
    /// The time at which written packets leave.
    pub flush: Flush,
    /// The interval of pings from each side (60 s: `defaultPingInterval`; the timeout of a pong is
    /// 45 s). Zero for no pings.
    pub ping_interval: Duration,
    /// Maximum rate of writing packets in bytes per second; 0 for no limit.
    pub send_rate: u64,
    /// Maximum rate of reading packets in bytes per second; 0 for no limit. A slow reader closes
    /// its TCP window. The ideal transport has no window and therefore allows no limit.
    pub receive_rate: u64,
}

impl MConnectionConfig {
    /// Returns the defaults of CometBFT and celestia-core (`DefaultP2PConfig` in
    /// `config/config.go`): a flush throttle of 100 ms, 5.12 MB/s both ways.
    pub const fn cometbft(channels: Vec<ChannelConfig>) -> Self {
        Self {
            channels,
            flush: Flush::Throttle(Duration::from_millis(100)),
            ping_interval: Duration::from_secs(60),
            send_rate: 5_120_000,
            receive_rate: 5_120_000,
        }
    }
}

/// A channel of a connection (`ChannelDescriptor` in `p2p/conn/connection.go`).
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelConfig {
    /// The number of the channel on the wire.
    pub id: u8,
    /// Its share of a busy connection, relative to the other channels (at least 1).
    pub priority: u32,
    /// Maximum number of messages that wait behind the one being sent (at least 1, the default of
    /// the real software).
    pub queue: usize,
    /// The lanes of the outbox whose copies it takes, in the outbox's order among them.
    pub lanes: Vec<Lane>,
}

/// The time at which packets in the buffer leave. A full buffer always leaves at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// This long after the first packet written since the last flush (`ThrottleTimer`; 100 ms by
    /// default).
    Throttle(Duration),
    /// As soon as there is nothing more to write: a connection without a throttle.
    WhenIdle,
}

impl Transport {
    /// Returns TCP below channels and a secret connection, as in CometBFT and celestia-core.
    pub fn mconnection(config: MConnectionConfig) -> Self {
        Self {
            framing: Framing::PLAIN,
            handshake_round_trips: HANDSHAKE_ROUND_TRIPS,
            connection: Connection::MConnection(config),
            ..Self::tcp()
        }
    }
}

/// Checks that the transport can carry its connection.
pub(crate) fn check(transport: &Transport) -> Result<(), ConfigError> {
    let config = transport.connection.mconnection();
    let is_stream = !matches!(transport.control, Control::Quic(_) | Control::Datagram);
    ensure!(is_stream, "connections with channels are streams of bytes of their own; use tcp or ideal");
    ensure!(
        transport.framing == Framing::PLAIN,
        "a connection with channels frames its packets itself; the framing must be plain"
    );
    ensure!(
        config.receive_rate == 0 || transport.control != Control::Ideal,
        "the ideal transport has no receive window to close; use tcp, or no limit on the receive rate"
    );
    let never_flushes = config.flush == Flush::Throttle(Duration::ZERO);
    ensure!(!never_flushes, "the flush interval is 0; use a flush when idle");
    for (index, ChannelConfig { id, priority, queue, .. }) in config.channels.iter().enumerate() {
        ensure!(*priority > 0 && *queue > 0, "channel {id:#04x}: priority and queue must be at least 1");
        let is_second = config.channels[..index].iter().any(|other| other.id == *id);
        ensure!(!is_second, "duplicate channel {id:#04x}");
    }
    super::tcp::check(transport)
}

/// Checks that an outbox fits a connection with channels.
pub(crate) fn check_outbox(config: &MConnectionConfig, outbox: &OutboxConfig) -> Result<(), ConfigError> {
    let is_per_link = outbox.dispatch == Dispatch::PerLink;
    ensure!(is_per_link, "connections with channels take copies per link; use per-link dispatch");
    for lane in 0..outbox.lanes.len() as u8 {
        let channels = config.channels.iter().filter(|channel| channel.lanes.contains(&Lane(lane))).count();
        ensure!(channels == 1, "lane {lane} belongs to {channels} channels; it must belong to exactly one");
    }
    Ok(())
}

/// Returns the bytes on the wire of a frame that is alone in its flush and finds the window open.
pub(crate) fn wire_bytes(encoded_len: u32, transport: &Transport) -> u64 {
    wire_bytes_each(encoded_len, 1, transport)
}

/// Returns the bytes on the wire of each of several frames in one flush, which share sealed frames.
pub(crate) fn wire_bytes_each(encoded_len: u32, count: u32, transport: &Transport) -> u64 {
    let id = transport.connection.mconnection().channels.first().map_or(0, |channel| channel.id);
    let bytes = u64::from(message_bytes(id, encoded_len)) * u64::from(count);
    let segments = SEALED_FRAME.div_ceil(transport.mss);
    let sealed = bytes.div_ceil(u64::from(SEALED_PLAINTEXT));
    sealed * u64::from(SEALED_FRAME + segments * transport.header) / u64::from(count)
}

// ---- bytes on the wire ----

/// Maximum bytes of a message in one packet (`defaultMaxPacketMsgPayloadSize` in
/// `p2p/conn/connection.go`).
pub const MESSAGE_PACKET_BYTES: u32 = 1024;
/// The capacity of a sealed frame in bytes (`dataMaxSize` in `p2p/conn/secret_connection.go`).
pub const SEALED_PLAINTEXT: u32 = 1024;
/// Bytes of a sealed frame, full or not: a length of 4 bytes, [`SEALED_PLAINTEXT`], a tag of 16
/// bytes (`dataLenSize`, `aeadSizeOverhead`).
pub const SEALED_FRAME: u32 = 4 + SEALED_PLAINTEXT + 16;
/// The size of a ping or a pong: a length prefix, and a `Packet` whose only field is an empty
/// message.
pub(super) const PING_BYTES: u32 = 3;
/// The size of the buffer for packets (`minWriteBufferSize`).
pub(super) const BUFFER_BYTES: u64 = 65_536;

/// The writes of each step of the handshake, by its number (even from the dialler). Each side
/// writes as soon as it has read the data that it waits for, so that the writes overlap in three
/// round trips:
///
/// | step | | writes |
/// |---|---|---|
/// | 0, 1 | SYN, SYN-ACK | |
/// | 2 | the dialler's ephemeral key | 35 |
/// | 3 | the listener's, and its signature of the challenge (103 bytes, sealed) | 35, 1,044 |
/// | 4 | the dialler's signature, and its node info | 1,044, 1,044 |
/// | 5 | the listener's node info | 1,044 |
/// | 6 | an acknowledgement | |
///
/// `MakeSecretConnection` in `p2p/conn/secret_connection.go`, `handshake` in `p2p/transport.go`. A
/// node info (identity, address, network, version, channels, moniker) has some 200 bytes and fits
/// in one sealed frame.
const HANDSHAKE: [&[u32]; 7] =
    [&[], &[], &[EPHEMERAL_KEY], &[EPHEMERAL_KEY, SEALED_FRAME], &[SEALED_FRAME; 2], &[SEALED_FRAME], &[]];
/// The size of an ephemeral key in the clear: a length prefix, and a `BytesValue` of 32 bytes
/// (`shareEphPubKey`).
const EPHEMERAL_KEY: u32 = 1 + 2 + 32;
/// Round trips from the dial until the dialler's link is up: see [`HANDSHAKE`].
const HANDSHAKE_ROUND_TRIPS: u32 = 3;

/// Returns the payload of a step of the handshake. Every write is a segment: the headers of all but
/// the first are included.
pub(crate) fn hello_bytes(step: u32, transport: &Transport) -> u32 {
    let writes = HANDSHAKE.get(step as usize).copied().unwrap_or_default();
    writes.iter().sum::<u32>() + (writes.len() as u32).saturating_sub(1) * transport.header
}

/// Returns the bytes of a base 128 varint.
const fn varint(value: u32) -> u32 {
    match value {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        0x4000..0x20_0000 => 3,
        0x20_0000..0x1000_0000 => 4,
        _ => 5,
    }
}

/// Returns the bytes of a field with a length prefix, whose number is below 16.
const fn field(len: u32) -> u32 {
    1 + varint(len) + len
}

/// Returns the bytes of a packet with `data` bytes of a message, including its length prefix:
/// `Packet { packet_msg: PacketMsg { channel_id, eof, data } }` in protobuf, which omits fields
/// with their default value (`proto/tendermint/p2p/conn.proto`).
pub(super) const fn packet_bytes(channel: u8, last: bool, data: u32) -> u32 {
    let id = if channel == 0 { 0 } else { 1 + varint(channel as u32) };
    let eof = if last { 2 } else { 0 };
    let data = if data == 0 { 0 } else { field(data) };
    let packet = field(id + eof + data);
    varint(packet) + packet
}

/// Returns the bytes of all packets of a message of `len` bytes: its share of the stream before
/// sealing.
pub const fn message_bytes(channel: u8, len: u32) -> u32 {
    let full = len.saturating_sub(1) / MESSAGE_PACKET_BYTES;
    let rest = len - full * MESSAGE_PACKET_BYTES;
    full * packet_bytes(channel, false, MESSAGE_PACKET_BYTES) + packet_bytes(channel, true, rest)
}

impl<'a, F> Around<'a, F> {
    fn channels(&self) -> &'a MConnectionConfig {
        self.transport.connection.mconnection()
    }
}

// ---- several segments as one step ----

/// How long segments that leave as one step may occupy the uplink, in
/// nanoseconds. The first of them arrives up to this much later than it would alone.
const BURST_NANOS: f64 = 1_000_000.0;
/// The minimum number of such steps in a second under a limit of the receive rate. The segments of
/// a step are read at once, and the limit is checked only before (its samples last a tenth of a
/// second).
const READS_PER_SECOND: f64 = 320.0;
/// The divisor of the receiver's queue: a step takes at most this part of it.
const QUEUE_SHARE: f64 = 8.0;
/// Maximum number of segments in a step: the amount that Linux passes to a network card at once
/// (`GSO_MAX_SIZE`, 64 KiB).
const BURST_SEGMENTS: f64 = 44.0;

/// Returns the maximum number of segments that may leave as one step of an uplink with this rate. One
/// if segments can be lost individually on the way. Few compared with a short queue of the receiver,
/// which accepts or drops them together.
fn burst_max(uplink_nanos_per_byte: f64, config: &SimConfig) -> u32 {
    let segment = f64::from(SEALED_FRAME + config.transport.header);
    if config.network.loses() {
        return 1;
    }
    let queued = match config.downlink_queue {
        DownlinkQueue::DropTail { bytes } => bytes as f64 / QUEUE_SHARE / segment,
        // CoDel drops one segment of a step at a time.
        DownlinkQueue::CoDel { .. } | DownlinkQueue::FqCoDel(_) => f64::INFINITY,
    };
    let in_time = BURST_NANOS / (uplink_nanos_per_byte * segment);
    let read_at_once = match config.transport.connection.mconnection().receive_rate {
        0 => f64::INFINITY,
        rate => rate as f64 / READS_PER_SECOND,
    };
    in_time.min(queued).min(read_at_once / f64::from(SEALED_PLAINTEXT)).clamp(1.0, BURST_SEGMENTS) as u32
}

// ---- counts ----

/// Counters of a host's connections with channels, since the start of the run.
///
/// Every byte that leaves is accounted for: payload and framing of the channels, three bytes for
/// each ping and pong, twenty bytes for sealing each frame, padding, and the headers of packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionStats {
    /// Number of sealed frames written to the socket.
    pub sealed_frames: u64,
    /// Number of padding bytes in sealed frames.
    pub padding_bytes: u64,
    /// Number of flushes that had data.
    pub flushes: u64,
    /// Number of flushes caused by a full buffer.
    pub full_buffers: u64,
    /// Number of pings and pongs sent.
    pub pings_and_pongs: u64,
    /// How often a copy in the outbox began to wait for room in the queue of its channel.
    pub queue_waits: u64,
    /// The channels, in the order of the configuration.
    pub channels: Vec<ChannelStats>,
}

/// Counters of one channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelStats {
    /// The number of the channel on the wire.
    pub id: u8,
    /// Number of messages whose last packet was written.
    pub messages: u64,
    /// Number of packets written, with at most 1,024 bytes of a message each.
    pub packets: u64,
    /// Message bytes in these packets.
    pub message_bytes: u64,
    /// All other bytes of these packets.
    pub framing_bytes: u64,
}

impl ConnectionStats {
    pub(crate) fn new(transport: &Transport) -> Self {
        let channels = transport.connection.mconnection().channels.iter();
        let channels = channels.map(|config| ChannelStats { id: config.id, ..ChannelStats::default() });
        Self { channels: channels.collect(), ..Self::default() }
    }

    fn packet<F>(&mut self, channel: usize, packet: &Written<F>) {
        let channel = &mut self.channels[channel];
        channel.packets += 1;
        channel.messages += u64::from(packet.complete.is_some());
        channel.message_bytes += u64::from(packet.data);
        channel.framing_bytes += u64::from(packet.bytes - packet.data);
    }
}
