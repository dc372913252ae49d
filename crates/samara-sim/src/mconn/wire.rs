//! How many bytes things have on the wire.

/// The most bytes of a message in one packet (`defaultMaxPacketMsgPayloadSize` in `p2p/conn/connection.go`).
pub const MESSAGE_PACKET_BYTES: u32 = 1024;
/// The bytes that a sealed frame has room for (`dataMaxSize` in `p2p/conn/secret_connection.go`).
pub const SEALED_PLAINTEXT: u32 = 1024;
/// Bytes of a sealed frame, full or not: a length of 4 bytes, [`SEALED_PLAINTEXT`], a tag of 16 bytes (`dataLenSize`,
/// `aeadSizeOverhead`).
pub const SEALED_FRAME: u32 = 4 + SEALED_PLAINTEXT + 16;
/// A ping or a pong: a length prefix, and a `Packet` whose only field is an empty message.
pub(super) const PING_BYTES: u32 = 3;
/// The buffer that packets are written into (`minWriteBufferSize`).
pub(super) const BUFFER_BYTES: u64 = 65_536;

/// What a step of the handshake carries, by its number (even from the dialler), in the writes that the two sides make.
/// Each side writes as soon as it has read what it waits for, so that they overlap in three round trips:
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
/// `MakeSecretConnection` in `p2p/conn/secret_connection.go`, `handshake` in `p2p/transport.go`. A node info (identity,
/// address, network, version, channels, moniker) has some 200 bytes and fits in one sealed frame.
const HANDSHAKE: [&[u32]; 7] =
    [&[], &[], &[EPHEMERAL_KEY], &[EPHEMERAL_KEY, SEALED_FRAME], &[SEALED_FRAME; 2], &[SEALED_FRAME], &[]];
/// An ephemeral key, in the clear: a length prefix, and a `BytesValue` of 32 bytes (`shareEphPubKey`).
const EPHEMERAL_KEY: u32 = 1 + 2 + 32;
/// Round trips from the dial until the dialler's link is up: see [`HANDSHAKE`].
pub(crate) const HANDSHAKE_ROUND_TRIPS: u32 = 3;

/// Payload of a step of the handshake. Every write is a segment: the headers of those behind the first are included.
pub(crate) fn handshake_bytes(step: u32, header: u32) -> u32 {
    let writes = HANDSHAKE.get(step as usize).copied().unwrap_or_default();
    writes.iter().sum::<u32>() + (writes.len() as u32).saturating_sub(1) * header
}

/// Bytes of a base 128 varint.
const fn varint(value: u32) -> u32 {
    match value {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        0x4000..0x20_0000 => 3,
        0x20_0000..0x1000_0000 => 4,
        _ => 5,
    }
}

/// Bytes of a field with a length prefix, whose number is below 16.
const fn field(len: u32) -> u32 {
    1 + varint(len) + len
}

/// Bytes of a packet with `data` bytes of a message, its length prefix included: `Packet { packet_msg: PacketMsg {
/// channel_id, eof, data } }` as protobuf has it, where fields with their default value are left out
/// (`proto/tendermint/p2p/conn.proto`).
pub(super) const fn packet_bytes(channel: u8, last: bool, data: u32) -> u32 {
    let id = if channel == 0 { 0 } else { 1 + varint(channel as u32) };
    let eof = if last { 2 } else { 0 };
    let data = if data == 0 { 0 } else { field(data) };
    let packet = field(id + eof + data);
    varint(packet) + packet
}

/// Bytes of all packets of a message of `len` bytes: what it takes of the stream before sealing.
pub const fn message_bytes(channel: u8, len: u32) -> u32 {
    let full = len.saturating_sub(1) / MESSAGE_PACKET_BYTES;
    let rest = len - full * MESSAGE_PACKET_BYTES;
    full * packet_bytes(channel, false, MESSAGE_PACKET_BYTES) + packet_bytes(channel, true, rest)
}
