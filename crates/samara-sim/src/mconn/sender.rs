//! The send routine: messages in, packets into the buffer, sealed frames into the socket.

use samara_engine::Frame;
use smallvec::SmallVec;

use super::channel::Channel;
use super::config::{Flush, MConnectionConfig};
use super::limiter::Limiter;
use super::socket::Socket;
use super::stats::ConnectionStats;
use super::stream::Load;
use super::wire::{PING_BYTES, SEALED_FRAME, SEALED_PLAINTEXT};
use super::writer::{Item, Writer};
use crate::backlog::Segment;
use crate::config::{TcpConfig, Transport};
use crate::half::Ack;
use crate::tcp;

/// Packets that are written between two looks at the limit of the rate (`numBatchPacketMsgs`).
const BATCH: u32 = 10;
/// How often `recently_sent` decays, in nanoseconds (2 s: `updateStats`).
const DECAY_INTERVAL: u64 = 2_000_000_000;
/// How long a pong is waited for, in nanoseconds (45 s: `defaultPongTimeout`).
const PONG_TIMEOUT: u64 = 45_000_000_000;

/// What the send routine works with besides its own state.
pub(crate) struct Surroundings<'a> {
    /// The time in nanoseconds.
    pub(crate) now: u64,
    pub(crate) config: &'a MConnectionConfig,
    pub(crate) transport: &'a Transport,
    /// Counts the writes of the host.
    pub(crate) writes: &'a mut u64,
    pub(crate) stats: &'a mut ConnectionStats,
}

/// The sending end of a connection. Times in nanoseconds, `u64::MAX` for never.
///
/// The routine is one thread, which does one thing at a time and takes no time for it. It is *blocked* while it waits for
/// the socket in the middle of a flush, or for the limit of its rate: the flush timer, pings and pongs wait with it.
#[derive(Debug)]
pub(crate) struct Sender<F> {
    socket: Socket<F>,
    channels: SmallVec<[Channel<F>; 2]>,
    writer: Writer<F>,
    limiter: Limiter,
    /// Until when the limit of the rate blocks the routine.
    limited_until: u64,
    /// Packets that may be written before the limit is looked at again.
    batch_left: u32,
    /// When `recently_sent` decays next.
    decay_at: u64,
    flush_at: u64,
    ping_at: u64,
    wants_ping: bool,
    wants_pong: bool,
    /// When a pong is overdue.
    pong_by: u64,
    /// When the host's timer for flushes and limits fires that was set to do so soonest.
    pub(crate) timer: u64,
    /// The same for pings, which are rare: one timer for both would be set anew with every flush.
    pub(crate) ping_timer: u64,
}

impl<F: Frame> Sender<F> {
    pub(crate) fn new(config: &MConnectionConfig, tcp: Option<&TcpConfig>) -> Self {
        Self {
            socket: Socket::new(tcp),
            channels: config.channels.iter().map(|_| Channel::new()).collect(),
            writer: Writer::new(),
            limiter: Limiter::default(),
            limited_until: 0,
            batch_left: 0,
            decay_at: DECAY_INTERVAL,
            flush_at: u64::MAX,
            ping_at: u64::MAX,
            wants_ping: false,
            wants_pong: false,
            pong_by: u64::MAX,
            timer: u64::MAX,
            ping_timer: u64::MAX,
        }
    }

    /// The link is up.
    pub(crate) fn start(&mut self, now: u64, config: &MConnectionConfig) {
        self.decay_at = now + DECAY_INTERVAL;
        self.limiter = Limiter::new(now);
        if !config.ping_interval.is_zero() {
            self.ping_at = now.saturating_add(config.ping_interval.as_nanos() as u64);
        }
    }

    // ---- the outbox's side ----

    /// Whether the queue of a channel takes another message.
    pub(crate) fn has_room(&self, channel: usize, config: &MConnectionConfig) -> bool {
        self.channels[channel].has_room(config.channels[channel].queue)
    }

    /// Takes a message of `len` encoded bytes on a channel.
    pub(crate) fn push(&mut self, channel: usize, frame: F, len: u32) {
        self.channels[channel].full = false;
        self.channels[channel].push(frame, len);
    }

    /// Notes that the outbox has more for a channel whose queue is full.
    pub(crate) fn note_full(&mut self, channel: usize, stats: &mut ConnectionStats) {
        if !std::mem::replace(&mut self.channels[channel].full, true) {
            stats.queue_waits += 1;
        }
    }

    // ---- the routine ----

    /// Does what can be done now, until a message leaves its queue: who waits for that fills the queue while the message
    /// is being sent. Returns whether it stopped for that.
    pub(crate) fn run(&mut self, around: &mut Surroundings<'_>) -> bool {
        loop {
            self.seal(around);
            if self.is_blocked(around.now) {
                break;
            }
            if std::mem::take(&mut self.wants_pong) {
                self.write_control(Item::Pong, around);
            } else if std::mem::take(&mut self.wants_ping) {
                self.pong_by = self.pong_by.min(around.now + PONG_TIMEOUT);
                self.write_control(Item::Ping, around);
            } else {
                match self.write_packet(around) {
                    Some(true) => return true,
                    Some(false) => {}
                    None => break,
                }
            }
        }
        self.socket.watch_window(around.now, around.transport.control.tcp());
        false
    }

    /// There is nothing more to take from the outbox: a connection that does not wait for more flushes.
    pub(crate) fn rest(&mut self, around: &mut Surroundings<'_>) {
        if around.config.flush == Flush::WhenIdle && !self.writer.is_flushing() {
            self.flush(around);
            while self.run(around) {}
        }
    }

    /// Whether a flush waits for the socket.
    pub(crate) const fn waits_for_socket(&self) -> bool {
        self.writer.is_flushing()
    }

    fn is_blocked(&self, now: u64) -> bool {
        self.writer.is_flushing() || now < self.limited_until
    }

    /// Goes on with the flush that is under way while the socket takes something.
    fn seal(&mut self, around: &mut Surroundings<'_>) {
        while self.writer.is_flushing()
            && let room = self.socket.room_for(SEALED_FRAME, around.transport)
            && let Some(sealed) = self.writer.seal(room, *around.writes + 1)
        {
            *around.writes += u64::from(sealed.frames);
            around.stats.sealed_frames += u64::from(sealed.frames);
            around.stats.padding_bytes += u64::from(sealed.frames * SEALED_PLAINTEXT - sealed.brings.plain);
            self.socket.write(sealed);
        }
    }

    fn flush(&mut self, around: &mut Surroundings<'_>) {
        if self.writer.flush() {
            around.stats.flushes += 1;
            self.seal(around);
        }
    }

    /// Writes a packet of the channel that has sent the least for its priority, unless there is none or the rate does not
    /// allow it. Returns whether there is room in a queue that was full.
    fn write_packet(&mut self, around: &mut Surroundings<'_>) -> Option<bool> {
        if !self.channels.iter().any(Channel::is_pending) {
            self.batch_left = 0;
            return None;
        }
        if self.batch_left == 0 {
            if let Err(until) = self.limiter.admit(around.now, around.config.send_rate) {
                self.limited_until = until;
                return None;
            }
            self.batch_left = BATCH;
        }
        self.decay(around.now);
        let mut least: Option<(f32, usize)> = None;
        let mut room = false;
        let mut pending = 0;
        for (index, (channel, config)) in self.channels.iter_mut().zip(&around.config.channels).enumerate() {
            if let Some(taken) = channel.poll() {
                room |= taken;
                pending += 1;
                let ratio = channel.ratio(config.priority);
                if least.is_none_or(|(least, _)| ratio < least) {
                    least = Some((ratio, index));
                }
            }
        }
        let (_, index) = least?;
        let alone = pending == 1;
        loop {
            let packet = self.channels[index].write(around.config.channels[index].id)?;
            self.batch_left -= 1;
            self.limiter.count(around.now, packet.bytes);
            around.stats.packet(index, &packet);
            let complete = packet.complete.is_some();
            self.write(packet.bytes, packet.complete.map(Item::Message), around);
            // Nobody else has anything: it is this channel's turn again.
            if !alone || complete || self.batch_left == 0 || self.writer.is_flushing() {
                break;
            }
        }
        if let Flush::Throttle(interval) = around.config.flush
            && self.flush_at == u64::MAX
        {
            self.flush_at = around.now.saturating_add(interval.as_nanos() as u64);
        }
        Some(room)
    }

    /// Writes a ping or a pong, and flushes, as the routine does for these.
    fn write_control(&mut self, item: Item<F>, around: &mut Surroundings<'_>) {
        around.stats.pings_and_pongs += 1;
        self.limiter.count(around.now, PING_BYTES);
        self.write(PING_BYTES, Some(item), around);
        self.flush(around);
    }

    fn write(&mut self, bytes: u32, item: Option<Item<F>>, around: &mut Surroundings<'_>) {
        if self.writer.write(bytes, item) {
            around.stats.flushes += 1;
            around.stats.full_buffers += 1;
        }
    }

    fn decay(&mut self, now: u64) {
        if now >= self.decay_at {
            let decays = 1 + (now - self.decay_at) / DECAY_INTERVAL;
            self.channels.iter_mut().for_each(|channel| channel.decay(decays));
            self.decay_at += decays * DECAY_INTERVAL;
        }
    }

    // ---- time ----

    /// When something other than pinging is to be done although nothing happens.
    pub(crate) fn due(&self, now: u64) -> u64 {
        let limited = if now < self.limited_until { self.limited_until } else { u64::MAX };
        limited.min(self.flush_at).min(self.socket.persist_at())
    }

    /// When a ping is due, or a pong overdue.
    pub(crate) fn ping_due(&self) -> u64 {
        self.ping_at.min(self.pong_by)
    }

    /// It may be time for a ping. Returns whether a pong stayed out for too long: the connection is to be closed.
    pub(crate) fn tick_ping(&mut self, now: u64, config: &MConnectionConfig) -> bool {
        if self.ping_at <= now {
            self.wants_ping = true;
            self.ping_at = now.saturating_add(config.ping_interval.as_nanos() as u64);
        }
        self.pong_by <= now
    }

    /// It may be time for a flush or a probe.
    pub(crate) fn tick(&mut self, around: &mut Surroundings<'_>) {
        let now = around.now;
        if self.socket.persist_at() <= now {
            self.socket.probe();
        }
        if self.flush_at <= now {
            // A timer whose routine is busy tries again an interval later.
            if self.is_blocked(now)
                && let Flush::Throttle(interval) = around.config.flush
            {
                self.flush_at = now.saturating_add(interval.as_nanos() as u64);
            } else {
                self.flush_at = u64::MAX;
                self.flush(around);
            }
        }
    }

    /// A ping has been read.
    pub(crate) fn ping_arrived(&mut self) {
        self.wants_pong = true;
    }

    /// A pong has been read.
    pub(crate) fn pong_arrived(&mut self) {
        self.pong_by = u64::MAX;
    }

    // ---- TCP's side ----

    /// What TCP knows.
    pub(crate) const fn tcp(&self) -> &tcp::Sender<Load<F>> {
        self.socket.tcp()
    }

    /// Whether a packet with data can leave now.
    pub(crate) fn can_send(&self) -> bool {
        self.socket.can_send()
    }

    /// The write rank of what leaves next.
    pub(crate) fn next_rank(&self) -> u64 {
        self.socket.next_rank()
    }

    /// The segments that leave at `now`, at most `together`, if any can.
    pub(crate) fn pop(&mut self, now: u64, together: u32, transport: &Transport) -> Option<Segment<Load<F>>> {
        self.socket.pop(now, together, transport)
    }

    /// Takes an acknowledgement. Returns whether anything was news.
    pub(crate) fn acknowledged(&mut self, ack: &Ack, now: u64, config: &TcpConfig) -> bool {
        let opened = self.socket.set_window(ack.window);
        let news = self.socket.tcp_mut().acknowledged(ack.ack, ack.sack.as_deref(), ack.echo, now, config);
        self.socket.watch_window(now, Some(config));
        news || opened
    }

    /// TCP's retransmission timer expired.
    pub(crate) fn timed_out(&mut self, now: u64, config: &TcpConfig) {
        self.socket.tcp_mut().timed_out(now, config);
    }
}
