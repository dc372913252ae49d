//! The receiving end of a connection: sealed frames are opened, packets read, messages put together.
//!
//! What a peer can fill is bounded: one sealed frame, one packet, and on each channel one message of its longest length.

use bytes::Bytes;
use prost::Message;

use super::error::Broken;
use super::info::{INFO_MAX, NodeInfo};
use super::options::Channel;
use super::secret::{SEALED, Secret};
use super::wire::{InfoMessage, PACKET_MAX, Packet, Sum, read_length};

/// What a packet brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Incoming {
    /// A whole message.
    Message {
        /// The channel's number.
        channel: u8,
        /// Its bytes.
        bytes: Bytes,
    },
    /// The peer wants a pong.
    Ping,
    /// The answer to a ping.
    Pong,
}

#[derive(Debug)]
struct Assembly {
    id: u8,
    longest: usize,
    bytes: Vec<u8>,
}

/// The receiving end.
#[derive(Debug)]
pub(super) struct Receiving {
    channels: Vec<Assembly>,
    /// Sealed bytes, less than a frame after [`next`](Self::next) has given `None`.
    sealed: Vec<u8>,
    /// Opened bytes, less than a packet then.
    plain: Vec<u8>,
}

impl Receiving {
    pub(super) fn new(channels: &[Channel]) -> Self {
        let assembly = |channel: &Channel| Assembly {
            id: channel.id,
            longest: channel.longest_message,
            bytes: Vec::new(),
        };
        Self {
            channels: channels.iter().map(assembly).collect(),
            sealed: Vec::with_capacity(SEALED),
            plain: Vec::new(),
        }
    }

    /// How many bytes may be read from the socket.
    pub(super) fn wants(&self) -> usize {
        SEALED - self.sealed.len()
    }

    /// Takes bytes from the socket, no more than [`wants`](Self::wants).
    pub(super) fn read(&mut self, bytes: &[u8]) {
        self.sealed.extend_from_slice(bytes);
    }

    /// What comes next, `None` until more bytes are there.
    ///
    /// # Errors
    /// The peer broke the rules; the connection is of no use any more.
    pub(super) fn next(&mut self, secret: &mut Secret) -> Result<Option<Incoming>, Broken> {
        loop {
            while let Some(packet) = self.packet()? {
                if let Some(incoming) = self.take(packet)? {
                    return Ok(Some(incoming));
                }
            }
            if !self.open(secret)? {
                return Ok(None);
            }
        }
    }

    /// The peer's node info, which comes before all packets; `None` until more bytes are there.
    ///
    /// # Errors
    /// It is none.
    pub(super) fn info(&mut self, secret: &mut Secret) -> Result<Option<NodeInfo>, Broken> {
        loop {
            let head = read_length(&self.plain, INFO_MAX).map_err(|_| Broken::PacketLength)?;
            if let Some((length, start)) = head
                && let Some(bytes) = self.plain.get(start..start + length)
            {
                let info = InfoMessage::decode(bytes).map_err(|_| Broken::Packet)?;
                self.plain.drain(..start + length);
                return Ok(Some(info.into()));
            }
            if !self.open(secret)? {
                return Ok(None);
            }
        }
    }

    /// Opens the sealed frame, if it is whole.
    fn open(&mut self, secret: &mut Secret) -> Result<bool, Broken> {
        if self.sealed.len() < SEALED {
            return Ok(false);
        }
        secret.open(&self.sealed, &mut self.plain).map_err(|_| Broken::Seal)?;
        self.sealed.clear();
        Ok(true)
    }

    /// Takes a whole packet off the opened bytes.
    fn packet(&mut self) -> Result<Option<Packet>, Broken> {
        let Some((length, start)) = read_length(&self.plain, PACKET_MAX).map_err(|_| Broken::PacketLength)?
        else {
            return Ok(None);
        };
        let end = start + length;
        if self.plain.len() < end {
            return Ok(None);
        }
        let packet = Packet::decode(&self.plain[start..end]).map_err(|_| Broken::Packet)?;
        self.plain.drain(..end);
        Ok(Some(packet))
    }

    fn take(&mut self, packet: Packet) -> Result<Option<Incoming>, Broken> {
        let piece = match packet.sum.ok_or(Broken::Packet)? {
            Sum::Ping(_) => return Ok(Some(Incoming::Ping)),
            Sum::Pong(_) => return Ok(Some(Incoming::Pong)),
            Sum::Piece(piece) => piece,
        };
        let channel = u8::try_from(piece.channel).ok();
        let known = self.channels.iter_mut().find(|known| Some(known.id) == channel);
        let assembly = known.ok_or(Broken::UnknownChannel(piece.channel))?;
        if assembly.bytes.len() + piece.data.len() > assembly.longest {
            return Err(Broken::MessageTooLong { channel: assembly.id, longest: assembly.longest });
        }
        assembly.bytes.extend_from_slice(&piece.data);
        if !piece.last {
            return Ok(None);
        }
        // No longer than it is: a pool may keep it for long.
        let bytes = std::mem::take(&mut assembly.bytes).into_boxed_slice().into();
        Ok(Some(Incoming::Message { channel: assembly.id, bytes }))
    }
}
