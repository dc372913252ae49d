//! The socket below a layer over TCP: bytes of the layer become segments when these can leave, and
//! not before, so that data that wait for the window can still be combined.

use std::sync::Arc;

use smallvec::SmallVec;

use super::backlog::{Run, Segment};
use super::tcp;
use super::{Ack, LossRecovery, Outgoing, SendHalf, Transport};
use crate::explain::Cause;
use crate::packet::Body;

/// The maximum interval between probes of a closed window, in nanoseconds (`TCP_RTO_MAX` in Linux).
const PERSIST_MAX: u64 = 120_000_000_000;

/// The bytes that become readable with a segment. The packet on its way and the sender's copy for
/// retransmission share it.
pub(crate) type Load<F> = Arc<Readable<F>>;

#[derive(Debug)]
pub(crate) struct Readable<F> {
    /// Bytes of the layer that become readable, if the layer reads no faster than a rate.
    pub(super) bytes: u32,
    /// Number of segments that carried them.
    pub(super) segments: u32,
    pub(super) items: SmallVec<[Item<F>; 1]>,
}

impl<F> Readable<F> {
    pub(super) fn nothing() -> Self {
        Self { bytes: 0, segments: 0, items: SmallVec::new() }
    }

    /// Returns the frames that become readable.
    pub(crate) fn frames(&self) -> impl Iterator<Item = &F> {
        self.items.iter().filter_map(|item| match item {
            Item::Data { frame, .. } => frame.as_ref(),
            Item::Credit(_) | Item::Ping | Item::Pong => None,
        })
    }
}

/// A unit of a layer.
#[derive(Debug)]
pub(crate) enum Item<F> {
    /// A number of bytes, and the frame that ends with them.
    Data { bytes: u32, frame: Option<F> },
    /// Credit for more bytes.
    Credit(u32),
    /// A request for a `Pong`.
    Ping,
    /// The answer to a `Ping`.
    Pong,
}

/// Bytes of a layer that wait for a segment.
pub(super) trait Stream<F> {
    fn is_empty(&self) -> bool;

    /// Returns the write rank of the oldest byte; `u64::MAX` if there is none.
    fn rank(&self) -> u64;

    /// Cuts the next segments of at most `mss` bytes, at most `most`, and returns them with their load.
    /// All were written one after the other: nothing that the host wrote to another link lies between
    /// them.
    fn cut(&mut self, mss: u32, most: u32) -> Option<(Run, Readable<F>)>;
}

/// The sending half of a socket. Times in nanoseconds.
#[derive(Debug)]
pub(super) struct Socket<F, S> {
    pub(super) tcp: tcp::Sender<Load<F>>,
    pub(super) stream: S,
    /// The time at which the receiver's closed window is probed; `u64::MAX` if it is open or
    /// something is in flight.
    pub(super) persist_at: u64,
    probes: u32,
    probe_due: bool,
}

impl<F, S: Stream<F>> Socket<F, S> {
    pub(super) fn new(stream: S, transport: &Transport) -> Self {
        let tcp = tcp::Sender::new(transport);
        Self { tcp, stream, persist_at: u64::MAX, probes: 0, probe_due: false }
    }

    /// Returns true if nothing waits to leave and no timer for a closed window runs.
    pub(super) fn is_quiet(&self) -> bool {
        self.stream.is_empty() && self.persist_at == u64::MAX
    }

    pub(super) fn can_send(&self) -> bool {
        self.probe_due || self.tcp.can_send() || (!self.stream.is_empty() && self.tcp.window_left() >= 1.0)
    }

    /// Returns why data cannot leave, unless they can; `None` if none wait.
    pub(super) fn held(&self, now: u64) -> Option<Cause> {
        let own = || (!self.stream.is_empty()).then(|| self.own_cause());
        self.tcp.held(now).or_else(own)
    }

    fn own_cause(&self) -> Cause {
        if self.tcp.receive_window == 0 { Cause::FlowControl } else { self.tcp.window_cause() }
    }

    /// Returns the write rank of the next segment to leave.
    pub(super) fn next_rank(&self) -> u64 {
        if self.tcp.can_send() { self.tcp.next_rank() } else { self.stream.rank() }
    }

    /// Returns the segments that leave at `now`, at most `most`, if any can. Lost segments go
    /// before new ones.
    pub(super) fn pop(&mut self, now: u64, most: u32, transport: &Transport) -> Option<Outgoing<F>> {
        let segment = if std::mem::take(&mut self.probe_due) {
            // Data that the receiver already has: it answers with its window.
            self.tcp.probe(now)
        } else {
            if !self.tcp.can_send() {
                let window = self.tcp.window_left();
                if window < 1.0 {
                    return None;
                }
                let (run, readable) = self.stream.cut(transport.mss, (window as u32).min(most))?;
                self.tcp.write_run(Arc::new(readable), run);
            }
            self.tcp.pop_segment(now, transport)?
        };
        let Segment { seq, count, len, frame: load, again, stamp } = segment;
        Some(Outgoing { body: Body::Stream { seq, count, load }, len, again, stamp, frees: true })
    }

    /// Handles an acknowledgement of a receiver whose window changes. Returns true if there may be room
    /// now.
    pub(super) fn take_ack(&mut self, ack: &Ack, now: u64, transport: &Transport) -> bool {
        if transport.control.tcp().is_none() {
            return false;
        }
        let opened = ack.window > std::mem::replace(&mut self.tcp.receive_window, ack.window);
        let news = self.tcp.acknowledged(ack, now, transport);
        self.watch_window(now, transport);
        news || opened
    }

    /// Sets or stops the timer that probes a closed window (RFC 9293 section 3.8.6.1).
    pub(super) fn watch_window(&mut self, now: u64, transport: &Transport) {
        let shut = self.tcp.is_shut() && !self.stream.is_empty();
        let Some(config) = transport.control.tcp().filter(|_| shut) else {
            self.persist_at = u64::MAX;
            self.probes = 0;
            self.probe_due = false;
            return;
        };
        if self.persist_at == u64::MAX {
            let wait = self.tcp.rtt.timeout(config).saturating_mul(1 << self.probes.min(16)).min(PERSIST_MAX);
            self.persist_at = now.saturating_add(wait);
        }
    }

    /// Requests a probe, because its time has come.
    pub(super) fn probe(&mut self) {
        self.persist_at = u64::MAX;
        self.probes += 1;
        self.probe_due = true;
    }
}
