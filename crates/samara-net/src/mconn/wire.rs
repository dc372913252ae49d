//! What stands on a secret connection: node infos and packets, each with its length before it
//! (`proto/tendermint/p2p/types.proto`, `conn.proto`, `libs/protoio`).

use bytes::Bytes;
use prost::Message;

use super::info::{NodeInfo, P2P_VERSION};

/// The most bytes of a message in one packet (`defaultMaxPacketMsgPayloadSize` in `p2p/conn/connection.go`).
pub(super) const PAYLOAD_MAX: usize = 1024;
/// The longest packet without its length: a channel of at most 5 bytes (6 with the tag), the end, and the payload with its length
/// (`maxPacketMsgSize`), within the packet's own field.
pub(super) const PACKET_MAX: usize = 1 + 2 + 6 + 2 + 1 + 2 + PAYLOAD_MAX;

/// A packet.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Packet {
    #[prost(oneof = "Sum", tags = "1, 2, 3")]
    pub(super) sum: Option<Sum>,
}

/// What it is.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Sum {
    /// Are you there?
    #[prost(message, tag = "1")]
    Ping(Empty),
    /// Yes.
    #[prost(message, tag = "2")]
    Pong(Empty),
    /// A piece of a message.
    #[prost(message, tag = "3")]
    Piece(Piece),
}

/// Nothing.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Empty {}

/// A piece of a message (`PacketMsg`).
#[derive(Clone, PartialEq, Message)]
pub(super) struct Piece {
    #[prost(int32, tag = "1")]
    pub(super) channel: i32,
    /// Whether it is the last piece.
    #[prost(bool, tag = "2")]
    pub(super) last: bool,
    #[prost(bytes = "bytes", tag = "3")]
    pub(super) data: Bytes,
}

impl Packet {
    pub(super) const PING: Self = Self { sum: Some(Sum::Ping(Empty {})) };
    pub(super) const PONG: Self = Self { sum: Some(Sum::Pong(Empty {})) };

    pub(super) fn piece(channel: u8, last: bool, data: Bytes) -> Self {
        Self { sum: Some(Sum::Piece(Piece { channel: i32::from(channel), last, data })) }
    }

    /// Appends the packet with its length; returns how many bytes that are.
    pub(super) fn append(&self, into: &mut Vec<u8>) -> usize {
        let before = into.len();
        // A vector always has room.
        let _ = self.encode_length_delimited(into);
        into.len() - before
    }
}

/// The node info on the wire.
#[derive(Clone, PartialEq, Message)]
pub(super) struct InfoMessage {
    #[prost(message, required, tag = "1")]
    versions: Versions,
    #[prost(string, tag = "2")]
    id: String,
    #[prost(string, tag = "3")]
    listen_addr: String,
    #[prost(string, tag = "4")]
    network: String,
    #[prost(string, tag = "5")]
    version: String,
    #[prost(bytes = "vec", tag = "6")]
    channels: Vec<u8>,
    #[prost(string, tag = "7")]
    moniker: String,
    #[prost(message, required, tag = "8")]
    other: Other,
}

#[derive(Clone, PartialEq, Message)]
struct Versions {
    #[prost(uint64, tag = "1")]
    p2p: u64,
    #[prost(uint64, tag = "2")]
    block: u64,
    #[prost(uint64, tag = "3")]
    app: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Other {
    #[prost(string, tag = "1")]
    tx_index: String,
    #[prost(string, tag = "2")]
    rpc_address: String,
}

impl From<&NodeInfo> for InfoMessage {
    fn from(info: &NodeInfo) -> Self {
        Self {
            versions: Versions { p2p: P2P_VERSION, block: info.block_version, app: info.app_version },
            id: info.id.clone(),
            listen_addr: info.listen_addr.clone(),
            network: info.network.clone(),
            version: info.version.clone(),
            channels: info.channels.clone(),
            moniker: info.moniker.clone(),
            // No index of transactions, no RPC.
            other: Other { tx_index: "off".to_owned(), rpc_address: String::new() },
        }
    }
}

impl From<InfoMessage> for NodeInfo {
    fn from(message: InfoMessage) -> Self {
        Self {
            block_version: message.versions.block,
            app_version: message.versions.app,
            id: message.id,
            listen_addr: message.listen_addr,
            network: message.network,
            version: message.version,
            channels: message.channels,
            moniker: message.moniker,
        }
    }
}

/// A length before something that is too long, or no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadLength;

/// The length at the start of `bytes`, if it is there already, and where what it is the length of starts.
pub(super) fn read_length(bytes: &[u8], max: usize) -> Result<Option<(usize, usize)>, BadLength> {
    let mut length = 0;
    for (at, byte) in bytes.iter().enumerate().take(4) {
        length |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return if length <= max { Ok(Some((length, at + 1))) } else { Err(BadLength) };
        }
    }
    // More than four bytes make a length of 256 MiB.
    if bytes.len() < 4 { Ok(None) } else { Err(BadLength) }
}
