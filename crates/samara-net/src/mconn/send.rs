//! The sending end of a connection: messages wait in channels, are cut into packets, and leave sealed.
//!
//! ```text
//! channels -> packets (at most 64 KiB) -> sealed frames (at most 16) -> socket
//! ```
//!
//! A packet is made of the channel that has sent the least for its priority, as in `sendPacketMsg` of `p2p/conn/connection.go`.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::options::{Channel, Flush};
use super::secret::{PLAIN_MAX, SEALED, Secret};
use super::wire::{PAYLOAD_MAX, Packet};

/// Packets that wait for a flush at most (`minWriteBufferSize`).
const PACKETS_MAX: usize = 64 << 10;
/// Sealed frames that wait for the socket at most: what was chosen cannot be withdrawn any more.
const SEALED_MAX: usize = 16 * SEALED;
/// How often the shares of channels fade (`updateStats`), and what is left of them.
const FADE_EVERY: Duration = Duration::from_secs(2);
const FADE: f64 = 0.8;

#[derive(Debug)]
struct Queue {
    id: u8,
    priority: u32,
    waiting: VecDeque<Bytes>,
    /// What is left of the message that is being cut.
    cutting: Option<Bytes>,
    /// Bytes in packets, fading.
    recently_sent: u64,
}

impl Queue {
    fn is_pending(&self) -> bool {
        self.cutting.is_some() || !self.waiting.is_empty()
    }
}

/// What has left since it was asked for the last time: the owner of the outbox gives room for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Messages that have left the queues, by the index of the channel.
    pub(super) taken: Vec<u32>,
    /// Bytes of messages that the socket has taken.
    pub(super) written_bytes: u64,
}

impl Progress {
    fn is_empty(&self) -> bool {
        self.written_bytes == 0 && self.taken.iter().all(|count| *count == 0)
    }
}

/// The sending end.
#[derive(Debug)]
pub(super) struct Sending {
    queues: Vec<Queue>,
    flush: Flush,
    /// Packets that were not sealed yet.
    packets: Vec<u8>,
    /// When they are to leave.
    flush_at: Option<Instant>,
    faded_at: Instant,
    /// Sealed frames; all before `written` were taken by the socket.
    sealed: Vec<u8>,
    written: usize,
    /// Bytes since the start: of packets that were made, and that were sealed.
    made: u64,
    /// Where packets end in these, and how many bytes of a message they carry.
    pieces: VecDeque<(u64, u32)>,
    /// Where sealed frames end in the bytes of packets.
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

    /// Takes a message. The owner of the outbox keeps to the lengths of the queues.
    pub(super) fn push(&mut self, channel: usize, message: Bytes) {
        self.queues[channel].waiting.push_back(message);
    }

    /// Appends a ping or a pong. Not while much else waits: a peer that pings without reading gets no more memory for it.
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

    /// When there is something to do next although nothing comes in.
    pub(super) fn next_flush(&self) -> Option<Instant> {
        self.flush_at.filter(|_| self.unsent().is_empty())
    }

    /// Makes packets and seals them, as far as there is room for them.
    ///
    /// # Errors
    /// Sealing failed.
    pub(super) fn work(&mut self, secret: &mut Secret, now: Instant) -> io::Result<()> {
        self.fade(now);
        loop {
            while self.packets.len() < PACKETS_MAX && self.cut(now) {
                // One that waits for nothing does not make more than leaves: what comes meanwhile may be more urgent.
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

    /// Makes the next packet. `false` if there is nothing to send.
    fn cut(&mut self, now: Instant) -> bool {
        let share = |queue: &Queue| queue.recently_sent as f32 / queue.priority as f32;
        let pending = (0..self.queues.len()).filter(|at| self.queues[*at].is_pending());
        let next = pending.min_by(|a, b| share(&self.queues[*a]).total_cmp(&share(&self.queues[*b])));
        let Some(at) = next else { return false };
        let queue = &mut self.queues[at];
        let mut message = match queue.cutting.take() {
            Some(rest) => rest,
            None => {
                self.progress.taken[at] += 1;
                queue.waiting.pop_front().unwrap_or_default()
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
        // Whole frames that were taken.
        let gone = self.written / SEALED * SEALED;
        self.sealed.drain(..gone);
        self.written -= gone;
        let room = (SEALED_MAX - self.unsent().len()) / SEALED * PLAIN_MAX;
        let mut len = self.packets.len().min(room);
        if len >= PLAIN_MAX && self.queues.iter().any(Queue::is_pending) {
            // What comes next fills the last frame up.
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

    /// What waits for the socket.
    pub(super) fn unsent(&self) -> &[u8] {
        &self.sealed[self.written..]
    }

    /// Whether nothing waits.
    pub(super) fn is_idle(&self) -> bool {
        self.unsent().is_empty() && self.packets.is_empty() && !self.queues.iter().any(Queue::is_pending)
    }

    /// The socket has taken so many bytes.
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

    /// What has left since the last call, if anything has.
    pub(super) fn take_progress(&mut self) -> Option<Progress> {
        if self.progress.is_empty() {
            return None;
        }
        let taken = vec![0; self.progress.taken.len()];
        Some(std::mem::replace(&mut self.progress, Progress { taken, ..Progress::default() }))
    }
}
