//! The receive routine: segments in, messages out, as fast as the rate limit allows.

use std::collections::VecDeque;

use super::sender::Limiter;
use super::socket::Load;
use crate::rewind;
use crate::transport::{Ack, AckNeed, Transport, tcp};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) ping: bool,
    pub(crate) pong: bool,
    /// True if the sender knows a much smaller window and should get an update.
    pub(crate) window_opened: bool,
}

/// The receiving end of a connection. Times in nanoseconds.
///
/// Unread data fill the window: the sender never has more than a window's packets in flight and
/// unread.
#[derive(Debug)]
pub(crate) struct Receiver<F> {
    tcp: tcp::Receiver<Load<F>>,
    /// Data that arrived completely and in order.
    unread: VecDeque<Load<F>>,
    /// The segments of the unread data.
    unread_segments: u32,
    limiter: Limiter,
    /// The time at which reading continues; `u64::MAX` if it does not wait.
    pub(crate) read_at: u64,
    /// The segment at the end of the last announced window.
    edge: u32,
    /// Data that the last segment completed.
    arrived: Vec<Load<F>>,
}

impl<F: Clone> Receiver<F> {
    pub(crate) fn new(transport: &Transport) -> Self {
        Self {
            tcp: tcp::Receiver::new(transport),
            unread: VecDeque::new(),
            unread_segments: 0,
            limiter: Limiter::default(),
            read_at: u64::MAX,
            edge: transport.control.tcp().map_or(0, |config| config.receive_window),
            arrived: Vec::new(),
        }
    }

    /// Takes segments: the number of the first, their count, and the load of the last one.
    pub(crate) fn segments(
        &mut self,
        stamp: u32,
        (seq, count, load): (u32, u32, Option<Load<F>>),
        transport: &Transport,
    ) -> AckNeed {
        let last = seq + count - 1;
        let mut need = AckNeed::None;
        for seq in seq..last {
            need = need.max(self.tcp.segment(stamp, (seq, None), transport, &mut self.arrived));
        }
        need = need.max(self.tcp.segment(stamp, (last, load), transport, &mut self.arrived));
        for load in self.arrived.drain(..) {
            self.unread_segments += load.segments;
            self.unread.push_back(load);
        }
        need
    }

    /// Reads as much as the rate limit allows; messages go to `deliver` in order.
    pub(crate) fn read(&mut self, now: u64, rate: u64, transport: &Transport, deliver: &mut Vec<F>) -> Heard {
        let mut heard = Heard::default();
        if self.read_at != u64::MAX && now < self.read_at {
            return heard;
        }
        self.read_at = u64::MAX;
        while let Some(load) = self.unread.front() {
            if let Err(until) = self.limiter.admit(now, rate) {
                self.read_at = until;
                break;
            }
            self.limiter.count(now, load.plain);
            heard.ping |= load.ping;
            heard.pong |= load.pong;
            deliver.extend(load.messages.iter().cloned());
            self.unread_segments -= load.segments;
            self.unread.pop_front();
            rewind(&mut self.unread);
        }
        heard.window_opened = self.window_opened(transport);
        heard
    }

    /// Returns the window in packets, now and with nothing unread; 0 if there is none.
    fn window(&self, transport: &Transport) -> (u32, u32) {
        let most = transport.control.tcp().map_or(0, |config| config.receive_window);
        (most.saturating_sub(self.unread_segments), most)
    }

    /// Returns true if the window was half closed and is twice as wide now (`tcp_cleanup_rbuf` in
    /// Linux).
    fn window_opened(&self, transport: &Transport) -> bool {
        let told = self.edge.saturating_sub(self.tcp.next);
        let (window, most) = self.window(transport);
        2 * told <= most && window > 0 && window >= 2 * told
    }

    /// Returns the acknowledgement that a departing packet carries.
    pub(crate) fn acknowledge(&mut self, now: u64, transport: &Transport) -> Ack {
        let (window, _) = self.window(transport);
        let ack = Ack { window, ..self.tcp.acknowledge(now, transport) };
        self.edge = ack.ack + window;
        ack
    }
}
