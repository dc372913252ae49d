//! Packets: messages wait in channels, and leave as packets in sealed frames. Also the way back
//! (`proto/tendermint/p2p/conn.proto`, `p2p/conn/connection.go`, `libs/protoio`).
//!
//! ```text
//! channels -> packets (at most 64 KiB) -> sealed frames (at most 16) -> socket
//! ```
//!
//! The next packet is of the channel that has sent the least for its priority, as in
//! `sendPacketMsg`. A peer can fill one sealed frame, one packet, and on each channel one message
//! of maximum length.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;
use prost::Message;

use super::identity::{Broken, INFO_MAX, NodeInfo};
use super::node::{Channel, Flush};
use super::secret::{PLAIN_MAX, SEALED, Secret};
use crate::link::Progress;

/// Maximum number of bytes of a message in one packet (`defaultMaxPacketMsgPayloadSize` in
/// `p2p/conn/connection.go`).
pub(super) const PAYLOAD_MAX: usize = 1024;
/// Maximum length of a packet without its length prefix: a channel of at most 5 bytes (6 with the
/// tag), the end flag, and the payload with its length (`maxPacketMsgSize`), within the packet's
/// own field.
pub(super) const PACKET_MAX: usize = 1 + 2 + 6 + 2 + 1 + 2 + PAYLOAD_MAX;

#[derive(Clone, PartialEq, Message)]
pub struct Packet {
    #[prost(oneof = "Sum", tags = "1, 2, 3")]
    pub(super) sum: Option<Sum>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Sum {
    #[prost(message, tag = "1")]
    Ping(Empty),
    #[prost(message, tag = "2")]
    Pong(Empty),
    #[prost(message, tag = "3")]
    Piece(Piece),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Empty {}

/// A piece of a message (`PacketMsg`).
#[derive(Clone, PartialEq, Message)]
pub(super) struct Piece {
    #[prost(int32, tag = "1")]
    pub(super) channel: i32,
    #[prost(bool, tag = "2")]
    pub(super) last: bool,
    #[prost(bytes = "bytes", tag = "3")]
    pub(super) data: Bytes,
}

impl Packet {
    pub const PING: Self = Self { sum: Some(Sum::Ping(Empty {})) };
    pub const PONG: Self = Self { sum: Some(Sum::Pong(Empty {})) };

    pub fn piece(channel: u8, last: bool, data: Bytes) -> Self {
        Self { sum: Some(Sum::Piece(Piece { channel: i32::from(channel), last, data })) }
    }

    /// Appends the packet with its length prefix. Returns the number of bytes appended.
    pub fn append(&self, into: &mut Vec<u8>) -> usize {
        let before = into.len();
        // A vector always has room.
        let _ = self.encode_length_delimited(into);
        into.len() - before
    }
}

/// Reads the length prefix at the start of `bytes`, if it is complete. Returns the length and the
/// offset behind the prefix.
pub(super) fn read_length(bytes: &[u8], max: usize) -> Result<Option<(usize, usize)>, Broken> {
    let mut length = 0;
    for (at, byte) in bytes.iter().enumerate().take(4) {
        length |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return if length <= max { Ok(Some((length, at + 1))) } else { Err(Broken::PacketLength) };
        }
    }
    // More than four bytes encode a length of at least 256 MiB.
    if bytes.len() < 4 { Ok(None) } else { Err(Broken::PacketLength) }
}

/// Maximum bytes of packets that wait for a flush (`minWriteBufferSize`).
const PACKETS_MAX: usize = 64 << 10;
/// Maximum bytes of sealed frames that wait for the socket: a message in a sealed frame cannot be
/// withdrawn.
const SEALED_MAX: usize = 16 * SEALED;
/// Interval at which the shares of channels fade (`updateStats`), and the remaining fraction.
const FADE_EVERY: Duration = Duration::from_secs(2);
const FADE: f64 = 0.8;

#[derive(Debug)]
struct Queue {
    id: u8,
    priority: u32,
    /// Messages, each with the place of the channel whose queue it takes room of.
    waiting: VecDeque<(usize, Bytes)>,
    /// The rest of the message in transmission.
    cutting: Option<Bytes>,
    /// Bytes of recent packets, with exponential fading.
    recently_sent: u64,
}

impl Queue {
    fn is_pending(&self) -> bool {
        self.cutting.is_some() || !self.waiting.is_empty()
    }
}

#[derive(Debug)]
pub(super) struct Sending {
    queues: Vec<Queue>,
    flush: Flush,
    /// Packets that are not sealed yet.
    packets: Vec<u8>,
    /// Time of the next flush.
    flush_at: Option<Instant>,
    faded_at: Instant,
    /// Sealed frames. The socket has accepted all bytes before `written`.
    sealed: Vec<u8>,
    written: usize,
    /// Bytes of packets since the start: made, and sealed.
    made: u64,
    /// Ends of packets as offsets in the bytes made, each with the message bytes it carries.
    pieces: VecDeque<(u64, u32)>,
    /// Ends of sealed frames as offsets in the bytes of packets.
    frames: VecDeque<u64>,
    progress: Progress,
}

impl Sending {
    pub(super) fn new(channels: &[Channel], flush: Flush, now: Instant) -> Self {
        let queue = |channel: &Channel| Queue {
            id: channel.id,
            priority: channel.priority,
            waiting: VecDeque::new(),
            cutting: None,
            recently_sent: 0,
        };
        Self {
            queues: channels.iter().map(queue).collect(),
            flush,
            packets: Vec::new(),
            flush_at: None,
            faded_at: now,
            sealed: Vec::new(),
            written: 0,
            made: 0,
            pieces: VecDeque::new(),
            frames: VecDeque::new(),
            progress: Progress { taken: vec![0; channels.len()], ..Progress::default() },
        }
    }

    /// Appends a message that the hub has counted for the queue of one channel, and that leaves on
    /// another or the same. The hub respects the lengths of the queues.
    pub(super) fn push(&mut self, counted: usize, channel: usize, message: Bytes) {
        self.queues[channel].waiting.push_back((counted, message));
    }

    /// Appends a ping or a pong, unless much else waits: a peer that pings without reading gets no
    /// more memory for it.
    pub(super) fn push_packet(&mut self, packet: &Packet, now: Instant) {
        if self.packets.len() >= PACKETS_MAX {
            return;
        }
        self.made += packet.append(&mut self.packets) as u64;
        self.want_flush(now);
    }

    fn want_flush(&mut self, now: Instant) {
        let wait = match self.flush {
            Flush::WhenIdle => Duration::ZERO,
            Flush::Throttle(interval) => interval,
        };
        self.flush_at.get_or_insert(now + wait);
    }

    pub(super) fn next_flush(&self) -> Option<Instant> {
        self.flush_at.filter(|_| self.unsent().is_empty())
    }

    /// Makes packets and seals them, as far as there is room for them.
    pub(super) fn work(&mut self, secret: &mut Secret, now: Instant) -> io::Result<()> {
        self.fade(now);
        loop {
            while self.packets.len() < PACKETS_MAX && self.cut(now) {
                // Without throttling, make no more packets than can leave now: later messages may
                // be more urgent.
                if self.flush == Flush::WhenIdle && self.packets.len() >= PLAIN_MAX {
                    break;
                }
            }
            let due = self.flush_at.is_some_and(|at| at <= now) || self.packets.len() >= PACKETS_MAX;
            if self.packets.is_empty() || !due || self.unsent().len() + SEALED > SEALED_MAX {
                return Ok(());
            }
            self.seal(secret)?;
        }
    }

    /// Makes the next packet. Returns false if there is nothing to send.
    fn cut(&mut self, now: Instant) -> bool {
        let share = |queue: &Queue| queue.recently_sent as f32 / queue.priority as f32;
        let pending = (0..self.queues.len()).filter(|at| self.queues[*at].is_pending());
        let next = pending.min_by(|a, b| share(&self.queues[*a]).total_cmp(&share(&self.queues[*b])));
        let Some(at) = next else { return false };
        let queue = &mut self.queues[at];
        let mut message = match queue.cutting.take() {
            Some(rest) => rest,
            None => {
                let Some((counted, message)) = queue.waiting.pop_front() else { return false };
                self.progress.taken[counted] += 1;
                message
            }
        };
        let data = message.split_to(message.len().min(PAYLOAD_MAX));
        let (last, payload) = (message.is_empty(), data.len() as u32);
        let len = Packet::piece(queue.id, last, data).append(&mut self.packets) as u64;
        queue.recently_sent += len;
        self.made += len;
        if !last {
            queue.cutting = Some(message);
        }
        self.pieces.push_back((self.made, payload));
        self.want_flush(now);
        true
    }

    fn seal(&mut self, secret: &mut Secret) -> io::Result<()> {
        // Whole frames that the socket accepted.
        let gone = self.written / SEALED * SEALED;
        self.sealed.drain(..gone);
        self.written -= gone;
        let room = (SEALED_MAX - self.unsent().len()) / SEALED * PLAIN_MAX;
        let mut len = self.packets.len().min(room);
        if len >= PLAIN_MAX && self.queues.iter().any(Queue::is_pending) {
            // The next packets complete the last frame.
            len -= len % PLAIN_MAX;
        }
        let start = self.made - self.packets.len() as u64;
        secret.seal(&self.packets[..len], &mut self.sealed)?;
        let ends = (0..len).step_by(PLAIN_MAX).map(|at| start + (at + PLAIN_MAX).min(len) as u64);
        self.frames.extend(ends);
        self.packets.drain(..len);
        if self.packets.is_empty() {
            self.flush_at = None;
        }
        Ok(())
    }

    fn fade(&mut self, now: Instant) {
        while now.saturating_duration_since(self.faded_at) >= FADE_EVERY {
            self.faded_at += FADE_EVERY;
            for queue in &mut self.queues {
                queue.recently_sent = (queue.recently_sent as f64 * FADE) as u64;
            }
        }
    }

    pub(super) fn unsent(&self) -> &[u8] {
        &self.sealed[self.written..]
    }

    pub(super) fn is_idle(&self) -> bool {
        self.unsent().is_empty() && self.packets.is_empty() && !self.queues.iter().any(Queue::is_pending)
    }

    pub(super) fn wrote(&mut self, len: usize) {
        let before = self.written / SEALED;
        self.written += len;
        for _ in before..self.written / SEALED {
            let Some(end) = self.frames.pop_front() else { break };
            while let Some((piece_end, len)) = self.pieces.front()
                && *piece_end <= end
            {
                self.progress.written_bytes += u64::from(*len);
                self.pieces.pop_front();
            }
        }
        if self.written == self.sealed.len() {
            self.sealed.clear();
            self.written = 0;
        }
    }

    /// Takes the progress since the last call.
    pub(super) fn take_progress(&mut self) -> Option<Progress> {
        let Progress { taken, written_bytes } = &self.progress;
        if *written_bytes == 0 && taken.iter().all(|count| *count == 0) {
            return None;
        }
        let taken = vec![0; self.progress.taken.len()];
        Some(std::mem::replace(&mut self.progress, Progress { taken, ..Progress::default() }))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    Message { channel: u8, bytes: Bytes },
    Ping,
    Pong,
}

#[derive(Debug)]
struct Assembly {
    id: u8,
    longest: usize,
    bytes: Vec<u8>,
}

#[derive(Debug)]
pub struct Receiving {
    channels: Vec<Assembly>,
    /// Sealed bytes. Less than one frame after [`next`](Self::next) has returned `None`.
    sealed: Vec<u8>,
    /// Opened bytes. Less than one packet at that time.
    plain: Vec<u8>,
}

impl Receiving {
    pub fn new(channels: &[Channel]) -> Self {
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

    /// Returns the number of bytes to read from the socket.
    pub fn wants(&self) -> usize {
        SEALED - self.sealed.len()
    }

    /// Takes bytes from the socket, no more than [`wants`](Self::wants).
    pub fn read(&mut self, bytes: &[u8]) {
        self.sealed.extend_from_slice(bytes);
    }

    /// Returns the next message, ping or pong, or `None` until more bytes arrive.
    ///
    /// # Errors
    /// The peer broke the rules. The caller must close the connection.
    pub fn next(&mut self, secret: &mut Secret) -> Result<Option<Incoming>, Broken> {
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

    /// Returns the peer's node info, which precedes all packets, or `None` until more bytes arrive.
    pub(super) fn info(&mut self, secret: &mut Secret) -> Result<Option<NodeInfo>, Broken> {
        loop {
            let head = read_length(&self.plain, INFO_MAX)?;
            if let Some((length, start)) = head
                && let Some(bytes) = self.plain.get(start..start + length)
            {
                let info = NodeInfo::decode(bytes).map_err(|_| Broken::Packet)?;
                self.plain.drain(..start + length);
                return Ok(Some(info));
            }
            if !self.open(secret)? {
                return Ok(None);
            }
        }
    }

    fn open(&mut self, secret: &mut Secret) -> Result<bool, Broken> {
        if self.sealed.len() < SEALED {
            return Ok(false);
        }
        secret.open(&mut self.sealed, &mut self.plain)?;
        self.sealed.clear();
        Ok(true)
    }

    fn packet(&mut self) -> Result<Option<Packet>, Broken> {
        let Some((length, start)) = read_length(&self.plain, PACKET_MAX)? else {
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
        // Without spare capacity, as a pool may keep it for long.
        let bytes = std::mem::take(&mut assembly.bytes).into_boxed_slice().into();
        Ok(Some(Incoming::Message { channel: assembly.id, bytes }))
    }
}
