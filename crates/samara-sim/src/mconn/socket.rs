//! The socket under a connection: what is written to it, and TCP.

use super::stream::{Load, Sealed, Stream};
use crate::backlog::Segment;
use crate::config::{TcpConfig, Transport};
use crate::tcp;

/// A probe of a closed window comes no later than this after the last one, in nanoseconds (`TCP_RTO_MAX` in Linux).
const PERSIST_MAX: u64 = 120_000_000_000;

/// The send buffer over the ideal transport in bytes. Nothing can be withdrawn below the channels, so that a short one,
/// as elsewhere on that transport, would be of no use; this is about what Linux begins with.
const IDEAL_SEND_BUFFER: u64 = 131_072;

/// The sending half of a socket. TCP is given a segment when it can leave, so that what waits for the window can still be
/// put together.
#[derive(Debug)]
pub(super) struct Socket<F> {
    tcp: tcp::Sender<Load<F>>,
    stream: Stream<F>,
    /// When the receiver's closed window is probed; `u64::MAX` if it is open or something is in flight.
    persist_at: u64,
    /// Probes since the window closed.
    probes: u32,
    /// Whether a probe is to leave.
    probe_due: bool,
}

impl<F> Socket<F> {
    pub(super) fn new(config: Option<&TcpConfig>) -> Self {
        Self {
            tcp: tcp::Sender::new(config),
            stream: Stream::new(),
            persist_at: u64::MAX,
            probes: 0,
            probe_due: false,
        }
    }

    pub(super) const fn tcp(&self) -> &tcp::Sender<Load<F>> {
        &self.tcp
    }

    pub(super) const fn tcp_mut(&mut self) -> &mut tcp::Sender<Load<F>> {
        &mut self.tcp
    }

    /// How many writes of so many bytes the send buffer takes: the last one may exceed it.
    pub(super) fn room_for(&self, bytes: u32, transport: &Transport) -> u32 {
        let limit = match transport.control.tcp() {
            Some(config) => self.tcp.buffer_limit(Some(config), transport.mss),
            None => IDEAL_SEND_BUFFER,
        };
        let left = limit.saturating_sub(self.tcp.buffered() + self.stream.bytes());
        u32::try_from(left.div_ceil(u64::from(bytes))).unwrap_or(u32::MAX)
    }

    pub(super) fn write(&mut self, sealed: Sealed<F>) {
        self.stream.write(sealed, self.tcp.window_left());
    }

    /// Whether a packet can leave now.
    pub(super) fn can_send(&self) -> bool {
        self.probe_due || self.tcp.can_send() || (!self.stream.is_empty() && self.tcp.window_left() >= 1.0)
    }

    /// The write rank of what leaves next.
    pub(super) fn next_rank(&self) -> u64 {
        if self.tcp.can_send() { self.tcp.next_rank() } else { self.stream.rank() }
    }

    /// The segments that leave at `now`, at most `together`, if any can: what was lost before what is new.
    pub(super) fn pop(&mut self, now: u64, together: u32, transport: &Transport) -> Option<Segment<Load<F>>> {
        if self.probe_due {
            // Something that the receiver has had: it answers with its window.
            self.probe_due = false;
            return Some(self.tcp.probe(now));
        }
        if !self.tcp.can_send() {
            let window = self.tcp.window_left();
            if window < 1.0 {
                return None;
            }
            let (run, load) = self.stream.cut(transport.mss, (window as u32).min(together))?;
            self.tcp.write_run(load, run);
        }
        self.tcp.pop(now, transport.control.tcp(), transport)
    }

    /// The receiver says how many packets it has room for beyond what it acknowledges. Returns whether that is more.
    pub(super) fn set_window(&mut self, window: u32) -> bool {
        let before = self.tcp.set_receive_window(window);
        window > before
    }

    /// Sets or stops the timer that probes a closed window (RFC 9293 section 3.8.6.1).
    pub(super) fn watch_window(&mut self, now: u64, config: Option<&TcpConfig>) {
        let shut = self.tcp.is_shut() && !self.stream.is_empty();
        let Some(config) = config.filter(|_| shut) else {
            self.persist_at = u64::MAX;
            self.probes = 0;
            self.probe_due = false;
            return;
        };
        if self.persist_at == u64::MAX {
            let wait = self.tcp.timeout(config).saturating_mul(1 << self.probes.min(16)).min(PERSIST_MAX);
            self.persist_at = now.saturating_add(wait);
        }
    }

    /// When the closed window is probed.
    pub(super) const fn persist_at(&self) -> u64 {
        self.persist_at
    }

    /// The time for a probe has come.
    pub(super) fn probe(&mut self) {
        self.persist_at = u64::MAX;
        self.probes += 1;
        self.probe_due = true;
    }
}
