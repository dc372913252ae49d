//! The send routine: messages in, packets into the buffer, sealed frames into the socket.

use std::collections::VecDeque;

use samara_engine::outbox::Room;
use smallvec::SmallVec;

use super::stream::{Stream, Writer};
use super::{Flush, MESSAGE_PACKET_BYTES, PING_BYTES, SEALED_FRAME, SEALED_PLAINTEXT, packet_bytes};
use crate::config::SimConfig;
use crate::explain::Cause;
use crate::rewind;
use crate::transport::socket::{Item, Socket};
use crate::transport::{
    Ack, Around, Copies, EndTimer, LossRecovery, Offer, Outgoing, SendHalf, Transport, Which,
};

/// Number of packets written between two checks of the rate limit (`numBatchPacketMsgs`).
const BATCH: u32 = 10;
/// The interval at which `recently_sent` decays, in nanoseconds (2 s: `updateStats`).
const DECAY_INTERVAL: u64 = 2_000_000_000;
/// The timeout of a pong, in nanoseconds (45 s: `defaultPongTimeout`).
const PONG_TIMEOUT: u64 = 45_000_000_000;

/// The send buffer over the ideal transport in bytes. Nothing can be withdrawn below the channels,
/// so that a short buffer, as elsewhere on that transport, would be of no use. This is about the
/// initial size in Linux.
const IDEAL_SEND_BUFFER: u64 = 131_072;

/// The sending end of a connection. Times in nanoseconds, `u64::MAX` for never.
///
/// The routine is one thread, which does one thing at a time and takes no time for it. It is
/// *blocked* while it waits for the socket in the middle of a flush, or for its rate limit. The
/// flush timer, pings and pongs then wait too.
#[derive(Debug)]
pub(crate) struct Sender<F> {
    socket: Socket<F, Stream<F>>,
    channels: SmallVec<[Channel<F>; 2]>,
    writer: Writer<F>,
    limiter: Limiter,
    /// The time until which the rate limit blocks the routine.
    limited_until: u64,
    /// Number of packets that may be written before the next check of the rate limit.
    batch_left: u32,
    decay_at: u64,
    flush_at: u64,
    ping_at: u64,
    wants_ping: bool,
    pub(super) wants_pong: bool,
    pub(super) pong_by: u64,
    /// The time at which the receiver continues to read; `u64::MAX` if it does not wait.
    pub(super) read_at: u64,
    /// The times of the host's earliest running timers.
    timers: [u64; EndTimer::ALL.len()],
}

impl<F: Clone> Sender<F> {
    pub(crate) fn new(transport: &Transport) -> Self {
        let channels = transport.connection.mconnection().channels.len();
        Self {
            socket: Socket::new(Stream::new(), transport),
            channels: (0..channels).map(|_| Channel::new()).collect(),
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
            read_at: u64::MAX,
            timers: EndTimer::ALL.map(|_| u64::MAX),
        }
    }

    // ---- the outbox's side ----

    /// Passes copies to the channels that have room and runs the routine, until nothing changes.
    pub(super) fn feed(&mut self, copies: &mut dyn Copies<F>, around: &mut Around<'_, F>) {
        loop {
            let mut more = self.run(around);
            if copies.is_empty() {
                while more {
                    more = self.run(around);
                }
                break;
            }
            for (channel, config) in self.channels.iter_mut().zip(&around.channels().channels) {
                while channel.has_room(config.queue)
                    && copies.has_any(&config.lanes)
                    && let Some((frame, len)) = copies.next(Which::Lanes(&config.lanes), 0)
                {
                    channel.full = false;
                    channel.push(frame, len);
                    more = true;
                }
            }
            if !more {
                break;
            }
        }
        self.rest(around);
        if copies.is_empty() {
            return;
        }
        for (channel, config) in self.channels.iter_mut().zip(&around.channels().channels) {
            let is_full = !channel.has_room(config.queue) && copies.has_any(&config.lanes);
            if is_full && !std::mem::replace(&mut channel.full, true) {
                around.counts.connections.queue_waits += 1;
            }
        }
    }

    // ---- the routine ----

    /// Does all work that is possible now, until a message leaves its queue: the caller then
    /// refills the queue while the message is being sent. Returns true if it stopped for that
    /// reason.
    fn run(&mut self, around: &mut Around<'_, F>) -> bool {
        if self.has_nothing_to_do() {
            self.batch_left = 0;
            return false;
        }
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
        self.socket.watch_window(around.now, around.transport);
        false
    }

    fn has_nothing_to_do(&self) -> bool {
        !self.writer.is_flushing()
            && !self.wants_pong
            && !self.wants_ping
            && !self.channels.iter().any(Channel::is_pending)
            && self.socket.is_quiet()
    }

    /// Flushes a connection without a throttle once the outbox has nothing more for it.
    fn rest(&mut self, around: &mut Around<'_, F>) {
        if around.channels().flush == Flush::WhenIdle && !self.writer.is_flushing() {
            self.flush(around);
            while self.run(around) {}
        }
    }

    fn is_blocked(&self, now: u64) -> bool {
        self.writer.is_flushing() || now < self.limited_until
    }

    /// Continues the current flush while the socket has room.
    fn seal(&mut self, around: &mut Around<'_, F>) {
        while self.writer.is_flushing()
            && let room = self.frames_in_buffer(around.transport)
            && let Some(sealed) = self.writer.seal(room, around.counts.writes + 1)
        {
            around.counts.writes += u64::from(sealed.frames);
            around.counts.connections.sealed_frames += u64::from(sealed.frames);
            around.counts.connections.padding_bytes +=
                u64::from(sealed.frames * SEALED_PLAINTEXT - sealed.readable.bytes);
            self.socket.stream.write(sealed, self.socket.tcp.window_left());
        }
    }

    /// Returns how many sealed frames the send buffer takes. The last one may exceed it.
    fn frames_in_buffer(&self, transport: &Transport) -> u32 {
        let Socket { tcp, stream, .. } = &self.socket;
        let limit = match transport.control.tcp() {
            Some(_) => tcp.buffer_limit(transport),
            None => IDEAL_SEND_BUFFER,
        };
        let left = limit.saturating_sub(tcp.backlog.buffered + stream.bytes);
        u32::try_from(left.div_ceil(u64::from(SEALED_FRAME))).unwrap_or(u32::MAX)
    }

    fn flush(&mut self, around: &mut Around<'_, F>) {
        if self.writer.flush() {
            around.counts.connections.flushes += 1;
            self.seal(around);
        }
    }

    /// Writes a packet of the channel that has sent the least for its priority. Returns `None` if
    /// there is no packet or the rate limit does not allow it; otherwise whether a queue that was
    /// full has room again.
    fn write_packet(&mut self, around: &mut Around<'_, F>) -> Option<bool> {
        if !self.channels.iter().any(Channel::is_pending) {
            self.batch_left = 0;
            return None;
        }
        if self.batch_left == 0 {
            if let Err(until) = self.limiter.admit(around.now, around.channels().send_rate) {
                self.limited_until = until;
                return None;
            }
            self.batch_left = BATCH;
        }
        self.decay(around.now);
        let mut least: Option<(f32, usize)> = None;
        let mut room = false;
        let mut pending = 0;
        for (index, (channel, config)) in
            self.channels.iter_mut().zip(&around.channels().channels).enumerate()
        {
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
            let packet = self.channels[index].write(around.channels().channels[index].id)?;
            self.batch_left -= 1;
            self.limiter.count(around.now, packet.bytes);
            around.counts.connections.packet(index, &packet);
            let complete = packet.complete.is_some();
            let item = packet.complete.map(|frame| Item::Data { bytes: packet.data, frame: Some(frame) });
            self.write(packet.bytes, item, around);
            // No other channel has anything to send: it is this channel's turn again.
            if !alone || complete || self.batch_left == 0 || self.writer.is_flushing() {
                break;
            }
        }
        if let Flush::Throttle(interval) = around.channels().flush
            && self.flush_at == u64::MAX
        {
            self.flush_at = around.now.saturating_add(interval.as_nanos() as u64);
        }
        Some(room)
    }

    /// Writes a ping or a pong and flushes, as the real routine does.
    fn write_control(&mut self, item: Item<F>, around: &mut Around<'_, F>) {
        around.counts.connections.pings_and_pongs += 1;
        self.limiter.count(around.now, PING_BYTES);
        self.write(PING_BYTES, Some(item), around);
        self.flush(around);
    }

    fn write(&mut self, bytes: u32, item: Option<Item<F>>, around: &mut Around<'_, F>) {
        if self.writer.write(bytes, item) {
            around.counts.connections.flushes += 1;
            around.counts.connections.full_buffers += 1;
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

    /// Returns true if a timer fires that no other one has replaced.
    pub(super) fn takes(&mut self, timer: EndTimer, now: u64) -> bool {
        let running = &mut self.timers[timer as usize];
        let is_running = *running <= now;
        if is_running {
            *running = u64::MAX;
        }
        is_running
    }

    /// Handles the ping timer. Returns true if a pong is overdue and the connection must close.
    pub(super) fn tick_ping(&mut self, around: &Around<'_, F>) -> bool {
        if self.ping_at <= around.now {
            self.wants_ping = true;
            self.ping_at = around.now.saturating_add(around.channels().ping_interval.as_nanos() as u64);
        }
        self.pong_by <= around.now
    }

    /// Handles the timer for flushes and probes.
    pub(super) fn tick(&mut self, around: &mut Around<'_, F>) {
        let now = around.now;
        if self.socket.persist_at <= now {
            self.socket.probe();
        }
        if self.flush_at <= now {
            // A timer that finds the routine busy tries again after another interval.
            if self.is_blocked(now)
                && let Flush::Throttle(interval) = around.channels().flush
            {
                self.flush_at = now.saturating_add(interval.as_nanos() as u64);
            } else {
                self.flush_at = u64::MAX;
                self.flush(around);
            }
        }
    }
}

/// Copies arrive by lane, as the channels have room for them.
impl<F: Clone> SendHalf<F> for Sender<F> {
    fn recovery(&self) -> &impl LossRecovery {
        &self.socket.tcp
    }

    fn recovery_mut(&mut self) -> &mut impl LossRecovery {
        &mut self.socket.tcp
    }

    fn start(&mut self, now: u64, transport: &Transport) {
        self.decay_at = now + DECAY_INTERVAL;
        self.limiter = Limiter::new(now);
        let interval = transport.connection.mconnection().ping_interval;
        if !interval.is_zero() {
            self.ping_at = now.saturating_add(interval.as_nanos() as u64);
        }
    }

    fn offer(&mut self, offer: Offer, copies: &mut dyn Copies<F>, around: &mut Around<'_, F>) -> bool {
        let has_turn = match offer {
            // Urgent copies have their own channel.
            Offer::Urgent => return false,
            Offer::Copies => true,
            // Room in the socket matters only to a routine that waits for it.
            Offer::Room => self.writer.is_flushing(),
        };
        if has_turn {
            self.feed(copies, around);
        }
        true
    }

    fn write(&mut self, _frame: F, _len: u32, _rank: u64, _transport: &Transport) {
        debug_assert!(false, "channels take copies by lane");
    }

    /// Nothing waits for a buffer: copies go to the queues of channels.
    fn has_buffer(&self, _transport: &Transport) -> bool {
        true
    }

    fn room(&self, _transport: &Transport) -> Room {
        Room::NONE
    }

    fn can_send(&self) -> bool {
        self.socket.can_send()
    }

    fn held(&self, now: u64) -> Option<Cause> {
        let of_socket = self.socket.held(now);
        if of_socket.is_some() || self.writer.is_flushing() {
            // A flush waits for the send buffer, which holds what is not acknowledged.
            return of_socket.or_else(|| Some(self.socket.tcp.window_cause()));
        }
        if now < self.limited_until {
            return Some(Cause::FlowControl);
        }
        let waits = self.flush_at != u64::MAX || self.channels.iter().any(Channel::is_pending);
        waits.then_some(Cause::Flush)
    }

    fn next_rank(&self) -> u64 {
        self.socket.next_rank()
    }

    fn burst_max(&self, uplink_nanos_per_byte: f64, config: &SimConfig) -> u32 {
        super::burst_max(uplink_nanos_per_byte, config)
    }

    fn pop(&mut self, now: u64, burst_max: u32, transport: &Transport) -> Option<Outgoing<F>> {
        self.socket.pop(now, burst_max, transport)
    }

    fn take_ack(&mut self, ack: &Ack, now: u64, transport: &Transport) -> bool {
        self.socket.take_ack(ack, now, transport)
    }

    fn due(&mut self, timer: EndTimer, now: u64) -> Option<u64> {
        let due = match timer {
            EndTimer::Work => {
                let limited = if now < self.limited_until { self.limited_until } else { u64::MAX };
                limited.min(self.flush_at).min(self.socket.persist_at).min(self.read_at)
            }
            EndTimer::Ping => self.ping_at.min(self.pong_by),
        };
        let running = &mut self.timers[timer as usize];
        let is_earlier = due < *running;
        *running = due.min(*running);
        is_earlier.then_some(due)
    }
}

/// The remainder of `recently_sent` after each interval (`updateStats` in
/// `p2p/conn/connection.go`).
const DECAY: f64 = 0.8;
/// After this many steps nothing is left of any number of bytes that a connection could carry in
/// between.
const DECAY_STEPS_MAX: u64 = 200;

type Message<F> = (F, u32);

/// One channel of one end of a connection.
#[derive(Debug)]
pub(super) struct Channel<F> {
    /// The message at the head of the queue. Most queues never have another one.
    head: Option<Message<F>>,
    /// The messages behind the head.
    queue: VecDeque<Message<F>>,
    /// The message that is being cut into packets, and the number of its bytes that were sent.
    sending: Option<(Message<F>, u32)>,
    /// Bytes in packets so far, decaying.
    recently_sent: u64,
    /// True while copies in the outbox wait for room in the queue.
    pub(super) full: bool,
}

#[derive(Debug)]
pub(super) struct Written<F> {
    /// Message bytes in the packet.
    pub(super) data: u32,
    /// All bytes of the packet.
    pub(super) bytes: u32,
    /// The message, if this was its last packet.
    pub(super) complete: Option<F>,
}

impl<F> Channel<F> {
    pub(super) const fn new() -> Self {
        Self { head: None, queue: VecDeque::new(), sending: None, recently_sent: 0, full: false }
    }

    pub(super) fn has_room(&self, capacity: usize) -> bool {
        usize::from(self.head.is_some()) + self.queue.len() < capacity
    }

    pub(super) fn push(&mut self, frame: F, len: u32) {
        match self.head {
            None => self.head = Some((frame, len)),
            Some(_) => self.queue.push_back((frame, len)),
        }
    }

    /// Takes the next message out of the queue if none is being sent. Returns whether this made
    /// room in the queue, or `None` if there is nothing to send.
    pub(super) fn poll(&mut self) -> Option<bool> {
        if self.sending.is_some() {
            return Some(false);
        }
        self.sending = Some((self.head.take()?, 0));
        self.head = self.queue.pop_front();
        rewind(&mut self.queue);
        Some(true)
    }

    pub(super) fn is_pending(&self) -> bool {
        self.sending.is_some() || self.head.is_some()
    }

    /// Returns the key of the channels' turns: the smallest goes first.
    pub(super) fn ratio(&self, priority: u32) -> f32 {
        self.recently_sent as f32 / priority as f32
    }

    pub(super) fn decay(&mut self, steps: u64) {
        for _ in 0..steps.min(DECAY_STEPS_MAX) {
            self.recently_sent = (self.recently_sent as f64 * DECAY) as u64;
        }
    }

    /// Makes the next packet, if there is something to send.
    pub(super) fn write(&mut self, id: u8) -> Option<Written<F>> {
        let ((_, len), sent) = self.sending.as_mut()?;
        let data = (*len - *sent).min(MESSAGE_PACKET_BYTES);
        *sent += data;
        let last = sent == len;
        let bytes = packet_bytes(id, last, data);
        self.recently_sent += u64::from(bytes);
        let complete = if last { self.sending.take().map(|((frame, _), _)| frame) } else { None };
        Some(Written { data, bytes, complete })
    }
}

/// The duration of a sample, in nanoseconds (100 ms: `New` in `libs/flowrate/flowrate.go`).
const SAMPLE: u64 = 100_000_000;
/// The shortest wait for the end of a sample (`minWait` in `waitNextSample`).
const WAIT_MIN: u64 = 5_000_000;

/// A flow monitor. Within a sample of 100 ms, it admits nothing more once a tenth of the rate was
/// transferred. The excess of the last transfer is forgotten with the sample. A sample ends with
/// the first check after its time, so that samples of idle times are longer. (The clock of the real
/// one has steps of 20 ms; this one has none.)
#[derive(Debug, Default)]
pub(super) struct Limiter {
    since: u64,
    bytes: u64,
}

impl Limiter {
    pub(super) const fn new(now: u64) -> Self {
        Self { since: now, bytes: 0 }
    }

    /// Admits a transfer now at `rate` bytes per second (0: no limit), or returns the time of the
    /// next attempt.
    pub(super) fn admit(&mut self, now: u64, rate: u64) -> Result<(), u64> {
        if rate == 0 {
            return Ok(());
        }
        self.end_sample(now);
        if self.bytes < (rate / 10).max(1) { Ok(()) } else { Err((self.since + SAMPLE).max(now + WAIT_MIN)) }
    }

    pub(super) fn count(&mut self, now: u64, bytes: u32) {
        self.bytes += u64::from(bytes);
        self.end_sample(now);
    }

    fn end_sample(&mut self, now: u64) {
        if now - self.since >= SAMPLE {
            self.since = now;
            self.bytes = 0;
        }
    }
}
